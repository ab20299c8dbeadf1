/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/wire.h"

extern char **environ;

/* Run START's program, called NAME in ps(1), with SOCK as PF_CHANNEL_FD and ERR_FD as its
 * output. */
static int spawn(const struct pf_process_start *start, char *const *env, char *name,
		 int sock, int err_fd, pid_t *ret, struct pf_err *err)
{
	char *program = start->program;
	char parent[16];
	char *argv[] = { program, name, parent, NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none, all;
	pid_t pid;
	int r;

	snprintf(parent, sizeof(parent), "%d", (int)getpid());
	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&attr);
	sigemptyset(&none);
	sigfillset(&all);
	/* The daemon blocks and ignores signals that a worker must not. */
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	/* Its own group, so that Ctrl-C at a daemon in the foreground signals the daemon only. */
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_adddup2(&fa, err_fd, 1);
	posix_spawn_file_actions_adddup2(&fa, err_fd, 2);
	posix_spawn_file_actions_adddup2(&fa, sock, PF_CHANNEL_FD);
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	r = posix_spawn(&pid, program, &fa, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&fa);
	if (r)
		return pf_err_set(err, -r, "start %s: %s", program, strerror(r));
	*ret = pid;
	return 0;
}

/*
 * Make a socket pair (0 the daemon's, 1 the worker's) and a pipe for what the worker prints (2
 * the daemon's, which does not block, 3 the worker's).  The caller closes all that are not -1.
 */
static int make_fds(int fds[4], struct pf_err *err)
{
	int high;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) ||
	    pipe2(fds + 2, O_CLOEXEC))
		return pf_err_set(err, -errno, "sockets for a worker: %s",
				  strerror(errno));
	fcntl(fds[2], F_SETFL, O_NONBLOCK);
	/* Of equal descriptors dup2(2) would not clear close-on-exec. */
	if (fds[1] > PF_CHANNEL_FD)
		return 0;
	high = fcntl(fds[1], F_DUPFD_CLOEXEC, PF_CHANNEL_FD + 1);
	if (high < 0)
		return pf_err_set(err, -errno, "sockets for a worker: %s",
				  strerror(errno));
	close(fds[1]);
	fds[1] = high;
	return 0;
}

int pf_process_spawn(const struct pf_process_start *start, char *const *env, char *name,
		     struct pf_process *ret, struct pf_err *err)
{
	int fds[4] = { -1, -1, -1, -1 };
	int r = make_fds(fds, err);

	if (r == 0)
		r = spawn(start, env, name, fds[1], fds[3], &ret->pid, err);
	if (r == 0) {
		ret->sock = fds[0];
		ret->err_fd = fds[2];
		fds[0] = fds[2] = -1;
	}
	for (int i = 0; i < 4; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return r;
}

size_t pf_process_drain(const struct pf_process *process, struct pf_plugin_log *log)
{
	char text[32 << 10];
	size_t done = 0;
	ssize_t n = 1;

	while (done < PF_PROCESS_AT_ONCE && n > 0) {
		n = read(process->err_fd, text, sizeof(text));
		if (n > 0)
			pf_plugin_log_add(log, text, (size_t)n);
		done += n > 0 ? (size_t)n : 0;
	}
	return done;
}

void pf_process_reap(struct pf_process *process, const char *name,
		     struct pf_plugin_log *log, struct pf_err *why)
{
	int status = 0;

	kill(process->pid, SIGKILL);
	while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR)
		;
	pf_process_drain(process, log);
	pf_plugin_log_end(log);
	close(process->sock);
	close(process->err_fd);
	if (WIFSIGNALED(status))
		pf_err_set(why, -EIO, "the worker of plugin %s died of signal %d (%s)",
			   name, WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		pf_err_set(why, -EIO, "the worker of plugin %s exited with status %d",
			   name, WEXITSTATUS(status));
}

/* The set-up text for the worker, as JSON; with MODE (NULL: what C says) as the mode of the sandbox.
 * NULL: no memory. */
static struct json_object *make_setup(const struct pf_worker_config *c, const char *mode)
{
	struct json_object *sandbox =
		c->sandbox ? pf_json_copy(c->sandbox) : json_object_new_object();
	struct json_object *o = json_object_new_object();

