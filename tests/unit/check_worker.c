/*
 * pjrtfs-worker, spoken to as the daemon does: a socket, real memfds, the rings.
 *
 * The program is $PJRTFS_WORKER or ./pjrtfs-worker, the plugins are those named in
 * $PJRTFS_TEST_PLUGIN (several with colons); without one, all is skipped.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pjrtfs/base/buf.h"
#include "pjrtfs/base/cleanup.h"
#include "pjrtfs/formats/dtype.h"
#include "pjrtfs/wire/channel.h"
#include "pjrtfs/wire/message.h"

#ifndef TEST_PLUGIN
#define TEST_PLUGIN NULL
#endif

#define ARENA_SIZE (UINT64_C(1) << 30)
#define POOL_SIZE (UINT64_C(4) << 30)

enum { MAX_PLUGINS = 8, SETUP_MS = 60000, REPLY_MS = 60000 };

static char *plugins[MAX_PLUGINS];
static int n_plugins;

/* CompileOptionsProto: executable_build_options { num_replicas: 1 num_partitions: 1 }. */
static const char one_device[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };

static const char add_scalars[] =
	"module @add {\n"
	"  func.func public @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {\n"
	"    %0 = stablehlo.add %a, %b : tensor<f32>\n"
	"    return %0 : tensor<f32>\n"
	"  }\n"
	"}\n";

static const char add_large[] =
	"module @large {\n"
	"  func.func public @main(%a: tensor<1048576xf32>) -> tensor<1048576xf32> {\n"
	"    %0 = stablehlo.add %a, %a : tensor<1048576xf32>\n"
	"    return %0 : tensor<1048576xf32>\n"
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
	pthread_mutex_t lock; /* protects next_tag */
};

/* A file in memory of SIZE bytes, mapped into *MEMORY. */
static int shared_file(const char *name, uint64_t size, int prot, char **memory)
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

static pid_t spawn(int sock)
{
	const char *program = getenv("PJRTFS_WORKER");
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
	program = program ? program : "./pjrtfs-worker";
	execl(program, "pjrtfs-worker", "test", parent, (char *)NULL);
	perror(program);
	_exit(127);
}

/* Start a worker for the plugin at PATH; OPTIONS is JSON.  d->description is its answer. */
static void start(struct daemon *d, const char *path, const char *options)
{
	struct json_object *setup = json_object_new_object();
	struct pf_buf answer = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	int pair[2], fds[3];
	const char *text;

	memset(d, 0, sizeof(*d));
	pthread_mutex_init(&d->lock, NULL);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	d->sock = pair[0];
	d->pid = spawn(pair[1]);
	close(pair[1]);
	fds[0] = pf_channel_create(&err);
	ck_assert_msg(fds[0] >= 0, "%s", err.text);
	ck_assert_int_eq(pf_channel_map(&d->channel, fds[0], &err), 0);
	fds[1] = shared_file("arena", ARENA_SIZE, PROT_READ | PROT_WRITE, &d->arena);
	fds[2] = shared_file("pool", POOL_SIZE, PROT_READ, (char **)(uintptr_t)&d->pool);
	json_object_object_add(setup, "version", json_object_new_int(PF_WIRE_VERSION));
	json_object_object_add(setup, "plugin", json_object_new_string(path));
	json_object_object_add(setup, "options", json_tokener_parse(options));
	json_object_object_add(setup, "arena_size", json_object_new_int64(ARENA_SIZE));
	json_object_object_add(setup, "pool_size", json_object_new_int64(POOL_SIZE));
	json_object_object_add(setup, "interpose", json_object_new_boolean(true));
	text = json_object_to_json_string(setup);
	ck_assert_int_eq(pf_channel_send(d->sock, text, strlen(text), fds, 3, &err), 0);
	json_object_put(setup);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	ck_assert_msg(pf_channel_recv(d->sock, &answer, NULL, 0, SETUP_MS, &err) == 0, "%s",
		      err.text);
	d->description = json_tokener_parse(answer.data);
	ck_assert_ptr_nonnull(d->description);
	pf_buf_release(&answer);
}

