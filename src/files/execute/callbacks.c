/* SPDX-License-Identifier: Apache-2.0 */
/*
 * executables/NAME/callbacks/N, N.txt: a host reads what the program asks, and writes answers.
 *
 * Each open is a host.  A request is what one invocation gives to the host, an answer what it gets
 * back: .npy files, or, at N.txt, lines of numbers.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "files/internal.h"
#include "internal.h"
#include "pjrtfs/callback_host.h"
#include "pjrtfs/json.h"
#include "pjrtfs/stream.h"

enum {
	/* Bytes of an answer that is a line: fewer than the kernel writes at once, as it would
	 * keep the failure of a second part from the client. */
	MAX_LINE = 1 << 19,
	PRINT_ELEMENTS = 1 << 12, /* of a line, at a time */
	PRINT_BYTES = 1 << 14,    /* after which it is read */
};

/* One open file. */
struct conversation {
	struct pf_callback_host host; /* its references are the conversation's */
	struct program *program;      /* owned reference */
	struct pf_node *node;         /* owned reference: for pf_node_ready */
	bool text;                    /* requests and answers are lines */

	struct pf_stream stream; /* its lock protects the fields below */
	/* Borrowed: what is being read or answered; or NULL. */
	const struct pf_invocation *invocation;
	uint64_t n_read;   /* requests that the client began to read */
	bool begun;        /* it has read a part of this request, */
	bool read;         /* and all of it */
	bool ended;        /* the request ended, and no call has failed for that yet, */
	bool cut;          /* and the client had read only a part of it */
	struct pf_err err; /* why */
	struct arrays_out request;
	size_t head_len;          /* bytes of its first line that were not read */
	uint32_t arg;             /* of a line: the argument that is printed next, */
	uint64_t element;         /* and its element */
	struct pf_param *results; /* owned: what the answer must be */
	struct arrays_in answer;
	struct pf_buf line; /* an answer that is a line, so far */
	bool giving;        /* a thread transposes the answer */
	bool left;          /* the file was closed meanwhile */
};

static struct conversation *of_stream(struct pf_stream *stream)
{
	return pf_container_of(stream, struct conversation, stream);
}

static struct conversation *of_host(struct pf_callback_host *host)
{
	return pf_container_of(host, struct conversation, host);
}

/* The invocation is over for C. */
static void forget_locked(struct conversation *c)
{
	c->invocation = NULL;
	c->begun = c->read = false;
	arrays_out_clear(&c->request);
	arrays_in_release(&c->answer);
	free(pf_steal(&c->results));
	pf_buf_release(&c->line);
}

/* --- requests ------------------------------------------------------------------------- */

/* The types of N arrays, as those of a program's; the caller's.  NULL: no memory. */
static struct pf_param *types_of(const struct pf_callback_array *arrays, uint32_t n)
{
	struct pf_param *types = calloc(n + 1, sizeof(*types));

	for (uint32_t i = 0; types && i < n; i++) {
		types[i].dtype = arrays[i].dtype;
		types[i].shape = arrays[i].shape;
	}
	return types;
}

static struct json_object *list_types(const struct pf_callback_array *arrays, uint32_t n)
{
	struct json_object *list = json_object_new_array();

	for (uint32_t i = 0; i < n; i++) {
		struct json_object *o = json_object_new_object();

		pf_json_add_string(o, "dtype", pf_dtype_name(arrays[i].dtype));
		pf_json_add(o, "shape", pf_shape_json(&arrays[i].shape));
		pf_json_append(list, o);
	}
	return list;
}

/* Append the request's first line, which BYTES follow. */
static void print_head(const struct conversation *c, uint64_t bytes, struct pf_buf *out)
{
	const struct pf_invocation *i = c->invocation;
	struct json_object *o = json_object_new_object();

	pf_json_add_int(o, "call", (int64_t)c->n_read);
	pf_json_add_int(o, "index", (int64_t)i->index);
	pf_json_add_int(o, "bytes", (int64_t)bytes);
	pf_json_add(o, "args", list_types(i->args, i->n_args));
	pf_json_add(o, "results", list_types(i->results, i->n_results));
	pf_json_print_line(o, out);
	json_object_put(o);
}

