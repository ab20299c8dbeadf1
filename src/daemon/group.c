/* SPDX-License-Identifier: Apache-2.0 */
/* The group of a plugin's processes: its store, its name, and the number of this process in it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/json.h"

enum { REDIS_PORT = 6379, MAX_PROCESSES = 1024, MAX_SECRET = 4096, NONE = -1 };

static const char scheme[] = "redis://", scheme_tls[] = "rediss://";
static const char expected[] = "expected redis://HOST[:PORT] or rediss://HOST[:PORT]";

/* --- the store ------------------------------------------------------------------------ */

/* *HOST, the caller's, and *PORT of URL; *TLS: it has the scheme for that. */
static int parse_url(const char *url, bool *tls, char **host, int *port,
		     struct pf_err *err)
{
	const char *at, *colon;
	size_t len, host_len;
	bool bracket;
	char *end;

	*tls = !strncmp(url, scheme_tls, strlen(scheme_tls));
	if (!*tls && strncmp(url, scheme, strlen(scheme)) != 0)
		return pf_err_set(err, -EINVAL, "%s, found %.80s", expected, url);
	at = url + strlen(*tls ? scheme_tls : scheme);
	bracket = *at == '[';
	len = host_len = strcspn(at, "/");
	if (memchr(at, '@', len))
		return pf_err_set(err, -EINVAL,
				  "a URL with a password is visible to all users: "
				  "expected redis://HOST[:PORT], and the password in "
				  "--group-secret FILE or PJRTFS_GROUP_PASSWORD");
	*port = REDIS_PORT;
	colon = bracket ? memchr(at, ']', len) : memchr(at, ':', len);
	if (bracket && colon)
		colon++;
	if (colon && colon < at + len && *colon == ':') {
		long number = strtol(colon + 1, &end, 10);

		host_len = (size_t)(colon - at);
		*port = end == at + len && number > 0 && number < 65536 ? (int)number : 0;
	} else if (bracket) {
		host_len = colon ? (size_t)(colon - at) : 0;
	}
	if (!*port || host_len <= 2U * bracket || at[len + (at[len] == '/')])
		return pf_err_set(err, -EINVAL, "%s, found %.80s", expected, url);
	*host = strndup(at + bracket, host_len - 2U * bracket);
	return *host ? 0 : no_memory(err);
}

int group_take_url(struct options *o, const char *url, struct pf_err *err)
{
	pf_autofree char *host = NULL;
	bool tls;
	int port, r = parse_url(url, &tls, &host, &port, err);

	if (r < 0)
		return r;
	free(o->group_url);
	o->group_url = strdup(url);
	return o->group_url ? 0 : no_memory(err);
}

/* Open PATH, which sentences call WHAT.  SECRET: nobody but its owner, this user or root, may read it. */
static int open_file(const char *what, const char *path, bool secret, struct pf_err *err)
{
	pf_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int ret;

	if (fd < 0 || fstat(fd, &st))
		return pf_err_set(err, -errno, "group %s %s: %s", what, path,
				  strerror(errno));
	if (!S_ISREG(st.st_mode))
		return pf_err_set(err, -EINVAL, "group %s %s: it is not a file", what,
				  path);
	if (secret && ((st.st_mode & 077) || (st.st_uid != geteuid() && st.st_uid != 0)))
		return pf_err_set(err, -EPERM,
				  "group %s %s: other users can read it, or own it: "
				  "expected mode 0600",
				  what, path);
	ret = fd;
	fd = -1;
	return ret;
}

/* Read the secret in PATH: *RET, the caller's. */
static int read_secret(const char *path, char **ret, struct pf_err *err)
{
	pf_autoclose int fd = open_file("secret", path, true, err);
	char text[MAX_SECRET + 1];
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, text, sizeof(text));
	if (n < 0)
		return pf_err_set(err, -errno, "group secret %s: %s", path,
				  strerror(errno));
	if (n > MAX_SECRET)
		return pf_err_set(err, -EINVAL,
				  "group secret %s: it has more than %d bytes", path,
				  MAX_SECRET);
	text[n] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	if (!*text)
		return pf_err_set(err, -EINVAL, "group secret %s: it is empty", path);
	*ret = strdup(text);
	explicit_bzero(text, sizeof(text));
	return *ret ? 0 : no_memory(err);
}

int group_take_password(struct options *o, struct pf_err *err)
{
	char *inherited = getenv("PJRTFS_GROUP_PASSWORD");

	if (!inherited)
		return 0;
	o->group_password = strdup(inherited);
	explicit_bzero(inherited, strlen(inherited));
	unsetenv("PJRTFS_GROUP_PASSWORD");
	return o->group_password ? 0 : no_memory(err);
}

/* Add "user" and "password" to GROUP, of O's file, else of the environment. */
static int add_secret(struct json_object *group, const struct options *o,
		      struct pf_err *err)
{
	pf_autofree char *secret = NULL;
	char *colon;
	int r = 0;

