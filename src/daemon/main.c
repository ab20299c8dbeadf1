/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pjrtfs: starts the mount and the workers, serves, and stops them.
 *
 * Several processes begin here.  With --run the first one waits for a command, and its child goes on
 * (command.c).  Of a mount in the background the first one waits until it is served, and its child goes on.
 * That one holds the mount (holder.c), and starts the daemon with the same command line and $PJRTFS_HELD;
 * or, where none is to hold it, is the daemon.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/arena.h"
#include "pjrtfs/base.h"
#include "pjrtfs/discover.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/files.h"
#include "pjrtfs/fuse.h"
#include "pjrtfs/json.h"
#include "pjrtfs/tree.h"
#include "pjrtfs/restore.h"
#include "pjrtfs/shm.h"
#include "pjrtfs/state.h"

/*
 * Address space for one worker's results; only pages in use take memory.  Four times the RAM
 * leaves room for fragmentation.
 */
static uint64_t pool_size(void)
{
	uint64_t size = memory_limit_ram() * 4, least = UINT64_C(32) << 30;

	return size > least ? size : least;
}

enum {
	FINISH_MS = 5000,
	FETCH_S =
		60, /* for arrays that only a device has, before another process takes over */
	TALKS_MS = 5000,  /* for conversations that are under way then */
	STATE_MS = 30000, /* for what is not in the state directory at the end */
};

/* The objects of a running mount. */
struct daemon {
	struct options *options;
	struct pf_fs_config config; /* its objects are owned */
	struct pf_worker *workers[MAX_PLUGINS];
	struct pf_failed_plugin failed[MAX_PLUGINS];
	struct pf_fs *fs;
	struct pf_mount *mount;
	char *const *argv;
	bool notified;   /* a holder or a service manager gets messages */
	bool held;       /* a process holds the descriptors if this one ends */
	bool background; /* the holder is in the background */
	int log;         /* owned: the file of a mount in the background, or -1: syslog */
	int ready;       /* owned: gets a byte when the mount is served, or -1 */
	bool unusable;   /* what the process before has left */
	bool follows_death;         /* the process before has died */
	struct pf_deaths deaths;    /* of all before */
	bool resumed;               /* it serves the mount of an earlier process, */
	struct pf_restore *restore; /* whose store is this, while it comes back */
	int device;                 /* of that mount, until it is resumed; or -1 */
	char *state_dir;            /* owned: an absolute path, or NULL */
	char *changes; /* owned: the options that differ from the defaults; or NULL */
	struct pf_plugin_ops plugins;
	struct served served; /* their argument */
	struct pf_reply
		*_Atomic changed; /* answered when the next daemon takes over; or NULL */
	_Atomic bool serves; /* all workers have been started, and the mount is there */
	sigset_t signals;    /* that signal_main takes */
	siginfo_t signal;    /* the one that ended the mount; si_signo 0: none */
};

static int complain(const struct pf_err *err)
{
	pf_log(PF_LOG_ERROR, "%s", err->text);
	return EXIT_FAILED;
}

static int refuse(const struct pf_err *err)
{
	complain(err);
	return EXIT_USAGE;
}

/* --- start and end ------------------------------------------------------------------------- */

/* P has not started, for the reason WHY; PRINTED, what it printed, is taken. */
static void note_failed(struct daemon *d, const struct pf_candidate *p,
			struct pf_buf *printed, const struct pf_err *why)
{
	d->failed[d->config.n_failed++] = (struct pf_failed_plugin){
		.name = p->name,
		.path = p->path,
		.options = pf_json_text(p->options),
		.printed = *printed,
		.why = *why,
	};
}

/* Of several plugins some have not started: the mount has the others, if there are any. */
static void log_failed(const struct daemon *d)
{
	for (unsigned i = 0; i < d->config.n_failed; i++) {
		const struct pf_failed_plugin *f = &d->failed[i];

		if (d->config.n_workers)
			pf_log(PF_LOG_WARNING, "the mount is without plugin %s: %s",
			       f->name, f->why.text);
		else if (d->config.n_failed > 1)
			pf_log(PF_LOG_ERROR, "plugin %s: %s", f->name, f->why.text);
	}
}