/* Make the request of .npy files the bytes to be read.  -ENOMEM. */
static int put_arrays_locked(struct conversation *c)
{
	const struct pf_invocation *i = c->invocation;
	pf_autofree struct pf_param *types = types_of(i->args, i->n_args);
	pf_autobuf struct pf_buf line = PF_BUF_INIT;
	struct array_heads heads = { PF_BUF_INIT, NULL };
	uint64_t bytes = 0;
	int r = types ? array_heads_print(&heads, types, i->n_args, NULL) : -ENOMEM;

	if (r == 0) {
		for (uint32_t n = 0; n < i->n_args; n++)
			bytes += i->args[n].len;
		print_head(c, bytes + heads.text.len, &line);
		r = line.failed ? -ENOMEM
				: arrays_out_begin(&c->request, 2 * (size_t)i->n_args + 1,
						   line.len + heads.text.len);
	}
	if (r == 0)
		arrays_out_text(&c->request, line.data, line.len);
	c->head_len = line.len;
	for (uint32_t n = 0; n < i->n_args && r == 0; n++)
		arrays_out_array(&c->request, &heads, n, i->args[n].data, i->args[n].len,
				 false);
	array_heads_release(&heads);
	return r;
}

/* Make more of the request's line the bytes to be read; none are left at its end.  -ENOMEM. */
static int put_line_locked(struct conversation *c)
{
	const struct pf_invocation *i = c->invocation;
	pf_autobuf struct pf_buf text = PF_BUF_INIT;

	while (c->arg < i->n_args && text.len < PRINT_BYTES && !text.failed) {
		const struct pf_callback_array *a = &i->args[c->arg];

		if (pf_text_print_line(&text, a->dtype, &a->shape, a->data, &c->element,
				       PRINT_ELEMENTS))
			continue;
		c->element = 0;
		pf_buf_puts(&text, ++c->arg < i->n_args ? "\t" : "\n");
	}
	if (!i->n_args && !c->begun)
		pf_buf_puts(&text, "\n");
	if (text.failed)
		return -ENOMEM;
	return arrays_out_say(&c->request, &text);
}

/* Prepare to read and to answer INVOCATION, which the host has.  -ENOMEM, -EOVERFLOW. */
static int begin_locked(struct conversation *c, const struct pf_invocation *invocation,
			struct pf_err *err)
{
	int r;

	c->invocation = invocation;
	c->begun = c->read = false;
	c->head_len = c->arg = 0;
	c->element = 0;
	c->n_read++;
	c->results = types_of(invocation->results, invocation->n_results);
	if (!c->results)
		return pf_err_set(err, -ENOMEM, "no memory for a request");
	r = arrays_in_begin(&c->answer, c->program->home->arena, c->results,
			    invocation->n_results, err);
	if (r < 0)
		return r;
	r = c->text ? put_line_locked(c) : put_arrays_locked(c);
	return r < 0 ? pf_err_set(err, r, "no memory for a request") : 0;
}

/* --- answers -------------------------------------------------------------------------- */

/* The answer is complete: the program gets it.  -EIO: the request has ended. */
static int give_locked(struct conversation *c, struct pf_err *err)
{
	int r;

	arrays_in_transpose(&c->answer);
	for (size_t i = 0; i < c->answer.n; i++)
		c->answer.offs[i] = pf_bytes_offset(c->answer.bytes, c->answer.offs[i]);
	r = pf_callback_host_answer(&c->host, c->answer.offs, c->answer.bytes, err);
	forget_locked(c);
	pf_node_ready(c->node);
	return r;
}

/* Memory for the request is missing, as ERR says, so its reader gets no more of it. */
static void give_up_locked(struct conversation *c, const struct pf_err *err)
{
	c->err = *err;
	pf_callback_host_fail(&c->host, PF_PJRT_RESOURCE_EXHAUSTED, err->text, NULL);
	forget_locked(c);
	c->ended = c->cut = true;
}