/* Hang up; the worker must end at once and without complaint.  Returns its status. */
static int stop(struct daemon *d)
{
	int status = -1;

	close(d->sock);
	ck_assert_int_eq(waitpid(d->pid, &status, 0), d->pid);
	pf_channel_release(&d->channel);
	munmap(d->arena, ARENA_SIZE);
	munmap((void *)(uintptr_t)d->pool, POOL_SIZE);
	json_object_put(d->description);
	pthread_mutex_destroy(&d->lock);
	return status;
}

static bool is_ok(const struct daemon *d)
{
	return json_object_get_boolean(json_object_object_get(d->description, "ok"));
}

/* Start, and fail the test if the worker complains. */
static void start_ok(struct daemon *d, const char *path)
{
	start(d, path, "{\"cpu_device_count\":2}");
	ck_assert_msg(is_ok(d), "%s", json_object_to_json_string(d->description));
}

static _Alignas(64) char reply[PF_RING_MESSAGE];

static void take_reply(struct daemon *d, void *dst)
{
	ssize_t n;

	while ((n = pf_ring_take(&d->channel.reply, dst, PF_RING_MESSAGE)) == -EAGAIN)
		ck_assert_msg(pf_ring_wait(&d->channel.reply, 50, REPLY_MS), "no reply");
	ck_assert_int_ge(n, (int)sizeof(struct pf_rep_head));
	ck_assert_uint_eq(((struct pf_rep_head *)dst)->head.len, (uint32_t)n);
}

/* Send the LEN bytes at MESSAGE with the head filled in; returns the tag. */
static uint64_t send_message(struct daemon *d, enum pf_op op, void *message, size_t len)
{
	struct pf_msg_head *head = message;

	pf_lock(&d->lock);
	head->tag = ++d->next_tag;
	pf_unlock(&d->lock);
	head->op = op;
	head->len = (uint32_t)len;
	ck_assert_int_eq(pf_ring_post(&d->channel.request, message, len, NULL, 0), 0);
	return head->tag;
}

/* One request and its reply, in reply; the reply's code. */
static int ask(struct daemon *d, enum pf_op op, void *message, size_t len)
{
	struct pf_rep_head *rep = (struct pf_rep_head *)reply;
	uint64_t tag = send_message(d, op, message, len);

	take_reply(d, reply);
	ck_assert_uint_eq(rep->head.tag, tag);
	ck_assert_uint_eq(rep->head.op, op);
	return rep->code;
}

static const char *complaint(void)
{
	struct pf_rep_head *rep = (struct pf_rep_head *)reply;

	reply[rep->head.len] = '\0';
	return rep->code < 0 ? reply + sizeof(*rep) : "";
}

static int compile(struct daemon *d, uint64_t id, const char *program)
{
	struct {
		struct pf_req_compile q;
		char options[sizeof(one_device)];
	} m = { .q = { .id = id, .program_off = 4096, .program_len = strlen(program),
		       .format = "mlir", .options_len = sizeof(one_device) } };

	memcpy(d->arena + 4096, program, strlen(program));
	memcpy(&m.q + 1, one_device, sizeof(one_device));
	return ask(d, PF_OP_COMPILE, &m, sizeof(m.q) + sizeof(one_device));
}

static struct pf_req_buffer buffer_request(uint64_t id, uint64_t off, uint64_t len, int dtype)
{
	return (struct pf_req_buffer){ .id = id, .off = off, .len = len,
				       .dtype = (uint32_t)dtype, .memory = UINT32_MAX };
}

/* A buffer of N floats from the arena's offset OFF (N 0: a scalar). */
static uint64_t create_floats(struct daemon *d, uint64_t id, uint64_t off, int64_t n)
{
	struct pf_req_buffer q =
		buffer_request(id, off, (uint64_t)(n ? n : 1) * 4, PF_DTYPE_F32);

	q.rank = n ? 1 : 0;
	q.dims[0] = n;
	ck_assert_msg(ask(d, PF_OP_BUFFER_CREATE, &q, sizeof(q)) == 0, "%s", complaint());
	return ((struct pf_rep_buffer *)reply)->alias_off;
}

