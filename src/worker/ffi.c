/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of custom calls: those of the FFI libraries, and the worker's own.
 *
 * XLA keeps the first handler of a target and drops others without an error, so the worker has its
 * own table, which the description shows to the daemon.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/ffi.h"
#include "pjrtfs/json.h"

enum {
	MAX_TARGETS = 4096, /* of one library */
	MAX_TARGET = 255,   /* bytes of a name */
};

/* --- the table ----------------------------------------------------------------------------- */

/* The handlers, as pf_ffi_describe shows them; and from each target to the name of its library. */
static struct json_object *calls, *whys, *given;

/* Add the handler of TARGET from LIBRARY, called NAME, which programs cannot call because of NOTE
 * (NULL: they can). */
static void note_call(const char *target, int library, const char *name, const char *note)
{
	struct json_object *call = json_object_new_array();

	pf_json_append(call, json_object_new_string(target));
	pf_json_append(call, json_object_new_int(library));
	if (note)
		pf_json_append(call, json_object_new_string(note));
	else
		pf_json_add_string(given, target, name);
	pf_json_append(calls, call);
}

static void make_tables(void)
{
	if (calls)
		return;
	calls = json_object_new_array();
	whys = json_object_new_array();
	given = json_object_new_object();
}

/* Register the handler of TARGET, unless another one has that name. */
static void offer(const struct pj_plugin *plugin, const struct pjrtfs_ffi_target *t,
		  int library, const char *name)
{
	struct pf_err err = PF_ERR_INIT;
	struct json_object *other;
	const char *note = err.text;
	char before[MAX_TARGET + 16];

	if (json_object_object_get_ex(given, t->name, &other))
		pf_err_set(&err, -EEXIST, "shadowed by %s",
			   json_object_get_string(other));
	else
		(void)pj_ffi_register(plugin, t->name, t->handler, t->platform, t->traits,
				      &err);
	/* The note stands beside the target. */
	snprintf(before, sizeof(before), "custom call %s: ", t->name);
	if (!strncmp(note, before, strlen(before)))
		note += strlen(before);
	note_call(t->name, library, name, err.code ? note : NULL);
}

void pf_ffi_add(const struct pj_plugin *plugin, const struct pjrtfs_ffi_target *target)
{
	make_tables();
	offer(plugin, target, -1, "pjrtfs");
}

void pf_ffi_describe(struct json_object *description)
{
	make_tables();
	pf_json_add(description, "custom_calls", json_object_get(calls));
	pf_json_add(description, "libraries", json_object_get(whys));
}

/* --- crashes while a library is loaded ----------------------------------------------------- */

static const int fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP };
enum { N_FATAL = sizeof(fatal) / sizeof(fatal[0]) };

/* The path of the library that is being loaded; or NULL. */
static const char *volatile loading;

/* Print which library it was: the daemon quotes the last line. */
static void accuse(void)
{
	static const char before[] = "pjrtfs-worker: FFI library ",
			  after[] = " ended the process while it was loaded\n";

	if (!loading)
		return;
	(void)!write(2, before, sizeof(before) - 1);
	(void)!write(2, loading, strlen(loading));
	(void)!write(2, after, sizeof(after) - 1);
	loading = NULL;
}

/* The signal comes again when this returns, and ends the process. */
static void on_fatal(int sig)
{
	accuse();
	(void)raise(sig);
}

/* Watch for the end of the process, as OLD has it without that; or no longer. */
static void watch(struct sigaction old[N_FATAL], bool on)
{
	const struct sigaction act = { .sa_handler = on_fatal,
				       .sa_flags = (int)SA_RESETHAND };

	for (int i = 0; i < N_FATAL; i++)
		(void)sigaction(fatal[i], on ? &act : &old[i], on ? &old[i] : NULL);
}

/* --- stubs of Python's symbols --------------------------------------------------------------- */

static const char stubs[] = "pjrtfs-python.so";

/* dlopen(3)'s, local until a library needs the stubs; NULL: not loaded. */
static void *python;

