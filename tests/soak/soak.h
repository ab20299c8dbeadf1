/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The soak test: clients of all kinds work in one mount for hours, while faults happen.
 *
 * Each client is a process with a model of its own: which names there are, and which values
 * they may have.  It checks every answer against the model.  An operation may fail only with
 * an errno that the present faults explain, and with a sentence; then the model allows the
 * documented outcomes until the client has looked which of them happened.  The models lie in
 * memory that all processes share, so that the successor of a killed client goes on with the
 * model of the dead one.
 */
#ifndef PJRTFS_TESTS_SOAK_H
#define PJRTFS_TESTS_SOAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum {
	CLIENTS = 32, /* at most */
	THINGS = 8,   /* names of a client's model */
	MAYBE = 4,    /* values that a name may have */
	NAME = 64,    /* bytes of a path below buffers/ */
	LINE = 4096,  /* bytes of a reply that is read */
	ERRNOS = 134,
	MOST = 1 << 18,     /* elements of a value */
	HEAD = 128,         /* bytes of the header of a .npy */
	USERS = 1001,       /* the first ordinary user; the next ones follow */
	WRONG_AT_MOST = 20, /* the run ends then */
	HANG_SECONDS = 150, /* an operation that lasts longer hangs */
	DEVICES = 4,        /* of the plugin */
	STABLE = 40,        /* names in buffers/list that stay */
};

/* --- what is counted ---------------------------------------------------------------- */

#define SOAK_OPS(X)                                                                      \
	X(WRITE, "write")                                                                \
	X(REPLACE, "replace")                                                            \
	X(READ, "read")                                                                  \
	X(RENAME, "rename")                                                              \
	X(COPY, "copy")                                                                  \
	X(UNLINK, "unlink")                                                              \
	X(HELD, "open file")                                                             \
	X(MMAP, "mmap")                                                                  \
	X(ATTR, "attributes")                                                            \
	X(FOREIGN, "others' files")                                                      \
	X(LIST, "readdir")                                                               \
	X(FACT, "facts")                                                                 \
	X(EVENT, "events")                                                               \
	X(CONTROL, "control")                                                            \
	X(RUN, "run")                                                                    \
	X(CALL, "call")                                                                  \
	X(CALLBACK, "callback")                                                          \
	X(BATCH, "batch")                                                                \
	X(REPEAT, "repeat")                                                              \
	X(JOB, "job")                                                                    \
	X(CANCEL, "cancel")                                                              \
	X(CHECKPOINT, "checkpoint")                                                      \
	X(SHARD, "shard, gather")                                                        \
	X(COMPILE, "compile")                                                            \
	X(BROKEN, "broken program")                                                      \
	X(ABORT, "aborting program")

enum op {
#define X(id, name) OP_##id,
	SOAK_OPS(X)
#undef X
		N_OPS
};

/* The reasons why an operation may fail. */
enum cause {
	WORKER,  /* the worker ended: EIO */
	STOPPED, /* the worker was stopped: ETIMEDOUT of its facts */
	MEMORY,  /* the memory limit is reached: ENOSPC */
	DISK,    /* the cache's disk is full: no operation fails */
	DAEMON,  /* the daemon was killed: EIO of commands under way */
	NOTHING, /* a client was killed: no other client notices */
	N_CAUSES
};

/* --- values and models -------------------------------------------------------------- */

/*
 * An array of N elements: element I is BASE + I * STEP, as S32 ('i', modulo 2^32), F32 ('f',
 * small integers) or U8 ('b', modulo 256).  Sums of two are of this form, too, so that every
 * program's result is known.
 */
struct value {
	char type;
	uint32_t n, base, step;
};

/* A name below buffers/, without the extension. */
struct thing {
	char name[NAME];
	char ext[8]; /* with which it is written: ".npy" */
	unsigned n;  /* values that it may have */
	struct value may[MAYBE];
	uint32_t repeat;     /* BASE may be up to so much more: repetitions count */
	bool absent;         /* it may be absent */
	bool partial;        /* it may be there and not ready: a write was cut off */
	uint64_t renamed;    /* when; the file is committed in the background then */
	unsigned generation; /* names that were left to what a killed client began */
};

