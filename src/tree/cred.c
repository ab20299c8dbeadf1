/* SPDX-License-Identifier: Apache-2.0 */
/* The rights of the process that makes a request. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

static bool in_group(const struct pf_cred *cred, gid_t gid)
{
	if (cred->gid == gid)
		return true;
	for (unsigned i = 0; i < cred->n_groups && i < PF_CRED_GROUPS; i++)
		if (cred->groups[i] == gid)
			return true;
	return false;
}

bool pf_cred_may(const struct pf_cred *cred, uid_t uid, gid_t gid, mode_t mode, int want)
{
	unsigned bits;

	/* CAP_DAC_OVERRIDE: everything but running a file without any execute bit. */
	if (cred->uid == 0)
		return !(want & X_OK) || S_ISDIR(mode) || (mode & 0111);
	if (cred->uid == uid)
		bits = mode >> 6;
	else if (in_group(cred, gid))
		bits = mode >> 3;
	else
		bits = mode;
	return ((unsigned)want & 7 & ~bits) == 0;
}

pid_t pf_cred_session(const struct pf_cred *cred)
{
	if (cred->sid != PF_SID_UNKNOWN)
		return cred->sid;
	return cred->pid > 0 ? getsid(cred->pid) : PF_SID_UNKNOWN; /* -1 as well */
}

/*
 * A process that exits closes its files too, and its FLUSH looks like any other.  The signs are
 * PF_EXITING in flags (field 9 of proc_pid_stat(5)) and the signal in exit_code (field 52),
 * which reads as 0 for a process that the daemon may not trace: then the FLUSH commits.
 */
bool pf_process_dying(pid_t pid)
{
	pf_autoclose int fd = -1;
	char path[32], text[2048], *p, *save = NULL;
	unsigned long flags = 0, code = 0;
	ssize_t n;
	int field = 2;

	if (pid <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	p = strrchr(text, ')'); /* the name of the program may hold parentheses */
	if (!p)
		return false;
	for (p = strtok_r(p + 1, " ", &save); p; p = strtok_r(NULL, " ", &save)) {
		field++;
		if (field == 9)
			flags = strtoul(p, NULL, 10);
		else if (field == 52)
			code = strtoul(p, NULL, 10);
	}
	return (flags & 4) && (code & 127);
}
