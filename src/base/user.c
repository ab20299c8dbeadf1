/* SPDX-License-Identifier: Apache-2.0 */
/* What users write and have: sizes, words that are nearly right, paths, their home, their name. */
#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pjrtfs/base.h"

/* --- sizes ---------------------------------------------------------------------------- */

int pf_size_parse(const char *text, uint64_t *ret, struct pf_err *err)
{
	static const char units[] = "KMGT";
	const char *unit;
	unsigned shift = 0;
	char *end;
	uint64_t n;

	if (!strcmp(text, "max")) {
		*ret = UINT64_MAX;
		return 0;
	}
	errno = 0;
	n = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || errno)
		goto bad;
	unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	if (unit) {
		shift = 10 * (unsigned)(unit - units + 1);
		end++;
		if (!strcasecmp(end, "iB") || !strcasecmp(end, "B"))
			end += strlen(end);
	}
	if (*end || n > (UINT64_C(1) << 60) >> shift)
		goto bad;
	*ret = n << shift;
	return 0;
bad:
	return pf_err_set(err, -EINVAL,
			  "expected a size in bytes, as in 512M or 2G, or the word max, "
			  "found %s",
			  text);
}

/* --- words ---------------------------------------------------------------------------- */

/* No key is longer. */
enum { MAX_WORD = 64 };

static unsigned letter(char c)
{
	return c == '-' ? '_' : (unsigned)tolower((unsigned char)c);
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/*
 * The optimal string alignment distance: as Levenshtein's, with two letters that are swapped
 * as one mistake.  Rows of the table: I letters of A against all beginnings of B.
 */
static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
	unsigned rows[3][MAX_WORD + 1];

	for (size_t j = 0; j <= m; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned *now = rows[i % 3];
		const unsigned *before = rows[(i + 2) % 3], *two = rows[(i + 1) % 3];

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			bool differ = letter(a[i - 1]) != letter(b[j - 1]);

			now[j] = least(before[j], now[j - 1]) + 1;
			now[j] = least(now[j], before[j - 1] + differ);
			if (i > 1 && j > 1 && letter(a[i - 1]) == letter(b[j - 2]) &&
			    letter(a[i - 2]) == letter(b[j - 1]))
				now[j] = least(now[j], two[j - 2] + 1);
		}
	}
	return rows[n % 3][m];
}

static bool begins_with(const char *known, const char *word, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (letter(known[i]) != letter(word[i]))
			return false;
	return n >= 3;
}

void pf_similar_try(struct pf_similar *s, const char *known)
{
	size_t n = strlen(s->word), m = strlen(known), most;
	unsigned d;

	if (n > MAX_WORD || m > MAX_WORD)
		return;
	d = distance(s->word, n, known, m);
	/* A beginning counts as one mistake, however much is missing. */
	if (d > 1 && m > n && begins_with(known, s->word, n))
		d = 1;
	/* Shorter words are too different, but for a letter that is there twice. */
	most = n == 2 && m == 1 && letter(s->word[0]) == letter(s->word[1])
		       ? 1
		       : (n < m ? m : n) / 3;
	if (d > most || (s->best && d >= s->distance))
		return;
	s->best = known;
	s->distance = d;
}

void pf_similar_try_all(struct pf_similar *s, const char *const *list)
{
	for (; *list; list++)
		pf_similar_try(s, *list);
}

const char *pf_similar_hint(const struct pf_similar *s, char dst[PF_SIMILAR_TEXT])
{
	*dst = '\0';
	if (s->best)
		snprintf(dst, PF_SIMILAR_TEXT, " (did you mean \"%s\"?)", s->best);
	return dst;
}

/* --- paths ---------------------------------------------------------------------------- */

char *pf_absolute_path(const char *path)
{
	pf_autofree char *cwd = *path == '/' ? strdup("") : getcwd(NULL, 0);
	char *whole;

	if (!cwd || asprintf(&whole, "%s%s%s", cwd, *cwd ? "/" : "", path) < 0)
		return NULL;
	return whole;
}

static bool is_of_another_user(const char *dir)
{
	struct stat st;

	return stat(dir, &st) == 0 && st.st_uid != geteuid();
}

char *pf_home_dir(void)
{
	const char *home = getenv("HOME");
	const struct passwd *user = NULL;

	if (home && *home != '/')
		home = NULL;
	if (!home || is_of_another_user(home))
		user = getpwuid(geteuid());
	if (user && *user->pw_dir == '/')
		home = user->pw_dir;
	return home ? strdup(home) : NULL;
}

const char *pf_user_name(unsigned id, char dst[PF_USER_NAME])
{
	const struct passwd *user = getpwuid(id);

	if (user && *user->pw_name && strlen(user->pw_name) < PF_USER_NAME)
		snprintf(dst, PF_USER_NAME, "%s", user->pw_name);
	else
		snprintf(dst, PF_USER_NAME, "%u", id);
	return dst;
}