struct execute_message {
	struct pf_req_execute q;
	uint64_t ids[8];
	uint8_t donate[8];
};

/* Execute with up to four arguments and one result; NO argument is donated. */
static size_t execute_message(struct execute_message *m, uint64_t executable,
			      const uint64_t *args, uint32_t n_args, uint64_t out)
{
	*m = (struct execute_message){ .q = { .executable = executable, .device = UINT32_MAX,
					      .n_args = n_args, .n_outs = 1 } };
	memcpy(m->ids, args, n_args * sizeof(uint64_t));
	m->ids[n_args] = out;
	memset((uint8_t *)(m->ids + n_args + 1), 0, n_args);
	return sizeof(m->q) + (n_args + 1) * sizeof(uint64_t) + n_args;
}

static int execute(struct daemon *d, uint64_t executable, const uint64_t *args,
		   uint32_t n_args, uint64_t out)
{
	struct execute_message m;
	size_t len = execute_message(&m, executable, args, n_args, out);

	return ask(d, PF_OP_EXECUTE, &m, len);
}

static void post_id(struct daemon *d, enum pf_op op, uint64_t id)
{
	struct pf_req_id q = { .id = id };

	send_message(d, op, &q, sizeof(q));
}

static const struct pf_out *result(unsigned i)
{
	return (const struct pf_out *)(reply + sizeof(struct pf_rep_execute)) + i;
}

