/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/fuse. */
#ifndef PJRTFS_FUSE_INTERNAL_H
#define PJRTFS_FUSE_INTERNAL_H

#include <fuse_lowlevel.h>
#include <sys/queue.h>

#include "pjrtfs/base.h"
#include "pjrtfs/fuse.h"
#include "pjrtfs/tree.h"
#include "pjrtfs/vfs.h"
#include "pjrtfs/wait.h"

#define FUSE_USE_VERSION 314

enum {
	PF_FUSE_THREADS = 4,
	HEAVY = 64 << 10, /* bytes of a read or write that takes long */
	HANDLES = 1024,   /* in one block of the table of open files */
	BLOCKS = 4096,
};

typedef struct pf_open *_Atomic pf_open_slot;

struct pf_mount {
	struct fuse_session *session; /* owned */
	char *path;                   /* owned: the mount point, absolute, or /dev/fd/N */
	dev_t dev;                    /* of the mount, as stat(2) shows it; 0: unknown */
	struct pf_tree *tree;         /* borrowed */
	void (*usage)(void *arg, struct pf_usage *ret);
	void (*suspended)(void *arg);
	void *arg;
	pthread_t notifier;   /* the thread that invalidates the kernel's caches, */
	bool notifies;        /* if it was started */
	struct fuse_buf init; /* mem owned: the INIT request */
	uint64_t init_unique; /* its number: its answer is completed */
	uint64_t offered;     /* the kernel's capabilities, from there */
	bool resumed;         /* an earlier life of the daemon has mounted it, */
	bool differs;         /* and would have answered INIT otherwise */
	int io_fd;            /* where requests are read and answered: see clone_device */
	int cloned;           /* owned: the same, or -1 */
	const char *death;    /* borrowed; as in the configuration */
	size_t many_gone;     /* names that the kernel drops at a time, or more */
	_Atomic bool unmounted;   /* the kernel has no more requests */
	_Atomic bool frozen;      /* pf_mount_suspend has returned: no thread answers */
	_Atomic unsigned sending; /* threads that answer */
	/* Owned: the open files by their handles, from 1 on.  Slots are read without a lock. */
	pf_open_slot *_Atomic blocks[BLOCKS];

	struct pf_timers *timers; /* owned: they look again at callers that were woken */

	pthread_mutex_t lead; /* rank 0; held by the thread that reads requests */

	pthread_mutex_t lock; /* rank 10; protects the fields below */
	pthread_cond_t ended; /* running or stopping changed */
	LIST_HEAD(, pf_fuse_request) parked;
	uint64_t n_handles;    /* handles below have been given, */
	struct pf_buf unused;  /* owned: and these of them (uint64_t) are not in use */
	unsigned running;      /* serving threads */
	bool stopping;         /* pf_mount_stop was called, */
	bool suspending;       /* or pf_mount_suspend: parked requests stay */
	int failed;            /* -errno of reading the device, or 0 */
	struct pf_map changed; /* inodes to be invalidated, by number */
	struct pf_buf gone;  /* owned: names that the kernel may drop (struct pf_gone) */
	pthread_cond_t wake; /* changed, gone or notifier_stops did */
	bool round_begun;    /* changed is not empty: */
	unsigned round;      /* the turn that ends when the kernel has the notice */
	bool notifier_stops;
};

/* A name that is gone from the directory DIR. */
struct pf_gone {
	uint64_t dir;
	char *name; /* owned */
};

struct fuse_in_header;

/* operation.c: the name in the inode of the request IN, borrowed; "": it has none, or is a lookup. */
const char *pf_fuse_name_in(const struct fuse_in_header *in);

/* notify.c: free NAMES (struct pf_gone). */
void pf_gone_free(struct pf_buf *names);

/* The reply to the kernel on success. */
enum pf_fuse_request_kind {
	PF_FUSE_REQUEST_CODE,
	PF_FUSE_REQUEST_OPEN,
	PF_FUSE_REQUEST_READ,
	PF_FUSE_REQUEST_WRITE
};

/* A request that the tree answers, perhaps later. */
struct pf_fuse_request {
	struct pf_reply reply;
	fuse_req_t req; /* libfuse frees it when it is answered */
	struct pf_mount *mount;
	enum pf_fuse_request_kind kind;
	struct pf_open *of;       /* PF_FUSE_REQUEST_OPEN: the open file, */
	struct fuse_file_info fi; /* and its flags */

	pthread_mutex_t lock; /* rank 7; protects the fields below */
	bool sent;
	bool hooked; /* parked: on_interrupt is set, which has one reference */
	bool late;   /* the interrupt came while on_interrupt was being set */
	LIST_ENTRY(pf_fuse_request) parked; /* the mount's lock protects it */

	/* Armed, with a reference, while a caller that was woken waits on. */
	struct pf_timer look;
	unsigned look_ms; /* how long it was armed for */
};

/* Make a request with two references: the caller's, and one for the tree to answer.  NULL: no
 * memory, and REQ was answered. */
struct pf_fuse_request *pf_fuse_request_new(fuse_req_t req,
					    enum pf_fuse_request_kind kind);

