/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pjrtfs-worker: the only process that loads plugins.
 *
 * The daemon starts it as "pjrtfs-worker NAME PID" with a socket on PF_CHANNEL_FD, sends
 * the set-up text with three descriptors (channel, arena, pool), and gets a description of
 * the plugin's devices back; then requests come through the channel.  On the way the process
 * gives up the rights that it no longer needs (sandbox.c).  It ends with the daemon, without a
 * message.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"
#include "pins.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"
#include "pjrtfs/shm.h"
#include "sandbox.h"

enum { FD_CHANNEL, FD_ARENA, FD_POOL, N_FDS, FD_LIBRARIES = N_FDS };

static struct pf_server server;
static struct pf_sandbox sandbox;
static atomic_int status; /* the exit status when the daemon hangs up */

/* The daemon's set-up text; strings and objects are borrowed from its JSON. */
struct setup {
	struct json_object *json; /* owned */
	const char *plugin;
	struct json_object *options;
	struct json_object *libraries; /* or NULL */
	struct json_object *group;     /* or NULL */
	bool no_client;
	enum pf_client_need client;
	const char *why; /* of PF_CLIENT_NONE */
	uint64_t arena_size, pool_size;
};

/* Have the kernel kill this process when the daemon dies, which may have happened
 * already. */
