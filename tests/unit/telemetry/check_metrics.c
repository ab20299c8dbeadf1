/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics: histograms, meters, and the text that Prometheus reads. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "pjrtfs/telemetry.h"
#include "unit.h"

static struct pf_telemetry *metrics;
static struct pf_buf text;

static bool name_of(void *arg, uint64_t subject, struct pf_buf *out, uid_t *ret_user)
{
	(void)arg;
	*ret_user = 0;
	if (subject == 13)
		return false;
	pf_buf_printf(out, "executables/p%llu", (unsigned long long)subject);
	return true;
}

static void setup(void)
{
	metrics = pf_telemetry_new(0, 0, 0);
	ck_assert_ptr_nonnull(metrics);
	pf_telemetry_attach(metrics, &(struct pf_telemetry_names){ .name = name_of });
}

static void teardown(void)
{
	pf_buf_release(&text);
	pf_telemetry_free(metrics);
}

static const char *print(void)
{
	pf_buf_release(&text);
	pf_metrics_print(metrics, &text);
	ck_assert(!text.failed);
	return text.data;
}

static void has(const char *line)
{
	const char *at = print();
	size_t len = strlen(line);

	while ((at = strstr(at, line))) {
		if ((at == text.data || at[-1] == '\n') && at[len] == '\n')
			return;
		at++;
	}
	ck_abort_msg("no line '%s' in:\n%s", line, text.data);
}

static void has_not(const char *piece)
{
	ck_assert_msg(!strstr(print(), piece), "'%s' in:\n%s", piece, text.data);
}

/* Which bucket SECONDS belong to: a bound belongs to its own. */
static const struct {
	double seconds;
	unsigned bucket;
} times[] = {
	{ -1, 0 },     { 0, 0 },  { 1e-9, 0 },  { 1e-5, 0 }, { 1.01e-5, 1 }, { 0.001, 4 },
	{ 0.0011, 5 }, { 1, 10 }, { 29.9, 13 }, { 100, 14 }, { 100.1, 15 },  { 1e6, 15 },
};

TEST_EACH(a_time_has_one_bucket, times)
{
	struct pf_histogram h = { 0 };
	double want = times[_i].seconds > 0 ? times[_i].seconds : 0;

	pf_histogram_add(&h, 1, times[_i].seconds);
	for (unsigned i = 0; i <= PF_BUCKETS; i++)
		ck_assert_uint_eq(h.buckets[i], i == times[_i].bucket);
	ck_assert_uint_eq(h.ns, (uint64_t)(want * 1e9 + 0.5));
}

TEST(results)
{
	ck_assert_int_eq(pf_outcome_of(0), PF_OUTCOME_OK);
	ck_assert_int_eq(pf_outcome_of(-EIO), PF_OUTCOME_FAILED);
	ck_assert_int_eq(pf_outcome_of(-EINTR), PF_OUTCOME_CANCELLED);
	ck_assert_int_eq(pf_outcome_of(-ECANCELED), PF_OUTCOME_CANCELLED);
}

TEST(plugins_and_devices)
{
	struct pf_plugin_meter *a =
		pf_metrics_plugin(metrics, "cpu", 2, (int64_t[]){ 0, 7 });
	struct pf_plugin_meter *b = pf_metrics_plugin(metrics, "b", 0, NULL);
	struct pf_device_meter *d = pf_meter_device(a, 1);

	ck_assert_ptr_null(pf_meter_device(a, 2));
	ck_assert_ptr_null(pf_meter_device(b, 0));
	ck_assert_ptr_null(pf_meter_device(NULL, 0));
	pf_meter_compile(a, PF_OUTCOME_OK, 0.02);
	pf_meter_compile(a, PF_OUTCOME_FAILED, 2);
	pf_meter_compile(b, PF_OUTCOME_CANCELLED, 2);
	pf_meter_execution(a, NULL, PF_OUTCOME_OK, 1, 0.5, (unsigned[]){ 0, 1, 99 }, 3);
	pf_meter_execution(a, NULL, PF_OUTCOME_FAILED, 1, 0.5, (unsigned[]){ 0 }, 1);
	pf_meter_transfer(&d->to, PF_OUTCOME_OK, 1000, 0.001);
	pf_meter_transfer(&d->to, PF_OUTCOME_FAILED, 1000, 0.001);
	pf_meter_transfer(&d->from, PF_OUTCOME_OK, 24, 0.001);
	has("pjrtfs_compiles_total{plugin=\"cpu\",result=\"ok\"} 1");
	has("pjrtfs_compiles_total{plugin=\"cpu\",result=\"failed\"} 1");
	has("pjrtfs_compiles_total{plugin=\"b\",result=\"cancelled\"} 1");
	has("pjrtfs_compile_seconds_bucket{plugin=\"cpu\",le=\"0.01\"} 0");
	has("pjrtfs_compile_seconds_bucket{plugin=\"cpu\",le=\"0.03\"} 1");
	has("pjrtfs_compile_seconds_bucket{plugin=\"cpu\",le=\"3\"} 2");
	has("pjrtfs_compile_seconds_bucket{plugin=\"cpu\",le=\"+Inf\"} 2");
	has("pjrtfs_compile_seconds_sum{plugin=\"cpu\"} 2.020000000");
	has("pjrtfs_compile_seconds_count{plugin=\"cpu\"} 2");
	has("pjrtfs_compile_seconds_count{plugin=\"b\"} 0");
	has("pjrtfs_executions_total{plugin=\"cpu\",result=\"failed\"} 1");
	has("pjrtfs_device_execution_seconds_count{plugin=\"cpu\",device=\"cpu:0\"} 1");
	has("pjrtfs_device_execution_seconds_count{plugin=\"cpu\",device=\"cpu:7\"} 1");
	has("pjrtfs_uploads_total{plugin=\"cpu\",device=\"cpu:7\",result=\"ok\"} 1");
	has("pjrtfs_upload_bytes_total{plugin=\"cpu\",device=\"cpu:7\"} 1000");
	has("pjrtfs_download_bytes_total{plugin=\"cpu\",device=\"cpu:7\"} 24");
}