START_TEST(describes_the_plugin)
{
	struct json_object *devices, *first, *version;
	struct daemon d;

	start_ok(&d, plugins[_i]);
	version = json_object_object_get(d.description, "api_version");
	ck_assert_int_eq(json_object_get_int(json_object_array_get_idx(version, 0)), 0);
	ck_assert_int_ge(json_object_get_int(json_object_array_get_idx(version, 1)), 57);
	ck_assert_str_eq(json_object_get_string(json_object_object_get(d.description,
								       "platform")),
			 "cpu");
	devices = json_object_object_get(d.description, "devices");
	ck_assert_uint_eq(json_object_array_length(devices), 2);
	first = json_object_array_get_idx(devices, 0);
	ck_assert_int_eq(json_object_get_int(json_object_object_get(first, "id")), 0);
	ck_assert(json_object_get_boolean(json_object_object_get(first, "addressable")));
	ck_assert_uint_gt(json_object_array_length(json_object_object_get(first, "memories")),
			  0);
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

START_TEST(adds_scalars)
{
	const uint64_t args[] = { 11, 12 };
	struct pf_rep_compile *made = (struct pf_rep_compile *)reply;
	struct json_object *info;
	struct daemon d;
	float sum;

	start_ok(&d, plugins[_i]);
	ck_assert_msg(compile(&d, 1, add_scalars) == 0, "%s", complaint());
	ck_assert_uint_ne(made->hlo_off, PF_NO_OFFSET);
	ck_assert_uint_gt(made->hlo_len, 0);
	info = json_tokener_parse(d.pool + made->info_off);
	ck_assert_ptr_nonnull(info);
	ck_assert_int_eq(json_object_get_int(json_object_object_get(info, "num_outputs")), 1);
	json_object_put(info);
	post_id(&d, PF_OP_BLOCK_FREE, made->info_off);
	post_id(&d, PF_OP_BLOCK_FREE, made->hlo_off);
	*(float *)(d.arena + 8192) = 2;
	*(float *)(d.arena + 8192 + 64) = 3;
	/* No copy: the device buffer lies where the user's bytes are. */
	ck_assert_uint_eq(create_floats(&d, 11, 8192, 0), 8192);
	ck_assert_uint_eq(create_floats(&d, 12, 8192 + 64, 0), 8192 + 64);
	for (uint64_t out = 100; out < 110; out++) {
		ck_assert_msg(execute(&d, 1, args, 2, out) == 0, "%s", complaint());
		ck_assert_uint_eq(result(0)->where, PF_WHERE_INLINE);
		ck_assert_uint_eq(result(0)->dtype, PF_DTYPE_F32);
		ck_assert_uint_eq(result(0)->len, sizeof(sum));
		ck_assert_uint_eq(result(0)->off % 64, 0);
		memcpy(&sum, reply + result(0)->off, sizeof(sum));
		ck_assert(sum == 5);
		post_id(&d, PF_OP_BUFFER_FREE, out);
	}
	post_id(&d, PF_OP_BUFFER_FREE, 11);
	post_id(&d, PF_OP_EXECUTABLE_FREE, 1);
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

START_TEST(misaligned_bytes_are_copied)
{
	const uint64_t args[] = { 11, 11 };
	struct daemon d;
	float sum;

	start_ok(&d, plugins[_i]);
	*(float *)(d.arena + 8192 + 4) = 21;
	ck_assert_uint_eq(create_floats(&d, 11, 8192 + 4, 0), PF_NO_OFFSET);
	*(float *)(d.arena + 8192 + 4) = 0;
	ck_assert_int_eq(compile(&d, 1, add_scalars), 0);
	ck_assert_msg(execute(&d, 1, args, 2, 100) == 0, "%s", complaint());
	memcpy(&sum, reply + result(0)->off, sizeof(sum));
	ck_assert(sum == 42);
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

/* Sanitizers own the allocator: then results are copied when they are read. */
static const float *large_result(struct daemon *d, uint64_t id, uint64_t *off)
{
	struct pf_req_id q = { .id = id };
	struct pf_rep_block *block = (struct pf_rep_block *)reply;

	if (result(0)->where == PF_WHERE_POOL) {
		*off = result(0)->off;
		return (const float *)(d->pool + *off);
	}
	ck_assert_uint_eq(result(0)->where, PF_WHERE_DEVICE);
	ck_assert_msg(ask(d, PF_OP_BUFFER_READ, &q, sizeof(q)) == 0, "%s", complaint());
	ck_assert_uint_eq(block->len, 4 << 20);
	*off = block->off;
	return (const float *)(d->pool + *off);
}

START_TEST(large_results_lie_in_the_pool)
{
	enum { N = 1 << 20 };
	const uint64_t args[] = { 11 };
	uint64_t off, first = PF_NO_OFFSET;
	const float *numbers;
	struct daemon d;

	start_ok(&d, plugins[_i]);
	for (int i = 0; i < N; i++)
		((float *)(d.arena + (2 << 20)))[i] = (float)i;
	ck_assert_uint_eq(create_floats(&d, 11, 2 << 20, N), 2 << 20);
	ck_assert_msg(compile(&d, 1, add_large) == 0, "%s", complaint());
	for (uint64_t out = 100; out < 104; out++) {
		ck_assert_msg(execute(&d, 1, args, 1, out) == 0, "%s", complaint());
		ck_assert_uint_eq(result(0)->len, N * 4);
#ifndef PF_SANITIZE
		ck_assert_uint_eq(result(0)->where, PF_WHERE_POOL);
#endif
		numbers = large_result(&d, out, &off);
		for (int i = 0; i < N; i++)
			ck_assert(numbers[i] == (float)(2 * i));
		/* A freed result's memory, which is warm, is the next one's. */
		if (first == PF_NO_OFFSET)
			first = off;
#ifndef PF_SANITIZE
		ck_assert_uint_eq(off, first);
#endif
		post_id(&d, PF_OP_BUFFER_FREE, out);
		post_id(&d, PF_OP_BLOCK_FREE, off); /* of a plugin's block: ignored */
		/* Frees have no reply: another request's shows that they were taken. */
		ck_assert_int_eq(execute(&d, 1, args, 1, out + 1000), 0);
		post_id(&d, PF_OP_BUFFER_FREE, out + 1000);
		usleep(20000);
	}
	/* The worker's death does not take the bytes along. */
	ck_assert_int_eq(execute(&d, 1, args, 1, 200), 0);
	numbers = large_result(&d, 200, &off);
	kill(d.pid, SIGKILL);
	usleep(20000);
	for (int i = 0; i < N; i++)
		ck_assert(numbers[i] == (float)(2 * i));
	ck_assert_int_eq(WTERMSIG(stop(&d)), SIGKILL);
}
END_TEST

/* Every element type goes in and comes back as it was. */
START_TEST(types_and_shapes_round_trip)
{
	struct json_object *version;
	struct daemon d;
	int minor;

	start_ok(&d, plugins[_i]);
	version = json_object_object_get(d.description, "api_version");
	minor = json_object_get_int(json_object_array_get_idx(version, 1));
	for (int t = 0; t < PF_DTYPE_COUNT + 3; t++) {
		struct pf_req_buffer q = buffer_request((uint64_t)t + 1, 8192, 0, t);
		struct pf_req_id read = { .id = q.id };
		struct pf_rep_block *block = (struct pf_rep_block *)reply;
		bool young = t == PF_DTYPE_S1 || t == PF_DTYPE_U1;
		unsigned bits = pf_dtype_valid(t) ? pf_dtype_bits((enum pf_dtype)t) : 8;
		int code;

		q.rank = 2;
		q.dims[0] = 3;
		q.dims[1] = 5;
		q.len = 15 * (pf_dtype_valid(t) ? pf_dtype_size((enum pf_dtype)t) : 1);
		for (uint64_t i = 0; i < q.len; i++)
			d.arena[8192 + i] = (char)(t == PF_DTYPE_PRED ? i % 2 :
						   bits < 8 ? i % (1u << bits) : i * 7);
		code = ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q));
		if (!pf_dtype_valid(t) || (young && minor < 94)) {
			ck_assert_int_eq(code, pf_dtype_valid(t) ? -EOPNOTSUPP : -EINVAL);
			continue;
		}
		ck_assert_msg(code == 0, "type %d: %s", t, complaint());
		ck_assert_msg(ask(&d, PF_OP_BUFFER_READ, &read, sizeof(read)) == 0, "%s",
			      complaint());
		ck_assert_uint_eq(block->len, q.len);
		for (uint64_t i = 0; i < q.len; i++) {
			unsigned mask = bits < 8 ? (1u << bits) - 1 : 0xff;

			ck_assert_msg(((unsigned)d.pool[block->off + i] & mask) ==
					      ((unsigned)d.arena[8192 + i] & mask),
				      "type %d byte %u: %x, not %x", t, (unsigned)i,
				      d.pool[block->off + i] & 0xff, d.arena[8192 + i] & 0xff);
		}
		post_id(&d, PF_OP_BLOCK_FREE, block->off);
		post_id(&d, PF_OP_BUFFER_FREE, q.id);
	}
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

START_TEST(empty_arrays_work)
{
	static const char program[] =
		"func.func public @main(%a: tensor<0x3xf32>) -> tensor<0x3xf32> {\n"
		"  %0 = stablehlo.add %a, %a : tensor<0x3xf32>\n"
		"  return %0 : tensor<0x3xf32>\n"
		"}\n";
	struct pf_req_buffer q = buffer_request(11, ARENA_SIZE, 0, PF_DTYPE_F32);
	struct pf_req_id read = { .id = 11 };
	const uint64_t args[] = { 11 };
	struct daemon d;

	start_ok(&d, plugins[_i]);
	q.rank = 2;
	q.dims[1] = 3;
	ck_assert_msg(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)) == 0, "%s", complaint());
	ck_assert_msg(ask(&d, PF_OP_BUFFER_READ, &read, sizeof(read)) == 0, "%s", complaint());
	ck_assert_uint_eq(((struct pf_rep_block *)reply)->len, 0);
	ck_assert_msg(compile(&d, 1, program) == 0, "%s", complaint());
	ck_assert_msg(execute(&d, 1, args, 1, 12) == 0, "%s", complaint());
	ck_assert_uint_eq(result(0)->where, PF_WHERE_INLINE);
	ck_assert_uint_eq(result(0)->len, 0);
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

/* Argument 0 gives its memory to the result only where the request allows it. */
START_TEST(donation_is_asked_for)
{
	static const char program[] =
		"func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32})"
		" -> tensor<4xf32> {\n"
		"  %0 = stablehlo.add %a, %a : tensor<4xf32>\n"
		"  return %0 : tensor<4xf32>\n"
		"}\n";
	struct execute_message m;
	const uint64_t args[] = { 11 };
	struct pf_req_id read = { .id = 11 };
	struct daemon d;
	size_t len;

	start_ok(&d, plugins[_i]);
	((float *)(d.arena + 8192))[3] = 4;
	create_floats(&d, 11, 8192, 4);
	ck_assert_msg(compile(&d, 1, program) == 0, "%s", complaint());
	ck_assert_int_eq(execute(&d, 1, args, 1, 100), 0);
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_READ, &read, sizeof(read)), 0);
	len = execute_message(&m, 1, args, 1, 101);
	*(uint8_t *)(m.ids + 2) = 1;
	ck_assert_int_eq(ask(&d, PF_OP_EXECUTE, &m, len), 0);
	ck_assert(((float *)(reply + result(0)->off))[3] == 8);
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_READ, &read, sizeof(read)), -EINVAL);
	/* The user's bytes are not the plugin's to change. */
	ck_assert(((float *)(d.arena + 8192))[3] == 4);
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

