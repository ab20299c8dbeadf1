/* SPDX-License-Identifier: Apache-2.0 */
/* Words of -o that others than pjrtfs understand. */
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
	if (!strcmp(word, "remount"))
		return pf_err_set(
			err, -EINVAL,
			"remount: a mount's options cannot be changed; unmount it, "
			"and mount it with the others");
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

int options_take_mode(struct options *o, const char *value, struct pf_err *err)
{
	char *end;
	unsigned long mode = strtoul(value, &end, 8);

	if (*value < '0' || *value > '7' || *end || mode > 07777 ||
	    (mode & S_IRWXU) != S_IRWXU)
		return pf_err_set(err, -EINVAL,
				  "mode: expected an octal mode with all rights for the "
				  "owner, as in 1777 or 2775, found %s",
				  value);
	o->mode = (mode_t)mode;
	return 0;
}

int options_take_group(struct options *o, const char *value, struct pf_err *err)
{
	const struct group *group = getgrnam(value);
	char *end;
	unsigned long gid = strtoul(value, &end, 10);

	if (group)
		gid = group->gr_gid;
	else if (*value < '0' || *value > '9' || *end || gid >= UINT32_MAX)
		return pf_err_set(err, -EINVAL,
				  "group: expected a group's name or number, found %s",
				  value);
	o->has_group = true;
	o->group = (gid_t)gid;
	return 0;
}
