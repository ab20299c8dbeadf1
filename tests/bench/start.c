/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start-up times: from the command pjrtfs to its mount, and one execution from a shell,
 * compared with a process that loads the plugin and does the same itself.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "direct.h"

/* The direct process: MODE is "load" or "add". */
static int be_direct(const char *mode, const char *plugin)
{
	direct_open(plugin);
	if (!strcmp(mode, "add")) {
		printf("%g\n", (double)direct_add(direct_compile(bench_add), 2, 3));
		fflush(stdout);
	}
	_exit(0);
}

static double direct(const char *mode, const char *want)
{
	static char self[4096];
	char text[64];
	double t;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		bench_die("/proc/self/exe: %s", strerror(errno));
	t = bench_run((const char *[]){ self, "--direct", mode, bench.plugin, NULL },
		      text, sizeof(text));
	if (strcmp(text, want))
		bench_die("direct: 2 + 3 = %s", text);
	return t;
}

/* What SCRIPT takes; its output begins with WANT. */
static double shell(const char *script, const char *want)
{
	char text[256];
	double t = bench_run((const char *[]){ "bash", "--norc", "-c", script, NULL },
			     text, sizeof(text));

	if (strncmp(text, want, strlen(want)))
		bench_die("%s: '%s' instead of '%s'", script, text, want);
	return t;
}

/* --- rows ---------------------------------------------------------------------------------- */

static double start_direct(void)
{
	return direct("load", "");
}

/* The mount stays until the next round, or for the rows that use it. */
static double start_mount(void)
{
	double t;

	bench_stop_daemon();
	t = bench_now();
	bench_start_daemon();
	return bench_now() - t;
}

/* Compile and upload, as cp does. */
static double first_use(void)
{
	double t = bench_now();

	bench_put_add();
	return bench_now() - t;
}

static double once_direct(void)
{
	return direct("add", "5\n");
}

/* What a shell does for a row; %s: the mount. */
static const struct {
	const char *script, *want;
} scripts[] = {
	{ ":", "" },
	{ "cd %s/executables/add; echo 'x y -> z' > run; read -r l < run; echo \"$l\"",
	  "ok: z F32[]" },
};

static double once(void)
{
	const char *script = scripts[bench_which].script, *mount = strstr(script, "%s");
	int before = mount ? (int)(mount - script) : 0;
	char text[512];

	if (mount)
		snprintf(text, sizeof(text), "%.*s%s%s", before, script, bench.mnt,
			 mount + 2);
	return shell(mount ? text : script, scripts[bench_which].want);
}

static struct bench_table table = {
	.title = "Start, and one execution from a shell",
	.rows = {
		{ "direct process: load the plugin", start_direct, .base = "to direct load" },
		{ "pjrtfs: from the command to the mount", start_mount },
		{ "mount: compile add, put x and y", first_use },
		{ "direct process: load, compile, execute", once_direct,
		  .base = "to direct process", .apart = true },
		{ "bash -c :", once, .which = 0 },
		{ "bash: echo > run; read < run", once, .which = 1 },
	},
};

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "--direct"))
		return be_direct(argv[2], argv[3]);
	bench_begin(argc, argv);
	table.in_order = true; /* rows that use the mount follow the one that makes it */
	bench_prepare(&table, 1, 9);
	bench_mount();
	bench_rounds(&table, 0, table.rounds);
	bench_print(&table);
	return 0;
}
