/* SPDX-License-Identifier: Apache-2.0 */
/* The request that matters: execute a program, or several, one after the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "execution.h"

enum { INLINE_TOTAL = 64 << 10 }; /* bytes of one reply that results may take */

/* What one request asks for. */
struct series {
	struct pf_request *request;
	struct execution *all;
	size_t n, begun;
	size_t failed; /* the first that did; n: none */
	struct pf_err why;
	size_t len;                  /* bytes of the reply so far */
	size_t room;                 /* for what lies inline in it */
	struct pf_rep_execute *last; /* the answer written last */
};

static size_t round8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

/* Read them all into ALL, if that is not NULL, or only count them in *N. */
static int read_all(const struct pf_request *request, struct execution *all, size_t *n,
		    struct pf_err *err)
{
	const char *message = request->message;
	struct execution scratch;
	size_t used;

	*n = 0;
	for (size_t at = 0; at < request->len; at = round8(at + used)) {
		int r = execution_read(all ? &all[*n] : &scratch, request->worker,
				       message + at, request->len - at, &used, err);

		if (r < 0)
			return r;
		++*n;
	}
	return 0;
}

static void fail(struct series *s, size_t which, const struct pf_err *why)
{
	s->failed = which;
	s->why = *why;
}

/* Begin one after the other, and wait for none of them. */
static void begin(struct series *s)
{
	struct pf_err err = PF_ERR_INIT;

	while (s->begun < s->n) {
		struct execution *x = &s->all[s->begun];

		if (execution_begin(x, s->begun ? x - 1 : NULL, &err) < 0) {
			fail(s, s->begun, &err);
			return;
		}
		s->begun++;
	}
}

static void await(struct series *s)
{
	for (size_t i = 0; i < s->begun; i++) {
		struct pf_err err = PF_ERR_INIT;

		if (execution_await(&s->all[i], &err) < 0 && i < s->failed)
			fail(s, i, &err);
	}
}

/* The time that was this one's alone. */
static uint64_t device_ns(const struct series *s, size_t i)
{
	const struct execution *x = &s->all[i];
	uint64_t from = x->begun_ns;

	if (i && x[-1].ready_ns > from)
		from = x[-1].ready_ns;
	return x->ready_ns > from ? x->ready_ns - from : 0;
}

/* Where the next answer begins; the one before, if any, tells. */
static struct pf_rep_execute *next_answer(struct series *s)
{
	size_t at = round8(s->len);

	if (s->last)
		s->last->next = (uint32_t)(s->request->reply + at - (char *)s->last);
	s->last = (struct pf_rep_execute *)(s->request->reply + at);
	s->len = at;
	return s->last;
}

static int answer_one(struct series *s, size_t i, struct pf_err *err)
{
	struct pf_rep_execute *rep = next_answer(s);
	size_t len;
	int r = execution_answer(&s->all[i], (char *)rep, &s->room, &len, err);

	if (r < 0)
		return r;
	rep->device_ns = device_ns(s, i);
	rep->next = 0;
	if (i) /* the first one's is the message's */
		rep->rep = (struct pf_rep_head){ .head.len = (uint32_t)len };
	s->len += len;
	return 0;
}

/* Why one has no results; S->len is where it would begin, or began. */
static void answer_failure(struct series *s)
{
	struct pf_rep_execute *rep = next_answer(s);
	size_t len = strlen(s->why.text);

	*rep = (struct pf_rep_execute){ .rep = { .head.len =
							 (uint32_t)(sizeof(*rep) + len),
						 .code = s->why.code,
						 .pjrt_code = s->why.pjrt_code } };
	memcpy(rep + 1, s->why.text, len);
	s->len += sizeof(*rep) + len;
}

/* All that is good before the first that failed, and why that did. */
static void answer(struct series *s)
{
	for (size_t i = 0; i < s->failed && i < s->n; i++) {
		struct pf_err err = PF_ERR_INIT;

		if (answer_one(s, i, &err) < 0)
			fail(s, i, &err);
	}
	if (s->failed && s->failed < s->n)
		answer_failure(s);
}

/* What lies inline gets what the rest of the answers leaves. */
static int make_room(struct series *s, struct pf_err *err)
{
	size_t least = PF_ERR_TEXT + sizeof(struct pf_rep_execute);

	for (size_t i = 0; i < s->n; i++)
		least += round8(execution_answer_bytes(&s->all[i]));
	if (least > PF_RING_MESSAGE)
		return pf_err_set(err, -EPROTO, "execute: no room for %zu answers", s->n);
	s->room = PF_RING_MESSAGE - least;
	if (s->room > INLINE_TOTAL)
		s->room = INLINE_TOTAL;
	return 0;
}

static int execute(struct series *s, struct pf_err *err)
{
	int r = make_room(s, err);

	if (r < 0)
		return r;
	begin(s);
	await(s);
	answer(s);
	for (size_t i = s->failed; i < s->begun; i++)
		execution_take_back(&s->all[i]);
	for (size_t i = 0; i <= s->begun && i < s->n; i++)
		execution_release(&s->all[i]);
	if (s->failed == 0) {
		*err = s->why;
		return err->code;
	}
	s->request->reply_len = s->len;
	return 0;
}

int pf_handle_execute(struct pf_request *request, struct pf_err *err)
{
	struct execution one;
	struct series s = { .request = request, .all = &one, .why = PF_ERR_INIT };
	int r;
	size_t used;

	r = execution_read(&one, request->worker, request->message, request->len, &used,
			   err);
	s.n = 1;
	if (r == 0 && used < request->len) {
		s.all = NULL;
		r = read_all(request, NULL, &s.n, err);
		if (r == 0 && !(s.all = calloc(s.n, sizeof(*s.all))))
			r = pf_err_set(err, -ENOMEM, "no memory for %zu executions", s.n);
		if (r == 0)
			r = read_all(request, s.all, &s.n, err);
	}
	s.failed = s.n;
	if (r == 0)
		r = execute(&s, err);
	if (s.all != &one)
		free(s.all);
	return r;
}