static bool has_ended_group(const struct daemon *d)
{
	for (unsigned i = 0; i < d->config.n_workers; i++)
		if (pf_worker_in_group(d->workers[i]) &&
		    pf_worker_state(d->workers[i]) == PF_WORKER_FAILED)
			return true;
	return false;
}

/* If a plugin's group has ended, the command of --run may be of no use any more. */
static void plugin_failed(void *arg)
{
	struct daemon *d = arg;

	if (d->options->run && atomic_load(&d->serves) && has_ended_group(d))
		command_fail();
}

/* WORKER has started: note whether it has a client. */
static void note_started(struct pf_worker *worker)
{
	const char *why = pf_worker_description(worker)->compiler;

	libraries_report(worker);
	if (why)
		pf_log(PF_LOG_WARNING, "plugin %s: compiler: no device here (%s)",
		       pf_worker_name(worker), why);
	else
		plugins_note_client(pf_worker_name(worker));
}

/* Are there arrays, perhaps, and no device any more, because a plugin that had one has failed? */
static bool has_lost_devices(const struct daemon *d)
{
	bool lost = false;

	for (unsigned i = 0; i < d->config.n_workers; i++)
		if (!pf_worker_description(d->workers[i])->compiler)
			return false;
	for (unsigned i = 0; i < d->config.n_failed; i++)
		lost = lost || plugins_had_client(d->failed[i].name);
	return lost;
}

static int start_workers(struct daemon *d, struct pf_err *err)
{
	struct pf_worker_config config;

	for (unsigned i = 0; i < d->options->n_plugins; i++) {
		const struct pf_candidate *p = &d->options->plugins[i];
		struct pf_worker **worker = &d->workers[d->config.n_workers];
		struct pf_buf printed = PF_BUF_INIT;
		int r = plugin_choice_config(p, &config, err);

		config.arena = d->config.arena;
		config.libraries = d->config.libraries;
		config.pool_size = pool_size();
		config.telemetry = d->config.telemetry;
		config.limits = (struct pf_worker_limits){
			.silent_s = d->options->worker_timeout_s,
			.execute_s = d->options->execute_timeout_s,
			.transfer_s = d->options->transfer_timeout_s,
		};
		config.own_most = d->options->isolate_max;
		config.own_idle_s = d->options->isolate_idle_s;
		plugin_choice_start_timeout(&config, d->options);
		if (config.group) /* it waits for the others, too */
			config.start_timeout_ms +=
				(int)d->options->group_timeout_s * 1000;
		plugins_require_client(&config);
		config.on_failed = plugin_failed;
		config.arg = d;
		config.printed = &printed;
		r = r < 0 ? r : pf_worker_new(&config, worker, err);
		if (r < 0 && p->found)
			pf_err_wrap(err, r, "%s", p->found);
		if (r < 0) {
			note_failed(d, p, &printed, err);
			continue;
		}
		d->config.n_workers++;
		note_started(*worker);
		pf_compiler_warm(d->config.compiler, *worker);
	}
	log_failed(d);
	plugin_choice_warn(d->options);
	if (d->config.n_failed > 1 && !d->config.n_workers)
		return pf_err_set(err, -ENODEV, "none of %u plugins could be started",
				  d->config.n_failed);
	if (!d->config.n_workers)
		return pf_err_wrap(err, err->code, "plugin %s", d->failed[0].name);
	if (has_lost_devices(d))
		return pf_err_set(err, -ENODEV, "no plugin has a device any more");
	return 0;
}

static void warn(void *arg, const char *text)
{
	(void)arg;
	pf_log(PF_LOG_WARNING, "%s", text);
}

/* Without a cache programs compile anew in every mount. */
static int start_compiler(struct daemon *d, struct pf_err *err)
{
	const struct options *o = d->options;
	pf_autofree char *dir = o->no_cache ? NULL : options_cache_dir(o);
	struct pf_cache_config cache = { .dir = dir,
					 .max = o->cache_size,
					 .read_only = o->cache_readonly,
					 .warn = warn };
	struct pf_compiler_config compiler = { .owner = getuid(),
					       .jobs = o->compile_jobs,
					       .timeout_s = o->compile_timeout_s };
	struct json_object *defaults = o->settings.compile_options;
	struct pf_err why = PF_ERR_INIT;

	if (!dir && !o->no_cache)
		pf_log(PF_LOG_WARNING, "no cache: there is no home directory for one");
	if (dir && pf_cache_open(&cache, &d->config.cache, &why) < 0)
		pf_log(PF_LOG_WARNING, "no cache: %s", why.text);
	compiler.cache = d->config.cache;
	compiler.options = defaults ? pf_json_text(defaults) : NULL;
	return pf_compiler_new(&compiler, &d->config.compiler, err);
}