struct kind {
	const char *name;
	unsigned clients;    /* how many of this kind */
	bool root;           /* they are the mount's owner, not an ordinary user */
	void (*begin)(void); /* in each new process; may be NULL */
	void (*step)(void);  /* one operation or a few */
	void (*end)(void);   /* check and remove what is left; may be NULL */
};

struct client {
	unsigned kind, index;
	uid_t uid;
	pid_t pid;
	unsigned lives;
	_Atomic uint64_t began; /* when the operation under way began; 0: none is */
	enum op op;
	char doing[128];
	unsigned long done[N_OPS], failed[N_OPS], refused[ERRNOS];
	uint64_t slowest[N_OPS]; /* ns */
	unsigned long lost, quarantined, interrupted;
	struct thing things[THINGS];
};

struct state {
	_Atomic bool stop; /* the clients end */
	_Atomic bool calm; /* no more faults */
	_Atomic unsigned n_wrong;
	_Atomic unsigned long names; /* for names and programs that are new */
	struct {
		_Atomic unsigned active;
		_Atomic uint64_t ended; /* when the last one did */
	} causes[N_CAUSES];
	unsigned long faults[16]; /* by kind of fault */
	uint64_t begun;           /* the times in the log are since then */
	unsigned n_clients;
	struct client clients[CLIENTS];
};

/* The options of the command line. */
struct options {
	const char *mount, *plugin, *faults, *kinds, *cache;
	unsigned seconds;
	uint64_t seed;
	bool faulty; /* the mount has the faulty plugin */
};

extern struct state *all;
extern struct options opt;
extern struct client *me; /* the client of this process */

/* --- model.c: random numbers, values, operations, names ----------------------------- */

uint64_t now_ns(void);
/* Print a line with the time. */
__attribute__((__format__(__printf__, 1, 2))) void say(const char *fmt, ...);
void pause_ms(unsigned ms);

/* A random number below N. */
uint32_t below(uint32_t n);
bool one_in(uint32_t n);
void seed_random(uint64_t seed);

size_t value_size(const struct value *v);
void value_fill(const struct value *v, void *to);
bool value_is(const struct value *v, const void *bytes, size_t len);
struct value value_random(char type, uint32_t n);
/* The sum of two of one type and size. */
struct value value_sum(const struct value *a, const struct value *b);
/* Write a .npy of it: a header of HEAD bytes, and the elements. */
void value_npy(const struct value *v, char *to);

/* Something happened that must not: say so, and count it. */
__attribute__((__format__(__printf__, 1, 2))) void wrong(const char *fmt, ...);

/* An operation begins; it ends with op_ok or op_failed. */
__attribute__((__format__(__printf__, 2, 3))) void op_begin(enum op op, const char *fmt,
							    ...);
void op_ok(void);

/*
 * It failed with ERR.  SENTENCE is what the program said, NULL: the file error at the root
 * has it.  It is counted as wrong if no present fault explains it, or if there is no
 * sentence.
 */
void op_failed(int err, const char *sentence);

/* One of the two; ERR 0: it did not fail.  Did it not? */
bool op_ended(int err, const char *sentence);

/* Is there no SENTENCE, although no daemon has died meanwhile, with which the file error ends? */
bool op_lacks(const char *sentence);

/* Was the cause there at some time since WHEN? */
bool was_there(enum cause cause, uint64_t when);

/* What began before the operation under way, such as its job: faults since then count. */
void op_since(uint64_t when);

/* The cause is there now, or ends now. */
void cause_begins(enum cause cause);
void cause_ends(enum cause cause);

/* Let a signal interrupt system calls MS from now on, once; 0: no more. */
void interrupt_in(unsigned us);

/* The path, in one of some buffers. */
__attribute__((__format__(__printf__, 1, 2))) const char *path_of(const char *fmt, ...);
/* Read a whole file: its bytes, followed by a zero byte that does not count, or -errno. */
ssize_t read_file(const char *path, char *buf, size_t size);
/* The number that it begins with, or -1. */
long file_number(const char *path);
/* Write a file in pieces of at most PIECE bytes: 0 or an errno. */
int write_file(const char *path, int flags, const void *bytes, size_t len, size_t piece);
int write_text(const char *path, const char *text);

