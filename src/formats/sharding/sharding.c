/* SPDX-License-Identifier: Apache-2.0 */
/* Shardings as meshes and partition specs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pjrtfs/json.h"
#include "pjrtfs/sharding.h"

unsigned pf_sharding_parts(const struct pf_sharding *s, unsigned dim)
{
	unsigned n = 1;

	for (unsigned i = 0; i < s->n_by[dim]; i++)
		n *= s->axes[s->by[dim][i]].size;
	return n;
}

void pf_sharding_at(const struct pf_sharding *s, unsigned i, unsigned at[PF_MAX_RANK])
{
	unsigned on[PF_MAX_AXES];

	for (unsigned a = s->n_axes; a-- > 0;) {
		on[a] = i % s->axes[a].size;
		i /= s->axes[a].size;
	}
	for (unsigned d = 0; d < s->rank; d++) {
		at[d] = 0;
		for (unsigned k = 0; k < s->n_by[d]; k++)
			at[d] = at[d] * s->axes[s->by[d][k]].size + on[s->by[d][k]];
	}
}

unsigned pf_sharding_block(const struct pf_sharding *s, unsigned i)
{
	unsigned at[PF_MAX_RANK], block = 0;

	pf_sharding_at(s, i, at);
	for (unsigned d = 0; d < s->rank; d++)
		block = block * pf_sharding_parts(s, d) + at[d];
	return block;
}

int pf_sharding_find(const struct pf_sharding *s, const char *name)
{
	for (unsigned i = 0; s->devices && i < s->n; i++)
		if (!strcmp(s->devices[i], name))
			return (int)i;
	return -1;
}

/* axis "x" of size 2; axes "x", "y" of 4 parts. */
static int indivisible(const struct pf_sharding *s, unsigned dim, int64_t size,
		       struct pf_err *err)
{
	pf_autobuf struct pf_buf axes = PF_BUF_INIT;

	for (unsigned i = 0; i < s->n_by[dim]; i++)
		pf_buf_printf(&axes, "%s\"%s\"", i ? ", " : "",
			      s->axes[s->by[dim][i]].name);
	return pf_err_set(err, -EINVAL,
			  "dimension %u has %lld elements, which ax%s %s of size %u "
			  "cannot divide evenly",
			  dim, (long long)size, s->n_by[dim] == 1 ? "is" : "es",
			  axes.data ? axes.data : "", pf_sharding_parts(s, dim));
}

int pf_sharding_divide(const struct pf_sharding *s, const struct pf_shape *whole,
		       struct pf_shape *ret, struct pf_err *err)
{
	*ret = *whole;
	for (unsigned d = 0; d < s->rank; d++) {
		unsigned parts = pf_sharding_parts(s, d);

		if (whole->dims[d] % parts)
			return indivisible(s, d, whole->dims[d], err);
		ret->dims[d] /= parts;
	}
	return 0;
}

int pf_sharding_multiply(const struct pf_sharding *s, const struct pf_shape *shard,
			 struct pf_shape *ret, struct pf_err *err)
{
	int64_t count;

	*ret = *shard;
	for (unsigned d = 0; d < s->rank; d++)
		if (__builtin_mul_overflow(shard->dims[d],
					   (int64_t)pf_sharding_parts(s, d),
					   &ret->dims[d]))
			return pf_err_set(err, -EOVERFLOW,
					  "dimension %u of all shards together has more "
					  "than 2^63-1 elements",
					  d);
	return pf_shape_count(ret, &count, err);
}

void pf_sharding_part(const struct pf_sharding *s, const struct pf_shape *whole,
		      unsigned i, struct pf_block *ret)
{
	unsigned at[PF_MAX_RANK];

	ret->whole = ret->part = *whole;
	pf_sharding_at(s, i, at);
	for (unsigned d = 0; d < s->rank; d++) {
		ret->part.dims[d] /= pf_sharding_parts(s, d);
		ret->start[d] = at[d] * ret->part.dims[d];
	}
}

void pf_sharding_release(struct pf_sharding *s)
{
	for (unsigned i = 0; s->devices && i < s->n; i++)
		free(s->devices[i]);
	free(s->devices);
	memset(s, 0, sizeof(*s));
}

int pf_sharding_place(struct pf_sharding *s, char *const *names, const unsigned *of)
{
	s->devices = calloc(s->n, sizeof(*s->devices));
	for (unsigned i = 0; s->devices && i < s->n; i++)
		if (!(s->devices[i] = strdup(names[of ? of[i] : i])))
			return -ENOMEM;
	return s->devices ? 0 : -ENOMEM;
}