	if (o->group_secret)
		r = read_secret(o->group_secret, &secret, err);
	else if (o->group_password && !(secret = strdup(o->group_password)))
		r = no_memory(err);
	if (r < 0 || !secret)
		return r;
	colon = strchr(secret, ':');
	if (colon)
		*colon = '\0';
	if (colon && *secret)
		pf_json_add_string(group, "user", secret);
	pf_json_add_string(group, "password", colon ? colon + 1 : secret);
	explicit_bzero(secret, strlen(secret));
	return 0;
}

/* Add the absolute path of PATH, if it is given, as KEY to GROUP: the worker reads the file. */
static int add_file(struct json_object *group, const char *key, const char *path,
		    bool secret, struct pf_err *err)
{
	pf_autoclose int fd = path ? open_file(key, path, secret, err) : -1;
	pf_autofree char *real = fd >= 0 ? realpath(path, NULL) : NULL;

	if (!path || fd < 0)
		return path ? fd : 0;
	if (!real)
		return pf_err_set(err, -errno, "group %s %s: %s", key, path,
				  strerror(errno));
	pf_json_add_string(group, key, real);
	return 0;
}

static int add_tls(struct json_object *group, const struct options *o, bool tls,
		   struct pf_err *err)
{
	int r;

	if (!tls && (o->group_ca || o->group_cert || o->group_key))
		return pf_err_set(err, -EINVAL,
				  "--group-ca, --group-cert and --group-key are for TLS: "
				  "expected --group rediss://HOST[:PORT], found %s",
				  o->group_url);
	if (!o->group_cert != !o->group_key)
		return pf_err_set(
			err, -EINVAL,
			"expected --group-cert FILE and --group-key FILE, found "
			"one of them");
	pf_json_add(group, "tls", json_object_new_boolean(tls));
	r = add_file(group, "ca", o->group_ca, false, err);
	if (r == 0)
		r = add_file(group, "cert", o->group_cert, false, err);
	return r < 0 ? r : add_file(group, "key", o->group_key, true, err);
}

/* --- which process this is ------------------------------------------------------------ */

/* The variables in which a launcher describes this process. */
static const struct launcher {
	const char *process, *count, *local;
	const char *prefix, *names[4]; /* the group's: prefix-A.B.C */
} launchers[] = {
	{ "SLURM_PROCID",
	  "SLURM_NTASKS",
	  "SLURM_LOCALID",
	  "slurm",
	  { "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT" } },
	{ "OMPI_COMM_WORLD_RANK",
	  "OMPI_COMM_WORLD_SIZE",
	  "OMPI_COMM_WORLD_LOCAL_RANK",
	  "ompi",
	  { "PMIX_NAMESPACE" } },
	{ .process = "JOB_COMPLETION_INDEX" }, /* Kubernetes: an Indexed Job */
};

/* TEXT as a number up to MAX_PROCESSES; NONE: it is none. */
static int number(const char *text)
{
	char *end;
	long n = text && *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : NONE;

	return n >= 0 && n <= MAX_PROCESSES && !*end ? (int)n : NONE;
}

static int variable(const char *name)
{
	return number(name ? getenv(name) : NULL);
}

/* The launcher whose variables are there, or NULL. */
static const struct launcher *find_launcher(void)
{
	for (size_t i = 0; i < PF_ARRAY_SIZE(launchers); i++)
		if (variable(launchers[i].process) != NONE)
			return &launchers[i];
	return NULL;
}

/* Read WORD, [I]/N, or ask L, for the number of this process and how many there are. */
static int find_process(const char *word, const struct launcher *l, int *process,
			int *count, struct pf_err *err)
{
	const char *slash = word ? strchr(word, '/') : NULL;
	pf_autofree char *first = slash ? strndup(word, (size_t)(slash - word)) : NULL;

	*process = l ? variable(l->process) : NONE;
	*count = l ? variable(l->count) : NONE;
	if (word) {
		if (slash && *first)
			*process = number(first);
		*count = slash ? number(slash + 1) : NONE;
		if (!slash || *count < 1 || (*first && *process == NONE) ||
		    *process >= *count)
			return pf_err_set(err, -EINVAL,
					  "group process: expected [I]/N with N from 1 "
					  "to %d and I below N, found %.80s",
					  MAX_PROCESSES, word);
	}
	if (*process == NONE || *count < 1 || *process >= *count)
		return pf_err_set(
			err, -EINVAL,
			"the group needs the number of this process and how many there "
			"are: expected --group-process I/N, or the variables of Slurm, "
			"Open MPI or Kubernetes (JOB_COMPLETION_INDEX, with "
			"--group-process /N)");
	return 0;
}

/* The name of the group of L's job, the caller's; NULL: L does not give one. */
static char *launchers_name(const struct launcher *l)
{
	pf_autobuf struct pf_buf name = PF_BUF_INIT;

	if (!l || !l->prefix || !getenv(l->names[0]))
		return NULL;
	pf_buf_puts(&name, l->prefix);
	for (unsigned i = 0; l->names[i]; i++) {
		const char *part = getenv(l->names[i]);

		pf_buf_printf(&name, "%c%s", i ? '.' : '-', part ? part : "0");
	}
	return name.failed ? NULL : pf_steal(&name.data);
}

