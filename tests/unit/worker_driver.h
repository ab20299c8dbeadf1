/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's half of the protocol, for tests of pjrtfs-worker: a socket, real memfds,
 * the rings.  The program is $PJRTFS_WORKER or ./pjrtfs-worker.
 */
#ifndef PJRTFS_TESTS_UNIT_WORKER_DRIVER_H
#define PJRTFS_TESTS_UNIT_WORKER_DRIVER_H

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugins.h"

#include "pjrtfs/base.h"
#include "pjrtfs/array.h"
#include "pjrtfs/wire.h"

#define ARENA_SIZE (UINT64_C(1) << 30)
#ifndef POOL_SIZE
#define POOL_SIZE (UINT64_C(4) << 30)
#endif

enum { SETUP_MS = 60000 };

/* CompileOptionsProto: executable_build_options { num_replicas: 1 num_partitions: 1 }. */
static const char one_device[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };

static const char add_scalars[] =
	"module @add {\n"
	"  func.func public @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
	"    %0 = stablehlo.add %a, %b : tensor<f32>\n"
	"    return %0 : tensor<f32>\n"
	"  }\n"
	"}\n";

/* The worker, seen from the daemon. */
struct daemon {
	pid_t pid;
	int sock;
	struct pf_channel channel;
	char *arena;
	const char *pool;
	struct json_object *description;
	uint64_t next_tag;
};

static struct daemon d;

/* A file in memory of SIZE bytes, mapped into *MEMORY. */
static inline int shared_file(const char *name, uint64_t size, int prot, char **memory)
{
	int fd = memfd_create(name, MFD_CLOEXEC);
	void *p;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	p = mmap(NULL, size, prot, MAP_SHARED | MAP_NORESERVE, fd, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	*memory = p;
	return fd;
}

static inline pid_t spawn(int sock)
{
	const char *program = worker_program();
	char parent[32];
	pid_t pid;

	snprintf(parent, sizeof(parent), "%d", (int)getpid());
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid > 0)
		return pid;
	if (sock == PF_CHANNEL_FD)
		fcntl(sock, F_SETFD, 0);
	else
		dup2(sock, PF_CHANNEL_FD);
	execl(program, "pjrtfs-worker", "test", parent, (char *)NULL);
	perror(program);
	_exit(127);
}

/* Start a worker for two devices of the plugin at PATH. */
static inline void start(const char *path)
{
	struct json_object *setup = json_object_new_object();
	struct pf_buf answer = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	int pair[2], fds[3];
	const char *text;

	memset(&d, 0, sizeof(d));
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	d.sock = pair[0];
	d.pid = spawn(pair[1]);
	close(pair[1]);
	fds[0] = pf_channel_create(&err);
	ck_assert_msg(fds[0] >= 0, "%s", err.text);
	ck_assert_int_eq(pf_channel_map(&d.channel, fds[0], &err), 0);
	fds[1] = shared_file("arena", ARENA_SIZE, PROT_READ | PROT_WRITE, &d.arena);
	fds[2] = shared_file("pool", POOL_SIZE, PROT_READ, (char **)(uintptr_t)&d.pool);
	json_object_object_add(setup, "version", json_object_new_int(PF_WIRE_VERSION));
	json_object_object_add(setup, "plugin", json_object_new_string(path));
	json_object_object_add(setup, "options",
			       json_tokener_parse("{\"cpu_device_count\":2}"));
	json_object_object_add(setup, "arena_size", json_object_new_int64(ARENA_SIZE));
	json_object_object_add(setup, "pool_size", json_object_new_int64(POOL_SIZE));
	text = json_object_to_json_string(setup);
	ck_assert_int_eq(pf_channel_send(d.sock, text, strlen(text), fds, 3, &err), 0);
	json_object_put(setup);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	ck_assert_msg(pf_channel_recv(d.sock, &answer, NULL, 0, SETUP_MS, &err) == 0,
		      "%s", err.text);
	d.description = json_tokener_parse(answer.data);
	ck_assert_msg(json_object_get_boolean(
			      json_object_object_get(d.description, "ok")),
		      "%s", answer.data);
	pf_buf_release(&answer);
}