/* Take the next invocation, if there is one. */
static bool take_locked(struct conversation *c)
{
	const struct pf_invocation *invocation = pf_callback_host_take(&c->host);
	struct pf_err err = PF_ERR_INIT;

	if (!invocation)
		return false;
	if (begin_locked(c, invocation, &err) < 0)
		give_up_locked(c, &err);
	return true;
}

/* The client has read all of a request that has no results, and goes on: that is the answer. */
static void acknowledge_locked(struct conversation *c)
{
	if (c->invocation && c->read && !c->invocation->n_results && !c->giving)
		give_locked(c, NULL);
}

/* No read waits, and the client has not seen the invocation that C took: another host may take it.
 * That one, to be notified. */
static struct pf_callback_host *settle_locked(struct conversation *c)
{
	if (c->stream.reads || c->begun || c->giving)
		return NULL;
	if (c->invocation)
		forget_locked(c);
	return pf_callback_host_stop(&c->host);
}

/* Answer the reads that wait, if something happened. */
static void serve(struct conversation *c)
{
	struct pf_callback_host *other;

	pf_lock(&c->stream.lock);
	pf_stream_serve_locked(&c->stream);
	other = settle_locked(c);
	pf_unlock(&c->stream.lock);
	pf_node_ready(c->node);
	pf_callback_host_notify(other);
}

static void *transpose_and_give(void *arg)
{
	struct conversation *c = arg;
	bool left;

	arrays_in_transpose(&c->answer); /* no other thread uses it while c->giving */
	pf_lock(&c->stream.lock);
	c->giving = false;
	give_locked(c, NULL);
	left = c->left;
	pf_unlock(&c->stream.lock);
	if (left)
		pf_callback_host_leave(&c->host);
	else
		serve(c);
	pf_callback_host_unref(&c->host);
	return NULL;
}

/* The arrays of the answer are complete. */
static int give_arrays_locked(struct conversation *c, struct pf_err *err)
{
	if (!arrays_in_is_slow(&c->answer))
		return give_locked(c, err);
	c->giving = true;
	pf_callback_host_ref(&c->host);
	if (pf_thread_start(NULL, transpose_and_give, c) == 0)
		return 0;
	c->giving = false;
	pf_callback_host_unref(&c->host);
	return give_locked(c, err);
}

/* The line {"error":{"code":"...","message":"..."}}: the call fails, and so does its execution. */
static int take_error(struct conversation *c, struct pf_err *err)
{
	struct json_object *o = NULL, *e = NULL;
	const char *name, *message;
	int code, r = pf_json_parse(c->line.data, c->line.len, &o, err);

	if (r < 0)
		return r;
	json_object_object_get_ex(o, "error", &e);
	name = pf_json_get_string(e, "code");
	message = pf_json_get_string(e, "message");
	code = *name ? pf_pjrt_code_parse(name) : PF_PJRT_INTERNAL;
	if (!json_object_object_length(o) && !c->invocation->n_results)
		r = give_locked(c, err);
	else if (!json_object_is_type(e, json_type_object))
		r = pf_err_set(err, -EINVAL,
			       "expected {\"error\":{\"code\",\"message\"}}, found an "
			       "object without an error");
	else if (code <= PF_PJRT_OK)
		r = pf_err_set(err, -EINVAL,
			       "expected the name of a PJRT error code, such as "
			       "INVALID_ARGUMENT, found \"%s\"",
			       name);
	else
		r = pf_callback_host_fail(&c->host, code,
					  *message ? message : "its host gave no reason",
					  err);
	if ((r == 0 || r == -EIO) && c->invocation) {
		forget_locked(c);
		pf_node_ready(c->node);
	}
	json_object_put(o);
	return r;
}

static bool is_blank(const char *text, size_t len)
{
	while (len && strchr(" \t\r", text[len - 1]))
		len--;
	return !len;
}

