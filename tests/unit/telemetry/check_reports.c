/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of the layers become events. */
#include <errno.h>
#include <string.h>

#include "pjrtfs/telemetry.h"
#include "quoted.h"
#include "unit.h"

enum { OWNER = 1000 };

static bool name_of(void *arg, uint64_t subject, struct pf_buf *path, uid_t *ret_user)
{
	if (subject != 5)
		return false;
	*ret_user = *(uid_t *)arg;
	pf_buf_puts(path, "executables/add");
	return true;
}

static void count_free(void *arg)
{
	*(uid_t *)arg = 0;
}

static const char *const told_user[] = {
	"'program.queued','user':7,'object':'executables/add','plugin':'cpu','bytes':100}",
	"'program.failed','user':7",
	"'cache':'miss'",
	"'program.compiling'",
	"'buffer.donated','user':7",
	("'execution.finished','user':7,'object':'executables/add','devices':['cpu:0'],"
	 "'seconds':0.250000000,'device_seconds':0.125000000,'id':7}"),
	"'job.failed','user':7,'object':'jobs/17','executable':'add','id':'mine','seconds':0.5",
	"'cache.evicted','user':7,'object':'cache/entries/00ff','bytes':12}",
};
static const char *const told_owner[] = { "'worker.died'", "boom", "'worker.restarted'" };

static void expect_parts(const char *text, const char *const *parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(strstr(text, quoted(parts[i])) != NULL, "no %s in %s",
			      parts[i], text);
}

TEST(layers_report)
{
	uid_t user = 7;
	struct pf_telemetry_names names = { .name = name_of,
					    .free = count_free,
					    .arg = &user };
	struct pf_telemetry *w = pf_telemetry_new(OWNER, 0, 0);
	struct pf_plugin_meter *meter = pf_metrics_plugin(w, "cpu", 1, (int64_t[]){ 0 });
	struct pf_err err = PF_ERR_INIT;
	struct pf_report_compile told;
	char text[8192];
	struct pf_lines_reader r = { 0 };

	pf_err_set(&err, -EIO, "it printed: boom");
	pf_report_worker_started(w, "cpu", 42, 0);
	pf_report_worker_died(w, meter, "cpu", 42, &err);
	pf_report_worker_started(w, "cpu", 43, 1);
	pf_report_queued(w, 5, 100, "cpu", &told); /* names are not known yet */
	ck_assert_ptr_null(told.object);
	pf_report_compiled(w, meter, &told, NULL, 1, NULL, false);
	pf_telemetry_attach(w, &names);
	pf_report_queued(w, 5, 100, "cpu", &told);
	pf_report_compiling(w, &told, 0);
	pf_report_compiling(w, &told, 10);
	pf_report_compiled(w, meter, &told, &err, 1, "miss", true);
	pf_report(w, 5, "buffer.donated");
	pf_report(w, 6, "never.told");
	pf_report_executed(w, meter, NULL,
			   &(struct pf_report_execution){ .executable = "add",
							  .user = 7,
							  .id = "7",
							  .seconds = 0.25,
							  .device_seconds = 0.125,
							  .devices = (unsigned[]){ 0, 9 },
							  .n_devices = 2 });
	pf_report_job(w, PF_REPORT_JOB_FAILED, 17, 7, "add", "\"mine\"", 0.5, &err);
	pf_report_cache(w, PF_REPORT_CACHE_EVICTED, 7, "00ff", 12);
	text[pf_events_read(w, 7, &r, 0, text, sizeof(text) - 1)] = '\0';
	ck_assert_ptr_null(strstr(text, "worker"));
	ck_assert_ptr_null(strstr(text, "never.told"));
	expect_parts(text, told_user, ARRAY_SIZE(told_user));
	pf_lines_reader_release(&r);
	text[pf_events_read(w, OWNER, &r, 0, text, sizeof(text) - 1)] = '\0';
	expect_parts(text, told_owner, ARRAY_SIZE(told_owner));
	pf_lines_reader_release(&r);
	pf_telemetry_free(w);
	ck_assert_uint_eq(user, 0);
	/* Without a telemetry the reports do nothing. */
	pf_report_queued(NULL, 5, 100, "cpu", &told);
	pf_report_compiled(NULL, NULL, &told, NULL, 1, NULL, false);
	pf_report_worker_died(NULL, NULL, "cpu", 1, &err);
	pf_report_job(NULL, PF_REPORT_JOB_QUEUED, 1, 7, NULL, NULL, 0, NULL);
	pf_report_cache(NULL, PF_REPORT_CACHE_HIT, 7, "00", 1);
	pf_telemetry_free(NULL);
}