static void usage(void *arg, struct pf_usage *ret)
{
	struct daemon *d = arg;

	pf_arena_usage(d->config.arena, &ret->used, &ret->limit);
	ret->files = pf_tree_count(pf_fs_tree(d->fs));
}

/* --- what earlier processes have left ------------------------------------------------------- */

/* Take over the memory of the process before, whose journal is *STATE: it is taken if it is whole. */
static int take_memory(struct daemon *d, int *state, struct pf_err *err)
{
	struct pf_kept kept[MAX_DESCRIPTORS];
	unsigned n = descriptors_list(kept);
	int r = pf_state_open(*state, err);

	if (r < 0)
		return r;
	*state = -1;
	r = pf_restore_begin(kept, n, d->options->memory_limit, &d->config.arena,
			     &d->restore, err);
	if (r < 0) {
		pf_state_close();
		return r;
	}
	atomic_fetch_add(pf_state_counter(PF_STATE_COUNT_LIFE), 1);
	return 0;
}

/*
 * Begin with what the holder has kept, if that is usable.  Else nothing of it is: the mount, which
 * no process serves any more, is replaced by a new one, and that is logged.
 */
static int begin_memory(struct daemon *d, struct pf_err *err)
{
	pf_autoclose int state = descriptors_take("state");
	struct pf_err why = PF_ERR_INIT;
	int r;

	d->device = descriptors_take("fuse");
	if (d->held)
		pf_shm_set_keeper(descriptors_store, descriptors_remove);
	if (state >= 0 && d->device >= 0 && take_memory(d, &state, &why) == 0) {
		d->resumed = true;
		descriptors_close();
		return 0;
	}
	if (d->device >= 0)
		pf_log(PF_LOG_WARNING, "%s is mounted anew, without its files%s%s",
		       d->options->mountpoint, why.code ? ": " : "", why.text);
	pf_closep(&d->device);
	descriptors_forget();
	r = d->held ? pf_state_open(-1, err) : 0;
	if (r == 0)
		r = pf_arena_new(d->options->memory_limit, &d->config.arena, err);
	if (r == 0 && d->held)
		pf_arena_keep(d->config.arena);
	return r;
}

/* --- plugins that change ---------------------------------------------------------------------- */

static void restart(void *arg, struct pf_reply *reply)
{
	struct daemon *d = pf_container_of(arg, struct daemon, served);
	struct pf_reply *none = NULL;

	/* Of two at a time the first one waits. */
	if (reply && !atomic_compare_exchange_strong(&d->changed, &none, reply))
		pf_reply_code(reply, 0);
	kill(getpid(), SIGUSR2);
}

static void suspended(void *arg)
{
	struct daemon *d = arg;
	struct pf_reply *reply = atomic_exchange(&d->changed, NULL);

	if (reply)
		pf_reply_code(reply, 0);
}

static void set_plugin_ops(struct daemon *d)
{
	d->served = (struct served){ d->options, &d->config };
	d->plugins = (struct pf_plugin_ops){ .arg = &d->served,
					     .available = plugins_available,
					     .add_library = libraries_register,
					     .can_change = d->held,
					     .check_name = pf_plugin_name_check,
					     .try = plugins_try,
					     .note = plugins_note,
					     .is_added = plugins_is_added,
					     .forget = plugins_forget,
					     .restart = restart };
}

/* The holder's report on the processes before. */
static void take_deaths(struct daemon *d)
{
	const char *text = getenv(DIED);
	long long last;
	int now, at = 0;

	if (!text || sscanf(text, "%u %lld %d %n", &d->deaths.n, &last, &now, &at) < 3)
		return;
	d->deaths.last = last;
	d->follows_death = now;
	snprintf(d->deaths.how, sizeof(d->deaths.how), "%s", text + at);
	unsetenv(DIED);
}

