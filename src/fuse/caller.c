/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the thread interrupted that waits for an answer?
 *
 * The kernel sends FUSE_INTERRUPT whenever something wakes the thread: also for a stop, a tracer or
 * the freezer, after which the system call would go on if it waited in the kernel alone.  What woke
 * it is in its status file, which the kernel prints without a lock that the thread may hold while
 * it waits.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

static uint64_t bit(int signal)
{
	return UINT64_C(1) << (signal - 1);
}

/* The mask of signals in the line NAME ("\nSigPnd:") of STATUS. */
static bool read_mask(const char *status, const char *name, uint64_t *ret)
{
	const char *line = strstr(status, name);

	return line && sscanf(line + strlen(name), "%" SCNx64, ret) == 1;
}

bool pf_caller_status_interrupts(const char *status)
{
	const uint64_t harmless = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) |
				  bit(SIGTTOU) | bit(SIGCONT) | bit(SIGCHLD) |
				  bit(SIGURG) | bit(SIGWINCH);
	uint64_t thread, process, blocked, ignored, caught;

	if (!read_mask(status, "\nSigPnd:", &thread) ||
	    !read_mask(status, "\nShdPnd:", &process) ||
	    !read_mask(status, "\nSigBlk:", &blocked) ||
	    !read_mask(status, "\nSigIgn:", &ignored) ||
	    !read_mask(status, "\nSigCgt:", &caught))
		return true;
	return (thread | process) & ~blocked & ~ignored & ~(harmless & ~caught);
}

/* Do the numbers in /proc mean the same processes as this one's requests do? */
static bool proc_is_own(void)
{
	char self[16] = "";

	return readlink("/proc/self", self, sizeof(self) - 1) > 0 &&
	       atoi(self) == getpid();
}

bool pf_caller_is_interrupted(pid_t thread)
{
	char path[32], status[8192];

	if (thread <= 0 || !proc_is_own())
		return true;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)thread);
	return !pf_read_start(path, status, sizeof(status)) ||
	       pf_caller_status_interrupts(status);
}
