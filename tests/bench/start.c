/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start-up times: from the command pjrtfs to its mount, and one execution from a shell,
 * compared with a process that loads the plugin and does the same itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "direct.h"

static const char add[] =
	"module @add {\n"
	"  func.func public @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
	"    %0 = stablehlo.add %a, %b : tensor<f32>\n"
	"    return %0 : tensor<f32>\n"
	"  }\n"
	"}\n";

enum { LOOPS = 50, CHILD_S = 60 };

static struct bench b;
static char self[4096];

/* Run ARGV, whose output goes to TEXT; the seconds it took. */
static double run(char *const argv[], char *text, size_t size)
{
	double t = bench_now();
	size_t len = 0;
	ssize_t n;
	int fds[2], status;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		bench_die("no pipe");
	pid = fork();
	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	if (pid == 0) {
		alarm(CHILD_S);
		dup2(fds[1], 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(fds[1]);
	while (len + 1 < size && (n = read(fds[0], text + len, size - len - 1)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	waitpid(pid, &status, 0);
	t = bench_now() - t;
	close(fds[0]);
	if (status)
		bench_die("%s ended with status %d", argv[0], status);
	return t;
}

static double direct(const char *mode)
{
	char *argv[] = { self, "--direct", (char *)(uintptr_t)mode,
			 (char *)(uintptr_t)b.plugin, NULL };
	char text[64];
	double t = run(argv, text, sizeof(text));

	if (!strcmp(mode, "add") && strcmp(text, "5\n"))
		bench_die("direct: 2 + 3 = %s", text);
	return t;
}

/* The direct process. */
static int be_direct(const char *mode, const char *plugin)
{
	const float x = 2, y = 3;
	PJRT_Buffer *arguments[2];
	float z;

	direct_open(plugin);
	if (!strcmp(mode, "add")) {
		arguments[0] = direct_upload(&x, 0, true);
		arguments[1] = direct_upload(&y, 0, true);
		direct_read(direct_execute(direct_compile(add), arguments, 2), &z,
			    sizeof(z));
		printf("%g\n", (double)z);
		fflush(stdout);
	}
	_exit(0);
}

/* --- rows ---------------------------------------------------------------------------------- */

static double start_direct(void *arg)
{
	(void)arg;
	return direct("load");
}

/* The mount stays until the next round, or for the rows that use it. */
static double start_mount(void *arg)
{
	double t;

	(void)arg;
	bench_stop_daemon(&b);
	t = bench_now();
	bench_start_daemon(&b);
	return bench_now() - t;
}

static double once_direct(void *arg)
{
	(void)arg;
	return direct("add");
}

static double shell(const char *script, const char *want)
{
	char *argv[] = { "bash", "--norc", "-c", (char *)(uintptr_t)script, NULL };
	char text[256];
	double t = run(argv, text, sizeof(text));

	if (strncmp(text, want, strlen(want)))
		bench_die("%s: '%s' instead of '%s'", script, text, want);
	return t;
}

static char script_once[512], script_loop[512], script_cat[512], script_file[512];

static double once_true(void *arg)
{
	(void)arg;
	return shell(":", "");
}

static double once_shell(void *arg)
{
	(void)arg;
	return shell(script_once, "ok: z F32[]");
}

static double once_loop(void *arg)
{
	(void)arg;
	return shell(script_loop, "ok: z F32[]") / LOOPS;
}

static double once_file(void *arg)
{
	(void)arg;
	return shell(script_file, "x y -> z") / LOOPS;
}

static double once_cat(void *arg)
{
	(void)arg;
	return shell(script_cat, "5\n");
}

/* Compile and upload, as cp does. */
static double first_use(void *arg)
{
	static const float values[2] = { 2, 3 };
	static const char *const names[2] = { "buffers/x.npy", "buffers/y.npy" };
	double t = bench_now();

	(void)arg;
	bench_put(bench_path(&b, "programs/add.mlir"), add);
	for (int i = 0; i < 2; i++) {
		struct {
			char header[BENCH_NPY];
			float value;
		} npy = { .value = values[i] };
		int fd = bench_open(bench_path(&b, names[i]),
				    O_WRONLY | O_CREAT | O_TRUNC);

		bench_npy_header(npy.header, 0);
		bench_write(fd, &npy, sizeof(npy), sizeof(npy));
		if (close(fd))
			bench_die("%s was refused", names[i]);
	}
	return bench_now() - t;
}

static void make_scripts(void)
{
	snprintf(
		script_once, sizeof(script_once),
		"cd %s/executables/add; echo 'x y -> z' > run; read -r l < run; echo \"$l\"",
		b.mnt);
	snprintf(
		script_loop, sizeof(script_loop),
		"cd %s/executables/add; for ((i = 0; i < %d; i++)); do echo 'x y -> z' > run; "
		"read -r l < run; done; echo \"$l\"",
		b.mnt, LOOPS);
	snprintf(
		script_file, sizeof(script_file),
		"f=/dev/shm/${0##*/}-$$; for ((i = 0; i < %d; i++)); do echo 'x y -> z' > $f; "
		"read -r l < $f; done; rm $f; echo \"$l\"",
		LOOPS);
	snprintf(script_cat, sizeof(script_cat),
		 "cd %s; echo 'x y -> z' > executables/add/run; cat buffers/z.txt",
		 b.mnt);
}

int main(int argc, char **argv)
{
	struct bench_table t = { .title = "Start, and one execution from a shell" };
	unsigned one;

	if (argc == 4 && !strcmp(argv[1], "--direct"))
		return be_direct(argv[2], argv[3]);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		bench_die("/proc/self/exe: %s", strerror(errno));
	bench_begin(&b, argc, argv);
	t.rounds = b.rounds ? b.rounds : b.quick ? 1 : 9;
	one = bench_add(&t, "direct process: load the plugin", start_direct, 0);
	bench_compare(&t, one, "to direct load");
	bench_add(&t, "pjrtfs: from the command to the mount", start_mount, 0);
	bench_add(&t, "mount: compile add, put x and y", first_use, 0);
	t.group++;
	one = bench_add(&t, "direct process: load, compile, execute", once_direct, 0);
	bench_compare(&t, one, "to direct process");
	bench_add(&t, "bash -c :", once_true, 0);
	bench_add(&t, "bash: echo > run; read < run", once_shell, 0);
	bench_add(&t, "bash: echo > run; cat z.txt", once_cat, 0);
	t.group++;
	bench_add(&t, "in bash's loop: echo > run; read < run", once_loop, 0);
	one = bench_add(&t, "in bash's loop: the same with a tmpfs file", once_file, 0);
	bench_compare(&t, one, "to tmpfs file");
	bench_prepare(&t);

	bench_mount(&b);
	make_scripts();
	/* In order: rows that use the mount follow the one that makes it. */
	for (unsigned r = 0; r < t.rounds; r++)
		for (unsigned i = 0; i < t.n_rows; i++)
			t.rows[i].sample[r] = t.rows[i].run(NULL);
	bench_print(&t);
	return 0;
}
