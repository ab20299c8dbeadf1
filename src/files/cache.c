/* SPDX-License-Identifier: Apache-2.0 */
/* cache/: the compilation cache, which other daemons may share. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

enum { MAX_LINE = 64 }; /* bytes of what is written to max and clear */

static struct pf_cache *cache_of(struct pf_node *node)
{
	return fs_of(node)->config.cache;
}

/* --- stats.json, max, clear --------------------------------------------------------- */

static struct json_object *stats_of(struct pf_node *node)
{
	struct json_object *o = json_object_new_object();
	struct pf_err why = PF_ERR_INIT;
	struct pf_cache_stats s;

	pf_cache_stats(cache_of(node), &s);
	pf_json_add_int(o, "hits", (int64_t)s.hits);
	pf_json_add_int(o, "misses", (int64_t)s.misses);
	pf_json_add_int(o, "bytes", (int64_t)s.bytes);
	pf_json_add_int(o, "entries", (int64_t)s.entries);
	pf_json_add_int(o, "evictions", (int64_t)s.evictions);
	pf_json_add_int(o, "damaged", (int64_t)s.damaged);
	pf_json_add(o, "writable", json_object_new_boolean(s.writable));
	pf_json_add_string(o, "directory", pf_cache_dir(cache_of(node)));
	if (pf_cache_failing(cache_of(node), &why) < 0)
		pf_json_add_string(o, "write_error", why.text);
	return o;
}

static int max_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	uint64_t max = pf_cache_max(cache_of(node));

	(void)err;
	if (max == UINT64_MAX)
		pf_buf_puts(out, "max\n");
	else
		pf_buf_printf(out, "%llu\n", (unsigned long long)max);
	return 0;
}

/* The whole line comes in one write, so that a wrong one fails a shell's echo. */
static ssize_t max_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
			 struct pf_err *err)
{
	pf_autofree char *text = strndup(src, len);
	uint64_t max;
	int r;

	if (!text)
		return -ENOMEM;
	if (off)
		return pf_err_set(err, -EINVAL, "a size is written in one piece");
	text[strcspn(text, "\n")] = '\0';
	r = pf_size_parse(text, &max, err);
	if (r == 0)
		r = pf_cache_set_max(cache_of(of->node), max, err);
	return r < 0 ? r : (ssize_t)len;
}

static ssize_t clear_write(struct pf_open *of, const void *src, size_t len, uint64_t off,
			   struct pf_err *err)
{
	int r = pf_cache_clear(cache_of(of->node), err);

	(void)src;
	(void)off;
	return r < 0 ? r : (ssize_t)len;
}

/* Empty, but readable: programs that copy the whole tree read it. */
static int clear_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	(void)node;
	(void)out;
	(void)err;
	return 0;
}

PF_FIELD_JSON(stats, "stats.json", stats_of(node));
static const struct pf_kind max = { .name = "max",
				    .mode = S_IFREG | 0644,
				    .max_write = MAX_LINE,
				    .slow = true,
				    .show = max_show,
				    .write = max_write };
static const struct pf_kind clear = { .name = "clear",
				      .mode = S_IFREG | 0644,
				      .max_write = MAX_LINE,
				      .slow = true,
				      .show = clear_show,
				      .write = clear_write };

/* --- entries/ ----------------------------------------------------------------------- */

/* False: NODE is not linked any more. */
static bool key_of(struct pf_node *node, struct pf_cache_key *ret)
{
	char name[PF_NAME_MAX + 1];

	pf_node_name(node, name);
	return pf_cache_key_parse(name, ret);
}

/* The entry's description, without the parts that only a load needs; NULL: no memory. */
static struct json_object *parse_meta(const struct pf_buf *text)
{
	struct json_object *o;

	if (pf_json_parse(text->data ? text->data : "", text->len, &o, NULL) < 0)
		o = json_object_new_object();
	if (!o)
		return NULL;
	json_object_object_del(o, "info");
	json_object_object_del(o, "hlo_with_config");
	json_object_object_del(o, "platform_number");
	return o;
}

