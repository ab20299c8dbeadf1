/* SPDX-License-Identifier: Apache-2.0 */
/* pjrtfs-bench: how long a program of a mount takes, as a client sees it. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

static const char help[] =
	"usage: pjrtfs-bench [OPTIONS] PROGRAM [INPUT...]\n"
	"\n"
	"Execute a program of a pjrtfs mount many times, and print how long it takes.\n"
	"PROGRAM is a name in the mount's executables/, or the path of a directory there.\n"
	"Each INPUT is the name of a buffer; without any, zeros are sent each time.\n"
	"\n"
	"  -m, --mount DIR      the mount; else that of PROGRAM's path, or $PJRTFS_MOUNT\n"
	"  -n, --runs N         executions of each client that are measured (100)\n"
	"  -w, --warmup N       executions of each client before these (3)\n"
	"  -c, --clients N      clients at the same time (1)\n"
	"  -j, --json           print JSON\n"
	"  -h, --help           print this text\n"
	"  -V, --version        print the version\n";

/* One client's thread. */
struct job {
	struct bench *b;
	pthread_barrier_t
		*gate; /* all pass it when all are warm, and when the time begins */
	struct client *client; /* owned */
	struct times *times;   /* room for b->runs */
	long done;
	uint64_t end;
	struct pf_err err;
	pthread_t thread;
};

static atomic_bool stop; /* a signal came, or a client failed */

static void on_signal(int number)
{
	(void)number;
	stop = true;
}

/* --- the command line -------------------------------------------------------------------- */

/* A count from LEAST to 10^7; false: it is none. */
static bool set_count(long *ret, const char *text, long least)
{
	char *end;

	errno = 0;
	*ret = strtol(text, &end, 10);
	return !errno && end != text && !*end && *ret >= least && *ret <= 10000000;
}

/* Take PROGRAM apart where it is the path of a directory in a mount's executables/. */
static void set_program(struct bench *b, const char *program)
{
	static const char dir[] = "executables/";
	const char *at = program;

	snprintf(b->program, sizeof(b->program), "%s", program);
	while ((at = strstr(at, dir))) {
		size_t len = (size_t)(at - program);
		char mount[sizeof(b->mount)];

		snprintf(mount, sizeof(mount), "%.*s", len ? (int)len : 1,
			 len ? program : ".");
		at += strlen(dir);
		if ((len && program[len - 1] != '/') || tool_check_mount(mount, NULL) < 0)
			continue;
		while (len > 1 && mount[len - 1] == '/')
			mount[--len] = '\0';
		memcpy(b->mount, mount, sizeof(mount));
		snprintf(b->program, sizeof(b->program), "%s", at);
		break;
	}
	for (size_t len = strlen(b->program); len && b->program[len - 1] == '/';)
		b->program[--len] = '\0';
}

/* -1: go on; else the exit status. */
static int read_options(struct bench *b, int argc, char **argv)
{
	static const struct option options[] = {
		{ "mount", 1, NULL, 'm' },   { "runs", 1, NULL, 'n' },
		{ "warmup", 1, NULL, 'w' },  { "clients", 1, NULL, 'c' },
		{ "json", 0, NULL, 'j' },    { "help", 0, NULL, 'h' },
		{ "version", 0, NULL, 'V' }, { 0 },
	};
	const char *mount = getenv("PJRTFS_MOUNT");
	int c;

	while ((c = getopt_long(argc, argv, "m:n:w:c:jhV", options, NULL)) != -1) {
		if (c == 'h' || c == 'V')
			return fputs(c == 'h' ? help : PACKAGE_STRING "\n", stdout) < 0;
		if (c == 'm')
			mount = optarg;
		else if (c == 'j')
			b->json = true;
		else if (c == 'n'   ? !set_count(&b->runs, optarg, 1)
			 : c == 'w' ? !set_count(&b->warmup, optarg, 0)
			 : c == 'c'
				 ? !set_count(&b->clients, optarg, 1) || b->clients > 1024
				 : false)
			return tool_usage("a count is expected, found ", optarg);
		else if (c == '?')
			return 2;
	}
	if (optind == argc)
		return tool_usage("the name of a program is expected", "");
	snprintf(b->mount, sizeof(b->mount), "%s", mount ? mount : "");
	set_program(b, argv[optind]);
	if (!*b->mount)
		return tool_usage("--mount or PJRTFS_MOUNT must name the mount of ",
				  b->program);
	b->inputs = argv + optind + 1;
	b->n_inputs = (unsigned)(argc - optind - 1);
	return -1;
}