/* A list of the library's own needs none: it was written for pjrtfs. */
void pf_ffi_prepare(struct json_object *list)
{
	char path[PATH_MAX];
	bool mapped = false;

	for (size_t i = 0; list && i < json_object_array_length(list); i++)
		mapped |= pf_json_get(json_object_array_get_idx(list, i), "targets",
				      json_type_object) != NULL;
	if (!mapped)
		return;
	pf_find_installed(stubs, PKGLIBEXECDIR, path, sizeof(path));
	python = dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Did dlopen(3), which said TEXT, lack a symbol of Python? */
static bool lacks_python(const char *text)
{
	static const char lacking[] = "undefined symbol: ";
	const char *symbol = strstr(text, lacking);

	if (!symbol)
		return false;
	symbol += strlen(lacking);
	symbol += *symbol == '_';
	return !strncmp(symbol, "Py", 2);
}

/* Have dlopen(3) find the stubs from now on, if they are here. */
static void lend_python(void)
{
	struct link_map *map;

	if (python && dlinfo(python, RTLD_DI_LINKMAP, &map) == 0)
		(void)dlopen(map->l_name, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

/* --- libraries ----------------------------------------------------------------------------- */

/* A library as the daemon's text describes it. */
struct library {
	const char *name, *path, *platform; /* borrowed; platform may be NULL */
	struct json_object *targets;        /* borrowed: as in struct pf_library_spec */
	uint32_t traits;
	int index;    /* in that text */
	void *object; /* dlopen(3)'s, which stays */
};

/* Is NAME a target's name, that can stand in a line? */
static int check_target(const char *name, size_t i, struct pf_err *err)
{
	size_t len = name ? strnlen(name, MAX_TARGET + 1) : 0;

	if (!len || len > MAX_TARGET || !pf_utf8_valid(name, len))
		return pf_err_set(err, -ENOEXEC,
				  "target %zu: expected a name of 1 to %d bytes of UTF-8",
				  i, MAX_TARGET);
	for (size_t k = 0; k < len; k++)
		if ((unsigned char)name[k] < ' ' || name[k] == 127)
			return pf_err_set(err, -ENOEXEC,
					  "target %zu: its name has a control character",
					  i);
	return 0;
}

static int check_count(size_t n, struct pf_err *err)
{
	return n <= MAX_TARGETS ? 0
				: pf_err_set(err, -ENOEXEC,
					     "expected at most %d targets, found %zu",
					     MAX_TARGETS, n);
}

/* An address of a library, and whether that has code there. */
struct place {
	ElfW(Addr) base, address;
	bool is_code;
};

/* Look for the struct place ARG in the library INFO; 1: it is that one. */
static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct place *p = arg;

	(void)size;
	if (info->dlpi_addr != p->base)
		return 0;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X &&
		    p->address >= segment->p_vaddr &&
		    p->address - segment->p_vaddr < segment->p_filesz)
			p->is_code = true;
	}
	return 1;
}

/* What is at WHERE, "+0x" and the digits of an address, of L: *RET. */
static int find_address(const struct library *l, const char *where, void **ret,
			struct pf_err *err)
{
	static const char begins[] = "+0x";
	const size_t before = strlen(begins);
	bool begun = !strncmp(where, begins, before);
	size_t n = begun ? strspn(where + before, "0123456789abcdefABCDEF") : 0;
	struct link_map *map;
	struct place p = { 0 };

	if (!n || n > 2 * sizeof(p.address) || where[before + n])
		return pf_err_set(
			err, -ENOEXEC,
			"expected a symbol, or an address as +0x12ab, found %.80s",
			where);
	if (dlinfo(l->object, RTLD_DI_LINKMAP, &map))
		return pf_err_set(err, -ENOEXEC, "where is it? %s", dlerror());
	p.base = map->l_addr;
	p.address = strtoull(where + before, NULL, 16);
	(void)dl_iterate_phdr(look, &p);
	if (!p.is_code)
		return pf_err_set(err, -ENOEXEC,
				  "expected an address in the library's code (an "
				  "executable segment), found %s",
				  where);
	*ret = (void *)(p.base + p.address);
	return 0;
}

/* The handler of L that is called, or is at, WHERE: *RET. */
static int find_handler(const struct library *l, const char *where, void **ret,
			struct pf_err *err)
{
	if (*where == '+')
		return find_address(l, where, ret, err);
	*ret = dlsym(l->object, where);
	return *ret ? 0
		    : pf_err_set(err, -ENOEXEC,
				 "expected a function %s in the library, found none",
				 where);
}

/* The handlers that the configuration names. */
static int take_map(const struct pj_plugin *plugin, const struct library *l,
		    struct pf_err *err)
{
	int r = check_count((size_t)json_object_object_length(l->targets), err);
	size_t i = 0;

	json_object_object_foreach(l->targets, target, value) {
		struct pjrtfs_ffi_target t = { .name = target,
					       .platform = l->platform,
					       .traits = l->traits };

		r = r < 0 ? r : check_target(target, i++, err);
		if (r < 0)
			return r;
		r = find_handler(l, json_object_get_string(value), (void **)&t.handler,
				 err);
		if (r < 0)
			return pf_err_wrap(err, r, "target %s", target);
		offer(plugin, &t, l->index, l->name);
	}
	return r;
}

