/* SPDX-License-Identifier: Apache-2.0 */
/* Wake-ups in a thread's status. */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse/internal.h"
#include "unit.h"

#define BIT(signal) (UINT64_C(1) << ((signal)-1))

static const struct {
	uint64_t thread, process, blocked, ignored, caught;
	bool interrupts;
} wakes[] = {
	{ 0, 0, 0, 0, 0, false }, /* a stop that was undone, a tracer, the freezer */
	{ 0, BIT(SIGINT), 0, 0, 0, true },
	{ BIT(SIGUSR1), 0, 0, 0, 0, true },
	{ BIT(SIGKILL), 0, 0, 0, 0, true },
	{ 0, BIT(SIGUSR2), 0, 0, 0, true },
	{ 0, BIT(SIGINT), BIT(SIGINT), 0, BIT(SIGINT), false },
	{ 0, BIT(SIGINT), 0, BIT(SIGINT), 0, false }, /* is kept for a tracer */
	{ 0, BIT(SIGALRM), 0, 0, BIT(SIGALRM), true },
	{ BIT(SIGSTOP), 0, 0, 0, 0, false },
	{ BIT(SIGSTOP), BIT(SIGKILL), 0, 0, 0, true },
	{ 0, BIT(SIGTSTP), 0, 0, 0, false },
	{ 0, BIT(SIGTSTP), 0, 0, BIT(SIGTSTP), true },
	{ 0, BIT(SIGTTIN) | BIT(SIGTTOU), 0, 0, 0, false },
	{ 0, BIT(SIGCONT), 0, 0, 0, false },
	{ 0, BIT(SIGCONT), 0, 0, BIT(SIGCONT), true },
	{ 0, BIT(SIGCHLD) | BIT(SIGWINCH) | BIT(SIGURG), 0, 0, 0, false },
	{ 0, BIT(SIGWINCH), 0, 0, BIT(SIGWINCH), true },
};

TEST_EACH(what_wakes_a_caller, wakes)
{
	char status[256];

	snprintf(status, sizeof(status),
		 "Name:\tx\nSigQ:\t0/1\nSigPnd:\t%016" PRIx64 "\nShdPnd:\t%016" PRIx64
		 "\nSigBlk:\t%016" PRIx64 "\n"
		 "SigIgn:\t%016" PRIx64 "\nSigCgt:\t%016" PRIx64 "\n",
		 wakes[_i].thread, wakes[_i].process, wakes[_i].blocked,
		 wakes[_i].ignored, wakes[_i].caught);
	ck_assert_int_eq(pf_caller_status_interrupts(status), wakes[_i].interrupts);
}

TEST(a_status_that_cannot_be_read_interrupts)
{
	ck_assert(pf_caller_status_interrupts(""));
	ck_assert(pf_caller_status_interrupts("SigPnd:\tx\n"));
	ck_assert(pf_caller_is_interrupted(0));
	ck_assert(pf_caller_is_interrupted(INT32_MAX));
	ck_assert(!pf_caller_is_interrupted(getpid()));
}

/* Ends with 0 if process 1 counts as interrupted in a PID namespace whose /proc is another one's. */
static void ask_in_another_namespace(void)
{
	pid_t child;
	int status;

	if (unshare(CLONE_NEWPID))
		_exit(0); /* that takes root */
	child = fork();
	if (child == 0)
		_exit(!pf_caller_is_interrupted(1));
	_exit(child < 0 || waitpid(child, &status, 0) != child || status != 0);
}

TEST(a_status_of_another_namespace_says_nothing)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		ask_in_another_namespace();
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert(!pf_caller_is_interrupted(getpid()));
}