START_TEST(errors_have_sentences)
{
	const uint64_t args[] = { 11, 99 };
	struct pf_req_id device = { .id = 0 };
	struct pf_req_id read = { .id = 77 };
	struct pf_req_buffer q = buffer_request(12, 8192, 4, PF_DTYPE_F32);
	struct daemon d;

	start_ok(&d, plugins[_i]);
	/* Not all plugins call it INVALID_ARGUMENT. */
	ck_assert_int_lt(compile(&d, 1, "module {"), 0);
	ck_assert_uint_gt(strlen(complaint()), 0);
	ck_assert_int_gt(((struct pf_rep_head *)reply)->pjrt_code, 0);
	ck_assert_int_eq(compile(&d, 1, add_scalars), 0);
	create_floats(&d, 11, 8192, 0);
	ck_assert_int_eq(execute(&d, 1, args, 2, 100), -ENOENT);
	ck_assert_ptr_nonnull(strstr(complaint(), "99"));
	ck_assert_int_eq(execute(&d, 9, args, 1, 100), -ENOENT);
	ck_assert_int_eq(execute(&d, 1, args, 1, 100), -EINVAL); /* one argument of two */
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_READ, &read, sizeof(read)), -ENOENT);
	ck_assert_int_eq(ask(&d, PF_OP_MEMORY_STATS, &device, sizeof(device)), -EOPNOTSUPP);
	/* What plugins abort on never reaches them. */
	q.rank = 2;
	q.dims[0] = q.dims[1] = INT64_C(1) << 62;
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), -EOVERFLOW);
	q.rank = 1;
	q.dims[0] = -1;
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), -EINVAL);
	q.dims[0] = 2;
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), -EINVAL);
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

