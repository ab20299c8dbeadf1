/* SPDX-License-Identifier: Apache-2.0 */
/* The command line, for getopt_long(3) by the table of options. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/fuse.h"

enum { FIRST_ROW = 256 /* getopt's value of row 0 */ };

/* The state of reading a command line. */
struct reading {
	struct options *o;
	char **argv;
	bool early;                /* only the rows that are IS_EARLY are set */
	bool runs;                 /* --run is there */
	const char *positional[3]; /* borrowed from argv */
	unsigned n_positional;
	char letters[OPTION_ROWS];
	char names[OPTION_ROWS][OPTION_NAME];
	struct option rows[OPTION_ROWS];
};

/* Fill what getopt_long needs. */
static void make_tables(struct reading *g)
{
	char *letter = stpcpy(g->letters, "-:");
	struct option *to = g->rows;

	for (const struct option_row *row = option_rows; row->name; row++) {
		size_t i = (size_t)(row - option_rows);

		if (row->letter) {
			*letter++ = row->letter;
			if (row->argument)
				*letter++ = ':';
		}
		if (!(row->where & IN_COMMAND_LINE))
			continue;
		*to++ = (struct option){ .name = options_spell(row, '-', g->names[i]),
					 .has_arg = row->argument != NULL,
					 .val = FIRST_ROW + (int)i };
	}
}

static int set(struct reading *g, const struct option_row *row, const char *text,
	       struct pf_err *err)
{
	if (g->early != !!(row->where & IS_EARLY))
		return 0;
	return options_set(g->o, row, text, err);
}

/* Set the words of LIST, -o's: options of pjrtfs, or else of FUSE, which ROW is for.
 * LIST is in argv and is not changed, as it is read twice. */
static int set_words(struct reading *g, const struct option_row *row, const char *list,
		     struct pf_err *err)
{
	pf_autofree char *copy = strdup(list);
	char *at = copy, *word;
	int r = copy ? 0 : no_memory(err);

	while (r == 0 && (word = strsep(&at, ","))) {
		char *equals = strchr(word, '=');
		size_t len = equals ? (size_t)(equals - word) : strlen(word);
		const struct option_row *own = options_find(word, len, IN_MOUNT);

		/* "group", "user" and the like without a value are not pjrtfs's
		 * options. */
		if (own && !equals == !own->argument)
			r = set(g, own, equals ? equals + 1 : NULL, err);
		else
			r = set(g, row, word, err);
	}
	return r;
}

/* The row for getopt's value C, or NULL. */
static const struct option_row *row_of(int c)
{
	if (c >= FIRST_ROW)
		return &option_rows[c - FIRST_ROW];
	for (const struct option_row *row = option_rows; row->name; row++)
		if (row->letter == c)
			return row;
	return NULL;
}

/* The rest of the command line is --run's; a "--" may precede it. */
static int set_command(struct reading *g, struct pf_err *err)
{
	g->o->run = g->argv + optind - 1;
	*g->o->run = optarg; /* of --run=COMMAND, too */
	if (!strcmp(optarg, "--"))
		g->o->run++;
	return *g->o->run ? 0 : pf_err_set(err, -EINVAL, "--run needs a COMMAND");
}

/* Is WORD what ends a mount elsewhere? */
static bool is_unmount(const char *word)
{
	const char *letters = word + strspn(word, "-");

	return !strcmp(word, "-u") || !strcmp(letters, "umount") ||
	       !strcmp(letters, "unmount");
}

static int unknown(const char *word, struct pf_err *err)
{
	char hint[PF_SIMILAR_TEXT];

	if (is_unmount(word))
		return pf_err_set(err, -EINVAL,
				  "unknown option %s; a mount ends with: fusermount3 -u "
				  "MOUNTPOINT",
				  word);
	options_similar(word + strspn(word, "-"), IN_COMMAND_LINE, hint);
	for (char *at = hint; (at = strchr(at, '_'));)
		*at = '-';
	return pf_err_set(err, -EINVAL, "unknown option %s%s; see --help", word, hint);
}

/* Is the argument of the option before it, which ROW is for, the name of another option, as
 * "--json" in "--status --json m"? */
static bool lacks_argument(const struct reading *g, const struct option_row *row)
{
	return row->argument && optarg == g->argv[optind - 1] &&
	       !strncmp(optarg, "--", 2) &&
	       options_find(optarg + 2, strcspn(optarg + 2, "="), IN_COMMAND_LINE);
}

