/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an instance should end: it gives no heartbeat, overruns its limits, is idle, or leaves. */
#include <errno.h>
#include <stdatomic.h>

#include "internal.h"
#include "pjrtfs/base.h"

unsigned pf_instance_execute_s(const struct pf_instance *instance)
{
	return instance->limits.execute_s;
}

unsigned pf_instance_silent_s(const struct pf_instance *instance)
{
	return atomic_load(&instance->silent_s);
}

const char *pf_instance_unfit(const struct pf_instance *instance)
{
	if (atomic_load(&instance->broken))
		return "FATAL: it damaged its rings of requests and replies\n";
	if (atomic_load(&instance->damaged))
		return "FATAL: memory that it shares with the daemon could not be read\n";
	if (atomic_load(&instance->overran))
		return "FATAL: an execution took longer than the time of --execute-timeout\n";
	if (atomic_load(&instance->leaves_at) && atomic_load(&instance->stopped))
		return "FATAL: it was replaced, and did not end in time what was under way\n";
	if (instance->limits.silent_s &&
	    atomic_load(&instance->silent_s) >= instance->limits.silent_s)
		return "FATAL: it gave no heartbeat within the time of --worker-timeout\n";
	return NULL;
}

/* Has the process executed one request for longer than it may? */
static bool has_overrun(struct pf_instance *instance, uint32_t now_s)
{
	struct pf_call *call;
	bool overrun = false;
	size_t pos = 0;

	if (!instance->limits.execute_s)
		return false;
	PF_LOCK_SCOPE(&instance->lock);
	while ((call = pf_map_next(&instance->calls, &pos))) {
		/* While the program waits for the host, its time stands still. */
		if (call->n_asked)
			call->began_s++;
		else if (call->op == PF_OP_EXECUTE &&
			 now_s - call->began_s > instance->limits.execute_s)
			overrun = true;
	}
	return overrun;
}

static bool has_buffers(const struct pf_instance *instance)
{
	for (unsigned i = 0; i < instance->n_devices; i++)
		if (pf_instance_alive_on(instance, PF_ALIVE_BUFFERS, i))
			return true;
	return false;
}

/* Has no call come for so many seconds that the process should end? */
static bool has_idled(struct pf_instance *instance)
{
	const struct pf_worker_limits *limits = &instance->limits;
	bool busy;

	/* Until it has begun the monitor sets up what this reads. */
	if (!limits->idle_s || !atomic_load(&instance->begun))
		return false;
	PF_LOCK_SCOPE(&instance->lock);
	busy = instance->calls.used || instance->last_tag != instance->idle_tag ||
	       (limits->keep_buffers && has_buffers(instance));
	instance->idle_tag = instance->last_tag;
	instance->idle_s = busy ? 0 : instance->idle_s + 1;
	return instance->idle_s >= limits->idle_s;
}

bool pf_instance_retire(struct pf_instance *instance)
{
	const struct pf_worker_limits *limits = &instance->limits;
	bool leaves = atomic_load(&instance->leaves_at);

	PF_LOCK_SCOPE(&instance->lock);
	if (instance->dead || instance->calls.used)
		return false;
	if (!leaves && (!limits->idle_s || instance->idle_s < limits->idle_s ||
			instance->last_tag != instance->idle_tag))
		return false;
	if (leaves)
		pf_err_set(&instance->why, -EIO, "the worker of plugin %s is replaced",
			   instance->name);
	else
		pf_err_set(&instance->why, -EIO,
			   "the worker of plugin %s has been idle for %u s",
			   instance->name, instance->idle_s);
	atomic_store(&instance->broken, true);
	instance->dead = true;
	return true;
}

void pf_instance_leave(struct pf_instance *instance, unsigned ms)
{
	int64_t stays = 0;

	atomic_compare_exchange_strong(&instance->leaves_at, &stays, pf_now_ms() + ms);
	pf_instance_nudge(instance);
}

void pf_instance_count_seconds(struct pf_instance *instance)
{
	uint64_t beats = atomic_load(instance->channel.beats);
	unsigned before = atomic_load(&instance->silent_s), now = before + 1;
	int64_t ms = pf_now_ms(), leaves_at = atomic_load(&instance->leaves_at);
	bool report;

	if (ms < instance->next_second_ms)
		return;
	/* Never more than have passed; after a pause one counts. */
	if (ms - instance->next_second_ms < PF_HEARTBEAT_MS)
		instance->next_second_ms += PF_HEARTBEAT_MS;
	else
		instance->next_second_ms = ms + PF_HEARTBEAT_MS;
	if (beats != instance->beats || !atomic_load(&instance->begun))
		now = 0;
	instance->beats = beats;
	atomic_store(&instance->silent_s, now);
	report = (before < PF_SILENT_S) != (now < PF_SILENT_S) ||
		 (instance->limits.silent_s && now == instance->limits.silent_s);
	if (has_overrun(instance, atomic_fetch_add(&instance->seconds, 1) + 1))
		report = !atomic_exchange(&instance->overran, true) || report;
	if (leaves_at && ms >= leaves_at)
		report = !atomic_exchange(&instance->stopped, true) || report;
	report = has_idled(instance) || report;
	if (report)
		pf_instance_nudge(instance);
}
