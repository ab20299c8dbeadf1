/* SPDX-License-Identifier: Apache-2.0 */
/* The small files that tell where to look. */
#include "internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int read_text(const char *path, size_t max, struct pf_buf *out)
{
	pf_autoclose int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	size_t done = 0;
	ssize_t n;
	char *at;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((uint64_t)st.st_size > max)
		return -EFBIG;
	at = pf_buf_reserve(out, (size_t)st.st_size + 1);
	if (!at)
		return -ENOMEM;
	/* It may grow or shrink meanwhile: what there is of its size counts. */
	while (done < (size_t)st.st_size &&
	       (n = read(fd, at + done, (size_t)st.st_size - done)) > 0)
		done += (size_t)n;
	at[done] = '\0';
	out->len += done;
	return 0;
}

static char *trim(char *s)
{
	char *end;

	while (isspace((unsigned char)*s))
		s++;
	for (end = s + strlen(s); end > s && isspace((unsigned char)end[-1]); end--)
		;
	*end = '\0';
	return s;
}

/* --- ld.so.conf -------------------------------------------------------------------------- */

struct ldconf {
	const char *root;
	void (*each)(void *arg, const char *dir);
	void *arg;
	unsigned n_files, depth;
};

static int ldconf_file(struct ldconf *l, const char *path);

/* "include PATTERN...", relative to the directory of the file AT. */
static void ldconf_include(struct ldconf *l, const char *at, char *patterns)
{
	const char *slash = strrchr(at, '/');
	char *save = NULL, whole[PATH_MAX];

	for (char *word = strtok_r(patterns, " \t", &save); word;
	     word = strtok_r(NULL, " \t", &save)) {
		glob_t g = { 0 };
		int n = *word == '/'
				? snprintf(whole, sizeof(whole), "%s%s", l->root, word)
				: snprintf(whole, sizeof(whole), "%.*s/%s",
					   slash ? (int)(slash - at) : 1,
					   slash ? at : ".", word);

		if (n < (int)sizeof(whole) && glob(whole, 0, NULL, &g) == 0)
			for (size_t i = 0; i < g.gl_pathc; i++)
				(void)ldconf_file(l, g.gl_pathv[i]);
		globfree(&g);
	}
}

static void ldconf_line(struct ldconf *l, const char *at, char *line)
{
	char dir[PATH_MAX];

	line[strcspn(line, "#")] = '\0';
	line = trim(line);
	if (!strncmp(line, "include", 7) && isspace((unsigned char)line[7])) {
		ldconf_include(l, at, line + 8);
		return;
	}
	if (!strncmp(line, "hwcap", 5) && isspace((unsigned char)line[5]))
		return;
	/* Old files have "=libc5" behind a directory. */
	line[strcspn(line, "=")] = '\0';
	line = trim(line);
	if (*line == '/' &&
	    snprintf(dir, sizeof(dir), "%s%s", l->root, line) < (int)sizeof(dir))
		l->each(l->arg, dir);
}

static int ldconf_file(struct ldconf *l, const char *path)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	char *at;
	int r;

	if (l->depth == MAX_LDCONF_DEPTH || l->n_files == MAX_LDCONF_FILES)
		return -ELOOP;
	l->n_files++;
	r = read_text(path, MAX_TEXT, &text);
	if (r < 0)
		return r;
	l->depth++;
	for (at = text.data; at && *at;) {
		char *line = strsep(&at, "\n");

		ldconf_line(l, path, line);
	}
	l->depth--;
	return 0;
}

int ldconf_read(const char *path, const char *root,
		void (*each)(void *arg, const char *dir), void *arg)
{
	struct ldconf l = { .root = root, .each = each, .arg = arg };

	return ldconf_file(&l, path);
}

/* --- INI files: pyvenv.cfg, entry_points.txt --------------------------------------------- */

void ini_each(char *text, const char *section,
	      void (*each)(void *arg, const char *key, const char *value), void *arg)
{
	bool inside = !*section;

	while (text && *text) {
		char *line = strsep(&text, "\n"), *equals;

		/* A line that goes on another one begins with a blank: nobody needs those. */
		if (isspace((unsigned char)*line) || *line == '#' || *line == ';')
			continue;
		line = trim(line);
		if (*line == '[') {
			line[strcspn(line, "]")] = '\0';
			inside = !strcmp(trim(line + 1), section);
			continue;
		}
		equals = strchr(line, '=');
		if (!inside || !equals)
			continue;
		*equals = '\0';
		each(arg, trim(line), trim(equals + 1));
	}
}
