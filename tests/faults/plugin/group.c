/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of several processes, as XLA makes one (xla/pjrt/distributed/topology_util.cc): each node
 * puts what it has, node 0 gets all of these and puts the whole, and the others get that.  A program
 * with the word "everywhere" runs on the first device of every node, and waits for all of them.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

enum { WAIT_MS = 20000, SLICE_MS = 200, LARGE = 1 << 20, WAITERS = 64 };

int node, nodes = 1;
static PJRT_Client_Create_Args store; /* its callbacks hold as long as the client */
static atomic_bool gone;              /* a node is */
static atomic_int runs, running;      /* programs of all nodes: begun; at this moment */

static PJRT_Error *new_error(PJRT_Error_Code code, const char *message, size_t len)
{
	return error_new(code, "%.*s", (int)len, message);
}
static PJRT_CallbackError make_error = new_error;

/* The arguments that the store's functions for a KEY have in common. */
#define KEY_ARGS(name, field)                                                            \
	.struct_size = PJRT_KeyValue##name##Callback_Args_STRUCT_SIZE, .key = key,       \
	.key_size = strlen(key), .callback_error = &make_error,                          \
	.user_arg = store.kv_##field##_user_arg

PJRT_Error *group_put(const char *key, const char *value, size_t len)
{
	PJRT_KeyValuePutCallback_Args args = {
		KEY_ARGS(Put, put),
		.value = value,
		.value_size = len,
	};

	return store.kv_put_callback(&args);
}

/* The value of KEY, the caller's, in *VALUE. */
static PJRT_Error *get(const char *key, int timeout_ms, char **value, size_t *len)
{
	PJRT_KeyValueGetCallback_Args args = {
		KEY_ARGS(Get, get),
		.timeout_in_ms = timeout_ms,
	};
	PJRT_Error *e = store.kv_get_callback(&args);

	if (e)
		return e;
	*len = args.value_size;
	*value = malloc(*len + 1);
	if (!*value)
		abort();
	memcpy(*value, args.value, *len);
	(*value)[*len] = '\0';
	args.value_deleter_callback(args.value);
	return NULL;
}

static PJRT_Error *try_get(const char *key)
{
	PJRT_KeyValueTryGetCallback_Args args = {
		KEY_ARGS(TryGet, try_get),
	};
	PJRT_Error *e = store.kv_try_get_callback(&args);

	if (!e)
		args.value_deleter_callback(args.value);
	return e;
}

/* --- the topology --------------------------------------------------------------------- */

/* Node 0 joins what all nodes have put. */
static PJRT_Error *put_whole(void)
{
	char whole[TEXT_LEN * 4] = "", key[TEXT_LEN], *value;
	PJRT_Error *e;
	size_t len;

	for (int i = 0; i < nodes; i++) {
		snprintf(key, sizeof(key), "local_topology/faulty/%d", i);
		e = get(key, WAIT_MS, &value, &len);
		if (e)
			return e;
		strncat(whole, value, sizeof(whole) - strlen(whole) - 1);
		free(value);
	}
	return group_put("global_topology/faulty", whole, strlen(whole));
}

static PJRT_Error *exchange(void)
{
	char key[TEXT_LEN], mine[TEXT_LEN], *whole;
	PJRT_Error *e;
	size_t len;

	snprintf(key, sizeof(key), "local_topology/faulty/%d", node);
	snprintf(mine, sizeof(mine), "node %d has %d devices;", node, N_DEVICES);
	e = group_put(key, mine, strlen(mine));
	if (!e && node == 0)
		e = put_whole();
	if (!e)
		e = get("global_topology/faulty", WAIT_MS, &whole, &len);
	if (e)
		return e;
	fprintf(stderr, "faulty: topology %s\n", whole);
	free(whole);
	return NULL;
}

/* --- what the store must be able to do ------------------------------------------------ */

static void *wait_late(void *arg)
{
	char key[TEXT_LEN], *value = NULL;
	size_t len = 0;
	PJRT_Error *e;

	snprintf(key, sizeof(key), "late/%d/%d", node, *(int *)arg);
	e = get(key, WAIT_MS, &value, &len);
	*(int *)arg = !e && len == strlen(key) && !strcmp(value, key);
	free(value);
	return NULL;
}

