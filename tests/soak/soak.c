/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of all kinds, and faults, in one mount.
 *
 *     soak --mount DIR [--seconds N] [--seed N] [--plugin NAME] [--faulty]
 *          [--faults NAME,...] [--kinds NAME,...] [--cache DIR]
 *
 * The mount has --mode 1777, and -o allow_other if root runs this; --faulty: also the faulty
 * plugin, which aborts the compile of what has "soak_abort" in it.  --faults names those of
 * client, kill, stop, memory, disk, force, abort, silent, daemon that happen; disk fills the
 * disk of the folder --cache, and daemon needs a mount that outlives its daemon.  The exit
 * status is 0 if no answer was wrong and all memory and descriptors were given back.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "soak.h"

struct state *all;
struct client *me;
struct options opt = {
	.plugin = "cpu",
	.faults = "client,kill,stop,memory,force,abort",
};

const struct kind kinds[] = {
	{ "files", 4, false, NULL, files_step, NULL },
	{ "mmap", 2, false, mmap_begin, mmap_step, NULL },
	{ "attributes", 1, false, NULL, attributes_step, NULL },
	{ "foreign", 1, false, NULL, foreign_step, NULL },
	{ "lister", 1, false, NULL, lister_step, NULL },
	{ "renamer", 1, false, NULL, renamer_step, NULL },
	{ "facts", 1, true, NULL, facts_step, NULL },
	{ "events", 1, true, events_begin, events_step, NULL },
	{ "control", 2, true, open_control, control_step, NULL },
	{ "run", 2, false, NULL, run_step, NULL },
	{ "call", 2, false, NULL, call_step, NULL },
	{ "batch", 2, false, open_control, batch_step, NULL },
	{ "jobs", 2, false, open_control, jobs_step, NULL },
	{ "checkpoints", 1, false, NULL, checkpoints_step, NULL },
	{ "shards", 1, false, open_control, shards_step, shards_end },
	{ "compile", 2, false, compile_begin, compile_step, compile_begin },
	{ "faulty plugin", 1, false, NULL, faulty_step, NULL },
	{ "host", 2, false, host_begin, host_step, host_end },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

__attribute__((__noreturn__)) static void die(const char *what)
{
	fprintf(stderr, "soak: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- what the clients need ---------------------------------------------------------- */

static void make_directory(const char *path, uid_t uid)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		die(path);
	if (uid != getuid() && chown(path, uid, (gid_t)-1))
		die(path);
}

static void make_directories(const struct client *c)
{
	make_directory(path_of("programs/c%u", c->index), c->uid);
	for (unsigned i = 0; i < DEVICES; i++)
		make_directory(path_of("devices/%s/%u/buffers/c%u", opt.plugin, i,
				       c->index),
			       c->uid);
}

static void make_file(const char *path, const void *data, size_t len)
{
	int err = write_file(path, O_CREAT, data, len, len);

	if (err) {
		errno = err;
		die(path);
	}
}

bool in_list(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = list; (at = strstr(at, name)); at += len)
		if ((at == list || at[-1] == ',') && (!at[len] || at[len] == ','))
			return true;
	return false;
}

static void make_clients(void)
{
	bool root = getuid() == 0;

	for (unsigned k = 0; k < KINDS; k++) {
		if ((kinds[k].step == faulty_step && !opt.faulty) ||
		    (kinds[k].step == foreign_step && !root) ||
		    (opt.kinds && !in_list(opt.kinds, kinds[k].name)))
			continue;
		for (unsigned i = 0; i < kinds[k].clients; i++) {
			struct client *c = &all->clients[all->n_clients];

			c->kind = k;
			c->index = all->n_clients++;
			c->uid = root && !kinds[k].root ? USERS + c->index : getuid();
			make_directories(c);
		}
	}
}

static void make_all(void)
{
	make_clients();
	make_directory("buffers/list", getuid());
	if (chmod("buffers/list", 0777))
		die("buffers/list");
	for (unsigned i = 0; i < STABLE; i++)
		make_file(path_of("buffers/list/s%u.raw", i), &i, 1 + i % 4);
	make_file("buffers/secret.raw", "secret", 6);
	if (chmod("buffers/secret.raw", 0600))
		die("buffers/secret.raw");
	programs_make();
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	if (at->level > 0)
		(void)(type == FTW_DP ? rmdir(path) : unlink(path));
	return 0;
}

static void remove_all(void)
{
	nftw("programs", remove_one, 16, FTW_DEPTH | FTW_PHYS);
	nftw("buffers", remove_one, 16, FTW_DEPTH | FTW_PHYS);
	for (unsigned i = 1; i < DEVICES; i++)
		nftw(path_of("devices/%s/%u/buffers", opt.plugin, i), remove_one, 16,
		     FTW_DEPTH | FTW_PHYS);
}

/* --- clients ------------------------------------------------------------------------ */

static void on_alarm(int signal)
{
	(void)signal;
}

/* The names about which a killed client knew nothing certain: see what they are, leave them. */
static void take_over(void)
{
	for (unsigned i = 0; i < THINGS; i++) {
		struct thing *t = thing(i);

		if (thing_certain(t))
			continue;
		thing_check(t);
		thing_leave(t);
	}
}

__attribute__((__noreturn__)) static void live(struct client *c)
{
	struct sigaction act = { .sa_handler = on_alarm }; /* no SA_RESTART */
	const struct kind *kind = &kinds[c->kind];

	me = c;
	setsid(); /* the file error is for each session */
	sigaction(SIGALRM, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (c->uid != getuid() &&
	    (setgroups(0, NULL) || setgid(c->uid) || setuid(c->uid)))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid(2) clears it */
	seed_random(opt.seed * 1000003 + c->index * 1009 + c->lives);
	c->lives++;
	take_over();
	if (kind->begin)
		kind->begin();
	while (!all->stop)
		kind->step();
	if (kind->end)
		kind->end();
	things_end();
	_exit(0);
}

static void begin(struct client *c)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid)
		live(c);
	c->began = 0;
	c->pid = pid;
}