/* --- clients ----------------------------------------------------------------------------- */

/* Execute it N times; each run overwrites TIMES[0], or has its own if KEEP. */
static void repeat(struct job *j, long n, bool keep)
{
	struct times warm;

	for (long i = 0; i < n && !stop && !j->err.code; i++) {
		if (client_run(j->client, keep ? &j->times[i] : &warm, &j->err) < 0)
			stop = true;
		else
			j->done += keep;
	}
}

static void *work(void *arg)
{
	struct job *j = arg;

	repeat(j, j->b->warmup, false);
	client_pause(j->client);
	pthread_barrier_wait(j->gate);
	pthread_barrier_wait(j->gate);
	repeat(j, j->b->runs, true);
	j->end = pf_now_ns();
	client_pause(j->client);
	return NULL;
}

/* Add the sums of the event LINE to *CALLS and *SECONDS, if it is about calls of OBJECT. */
static void add_event(const char *line, const char *object, double *calls,
		      double *seconds)
{
	struct json_object *o = NULL, *n, *s;

	if (strstr(line, "\"calls.finished\"") &&
	    pf_json_parse(line, strlen(line), &o, NULL) == 0 &&
	    !strcmp(pf_json_get_string(o, "object"), object) &&
	    json_object_object_get_ex(o, "calls", &n) &&
	    json_object_object_get_ex(o, "device_seconds", &s)) {
		*calls += json_object_get_double(n);
		*seconds += json_object_get_double(s);
	}
	json_object_put(o);
}

/*
 * The mean seconds of N calls on the device, by the events that EVENTS, the mount's `events`, has
 * from its position on; negative: not known.  The mount writes the last event soon after the
 * client's close.
 */
static double mean_execution(const struct bench *b, FILE *events, long n)
{
	pf_autofree char *line = NULL;
	double calls = 0, seconds = 0;
	char object[PATH_MAX + 16];
	size_t size = 0;

	snprintf(object, sizeof(object), "executables/%s", b->program);
	for (int tries = 0; events && calls < (double)n && tries < 50; tries++) {
		if (tries)
			usleep(10000);
		clearerr(events);
		while (getline(&line, &size, events) > 0)
			add_event(line, object, &calls, &seconds);
	}
	return calls >= (double)n ? seconds / calls : -1;
}

/* Start the clients, let them pass the gate together, and wait for their ends. */
static int run_clients(struct bench *b, struct job *jobs, struct result *r,
		       struct pf_err *err)
{
	pthread_barrier_t gate;
	FILE *events = NULL;
	char path[PATH_MAX + 16];
	uint64_t start, end = 0;
	long n;

	snprintf(path, sizeof(path), "%s/events", b->mount);
	pthread_barrier_init(&gate, NULL, (unsigned)b->clients + 1);
	for (n = 0; n < b->clients; n++) {
		jobs[n].gate = &gate;
		if (pthread_create(&jobs[n].thread, NULL, work, &jobs[n])) {
			/* Those that wait at the gate end with the process. */
			return pf_err_set(err, -EAGAIN,
					  "start client %ld of %ld: no thread", n + 1,
					  b->clients);
		}
	}
	pthread_barrier_wait(&gate);
	if (!b->n_inputs && (events = fopen(path, "re")))
		(void)fseek(events, 0, SEEK_END);
	start = pf_now_ns();
	pthread_barrier_wait(&gate);
	for (n = 0; n < b->clients; n++) {
		pthread_join(jobs[n].thread, NULL);
		end = jobs[n].end > end ? jobs[n].end : end;
		if (jobs[n].err.code && !err->code)
			*err = jobs[n].err;
		/* The runs of all clients become one list without gaps. */
		memmove(r->runs + r->n, jobs[n].times,
			(size_t)jobs[n].done * sizeof(*r->runs));
		r->n += jobs[n].done;
	}
	pthread_barrier_destroy(&gate);
	r->seconds = (double)(end - start) / 1e9;
	r->execute = err->code ? -1 : mean_execution(b, events, r->n);
	if (events)
		fclose(events);
	return err->code;
}

