/* SPDX-License-Identifier: Apache-2.0 */
/* The screen: a thread takes samples, so that keys work while the mount does not answer. */
#include <curses.h>
#include <limits.h>
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
	bool helps;                  /* the keys and columns are explained */
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
	static const attr_t attributes[] = { [PLAIN] = A_NORMAL,
					     [HEADING] = A_BOLD | A_UNDERLINE,
					     [ACTIVE] = A_BOLD | A_REVERSE,
					     [CHOSEN] = A_REVERSE };

	attrset((int)attributes[style]);
	mvaddnstr(row, 0, text, -1);
	attrset(A_NORMAL);
	clrtoeol();
}

/* Lines that a table takes of which ROWS of N rows are shown. */
static int lines_of(unsigned rows, unsigned n)
{
	return (int)(rows < n ? rows + 1 : n);
}

/* Share the lines of the screen: each table in turn gets a row more, as long as the page fits. */
static void fit_rows(struct screen *s)
{
	int left = LINES - HEAD - (int)s->now->n_plugins - FOOT;
	bool grew = true;

	for (enum table t = 0; t < TABLES; t++) {
		s->view->rows[t] = LEAST_ROWS;
		left -= BETWEEN + lines_of(LEAST_ROWS, page_rows(s->now, t));
	}
	while (grew) {
		grew = false;
		for (enum table t = 0; t < TABLES; t++) {
			unsigned rows = s->view->rows[t], n = page_rows(s->now, t);
			int more = lines_of(rows + 1, n) - lines_of(rows, n);

			if (rows >= n || more > left)
				continue;
			s->view->rows[t]++;
			left -= more;
			grew = true;
		}
	}
}

static void draw(struct screen *s)
{
	int late = (int)((pf_now_ms() - s->answered_ms) / 1000);
	struct page page = { NULL, 0 };
	char text[sizeof(s->said) + 64];

	if (s->now)
		fit_rows(s);
	if (s->helps)
		page_help(&page);
	else if (s->now)
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
	snprintf(
		text, sizeof(text),
		"q quit  ? help  tab table  up/down row  c cancel  C by force  s sort (%s)",
		sort_names[s->view->sort]);
	draw_line(LINES - 1, PLAIN, text);
	refresh();
}

static long between(long n, long least, long most)
{
	return n < least ? least : n > most ? most : n;
}

/* Choose the job STEP rows below; the first, if none is chosen or that one has ended. */
static void choose_job(struct screen *s, long step)
{
	unsigned n = s->now->n_jobs, at = 0;

	while (at < n && s->now->jobs[at].number != s->view->job)
		at++;
	at = at == n ? 0 : (unsigned)between(at + step, 0, (long)n - 1);
	s->view->job = n ? s->now->jobs[at].number : 0;
}

/* How many rows of the table are not shown. */
static long hidden_rows(const struct screen *s, enum table t)
{
	unsigned n = page_rows(s->now, t);

	return n > s->view->rows[t] ? (long)(n - s->view->rows[t]) : 0;
}

static void scroll_table(struct screen *s, long step)
{
	enum table t = s->view->active;
	long last = hidden_rows(s, t), from = s->view->from[t];

	if (t == JOBS)
		choose_job(s, step);
	else
		s->view->from[t] =
			(unsigned)between(between(from, 0, last) + step, 0, last);
}

/* Let keys scroll the first table that has more rows than it shows, if the active one has not. */
static void activate_hidden(struct screen *s)
{
	enum table t = 0;

	if (hidden_rows(s, s->view->active))
		return;
	while (t < TABLES && !hidden_rows(s, t))
		t++;
	if (t < TABLES)
		s->view->active = t;
}

/* A key that moves in the tables. */
static void on_move(struct screen *s, int key)
{
	unsigned active = s->view->active;
	long page;

	if (!s->now)
		return;
	if (key == '\t' || key == KEY_BTAB)
		s->view->active = (active + (key == '\t' ? 1 : TABLES - 1)) % TABLES;
	else if (key == KEY_DOWN || key == 'j')
		scroll_table(s, 1);
	else if (key == KEY_UP || key == 'k')
		scroll_table(s, -1);
	if (key != KEY_NPAGE && key != KEY_PPAGE && key != KEY_HOME && key != KEY_END)
		return;
	activate_hidden(s);
	page = key == KEY_NPAGE || key == KEY_PPAGE ? (long)s->view->rows[s->view->active]
						    : INT_MAX;
	scroll_table(s, key == KEY_NPAGE || key == KEY_END ? page : -page);
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
	if (s->helps && key != ERR) {
		s->helps = false;
		return true;
	}
	if (key == 'q')
		return false;
	if (key != ERR)
		*s->said = '\0';
	if (key == '?' || key == 'h')
		s->helps = true;
	if (key == 's')
		s->view->sort = (s->view->sort + 1) % SORTS;
	on_move(s, key);
	if (key != 'c' && key != 'C')
		return true;
	if (!s->view->job) {
		s->view->active = JOBS;
		snprintf(s->said, sizeof(s->said), "choose a job first: up, down");
	} else if (key == 'c' ||
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