int pf_sharding_copy(const struct pf_sharding *s, struct pf_sharding *ret)
{
	int r;

	*ret = *s;
	ret->devices = NULL;
	r = s->devices ? pf_sharding_place(ret, s->devices, NULL) : 0;
	if (r < 0)
		pf_sharding_release(ret);
	return r;
}

/* --- reading ------------------------------------------------------------------------------ */

static const char *type_name(struct json_object *o)
{
	return o ? json_type_to_name(json_object_get_type(o)) : "null";
}

static int read_axis(struct pf_sharding *s, const char *name, struct json_object *size,
		     struct pf_err *err)
{
	struct pf_axis *axis = &s->axes[s->n_axes];
	int64_t n = json_object_is_type(size, json_type_int) ? json_object_get_int64(size)
							     : 0;

	if (s->n_axes == PF_MAX_AXES)
		return pf_err_set(err, -E2BIG, "more than %d axes", PF_MAX_AXES);
	if (!*name)
		return pf_err_set(err, -EINVAL, "an axis has an empty name");
	if (strlen(name) > PF_AXIS_NAME_MAX)
		return pf_err_set(err, -ENAMETOOLONG,
				  "axis \"%.64s\": its name has more than %d bytes", name,
				  PF_AXIS_NAME_MAX);
	if (n < 1)
		return pf_err_set(err, -EINVAL,
				  "axis \"%s\": expected a size from 1 on, found %.64s",
				  name, json_object_to_json_string(size));
	if (n > PF_MAX_SHARDS / s->n)
		return pf_err_set(err, -E2BIG, "a mesh of more than %d devices",
				  PF_MAX_SHARDS);
	strcpy(axis->name, name);
	axis->size = (unsigned)n;
	s->n *= (unsigned)n;
	s->n_axes++;
	return 0;
}

static int read_mesh(struct pf_sharding *s, struct json_object *mesh, struct pf_err *err)
{
	if (!json_object_is_type(mesh, json_type_object))
		return pf_err_set(err, -EINVAL,
				  "expected an object of sizes by axis, as {\"x\":2}, "
				  "found %s",
				  type_name(mesh));
	json_object_object_foreach(mesh, name, size) {
		int r = read_axis(s, name, size, err);

		if (r < 0)
			return r;
	}
	return s->n_axes ? 0 : pf_err_set(err, -EINVAL, "it has no axis");
}

/* Dimension DIM is divided by the axis that V names, which divides no other. */
static int read_name(struct pf_sharding *s, unsigned dim, struct json_object *v,
		     bool used[PF_MAX_AXES], struct pf_err *err)
{
	const char *name;
	unsigned a = 0;

	if (!json_object_is_type(v, json_type_string))
		return pf_err_set(err, -EINVAL,
				  "entry %u: expected an axis' name, a list of names or "
				  "null, found %s",
				  dim, type_name(v));
	name = json_object_get_string(v);
	while (a < s->n_axes && strcmp(s->axes[a].name, name))
		a++;
	if (a == s->n_axes)
		return pf_err_set(err, -EINVAL,
				  "entry %u: the mesh has no axis \"%.64s\"", dim, name);
	if (used[a])
		return pf_err_set(err, -EINVAL, "entry %u: axis \"%s\" is used twice",
				  dim, name);
	used[a] = true;
	s->by[dim][s->n_by[dim]++] = (uint8_t)a;
	return 0;
}