static void tie_to_parent(const char *parent)
{
	static const int ignored[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
				       SIGUSR2, SIGALRM, SIGXCPU, SIGPIPE };
	char *end;
	long pid = strtol(parent, &end, 10);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (*parent == '\0' || *end != '\0' || getppid() != (pid_t)pid)
		_exit(0);
	/* Launchers signal every process of a job: that is for the daemon, which ends this one with
	 * SIGKILL. */
	for (size_t i = 0; i < PF_ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
}

/* Where the daemon reads the heartbeat; NULL until the channel is mapped. */
static _Atomic uint64_t *_Atomic beats;

/* After the set-up the daemon sends a byte to a member of a group that it ends in order, else nothing. */
static void *await_daemon_end(void *unused)
{
	struct pollfd p = { .fd = PF_CHANNEL_FD, .events = POLLIN | POLLRDHUP };
	char byte;

	(void)unused;
	for (;;) {
		_Atomic uint64_t *counter = atomic_load(&beats);
		ssize_t n;

		if (counter)
			atomic_fetch_add(counter, 1);
		if (poll(&p, 1, PF_HEARTBEAT_MS) <= 0)
			continue;
		n = recv(PF_CHANNEL_FD, &byte, 1, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			_exit(atomic_load(&status));
		if (n > 0)
			pf_group_leave();
		if (n > 0)
			_exit(0);
	}
	return NULL;
}

static int start_awaiting_daemon(struct pf_err *err)
{
	pthread_t thread;
	int r = pthread_create(&thread, NULL, await_daemon_end, NULL);

	if (r)
		return pf_err_set(err, -r, "start a thread: %s", strerror(r));
	pthread_detach(thread);
	return 0;
}

static int parse_setup(const struct pf_buf *text, struct setup *ret, struct pf_err *err)
{
	struct json_object *json, *version, *plugin, *arena, *pool;
	int r = pf_json_parse(text->data ? text->data : "", text->len, &json, err);

	if (r < 0)
		return pf_err_wrap(err, r, "the set-up text");
	version = pf_json_get(json, "version", json_type_int);
	plugin = pf_json_get(json, "plugin", json_type_string);
	arena = pf_json_get(json, "arena_size", json_type_int);
	pool = pf_json_get(json, "pool_size", json_type_int);
	ret->json = json;
	if (version && json_object_get_int(version) != PF_WIRE_VERSION)
		return pf_err_set(
			err, -EPROTO,
			"the daemon speaks version %d to its worker, this is %d: they "
			"are not of one build",
			json_object_get_int(version), PF_WIRE_VERSION);
	if (!version || !plugin || !arena || !pool || json_object_get_int64(arena) < 0 ||
	    json_object_get_int64(pool) < 0)
		return pf_err_set(err, -EPROTO,
				  "the set-up text lacks what the worker needs");
	ret->plugin = json_object_get_string(plugin);
	ret->options = pf_json_get(json, "options", json_type_object);
	ret->libraries = pf_json_get(json, "libraries", json_type_array);
	ret->group = pf_json_get(json, "group", json_type_object);
	ret->no_client = json_object_get_boolean(
		pf_json_get(json, "no_client", json_type_boolean));
	ret->client = (enum pf_client_need)json_object_get_int(
		pf_json_get(json, "client", json_type_int));
	ret->why = pf_json_get_string(json, "why");
	ret->arena_size = (uint64_t)json_object_get_int64(arena);
	ret->pool_size = (uint64_t)json_object_get_int64(pool);
	r = pf_sandbox_parse(pf_json_get(json, "sandbox", json_type_object), &sandbox,
			     err);
	sandbox.network = ret->group != NULL;
	return r;
}

static int map_all(const struct setup *setup, int *fds, struct pf_err *err)
{
	void *arena;
	int r = 0;

	for (int i = 0; i < N_FDS; i++)
		if (fds[i] < 0)
			r = pf_err_set(err, -EPROTO, "the set-up text lacks descriptors");
	if (r == 0)
		r = pf_channel_map(&server.channel, fds[FD_CHANNEL], err);
	atomic_store(&beats, server.channel.beats);
	if (r == 0)
		r = pf_shm_map(fds[FD_ARENA], setup->arena_size, PROT_READ, &arena, err);
	if (r == 0) {
		server.arena = arena;
		server.arena_size = setup->arena_size;
	}
	if (r == 0)
		r = pf_pool_setup(fds[FD_POOL], setup->pool_size, err);
	for (int i = 0; i < N_FDS; i++)
		pf_closep(&fds[i]);
	return r;
}

static int describe(struct pf_err *err)
{
	struct json_object *json = pf_describe(server.plugin, server.client);

	if (json) {
		json_object_object_add(json, "sandbox", pf_sandbox_json(&sandbox));
		pf_ffi_describe(json);
	}
	return pf_server_send(json, err);
}

/* The plugin failed with ERR, perhaps because of the sandbox. */
static void add_sandbox(struct pf_err *err)
{
	if (sandbox.mode != PF_SANDBOX_OFF)
		pf_err_blame_sandbox(err);
}

/* Do without a client, as told. */
static int compile_only(const char *why, struct pf_err *err)
{
	int r = pj_topology_check(server.plugin, false, err);

	if (r < 0)
		return pf_err_wrap(err, r, "compile only");
	return pj_client_none(server.plugin, why, &server.client, err);
}

/* The plugin made no client, as ERR says: may it do without, as far as NEED allows that? */
static bool is_compiler(enum pf_client_need need, const struct pf_err *err)
{
	/* An option that it refuses is a mistake, and no sign that there is no device. */
	return need == PF_CLIENT_OPTIONAL && err->pjrt_code >= 0 &&
	       err->code != -EINVAL && pj_topology_check(server.plugin, true, NULL) == 0;
}

static int make_client(const struct setup *setup, const struct pj_store *store,
		       struct pf_err *err)
{
	int r;

	if (setup->client == PF_CLIENT_NONE)
		return compile_only(setup->why, err);
	r = pj_client_new(server.plugin, setup->options, store, &server.client, err);
	if (r == 0)
		return 0;
	add_sandbox(err);
	if (is_compiler(setup->client, err))
		r = pj_client_none(server.plugin, err->text, &server.client, err);
	return r;
}

static int set_up(struct setup *setup, struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	int fds[N_FDS + PF_WIRE_LIBRARIES];
	const struct pj_store *store;
	int r = pf_channel_recv(PF_CHANNEL_FD, &text, fds, N_FDS + PF_WIRE_LIBRARIES, -1,
				err);

	if (r == 0)
		r = parse_setup(&text, setup, err);
	/* One thread until the sandbox is "loaded": Landlock's rules hold for the thread that
	 * makes them, and for those that it starts later. */
	if (r == 0)
		r = pf_group_open(setup->group, err);
	if (r == 0) {
		pf_ffi_prepare(setup->libraries);
		r = pf_sandbox_enter(&sandbox, setup->plugin, err);
	}
	if (r == 0) {
		pf_pool_interpose();
		/* No line per option that a plugin takes; warnings, which explain an abort, stay. */
		setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0);
		r = pj_plugin_load(setup->plugin, &server.plugin, err);
		if (r < 0)
			add_sandbox(err);
	}
	if (r == 0)
		r = pf_ffi_load(server.plugin, setup->libraries, fds + FD_LIBRARIES, err);
	if (r == 0)
		pf_callbacks_set_up(&server);
	for (int i = 0; i < PF_WIRE_LIBRARIES; i++)
		pf_closep(&fds[FD_LIBRARIES + i]);
	if (r == 0)
		r = pf_sandbox_loaded(&sandbox, err);
	if (r == 0)
		r = start_awaiting_daemon(err);
	if (r == 0)
		r = map_all(setup, fds, err);
	if (r == 0)
		r = pf_group_join(&store, err);
	if (r == 0 && !setup->no_client)
		r = make_client(setup, store, err);
	if (r == 0 && server.client) {
		pf_pins_set_up(server.client);
		r = pf_group_made(server.client, err);
	}
	return r;
}

int main(int argc, char **argv)
{
	struct setup setup = { 0 };
	struct pf_err err = PF_ERR_INIT;
	int r;

	if (argc != 3) {
		fprintf(stderr, "pjrtfs-worker: the pjrtfs program starts it\n");
		return 2;
	}
	tie_to_parent(argv[2]);
	(void)fcntl(PF_CHANNEL_FD, F_SETFD, FD_CLOEXEC);
	/* execve(2) closed the daemon's own descriptors, but not those that it inherited. */
	(void)close_range(PF_CHANNEL_FD + 1, ~0U, 0);
	pf_objects_init(&server.objects);
	server.name = argv[1];
	r = set_up(&setup, &err);
	if (r == -EPIPE && !server.plugin)
		return 0;
	if (r < 0) {
		atomic_store(&status, 1);
		_exit(pf_server_fail(&err));
	}
	r = describe(&err);
	while (setup.no_client && r == 0)
		pause(); /* until the daemon has seen enough */
	if (r == 0)
		r = pf_sandbox_tighten(&sandbox, &err);
	if (r == 0)
		r = pf_server_run(&server, &err);
	fprintf(stderr, "pjrtfs-worker: %s\n", err.text);
	_exit(1);
}