/* Read result I from LEN bytes of TEXT, numbers. */
static int take_field(struct conversation *c, size_t i, const char *text, size_t len,
		      struct pf_err *err)
{
	const struct pf_param *want = &c->results[i];
	pf_autobuf struct pf_buf data = PF_BUF_INIT;
	struct pf_shape got;
	int64_t n = 0;
	uint64_t bytes;
	int r = pf_shape_bytes(&want->shape, want->dtype, &bytes, err);

	pf_shape_count(&want->shape, &n, NULL);
	if (r == 0 && !(n == 0 && is_blank(text, len)))
		r = pf_text_parse(text, len, want->dtype, &got, &data, err);
	if (r == 0 && data.len != bytes)
		r = pf_err_set(err, -EINVAL,
			       "%zu numbers came, the program wants %" PRId64,
			       data.len / pf_dtype_size(want->dtype), n);
	if (r < 0)
		return pf_err_wrap(err, r, "result %zu", i);
	if (bytes)
		memcpy(pf_bytes_at(c->answer.bytes, c->answer.offs[i]), data.data, bytes);
	return 0;
}

/* The line with the numbers of all results, separated by TABs. */
static int take_fields(struct conversation *c, struct pf_err *err)
{
	const char *at = c->line.data, *end = at + c->line.len;
	struct arrays_in *in = &c->answer;
	int r = in->bytes
			? 0
			: pf_bytes_new(in->arena, in->account, in->size, &in->bytes, err);

	for (size_t i = 0; i < in->n && r == 0; i++) {
		const char *tab =
			i + 1 < in->n ? memchr(at, '\t', (size_t)(end - at)) : end;

		if (!tab)
			return pf_err_set(err, -EINVAL,
					  "%zu results came, separated by TABs, the "
					  "program wants %zu",
					  i + 1, in->n);
		r = take_field(c, i, at, (size_t)(tab - at), err);
		at = tab + 1;
	}
	return r < 0 ? r : give_locked(c, err);
}

/* The line is complete: its newline is not in it. */
static int take_line(struct conversation *c, struct pf_err *err)
{
	if (c->line.len && c->line.data[0] == '{')
		return take_error(c, err);
	if (!c->invocation->n_results) {
		if (is_blank(c->line.data, c->line.len))
			return give_locked(c, err);
		return pf_err_set(err, -EINVAL,
				  "the callback has no results: expected an empty line "
				  "or {}");
	}
	if (c->text)
		return take_fields(c, err);
	return pf_err_set(err, -EINVAL,
			  "expected %zu results as .npy files, found a line",
			  c->answer.n);
}

/* Take the bytes of SRC (LEN) up to the end of the line.  How many, or -errno. */
static ssize_t take_line_part(struct conversation *c, const char *src, size_t len,
			      struct pf_err *err)
{
	const char *end = memchr(src, '\n', len);
	size_t n = end ? (size_t)(end - src) : len;
	int r;

	if (n > MAX_LINE - c->line.len)
		return pf_err_set(err, -E2BIG,
				  "an answer that is a line has at most %d bytes; "
				  "callbacks/%" PRIu64 " takes larger ones as .npy files",
				  MAX_LINE, c->host.index);
	pf_buf_append(&c->line, src, n);
	if (!end)
		pf_buf_puts(&c->line, "");
	if (c->line.failed)
		return pf_err_set(err, -ENOMEM, "no memory for an answer");
	if (!end)
		return (ssize_t)len;
	r = take_line(c, err);
	return r < 0 ? r : (ssize_t)n + 1;
}

/* Take the bytes of SRC (LEN) up to the end of the answer.  How many, or -errno. */
static ssize_t take_answer_locked(struct conversation *c, const char *src, size_t len,
				  struct pf_err *err)
{
	bool line = c->text || !c->invocation->n_results || c->line.len ||
		    (!arrays_in_begun(&c->answer) && (*src == '{' || *src == '\n'));
	ssize_t n = line ? take_line_part(c, src, len, err)
			 : arrays_in_take(&c->answer, src, len, err);
	int r = 0;