/* The handlers that the library lists.  *WHY: none, because it cannot work here; or NULL. */
static int take_list(const struct pj_plugin *plugin, const struct library *l,
		     const char **why, struct pf_err *err)
{
	const struct pjrtfs_ffi_targets *(*list)(const char **);
	const struct pjrtfs_ffi_targets *targets;
	int r;

	*(void **)&list = dlsym(l->object, "pjrtfs_ffi_library");
	if (!list)
		return pf_err_set(
			err, -ENOEXEC,
			"expected a function pjrtfs_ffi_library, which lists its "
			"handlers, or a map (--ffi-library PATH:TARGET=SYMBOL), found "
			"neither");
	targets = list(why);
	if (!targets) {
		*why = *why ? *why : "it does not say why it has no handlers";
		return 0;
	}
	*why = NULL;
	if (targets->struct_size != sizeof(*targets))
		return pf_err_set(err, -ENOEXEC,
				  "expected a list of %zu bytes (struct "
				  "pjrtfs_ffi_targets), found %zu: it was built with "
				  "another pjrtfs/ffi.h",
				  sizeof(*targets), targets->struct_size);
	r = check_count(targets->n, err);
	for (size_t i = 0; i < targets->n && r == 0; i++) {
		const struct pjrtfs_ffi_target *t = &targets->targets[i];

		r = check_target(t->name, i, err);
		if (r == 0 && !t->handler)
			r = pf_err_set(err, -ENOEXEC, "target %s has no handler",
				       t->name);
		if (r == 0)
			offer(plugin, t, l->index, l->name);
	}
	return r;
}

/* Load L from FD. */
static int load(const struct pj_plugin *plugin, struct library *l, int fd,
		const char **why, struct pf_err *err)
{
	char place[32];
	const char *text;

	/* Descriptors differ, so dlopen(3) takes none for a library that it has. */
	snprintf(place, sizeof(place), "/proc/self/fd/%d", fd);
	l->object = dlopen(place, RTLD_NOW | RTLD_LOCAL);
	text = l->object ? NULL : dlerror();
	/* Lazily: the stubs have no functions but those that must be there. */
	if (text && lacks_python(text)) {
		lend_python();
		l->object = dlopen(place, RTLD_LAZY | RTLD_LOCAL);
		text = l->object ? NULL : dlerror();
	}
	if (text) {
		if (!strncmp(text, place, strlen(place)))
			text += strlen(place) + strspn(text + strlen(place), ": ");
		return pf_err_set(err, -ENOEXEC, "it cannot be loaded: %s", text);
	}
	return l->targets ? take_map(plugin, l, err) : take_list(plugin, l, why, err);
}

int pf_ffi_load(const struct pj_plugin *plugin, struct json_object *list, const int *fds,
		struct pf_err *err)
{
	size_t n = json_object_is_type(list, json_type_array)
			   ? json_object_array_length(list)
			   : 0;
	struct sigaction old[N_FATAL];
	int r = 0;

	if (n > PF_WIRE_LIBRARIES)
		return pf_err_set(err, -EPROTO, "the set-up text has %zu FFI libraries",
				  n);
	make_tables();
	/* XLA calls handlers on threads of its own, so more of them would only compete. */
	setenv("OPENBLAS_NUM_THREADS", "1", 0);
	setenv("OMP_NUM_THREADS", "1", 0);
	if (n && atexit(accuse))
		return pf_err_set(err, -ENOMEM, "no memory for an exit handler");
	watch(old, true);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct json_object *o = json_object_array_get_idx(list, i);
		struct library l = {
			.name = pf_json_get_string(o, "name"),
			.path = pf_json_get_string(o, "path"),
			.platform = json_object_get_string(
				pf_json_get(o, "platform", json_type_string)),
			.targets = pf_json_get(o, "targets", json_type_object),
			.traits = (uint32_t)json_object_get_int64(
				pf_json_get(o, "traits", json_type_int)),
			.index = (int)i,
		};
		const char *why = NULL;

		loading = l.path;
		r = load(plugin, &l, fds[i], &why, err);
		loading = NULL;
		if (r < 0)
			pf_err_wrap(err, r, "FFI library %s", l.path);
		if (why)
			pf_json_append(whys, json_object_new_string(why));
		else
			pf_json_append_null(whys);
	}
	watch(old, false);
	return r;
}
