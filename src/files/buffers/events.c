/* SPDX-License-Identifier: Apache-2.0 */
/* Events about buffers. */
#include "internal.h"
#include "pjrtfs/base.h"

/* Add BUFFER's device, type and size to E. */
static void describe(struct pf_event *e, struct pf_buffer *buffer)
{
	enum pf_dtype dtype;
	struct pf_shape shape;
	uint64_t bytes;
	char text[128];

	pf_event_str(e, "device", pf_buffer_location(buffer)->device_name);
	if (!pf_buffer_type(buffer, &dtype, &shape))
		return;
	pf_event_str(e, "type", pf_shape_str(text, sizeof(text), dtype, &shape));
	if (pf_shape_bytes(&shape, dtype, &bytes, NULL) == 0)
		pf_event_int(e, "bytes", (int64_t)bytes);
}

void files_report_result(struct pf_node *node, const char *by, bool replaced)
{
	struct pf_event e;

	files_event_begin(&e, "buffer.ready", node);
	describe(&e, buffer_of(node));
	pf_event_str(&e, "by", by);
	if (replaced)
		pf_event_json(&e, "replaced", "true");
	pf_event_send(&e);
}

void files_report_transfer(struct pf_buffer *buffer, const char *event,
			   const struct pf_err *err, double seconds)
{
	struct pf_telemetry *telemetry =
		pf_worker_telemetry(pf_buffer_location(buffer)->worker);
	pf_autobuf struct pf_buf path = PF_BUF_INIT;
	struct pf_event e;
	uid_t user;

	if (!pf_telemetry_name(telemetry, atomic_load(&buffer->subject), &path, &user))
		return;
	pf_event_begin(&e, telemetry, event, user, "%s", path.data);
	describe(&e, buffer);
	pf_event_seconds(&e, "seconds", seconds);
	pf_event_error(&e, err);
	pf_event_send(&e);
}