static int start(struct daemon *d, struct pf_err *err)
{
	const struct options *o = d->options;
	struct pf_fs_config *fs = &d->config;
	struct pf_mount_config mount = {
		.mountpoint = o->mountpoint,
		.source = o->source ? o->source : o->plugins[0].name,
		.options = (const char *const *)o->fuse.at,
		.device = -1,
		.debug = o->debug,
		.drops_names = o->isolate,
		.usage = usage,
		.suspended = suspended,
		.death = d->deaths.how,
		.arg = d,
	};
	int r;

	*fs = (struct pf_fs_config){
		.workers = d->workers,
		.plugins = &d->plugins,
		.failed = d->failed,
		.deaths = d->deaths,
		.mountpoint = pf_mount_fd(o->mountpoint) < 0 ? o->mountpoint : NULL,
		.state_dir = d->state_dir,
		.allow_native = o->allow_native,
		.isolate = o->isolate,
		.abandoned_ms = o->abandoned_s * UINT64_C(1000),
		.flags_for_all = (const char *const *)o->flags_for_all.at,
		.quotas = (const char *const *)o->quotas.at,
		.uid = getuid(),
		.gid = getgid(),
		.shared_mode = o->mode        ? o->mode
			       : o->has_group ? 02775
					      : 0755,
		.shared_gid = o->has_group ? o->group : getgid(),
	};
	set_plugin_ops(d);
	r = begin_memory(d, err);
	if (r == 0)
		r = plugins_restore(d->options, err);
	if (r == 0 && !(fs->telemetry = pf_telemetry_new(getuid(), 0, 0)))
		r = pf_err_set(err, -ENOMEM, "no memory");
	if (r == 0)
		r = libraries_open(o, &fs->libraries, err);
	if (r == 0)
		r = start_compiler(d, err);
	if (r == 0)
		r = start_workers(d, err);
	if (r == 0)
		r = pf_fs_new(fs, &d->fs, err);
	if (r < 0)
		return r;
	if (d->resumed)
		r = pf_fs_restore(d->fs, d->restore, err);
	pf_restore_end(pf_steal(&d->restore));
	if (r == 0)
		r = pf_fs_keep(d->fs, err);
	if (r == 0 && d->follows_death)
		pf_fs_report_death(d->fs, pf_fuse_operation);
	mount.tree = pf_fs_tree(d->fs);
	mount.device = d->device;
	if (r == 0)
		r = pf_mount_new(&mount, &d->mount, err);
	d->unusable = r == -EPROTO;
	return r;
}

/*
 * The mount ends first, so that no request waits for an ending object; pf_compiler_finish
 * writes compiled programs to the cache; pf_worker_stop ends the processes, and thereby
 * answers each call under way; then the objects that these answers need are freed.
 */
static void stop(struct daemon *d, int status)
{
	plugins_stop();
	pf_mount_free(d->mount);
	manager_end();
	pf_fs_finish(d->fs, STATE_MS);
	if (d->config.compiler)
		pf_compiler_finish(d->config.compiler, FINISH_MS);
	for (unsigned i = 0; i < d->config.n_workers; i++)
		pf_worker_stop(d->workers[i]);
	/* Its worker ends with this process. */
	if (pf_fs_is_changing())
		_exit(status);
	pf_fs_stop(d->fs);
	pf_compiler_stop(d->config.compiler);
	pf_fs_free(d->fs);
	pf_compiler_free(d->config.compiler);
	for (unsigned i = 0; i < d->config.n_workers; i++)
		pf_worker_free(d->workers[i]);
	pf_libraries_free(d->config.libraries);
	for (unsigned i = 0; i < d->config.n_failed; i++)
		pf_buf_release(&d->failed[i].printed);
	plugins_end();
	pf_cache_close(d->config.cache);
	pf_telemetry_free(d->config.telemetry);
	pf_arena_free(d->config.arena);
	pf_state_close();
}

/* --- signals -------------------------------------------------------------------------------- */