	pf_json_add_int(o, "version", PF_WIRE_VERSION);
	pf_json_add_string(o, "plugin", c->path);
	pf_json_add_copy(o, "options", c->options);
	pf_json_add_int(o, "arena_size", (int64_t)pf_arena_size(c->arena));
	pf_json_add_int(o, "pool_size", (int64_t)c->pool_size);
	pf_json_add_copy(o, "group", c->group);
	if (c->no_client)
		pf_json_add(o, "no_client", json_object_new_boolean(true));
	if (mode)
		pf_json_add_string(sandbox, "sandbox", mode);
	pf_json_add(o, "sandbox", sandbox);
	if (pf_json_complete(o))
		return o;
	json_object_put(o);
	return NULL;
}

bool pf_process_is_sandboxed(const struct pf_process_start *start)
{
	struct json_object *sandbox = json_object_object_get(start->setup, "sandbox");

	return strcmp(pf_json_get_string(sandbox, "sandbox"), "off") != 0;
}

/* Does ENV name VARIABLE, which is as in environ(7)? */
static bool names(struct json_object *env, const char *variable)
{
	size_t len = strcspn(variable, "=");

	json_object_object_foreach(env, key, value) {
		(void)value;
		if (strlen(key) == len && !memcmp(key, variable, len))
			return true;
	}
	return false;
}

char **pf_process_environ(const struct pf_process_start *start)
{
	struct json_object *env = start->env;
	size_t n = 0, used = 0;
	char **list;
	bool ok = true;

	while (environ[n])
		n++;
	if (env)
		n += (size_t)json_object_object_length(env);
	list = calloc(n + 1, sizeof(*list));
	if (!list)
		return NULL;
	for (char **p = environ; *p && ok; p++)
		if (!env || !names(env, *p))
			ok = (list[used++] = strdup(*p)) != NULL;
	if (env) {
		json_object_object_foreach(env, key, value)
			if (ok && value)
				ok = asprintf(&list[used++], "%s=%s", key,
					      json_object_get_string(value)) >= 0;
	}
	if (ok)
		return list;
	list[used - 1] = NULL; /* asprintf(3) leaves it undefined */
	pf_process_environ_free(list);
	return NULL;
}

void pf_process_environ_free(char **env)
{
	for (char **p = env; p && *p; p++)
		free(*p);
	free(env);
}

char *pf_process_setup(const struct pf_process_start *start, enum pf_client_need client,
		       const char *why, const struct pf_library *const *libraries,
		       unsigned n)
{
	struct json_object *o = pf_json_copy(start->setup);
	char *text;

	if (!o)
		return NULL;
	if (n)
		pf_json_add(o, "libraries", pf_libraries_json(libraries, n));
	if (client)
		pf_json_add_int(o, "client", client);
	if (client == PF_CLIENT_NONE)
		pf_json_add_string(o, "why", why);
	text = pf_json_text_copy(o);
	json_object_put(o);
	return text;
}

int pf_process_start_init(struct pf_process_start *start,
			  const struct pf_worker_config *config)
{
	struct json_object *sorted = config->options ? pf_json_sorted(config->options)
						     : json_object_new_object();
	bool asked = json_object_object_get_ex(config->sandbox, "sandbox", NULL);
	char program[PATH_MAX];

	pf_find_installed("pjrtfs-worker", PKGLIBEXECDIR, program, sizeof(program));
	start->program = strdup(config->program ? config->program : program);
	start->options = sorted ? pf_json_text_copy(sorted) : NULL;
	json_object_put(sorted);
	/* A member of a group starts only once, and plugins that have groups have drivers. */
	start->setup = make_setup(config, config->group && !asked ? "device" : NULL);
	if (!config->group && !asked)
		start->looser = make_setup(config, "device");
	start->env = pf_json_copy(config->env);
	return start->program && start->options && start->setup &&
			       !start->env == !config->env
		       ? 0
		       : -ENOMEM;
}

void pf_process_start_release(struct pf_process_start *start)
{
	json_object_put(start->env);
	free(start->program);
	json_object_put(start->setup);
	json_object_put(start->looser);
	free(start->options);
}
