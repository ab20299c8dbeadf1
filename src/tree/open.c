/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files.
 *
 * An open file is counted: by the front end until pf_vfs_release, by requests that wait for
 * a kind's answer (an interrupted FLUSH lets the file be released while its commit still
 * runs), and by commands.  Functions here hold one reference of their own while they use it
 * after an answer may have been given, because the front end may release it by then.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

struct pf_open *pf_open_ref(struct pf_open *of)
{
	__atomic_add_fetch(&of->refs, 1, __ATOMIC_RELAXED);
	return of;
}

void pf_open_unref(struct pf_open *of)
{
	if (!of || __atomic_sub_fetch(&of->refs, 1, __ATOMIC_ACQ_REL))
		return;
	if (of->node->kind->release)
		of->node->kind->release(of);
	pf_session_free(of->session);
	pf_buf_release(&of->text);
	pthread_mutex_destroy(&of->lock);
	pf_node_unref(of->node);
	free(of);
}

/* Who has just looked NODE up by name, if it is PID; the tree's lock is held. */
static struct pf_asker *find_asker(struct pf_node *node, pid_t pid)
{
	for (unsigned i = 0; i < PF_N_ASKERS; i++)
		if (node->priv->askers[i].pid == pid)
			return &node->priv->askers[i];
	return NULL;
}

/*
 * The kernel looks a name up each time that it is used.  To open a file takes once; who has asked
 * twice has asked for the size, or may have.
 */
static void note_asker(struct pf_node *node, pid_t pid)
{
	struct pf_node_priv *priv = node->priv;
	struct pf_asker *asker;

	PF_LOCK_SCOPE(&node->tree->lock);
	asker = find_asker(node, pid);
	if (asker)
		asker->again = true;
	else
		priv->askers[priv->next_asker++ % PF_N_ASKERS] =
			(struct pf_asker){ .pid = pid };
}

/* stat(2) has the name looked up first, fstat(2) does not. */
bool pf_open_tells_size(struct pf_node *node, pid_t pid)
{
	PF_LOCK_SCOPE(&node->tree->lock);
	if (find_asker(node, pid))
		return true;
	for (struct pf_open *of = node->priv->newest; of; of = of->older)
		if (of->unsized)
			return false;
	return true;
}

static bool goes_by_size(struct pf_node *node, pid_t pid)
{
	struct pf_asker *asker;
	bool ret;

	PF_LOCK_SCOPE(&node->tree->lock);
	asker = find_asker(node, pid);
	ret = !pid || (asker && asker->again);
	if (asker)
		*asker = (struct pf_asker){ .pid = -1 };
	return ret;
}

/*
 * A number that somebody has open, or has asked for to open it, is not given to others; when
 * all are used, one is.  That one thread keeps its number while it asks again saves a kernel
 * that compares the numbers a second look.
 */
uint64_t pf_vfs_alias(struct pf_tree *tree, uint64_t ino, pid_t asker)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);

	if (node && node->kind->size_bound)
		note_asker(node, asker);
	if (!node || !pf_kind_converses(node->kind))
		return ino;
	PF_LOCK_SCOPE(&tree->lock);
	if (node->priv->alias_opens ||
	    (node->priv->alias_asker && node->priv->alias_asker != asker)) {
		node->priv->alias += (uint64_t)1 << PF_INO_BITS;
		node->priv->alias_opens = 0;
	}
	node->priv->alias_asker = asker ? asker : -1;
	return node->priv->alias;
}

/* Conversations have numbers of their own, other files' opens are listed. */
void pf_open_enter(struct pf_open *of)
{
	struct pf_node_priv *priv = of->node->priv;

	PF_LOCK_SCOPE(&of->node->tree->lock);
	if (pf_kind_converses(of->node->kind)) {
		if (priv->alias == of->alias) {
			priv->alias_opens++;
			priv->alias_asker = 0;
		}
		return;
	}
	of->older = priv->newest;
	if (of->older)
		of->older->newer = of;
	priv->newest = of;
}

void pf_open_leave(struct pf_open *of)
{
	struct pf_node_priv *priv = of->node->priv;

	PF_LOCK_SCOPE(&of->node->tree->lock);
	if (pf_kind_converses(of->node->kind)) {
		priv->alias_opens -= priv->alias == of->alias;
		return;
	}
	if (of->newer)
		of->newer->older = of->older;
	else
		priv->newest = of->older;
	if (of->older)
		of->older->newer = of->newer;
}

/*
 * The kernel's pages are one for all who map the file, but each open may show what was there
 * when it was opened.  So pages come from an open that sees what is written now, if there
 * is one, or else from the newest: who opens a file never sees what it was before.
 */
struct pf_open *pf_open_for_pages(struct pf_open *of)
{
	struct pf_open *newest;