static void *signal_main(void *arg)
{
	struct daemon *d = arg;
	siginfo_t info;
	int sig;

	do {
		sig = sigwaitinfo(&d->signals, &info);
		if (sig == SIGUSR2 && !d->held)
			pf_log(PF_LOG_WARNING,
			       "SIGUSR2: no process holds the mount: it is not restarted");
	} while (sig < 0 || sig == SIGHUP || sig == SIGUSR1 ||
		 (sig == SIGUSR2 && !d->held));
	if (sig == SIGUSR2) {
		unsigned lost = pf_fs_fetch(d->fs, NULL, FETCH_S);

		pf_mount_settle(d->mount, TALKS_MS);
		/* … and what the last conversations have made. */
		if (!lost)
			lost = pf_fs_fetch(d->fs, NULL, FETCH_S);
		if (lost)
			pf_log(PF_LOG_WARNING,
			       "%u arrays stay on their devices, and are lost", lost);
		pf_mount_suspend(d->mount);
	} else {
		if (sig == SIGINT || sig == SIGTERM)
			d->signal = info;
		pf_mount_stop(d->mount);
	}
	return NULL;
}

/* A terminal that closes sends SIGHUP, and does not end a mount; SIGUSR2 has another process take
 * over; SIGRTMIN ends signal_main, and with --run the mount.  Threads inherit the mask, so
 * signal_main alone takes these: call this before any thread starts. */
static void block_signals(struct daemon *d)
{
	static const int taken[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
	bool runs = d->options->run;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&d->signals);
	sigaddset(&d->signals, SIGRTMIN);
	for (size_t i = 0; i < PF_ARRAY_SIZE(taken) && !runs; i++)
		sigaddset(&d->signals, taken[i]);
	pthread_sigmask(SIG_BLOCK, &d->signals, NULL);
}

/* --- background ------------------------------------------------------------------------------ */

/* Close the descriptors that the caller left open, but KEPT (-1: none): a lock or the end of a pipe is not
 * to last as long as the mount.  This program's own are closed on exec. */
static void close_inherited(int kept)
{
	DIR *dir = opendir("/proc/self/fd");

	for (struct dirent *e; dir && (e = readdir(dir));) {
		int fd = atoi(e->d_name);
		int flags = fcntl(fd, F_GETFD);

		if (fd > STDERR_FILENO && fd != kept && flags >= 0 &&
		    !(flags & FD_CLOEXEC))
			close(fd);
	}
	if (dir)
		closedir(dir);
}

/*
 * Start a background process.  False in that one, which writes a byte to *READY when it has mounted; else
 * true, once it has mounted or failed, with the exit status in *STATUS.
 */
static bool start_background(const char *mountpoint, int *ready, int *status)
{
	struct stat st;
	int fds[2];
	char ok = 0;
	pid_t pid;

	*status = EXIT_FAILED;
	pid = pipe2(fds, O_CLOEXEC) ? -1 : fork();
	if (pid < 0) {
		pf_log(PF_LOG_ERROR, "no background process: %s", strerror(errno));
		return true;
	}
	if (pid == 0) {
		close(fds[0]);
		close_inherited(pf_mount_fd(mountpoint));
		*ready = fds[1];
		return false;
	}
	close(fds[1]);
	/* stat waits until the child serves requests. */
	if (read(fds[0], &ok, 1) != 1)
		waitpid(pid, NULL, 0);
	else if (pf_mount_fd(mountpoint) >= 0 || stat(mountpoint, &st) == 0)
		*status = EXIT_OK;
	return true;
}

/* --- the log ---------------------------------------------------------------------------------- */

static void log_start(const struct daemon *d)
{
	const struct options *o = d->options;
	pf_autobuf struct pf_buf plugins = PF_BUF_INIT;

	for (unsigned i = 0; i < d->config.n_workers; i++) {
		const struct pf_description *w = pf_worker_description(d->workers[i]);
		const char *name = pf_worker_name(d->workers[i]);
		const struct pf_candidate *p = candidate_find(o, name);
		const char *found = p && p->found ? p->found : "";

		pf_buf_printf(&plugins, "%s%s (%s%sAPI %d.%d, ", i ? ", " : "", name,
			      found, *found ? ", " : "", w->api_major, w->api_minor);
		if (w->compiler)
			pf_buf_puts(&plugins, "compiler)");
		else
			pf_buf_printf(&plugins, "%u devices)", w->n_devices);
	}
	pf_log(PF_LOG_INFO,
	       "pjrtfs " PACKAGE_VERSION " serves %s: %s; memory limit %" PRIu64
	       " bytes; options: %s",
	       o->mountpoint, plugins.data ? plugins.data : "", o->memory_limit,
	       d->changes ? d->changes : "not known");
}

