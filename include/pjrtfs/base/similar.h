/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the known words a user may have meant by one that is not known. */
#ifndef PJRTFS_BASE_SIMILAR_H
#define PJRTFS_BASE_SIMILAR_H

#include <stddef.h>

/* A search among known words; all zeros but WORD at its beginning. */
struct pf_similar {
	const char *word;  /* borrowed: the word that is not known */
	const char *best;  /* borrowed: the nearest word so far, or NULL: none is near */
	unsigned distance; /* of best: insertions, deletions, replacements, swaps */
};

/*
 * Compare with KNOWN, which is borrowed.  A known word is near if a third of the letters or
 * fewer differ (case, '-' and '_' do not count), or if it begins with the word (three letters
 * at least).  Does not block.
 */
void pf_similar_try(struct pf_similar *s, const char *known);

/* The same for each word of LIST, which NULL ends. */
void pf_similar_try_all(struct pf_similar *s, const char *const *list);

enum { PF_SIMILAR_TEXT = 96 };

/* Print " (did you mean \"best\"?)" into DST, or nothing if no word is near; returns DST. */
const char *pf_similar_hint(const struct pf_similar *s, char dst[PF_SIMILAR_TEXT]);

#endif