static int check_name(const char *name, struct pf_err *err)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < len; i++)
		if (name[i] <= ' ' || name[i] > '~')
			len = 0;
	return len && len <= 200 ? 0
				 : pf_err_set(err, -EINVAL,
					      "group name: expected up to 200 letters, "
					      "digits and signs, found %.80s",
					      name);
}

/* --- the plugin ----------------------------------------------------------------------- */

static void add_option(struct json_object *options, const char *key,
		       struct json_object *value)
{
	if (json_object_object_get_ex(options, key, NULL))
		json_object_put(value);
	else
		pf_json_add(options, key, value);
}

/* As JAX does: https://github.com/jax-ml/jax, jax/_src/xla_bridge.py. */
static void add_options(struct pf_candidate *p, int process, int count, int local)
{
	struct json_object *list;

	if (!p->options)
		p->options = json_object_new_object();
	add_option(p->options, "node_id", json_object_new_int(process));
	add_option(p->options, "num_nodes", json_object_new_int(count));
	if (strncmp(p->name, "cuda", strlen("cuda")))
		return;
	add_option(p->options, "abort_collectives_on_failure",
		   json_object_new_boolean(true));
	list = json_object_new_array();
	json_object_array_add(list, json_object_new_int(local));
	if (local == NONE)
		json_object_put(list);
	else
		add_option(p->options, "visible_devices", list);
}

/* A client of several processes without a group waits for ever for the others. */
static int check_alone(const struct options *o, struct pf_err *err)
{
	for (unsigned i = 0; i < o->n_plugins; i++) {
		struct json_object *n = NULL;

		if (json_object_object_get_ex(o->plugins[i].options, "num_nodes", &n) &&
		    json_object_get_int64(n) > 1)
			return pf_err_set(err, -EINVAL,
					  "plugin %s: num_nodes is %s, but there is no "
					  "group: expected --group redis://HOST[:PORT]",
					  o->plugins[i].name, json_object_get_string(n));
	}
	if (o->group_name || o->group_process || o->group_plugin || o->group_secret ||
	    o->group_ca || o->group_cert || o->group_key)
		return pf_err_set(err, -EINVAL,
				  "a group needs a store: expected --group "
				  "redis://HOST[:PORT]");
	return 0;
}

/* --- all ------------------------------------------------------------------------------ */

static int check_others(const struct options *o, struct pf_err *err)
{
	if (o->keep)
		return pf_err_set(
			err, -EINVAL,
			"expected --keep or --group URL, not both: a member that "
			"ends cannot come back");
	if (o->isolate)
		return pf_err_set(err, -EINVAL,
				  "expected --isolate user or --group URL, not both: a "
				  "group's programs run in one process");
	return 0;
}

int group_settle(struct options *o, struct pf_err *err)
{
	const struct launcher *l = find_launcher();
	pf_autofree char *host = NULL, *name = NULL, *prefix = NULL;
	struct json_object *group;
	struct pf_candidate *p;
	bool tls = false;
	int port, process = NONE, count = NONE, r;

	if (!o->group_url)
		return check_alone(o, err);
	r = check_others(o, err);
	if (r == 0)
		r = parse_url(o->group_url, &tls, &host, &port, err);
	if (r == 0)
		r = find_process(o->group_process, l, &process, &count, err);
	if (r < 0)
		return r;
	name = o->group_name ? strdup(o->group_name) : launchers_name(l);
	if (!name)
		return pf_err_set(err, -EINVAL,
				  "the group needs a name: expected --group-name NAME");
	p = o->group_plugin ? candidate_find(o, o->group_plugin) : &o->plugins[0];
	if (!p)
		return pf_err_set(err, -EINVAL, "group plugin %s is not loaded",
				  o->group_plugin);
	r = check_name(name, err);
	if (r == 0 && p->compile_only)
		r = pf_err_set(err, -EINVAL,
			       "plugin %s cannot both compile only and be the group's",
			       p->name);
	if (r < 0)
		return r;
	if (asprintf(&prefix, "pjrtfs:%s:%s:", name, p->name) < 0)
		prefix = NULL;
	group = p->group = json_object_new_object();
	pf_json_add_string(group, "name", name);
	pf_json_add_string(group, "store", o->group_url);
	pf_json_add_string(group, "host", host);
	pf_json_add_int(group, "port", port);
	pf_json_add_string(group, "prefix", prefix ? prefix : "");
	pf_json_add_int(group, "process", process);
	pf_json_add_int(group, "processes", count);
	pf_json_add_int(group, "timeout", o->group_timeout_s);
	pf_json_add_int(group, "lost", o->group_lost_s);
	add_options(p, process, count, l && l->local ? variable(l->local) : NONE);
	r = add_secret(group, o, err);
	if (r == 0)
		r = add_tls(group, o, tls, err);
	if (r == 0 &&
	    (!prefix || !pf_json_complete(group) || !pf_json_complete(p->options)))
		r = no_memory(err);
	return r;
}