/* Others may use the mount, and create no file in it. */
static void warn_of_mode(const struct options *o)
{
	if (words_has(&o->fuse, "allow_other") && !o->mode)
		pf_log(PF_LOG_WARNING,
		       "allow_other: other users can read, but create nothing: "
		       "-o mode=1777 lets them");
}

static void log_end(const struct daemon *d)
{
	const siginfo_t *s = &d->signal;
	const char *name = s->si_signo == SIGINT ? "SIGINT" : "SIGTERM";

	if (!s->si_signo)
		pf_log(PF_LOG_INFO, "%s ends: it was unmounted", d->options->mountpoint);
	else if (s->si_code == SI_KERNEL)
		pf_log(PF_LOG_INFO, "%s ends: %s from the terminal",
		       d->options->mountpoint, name);
	else
		pf_log(PF_LOG_INFO, "%s ends: %s from process %d of user %u",
		       d->options->mountpoint, name, (int)s->si_pid, (unsigned)s->si_uid);
}

static int serve(struct daemon *d)
{
	bool leaves = d->background || (d->ready >= 0 && !d->options->run);
	struct pf_err err = PF_ERR_INIT;
	pthread_t signals;
	int r;

	if (d->held && !d->resumed) {
		descriptors_store("fuse", pf_mount_device(d->mount));
		descriptors_store("state", pf_state_fd());
	}
	if (d->notified) {
		struct manager_config manager = { .mountpoint = d->options->mountpoint,
						  .workers = d->workers,
						  .n_workers = d->config.n_workers,
						  .failed = d->failed,
						  .n_failed = d->config.n_failed,
						  .reports = !d->background };

		if (manager_start(&manager, &err) < 0)
			return complain(&err);
	}
	if (pthread_create(&signals, NULL, signal_main, d)) {
		pf_err_set(&err, -EAGAIN, "no thread for signals");
		return complain(&err);
	}
	if (d->ready >= 0 && write(d->ready, "1", 1) != 1)
		pf_log(PF_LOG_WARNING, "nobody waits for the mount");
	pf_closep(&d->ready);
	if (leaves)
		holder_leave_terminal(d->log);
	if (leaves && !d->notified)
		setsid();
	log_start(d);
	if (!d->resumed)
		warn_of_mode(d->options);
	atomic_store(&d->serves, true);
	plugin_failed(d);
	r = pf_mount_run(d->mount, &err);
	pthread_kill(signals, SIGRTMIN);
	pthread_join(signals, NULL);
	if (r > 0)
		return EXIT_AGAIN;
	descriptors_notify("STOPPING=1");
	if (d->held) {
		/* A service manager keeps them else until its service is stopped. */
		descriptors_remove("fuse");
		descriptors_remove("state");
	}
	if (r == 0)
		log_end(d);
	return r < 0 ? complain(&err) : EXIT_OK;
}

/* Is a process to hold the mount?  1; 0; -EINVAL: it cannot. */
static int wants_holder(const struct options *o, struct pf_err *err)
{
	const char *with = NULL;

	if (o->run || o->no_keep || o->group_url ||
	    (!o->keep && o->foreground && !getenv("FDSTORE")))
		return 0;
	if (pf_mount_fd(o->mountpoint) >= 0)
		with = "a mount point /dev/fd/N";
	else if (words_has(&o->fuse, "auto_unmount"))
		with = "auto_unmount, which unmounts when the daemon dies";
	if (with && o->keep)
		return pf_err_set(err, -EINVAL, "--keep cannot be combined with %s",
				  with);
	return !with;
}

/*
 * Become the daemon, or the process that holds the mount.  True in the daemon; else false when this
 * process is done, with the exit status in *STATUS.
 */
static bool become_daemon(struct daemon *d, int *status)
{
	const struct options *o = d->options;
	const char *held = getenv(HELD);
	struct pf_err err = PF_ERR_INIT;
	int wants = wants_holder(o, &err);

	d->background = held && !strcmp(held, "background");
	unsetenv(HELD);
	take_deaths(d);
	if (wants < 0) {
		*status = refuse(&err);
		return false;
	}
	if (!held && !o->foreground && !o->run &&
	    start_background(o->mountpoint, &d->ready, status))
		return false;
	d->notified = (held || o->foreground) && descriptors_begin();
	d->held = wants;
	if (held || !wants)
		return true;
	*status = holder_run(d->argv, o->mountpoint, d->notified, d->ready, d->log);
	return false;
}

