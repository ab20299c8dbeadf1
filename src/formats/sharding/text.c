/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shardings as text: XLA's, as {devices=[2,1,2]<=[4] last_tile_dim_replicate}, which HLO and
 * mhlo.sharding have; and Shardy's, as #sdy.sharding<@mesh, [{"x"}, {}]>, of a mesh such as
 * sdy.mesh @mesh = <["x"=2, "y"=2]>.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/json.h"
#include "pjrtfs/sharding.h"

/* --- words -------------------------------------------------------------------------------- */

/* Where in a text the next word is.  After a failure no function reads on: callers check the code
 * once, at the end. */
struct words {
	const char *text, *p;
	struct pf_err *err;
	int code; /* 0, or -errno of the first failure */
};

static void skip_blanks(struct words *w)
{
	while (isspace((unsigned char)*w->p))
		w->p++;
}

static void expected(struct words *w, const char *what)
{
	if (w->code)
		return;
	w->code = *w->p ? pf_err_set(w->err, -EINVAL,
				     "expected %s at byte %zu, found %.24s", what,
				     (size_t)(w->p - w->text), w->p)
			: pf_err_set(w->err, -EINVAL, "expected %s, found its end", what);
}

/* Is WORD next?  Then go behind it. */
static bool take(struct words *w, const char *word)
{
	skip_blanks(w);
	if (w->code || strncmp(w->p, word, strlen(word)))
		return false;
	w->p += strlen(word);
	return true;
}

static void want(struct words *w, const char *word)
{
	if (!take(w, word))
		expected(w, word);
}

static void want_end(struct words *w)
{
	skip_blanks(w);
	if (*w->p)
		expected(w, "the end");
}

static int64_t want_number(struct words *w)
{
	int64_t n;
	char *end;

	skip_blanks(w);
	if (!isdigit((unsigned char)*w->p))
		expected(w, "a number");
	if (w->code)
		return 0;
	errno = 0;
	n = strtoll(w->p, &end, 10);
	if (errno)
		expected(w, "a number below 2^63");
	else
		w->p = end;
	return n;
}

/* Append numbers, at least one, to the *N at RET, of which there may be MAX. */
static void want_numbers(struct words *w, int64_t *ret, size_t *n, size_t max)
{
	do {
		if (*n == max)
			w->code = pf_err_set(w->err, -E2BIG,
					     "a list of more than %zu numbers", max);
		else
			ret[(*n)++] = want_number(w);
	} while (take(w, ","));
}

/* Are NAMES enough for a sharding of N devices, or, if a user chose them, as many? */
static int check_count(unsigned n, const struct pf_device_names *names,
		       struct pf_err *err)
{
	if (names->chosen && n != names->n)
		return pf_err_set(err, -EINVAL,
				  "\"devices\": there are %u, the sharding is of %u "
				  "device%s",
				  names->n, n, n == 1 ? "" : "s");
	return n <= names->n ? 0
			     : pf_err_set(err, -EINVAL,
					  "it is of %u devices, the plugin has %u", n,
					  names->n);
}

/* --- XLA's text --------------------------------------------------------------------------- */

enum { MAX_COUNTS = PF_MAX_RANK + 8 };

/* The numbers of a text, for a tiling. */
struct gspmd {
	int64_t counts[MAX_COUNTS], order[PF_MAX_SHARDS], reshape[PF_MAX_RANK];
	int32_t permutation[PF_MAX_RANK];
	struct pf_tiling tiling;
};

/* The devices behind <=: "[2,4]T(1,0)". */
static void read_iota(struct words *w, struct gspmd *g)
{
	int64_t to[PF_MAX_RANK];
	size_t n = 0;

	want(w, "[");
	want_numbers(w, g->reshape, &g->tiling.n_reshape, PF_MAX_RANK);
	want(w, "]");
	for (size_t i = 0; i < g->tiling.n_reshape; i++)
		g->permutation[i] = (int32_t)i;
	if (!take(w, "T("))
		return;
	want_numbers(w, to, &n, PF_MAX_RANK);
	want(w, ")");
	if (!w->code && n != g->tiling.n_reshape)
		w->code = pf_err_set(w->err, -EINVAL,
				     "expected T of %zu numbers, found %zu",
				     g->tiling.n_reshape, n);
	for (size_t i = 0; !w->code && i < n; i++)
		g->permutation[i] = to[i] > PF_MAX_RANK ? -1 : (int32_t)to[i];
}

