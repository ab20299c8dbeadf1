/* SPDX-License-Identifier: Apache-2.0 */
/* The process that makes faults, after a schedule that the seed determines. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "soak.h"

/* --- what is waited for ------------------------------------------------------------- */

/* Wait until CONDITION(ARG) holds; something is wrong if it does not in time. */
static void wait_until(bool (*condition)(const void *arg), const void *arg,
		       const char *what)
{
	uint64_t end = now_ns() + (uint64_t)HANG_SECONDS * 1000000000u;

	while (!condition(arg)) {
		if (now_ns() > end) {
			wrong("not within %d s: %s", HANG_SECONDS, what);
			return;
		}
		pause_ms(20);
	}
}

struct process {
	const char *plugin; /* NULL: the daemon's */
	long pid;
};

static long worker_pid(const char *plugin)
{
	return file_number(path_of("plugins/%s/pid", plugin));
}

static bool is_another(const void *arg)
{
	const struct process *was = arg;
	const char *plugin = was->plugin ? was->plugin : opt.plugin;
	char text[64];
	long pid;

	if (read_file(path_of("plugins/%s/state", plugin), text, sizeof(text)) < 0 ||
	    strcmp(text, "ready\n") != 0)
		return false;
	pid = was->plugin ? worker_pid(plugin) : file_number("pid");
	return pid > 0 && pid != was->pid;
}

/* Wait until the plugin is ready with another process than PID. */
static void worker_wait(const char *plugin, long pid)
{
	struct process was = { plugin, pid };

	wait_until(is_another, &was, "the plugin is ready");
}

/* Does the process run?  A zombie does not. */
static bool is_running(long pid)
{
	char text[512];
	const char *at;

	if (read_file(path_of("/proc/%ld/stat", pid), text, sizeof(text)) <= 0)
		return false;
	at = strrchr(text, ')');
	return at && at[2] != 'Z' && at[2] != 'X';
}

/* --- the faults --------------------------------------------------------------------- */

/* SIGKILL of a worker. */
static void fault_kill(uint32_t random)
{
	const char *plugin = opt.faulty && random % 4 == 0 ? "faulty" : opt.plugin;
	long pid = worker_pid(plugin);

	if (pid > 0 && !kill((pid_t)pid, SIGKILL))
		worker_wait(plugin, pid);
}

/* A worker that is stopped for less than --worker-timeout: its requests wait. */
static void fault_stop(uint32_t random)
{
	long pid = worker_pid(opt.plugin);

	if (pid <= 0)
		return;
	kill((pid_t)pid, SIGSTOP);
	pause_ms(500 + random % 3500);
	kill((pid_t)pid, SIGCONT);
}

/* A worker that is stopped until the daemon ends it. */
static void fault_silent(uint32_t random)
{
	long pid = worker_pid(opt.plugin);

	(void)random;
	if (pid <= 0)
		return;
	kill((pid_t)pid, SIGSTOP);
	worker_wait(opt.plugin, pid);
}

/* A user's program that makes XLA abort. */
static void fault_abort(uint32_t random)
{
	static const char text[] =
		"func.func @main() -> tensor<4611686018427387904x4611686018427387904xf32> {\n"
		"  %%0 = stablehlo.constant dense<%u.0> : tensor<f32>\n"
		"  %%1 = stablehlo.broadcast_in_dim %%0, dims = [] : (tensor<f32>) -> "
		"tensor<4611686018427387904x4611686018427387904xf32>\n"
		"  return %%1 : tensor<4611686018427387904x4611686018427387904xf32>\n}\n";
	char program[1024], path[64]; /* kept while the worker is awaited */
	long pid = worker_pid(opt.plugin);
	pid_t child;
	int status;

	snprintf(program, sizeof(program), text, random % 1000000);
	snprintf(path, sizeof(path), "programs/abort%u.mlir", random % 1000000);
	child = fork();
	if (!child) {
		if (getuid() == 0 && (setgid(USERS + CLIENTS) || setuid(USERS + CLIENTS)))
			_exit(1);
		_exit(write_file(path, O_CREAT, program, strlen(program), 1024) ? 0 : 1);
	}
	if (waitpid(child, &status, 0) < 0 || status)
		wrong("a program that aborts the plugin was compiled");
	/* The daemon may have refused the program, and the worker lives. */
	worker_wait(opt.plugin, is_running(pid) ? 0 : pid);
	unlink(path);
}

