/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that reports to the service manager: READY=1, STATUS=, WATCHDOG=1 (sd_notify(3)). */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/engine.h"
#include "pjrtfs/files.h"
#include "pjrtfs/fuse.h"

enum { STATUS_MS = 1000 };

static struct {
	struct manager_config config;
	pthread_t thread;
	bool runs;
	sem_t ends;
} manager;

/* Wait until the threads that serve FUSE have answered a request, whatever they say. */
static void ask_fuse(void)
{
	struct statfs st;

	if (pf_mount_fd(manager.config.mountpoint) < 0)
		(void)statfs(manager.config.mountpoint, &st);
}

static void print_status(struct pf_buf *out)
{
	const struct manager_config *c = &manager.config;

	pf_buf_puts(out, "STATUS=");
	for (unsigned i = 0; i < c->n_workers; i++) {
		enum pf_worker_state state = pf_worker_state(c->workers[i]);
		unsigned n = pf_worker_description(c->workers[i])->n_devices;

		pf_buf_printf(out, "%s%s: ", i ? "; " : "",
			      pf_worker_name(c->workers[i]));
		if (state == PF_WORKER_READY)
			pf_buf_printf(out, "%u device%s", n, n == 1 ? "" : "s");
		else
			pf_buf_puts(out, pf_worker_state_name(state));
	}
	for (unsigned i = 0; i < c->n_failed; i++)
		pf_buf_printf(out, "; %s: did not start", c->failed[i].name);
}

/* Send the status if it is not LAST, which becomes it. */
static void send_status(struct pf_buf *last)
{
	pf_autobuf struct pf_buf now = PF_BUF_INIT;

	print_status(&now);
	if (now.failed || (last->data && !strcmp(now.data, last->data)))
		return;
	descriptors_notify(now.data);
	pf_buf_release(last);
	*last = now;
	now = (struct pf_buf)PF_BUF_INIT;
}

/* False: the thread is to end. */
static bool pause_ms(unsigned ms)
{
	struct timespec until = pf_time_in(CLOCK_MONOTONIC, ms);

	return sem_clockwait(&manager.ends, CLOCK_MONOTONIC, &until) != 0;
}

static void *manager_main(void *unused)
{
	pf_autobuf struct pf_buf status = PF_BUF_INIT;
	unsigned watchdog_ms = descriptors_watchdog_ms() / 2;
	unsigned step = watchdog_ms && watchdog_ms < STATUS_MS ? watchdog_ms : STATUS_MS;
	int64_t asked = pf_now_ms();

	ask_fuse();
	if (manager.config.reports)
		send_status(&status);
	descriptors_ready();
	/* Until it is mounted, an automount lets only the process group of mount(8) pass. */
	if (!manager.config.reports)
		setsid();
	while (manager.config.reports && pause_ms(step)) {
		send_status(&status);
		if (watchdog_ms && pf_now_ms() - asked >= watchdog_ms) {
			asked = pf_now_ms();
			ask_fuse();
			descriptors_notify("WATCHDOG=1");
		}
	}
	return unused;
}

int manager_start(const struct manager_config *config, struct pf_err *err)
{
	manager.config = *config;
	if (sem_init(&manager.ends, 0, 0))
		abort();
	if (pthread_create(&manager.thread, NULL, manager_main, NULL))
		return pf_err_set(err, -EAGAIN, "no thread for the service manager");
	manager.runs = true;
	return 0;
}

void manager_end(void)
{
	if (!manager.runs)
		return;
	sem_post(&manager.ends);
	pthread_join(manager.thread, NULL);
	manager.runs = false;
}
