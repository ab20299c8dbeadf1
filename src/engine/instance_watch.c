/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an instance should end: it gives no heartbeat, overruns its limits, is idle, or leaves. */
#include <errno.h>
#include <stdatomic.h>

#include "internal.h"
#include "pjrtfs/base.h"

enum {
	SLOWEST = 8 << 20, /* bytes a second of a link: any that is used is faster */
	USUAL_S = 3600,    /* the default of --transfer-timeout */
	PART = 60,         /* of that time, after which a transfer is slow */
};

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
	if (atomic_load(&instance->overran) == PF_OP_EXECUTE)
		return "FATAL: an execution took longer than the time of --execute-timeout\n";
	if (atomic_load(&instance->overran))
		return "FATAL: a transfer took longer than the time of --transfer-timeout\n";
	if (atomic_load(&instance->leaves_at) && atomic_load(&instance->stopped))
		return "FATAL: it was replaced, and did not end in time what was under way\n";
	if (instance->limits.silent_s &&
	    atomic_load(&instance->silent_s) >= instance->limits.silent_s)
		return "FATAL: it gave no heartbeat within the time of --worker-timeout\n";
	return NULL;
}

uint64_t pf_instance_transfer_s(const struct pf_instance *instance, uint64_t bytes)
{
	unsigned s = instance->limits.transfer_s;

	return s ? s + bytes / SLOWEST : 0;
}

/* The seconds that CALL may take; 0: no limit. */
static uint64_t limit_of(const struct pf_instance *instance, const struct pf_call *call)
{
	if (call->op == PF_OP_EXECUTE)
		return instance->limits.execute_s;
	return call->transfers ? pf_instance_transfer_s(instance, call->bytes) : 0;
}

/* The op of a call under way that has taken longer than it may, or 0.  Marks all such calls. */
static uint32_t find_overrun(struct pf_instance *instance, uint32_t now_s)
{
	struct pf_call *call;
	uint32_t op = 0;
	size_t pos = 0;

	PF_LOCK_SCOPE(&instance->lock);
	while ((call = pf_map_next(&instance->calls, &pos))) {
		uint64_t limit = limit_of(instance, call);

		/* While the program waits for the host, its time stands still. */
		if (call->n_asked)
			call->began_s++;
		else if (limit && now_s - call->began_s > limit)
			call->overran = true;
		if (call->overran)
			op = call->op;
	}
	return op;
}

/* Has CALL, a transfer, taken longer than one should by now, NOW_S? */
static bool is_slow(const struct pf_instance *instance, const struct pf_call *call,
		    uint32_t now_s)
{
	uint64_t limit = pf_instance_transfer_s(instance, call->bytes);
	uint64_t usual = limit ? limit : USUAL_S + call->bytes / SLOWEST;

	return now_s - call->began_s > usual / PART;
}

void pf_instance_slowest_transfer(struct pf_instance *instance,
				  void (*fn)(void *arg, struct pf_call *call,
					     unsigned seconds),
				  void *arg)
{
	uint32_t now_s = atomic_load(&instance->seconds);
	struct pf_call *call, *slowest = NULL;
	size_t pos = 0;

	PF_LOCK_SCOPE(&instance->lock);
	while ((call = pf_map_next(&instance->calls, &pos)))
		if (call->transfers && is_slow(instance, call, now_s) &&
		    (!slowest || call->tag < slowest->tag))
			slowest = call;
	if (slowest)
		fn(arg, slowest, now_s - slowest->began_s);
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
	uint32_t overran;
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
	overran = find_overrun(instance, atomic_fetch_add(&instance->seconds, 1) + 1);
	if (overran)
		report = !atomic_exchange(&instance->overran, overran) || report;
	if (leaves_at && ms >= leaves_at)
		report = !atomic_exchange(&instance->stopped, true) || report;
	report = has_idled(instance) || report;
	if (report)
		pf_instance_nudge(instance);
}