START_TEST(malformed_messages_are_refused)
{
	struct execute_message m;
	const uint64_t args[] = { 11, 11 };
	struct pf_req_buffer q = buffer_request(12, 8192, 4, PF_DTYPE_F32);
	struct pf_req_compile c = { .id = 1, .format = "mlir", .options_len = 0 };
	struct pf_msg_head bare = { 0 };
	struct pf_req_id id = { .id = 99 };
	struct daemon d;
	size_t len;

	start_ok(&d, plugins[_i]);
	ck_assert_int_eq(ask(&d, (enum pf_op)0, &bare, sizeof(bare)), -EPROTO);
	ck_assert_int_eq(ask(&d, (enum pf_op)999, &bare, sizeof(bare)), -EPROTO);
	for (int op = 1; op < PF_OP_COUNT; op++)
		ck_assert_int_eq(ask(&d, (enum pf_op)op, &bare, sizeof(bare)), -EPROTO);
	ck_assert_int_eq(ask(&d, PF_OP_COMPILE, &c, sizeof(c)), -EPROTO);
	c.options_len = 5;
	ck_assert_int_eq(ask(&d, PF_OP_COMPILE, &c, sizeof(c)), -EPROTO);
	ck_assert_int_eq(ask(&d, PF_OP_MEMORY_STATS, &id, sizeof(id)), -EPROTO);
	len = execute_message(&m, 1, args, 2, 100);
	ck_assert_int_eq(ask(&d, PF_OP_EXECUTE, &m, len - 1), -EPROTO);
	m.q.n_args = UINT32_MAX;
	ck_assert_int_eq(ask(&d, PF_OP_EXECUTE, &m, len), -EPROTO);
	m.q.n_args = 2;
	m.q.device = 2;
	ck_assert_int_eq(ask(&d, PF_OP_EXECUTE, &m, len), -EPROTO);
	q.off = ARENA_SIZE;
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), -EPROTO);
	q.off = UINT64_MAX;
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), -EPROTO);
	q.off = 8192;
	q.device = 2;
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), -EPROTO);
	q.device = 0;
	q.memory = 99;
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), -EPROTO);
	q.memory = UINT32_MAX;
	q.rank = 33;
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), -EPROTO);
	q.rank = 0;
	q.id = 0;
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), -EPROTO);
	q.id = 12;
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), 0);
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), -EPROTO);
	ck_assert_int_eq(compile(&d, 1, add_scalars), 0); /* and it goes on */
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