/* --- the names of this client */

/* Thing I of this client; its name is set. */
struct thing *thing(unsigned i);
/* After an operation that may have given it V, or removed it (V is NULL). */
void thing_may(struct thing *t, const struct value *v);
/* It has V for certain, or is absent (V is NULL). */
void thing_is(struct thing *t, const struct value *v);
bool thing_certain(const struct thing *t);
/* The same, after a look if it was not. */
bool thing_settled(struct thing *t);
/* Is it certain that it is there? */
bool thing_there(const struct thing *t);
/* The path of its file with EXT. */
const char *thing_path(const struct thing *t, const char *ext);

/* Read it and compare it with the model, which is certain afterwards if that succeeds. */
bool thing_check(struct thing *t);
/* Write V to it: under its name, or under another one and rename it. */
bool thing_put(struct thing *t, const struct value *v, bool replace);
void thing_remove(struct thing *t);
/* An operation that gives it V, or removes it (V is NULL), has ended with ERR.  Did it not fail? */
bool thing_given(struct thing *t, const struct value *v, int err, const char *sentence);
/* Such an operation: a command in control.  T is NULL if it concerns other names. */
__attribute__((__format__(__printf__, 4, 5))) bool thing_command(enum op op,
								 struct thing *t,
								 const struct value *v,
								 const char *fmt, ...);
/* Make it certain and there, with a value of N elements; false: faults prevent it. */
bool thing_need(struct thing *t, char type, uint32_t n);
/* A new name; what has the old one is what an unknown end made of it. */
void thing_leave(struct thing *t);
/* The ends of all clients: each thing is checked, then removed. */
void things_end(void);

/* --- commands and replies ----------------------------------------------------------- */

/* A client may have a conversation open for all its life; -1 is none. */
int talk_open(const char *path);
/* Close it, if it is open, and forget it. */
void talk_close(int *fd);
/* This client's conversation in control, and a kind's begin that opens it. */
extern int control;
void open_control(void);
/* Write a command and read its reply: 0, or the errno in it. */
__attribute__((__format__(__printf__, 2, 3))) int talk(int fd, const char *fmt, ...);
extern char reply[LINE];
/* The number after "KEY": in the reply, or -1. */
long reply_number(const char *key);
/* The errno that the reply names. */
int reply_errno(void);

/* --- programs.c */

enum { SIZES = 4 };
extern const uint32_t program_sizes[SIZES]; /* of the programs that all clients use */
/* Compile them, as the mount's owner; ends the process if that fails. */
void programs_make(void);

/* --- soak.c: is the name one of a list with commas? */
bool in_list(const char *list, const char *name);

/* --- faults.c: the process that makes faults until all->calm */
void faults_run(void);
/* The name of the Ith kind, or NULL. */
const char *fault_name(unsigned i);

/* --- report.c */
struct process_size {
	unsigned long anon, shmem, fds; /* KiB, KiB, number */
};
struct measure {
	struct process_size daemon, worker;
	unsigned long used; /* bytes, as df has it */
	/* files and directories, those too that the kernel remembers */
	unsigned long nodes;
};
void measure(struct measure *m);
void measure_print(const char *when, const struct measure *m);
/* The tables and the line for programs; how many answers were wrong. */
unsigned long report(const struct measure *begin, const struct measure *end,
		     double seconds);

/* --- soak.c: the kinds of clients, and what they do, in the other files */
extern const struct kind kinds[];
void attributes_step(void), batch_step(void), call_step(void), checkpoints_step(void),
	compile_begin(void), compile_step(void), control_step(void), events_begin(void),
	events_step(void), facts_step(void), faulty_step(void), files_step(void),
	foreign_step(void), host_begin(void), host_end(void), host_step(void),
	jobs_step(void), lister_step(void), mmap_begin(void), mmap_step(void),
	renamer_step(void), run_step(void), shards_end(void), shards_step(void);

#endif