/* Measure, and report if all runs succeeded; a signal ends the runs early. */
static int measure(struct bench *b, struct pf_err *err)
{
	struct result r = { .runs = calloc((size_t)(b->clients * b->runs),
					   sizeof(*r.runs)) };
	struct job *jobs = calloc((size_t)b->clients, sizeof(*jobs));
	int status = r.runs && jobs
			     ? 0
			     : pf_err_set(err, -ENOMEM, "no memory for so many runs");

	for (long i = 0; status == 0 && i < b->clients; i++) {
		jobs[i] = (struct job){ .b = b,
					.client = client_new(b, i),
					.times = r.runs + i * b->runs,
					.err = PF_ERR_INIT };
		if (!jobs[i].client)
			status =
				pf_err_set(err, -ENOMEM, "no memory for so many clients");
	}
	if (status == 0)
		status = run_clients(b, jobs, &r, err);
	if (status == 0)
		client_bytes(jobs[0].client, &b->bytes_in, &b->bytes_out);
	for (long i = 0; jobs && i < b->clients; i++)
		client_free(jobs[i].client);
	if (status == 0 && r.n == 0)
		status = pf_err_set(err, -EINTR, "interrupted before the first run");
	if (status == 0)
		status = report(b, &r, err);
	free(jobs);
	free(r.runs);
	return status;
}

/* Read the signature; refuse a program that is not ready. */
static int read_signature(struct bench *b, struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT, state = PF_BUF_INIT,
				 why = PF_BUF_INIT;
	const char *name = b->program;
	int r = tool_check_mount(b->mount, err);

	if (r < 0)
		return r;
	r = tool_read(&state, err, b->mount, "executables/%s/state", name);
	if (r == -ENOENT || r == -ENOTDIR)
		return pf_err_set(err, r, "%s has no program %s", b->mount, name);
	if (r < 0)
		return r;
	if (!strcmp(state.data, "failed\n") &&
	    tool_read(&why, NULL, b->mount, "executables/%s/error", name) == 0 && why.len)
		return pf_err_set(err, -EINVAL, "%s did not compile: %s", name, why.data);
	if (strcmp(state.data, "ready\n") != 0)
		return pf_err_set(err, -EBUSY, "%s is %.*s; expected ready", name,
				  (int)strcspn(state.data, "\n"), state.data);
	r = tool_read(&text, err, b->mount, "executables/%s/signature.json", name);
	if (r == 0)
		r = pf_json_parse(text.data, text.len, &b->signature, err);
	return r < 0 ? pf_err_wrap(err, r, "the signature of %s", name) : 0;
}

int main(int argc, char **argv)
{
	struct bench b = { .runs = 100, .warmup = 3, .clients = 1 };
	struct sigaction once = { .sa_handler = on_signal,
				  .sa_flags = SA_RESTART | SA_RESETHAND };
	struct pf_err err = PF_ERR_INIT;
	int status = read_options(&b, argc, argv);

	if (status >= 0)
		return status;
	/* The runs in progress end after the first signal; the second one ends the process. */
	sigaction(SIGINT, &once, NULL);
	sigaction(SIGTERM, &once, NULL);
	status = read_signature(&b, &err);
	if (status == 0)
		status = measure(&b, &err);
	json_object_put(b.signature);
	if (status == 0 && (fflush(stdout) || ferror(stdout)))
		status =
			pf_err_set(&err, -errno, "print the report: %s", strerror(errno));
	return status ? tool_fail(&err) : 0;
}