	PF_LOCK_SCOPE(&of->node->tree->lock);
	newest = of->node->priv->newest;
	for (struct pf_open *o = newest; o; o = o->older)
		if (pf_open_reads(o) && pf_open_writes(o))
			return pf_open_ref(o);
	while (newest && !pf_open_reads(newest))
		newest = newest->older;
	return pf_open_ref(newest ? newest : of);
}

static int may_open(struct pf_node *node, int flags, const struct pf_cred *cred,
		    struct pf_err *err)
{
	const struct pf_kind *kind = node->kind;
	bool reads = (flags & O_ACCMODE) != O_WRONLY;
	bool writes = (flags & O_ACCMODE) != O_RDONLY;

	if (S_ISDIR(kind->mode))
		return -EISDIR;
	if (S_ISLNK(kind->mode))
		return -ELOOP;
	if (reads && !kind->show && !kind->read && !kind->command)
		return pf_err_set(err, -EACCES, "it can only be written");
	if (writes && !kind->write && !pf_kind_converses(kind))
		return pf_err_set(err, -EACCES, "it can only be read");
	if ((reads && !pf_vfs_may(node, cred, R_OK)) ||
	    ((writes || (flags & O_TRUNC)) && !pf_vfs_may(node, cred, W_OK)))
		return -EACCES;
	return 0;
}

static bool wants_snapshot(const struct pf_open *of)
{
	return of->node->kind->show && !of->node->kind->read &&
	       !of->node->kind->command && pf_open_reads(of);
}

static bool must_prepare(const struct pf_open *of)
{
	return of->node->kind->prepare && (wants_snapshot(of) || of->node->kind->read);
}

static int take_snapshot(struct pf_open *of, struct pf_err *err)
{
	int r;

	if (!wants_snapshot(of))
		return 0;
	r = of->node->kind->show(of->node, &of->text, err);
	if (r < 0)
		return r;
	if (of->text.failed)
		return -ENOMEM;
	of->shown = true;
	return 0;
}

/* Everything of opening but what is shown. */
static int begin(struct pf_node *node, uint64_t ino, int flags,
		 const struct pf_cred *cred, struct pf_open **ret, struct pf_err *err)
{
	const struct pf_kind *kind = node->kind;
	struct pf_open *of;
	int r = may_open(node, flags, cred, err);

	if (r < 0)
		return r;
	of = calloc(1, sizeof(*of));
	if (!of)
		return -ENOMEM;
	if (pthread_mutex_init(&of->lock, NULL))
		abort();
	of->node = pf_node_ref(node);
	of->flags = flags;
	of->cred = *cred;
	of->refs = 1;
	of->alias = ino;
	of->goes_by_size = kind->size_bound && goes_by_size(node, cred->pid);
	if (kind->command && !(of->session = pf_session_new(of)))
		r = -ENOMEM;
	if (r == 0 && kind->open)
		r = kind->open(of, err);
	if (r < 0) {
		/* Nothing is open for the kind to release. */
		pf_session_free(of->session);
		pthread_mutex_destroy(&of->lock);
		pf_node_unref(of->node);
		free(of);
		return r;
	}
	if ((flags & O_TRUNC) && kind->truncate && !kind->command) {
		r = kind->truncate(node, of, 0, err);
		if (r < 0) {
			pf_open_unref(of);
			return r;
		}
		pf_node_modified(node, cred->uid != 0);
	}
	*ret = of;
	return 0;
}

/* An open that waits for kind->prepare: what the kind is given to answer. */
struct preparing {
	struct pf_reply base;
	struct pf_reply *outer; /* the caller's; one reference, and one more below */
	struct pf_open *of;     /* NULL: handed over */
	struct pf_open **ret;
};

/*
 * The caller's interrupt becomes the kind's, which answers OUTER no more.  The reference
 * that came with the hook goes to whoever wins: this, or who claims OUTER.
 */
static void forward_interrupt(void *arg)
{
	struct preparing *p = arg;

	pf_reply_interrupt(&p->base);
	pf_reply_unref(&p->base);
}

static void prepared_send(struct pf_reply *base, int code, const void *data, size_t len)
{
	struct preparing *p = pf_container_of(base, struct preparing, base);
	struct pf_err err = PF_ERR_INIT;

	(void)data;
	(void)len;
	if (code == 0) {
		code = take_snapshot(p->of, &err);
		pf_open_refused(p->of, "open", code, &err);
	}
	if (!pf_reply_claim(p->outer)) {
		pf_reply_unref(p->outer);
		return;
	}
	if (code == 0) {
		pf_open_enter(p->of);
		*p->ret = pf_steal(&p->of);
	}
	pf_reply_send(p->outer, code, NULL, 0);
	pf_reply_unref(base); /* the hook's */
}

/* The kind is done with the open file only when its reply is gone. */
static void prepared_free(struct pf_reply *base)
{
	struct preparing *p = pf_container_of(base, struct preparing, base);

	pf_open_unref(p->of);
	free(p);
}