/* Many requests under way at once: each reply has its own request's tag and numbers. */
START_TEST(replies_find_their_requests)
{
	enum { CLIENTS = 4, ROUNDS = 200 };
	struct daemon d;

	start_ok(&d, plugins[_i]);
	ck_assert_int_eq(compile(&d, 1, add_scalars), 0);
	for (unsigned c = 0; c < CLIENTS; c++) {
		*(float *)(d.arena + 8192 + c * 64) = (float)(c + 1);
		create_floats(&d, 11 + c, 8192 + c * 64, 0);
	}
	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint64_t first = 0;
		bool seen[CLIENTS] = { false };

		for (uint64_t c = 0; c < CLIENTS; c++) {
			const uint64_t args[] = { 11 + c, 11 + c };
			struct execute_message m;
			size_t len = execute_message(&m, 1, args, 2,
						     1000 + round * CLIENTS + c);
			uint64_t tag = send_message(&d, PF_OP_EXECUTE, &m, len);

			first = c ? first : tag;
		}
		for (int c = 0; c < CLIENTS; c++) {
			struct pf_rep_head *rep = (struct pf_rep_head *)reply;
			uint64_t who;
			float sum;

			take_reply(&d, reply);
			ck_assert_msg(rep->code == 0, "%s", complaint());
			who = rep->head.tag - first;
			ck_assert_uint_lt(who, CLIENTS);
			ck_assert(!seen[who]);
			seen[who] = true;
			memcpy(&sum, reply + result(0)->off, sizeof(sum));
			ck_assert(sum == (float)(2 * (who + 1)));
			post_id(&d, PF_OP_BUFFER_FREE, 1000 + round * CLIENTS + who);
		}
	}
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