/* The tree was called with REQUEST: if it has not answered, park it, so that interrupts reach it.
 * Drops the caller's reference. */
void pf_fuse_request_wait(struct pf_fuse_request *request);

/* Answer all parked requests with ENOTCONN. */
void pf_fuse_requests_disconnect(struct pf_mount *mount);

/* Give the open file OF a handle for the kernel (-ENOMEM, -ENFILE); the file of HANDLE, or NULL;
 * the kernel has closed OF: release it; the mount ends: release all open files. */
int pf_opened(struct pf_mount *mount, struct pf_open *of);
struct pf_open *pf_handle_open(const struct pf_mount *mount, uint64_t handle);
void pf_closed(struct pf_mount *mount, struct pf_open *of);
void pf_close_all(struct pf_mount *mount);

/* Open the files again that were open in an earlier life, by their handles; wake the callers of
 * poll(2), as their wake-ups may be lost.  -ENOMEM. */
int pf_reopen_all(struct pf_mount *mount);

/* The open file that an earlier life made for the present request of this thread, or NULL. */
struct pf_open *pf_opened_before(struct pf_mount *mount);

/*
 * Start a thread that invalidates the kernel's caches when nodes change by other means than the
 * kernel's requests (-errno of pthread_create); stop it, while requests are still served.
 */
int pf_notifier_start(struct pf_mount *mount);
void pf_notifier_stop(struct pf_mount *mount);

/* A caller of poll(2), the kernel's number HANDLE, sleeps until OF is ready; wake those that poll
 * INO. */
void pf_polled(struct pf_mount *mount, struct pf_open *of, uint64_t handle);
void pf_polled_wake(struct pf_mount *mount, uint64_t ino);

/* --- device.c: the connection to the kernel ------------------------------------------- */

#ifndef FUSE_HAS_RESEND
#define FUSE_HAS_RESEND (UINT64_C(1) << 39)
#endif
#ifndef FUSE_UNIQUE_RESEND
#define FUSE_UNIQUE_RESEND (UINT64_C(1) << 63) /* of a request that comes again */
#endif

/* How libfuse reads and writes messages. */
extern const struct fuse_custom_io pf_device_io;

/* Write MESSAGE of LEN bytes, a notification or an answer, to the kernel. */
void pf_send_raw(const struct pf_mount *mount, const void *message, size_t len);

/* If BUF is the INIT request, keep it, and the capabilities that it offers. */
void pf_device_note_init(struct pf_mount *mount, const struct fuse_buf *buf);

/* MOUNT's INIT was answered: read requests so that those that this process has read end with it, if
 * the kernel cannot send them again. */
void pf_device_clone(struct pf_mount *mount);

/* Have the kernel send the requests again that earlier processes had read. */
void pf_device_ask_again(const struct pf_mount *mount);

/* Give libfuse the INIT request of the first life, whose answer the kernel has.  -ENOTCONN: it was
 * unmounted meanwhile; -EPROTO: it cannot be resumed. */
int pf_device_resume(struct pf_mount *mount, struct pf_err *err);

/* Let no thread answer any more, and wait for those that do now. */
void pf_device_freeze(struct pf_mount *mount);

/* --- caller.c: the caller of a request ---------------------------------------------------- */

/*
 * Is the system call of THREAD, which waits for an answer and was woken, to end?  Yes if a signal
 * waits for the thread that it catches or that ends it; no if it was only stopped, continued, traced
 * or frozen.  Also yes if that cannot be read: of 0, a thread of another PID namespace, or one that
 * has ended.  Reads /proc, which waits for no lock that the thread may hold.
 */
bool pf_caller_is_interrupted(pid_t thread);

/* The same of the text STATUS of a file /proc/PID/status. */
bool pf_caller_status_interrupts(const char *status);

/* --- follow.c: the processor of the thread that leads ---------------------------------- */

/* One thread's; begins with fd -1 and zeros. */
struct pf_follow {
	uint32_t client;   /* the thread that made the last requests, */
	unsigned requests; /* so many */
	bool writes;       /* some of the last ones were writes */
	bool spins;        /* see pf_follow_spin */
	bool has_enough;   /* there are processors for all who spin */
	int fd;            /* owned: its stat file, or -1 */
	bool pinned;       /* this thread runs on cpu only */
	int cpu;
};

/* This thread has read the request BUF: if its client alone makes many, run on the client's
 * processor, or spin.  Changes this thread's affinity. */
void pf_follow(struct pf_follow *follow, const struct fuse_buf *buf);

/* If the client only reads, or there are processors enough, wait for some microseconds until DEVICE
 * has a request. */
void pf_follow_spin(const struct pf_follow *follow, int device);

/* Run anywhere again. */
void pf_follow_none(struct pf_follow *follow);

extern const struct fuse_lowlevel_ops pf_fuse_ops;

/* The kernel's number in the POLL request that this thread processes. */
extern _Thread_local uint64_t pf_poll_handle;

/* Set by the operations that end a use of a node or of an open file: this thread has done one. */
extern __thread bool pf_fuse_let_go;

#endif
