/* SPDX-License-Identifier: Apache-2.0 */
/* Events about buffers. */
#include "internal.h"
#include "pjrtfs/base.h"

/* Add the device, type and size of a buffer with FACTS to E. */
static void describe(struct pf_event *e, const struct pf_buffer_facts *facts)
{
	uint64_t bytes;
	char text[128];

	pf_event_str(e, "device", facts->location->device_name);
	if (facts->dtype == PF_DTYPE_INVALID)
		return;
	pf_event_str(e, "type",
		     pf_shape_str(text, sizeof(text), facts->dtype, &facts->shape));
	if (pf_shape_bytes(&facts->shape, facts->dtype, &bytes, NULL) == 0)
		pf_event_int(e, "bytes", (int64_t)bytes);
}

void files_report_result(struct pf_node *node, const char *by, bool replaced)
{
	struct pf_buffer_facts facts;
	struct pf_event e;

	pf_buffer_facts(buffer_of(node), &facts);
	files_event_begin(&e, "buffer.ready", node);
	describe(&e, &facts);
	pf_event_str(&e, "by", by);
	if (replaced)
		pf_event_json(&e, "replaced", "true");
	pf_event_send(&e);
}

void files_report_transfer(struct pf_buffer *buffer, const char *event,
			   const struct pf_err *err, double seconds)
{
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_telemetry *telemetry;
	struct pf_buffer_facts facts;
	struct pf_event e;
	uid_t user;

	pf_buffer_facts(buffer, &facts);
	telemetry = pf_worker_telemetry(facts.location->worker);
	if (!pf_telemetry_name(telemetry, facts.subject, &path, &user))
		return;
	pf_event_begin(&e, telemetry, event, user, "%s", path.data);
	describe(&e, &facts);
	pf_event_seconds(&e, "seconds", seconds);
	pf_event_error(&e, err);
	pf_event_send(&e);
}