/* The mount of an earlier process may be gone, or impossible to resume: then the next process mounts
 * anew.  All else, a plugin that does not start, say, may pass.  The exit status. */
static int not_started(const struct daemon *d, const struct pf_err *err)
{
	complain(err);
	if (d->resumed && err->code == -ENOTCONN) {
		descriptors_forget();
		return EXIT_OK;
	}
	if (d->resumed && d->unusable)
		descriptors_remove("state");
	return d->resumed ? EXIT_AGAIN : EXIT_FAILED;
}

/* Open the log of a mount in the background; without one that the user names, syslog does. */
static int open_log(struct daemon *d, struct pf_err *err)
{
	pf_autofree char *path = options_log_file(d->options);

	if (!path)
		return 0;
	if (!d->options->log_file)
		pf_make_parents(path);
	d->log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	if (d->log < 0 && d->options->log_file)
		return pf_err_set(err, -errno, "log file %s: %s", path, strerror(errno));
	return 0;
}

/* Add to ERR, why an option of the mount was refused, which one may have been meant. */
static void add_hint(const struct options *o, struct pf_err *err)
{
	char hint[PF_SIMILAR_TEXT] = "";
	struct pf_err was = *err;

	if (!strstr(was.text, "unknown option"))
		return;
	for (char **word = o->fuse.at; *word && !*hint; word++)
		options_similar(*word, IN_MOUNT, hint);
	pf_err_set(err, was.code, "%s%s", was.text, hint);
}

/* Mount and serve.  The exit status. */
static int run(struct daemon *d)
{
	const struct options *o = d->options;
	struct pf_err err = PF_ERR_INIT;
	int status;

	if (o->debug)
		pf_log_setup(PF_LOG_DEBUG, false);
	/* Check the mount before any plugin is started. */
	if (pf_mount_check(&(struct pf_mount_config){ .mountpoint = o->mountpoint,
						      .options = (const char *const *)
									 o->fuse.at },
			   &err) < 0) {
		add_hint(o, &err);
		return refuse(&err);
	}
	if (!o->foreground && !o->run && open_log(d, &err) < 0)
		return refuse(&err);
	if (!become_daemon(d, &status))
		return status;
	block_signals(d);
	status = start(d, &err) < 0 ? not_started(d, &err) : serve(d);
	/* Another process goes on: nothing may be freed, as threads may still run. */
	if (status == EXIT_AGAIN)
		_exit(status);
	stop(d, status);
	return status;
}

/* Find all that the options name, and that the daemon needs.  -errno: it cannot be used. */
static int settle(struct daemon *d, struct pf_err *err)
{
	struct options *o = d->options;
	int r = 0;

	if (!o->mountpoint && !o->check_plugin && !o->estimate)
		return 0;
	/* Relative paths start from the directory that the daemon leaves later. */
	d->changes = options_changes(o);
	if (o->state_dir)
		d->state_dir = pf_absolute_path(o->state_dir);
	/* First: of two words that are exchanged, the last one is no directory. */
	if (o->mountpoint)
		r = cmdline_find_mountpoint(o, err);
	if (r == 0)
		r = plugin_choice(o, answer_minor, err);
	if (r == 0 && o->mountpoint)
		r = group_settle(o, err);
	return r;
}

int main(int argc, char **argv)
{
	struct options options;
	struct daemon d = {
		.options = &options, .argv = argv, .device = -1, .ready = -1, .log = -1
	};
	struct pf_err err = PF_ERR_INIT;
	int r, status;
	bool runs;

	pf_log_setup(PF_LOG_INFO, false);
	r = cmdline_parse(argc, argv, &options, &err);
	pf_log_set_format(options.log_format);
	if (r == 0)
		r = group_take_password(&options, &err);
	runs = r == 0 && options.run;
	if (runs && command_run(&options, &d.ready, &status)) {
		options_release(&options);
		return status;
	}
	if (r == 0)
		r = settle(&d, &err);
	if (r < 0)
		status = refuse(&err);
	else
		status = options.mountpoint ? run(&d) : answer(&options);
	if (runs)
		command_end();
	if (runs && d.ready >= 0)
		status = EXIT_NOT_MOUNTED;
	free(d.changes);
	free(d.state_dir);
	options_release(&options);
	return status;
}