static int read_spec(struct pf_sharding *s, struct json_object *spec, struct pf_err *err)
{
	bool used[PF_MAX_AXES] = { false };
	size_t n;

	if (!json_object_is_type(spec, json_type_array))
		return pf_err_set(err, -EINVAL,
				  "expected a list with an entry for each dimension, as "
				  "[\"x\",null], found %s",
				  type_name(spec));
	n = json_object_array_length(spec);
	if (n > s->rank)
		return pf_err_set(err, -EINVAL,
				  "it has %zu entries, the array %u dimension%s", n,
				  s->rank, s->rank == 1 ? "" : "s");
	for (unsigned dim = 0; dim < n; dim++) {
		struct json_object *v = json_object_array_get_idx(spec, dim);
		bool list = json_object_is_type(v, json_type_array);
		size_t names = list ? json_object_array_length(v) : v ? 1 : 0;

		for (size_t i = 0; i < names; i++) {
			int r = read_name(s, dim,
					  list ? json_object_array_get_idx(v, i) : v,
					  used, err);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

void pf_device_names_release(struct pf_device_names *names)
{
	for (unsigned i = 0; i < names->n; i++)
		free(names->at[i]);
	free(names->at);
	memset(names, 0, sizeof(*names));
}

static int read_device(struct pf_device_names *names, struct json_object *v,
		       struct pf_err *err)
{
	const char *name = json_object_get_string(v);

	if (!json_object_is_type(v, json_type_string))
		return pf_err_set(err, -EINVAL,
				  "element %u: expected a device's name, found %s",
				  names->n, type_name(v));
	for (unsigned k = 0; k < names->n; k++)
		if (!strcmp(names->at[k], name))
			return pf_err_set(err, -EINVAL, "%.64s is there twice", name);
	names->at[names->n] = strdup(name);
	return names->at[names->n++] ? 0 : -ENOMEM;
}

int pf_device_names_parse(struct json_object *list, struct pf_device_names *ret,
			  struct pf_err *err)
{
	size_t n;
	int r = 0;

	memset(ret, 0, sizeof(*ret));
	ret->chosen = true;
	if (!json_object_is_type(list, json_type_array))
		return pf_err_set(err, -EINVAL,
				  "expected a list of devices, as [\"cpu:0\"], found %s",
				  type_name(list));
	n = json_object_array_length(list);
	if (n < 1 || n > PF_MAX_SHARDS)
		return pf_err_set(err, n ? -E2BIG : -EINVAL,
				  "expected from 1 to %d devices, found %zu",
				  PF_MAX_SHARDS, n);
	ret->at = calloc(n, sizeof(*ret->at));
	if (!ret->at)
		return pf_err_set(err, -ENOMEM, "no memory for a mesh");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = read_device(ret, json_object_array_get_idx(list, i), err);
	if (r < 0)
		pf_device_names_release(ret);
	return r == -ENOMEM ? pf_err_set(err, r, "no memory for a mesh") : r;
}

/* Give S the devices of LIST, one for each position. */
static int read_devices(struct pf_sharding *s, struct json_object *list,
			struct pf_err *err)
{
	struct pf_device_names names;
	int r = pf_device_names_parse(list, &names, err);

	if (r < 0)
		return r;
	if (names.n == s->n) {
		s->devices = names.at;
		return 0;
	}
	r = pf_err_set(err, -EINVAL, "there are %u, the mesh is of %u device%s", names.n,
		       s->n, s->n == 1 ? "" : "s");
	pf_device_names_release(&names);
	return r;
}

int pf_sharding_parse(struct json_object *mesh, struct json_object *spec,
		      struct json_object *devices, unsigned rank, struct pf_sharding *ret,
		      struct pf_err *err)
{
	const char *what = "\"mesh\"";
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->rank = rank;
	ret->n = 1;
	r = read_mesh(ret, mesh, err);
	if (r == 0) {
		what = "\"spec\"";
		r = read_spec(ret, spec, err);
	}
	if (r == 0 && devices) {
		what = "\"devices\"";
		r = read_devices(ret, devices, err);
	}
	if (r == 0)
		return 0;
	pf_sharding_release(ret);
	return pf_err_wrap(err, r, "%s", what);
}

/* --- printing ------------------------------------------------------------------------------ */

static void add_name(struct json_object *list, const char *name)
{
	pf_json_append(list, json_object_new_string(name));
}

/* Append null, "x" or ["x","y"]. */
static void add_entry(struct json_object *spec, const struct pf_sharding *s, unsigned dim)
{
	struct json_object *list;

	if (!s->n_by[dim]) {
		pf_json_append_null(spec);
		return;
	}
	if (s->n_by[dim] == 1) {
		add_name(spec, s->axes[s->by[dim][0]].name);
		return;
	}
	list = json_object_new_array();
	for (unsigned i = 0; i < s->n_by[dim]; i++)
		add_name(list, s->axes[s->by[dim][i]].name);
	pf_json_append(spec, list);
}

bool pf_sharding_divides(const struct pf_sharding *s, unsigned axis)
{
	for (unsigned d = 0; d < s->rank; d++)
		for (unsigned i = 0; i < s->n_by[d]; i++)
			if (s->by[d][i] == axis)
				return true;
	return false;
}

void pf_sharding_print(const struct pf_sharding *s, struct json_object *o)
{
	struct json_object *mesh = json_object_new_object();
	struct json_object *spec = json_object_new_array();
	struct json_object *replicated = json_object_new_array();
	struct json_object *devices = json_object_new_array();

	for (unsigned a = 0; a < s->n_axes; a++) {
		pf_json_add_int(mesh, s->axes[a].name, s->axes[a].size);
		if (!pf_sharding_divides(s, a))
			add_name(replicated, s->axes[a].name);
	}
	for (unsigned d = 0; d < s->rank; d++)
		add_entry(spec, s, d);
	for (unsigned i = 0; s->devices && i < s->n; i++)
		add_name(devices, s->devices[i]);
	pf_json_add(o, "mesh", mesh);
	pf_json_add(o, "spec", spec);
	pf_json_add(o, "replicated", replicated);
	pf_json_add(o, "devices", devices);
}