/* Which of the last counts are of replicas. */
static void read_copies(struct words *w, struct gspmd *g)
{
	if (take(w, "last_tile_dim_replicate")) {
		g->tiling.n_copies = 1;
	} else if (take(w, "last_tile_dims={")) {
		do {
			if (!take(w, "replicated"))
				expected(w, "replicated (arrays that are manual or "
					    "unreduced have no parts to give)");
			g->tiling.n_copies++;
		} while (take(w, ","));
		want(w, "}");
	}
	if (!w->code && g->tiling.n_copies > g->tiling.n_counts)
		w->code = pf_err_set(w->err, -EINVAL,
				     "more kinds of replicas than dimensions of tiles");
}

/* What follows "devices=". */
static void read_tiled(struct words *w, struct gspmd *g)
{
	want(w, "[");
	want_numbers(w, g->counts, &g->tiling.n_counts, MAX_COUNTS);
	want(w, "]");
	if (take(w, "<="))
		read_iota(w, g);
	else
		want_numbers(w, g->order, &g->tiling.n_order, PF_MAX_SHARDS);
	read_copies(w, g);
	g->tiling.counts = g->counts;
	g->tiling.order = g->order;
	g->tiling.reshape = g->reshape;
	g->tiling.permutation = g->permutation;
}

/* The tiles on the NAMES[ONE] if that is not negative, else on the first N; *RET owns nothing on
 * failure. */
static int on_devices(const struct pf_tiles *tiles, int64_t one, unsigned n,
		      const struct pf_device_names *names, struct pf_sharding *ret,
		      struct pf_err *err)
{
	int r;

	if (one >= names->n)
		return pf_err_set(err, -EINVAL,
				  "expected a device from 0 to %u, found %lld",
				  names->n - 1, (long long)one);
	r = one < 0 ? check_count(n, names, err) : 0;
	if (r < 0)
		return r;
	return pf_sharding_of_tiles(tiles, n, names->at + (one < 0 ? 0 : one), NULL, ret,
				    err);
}

static void refuse_kind(struct words *w)
{
	static const char *const kinds[] = { "manual", "unknown", "unreduced", NULL };

	for (size_t i = 0; kinds[i]; i++)
		if (take(w, kinds[i]))
			w->code = pf_err_set(w->err, -EINVAL,
					     "a sharding that is %s does not say which "
					     "part each device has",
					     kinds[i]);
	if (take(w, "{"))
		w->code = pf_err_set(w->err, -EINVAL,
				     "it is of a tuple, expected that of one array");
	expected(w, "devices=, replicated or maximal device=");
}

static int read_gspmd(struct words *w, unsigned rank, const struct pf_device_names *names,
		      struct pf_sharding *ret)
{
	struct gspmd g = { .tiling = { 0 } };
	struct pf_tiles tiles = { .rank = rank };
	unsigned n = names->n;
	int64_t one = -1;
	int r;

	for (unsigned d = 0; d < rank; d++)
		tiles.counts[d] = 1;
	if (take(w, "devices=")) {
		read_tiled(w, &g);
	} else if (take(w, "maximal")) {
		n = 1;
		want(w, "device=");
		one = want_number(w);
	} else if (!take(w, "replicated")) {
		refuse_kind(w);
	}
	want(w, "}");
	want_end(w);
	r = w->code;
	if (r == 0 && g.tiling.n_counts) {
		r = pf_tiles_of(&g.tiling, rank, &tiles, w->err);
		n = tiles.n;
	}
	if (r == 0)
		r = on_devices(&tiles, one, n, names, ret, w->err);
	free(tiles.of);
	return r;
}

/* --- Shardy's ----------------------------------------------------------------------------- */

/* A text of a mesh, or of a sharding with one in it. */
struct sdy {
	char mesh_name[PF_AXIS_NAME_MAX + 1], used_name[PF_AXIS_NAME_MAX + 1];
	struct json_object *mesh;              /* owned: sizes by axis */
	struct json_object *spec, *replicated; /* owned: lists of names */
	unsigned rank;                         /* the spec's */
	int64_t ids[PF_MAX_SHARDS];            /* the devices' numbers, if n_ids */
	size_t n_ids;
};

/* A name in quotes, or, where BARE, one without them; empty after a failure. */
static void want_name(struct words *w, bool bare, char ret[PF_AXIS_NAME_MAX + 1])
{
	bool quoted = take(w, "\"");
	size_t n = quoted ? strcspn(w->p, "\"\\")
			  : strspn(w->p, "abcdefghijklmnopqrstuvwxyz"
					 "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$-");

	ret[0] = '\0';
	if ((!quoted && !bare) || n == 0 || (quoted && w->p[n] != '"'))
		expected(w, bare ? "a mesh's name" : "an axis' name in quotes");
	if (!w->code && n > PF_AXIS_NAME_MAX)
		w->code = pf_err_set(w->err, -ENAMETOOLONG,
				     "a name of more than %d bytes", PF_AXIS_NAME_MAX);
	if (w->code)
		return;
	memcpy(ret, w->p, n);
	ret[n] = '\0';
	w->p += n + quoted;
}