/* Read all words of the command line once. */
static int read_words(struct reading *g, int argc, struct pf_err *err)
{
	int c, r = 0;

	g->n_positional = 0;
	optind = 0; /* getopt(3) begins anew */
	while (r == 0 &&
	       (c = getopt_long(argc, g->argv, g->letters, g->rows, NULL)) != -1) {
		const struct option_row *row = c == ':' || c == '?' ? NULL : row_of(c);

		if (row && row->where & IS_LAST) {
			g->runs = true;
			return g->early ? 0 : set_command(g, err);
		}
		if (row && lacks_argument(g, row))
			return pf_err_set(err, -EINVAL,
					  "%s needs an argument: %s, found the option "
					  "%s",
					  g->argv[optind - 2], row->argument, optarg);
		if (c == 1 && g->n_positional < 3)
			g->positional[g->n_positional++] = optarg;
		else if (row && row->letter == 'o')
			r = set_words(g, row, optarg, err);
		else if (row)
			r = set(g, row, optarg, err);
		else if (c == ':')
			r = pf_err_set(err, -EINVAL, "%s needs an argument: %s",
				       g->argv[optind - 1], row_of(optopt)->argument);
		else if (c == '?' && optopt && optopt < FIRST_ROW)
			r = unknown((char[]){ '-', (char)optopt, '\0' }, err);
		else if (c == '?')
			r = unknown(g->argv[optind - 1], err);
	}
	while (r == 0 && optind < argc && g->n_positional < 3)
		g->positional[g->n_positional++] = g->argv[optind++]; /* after "--" */
	return r;
}

/* Are these options and words for one purpose? */
static int check(const struct reading *g, struct pf_err *err)
{
	const struct options *o = g->o;
	const char *answers = o->list_plugins   ? "--list-plugins"
			      : o->check_plugin ? "--check-plugin's"
			      : o->status       ? "--status's"
						: NULL;
	bool alone = answers || o->estimate;

	if (o->run && (alone || o->dump_config))
		return pf_err_set(
			err, -EINVAL,
			"expected --run, or --list-plugins, --check-plugin, --status, "
			"--estimate or --dump-config, not both");
	if (o->list_plugins + !!o->check_plugin + !!o->status + !!o->estimate > 1)
		return pf_err_set(err, -EINVAL,
				  "expected one of --list-plugins, --check-plugin, "
				  "--status and --estimate");
	if (answers && g->n_positional)
		return pf_err_set(err, -EINVAL,
				  "expected no word beside %s, found '%s'; see --help",
				  answers, g->positional[0]);
	if (o->check && !o->list_plugins)
		return pf_err_set(err, -EINVAL, "--check is for --list-plugins");
	if (o->estimate && !o->dump_config && (!g->n_positional || g->n_positional > 2))
		return pf_err_set(err, -EINVAL,
				  "expected [SOURCE] PROGRAM beside --estimate, found %s "
				  "words; see --help",
				  g->n_positional ? "three" : "no");
	if (answers || o->estimate)
		return 0;
	if (o->json || o->timeout_s)
		return pf_err_set(err, -EINVAL,
				  "%s is for --list-plugins, --check-plugin, --estimate "
				  "and --status",
				  o->json ? "--json" : "--timeout");
	if (o->run && g->n_positional > 1)
		return pf_err_set(err, -EINVAL,
				  "expected [SOURCE] and options before --run, and no "
				  "second word '%s': the mount point is --run's own",
				  g->positional[1]);
	if (g->n_positional && is_unmount(g->positional[0]))
		return pf_err_set(err, -EINVAL,
				  "expected [SOURCE] MOUNTPOINT, found %s; a mount ends "
				  "with: fusermount3 -u %s",
				  g->positional[0],
				  g->n_positional > 1 ? g->positional[1] : "MOUNTPOINT");
	if (g->n_positional > 2)
		return pf_err_set(err, -EINVAL,
				  "expected [SOURCE] MOUNTPOINT, and no third word '%s'; "
				  "see --help",
				  g->positional[2]);
	if (o->state_dir && o->isolate)
		return pf_err_set(err, -EINVAL,
				  "expected --state-dir or --isolate user, not both: a "
				  "state directory belongs to one user");
	if (!g->n_positional && !o->dump_config && !o->run)
		return pf_err_set(err, -EINVAL,
				  "expected [SOURCE] MOUNTPOINT; see --help");
	return 0;
}