/* Programs that never end hold their threads, and there is still one for the next. */
START_TEST(endless_programs_do_not_block_others)
{
	static const char endless[] =
		"func.func public @main(%a: tensor<i32>) -> tensor<i32> {\n"
		"  %0 = stablehlo.while(%x = %a) : tensor<i32>\n"
		"  cond {\n"
		"    %t = stablehlo.constant dense<true> : tensor<i1>\n"
		"    stablehlo.return %t : tensor<i1>\n"
		"  } do {\n"
		"    %y = stablehlo.add %x, %x : tensor<i32>\n"
		"    stablehlo.return %y : tensor<i32>\n"
		"  }\n"
		"  return %0 : tensor<i32>\n"
		"}\n";
	struct pf_req_buffer q = buffer_request(11, 8192, 4, PF_DTYPE_S32);
	const uint64_t args[] = { 11 };
	struct execute_message m;
	struct daemon d;
	size_t len;

	start_ok(&d, plugins[_i]);
	ck_assert_int_eq(ask(&d, PF_OP_BUFFER_CREATE, &q, sizeof(q)), 0);
	ck_assert_msg(compile(&d, 1, endless) == 0, "%s", complaint());
	for (uint64_t i = 0; i < 12; i++) {
		len = execute_message(&m, 1, args, 1, 100 + i);
		send_message(&d, PF_OP_EXECUTE, &m, len);
	}
	ck_assert_msg(compile(&d, 2, add_scalars) == 0, "%s", complaint());
	ck_assert_int_eq(stop(&d), 0);
}
END_TEST

START_TEST(bad_plugins_and_options_are_explained)
{
	static const struct {
		const char *path, *options, *want;
		int code;
	} cases[] = {
		{ "/no/such/plugin.so", "{}", "No such file", -ENOENT },
		{ "/dev/null", "{}", "cannot load the plugin", -ENOEXEC },
		{ NULL, "{\"cpu_device_count\":\"four\"}", "cpu_device_count", -EINVAL },
		{ NULL, "{\"x\":{}}", "option x", -EINVAL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct daemon d;

		start(&d, cases[i].path ? cases[i].path : plugins[0], cases[i].options);
		ck_assert(!is_ok(&d));
		ck_assert_int_eq(json_object_get_int(json_object_object_get(d.description,
									    "errno")),
				 cases[i].code);
		ck_assert_ptr_nonnull(
			strstr(json_object_get_string(json_object_object_get(d.description,
									     "error")),
			       cases[i].want));
		ck_assert_int_eq(WEXITSTATUS(stop(&d)), 1);
	}
}
END_TEST

static Suite *worker_suite(void)
{
	Suite *s = suite_create("worker");
	TCase *each = tcase_create("each plugin"), *once = tcase_create("once");

	tcase_set_timeout(each, 120);
	tcase_set_timeout(once, 120);
	tcase_add_loop_test(each, describes_the_plugin, 0, n_plugins);
	tcase_add_loop_test(each, adds_scalars, 0, n_plugins);
	tcase_add_loop_test(each, misaligned_bytes_are_copied, 0, n_plugins);
	tcase_add_loop_test(each, large_results_lie_in_the_pool, 0, n_plugins);
	tcase_add_loop_test(each, types_and_shapes_round_trip, 0, n_plugins);
	tcase_add_loop_test(each, empty_arrays_work, 0, n_plugins);
	tcase_add_loop_test(each, donation_is_asked_for, 0, n_plugins);
	tcase_add_loop_test(each, errors_have_sentences, 0, n_plugins);
	tcase_add_loop_test(each, malformed_messages_are_refused, 0, n_plugins);
	tcase_add_loop_test(each, replies_find_their_requests, 0, n_plugins);
	tcase_add_loop_test(each, endless_programs_do_not_block_others, 0, n_plugins);
	tcase_add_test(once, bad_plugins_and_options_are_explained);
	suite_add_tcase(s, each);
	suite_add_tcase(s, once);
	return s;
}

static void find_plugins(void)
{
	static char names[4096];
	const char *given = getenv("PJRTFS_TEST_PLUGIN");
	char *save = NULL;

	given = given ? given : TEST_PLUGIN;
	snprintf(names, sizeof(names), "%s", given ? given : "");
	for (char *p = strtok_r(names, ":", &save); p && n_plugins < MAX_PLUGINS;
	     p = strtok_r(NULL, ":", &save))
		if (access(p, R_OK) == 0)
			plugins[n_plugins++] = p;
}

int main(void)
{
	SRunner *sr;
	int failed;

	find_plugins();
	if (!n_plugins) {
		fprintf(stderr, "no plugin: set PJRTFS_TEST_PLUGIN\n");
		return 77;
	}
	sr = srunner_create(worker_suite());
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
