/* SPDX-License-Identifier: Apache-2.0 */
/* Words of -o that others than pjrtfs understand. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

bool options_for_mount(const char *word)
{
	static const char *const words[] = {
		"defaults",   "auto",     "noauto",     "user",        "nouser",
		"users",      "nousers",  "owner",      "group",       "_netdev",
		"nofail",     "relatime", "norelatime", "strictatime", "nostrictatime",
		"nodiratime", "diratime", "lazytime",   "nolazytime",  "loud",
		"silent",     "iversion", "noiversion",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i], word))
			return true;
	return !strncmp(word, "x-", 2) || !strncmp(word, "comment=", 8) ||
	       !strncmp(word, "user=", 5) || !strncmp(word, "uhelper=", 8) ||
	       !strncmp(word, "helper=", 7);
}

int options_add_fuse(struct options *o, const char *word, struct pf_err *err)
{
	if (!*word || options_for_mount(word))
		return 0;
	if (strchr(word, ','))
		return pf_err_set(err, -EINVAL,
				  "mount option: expected one, found %.80s with a comma",
				  word);
	if (o->n_fuse == MAX_WORDS)
		return pf_err_set(err, -EINVAL, "more than %d mount options", MAX_WORDS);
	o->fuse[o->n_fuse] = strdup(word);
	if (!o->fuse[o->n_fuse])
		return pf_err_set(err, -ENOMEM, "no memory for the options");
	o->n_fuse++;
	return 0;
}

void options_forget_fuse(struct options *o)
{
	while (o->n_fuse) {
		free((char *)(uintptr_t)o->fuse[--o->n_fuse]);
		o->fuse[o->n_fuse] = NULL;
	}
}
