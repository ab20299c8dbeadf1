/* SPDX-License-Identifier: Apache-2.0 */
/* Values that come from other members of the plugin's group, and go to them. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

struct pf_value *pf_value_received(const struct pf_array_type *type,
				   struct pf_place place, const struct pf_peer *from)
{
	struct pf_value *v = pf_value_blank(type, place);

	if (!v)
		return NULL;
	v->from = malloc(sizeof(*v->from));
	if (!v->from) {
		pf_value_unref(v);
		return NULL;
	}
	*v->from = *from;
	return v;
}

const struct pf_peer *pf_value_from(const struct pf_value *v)
{
	return v->from;
}

int pf_value_send(struct pf_value *v, const struct pf_peer *to, struct pf_call *call,
		  struct pf_err *err)
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *instance = pf_worker_instance(v->worker, err);
	struct pf_req_send req = {
		.head.op = PF_OP_SEND, .id = to->id, .peer = to->side, .device = v->device
	};
	int r = instance ? pf_value_placed(v, err) : err->code;

	if (r < 0)
		return r;
	req.buffer = pf_value_use(v, instance);
	if (!req.buffer)
		return pf_err_set(err, -EBUSY, "an execution consumes it");
	call->reply_min = sizeof(struct pf_rep_head);
	r = pf_instance_call(instance, call, &req, sizeof(req), NULL, 0, err);
	if (r < 0)
		pf_value_unpin(v);
	return r;
}

void pf_peer_cancel(struct pf_worker *worker, const struct pf_peer *peer)
{
	PF_CLEANUP(pf_instance_unrefp)
	struct pf_instance *instance = pf_worker_instance(worker, NULL);

	if (instance)
		pf_instance_free_id(instance, PF_OP_BUFFER_FREE, peer->id);
}
