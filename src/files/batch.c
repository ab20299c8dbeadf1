/* The op "batch": commands in order, in one round trip. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "pjrtfs/base/json.h"

enum {
	MAX_STEPS = 100000,
	MAX_REPLIES = 8 << 20, /* bytes of all of them */
};

/*
 * One step runs after the other, each as a task of its own.  A step may be answered before
 * the call that began it returns, or later, on another thread: whoever of the two comes last
 * goes on with the next step, so that many steps need no deep stack.
 */
struct batch {
	struct task *task;         /* who waits for all */
	struct json_object *steps; /* owned: the list */
	struct pf_buf replies;     /* their texts, with commas between */
	size_t at;                 /* the step under way */
	int code;
	struct pf_err err; /* of the step that failed */
};

struct step {
	struct task task;
	struct batch *batch;
	_Atomic bool came; /* the beginner, or the answer, was here already */
};

static void go_on(struct batch *b);

static struct step *step_of(struct task *task)
{
	return pf_container_of(task, struct step, task);
}

static bool step_cancelled(struct task *task)
{
	return task_cancelled(step_of(task)->batch->task);
}

/* Keep the reply, which as text is a tenth of what it is as an object. */
static void keep(struct batch *b, int code, struct json_object *reply)
{
	struct json_object *e = NULL, *message = NULL;

	pf_buf_puts(&b->replies, b->replies.len ? "," : "");
	pf_buf_puts(&b->replies, pf_json_text(reply));
	b->code = code;
	if (code < 0 && json_object_object_get_ex(reply, "error", &e))
		json_object_object_get_ex(e, "message", &message);
	if (code < 0)
		pf_err_set(&b->err, code, "%s",
			   message ? json_object_get_string(message) : "failed");
	else if (b->replies.failed)
		b->code = pf_err_set(&b->err, -ENOMEM, "no memory for its reply");
	else if (b->replies.len > MAX_REPLIES)
		b->code = pf_err_set(&b->err, -E2BIG,
				     "the replies have more than %d bytes", MAX_REPLIES);
	json_object_put(reply);
}

static void step_answer(struct task *task, int code, struct json_object *reply)
{
	struct step *s = step_of(task);
	struct batch *b = s->batch;

	keep(b, code, reply);
	b->at++;
	if (atomic_exchange(&s->came, true))
		go_on(b);
}

static void step_free(struct task *task)
{
	free(step_of(task));
}

static const struct task_ops step_ops = { .cancelled = step_cancelled,
					  .answer = step_answer,
					  .free = step_free };

/* The list of replies: a text that is printed as it is. */
static struct json_object *list_replies(struct batch *b)
{
	struct json_object *list = json_object_new_object();
	struct pf_buf text = PF_BUF_INIT;

	pf_buf_puts(&text, "[");
	if (b->replies.len && !b->replies.failed)
		pf_buf_append(&text, b->replies.data, b->replies.len);
	pf_buf_append(&text, "]", 2);
	if (list && !text.failed)
		json_object_set_serializer(list, json_object_userdata_to_json_string,
					   pf_steal(&text.data),
					   json_object_free_userdata);
	pf_buf_release(&text);
	return list;
}

static void finish(struct batch *b, int code, struct pf_err *err)
{
	struct json_object *o = code < 0 ? reply_failure(err) : reply_new();

	json_object_object_add(o, "replies", list_replies(b));
	task_done(b->task, code, o);
	json_object_put(b->steps);
	pf_buf_release(&b->replies);
	free(b);
}

static int begin_step(struct batch *b, struct task *task, struct pf_err *err)
{
	struct json_object *o = json_object_array_get_idx(b->steps, b->at), *op;

	if (!json_object_is_type(o, json_type_object))
		return pf_err_set(err, -EINVAL, "expected a JSON object");
	task_set_id(task, o);
	if (json_object_object_get_ex(o, "op", &op) &&
	    json_object_is_type(op, json_type_string) &&
	    !strcmp(json_object_get_string(op), "batch"))
		return pf_err_set(err, -EINVAL, "a batch within a batch");
	return command_run(task, o, err);
}

/* Begin the step at hand; true if its answer was there already. */
static bool step_once(struct batch *b)
{
	struct step *s = calloc(1, sizeof(*s));
	struct pf_err err = PF_ERR_INIT;
	bool answered;

	if (!s) {
		pf_err_set(&err, -ENOMEM, "no memory for a step");
		keep(b, err.code, reply_failure(&err));
		b->at++;
		return true;
	}
	task_init(&s->task, &step_ops, b->task->file, &b->task->cred);
	s->task.whole = task_ref(b->task);
	s->batch = b;
	task_runs_at(b->task, NULL, NULL); /* where the step before was */
	task_ref(&s->task);
	if (begin_step(b, &s->task, &err) < 0)
		task_fail(&s->task, &err);
	answered = atomic_exchange(&s->came, true);
	task_unref(&s->task);
	return answered;
}

static void go_on(struct batch *b)
{
	struct pf_err err = PF_ERR_INIT;

	while (b->code == 0 && b->at < json_object_array_length(b->steps)) {
		if (task_cancelled(b->task)) {
			b->code = pf_err_set(&err, -ECANCELED,
					     "batch: cancelled before step %zu", b->at);
			finish(b, b->code, &err);
			return;
		}
		if (!step_once(b))
			return; /* the answer goes on */
	}
	if (b->code < 0)
		pf_err_set(&err, b->code, "batch: step %zu: %s", b->at - 1, b->err.text);
	finish(b, b->code, &err);
}

int op_batch(struct task *task, struct json_object *o, struct pf_err *err)
{
	static const char *const allowed[] = { "steps", NULL };
	struct json_object *steps;
	struct batch *b;
	int r = command_check_keys(o, allowed, err);

	if (r < 0)
		return r;
	if (!json_object_object_get_ex(o, "steps", &steps) ||
	    !json_object_is_type(steps, json_type_array))
		return pf_err_set(err, -EINVAL, "\"steps\": expected a list of commands");
	if (json_object_array_length(steps) > MAX_STEPS)
		return pf_err_set(err, -E2BIG, "\"steps\": more than %d", MAX_STEPS);
	b = calloc(1, sizeof(*b));
	if (!b)
		return pf_err_set(err, -ENOMEM, "no memory for a batch");
	b->task = task;
	b->steps = pf_json_copy(steps);
	if (!b->steps) {
		free(b);
		return pf_err_set(err, -ENOMEM, "no memory for a batch");
	}
	go_on(b);
	return 0;
}