/* The plugins of SOURCE precede those of --plugin. */
static int set_source(struct options *o, const char *source, struct pf_err *err)
{
	pf_autofree char *copy = strdup(source);
	char *at = copy, *word;
	int r = 0;

	o->source = strdup(source);
	if (!copy || !o->source)
		return no_memory(err);
	while (r == 0 && (word = strsep(&at, ",")))
		r = *word ? options_set(o, options_find("plugin", 6, EVERYWHERE), word,
					err)
			  : pf_err_set(err, -EINVAL, "SOURCE %s has an empty name",
				       source);
	return r;
}

int cmdline_parse(int argc, char **argv, struct options *o, struct pf_err *err)
{
	struct reading g = { .o = o, .argv = argv, .early = true };
	char **word;
	int r;

	options_init(o);
	opterr = 0;
	make_tables(&g);
	r = read_words(&g, argc, err);
	if (r < 0 || o->help || o->version)
		return r;
	r = config_read(o, o->config, err);
	g.early = false;
	o->settings.source = FROM_COMMAND_LINE;
	if (r == 0 && g.n_positional == 2U - g.runs)
		r = set_source(o, g.positional[0], err);
	if (r == 0)
		r = read_words(&g, argc, err);
	if (r == 0)
		r = config_read_debug_options(o, err);
	if (r == 0)
		r = settings_check_compile_options(&o->settings, err);
	if (r == 0)
		r = check(&g, err);
	if (r == 0 && !o->list_plugins && !o->check_plugin && !o->status && !o->estimate)
		r = options_inherit(o, err);
	if (r < 0)
		return r;
	o->foreground |= o->debug;
	if (!g.n_positional || o->dump_config || o->run)
		return 0;
	word = o->estimate ? &o->program : &o->mountpoint;
	*word = strdup(g.positional[g.n_positional - 1]);
	return *word ? 0 : no_memory(err);
}

/* Is PATH a directory, or may it be meant as one that is not there? */
static bool is_like_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? S_ISDIR(st.st_mode) : strchr(path, '/') != NULL;
}

/* WORD cannot be mounted on, by ERROR of realpath(3). */
static int no_mountpoint(const struct options *o, const char *word, int error,
			 struct pf_err *err)
{
	pf_autobuf struct pf_buf advice = PF_BUF_INIT;

	if (!*word)
		return pf_err_set(
			err, -error,
			"mount point: expected a directory, found an empty word");
	if (!o->source && (!strcmp(word, "help") || !strcmp(word, "version")))
		pf_buf_printf(&advice, "; did you mean pjrtfs --%s?", word);
	else if (o->source && !strchr(word, '/') && is_like_directory(o->source))
		pf_buf_printf(&advice, "; the plugin comes first: pjrtfs %s %s", word,
			      o->source);
	else if (error == ENOENT && (o->source || strchr(word, '/')))
		pf_buf_printf(&advice, "; mkdir -p %s", word);
	else if (!o->source)
		pf_buf_printf(
			&advice,
			"; expected [SOURCE] MOUNTPOINT: pjrtfs %s MOUNTPOINT if it "
			"is a plugin, else mkdir -p %s",
			word, word);
	return pf_err_set(err, -error, "mount point %s: %s%s", word, strerror(error),
			  advice.len ? advice.data : "");
}

/* Is PATH a directory of the system's, which a mount would hide from every program? */
static int check_hidden(const char *path, struct pf_err *err)
{
	static const char *const needed[] = {
		"/",      "/bin",     "/boot",    "/dev",     "/etc", "/lib",
		"/lib64", "/proc",    "/run",     "/sbin",    "/sys", "/usr",
		"/var",   "/usr/bin", "/usr/lib", "/usr/sbin"
	};

	for (size_t i = 0; i < PF_ARRAY_SIZE(needed); i++)
		if (!strcmp(path, needed[i]))
			return pf_err_set(
				err, -EINVAL,
				"mount point %s: expected a directory for the "
				"mount, found one that the system needs, and that "
				"it would hide: mkdir -p /mnt/pjrt, and mount "
				"there",
				path);
	return 0;
}

int cmdline_find_mountpoint(struct options *o, struct pf_err *err)
{
	pf_autofree char *word = o->mountpoint;
	size_t len = strlen(word);

	if (pf_mount_fd(word) >= 0) {
		pf_steal(&word);
		return 0;
	}
	/* A path with a trailing slash does not reach a mount whose daemon has ended. */
	while (len > 1 && word[len - 1] == '/')
		word[--len] = '\0';
	o->mountpoint = realpath(word, NULL);
	return o->mountpoint ? check_hidden(o->mountpoint, err)
			     : no_mountpoint(o, word, errno, err);
}