/* Threads wait for values that come later. */
static bool waiters_wake(void)
{
	pthread_t threads[WAITERS];
	int numbers[WAITERS];
	bool all = true;

	for (int i = 0; i < WAITERS; i++) {
		numbers[i] = i;
		if (pthread_create(&threads[i], NULL, wait_late, &numbers[i]))
			abort();
	}
	sleep_ms(SLICE_MS);
	for (int i = 0; i < WAITERS; i++) {
		char key[TEXT_LEN];

		snprintf(key, sizeof(key), "late/%d/%d", node, i);
		all = all && !group_put(key, key, strlen(key));
	}
	for (int i = 0; i < WAITERS; i++) {
		pthread_join(threads[i], NULL);
		all = all && numbers[i];
	}
	return all;
}

static PJRT_Error_Code code_and_free(PJRT_Error *e)
{
	PJRT_Error_Code code = e ? e->code : PJRT_Error_Code_OK;

	free(e);
	return code;
}

static void check_store(void)
{
	char *large = malloc(LARGE), *value = NULL, key[TEXT_LEN];
	bool same;
	size_t len = 1;

	if (!large)
		abort();
	for (int i = 0; i < LARGE; i++)
		large[i] = (char)(i * 7);
	snprintf(key, sizeof(key), "large/%d", node);
	same = !group_put(key, large, LARGE) && !get(key, WAIT_MS, &value, &len) &&
	       len == LARGE && !memcmp(value, large, LARGE);
	free(value);
	value = NULL;
	fprintf(stderr, "store: large %s\n", same ? "same" : "differs");
	snprintf(key, sizeof(key), "empty/%d", node);
	same = !group_put(key, "", 0) && !get(key, WAIT_MS, &value, &len) && len == 0;
	free(value);
	fprintf(stderr, "store: empty %s\n", same ? "same" : "differs");
	fprintf(stderr, "store: twice %d, missing %d, late %d\n",
		code_and_free(group_put(key, "x", 1)),
		code_and_free(try_get("no such key")),
		code_and_free(get("no such key", 1500, &value, &len)));
	fprintf(stderr, "store: %d waiters %s\n", WAITERS,
		waiters_wake() ? "woke" : "failed");
	free(large);
}

/* --- the client ----------------------------------------------------------------------- */

static int64_t option(const PJRT_Client_Create_Args *args, const char *name,
		      int64_t usual)
{
	for (size_t i = 0; i < args->num_options; i++) {
		const PJRT_NamedValue *v = &args->create_options[i];

		if (v->type == PJRT_NamedValue_kInt64 && v->name_size == strlen(name) &&
		    !memcmp(v->name, name, v->name_size))
			return v->int64_value;
	}
	return usual;
}

PJRT_Error *group_join(const PJRT_Client_Create_Args *args)
{
	char fault[TEXT_LEN];
	PJRT_Error *e;

	node = (int)option(args, "node_id", 0);
	nodes = (int)option(args, "num_nodes", 1);
	if (nodes < 1 || nodes > MAX_NODES || node < 0 || node >= nodes)
		return error_new(PJRT_Error_Code_INVALID_ARGUMENT,
				 "faulty: node %d of %d", node, nodes);
	make_devices();
	if (!args->kv_put_callback || nodes == 1)
		return NULL;
	store = *args;
	e = exchange();
	if (!e && find_fault(CLIENT, fault) && fault_arg(fault, "store"))
		check_store();
	return e;
}

PJRT_Error *faulty_Client_UpdateGlobalProcessInfo(
	PJRT_Client_UpdateGlobalProcessInfo_Args *args)
{
	for (size_t i = 0; i < args->num_process_infos; i++)
		if (args->process_infos[i].state == PJRT_ProcessState_kError) {
			fprintf(stderr, "faulty: process %d is gone\n",
				args->process_infos[i].task_id);
			atomic_store(&gone, true);
		}
	return NULL;
}

PJRT_Error *group_get(const char *key, char **value, size_t *len)
{
	PJRT_Error *e;

	while ((e = get(key, SLICE_MS, value, len)) &&
	       e->code == PJRT_Error_Code_DEADLINE_EXCEEDED && !atomic_load(&gone))
		error_free(e);
	return e;
}

PJRT_Error *await_nodes(void)
{
	int run = atomic_fetch_add(&runs, 1);
	char key[TEXT_LEN], *value;
	PJRT_Error *e;
	size_t len;

	/* Nodes that run several in different orders would wait for each other. */
	if (atomic_fetch_add(&running, 1))
		return error_new(PJRT_Error_Code_INTERNAL,
				 "faulty: two programs of all nodes at once");
	snprintf(key, sizeof(key), "run/%d/%d", run, node);
	e = group_put(key, "", 0);
	for (int i = 0; !e && i < nodes; i++) {
		snprintf(key, sizeof(key), "run/%d/%d", run, i);
		e = group_get(key, &value, &len);
		if (!e)
			free(value);
	}
	atomic_fetch_sub(&running, 1);
	return e;
}