/* Hang up; the worker must end at once and without complaint.  Returns its status. */
static inline int stop(void)
{
	int status = -1;

	close(d.sock);
	ck_assert_int_eq(waitpid(d.pid, &status, 0), d.pid);
	pf_channel_release(&d.channel);
	munmap(d.arena, ARENA_SIZE);
	munmap((void *)(uintptr_t)d.pool, POOL_SIZE);
	json_object_put(d.description);
	return status;
}

static inline void stop_ok(void)
{
	ck_assert_int_eq(stop(), 0);
}

static _Alignas(64) char reply[PF_RING_MESSAGE];

static inline void take_reply(void *dst)
{
	ssize_t n;

	while ((n = pf_ring_take(&d.channel.reply, dst, PF_RING_MESSAGE)) == -EAGAIN)
		pf_ring_wait(&d.channel.reply, 50, -1);
	ck_assert_int_ge(n, (int)sizeof(struct pf_rep_head));
	ck_assert_uint_eq(((struct pf_rep_head *)dst)->head.len, (uint32_t)n);
}

/* Send the LEN bytes at MESSAGE with the head filled in; returns the tag. */
static inline uint64_t send_message(enum pf_op op, void *message, size_t len)
{
	struct pf_msg_head *head = message;

	head->tag = ++d.next_tag;
	head->op = op;
	head->len = (uint32_t)len;
	ck_assert_int_eq(pf_ring_post(&d.channel.request, message, len, NULL, 0), 0);
	return head->tag;
}

/* One request and its reply, in reply; the reply's code. */
static inline int ask(enum pf_op op, void *message, size_t len)
{
	struct pf_rep_head *rep = (struct pf_rep_head *)reply;
	uint64_t tag = send_message(op, message, len);

	take_reply(reply);
	ck_assert_uint_eq(rep->head.tag, tag);
	ck_assert_uint_eq(rep->head.op, op);
	return rep->code;
}

static inline const char *complaint(void)
{
	struct pf_rep_head *rep = (struct pf_rep_head *)reply;

	reply[rep->head.len] = '\0';
	return rep->code < 0 ? reply + sizeof(*rep) : "";
}

/* Executions get PLATFORM - 1 before their arguments; PLATFORM 0: not. */
static inline int compile_for(uint64_t id, const char *program, uint32_t platform)
{
	struct {
		struct pf_req_compile q;
		char options[sizeof(one_device)];
	} m = { .q = { .id = id,
		       .program_off = 4096,
		       .program_len = strlen(program),
		       .format = "mlir",
		       .options_len = sizeof(one_device),
		       .platform = platform } };

	memcpy(d.arena + 4096, program, strlen(program));
	memcpy(&m.q + 1, one_device, sizeof(one_device));
	return ask(PF_OP_COMPILE, &m, sizeof(m.q) + sizeof(one_device));
}

static inline int compile(uint64_t id, const char *program)
{
	return compile_for(id, program, 0);
}

static inline struct pf_req_buffer buffer_request(uint64_t id, uint64_t off, uint64_t len,
						  int dtype)
{
	return (struct pf_req_buffer){ .id = id,
				       .off = off,
				       .len = len,
				       .dtype = (uint32_t)dtype,
				       .memory = UINT32_MAX };
}

/* A buffer of N floats from the arena's offset OFF (N 0: a scalar). */
static inline uint64_t create_floats(uint64_t id, uint64_t off, int64_t n)
{
	struct pf_req_buffer q =
		buffer_request(id, off, (uint64_t)(n ? n : 1) * 4, PF_DTYPE_F32);

	q.rank = n ? 1 : 0;
	q.dims[0] = n;
	ck_assert_msg(ask(PF_OP_BUFFER_CREATE, &q, sizeof(q)) == 0, "%s", complaint());
	return ((struct pf_rep_buffer *)reply)->alias_off;
}

