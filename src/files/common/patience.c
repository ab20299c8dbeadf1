/* SPDX-License-Identifier: Apache-2.0 */
#include "patience.h"

static void fire(struct pf_timer *timer)
{
	struct patience *p = pf_container_of(timer, struct patience, timer);

	p->over(p);
}

void patience_begin(struct patience *p, struct pf_fs *fs, uint64_t ms)
{
	atomic_init(&p->left, false);
	p->timer.fire = fire;
	p->timers = fs->timers;
	if (pf_timer_arm(p->timers, &p->timer, ms) < 0)
		p->timers = NULL;
}

bool patience_end(struct patience *p)
{
	return !p->timers || pf_timer_disarm(p->timers, &p->timer);
}

bool patience_last(struct patience *p)
{
	return atomic_exchange(&p->left, true);
}