TEST(executables_come_and_go)
{
	struct pf_executable_meter *a = pf_metrics_executable(metrics, 2);
	struct pf_executable_meter *b = pf_metrics_executable(metrics, 1);

	pf_meter_execution(NULL, a, PF_OUTCOME_OK, 1, 0.5, NULL, 0);
	pf_meter_execution(NULL, a, PF_OUTCOME_FAILED, 1, 0.5, NULL, 0);
	has("pjrtfs_executable_executions_total{executable=\"p2\",result=\"ok\"} 1");
	has("pjrtfs_executable_executions_total{executable=\"p2\",result=\"failed\"} 1");
	has("pjrtfs_executable_execution_seconds_count{executable=\"p2\"} 1");
	has("pjrtfs_executable_execution_seconds_count{executable=\"p1\"} 0");
	pf_executable_meter_name(a, 3); /* renamed */
	has_not("\"p2\"");
	has("pjrtfs_executable_execution_seconds_count{executable=\"p3\"} 1");
	pf_executable_meter_name(b, 13); /* no name any more */
	has_not("\"p1\"");
	pf_executable_meter_name(a, 0);
	has_not("executable=");
	pf_executable_meter_free(a);
	pf_executable_meter_free(b);
	pf_executable_meter_free(NULL);
	has_not("executable=");
}

TEST(executables_of_one_name_share_a_series)
{
	struct pf_executable_meter *a = pf_metrics_executable(metrics, 2);
	struct pf_executable_meter *b = pf_metrics_executable(metrics, 2);
	const char *at = print();

	at = strstr(at, "seconds_count{executable=\"p2\"}");
	ck_assert_ptr_nonnull(at);
	ck_assert_ptr_null(strstr(at + 1, "seconds_count{executable=\"p2\"}"));
	pf_executable_meter_free(a);
	pf_executable_meter_free(b);
}

TEST(executables_are_bounded)
{
	struct pf_executable_meter *x[PF_METRICS_EXECUTABLES + 2];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(x); i++)
		x[i] = pf_metrics_executable(metrics, 100 + i);
	ck_assert_ptr_nonnull(x[PF_METRICS_EXECUTABLES - 1]);
	ck_assert_ptr_null(x[PF_METRICS_EXECUTABLES]);
	pf_meter_execution(NULL, x[PF_METRICS_EXECUTABLES], PF_OUTCOME_OK, 1, 1, NULL, 0);
	for (const char *p = print(); (p = strstr(p, "_seconds_count{executable")); p++)
		n++;
	ck_assert_uint_eq(n, PF_METRICS_EXECUTABLES);
	has("pjrtfs_executables_not_measured_total 2");
	/* a removed executable makes room */
	pf_executable_meter_free(x[5]);
	x[5] = pf_metrics_executable(metrics, 7);
	ck_assert_ptr_nonnull(x[5]);
	has("pjrtfs_executable_execution_seconds_count{executable=\"p7\"} 0");
	has_not("\"p105\"");
	for (size_t i = 0; i < ARRAY_SIZE(x); i++)
		pf_executable_meter_free(x[i]);
}

TEST(labels_are_escaped)
{
	const char *labels[] = { "a", "x\"y\\z\nw", "b", "\xff\xc3\xa9" };

	pf_metrics_sample(&text, "m", labels, 4, 3);
	ck_assert_str_eq(text.data, "m{a=\"x\\\"y\\\\z\\nw\",b=\"?\xc3\xa9\"} 3\n");
}

TEST(without_a_meter_nothing_is_counted)
{
	pf_meter_compile(NULL, PF_OUTCOME_OK, 1);
	pf_meter_execution(NULL, NULL, PF_OUTCOME_OK, 1, 1, (unsigned[]){ 0 }, 1);
	pf_meter_transfer(NULL, PF_OUTCOME_OK, 1, 1);
	ck_assert_ptr_null(pf_metrics_plugin(NULL, "x", 0, NULL));
	ck_assert_ptr_null(pf_metrics_executable(NULL, 1));
	pf_executable_meter_name(NULL, 1);
	pf_report_cache(metrics, PF_REPORT_CACHE_DAMAGED, 0, "00", 1);
	pf_report_job(metrics, PF_REPORT_JOB_CANCELLED, 1, 0, NULL, NULL, 1, NULL);
	has("pjrtfs_cache_damaged_total 1");
	has("pjrtfs_jobs_total{result=\"cancelled\"} 1");
}

static struct pf_plugin_meter *busy;

static void *count_many(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 20000; i++) {
		struct pf_executable_meter *x = pf_metrics_executable(metrics, 1);

		pf_meter_execution(busy, x, PF_OUTCOME_OK, 1, 1e-4, (unsigned[]){ 0 }, 1);
		pf_executable_meter_free(x);
	}
	return NULL;
}

TEST(threads_lose_no_counts)
{
	pthread_t threads[3];

	busy = pf_metrics_plugin(metrics, "cpu", 1, (int64_t[]){ 0 });
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, count_many, NULL), 0);
	for (unsigned i = 0; i < 50; i++)
		print();
	for (unsigned i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	has("pjrtfs_executions_total{plugin=\"cpu\",result=\"ok\"} 60000");
	has("pjrtfs_device_execution_seconds_sum{plugin=\"cpu\",device=\"cpu:0\"} "
	    "6.000000000");
}

UNIT_FIXTURE(setup, teardown)
