/* SPDX-License-Identifier: Apache-2.0 */
/* The screen: a thread takes samples, so that keys work while the mount does not answer. */
#include <curses.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "top.h"

enum {
	TICK_MS = 100,
	LATE_MS = 2000, /* the mount answers late: say so */
	HEAD = 2,       /* lines above the tables, but for the plugins */
	BETWEEN = 2,    /* a heading, and the line before it */
	FOOT = 2,
	LEAST_ROWS = 2,
};

struct screen {
	struct view *view; /* borrowed; but for mount, of the thread with the screen */
	int delay_ms;
	pthread_mutex_t lock;        /* of all below */
	pthread_cond_t wake;         /* a job is to be cancelled */
	struct sample *now, *before; /* owned */
	struct pf_err err;           /* why the next sample failed */
	int64_t answered_ms;
	unsigned long cancel; /* a job; 0: none */
	bool force;
	char said[PF_ERR_TEXT + 64]; /* what became of the last key */
};

/* --- the thread of samples --------------------------------------------------------------- */

static void take(struct screen *s)
{
	struct pf_err err = PF_ERR_INIT;
	struct sample *sample = NULL;
	int r = sample_take(s->view->mount, &sample, &err);

	PF_LOCK_SCOPE(&s->lock);
	s->answered_ms = pf_now_ms();
	s->err = err;
	if (r == 0) {
		sample_free(s->before);
		s->before = s->now;
		s->now = sample;
	}
}

static void cancel(struct screen *s, unsigned long job, bool force)
{
	struct pf_err err = PF_ERR_INIT;
	int r = tool_write(force ? "force\n" : "1\n", &err, s->view->mount,
			   "jobs/%lu/cancel", job);

	PF_LOCK_SCOPE(&s->lock);
	if (r == 0)
		snprintf(s->said, sizeof(s->said), "job %lu is cancelled", job);
	else
		snprintf(s->said, sizeof(s->said), "cancel job %lu: %s", job, err.text);
}

static void *take_samples(void *arg)
{
	struct screen *s = arg;

	for (;;) {
		struct timespec until;
		unsigned long job;
		bool force;

		take(s);
		until = pf_time_in(CLOCK_MONOTONIC, (uint64_t)s->delay_ms);
		pf_lock(&s->lock);
		while (!s->cancel && pthread_cond_clockwait(&s->wake, &s->lock,
							    CLOCK_MONOTONIC, &until) == 0)
			;
		job = s->cancel;
		force = s->force;
		s->cancel = 0;
		pf_unlock(&s->lock);
		if (job)
			cancel(s, job, force);
	}
	return NULL;
}

/* --- the screen; its functions hold the lock ---------------------------------------------- */

static void draw_line(int row, enum style style, const char *text)
{
	attrset(style == PLAIN     ? A_NORMAL
		: style == HEADING ? A_BOLD | A_UNDERLINE
				   : A_REVERSE);
	mvaddnstr(row, 0, text, -1);
	attrset(A_NORMAL);
	clrtoeol();
}

/* The most rows of a table with which the page of SAMPLE fits on the screen. */
static unsigned rows_that_fit(const struct sample *sample)
{
	const unsigned tables[] = { sample->n_devices, sample->n_users, sample->n_queue,
				    sample->n_jobs, sample->n_executables };
	unsigned rows = LINES > 0 ? (unsigned)LINES : 1, need;

	do {
		need = HEAD + sample->n_plugins + FOOT;
		for (size_t i = 0; i < PF_ARRAY_SIZE(tables); i++)
			need += BETWEEN + (tables[i] > rows ? rows + 1 : tables[i]);
	} while (need > (unsigned)LINES && --rows > LEAST_ROWS);
	return rows;
}

static void draw(struct screen *s)
{
	int late = (int)((pf_now_ms() - s->answered_ms) / 1000);
	struct page page = { NULL, 0 };
	char text[sizeof(s->said) + 64];

	if (s->now)
		s->view->rows = rows_that_fit(s->now);
	if (s->now)
		page_make(&page, s->now, s->before, s->view);
	erase();
	for (unsigned i = 0; i < page.n && (int)i < LINES - 2; i++)
		draw_line((int)i, page.lines[i].style, page.lines[i].text);
	free(page.lines);
	*text = '\0';
	if (s->err.code)
		snprintf(text, sizeof(text), "waiting for the mount: %s", s->err.text);
	else if (late * 1000 >= LATE_MS + s->delay_ms)
		snprintf(text, sizeof(text), "%s has not answered for %d s",
			 s->view->mount, late);
	else
		snprintf(text, sizeof(text), "%s", s->said);
	draw_line(LINES - 2, *text ? CHOSEN : PLAIN, text);
	snprintf(text, sizeof(text),
		 "q quit   up/down choose a job   c cancel it   C by force   s sort (%s)",
		 sort_names[s->view->sort]);
	draw_line(LINES - 1, PLAIN, text);
	refresh();
}

/* Choose the next job, or the one before it (STEP -1); the first, if the chosen one has ended. */
static void choose(struct screen *s, int step)
{
	unsigned n = s->now ? s->now->n_jobs : 0, at = 0;

	while (at < n && s->now->jobs[at].number != s->view->job)
		at++;
	if (at == n)
		at = 0;
	else if (step > 0 ? at + 1 < n : at > 0)
		at += (unsigned)step;
	s->view->job = n ? s->now->jobs[at].number : 0;
}

/* Ask on the last line but one; true: the answer is y. */
static bool confirm(struct screen *s, const char *question)
{
	int key;

	draw_line(LINES - 2, CHOSEN, question);
	refresh();
	pf_unlock(&s->lock);
	while ((key = getch()) == ERR)
		;
	pf_lock(&s->lock);
	return key == 'y';
}

/* False: quit. */
static bool on_key(struct screen *s, int key)
{
	if (key == 'q')
		return false;
	if (key != ERR)
		*s->said = '\0';
	if (key == 's')
		s->view->sort = (s->view->sort + 1) % SORTS;
	if (key == KEY_DOWN || key == 'j' || key == KEY_UP || key == 'k')
		choose(s, key == KEY_DOWN || key == 'j' ? 1 : -1);
	if (key != 'c' && key != 'C')
		return true;
	if (!s->view->job)
		snprintf(s->said, sizeof(s->said), "choose a job first: up, down");
	else if (key == 'c' ||
		 confirm(s, "End the plugin's process, and all that runs there? y/n")) {
		s->cancel = s->view->job;
		s->force = key == 'C';
		pthread_cond_signal(&s->wake);
	}
	return true;
}

int screen_run(struct view *view, int delay_ms)
{
	static struct screen s = { .lock = PTHREAD_MUTEX_INITIALIZER,
				   .wake = PTHREAD_COND_INITIALIZER };
	pthread_t thread;
	bool on = true;

	s.view = view;
	s.delay_ms = delay_ms;
	s.answered_ms = pf_now_ms();
	setlocale(LC_CTYPE, "");
	if (pthread_create(&thread, NULL, take_samples, &s)) {
		fputs("pjrtfs-top: no thread can be made\n", stderr);
		return 1;
	}
	initscr();
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	timeout(TICK_MS);
	while (on) {
		int key = getch();

		PF_LOCK_SCOPE(&s.lock);
		on = on_key(&s, key);
		draw(&s);
	}
	endwin();
	/* The thread may wait for the mount for ever; it ends with the process. */
	return 0;
}
