/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal, of which a restarted daemon makes its objects: a memfd, which another process holds
 * while the daemon is dead (daemon/holder.c, or systemd's file descriptor store).
 *
 * A record is the whole state of one object, under a type and a number; a later record replaces
 * an earlier one.  Stores to memory survive the process in program order, so a record that the
 * journal's end has passed is complete: it needs no checksums and no fsync(2).
 *
 * There is one journal in a process.  Without pf_state_open all functions do nothing, which costs
 * one load.  Functions are safe from any thread and take a lock of rank 10, which they hold for
 * less than a microsecond, but for compaction: some milliseconds, when three quarters of the
 * journal are superseded.
 */
#ifndef PJRTFS_STATE_H
#define PJRTFS_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pjrtfs/base.h"

/*
 * The numbers are the journal's: a new type is added at the end, before PF_STATE_TYPES.  The payload of
 * each has a version, in the table of src/wire/state.c: whoever changes a struct, what a field means, or
 * what follows the struct increases it.
 */
enum pf_state_type {
	PF_STATE_SESSION = 1, /* of the connection to the kernel; fuse/ */
	PF_STATE_NODE,        /* names and attributes, by inode number; tree/ */
	PF_STATE_OBJECT,      /* of a node: its kind's, by inode number; files/ */
	PF_STATE_OPEN,        /* an open file, by its handle; tree/ */
	PF_STATE_BYTES,       /* an extent of the arena; store/ */
	PF_STATE_VALUE,       /* an array; store/ */
	PF_STATE_BUFFER,      /* a buffer; store/ */
	PF_STATE_POOL,        /* the pool of an instance; engine/ */
	PF_STATE_ARENA,       /* an arena's size; wire/ */
	PF_STATE_USER,        /* a user's limits, by uid; store/ */
	PF_STATE_EXECUTABLE,  /* a program's source and options; store/ */
	PF_STATE_PLUGIN,  /* of plugins/, which the command line does not have; daemon/ */
	PF_STATE_LIBRARY, /* an FFI library that was registered at run time; daemon/ */
	PF_STATE_KEPT, /* a node's file in the state directory, by inode number; files/ */
	PF_STATE_CLIENT, /* the name of a plugin that had a client; daemon/ */
	PF_STATE_TYPES
};

/* The version of what is around the payloads. */
enum { PF_STATE_LAYOUT = 6 };

/*
 * Begin a journal.
 * fd   -1: in a new memfd; else the memfd of an earlier life, whose records can be read from now
 *      on; taken on success
 * -EPROTO: it, or one of its records, is of another version, or it is damaged; -ENOMEM; -errno of
 * memfd_create(2), mmap(2).
 */
int pf_state_open(int fd, struct pf_err *err);

/* The memfd, borrowed; -1: this process has no journal. */
int pf_state_fd(void);

/* Free the process's part of the journal; the memfd is closed, and lives as long as another process
 * holds it.  No other thread may use the journal. */
void pf_state_close(void);

extern bool pf_state_is_open; /* private: for pf_state_on */

/* Is there a journal? */
static inline bool pf_state_on(void)
{
	return pf_state_is_open;
}

/* A record to be written: the whole state of the object (TYPE, ID), which is DATA and, behind it, if
 * it is not NULL, TAIL; or, without DATA, that the object is gone.  All is borrowed for the call.
 * ID is less than 2^59. */
struct pf_state_change {
	enum pf_state_type type;
	uint64_t id;
	const void *data, *tail;
	size_t len, tail_len;
};

/*
 * Write the N CHANGES as one: all of them are in the journal, or none.  Without room or
 * memory the journal ends: a restarted daemon then mounts anew, and the log has a warning.
 */
void pf_state_write(const struct pf_state_change *changes, unsigned n);

/* The same for one object. */
static inline void pf_state_put(enum pf_state_type type, uint64_t id, const void *data,
				size_t len, const void *tail, size_t tail_len)
{
	if (pf_state_on())
		pf_state_write(&(struct pf_state_change){ type, id, data, tail, len,
							  tail_len },
			       1);
}

/* The object (TYPE, ID) is gone. */
static inline void pf_state_drop(enum pf_state_type type, uint64_t id)
{
	pf_state_put(type, id, NULL, 0, NULL, 0);
}

/* --- after a restart ---------------------------------------------------------------- */

/* The record (TYPE, ID) and its length in *LEN; NULL: no such record.  Aligned to 8 bytes; valid
 * until pf_state_restored, also when the record is replaced or dropped meanwhile. */
const void *pf_state_get(enum pf_state_type type, uint64_t id, size_t *len);

/*
 * The same for a record that begins with a struct of LEN bytes; *TAIL: how many bytes follow.  With
 * TAIL NULL none may.  NULL, and *ERR: -ENOENT: there is no such record; -EPROTO: its length is another.
 */
const void *pf_state_load(enum pf_state_type type, uint64_t id, size_t len, size_t *tail,
			  struct pf_err *err);

/* Find N texts, each with its NUL, in the LEN bytes at TAIL; false: there are fewer. */
bool pf_state_texts(const void *tail, size_t len, const char *texts[], unsigned n);

/* NULL, and *ERR: the record (TYPE, ID) has a field that cannot be; -EPROTO. */
void *pf_state_damaged(enum pf_state_type type, uint64_t id, struct pf_err *err);

/* All objects have been restored: from now on the journal gives back the room of records that
 * were replaced, and moves the others.  Does not block. */
void pf_state_restored(void);

/* The numbers of all records of TYPE, ascending, in an array of *N that the caller frees; NULL: no
 * memory, or none. */
uint64_t *pf_state_list(enum pf_state_type type, size_t *n);

/* --- counters: numbers that are not given twice, whatever records there are --------- */

enum pf_state_counter {
	PF_STATE_COUNT_INO,
	PF_STATE_COUNT_OBJECT, /* of buffers, values, bytes and executables */
	PF_STATE_COUNT_JOB,
	PF_STATE_COUNT_LIFE,     /* daemons that have served the mount before */
	PF_STATE_COUNT_INSTANCE, /* of workers */
	PF_STATE_COUNTERS = 8
};

/* The counter, in the journal, or, without a journal, in this process.  Borrowed; 0 at first. */
_Atomic uint64_t *pf_state_counter(enum pf_state_counter which);

/* Count one more: a number from 1 on.  Does not block. */
static inline uint64_t pf_state_next(enum pf_state_counter which)
{
	return atomic_fetch_add(pf_state_counter(which), 1) + 1;
}

/* --- requests ----------------------------------------------------------------------- */

/*
 * This thread works on the kernel's request UNIQUE until it calls this again; 0: on none.  Records
 * that it writes meanwhile are that request's, and if the daemon dies, the request is a suspect.
 * AGAIN: an earlier life has read the request, too.
 */
void pf_state_request(uint64_t unique, bool again);

/* The operation that a request asks for. */
struct pf_state_work {
	uint64_t ino;
	uint32_t opcode; /* the front end's */
	uint32_t user, pid;
	char name[84]; /* in INO, cut; "": INO itself */
};

/* The present request of this thread asks for WORK, which is copied. */
void pf_state_describe(const struct pf_state_work *work);

/* The requests that the life before worked on when it ended, borrowed until pf_state_close; *N. */
const struct pf_state_work *pf_state_left(unsigned *n);

/* The present request of this thread, or 0; did an earlier life read it? */
uint64_t pf_state_current(void);
bool pf_state_is_again(void);

/* Did an earlier life change names for request UNIQUE?  The latest 256 are known. */
bool pf_state_was_done(uint64_t unique);

/* How many lives ended while they worked on UNIQUE.  The latest 64 suspects are known. */
unsigned pf_state_deaths(uint64_t unique);

/*
 * Has the conversation of the open HANDLE (struct pf_open) parts that a client waits for?  A
 * restarted daemon does not have them.  Costs one store; of handles with the same number modulo
 * 16384 the last one counts.
 */
void pf_state_set_busy(uint64_t handle, bool busy);
bool pf_state_was_busy(uint64_t handle);

/* Has any conversation such parts? */
bool pf_state_any_busy(void);

/*
 * A request for the conversation of HANDLE: it is busy from now on.  False: the request would begin it,
 * but *ENDS says that this life is about to end, so the request is left to the next one, which gets it
 * again and knows by pf_state_was_postponed, true once, that no part of it has run.
 */
bool pf_state_begin(uint64_t handle, const _Atomic bool *ends);
bool pf_state_was_postponed(uint64_t handle);

#endif
