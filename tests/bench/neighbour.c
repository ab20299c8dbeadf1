/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a bad neighbour: one user executes in a loop, alone and beside another user whose
 * programs, all different, make the plugin abort; in mounts where both share a process, and where
 * each has one (--isolate=user), by turns.  Needs root, to be two users.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { NEIGHBOUR = 12345 /* a uid */, ROUNDS = 5, SECONDS = 6, QUICK_SECONDS = 1 };

/* The plugin aborts, because the number of elements overflows. */
static const char overflow[] =
	"// %d\n"
	"func.func @main() -> tensor<4611686018427387904x4611686018427387904xf32> {\n"
	"  %%0 = stablehlo.constant dense<1.0> : tensor<f32>\n"
	"  %%1 = stablehlo.broadcast_in_dim %%0, dims = [] : (tensor<f32>) -> "
	"tensor<4611686018427387904x4611686018427387904xf32>\n"
	"  return %%1 : tensor<4611686018427387904x4611686018427387904xf32>\n"
	"}\n";

enum { SHARED, ISOLATED, N_MODES };

/* Two rows for each mode. */
static struct bench_table table = {
	.title = "A neighbour whose programs abort: 'x y -> z', read the reply",
	.rows = {
		{ "one process: alone", .base = "one process, to alone" },
		{ "beside a user whose programs abort" },
		{ "--isolate=user: alone", .base = "isolated, to alone", .apart = true },
		{ "beside a user whose programs abort" },
	},
};
static unsigned failed[N_MODES]; /* executions of the first user */

/* Write one bad program after another, until killed. */
static void __attribute__((__noreturn__)) annoy(void)
{
	const char *path = bench_path("programs/bad.mlir");
	char text[1024];

	if (setgid(NEIGHBOUR) || setuid(NEIGHBOUR))
		_exit(1);
	for (int i = 0;; i++) {
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

		if (fd < 0)
			_exit(1);
		snprintf(text, sizeof(text), overflow, i);
		if (write(fd, text, strlen(text)) < 0 || close(fd) == 0)
			_exit(2); /* it was expected to fail */
	}
}

/* Execute for some seconds; the seconds of an execution.  A worker that ends fails those under
 * way, and the client sends them again. */
static double execute(unsigned mode)
{
	double begin = bench_now(), end = begin + (bench.quick ? QUICK_SECONDS : SECONDS);
	int run = bench_open(bench_path("executables/add/run"), O_RDWR);
	unsigned n = 0;
	char reply[4096];

	while (bench_now() < end) {
		ssize_t got = write(run, "x y -> z\n", 9) == 9
				      ? read(run, reply, sizeof(reply) - 1)
				      : -1;

		if (got < 0) {
			failed[mode]++;
			continue;
		}
		reply[got] = '\0';
		if (!strncmp(reply, "ok:", 3))
			n++;
		else if (!strncmp(reply, "error: EIO", 10))
			failed[mode]++;
		else
			bench_die("run answered %.80s", reply);
	}
	close(run);
	if (!n)
		bench_die("nothing was executed");
	return (bench_now() - begin) / n;
}

static double execute_beside(unsigned mode)
{
	pid_t pid = bench_fork();
	double seconds;
	int status;

	if (!pid)
		annoy();
	seconds = execute(mode);
	if (kill(pid, SIGKILL) || waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		bench_die("the neighbour did not write until it was killed");
	return seconds;
}

/* One round of one mode; its mount takes the place of the one before. */
static void sample(unsigned mode, unsigned round)
{
	bench.isolated = mode == ISOLATED;
	bench_stop_daemon();
	bench_start_daemon();
	bench_put_add();
	table.rows[2 * mode].sample[round] = execute(mode);
	table.rows[2 * mode + 1].sample[round] = execute_beside(mode);
}

int main(int argc, char **argv)
{
	bench_begin(argc, argv);
	if (geteuid()) {
		puts("neighbour: not measured: only root can be two users");
		return 0;
	}
	bench.shared = true;
	bench_prepare(&table, 1, ROUNDS);
	bench_mount();
	if (chmod(bench.dir, 0755))
		bench_die("chmod %s: %s", bench.dir, strerror(errno));
	for (unsigned r = 0; r < table.rounds; r++)
		for (unsigned i = 0; i < N_MODES; i++)
			sample((i + r) % N_MODES, r);
	bench_print(&table);
	printf("executions of the first user that failed with a worker: %u in one process, "
	       "%u isolated\n",
	       failed[SHARED], failed[ISOLATED]);
	return 0;
}