/* Processes that ended: a killed client gets a successor.  How many clients live? */
static unsigned reap(void)
{
	unsigned alive = 0;

	for (unsigned i = 0; i < all->n_clients; i++) {
		struct client *c = &all->clients[i];
		uint64_t began = c->began;
		int status;

		if (c->pid > 0 && waitpid(c->pid, &status, WNOHANG) == c->pid) {
			c->pid = 0;
			if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
				begin(c);
			else if (status)
				wrong("client %u, %s, ended with status %x while at %s",
				      i, kinds[c->kind].name, status, c->doing);
		}
		alive += c->pid > 0;
		if (c->pid > 0 && began &&
		    now_ns() - began > (uint64_t)HANG_SECONDS * 1000000000u) {
			wrong("client %u, %s, hangs: %s", i, kinds[c->kind].name,
			      c->doing);
			all->stop = true;
			all->calm = true;
			kill(c->pid, SIGTERM);
			c->began = 0;
		}
	}
	return alive;
}

/* Let clients and faults work for the time; the seconds that it took. */
static double work(void)
{
	uint64_t begun = all->begun, end = begun + opt.seconds * 1000000000ull;
	unsigned tenth = 1;
	struct measure m;
	pid_t faults;

	for (unsigned i = 0; i < all->n_clients; i++)
		begin(&all->clients[i]);
	faults = fork();
	if (!faults) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		faults_run();
		_exit(0);
	}
	while (now_ns() < end && !all->stop) {
		reap();
		pause_ms(50);
		if (now_ns() - begun > tenth * (end - begun) / 10) {
			measure(&m);
			measure_print(path_of("%u%%", 10 * tenth++), &m);
		}
	}
	all->calm = true;
	while (waitpid(faults, NULL, WNOHANG) == 0) {
		reap();
		pause_ms(50);
	}
	all->stop = true;
	while (reap())
		pause_ms(50);
	return (double)(now_ns() - begun) / 1e9;
}

/* --- the whole ---------------------------------------------------------------------- */

__attribute__((__noreturn__)) static void usage(void)
{
	fputs("usage: soak --mount DIR [option...]\n", stderr);
	exit(2);
}

static void parse(int argc, char **argv)
{
	const char *seconds = "60", *seed = "1";
	const struct {
		const char *name, **value;
	} options[] = {
		{ "--mount", &opt.mount },   { "--seconds", &seconds },
		{ "--seed", &seed },         { "--plugin", &opt.plugin },
		{ "--faults", &opt.faults }, { "--kinds", &opt.kinds },
		{ "--cache", &opt.cache },
	};
	enum { OPTIONS = sizeof(options) / sizeof(options[0]) };
	unsigned k;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--faulty")) {
			opt.faulty = true;
			continue;
		}
		for (k = 0; k < OPTIONS && strcmp(argv[i], options[k].name) != 0; k++)
			;
		if (k == OPTIONS || i + 1 == argc)
			usage();
		*options[k].value = argv[++i];
	}
	if (!opt.mount)
		usage();
	opt.seconds = (unsigned)strtoul(seconds, NULL, 10);
	opt.seed = strtoull(seed, NULL, 10);
}

/* Bytes that stay in use: of the jobs that are kept, with their requests, and of the last 256 names,
 * which only root can have the kernel forget. */
static unsigned long left_over(void)
{
	enum { JOBS = 1000, JOB_BYTES = 4096 + 256, NAMES_BYTES = 1 << 20 };

	return JOBS * JOB_BYTES + (getuid() ? NAMES_BYTES : 0);
}

int main(int argc, char **argv)
{
	struct measure first, last;
	double seconds;

	parse(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		   -1, 0);
	if (all == MAP_FAILED)
		die("mmap");
	umask(022);
	if (chdir(opt.mount))
		die(opt.mount);
	measure(&first);
	make_all();
	all->begun = now_ns();
	seconds = work();
	remove_all();
	for (int i = 0; i < 200; i++) {
		/* Nodes that the kernel remembers are charged to their users. */
		if (i % 20 == 10)
			write_text("/proc/sys/vm/drop_caches", "2\n");
		measure(&last);
		if (last.used <= first.used && last.daemon.fds <= first.daemon.fds)
			break;
		pause_ms(100);
	}
	if (last.used > first.used + left_over())
		wrong("df has %lu bytes in use after all was removed, %lu before",
		      last.used, first.used);
	if (last.daemon.fds > first.daemon.fds)
		wrong("the daemon has %lu descriptors, %lu before", last.daemon.fds,
		      first.daemon.fds);
	return report(&first, &last, seconds) ? 1 : 0;
}
