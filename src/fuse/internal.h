/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/fuse share. */
#ifndef PJRTFS_FUSE_INTERNAL_H
#define PJRTFS_FUSE_INTERNAL_H

#include <fuse_lowlevel.h>

#include "pjrtfs/base.h"
#include "pjrtfs/fuse.h"
#include "pjrtfs/vfs.h"

#define FUSE_USE_VERSION 314

enum { PF_FUSE_THREADS = 4, HEAVY = 64 << 10 /* bytes */ };

struct pf_mount {
	struct fuse_session *session; /* owned */
	char *path;                   /* owned: the mount point, absolute, or /dev/fd/N */
	dev_t dev;                    /* of the mount, as stat(2) shows it; 0: unknown */
	struct pf_tree *tree;         /* borrowed */
	void (*usage)(void *arg, struct pf_usage *ret);
	void *arg;
	unsigned n_threads;
	pthread_t notifier; /* the thread that invalidates the kernel's caches, */
	bool notifies;      /* if it was started */
	uint64_t init;      /* the number of the INIT request: its answer is completed */
	uint64_t offered;   /* the kernel's capabilities, from there */

	pthread_mutex_t lead; /* rank 0; held by the thread that reads requests */

	pthread_mutex_t lock; /* rank 10; protects the fields below */
	pthread_cond_t ended; /* running or stopping changed */
	struct pf_fuse_request *parked;
	struct pf_map opens;      /* files the kernel has open, by address; their owner */
	struct pf_polled *polled; /* owned */
	unsigned running;         /* serving threads */
	bool stopping;            /* pf_mount_stop was called */
	int failed;               /* -errno: why a thread gave up */
	struct pf_map changed;    /* inodes to be invalidated, by number */
	pthread_cond_t wake;      /* changed or notifier_stops did */
	bool notifier_stops;
};

/* What success means to the kernel. */
enum pf_fuse_request_kind {
	PF_FUSE_REQUEST_CODE,
	PF_FUSE_REQUEST_OPEN,
	PF_FUSE_REQUEST_READ,
	PF_FUSE_REQUEST_WRITE
};

/* A request that the tree answers, perhaps later. */
struct pf_fuse_request {
	struct pf_reply reply;
	fuse_req_t req; /* libfuse's; gone when it was answered */
	struct pf_mount *mount;
	enum pf_fuse_request_kind kind;
	struct pf_open *of;       /* PF_FUSE_REQUEST_OPEN: what was opened */
	struct fuse_file_info fi; /* PF_FUSE_REQUEST_OPEN: how */

	pthread_mutex_t lock; /* rank 7; protects the fields below */
	bool sent;
	bool hooked; /* parked: the kernel's interrupt is heard, with one reference */
	bool late;   /* the interrupt came while it was hooked */
	struct pf_fuse_request *prev, *next; /* mount->parked, by the mount's lock */
};

/* A request with two references: the caller's and the one that the tree is given.  NULL:
 * no memory, and REQ was answered. */
struct pf_fuse_request *pf_fuse_request_new(fuse_req_t req,
					    enum pf_fuse_request_kind kind);

/* The tree was called: hear interrupts if it has not answered, and drop the caller's
 * reference. */
void pf_fuse_request_wait(struct pf_fuse_request *request);

/* End all that are parked with ENOTCONN. */
void pf_fuse_requests_disconnect(struct pf_mount *mount);

/* The kernel is about to be told that OF is open (-ENOMEM: it is not), and that it closed
 * it, which releases it.  With the mount, what is open still is released. */
int pf_opened(struct pf_mount *mount, struct pf_open *of);
void pf_closed(struct pf_mount *mount, struct pf_open *of);
void pf_close_all(struct pf_mount *mount);

/*
 * Can PATH, absolute, be mounted on?  A pjrtfs mount there whose daemon is gone is unmounted,
 * with a line in the log.  Blocks for up to some seconds if another daemon does not answer.
 * 0; -EBUSY a pjrtfs is mounted there; -ENOTCONN a mount whose daemon is gone cannot be
 * unmounted; -ENOENT, -ENOTDIR, -EACCES, ... of the path.
 */
int pf_mountpoint_check(const char *path, struct pf_err *err);

/* The device number of what is mounted at PATH, or 0: unknown.  No daemon is asked. */
dev_t pf_mountpoint_dev(const char *path);

/*
 * Invalidate the kernel's caches when nodes change by other means than the kernel's requests:
 * from start, which starts a thread (-errno: it cannot be started), to stop, which waits for it
 * while requests are still served.
 */
int pf_notifier_start(struct pf_mount *mount);
void pf_notifier_stop(struct pf_mount *mount);

/* poll(2): those who wait for INO to be ready are told; OF is closed (NULL: all are). */
void pf_polled_wake(struct pf_mount *mount, uint64_t ino);
void pf_polled_drop(struct pf_mount *mount, struct pf_open *of);
void pf_fuse_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
		  struct fuse_pollhandle *ph);

/* The tree that REQ's mount serves. */
struct pf_tree *pf_fuse_tree(fuse_req_t req);

/* Who asks.  The mount has default_permissions: the kernel compared bits before. */
struct pf_cred pf_fuse_cred(fuse_req_t req);

/* Answer with 0 or -errno. */
void pf_fuse_code(fuse_req_t req, int code);

extern const struct fuse_lowlevel_ops pf_fuse_ops;

#endif
