/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processor of the thread that leads.
 *
 * Each request is two wake-ups between its client and the leader; a call is four, an upload eight.
 * On one processor a wake-up is a switch; on a halted one it costs several times as much as the
 * request itself.  So where there are processors enough for the client, the worker and the leader,
 * the leader spins for its client's next request.
 *
 * Where there are fewer, the leader goes to its client's processor, since the scheduler cannot know
 * that the two never run at the same time; the worker, which spins, keeps another one.  But a client
 * that only reads needs no worker.  Then the other processor is idle, and the scheduler moves the
 * client there when the leader wakes it: the two would chase each other.  So the leader spins then, too.
 */
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum {
	LOOK_EVERY = 50, /* requests: to read a client's processor takes 1 to 2 us */
	FIELD = 39,      /* of /proc/TID/stat: processor; proc(5) */
	SPIN_NS = 20000, /* requests back to back come sooner */
	ENOUGH = 4,      /* processors: one for each who spins, and one for others */
};

/* The processor on which the thread last ran whose stat file is FD; -1: it has ended. */
static int processor_of(int fd)
{
	char text[1024], *at;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	int cpu = -1, field = 2;

	if (n <= 0)
		return -1;
	text[n] = '\0';
	/* The second field, the name, ends with the last parenthesis. */
	for (at = strrchr(text, ')'); at && field < FIELD; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, " %d", &cpu) == 1 && cpu < CPU_SETSIZE ? cpu : -1;
}

/* Run where the process's first thread may, which never leads. */
static void go_back(struct pf_follow *follow)
{
	cpu_set_t all;

	if (follow->pinned && !sched_getaffinity(getpid(), sizeof(all), &all))
		sched_setaffinity(0, sizeof(all), &all);
	follow->pinned = false;
}

static void go_to(struct pf_follow *follow, int cpu)
{
	cpu_set_t cpus;

	if (follow->pinned && cpu == follow->cpu)
		return;
	go_back(follow);
	if (cpu < 0 || sched_getaffinity(getpid(), sizeof(cpus), &cpus) ||
	    !CPU_ISSET(cpu, &cpus))
		return;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	follow->cpu = cpu;
	follow->pinned = !sched_setaffinity(0, sizeof(cpus), &cpus);
}

void pf_follow_none(struct pf_follow *follow)
{
	go_back(follow);
	pf_closep(&follow->fd);
	follow->client = 0;
	follow->spins = false;
}

void pf_follow_spin(const struct pf_follow *follow, int device)
{
	struct pollfd p = { .fd = device, .events = POLLIN };
	uint64_t end;

	if (!follow->spins)
		return;
	end = pf_now_ns() + SPIN_NS;
	while (poll(&p, 1, 0) == 0 && pf_now_ns() < end)
		if (!follow->has_enough)
			sched_yield(); /* the client may wait for this processor */
}

/* May the process use processors enough? */
static bool has_enough(void)
{
	cpu_set_t all;

	return !sched_getaffinity(getpid(), sizeof(all), &all) &&
	       CPU_COUNT(&all) >= ENOUGH;
}

/*
 * Is the client at work for this daemon until the request is answered?  A process that executes another
 * program closes its files, and to read its stat file would wait until that is done (pf_process_dying):
 * for ever, if the daemon waits.  It may have had the kernel read pages ahead, without waiting.
 */
static bool is_waited_for(const struct fuse_in_header *in)
{
	switch (in->opcode) {
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		return false;
	case FUSE_READ: /* read(2) has an owner of locks, reading pages has none */
		return ((const struct fuse_read_in *)(in + 1))->read_flags &
		       FUSE_READ_LOCKOWNER;
	default:
		return true;
	}
}

void pf_follow(struct pf_follow *follow, const struct fuse_buf *buf)
{
	const struct fuse_in_header *in = buf->mem;
	char path[32];

	if (!in->pid) /* the kernel's own, or of a client in another PID namespace */
		return;
	if (!is_waited_for(in))
		return;
	if (in->pid != follow->client) {
		pf_follow_none(follow);
		follow->client = in->pid;
		follow->requests = 0;
		follow->writes = false;
	}
	follow->writes |= in->opcode == FUSE_WRITE;
	if (++follow->requests % LOOK_EVERY)
		return;
	follow->has_enough = has_enough();
	follow->spins = follow->has_enough || !follow->writes;
	follow->writes = false;
	if (follow->spins) {
		go_back(follow);
		return;
	}
	if (follow->fd < 0) {
		snprintf(path, sizeof(path), "/proc/%u/stat", in->pid);
		follow->fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	go_to(follow, follow->fd < 0 ? -1 : processor_of(follow->fd));
}