/* The axes of a mesh, behind its <[. */
static void read_axes(struct words *w, struct sdy *sdy)
{
	char name[PF_AXIS_NAME_MAX + 1];

	sdy->mesh = json_object_new_object();
	for (bool first = true; !w->code && !take(w, "]"); first = false) {
		int64_t size;

		if (!first)
			want(w, ",");
		want_name(w, false, name);
		want(w, "=");
		size = want_number(w);
		if (!w->code && json_object_object_get_ex(sdy->mesh, name, NULL))
			w->code = pf_err_set(w->err, -EINVAL,
					     "axis \"%s\" is there twice", name);
		if (!w->code)
			pf_json_add_int(sdy->mesh, name, size);
	}
	if (take(w, ",")) {
		want(w, "device_ids=[");
		want_numbers(w, sdy->ids, &sdy->n_ids, PF_MAX_SHARDS);
		want(w, "]");
	}
	want(w, ">");
}

static int read_mesh(const char *text, struct sdy *sdy, struct pf_err *err)
{
	struct words w = { text, text, err, 0 };

	(void)take(&w, "sdy.mesh");
	if (take(&w, "@")) {
		want_name(&w, true, sdy->mesh_name);
		want(&w, "=");
	}
	(void)take(&w, "mesh");
	want(&w, "<[");
	read_axes(&w, sdy);
	want_end(&w);
	return w.code;
}

/* Append the names of axes up to CLOSE to LIST. */
static void read_names(struct words *w, struct json_object *list)
{
	char name[PF_AXIS_NAME_MAX + 1];

	for (bool first = true; !w->code && !take(w, "}"); first = false) {
		if (!first)
			want(w, ",");
		if (take(w, "?")) { /* the partitioner might divide it more */
			want(w, "}");
			return;
		}
		want_name(w, false, name);
		if (take(w, ":("))
			w->code =
				pf_err_set(w->err, -EINVAL,
					   "a part of axis \"%s\": expected whole axes; "
					   "give a mesh with an axis for each part",
					   name);
		if (!w->code)
			pf_json_append(list, json_object_new_string(name));
	}
}

/* The axes of each dimension, behind the [. */
static void read_dimensions(struct words *w, struct sdy *sdy)
{
	sdy->spec = json_object_new_array();
	for (sdy->rank = 0; !w->code && !take(w, "]"); sdy->rank++) {
		struct json_object *names = json_object_new_array();

		if (sdy->rank)
			want(w, ",");
		want(w, "{");
		read_names(w, names);
		if (take(w, "p")) /* when the partitioner looks at it */
			(void)want_number(w);
		pf_json_append(sdy->spec, names);
	}
}

/* What follows "#sdy.sharding<". */
static int read_sdy(struct words *w, struct sdy *sdy)
{
	const char *used = sdy->used_name;

	if (!take(w, "mesh<[")) {
		want(w, "@");
		want_name(w, true, sdy->used_name);
	} else if (sdy->mesh) {
		return pf_err_set(w->err, -EINVAL,
				  "it has a mesh, and \"mesh\" is another");
	} else {
		read_axes(w, sdy);
	}
	want(w, ",");
	want(w, "[");
	read_dimensions(w, sdy);
	sdy->replicated = json_object_new_array();
	if (take(w, ",")) {
		want(w, "replicated={");
		read_names(w, sdy->replicated);
	}
	want(w, ">");
	want_end(w);
	if (w->code)
		return w->code;
	if (!sdy->mesh)
		return pf_err_set(w->err, -EINVAL,
				  "it is of mesh @%s: \"mesh\" is missing, as "
				  "sdy.mesh @%s = <[\"x\"=2]> or {\"x\":2}",
				  used, used);
	if (*sdy->mesh_name && *used && strcmp(sdy->mesh_name, used))
		return pf_err_set(w->err, -EINVAL, "it is of mesh @%s, \"mesh\" is @%s",
				  used, sdy->mesh_name);
	return 0;
}

/* Check that each name in LIST is an axis of S that divides nothing. */
static int check_replicated(struct json_object *list, const struct pf_sharding *s,
			    struct pf_err *err)
{
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		const char *name =
			json_object_get_string(json_object_array_get_idx(list, i));
		unsigned a = 0;

