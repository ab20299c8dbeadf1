/* SPDX-License-Identifier: Apache-2.0 */
/* The report: operations, refusals, losses, wrong answers, memory and descriptors. */
#include <dirent.h>
#include <string.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "soak.h"

static void measure_process(long pid, struct process_size *m)
{
	FILE *f = fopen(path_of("/proc/%ld/status", pid), "re");
	DIR *fds = opendir(path_of("/proc/%ld/fd", pid));
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "RssAnon:", 8))
			m->anon = strtoul(line + 8, NULL, 10);
		if (!strncmp(line, "RssShmem:", 9))
			m->shmem = strtoul(line + 9, NULL, 10);
	}
	if (f)
		fclose(f);
	while (fds && readdir(fds))
		m->fds++;
	if (fds)
		closedir(fds);
}

void measure(struct measure *m)
{
	struct statvfs fs;

	memset(m, 0, sizeof(*m));
	measure_process(file_number("pid"), &m->daemon);
	measure_process(file_number(path_of("plugins/%s/pid", opt.plugin)), &m->worker);
	if (statvfs(".", &fs))
		return;
	m->used = (unsigned long)((fs.f_blocks - fs.f_bfree) * fs.f_frsize);
	m->nodes = (unsigned long)(fs.f_files - fs.f_ffree);
}

void measure_print(const char *when, const struct measure *m)
{
	printf("%-8s daemon %lu KiB private, %lu KiB shared, %lu descriptors; worker %lu, %lu, "
	       "%lu; df %lu bytes, %lu nodes\n",
	       when, m->daemon.anon, m->daemon.shmem, m->daemon.fds, m->worker.anon,
	       m->worker.shmem, m->worker.fds, m->used, m->nodes);
	fflush(stdout);
}

struct sums {
	unsigned long done, failed, wrong, lost, quarantined, interrupted,
		kinds[N_OPS][2];
	unsigned long refused[ERRNOS];
	uint64_t slowest[N_OPS];
};

static void sum_up(struct sums *s)
{
	memset(s, 0, sizeof(*s));
	for (unsigned i = 0; i < all->n_clients; i++) {
		const struct client *c = &all->clients[i];

		for (unsigned k = 0; k < N_OPS; k++) {
			s->kinds[k][0] += c->done[k];
			s->kinds[k][1] += c->failed[k];
			if (c->slowest[k] > s->slowest[k])
				s->slowest[k] = c->slowest[k];
			s->done += c->done[k];
			s->failed += c->failed[k];
		}
		for (unsigned k = 0; k < ERRNOS; k++)
			s->refused[k] += c->refused[k];
		s->lost += c->lost;
		s->quarantined += c->quarantined;
		s->interrupted += c->interrupted;
	}
	s->wrong = all->n_wrong;
}

unsigned long report(const struct measure *begin, const struct measure *end,
		     double seconds)
{
	static const char *const ops[] = {
#define X(id, name) name,
		SOAK_OPS(X)
#undef X
	};
	unsigned long idle = 0, made = 0;
	struct sums s;

	sum_up(&s);
	printf("\n%-20s %10s %8s  %s\n", "operation", "done", "refused", "slowest, s");
	for (unsigned k = 0; k < N_OPS; k++) {
		printf("%-20s %10lu %8lu  %10.3f\n", ops[k], s.kinds[k][0], s.kinds[k][1],
		       (double)s.slowest[k] / 1e9);
		idle += !s.kinds[k][0];
	}
	printf("%-20s %10lu %8lu\n\nrefused, each explained by a fault:", "sum", s.done,
	       s.failed);
	for (int k = 0; k < ERRNOS; k++)
		if (s.refused[k])
			printf(" %s %lu", strerrorname_np(k), s.refused[k]);
	printf("; of these %lu by quarantine\nfaults:", s.quarantined);
	for (unsigned k = 0; fault_name(k); k++) {
		printf(" %s %lu", fault_name(k), all->faults[k]);
		made += all->faults[k];
	}
	printf("\n");
	measure_print("begin", begin);
	measure_print("end", end);
	printf("soak: seconds=%.0f seed=%llu clients=%u operations=%lu refused=%lu faults=%lu "
	       "interrupted=%lu lost=%lu wrong=%lu idle=%lu daemon_kib=%lu,%lu "
	       "worker_kib=%lu,%lu fds=%lu,%lu used=%lu,%lu nodes=%lu,%lu\n",
	       seconds, (unsigned long long)opt.seed, all->n_clients, s.done, s.failed,
	       made, s.interrupted, s.lost, s.wrong, idle,
	       begin->daemon.anon + begin->daemon.shmem,
	       end->daemon.anon + end->daemon.shmem,
	       begin->worker.anon + begin->worker.shmem,
	       end->worker.anon + end->worker.shmem, begin->daemon.fds, end->daemon.fds,
	       begin->used, end->used, begin->nodes, end->nodes);
	fflush(stdout);
	return s.wrong;
}