	if (n >= 0 && !line && c->answer.whole)
		r = give_arrays_locked(c, err);
	if (n < 0 && c->invocation) {
		arrays_in_drop(&c->answer);
		c->line.len = 0;
	}
	return r < 0 ? r : n;
}

static void callback_send(struct pf_open *of, const void *src, size_t len,
			  struct pf_reply *reply)
{
	struct conversation *c = of->state;
	struct pf_err err = PF_ERR_INIT;
	ssize_t n;

	pf_lock(&c->stream.lock);
	if (c->ended) {
		err = c->err;
		n = err.code;
		c->ended = c->cut = false;
	} else if (c->giving) {
		n = pf_err_set(&err, -EBUSY, "the answer before is still being copied");
	} else if (!c->invocation || !c->begun) {
		n = pf_err_set(&err, -EINVAL,
			       "there is no request to be answered: read one first");
	} else {
		n = take_answer_locked(c, src, len, &err);
	}
	pf_unlock(&c->stream.lock);
	serve(c);
	if (n < 0)
		pf_reply_fail(reply, (int)n, &err);
	else
		pf_reply_count(reply, (size_t)n);
}

/* --- reading -------------------------------------------------------------------------- */

static bool ready(struct pf_stream *stream)
{
	struct conversation *c = of_stream(stream);

	if (c->cut || (c->invocation && !c->read))
		return true;
	acknowledge_locked(c);
	return !c->invocation && !c->giving && take_locked(c);
}

static void answer(struct pf_stream *stream, size_t len, struct pf_reply *reply)
{
	struct conversation *c = of_stream(stream);
	struct pf_err err = PF_ERR_INIT;
	size_t n;

	if (c->cut) {
		c->ended = c->cut = false;
		pf_reply_why(reply, &c->err);
		pf_reply_send(reply, c->err.code, NULL, 0);
		return;
	}
	c->ended = false;
	c->begun = true;
	pf_callback_host_begin(&c->host);
	/* A shell that reads a line may read further, and cannot seek back. */
	if (c->head_len && len > c->head_len)
		len = c->head_len;
	/* Under the lock: when ended returns, the arguments are gone. */
	n = arrays_out_answer(&c->request, len, reply);
	c->head_len -= c->head_len ? n : 0;
	if (arrays_out_ended(&c->request)) {
		if (c->text && put_line_locked(c) < 0) {
			pf_err_set(&err, -ENOMEM, "no memory for a request");
			give_up_locked(c, &err);
		}
		c->read = c->invocation && arrays_out_ended(&c->request);
		pf_node_ready(c->node);
	}
	pf_reply_unref(reply);
}

static void callback_read(struct pf_open *of, size_t len, uint64_t off,
			  struct pf_reply *reply)
{
	struct conversation *c = of->state;
	struct pf_callback_host *other;

	(void)off;
	pf_stream_read(&c->stream, of, len, reply);
	pf_lock(&c->stream.lock);
	other = settle_locked(c);
	pf_unlock(&c->stream.lock);
	pf_callback_host_notify(other);
}

static void interrupted(struct pf_stream *stream, struct pf_parked *write)
{
	(void)stream;
	(void)write;
}

static const struct pf_stream_ops stream_ops = { .ready = ready,
						 .answer = answer,
						 .interrupted = interrupted };

/* A poll says, as a read does, that the client has done with a request that needs no answer. */
static short callback_poll(struct pf_open *of)
{
	struct conversation *c = of->state;

	PF_LOCK_SCOPE(&c->stream.lock);
	acknowledge_locked(c);
	if (c->ended)
		return POLLERR | POLLOUT | (c->cut ? POLLIN : 0);
	if (c->giving)
		return 0;
	if (c->invocation && c->begun)
		return c->read ? POLLOUT : POLLIN;
	return pf_callback_host_ready(&c->host) ? POLLIN : 0;
}