static int entry_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct pf_cache_header header;
	struct pf_cache_key key;
	struct json_object *o;
	struct timespec made;
	struct stat st;
	int r = -ENOENT;

	if (key_of(node, &key))
		r = pf_cache_describe(cache_of(node), &key, &header, &st, &text, err);
	if (r < 0)
		return r;
	o = parse_meta(&text);
	if (!o)
		return pf_err_set(err, -ENOMEM, "no memory for the entry's description");
	made.tv_sec = (time_t)(header.made_ns / 1000000000u);
	made.tv_nsec = (long)(header.made_ns % 1000000000u);
	pf_json_add_int(o, "size", st.st_size);
	pf_json_add_int(o, "uses", (int64_t)header.uses);
	pf_json_add_time(o, "made", &made);
	pf_json_add_time(o, "last_use", &st.st_mtim);
	pf_json_print_line(o, out);
	json_object_put(o);
	return 0;
}

/* ls -lt lists the entries in the reverse order of their eviction. */
static void entry_getattr(struct pf_node *node, struct stat *st)
{
	struct pf_cache_key key;
	struct stat file;

	if (key_of(node, &key) && pf_cache_has(cache_of(node), &key, &file))
		st->st_mtim = file.st_mtim;
}

/* An entry names a program, which other users may not be allowed to see. */
static const struct pf_kind kind_entry = { .mode = S_IFREG | 0440,
					   .show = entry_show,
					   .getattr = entry_getattr };

/* Link a file for the entry NAME; *RET has a reference. */
static int link_entry(struct pf_node *dir, const char *name, struct pf_node **ret)
{
	int r = -ENOMEM;

	*ret = pf_node_new(dir->tree, &kind_entry, NULL, (mode_t)-1, NULL);
	if (*ret)
		r = pf_dir_link(dir, name, *ret, true);
	if (r < 0)
		pf_node_unref(pf_steal(ret));
	return r;
}

static int entries_lookup(struct pf_node *dir, const char *name, struct pf_node **ret,
			  struct pf_err *err)
{
	struct pf_cache_key key;

	if (!pf_cache_key_parse(name, &key) || !pf_cache_has(cache_of(dir), &key, NULL))
		return pf_err_set(err, -ENOENT, "there is no entry %s", name);
	return link_entry(dir, name, ret);
}

static int entries_unlink(struct pf_node *dir, struct pf_node *node, struct pf_err *err)
{
	struct pf_cache_key key;
	int r = key_of(node, &key) ? pf_cache_remove(cache_of(dir), &key, err) : -ENOENT;

	/* Another daemon may have evicted it just before. */
	if (r < 0 && r != -ENOENT)
		return r;
	pf_dir_unlink(node);
	return 0;
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct pf_cache_key));
}

/* Unlink the nodes of DIR that are not among the N sorted KEYS.  The name lock is held. */
static void unlink_gone(struct pf_node *dir, const struct pf_cache_key *keys, size_t n)
{
	struct pf_node **list = pf_dir_list(dir);

	for (struct pf_node **p = list; p && *p; p++) {
		struct pf_cache_key key;

		if (key_of(*p, &key) && !bsearch(&key, keys, n, sizeof(*keys), compare))
			pf_dir_unlink(*p);
		pf_node_unref(*p);
	}
	free(list);
}

static void link_new(struct pf_node *dir, const struct pf_cache_key *key)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;
	char name[PF_CACHE_KEY_TEXT];

	pf_cache_key_text(key, name);
	node = pf_dir_lookup(dir, name);
	if (!node)
		(void)link_entry(dir, name, &node);
}

/* Other daemons put and evict entries: list those that are there now. */
static void entries_list(struct pf_node *dir)
{
	struct pf_cache_key *keys;
	size_t n;

	if (pf_cache_list(cache_of(dir), &keys, &n) < 0)
		return;
	qsort(keys, n, sizeof(*keys), compare);
	pf_tree_lock_names(dir->tree);
	unlink_gone(dir, keys, n);
	for (size_t i = 0; i < n; i++)
		link_new(dir, &keys[i]);
	pf_tree_unlock_names(dir->tree);
	free(keys);
}

static const struct pf_dir_ops entries_ops = { .lookup = entries_lookup,
					       .unlink = entries_unlink,
					       .list = entries_list };
static const struct pf_kind entries = {
	.name = "entries", .mode = S_IFDIR | 0755, .dir = &entries_ops, .slow = true
};

const struct pf_kind kind_cache = {
	.mode = S_IFDIR | 0555,
	.children =
		(const struct pf_kind *const[]){ &stats, &max, &clear, &entries, NULL },
};
