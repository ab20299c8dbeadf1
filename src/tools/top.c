/* SPDX-License-Identifier: Apache-2.0 */
/* pjrtfs-top: what runs on the devices of a mount. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "top.h"

static const char help[] =
	"usage: pjrtfs-top [OPTIONS] [MOUNT]\n"
	"\n"
	"Show what runs on the devices of a pjrtfs mount, whose it is, and the memory and rates.\n"
	"Without MOUNT, $PJRTFS_MOUNT names it.\n"
	"\n"
	"  -1, --once           print one page as text, and exit\n"
	"  -j, --json           print one page as JSON, and exit\n"
	"  -d, --delay SECONDS  from one page to the next, and of which rates are means (1)\n"
	"  -s, --sort KEY       order of the executables: busy, runs, mean, name (busy)\n"
	"  -h, --help           print this text\n"
	"  -V, --version        print the version\n"
	"\n"
	"Keys: q quits, ? explains the others and the columns.\n";

struct options {
	struct view view;
	bool once, json;
	double delay;
};

static bool set_delay(double *ret, const char *text)
{
	char *end;

	*ret = strtod(text, &end);
	return end != text && !*end && *ret >= 0.05 && *ret <= 3600;
}

static bool set_sort(enum sort *ret, const char *text)
{
	for (*ret = 0; *ret < SORTS; (*ret)++)
		if (!strcmp(text, sort_names[*ret]))
			return true;
	return false;
}

/* -1: go on; else the exit status. */
static int read_options(struct options *o, int argc, char **argv)
{
	static const struct option options[] = {
		{ "once", 0, NULL, '1' },
		{ "json", 0, NULL, 'j' },
		{ "delay", 1, NULL, 'd' },
		{ "sort", 1, NULL, 's' },
		{ "help", 0, NULL, 'h' },
		{ "version", 0, NULL, 'V' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "1jd:s:hV", options, NULL)) != -1) {
		if (c == 'h' || c == 'V')
			return fputs(c == 'h' ? help : PACKAGE_STRING "\n", stdout) < 0;
		if (c == '?')
			return 2;
		if (c == '1')
			o->once = true;
		else if (c == 'j')
			o->json = true;
		else if (c == 'd' && !set_delay(&o->delay, optarg))
			return tool_usage(
				"--delay: expected 0.05 to 3600 seconds, found ", optarg);
		else if (c == 's' && !set_sort(&o->view.sort, optarg))
			return tool_usage(
				"--sort: expected busy, runs, mean or name, found ",
				optarg);
	}
	o->view.mount = optind < argc ? argv[optind] : getenv("PJRTFS_MOUNT");
	if (!o->view.mount || !*o->view.mount)
		return tool_usage("MOUNT or PJRTFS_MOUNT must name a mount", "");
	if (optind + 1 < argc)
		return tool_usage("one mount is expected, found also ", argv[optind + 1]);
	if (!o->once && !o->json && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		return tool_usage("this is no terminal: give --once or --json", "");
	return -1;
}

/* Print a page with the rates between two samples. */
static int once(const struct options *o, struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct sample *before = NULL, *now = NULL;
	struct page page = { NULL, 0 };
	int r = sample_take(o->view.mount, &before, err);

	if (r == 0) {
		usleep((useconds_t)(o->delay * 1e6));
		r = sample_take(o->view.mount, &now, err);
	}
	if (r == 0 && o->json) {
		page_json(&text, now, before, &o->view);
		if (text.failed)
			r = pf_err_set(err, -ENOMEM, "no memory for a page");
		else
			fputs(text.data, stdout);
	} else if (r == 0) {
		page_make(&page, now, before, &o->view);
		for (unsigned i = 0; i < page.n; i++)
			puts(page.lines[i].text);
	}
	free(page.lines);
	sample_free(before);
	sample_free(now);
	if (r == 0 && (fflush(stdout) || ferror(stdout)))
		r = pf_err_set(err, -errno, "print a page: %s", strerror(errno));
	return r;
}

int main(int argc, char **argv)
{
	struct options o = { .delay = 1, .view.active = JOBS };
	struct pf_err err = PF_ERR_INIT;
	int status = read_options(&o, argc, argv);

	if (status >= 0)
		return status;
	if (o.once || o.json)
		status = once(&o, &err);
	else if (tool_check_mount(o.view.mount, &err) == 0)
		return screen_run(&o.view, (int)(o.delay * 1000));
	return err.code ? tool_fail(&err) : status;
}
