/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The op "settle": it is answered when all is visible that operations have caused which had
 * returned before.
 *
 * One thread waits, in rounds: first for turns (pf_turns_await), then for the workers, then for the
 * state directory.  A round answers all commands that came before it began, so that many of them
 * cost no more than one.
 */
#include <errno.h>
#include <stdlib.h>

#include "command.h"

enum { PATIENCE_S = 10 }; /* until a worker counts as hung */

struct settle {
	struct task_wait wait;
	struct settle *next;
	struct pf_err err; /* what it could not wait for */
};

/* --- a round: on the thread ----------------------------------------------------------- */

/* ERR concerns USER alone and the mount's owner; or, of ALL, every command of the round. */
static void blame(struct pf_fs *fs, bool all, uid_t user, const struct pf_err *err)
{
	PF_LOCK_SCOPE(&fs->settling.lock);
	for (struct settle *s = fs->settling.present; s; s = s->next) {
		uid_t uid = s->wait.task->cred.uid;

		if (!s->err.code && (all || uid == user || files_owns_mount(fs, uid)))
			s->err = *err;
	}
}

/* Wait for the workers of HOME.  False: one is hung. */
static bool settle_workers(struct pf_fs *fs, const struct home *home, int64_t end)
{
	bool settled = true;

	for (unsigned i = 0; i < fs->n_workers; i++) {
		struct pf_err err = PF_ERR_INIT;
		int64_t left = (end - pf_now_ms()) / 1000;

		if (pf_worker_settle(home->workers[i], left > 1 ? (unsigned)left : 1,
				     &err) == 0)
			continue;
		blame(fs, home == &fs->home, home->user, &err);
		settled = false;
	}
	return settled;
}

static bool settle_all_workers(struct pf_fs *fs)
{
	int64_t end = pf_now_ms() + PATIENCE_S * 1000;
	bool settled = settle_workers(fs, &fs->home, end);

	for (const struct home *home = files_next_home(fs, NULL); home;
	     home = files_next_home(fs, home))
		settled = settle_workers(fs, home, end) && settled;
	return settled;
}

static bool stops(struct pf_fs *fs)
{
	PF_LOCK_SCOPE(&fs->settling.lock);
	return fs->settling.stops;
}

static void run_round(struct pf_fs *fs)
{
	struct pf_err err = PF_ERR_INIT;

	/* What takes long may be a plugin that serializes a program, or one that is hung. */
	while (!pf_turns_await(PATIENCE_S * 1000))
		if (!settle_all_workers(fs) || stops(fs))
			return;
	settle_all_workers(fs);
	if (pf_state_dir_settle(fs->state_dir, &err) < 0)
		blame(fs, true, 0, &err);
}

/* S, which is on no list any more, ends. */
static void answer(struct settle *s)
{
	struct task *task = s->wait.task;

	task_wait_end(task);
	if (s->err.code < 0) {
		pf_err_wrap(&s->err, s->err.code, "settle");
		task_fail(task, &s->err);
	} else {
		task_done(task, NULL, reply_new());
	}
	free(s);
}

static void *settle_main(void *arg)
{
	struct pf_fs *fs = arg;
	struct settling *all = &fs->settling;
	struct settle *s, *next;

	pf_lock(&all->lock);
	while (all->next || !all->stops) {
		if (!all->next) {
			pthread_cond_wait(&all->changed, &all->lock);
			continue;
		}
		all->present = pf_steal(&all->next);
		pf_unlock(&all->lock);
		run_round(fs);
		pf_lock(&all->lock);
		s = pf_steal(&all->present);
		pf_unlock(&all->lock);
		for (; s; s = next) {
			next = s->next;
			answer(s);
		}
		pf_lock(&all->lock);
	}
	pf_unlock(&all->lock);
	return NULL;
}

void files_end_settling(struct pf_fs *fs)
{
	struct settling *all = &fs->settling;

	pf_lock(&all->lock);
	all->stops = true;
	pthread_cond_signal(&all->changed);
	pf_unlock(&all->lock);
	if (all->runs)
		pthread_join(all->thread, NULL);
	all->runs = false;
}

/* --- the command ---------------------------------------------------------------------- */

static bool take_off(struct settle **list, const struct settle *s)
{
	while (*list && *list != s)
		list = &(*list)->next;
	if (!*list)
		return false;
	*list = s->next;
	return true;
}

static bool leave(struct task_wait *wait)
{
	struct settle *s = pf_container_of(wait, struct settle, wait);
	struct settling *all = &wait->task->fs->settling;

	PF_LOCK_SCOPE(&all->lock);
	return take_off(&all->next, s) || take_off(&all->present, s);
}

static void cancelled(struct task_wait *wait)
{
	struct settle *s = pf_container_of(wait, struct settle, wait);
	struct pf_err err = PF_ERR_INIT;

	pf_err_set(&err, -ECANCELED, "settle: cancelled");
	task_fail(wait->task, &err);
	free(s);
}

static int add(struct settling *all, struct settle *s, struct pf_fs *fs)
{
	PF_LOCK_SCOPE(&all->lock);
	if (!all->runs && pf_thread_start(&all->thread, settle_main, fs))
		return -EAGAIN;
	all->runs = true;
	s->next = all->next;
	all->next = s;
	pthread_cond_signal(&all->changed);
	return 0;
}

int op_settle(struct task *task, struct json_object *o, struct pf_err *err)
{
	const struct command_key keys[] = { { 0 } };
	int r = command_parse(task->fs, o, keys, err);
	struct settle *s = r == 0 ? calloc(1, sizeof(*s)) : NULL;

	if (r < 0)
		return r;
	if (!s)
		return pf_err_set(err, -ENOMEM, "no memory for a command");
	s->wait = (struct task_wait){ .task = task,
				      .leave = leave,
				      .cancelled = cancelled,
				      .meanwhile = "what it waits for goes on" };
	task_ref(task); /* S may be gone once it waits */
	task_wait_begin(&s->wait);
	r = add(&task->fs->settling, s, task->fs);
	if (r < 0) {
		task_wait_end(task);
		free(s);
		pf_err_set(err, r, "no thread could be created");
	} else {
		task_wait_check(task);
	}
	task_unref(task);
	return r;
}