struct execute_message {
	struct pf_req_execute q;
	uint64_t ids[12]; /* and then the rest of the message */
};

/* The lists behind the ids of M, which has one result. */
static inline uint32_t *carry_of(struct execute_message *m)
{
	return (uint32_t *)(m->ids + m->q.n_args + 1);
}

static inline uint8_t *donate_of(struct execute_message *m)
{
	return (uint8_t *)(carry_of(m) + m->q.n_args);
}

/* Execute once with up to four arguments and one result; no argument is donated or replaced. */
static inline size_t execute_message(struct execute_message *m, uint64_t executable,
				     const uint64_t *args, uint32_t n_args, uint64_t out)
{
	*m = (struct execute_message){ .q = { .executable = executable,
					      .device = UINT32_MAX,
					      .n_args = n_args,
					      .n_outs = 1,
					      .n_devices = 1 } };
	memcpy(m->ids, args, n_args * sizeof(uint64_t));
	m->ids[n_args] = out;
	memset(carry_of(m), 0xff, n_args * sizeof(uint32_t));
	return pf_execute_bytes(n_args, 1, 1);
}

static inline int execute(uint64_t executable, const uint64_t *args, uint32_t n_args,
			  uint64_t out)
{
	struct execute_message m;
	size_t len = execute_message(&m, executable, args, n_args, out);

	return ask(PF_OP_EXECUTE, &m, len);
}

/* An execution of lent bytes: its q, ids, and what is lent. */
struct call_message {
	struct pf_req_execute q;
	uint64_t lists[64];
};

/* Behind the ids of M, which has one result: what is lent, one argument after another. */
static inline struct pf_arg *lent_of(struct call_message *m)
{
	return (struct pf_arg *)(m->lists + m->q.n_args + 1);
}

/* Call EXECUTABLE with N_ARGS arguments F32[n] (n 0: scalars), one after another from offset FROM
 * on, and one result, which may become buffer OUT. */
static inline size_t call_message(struct call_message *m, uint64_t executable,
				  uint32_t n_args, uint64_t from, int64_t n, uint64_t out)
{
	uint64_t len = (uint64_t)(n ? n : 1) * sizeof(float);
	char *at;

	*m = (struct call_message){ .q = { .executable = executable,
					   .device = UINT32_MAX,
					   .n_args = n_args,
					   .n_outs = 1,
					   .n_devices = 1,
					   .flags = PF_EXECUTE_TAKE } };
	m->lists[n_args] = out;
	at = (char *)lent_of(m);
	for (uint32_t i = 0; i < n_args; i++) {
		struct pf_arg arg = { .off = from + i * ((len + 63) & ~UINT64_C(63)),
				      .len = len,
				      .dtype = PF_DTYPE_F32,
				      .rank = n ? 1 : 0 };

		memcpy(at, &arg, sizeof(arg));
		at += sizeof(arg);
		memcpy(at, &n, arg.rank * sizeof(n));
		at += arg.rank * sizeof(n);
	}
	memset(at, 0xff, n_args * sizeof(uint32_t));
	at += n_args * (sizeof(uint32_t) + 1);
	return (size_t)(at - (char *)m);
}

static inline int call(uint64_t executable, uint32_t n_args, uint64_t from, int64_t n,
		       uint64_t out)
{
	struct call_message m;
	size_t len = call_message(&m, executable, n_args, from, n, out);

	return ask(PF_OP_EXECUTE, &m, len);
}

static inline void post_id(enum pf_op op, uint64_t id)
{
	struct pf_req_id q = { .id = id };

	send_message(op, &q, sizeof(q));
}

static inline const struct pf_out *result(unsigned i)
{
	return (const struct pf_out *)(reply + sizeof(struct pf_rep_execute)) + i;
}

#endif