/* --- the host ------------------------------------------------------------------------- */

static void given(struct pf_callback_host *host)
{
	serve(of_host(host));
}

static void ended(struct pf_callback_host *host, const struct pf_invocation *invocation,
		  const char *why)
{
	struct conversation *c = of_host(host);

	pf_lock(&c->stream.lock);
	if (c->invocation == invocation) {
		c->ended = c->begun;
		c->cut = c->begun && !c->read;
		pf_err_set(&c->err, -EIO, "the request has ended: %s", why);
		if (c->giving)
			c->invocation = NULL;
		else
			forget_locked(c);
	}
	pf_unlock(&c->stream.lock);
	serve(c);
}

static void host_ready(struct pf_callback_host *host)
{
	pf_node_ready(of_host(host)->node);
}

static void conversation_free(struct pf_callback_host *host)
{
	struct conversation *c = of_host(host);

	forget_locked(c);
	arrays_out_release(&c->request);
	pf_stream_release(&c->stream);
	pf_node_unref(c->node);
	program_unref(c->program);
	free(c);
}

static const struct pf_callback_host_ops host_ops = {
	.given = given, .ended = ended, .ready = host_ready, .free = conversation_free
};

/* --- the files ------------------------------------------------------------------------ */

/* May OF's opener be a host of CALLBACK? */
static int check_open(struct pf_open *of, const struct callback *callback,
		      struct pf_err *err)
{
	PF_CLEANUP(pf_loaded_unrefp)
	struct pf_loaded *loaded = pf_executable_known(callback->program->x);
	const struct pf_callback_sig *sig =
		files_find_callback(pf_loaded_facts(loaded).signature, callback->index);

	if (!files_program_may_answer(callback->program, &of->cred))
		return pf_err_set(err, -EACCES,
				  "only users who may write the program answer its "
				  "callbacks");
	if (!sig)
		return pf_err_set(err, -ENOENT,
				  "no program that has such a callback is compiled");
	if (!pf_open_reads(of))
		return pf_err_set(err, -EINVAL,
				  "requests are read and answered on one descriptor: "
				  "open it to read and write, as 1<> does");
	if (!pf_open_writes(of) && sig->n_outputs)
		return pf_err_set(err, -EINVAL,
				  "the callback has results: open it to read and write, "
				  "as 1<> does");
	return 0;
}

static int callback_open(struct pf_open *of, struct pf_err *err)
{
	const struct callback *callback = of->node->object;
	int r = check_open(of, callback, err);
	struct conversation *c;

	if (r < 0)
		return r;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	pf_stream_init(&c->stream, &stream_ops);
	c->program = program_ref(callback->program);
	c->node = pf_node_ref(of->node);
	c->text = of->node->kind == &kind_callback_text;
	c->answer.account = files_account(fs_of(of->node), of->cred.uid);
	c->answer.what = "result";
	c->host.ops = &host_ops;
	c->host.executable = c->program->x;
	c->host.index = callback->index;
	pf_callback_host_join(&c->host);
	of->state = c;
	return 0;
}

static void callback_closed(struct pf_open *of)
{
	struct conversation *c = of->state;
	bool giving;

	if (!c)
		return;
	pf_lock(&c->stream.lock);
	acknowledge_locked(c);
	giving = c->left = c->giving;
	pf_unlock(&c->stream.lock);
	if (!giving)
		pf_callback_host_leave(&c->host);
}

static void callback_release(struct pf_open *of)
{
	struct conversation *c = of->state;

	if (c)
		pf_callback_host_unref(&c->host);
}

#define CALLBACK                                                                         \
	{                                                                                \
		.mode = S_IFREG | 0666, .open = callback_open,                           \
		.closed = callback_closed, .release = callback_release,                  \
		.read = callback_read, .send = callback_send, .poll = callback_poll,     \
		.free = callback_node_free                                               \
	}
const struct pf_kind kind_callback = CALLBACK;
const struct pf_kind kind_callback_text = CALLBACK;