/* A job that its user cancels with force: the daemon ends the worker. */
static void fault_force(uint32_t random)
{
	int fd = talk_open("control");
	char text[64] = "";
	long job = -1, pid = worker_pid(opt.plugin);

	(void)random;
	if (!talk(fd,
		  "{\"op\":\"create\",\"buffer\":\"forced\",\"dtype\":\"S32\",\"shape\":[],"
		  "\"fill\":-1}\n") &&
	    !talk(fd,
		  "{\"op\":\"execute\",\"executable\":\"count\",\"inputs\":[\"forced\"],"
		  "\"outputs\":[\"forced1\",\"forced2\"],\"async\":true}\n"))
		job = reply_number("job");
	for (int i = 0; i < 100 && job > 0 && strcmp(text, "running\n") != 0; i++) {
		pause_ms(20);
		read_file(path_of("jobs/%ld/state", job), text, sizeof(text));
	}
	cause_begins(WORKER);
	if (job > 0)
		talk(fd, "{\"op\":\"cancel\",\"job\":%ld,\"force\":true}\n", job);
	worker_wait(opt.plugin, strstr(reply, "\"restarted\"") ? pid : 0);
	cause_ends(WORKER);
	unlink("buffers/forced.npy");
	unlink("buffers/forced1.npy");
	unlink("buffers/forced2.npy");
	close(fd);
}

/* The disk of the cache is full. */
static void fault_disk(uint32_t random)
{
	static const char block[1 << 16];
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/filler", opt.cache);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		wrong("%s: %s", path, strerror(errno));
		return;
	}
	while (write(fd, block, sizeof(block)) > 0)
		;
	pause_ms(1000 + random % 3000);
	close(fd);
	unlink(path);
}

static bool has_room(const void *arg)
{
	struct statvfs fs;

	(void)arg;
	return !statvfs(".", &fs) && fs.f_bfree * 2 > fs.f_blocks;
}

/* Another user takes the memory that is left, up to the limit. */
static void fault_memory(uint32_t random)
{
	static const unsigned long sizes[] = { 64ul << 20, 8ul << 20, 1ul << 20,
					       1ul << 18 };
	int fd = talk_open("control");
	unsigned n = 0;

	for (unsigned i = 0; i < 4; i++)
		while (!talk(fd,
			     "{\"op\":\"create\",\"buffer\":\"hog%u\",\"dtype\":\"U8\","
			     "\"shape\":[%lu],\"fill\":1}\n",
			     n, sizes[i]))
			n++;
	pause_ms(500 + random % 2000);
	while (n--)
		unlink(path_of("buffers/hog%u.npy", n));
	close(fd);
	wait_until(has_room, NULL, "there is room again");
}

/* A client dies in the middle of something. */
static void fault_client(uint32_t random)
{
	struct client *c = &all->clients[random % all->n_clients];

	if (c->pid > 0)
		kill(c->pid, SIGKILL);
}

/* SIGKILL of the daemon, which what keeps the mount starts again. */
static void fault_daemon(uint32_t random)
{
	struct process was = { NULL, file_number("pid") };

	(void)random;
	if (was.pid > 0 && !kill((pid_t)was.pid, SIGKILL))
		wait_until(is_another, &was, "the daemon is there again");
}

static const struct {
	const char *name;
	unsigned weight;
	void (*make)(uint32_t random);
	enum cause causes[2]; /* that are there meanwhile */
} faults[] = {
	{ "client", 8, fault_client, { NOTHING, NOTHING } },
	{ "kill", 6, fault_kill, { WORKER, NOTHING } },
	{ "stop", 4, fault_stop, { STOPPED, NOTHING } },
	{ "memory", 4, fault_memory, { MEMORY, NOTHING } },
	{ "disk", 3, fault_disk, { DISK, NOTHING } },
	{ "force", 2, fault_force, { NOTHING, NOTHING } }, /* it says when */
	{ "abort", 2, fault_abort, { WORKER, NOTHING } },
	{ "silent", 1, fault_silent, { STOPPED, WORKER } },
	{ "daemon", 3, fault_daemon, { DAEMON, WORKER } },
};
enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

const char *fault_name(unsigned i)
{
	return i < FAULTS ? faults[i].name : NULL;
}

static bool is_chosen(unsigned i)
{
	return in_list(opt.faults, faults[i].name);
}

/* The next one, by weight.  The schedule does not depend on how long faults last. */
static unsigned choose(void)
{
	unsigned sum = 0, at;

	for (unsigned i = 0; i < FAULTS; i++)
		sum += is_chosen(i) ? faults[i].weight : 0;
	at = below(sum);
	for (unsigned i = 0;; i++) {
		unsigned weight = is_chosen(i) ? faults[i].weight : 0;

		if (at < weight)
			return i;
		at -= weight;
	}
}

void faults_run(void)
{
	seed_random(opt.seed);
	while (*opt.faults && !all->calm) {
		unsigned wait = 200 + below(2500), i = choose();
		uint32_t random = below(1u << 30);

		for (; wait > 100 && !all->calm; wait -= 100)
			pause_ms(100);
		if (all->calm)
			break;
		say("fault %s %lu", faults[i].name, all->faults[i]);
		for (unsigned c = 0; c < 2; c++)
			cause_begins(faults[i].causes[c]);
		faults[i].make(random);
		for (unsigned c = 0; c < 2; c++)
			cause_ends(faults[i].causes[c]);
		all->faults[i]++;
		say("fault %s ends", faults[i].name);
	}
}