		while (a < s->n_axes && strcmp(s->axes[a].name, name))
			a++;
		if (a == s->n_axes)
			return pf_err_set(err, -EINVAL, "the mesh has no axis \"%s\"",
					  name);
		if (pf_sharding_divides(s, a))
			return pf_err_set(err, -EINVAL,
					  "axis \"%s\" is replicated and divides a "
					  "dimension",
					  name);
	}
	return 0;
}

/* Give S the devices NAMES, in the order of the IDS, if there are any. */
static int assign(const struct sdy *sdy, const struct pf_device_names *names,
		  struct pf_sharding *s, struct pf_err *err)
{
	bool seen[PF_MAX_SHARDS] = { false };
	unsigned of[PF_MAX_SHARDS];
	int r = check_count(s->n, names, err);

	if (r < 0)
		return r;
	if (sdy->n_ids && sdy->n_ids != s->n)
		return pf_err_set(err, -EINVAL,
				  "the mesh is of %u device%s, device_ids has %zu", s->n,
				  s->n == 1 ? "" : "s", sdy->n_ids);
	for (unsigned i = 0; i < s->n; i++) {
		int64_t id = sdy->n_ids ? sdy->ids[i] : i;

		if (id >= s->n || seen[id])
			return pf_err_set(err, -EINVAL,
					  "device_ids: expected each number below %u "
					  "once, found %lld at place %u",
					  s->n, (long long)id, i);
		seen[id] = true;
		of[i] = (unsigned)id;
	}
	r = pf_sharding_place(s, names->at, of);
	return r < 0 ? pf_err_set(err, r, "no memory for a mesh") : 0;
}

/* --- both ---------------------------------------------------------------------------------- */

/* Read "mesh", which is an object or a text. */
static int read_mesh_of(const struct pf_sharding_words *words, struct sdy *sdy,
			struct pf_err *err)
{
	int r;

	if (!json_object_is_type(words->mesh, json_type_string)) {
		sdy->mesh = json_object_get(words->mesh);
		return 0;
	}
	r = read_mesh(json_object_get_string(words->mesh), sdy, err);
	return r < 0 ? pf_err_wrap(err, r, "\"mesh\"") : 0;
}

static int read_of_mesh(const struct pf_sharding_words *words, struct sdy *sdy,
			struct words *w, unsigned rank, struct pf_sharding *ret,
			struct pf_err *err)
{
	int r = read_mesh_of(words, sdy, err);

	if (r == 0 && w)
		r = read_sdy(w, sdy);
	if (r == 0 && w && sdy->rank != rank)
		r = pf_err_set(err, -EINVAL, "it is of %u dimension%s, the array has %u",
			       sdy->rank, sdy->rank == 1 ? "" : "s", rank);
	if (r == 0 && w &&
	    !(pf_json_complete(sdy->mesh) && pf_json_complete(sdy->spec) &&
	      pf_json_complete(sdy->replicated)))
		r = pf_err_set(err, -ENOMEM, "no memory for a sharding");
	if (r == 0)
		r = pf_sharding_parse(sdy->mesh, w ? sdy->spec : words->spec, NULL, rank,
				      ret, err);
	if (r == 0)
		r = check_replicated(sdy->replicated, ret, err);
	if (r == 0)
		r = assign(sdy, words->devices, ret, err);
	return r;
}

int pf_sharding_read(const struct pf_sharding_words *words, unsigned rank,
		     struct pf_sharding *ret, struct pf_err *err)
{
	struct words w = { words->text, words->text, err, 0 };
	struct sdy sdy = { .n_ids = 0 };
	int r;

	memset(ret, 0, sizeof(*ret));
	if (!words->text)
		r = read_of_mesh(words, &sdy, NULL, rank, ret, err);
	else if (take(&w, "#sdy.sharding<") || take(&w, "sdy.sharding<") || take(&w, "<"))
		r = read_of_mesh(words, &sdy, &w, rank, ret, err);
	else if (words->mesh)
		r = pf_err_set(err, -EINVAL,
			       "XLA's text has no mesh, and \"mesh\" is there");
	else if (take(&w, "{"))
		r = read_gspmd(&w, rank, words->devices, ret);
	else {
		expected(&w, "XLA's text, as {devices=[2,1]<=[2]}, or Shardy's, as "
			     "#sdy.sharding<@mesh, [{\"x\"}, {}]>");
		r = w.code;
	}
	json_object_put(sdy.mesh);
	json_object_put(sdy.spec);
	json_object_put(sdy.replicated);
	if (r < 0)
		pf_sharding_release(ret);
	return r < 0 && words->text ? pf_err_wrap(err, r, "\"sharding\"") : r;
}