static const struct pf_reply_ops prepared_ops = {
	.send = prepared_send,
	.free = prepared_free,
};

static void prepare(struct pf_open *of, struct pf_open **ret, struct pf_reply *reply)
{
	struct preparing *p = malloc(sizeof(*p));

	if (!p) {
		pf_open_unref(of);
		pf_reply_code(reply, -ENOMEM);
		return;
	}
	pf_reply_init(&p->base, &prepared_ops);
	p->outer = reply;
	p->base.held = pf_open_ref(of);
	p->base.uid = reply->uid;
	p->base.pid = reply->pid;
	p->base.doing = "open";
	p->of = of;
	p->ret = ret;
	pf_reply_ref(&p->base); /* the hook's */
	if (!pf_reply_park(reply, forward_interrupt, p)) {
		pf_reply_unref(&p->base);
		pf_reply_unref(&p->base);
		pf_reply_unref(reply);
		return;
	}
	of->node->kind->prepare(of, &p->base);
}

void pf_vfs_open(struct pf_tree *tree, uint64_t ino, int flags,
		 const struct pf_cred *cred, struct pf_open **ret, struct pf_reply *reply)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = pf_tree_by_ino(tree, ino);
	struct pf_err err = PF_ERR_INIT;
	struct pf_open *of = NULL;
	int r;

	*ret = NULL;
	r = node ? begin(node, ino, flags, cred, &of, &err) : -ENOENT;
	if (r < 0) {
		if (node)
			pf_refused(node, NULL, cred, "open", r, &err);
		pf_reply_code(reply, r);
		return;
	}
	if (must_prepare(of)) {
		prepare(of, ret, reply);
		return;
	}
	r = take_snapshot(of, &err);
	pf_open_refused(of, "open", r, &err);
	if (r == 0 && pf_reply_claim(reply)) {
		pf_open_enter(of);
		*ret = of;
		pf_reply_send(reply, 0, NULL, 0);
		return;
	}
	pf_open_unref(of);
	pf_reply_code(reply, r);
}

static int find_or_create(struct pf_node *dir, const char *name, mode_t mode, int *flags,
			  const struct pf_cred *cred, struct pf_node **ret,
			  struct pf_err *err)
{
	const struct pf_dir_ops *ops = dir->kind->dir;
	int r = pf_dir_find(dir, name, true, ret);

	if (r == 0)
		return *flags & O_EXCL ? -EEXIST : 0;
	if (r != -ENOENT)
		return r;
	r = pf_name_check(name, err);
	if (r < 0)
		return r;
	if (!pf_vfs_may(dir, cred, W_OK | X_OK))
		return -EACCES;
	if (!ops || !ops->create)
		return pf_dir_refuses(dir, err);
	r = ops->create(dir, name, mode & 07777, cred, ret, err);
	if (r == 0)
		pf_node_inherit(dir, *ret);
	if (r == 0)
		*flags &= ~O_TRUNC; /* it is empty, and its mode need not allow it */
	return r == 0 ? 1 : r;
}

static int create(struct pf_node *dir, const char *name, mode_t mode, int flags,
		  const struct pf_cred *cred, struct stat *st, struct pf_open **ret,
		  struct pf_err *err)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	PF_CLEANUP(pf_open_unrefp) struct pf_open *of = NULL;
	struct pf_cred as = *cred;
	bool created;
	int r;

	pf_tree_lock_names(dir->tree);
	r = find_or_create(dir, name, mode, &flags, cred, &node, err);
	pf_tree_unlock_names(dir->tree);
	if (r < 0)
		return r;
	created = r == 1;
	as.checked = cred->checked || created; /* the mode of a new file counts later */
	r = begin(node, node->ino, flags, &as, &of, err);
	if (r < 0)
		return r;
	of->cred.checked = cred->checked;
	/* What must be prepared cannot wait here: the kernel asks again and opens it. */
	r = !created && must_prepare(of) ? -ESTALE : take_snapshot(of, err);
	if (r < 0)
		return r;
	pf_node_looked_up(node);
	pf_node_stat(node, st);
	pf_open_enter(of);
	*ret = pf_steal(&of);
	return 0;
}

int pf_vfs_create(struct pf_tree *tree, uint64_t parent, const char *name, mode_t mode,
		  int flags, const struct pf_cred *cred, struct stat *st,
		  struct pf_open **ret)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *dir = pf_tree_by_ino(tree, parent);
	struct pf_err err = PF_ERR_INIT;
	int r;

	*ret = NULL;
	if (!dir)
		return -ENOENT;
	if (!S_ISDIR(dir->kind->mode))
		return -ENOTDIR;
	r = create(dir, name, mode, flags, cred, st, ret, &err);
	return pf_refused(dir, name, cred, "create", r, &err);
}
