/* SPDX-License-Identifier: Apache-2.0 */
/* The discovery of plugins: the order of places, the files found there, Python's packages, limits. */
#include <errno.h>
#include <fcntl.h>

#include "discover/internal.h"
#include "work_dir.h"

static void set_up(void)
{
	static const char *const variables[] = {
		"PJRTFS_PLUGIN_PATH",
		"PJRT_NAMES_AND_LIBRARY_PATHS",
		"PJRT_PLUGIN_LIBRARY_PATH",
		"PJRT_PLUGIN_PATH",
		"TPU_LIBRARY_PATH",
		"PJRT_PLUGIN_TPU_LIB",
		"PJRT_PLUGIN_CUDA_13_LIB",
		"PJRT_PLUGIN_CUDA_12_LIB",
		"PJRT_PLUGIN_ROCM_7_LIB",
		"PJRT_PLUGIN_NEURON_LIB",
		"PJRT_PLUGIN_METAL_LIB",
		"LD_LIBRARY_PATH",
		"VIRTUAL_ENV",
		"CONDA_PREFIX",
	};

	work_dir_begin();
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		unsetenv(variables[i]);
	setenv("PATH", "/nowhere", 1);
	setenv("HOME", "/nowhere", 1);
}

static struct pf_discovery *discover(const struct pf_discover_config *config)
{
	struct pf_discovery *d = NULL;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(pf_discover(config, &d, &err) == 0, "%s", err.text);
	return d;
}

/* The files found below the working directory: "SOURCE NAME=PATH VERSION (PACKAGE)" lines. */
static const char *found(const struct pf_discovery *d)
{
	static char text[16384];
	char *at = text;

	*text = '\0';
	for (unsigned i = 0; i < d->n_files; i++) {
		const struct pf_plugin_file *f = &d->files[i];
		const char *path = strstr(f->path, work_dir);

		at += sprintf(at, "%s: %s=%s", d->places[f->place].source, f->name,
			      path ? path + strlen(work_dir) + 1 : f->path);
		at += sprintf(at, "%s%s", *f->version ? " " : "", f->version);
		if (*f->package)
			at += sprintf(at, " (%s)", f->package);
		at += sprintf(at, "%s%s\n", f->refused ? " refused: " : "",
			      f->refused ? f->refused : "");
	}
	return text;
}

static const struct pf_search_place *place_of(const struct pf_discovery *d,
					      const char *where)
{
	for (unsigned i = 0; i < d->n_places; i++)
		if (strstr(d->places[i].where, where))
			return &d->places[i];
	return NULL;
}

/* The directories that ld.so.conf named, below the working directory. */
static const char *linker_dirs(const struct pf_discovery *d)
{
	static char text[1024];

	*text = '\0';
	for (unsigned i = 0; i < d->n_places; i++)
		if (!strcmp(d->places[i].source, "/etc/ld.so.conf"))
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ",
				 d->places[i].where + strlen(work_dir));
	return text;
}

/* Files of every place, of which some are called cpu; NULL: a library. */
static const struct {
	const char *path, *text;
} everywhere[] = {
	{ "a/x.so", NULL },
	{ "a/y.so", NULL },
	{ "a/jax.so", NULL },
	{ "said-dir/s.so", NULL },
	{ "cf/conf-dir.so", NULL },
	{ "env/e/pjrt_plugin.so", NULL },
	{ "lib1/libpjrt_l1.so", NULL },
	{ "lib2.so", NULL },
	{ "tpu/libtpu.so", NULL },
	{ "ryft/any.so", NULL },
	{ ".local/lib/pjrtfs/plugins/user/pjrt_plugin.so", NULL },
	{ "own/cpu/pjrt_plugin.so", NULL },
	{ "own/flat.so", NULL },
	{ "usr/local/lib/go-xla/pjrt_c_api_cpu_v0.83.1_plugin.so", NULL },
	{ "usr/local/lib/gomlx/pjrt/pjrt_c_api_cpu_plugin.so", NULL },
	{ "ld/libpjrt_ld.so", NULL },
	{ "ld/other.so", NULL },
	{ "conf/pjrt_plugin_c.so", NULL },
	{ "etc/ld.so.conf", "include ld.so.conf.d/*.conf\n"
			    "# a comment\nhwcap 0 nosegneg\nrelative/is/none\n"
			    "  /conf   # another\n/old/lib=libc5\r\n/last" },
	{ "etc/ld.so.conf.d/b.conf", "/b\n" },
	{ "etc/ld.so.conf.d/a.conf", "/a1\n/a2\n" },
	{ "etc/ld.so.conf.d/c.txt", "/c\n" },
	{ "opt/aws/neuron/lib/libneuronpjrt.so", NULL },
	{ "venv/lib/python3.11/site-packages/libtpu/libtpu.so", NULL },
	{ "usr/lib/python3/dist-packages/sys/libpjrt_sys.so", NULL },
};

/* Make these files, and set the variables that name places. */
static struct pf_discover_config fill_every_place(void)
{
	static const char *const words[] = { "alone", "first=a/x.so", NULL };
	static const char *const dirs[] = { "said-dir", NULL };
	static const char *const configured[] = { "conf=a/y.so", NULL };
	static const char *const config_dirs[] = { "cf", NULL };

	for (size_t i = 0; i < ARRAY_SIZE(everywhere); i++)
		put_file(everywhere[i].path,
			 everywhere[i].text ? everywhere[i].text : LIBRARY);
	setenv("HOME", work_dir, 1);
	setenv("PJRTFS_PLUGIN_PATH", "env", 1);
	setenv("PJRT_NAMES_AND_LIBRARY_PATHS", "jax:a/jax.so", 1);
	setenv("PJRT_PLUGIN_LIBRARY_PATH", "lib1", 1);
	setenv("PJRT_PLUGIN_PATH", ":lib2.so:", 1);
	setenv("TPU_LIBRARY_PATH", "tpu", 1);
	setenv("PJRT_PLUGIN_CUDA_13_LIB", "ryft/any.so", 1);
	setenv("PJRT_PLUGIN_CUDA_12_LIB", "ryft/gone.so", 1);
	setenv("LD_LIBRARY_PATH", "ld:/nowhere", 1);
	setenv("VIRTUAL_ENV", "venv", 1);
	return (struct pf_discover_config){ .words = words,
					    .dirs = dirs,
					    .configured = configured,
					    .configured_dirs = config_dirs,
					    .own_dir = "own",
					    .root = work_dir };
}

/* Plugins in pjrtfs's own places. */
#define OWN_SAID                                                                         \
	"--plugin-dir: s=said-dir/s.so\n"                                                \
	"the configuration file: conf=a/y.so\n"                                          \
	"the configuration's plugin_dir: conf-dir=cf/conf-dir.so\n"                      \
	"$PJRTFS_PLUGIN_PATH: e=env/e/pjrt_plugin.so\n"
#define OWN_DIRS                                                                         \
	"the user's directory: user=.local/lib/pjrtfs/plugins/user/pjrt_plugin.so\n"     \
	"pjrtfs's own directory: cpu=own/cpu/pjrt_plugin.so\n"                           \
	"pjrtfs's own directory: flat=own/flat.so\n"

TEST(the_search_has_the_manuals_order)
{
	struct pf_discover_config c = fill_every_place();
	struct pf_discovery *d = discover(&c);
	const struct pf_plugin_file *f;

	ck_assert_str_eq(
		found(d),
		"--plugin: first=a/x.so\n" OWN_SAID
		"$PJRT_NAMES_AND_LIBRARY_PATHS: jax=a/jax.so\n"
		"$PJRT_PLUGIN_LIBRARY_PATH: l1=lib1/libpjrt_l1.so\n"
		"$PJRT_PLUGIN_PATH: lib2=lib2.so\n"
		"$TPU_LIBRARY_PATH: tpu=tpu/libtpu.so\n"
		"$PJRT_PLUGIN_CUDA_13_LIB: cuda13=ryft/any.so\n"
		"$PJRT_PLUGIN_CUDA_12_LIB: cuda12=ryft/gone.so refused: No such file or "
		"directory\n" OWN_DIRS
		"GoMLX: cpu=usr/local/lib/go-xla/pjrt_c_api_cpu_v0.83.1_plugin.so 0.83.1\n"
		"GoMLX: cpu=usr/local/lib/gomlx/pjrt/pjrt_c_api_cpu_plugin.so\n"
		"$LD_LIBRARY_PATH: ld=ld/libpjrt_ld.so\n"
		"/etc/ld.so.conf: c=conf/pjrt_plugin_c.so\n"
		"AWS Neuron: neuron=opt/aws/neuron/lib/libneuronpjrt.so\n"
		"$VIRTUAL_ENV: tpu=venv/lib/python3.11/site-packages/libtpu/libtpu.so\n"
		"the system's Python: sys=usr/lib/python3/dist-packages/sys/libpjrt_sys.so\n");
	ck_assert_str_eq(linker_dirs(d), "/conf /old/lib /last /a1 /a2 /b ");
	/* The first match wins, and a newer one of a later place does not. */
	f = pf_discovery_pick(d, "cpu", NULL, NULL);
	ck_assert_ptr_nonnull(strstr(f->path, "/own/cpu/"));
	ck_assert_ptr_null(pf_discovery_pick(d, "none", NULL, NULL));
	pf_discovery_free(d);
}

/* Only pjrtfs's own places; only up to the place that has the plugin. */
TEST(only_some_places_are_searched)
{
	struct pf_discover_config c = fill_every_place();
	struct pf_discovery *d;

	c.own_only = true;
	d = discover(&c);
	ck_assert_str_eq(found(d), OWN_SAID OWN_DIRS);
	pf_discovery_free(d);
	c.own_only = false;
	c.until = "jax";
	d = discover(&c);
	ck_assert_str_eq(d->files[d->n_files - 1].name, "jax");
	pf_discovery_free(d);
}

/* Oldest by the version in its name, newest by its API. */
static int minor_of(void *arg, const char *path)
{
	++*(int *)arg;
	return strstr(path, "_v0.8_") ? 115 : strstr(path, "_v0.10_") ? -1 : 81;
}

TEST(the_newest_of_one_place_is_picked)
{
	struct pf_discover_config c = { .own_dir = "own", .own_only = true };
	const struct pf_plugin_file *f;
	struct pf_discovery *d;
	int asked = 0;

	put_file("own/pjrt_c_api_cpu_v0.8_plugin.so", LIBRARY);
	put_file("own/pjrt_c_api_cpu_v0.9_plugin.so", LIBRARY);
	put_file("own/pjrt_c_api_cpu_v0.10_plugin.so", LIBRARY);
	put_file("own/pjrt_c_api_cpu_plugin.so", LIBRARY);
	put_file("own/gpu.so", LIBRARY);
	put_file("own/gpu/pjrt_plugin.so", LIBRARY);
	put_file("own/one.so", LIBRARY);
	d = discover(&c);
	f = pf_discovery_pick(d, "cpu", NULL, NULL);
	ck_assert_str_eq(f->version, "0.10");
	f = pf_discovery_pick(d, "gpu", NULL, NULL);
	ck_assert_ptr_nonnull(strstr(f->path, "gpu/pjrt_plugin.so"));
	/* The file's own name means it, too. */
	f = pf_discovery_pick(d, "pjrt_c_api_cpu_v0.9_plugin", NULL, NULL);
	ck_assert_str_eq(f->version, "0.9");
	/* The plugins' own versions outrank their files' names; a single file is not loaded. */
	f = pf_discovery_pick(d, "one", minor_of, &asked);
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(asked, 0);
	f = pf_discovery_pick(d, "cpu", minor_of, &asked);
	ck_assert_str_eq(f->version, "0.8");
	ck_assert_int_gt(asked, 3);
	pf_discovery_free(d);
}

/* --- errors --------------------------------------------------------------------------- */

TEST(bad_files_do_not_hide_good_ones)
{
	static const char *const dirs[] = { "d", "missing", "loop", "d/cpu.so", NULL };
	struct pf_discover_config c = { .dirs = dirs,
					.own_dir = "none",
					.own_only = true };
	struct pf_discovery *d;

	put_file("d/cpu.so", LIBRARY);
	put_file("d/text_pjrt.so", "no library");
	put_file("d/empty_pjrt.so", "");
	ck_assert_int_eq(mkfifo("d/fifo_pjrt.so", 0600), 0);
	ck_assert_int_eq(symlink("self_pjrt.so", "d/self_pjrt.so"), 0);
	ck_assert_int_eq(symlink("nowhere", "d/gone_pjrt.so"), 0);
	ck_assert_int_eq(symlink("/dev/zero", "d/zero_pjrt.so"), 0);
	make_dirs("d/dir_pjrt.so/x");
	ck_assert_int_eq(symlink("dir_pjrt.so", "d/link_pjrt.so"), 0);
	ck_assert_int_eq(symlink("loop", "loop"), 0);
	d = discover(&c);
	ck_assert_str_eq(
		found(d),
		"--plugin-dir: cpu=d/cpu.so\n"
		"--plugin-dir: empty=d/empty_pjrt.so refused: expected a shared library, "
		"found no ELF header\n"
		"--plugin-dir: fifo=d/fifo_pjrt.so refused: expected a shared library, found a "
		"FIFO\n"
		"--plugin-dir: gone=d/gone_pjrt.so refused: No such file or directory\n"
		"--plugin-dir: link=d/link_pjrt.so refused: expected a shared library, found a "
		"directory\n"
		"--plugin-dir: self=d/self_pjrt.so refused: Too many levels of symbolic links\n"
		"--plugin-dir: text=d/text_pjrt.so refused: expected a shared library, "
		"found no ELF header\n"
		"--plugin-dir: zero=d/zero_pjrt.so refused: expected a shared library, found a "
		"character device\n");
	ck_assert(!place_of(d, "d")->wrong);
	ck_assert_str_eq(place_of(d, "missing")->note, "No such file or directory");
	ck_assert_str_eq(place_of(d, "loop")->note, "Too many levels of symbolic links");
	ck_assert_str_eq(place_of(d, "d/cpu.so")->note, "Not a directory");
	ck_assert(place_of(d, "missing")->wrong && place_of(d, "loop")->wrong);
	ck_assert(!place_of(d, "none")->wrong);
	ck_assert_ptr_nonnull(pf_discovery_pick(d, "fifo", NULL, NULL)->refused);
	ck_assert_ptr_null(pf_discovery_pick(d, "cpu", NULL, NULL)->refused);
	pf_discovery_free(d);
}

static const struct {
	const char *list, *note; /* NULL: no error */
	unsigned n;
} jax_lists[] = {
	{ "a:x.so", NULL, 1 },
	{ "a:x.so,b:x.so", NULL, 2 },
	{ "a:x.so,a:x.so", NULL, 1 },
	{ "x.so", "expected NAME:PATH, found 'x.so'", 0 },
	{ "a:", "expected NAME:PATH, found 'a:'", 0 },
	{ ":x.so,b:x.so", "expected NAME:PATH, found ':x.so'", 1 },
	{ "a b:x.so", "expected NAME:PATH, found 'a b:x.so'", 0 },
	{ ",", "expected NAME:PATH, found ''", 0 },
};

TEST_EACH(jax_lists_are_read, jax_lists)
{
	struct pf_discover_config c = { .root = "/nowhere" };
	struct pf_discovery *d;
	const struct pf_search_place *p = NULL;

	put_file("x.so", LIBRARY);
	setenv("PJRT_NAMES_AND_LIBRARY_PATHS", jax_lists[_i].list, 1);
	d = discover(&c);
	for (unsigned i = 0; i < d->n_places; i++)
		if (strstr(d->places[i].source, "JAX") ||
		    strstr(d->places[i].source, "NAMES"))
			p = &d->places[i];
	ck_assert_uint_eq(d->n_files, jax_lists[_i].n);
	if (jax_lists[_i].note)
		ck_assert_str_eq(p->note, jax_lists[_i].note);
	ck_assert_int_eq(p->wrong, jax_lists[_i].note != NULL);
	pf_discovery_free(d);
}

TEST(there_are_limits)
{
	struct pf_discover_config c = { .root = "/nowhere" };
	pf_autobuf struct pf_buf list = PF_BUF_INIT;
	struct pf_discovery *d;
	char path[64];

	for (int i = 0; i < PF_DISCOVER_FILES + 5; i++) {
		snprintf(path, sizeof(path), "many/libpjrt_%d.so", i);
		put_file(path, LIBRARY);
	}
	put_file("one/libpjrt_one.so", LIBRARY);
	setenv("LD_LIBRARY_PATH", "one:many", 1);
	d = discover(&c);
	ck_assert_uint_eq(d->n_files, PF_DISCOVER_FILES);
	ck_assert_ptr_nonnull(pf_discovery_pick(d, "one", NULL, NULL));
	ck_assert_str_eq(place_of(d, "many")->note,
			 "there are more than 256 plugins; the others are left out");
	pf_discovery_free(d);
	for (int i = 0; i < PF_DISCOVER_PLACES + 5; i++)
		pf_buf_printf(&list, "/nowhere/%d:", i);
	pf_buf_puts(&list, "one");
	setenv("LD_LIBRARY_PATH", list.data, 1);
	setenv("PJRT_PLUGIN_PATH", "one", 1);
	d = discover(&c);
	ck_assert_uint_eq(d->n_places, PF_DISCOVER_PLACES);
	ck_assert_ptr_nonnull(pf_discovery_pick(d, "one", NULL, NULL));
	ck_assert_ptr_nonnull(strstr(d->places[PF_DISCOVER_PLACES - 1].note,
				     "there are more than 511"));
	ck_assert(d->places[PF_DISCOVER_PLACES - 1].wrong);
	pf_discovery_free(d);
}

TEST(a_directory_is_read_up_to_a_limit)
{
	static const char *const dirs[] = { "large", "small", NULL };
	struct pf_discover_config c = { .dirs = dirs, .own_only = true };
	struct pf_discovery *d;
	char path[64];

	make_dirs("large/x");
	put_file("small/cpu.so", LIBRARY);
	for (int i = 0; i < PF_DISCOVER_ENTRIES + 1; i++) {
		snprintf(path, sizeof(path), "large/%d", i);
		close(open(path, O_CREAT | O_WRONLY, 0600));
	}
	d = discover(&c);
	ck_assert_str_eq(found(d), "--plugin-dir: cpu=small/cpu.so\n");
	ck_assert_str_eq(place_of(d, "large")->note,
			 "more than 65536 files; the others are not looked at");
	ck_assert(place_of(d, "large")->wrong);
	pf_discovery_free(d);
}

/* There must be room for "/pjrt_plugin.so" behind each name, also where the name alone fits. */
TEST(a_path_that_is_too_long_is_skipped)
{
	char dir[PATH_MAX] = "d", path[NAME_MAX + 16];
	const char *const dirs[] = { dir, NULL };
	struct pf_discover_config c = { .dirs = dirs, .own_only = true };
	struct pf_discovery *d;

	snprintf(path, sizeof(path), "d/%0*d.so", NAME_MAX - 3, 0);
	put_file(path, LIBRARY);
	put_file("d/cpu.so", LIBRARY);
	for (size_t n = 1; n < PATH_MAX - NAME_MAX - 8; n += 2)
		strcpy(dir + n, "/.");
	d = discover(&c);
	ck_assert_uint_eq(d->n_files, 1);
	ck_assert_str_eq(d->files[0].name, "cpu");
	pf_discovery_free(d);
}

/* --- Python's packages --------------------------------------------------------------- */

/* The layouts of three real wheels and of JAX's. */
TEST(python_packages_are_found)
{
	static const char site[] = "v*[e]{nv}/lib/python3.12/site-packages";
	struct pf_discover_config c = { .root = work_dir };
	struct pf_discovery *d;
	char path[PATH_MAX];
	static const struct {
		const char *path, *text; /* NULL: a library */
	} files[] = {
		{ "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so", NULL },
		{ "xla_cpu_pjrt-0.0.1.dist-info/RECORD", "" },
		{ "fastatomstruct_xla_cpu/libpjrt_cpu.so", NULL },
		{ "fastatomstruct_xla_cpu-2026.6.23.dist-info/RECORD", "" },
		{ "jax_plugins/xla_cuda12/xla_cuda_plugin.so", NULL },
		{ "jax_plugins/xla_cuda12/__init__.py", "" },
		{ "jax_plugins/unpacked/pjrt_plugin.so", NULL }, /* by hand */
		{ "libtpu/libtpu.so", NULL },
		{ "iree/_pjrt_libs/cpu/pjrt_plugin_iree_cpu.so", NULL },
		{ "_hidden/libpjrt_hidden.so", NULL },
		{ "numpy/core/x.so", NULL },
		{ "other/some_plugin.so", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", site, files[i].path);
		put_file(path, files[i].text ? files[i].text : LIBRARY);
	}
	/* Another name of the same directory, as in virtual environments. */
	ck_assert_int_eq(symlink("lib", "v*[e]{nv}/lib64"), 0);
	setenv("VIRTUAL_ENV", "v*[e]{nv}", 1);
	d = discover(&c);
	ck_assert_ptr_null(place_of(d, "lib64"));
#define SITE "v*[e]{nv}/lib/python3.12/site-packages/"
	ck_assert_str_eq(
		found(d),
		"$VIRTUAL_ENV: cpu=" SITE
		"fastatomstruct_xla_cpu/libpjrt_cpu.so 2026.6.23 "
		"(fastatomstruct_xla_cpu 2026.6.23)\n"
		"$VIRTUAL_ENV: iree_cpu=" SITE
		"iree/_pjrt_libs/cpu/pjrt_plugin_iree_cpu.so\n"
		"$VIRTUAL_ENV: tpu=" SITE "libtpu/libtpu.so\n"
		"$VIRTUAL_ENV: unpacked=" SITE "jax_plugins/unpacked/pjrt_plugin.so\n"
		"$VIRTUAL_ENV: xla_cpu=" SITE
		"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so 0.0.1 (xla_cpu_pjrt 0.0.1)\n"
		"$VIRTUAL_ENV: xla_cuda12=" SITE
		"jax_plugins/xla_cuda12/xla_cuda_plugin.so\n");
	/* The file's name means it, too. */
	ck_assert_str_eq(pf_discovery_pick(d, "xla_cuda", NULL, NULL)->name,
			 "xla_cuda12");
	ck_assert_ptr_null(pf_discovery_pick(d, "xla", NULL, NULL));
	pf_discovery_free(d);
}

/* The python3 that $PATH finds: in a prefix, by a link, in a virtual environment. */
static const struct {
	const char *path; /* $PATH, below the working directory; "./DIR": as it is */
	const char *want; /* the plugin found */
} interpreters[] = {
	{ "base/bin", "base" }, { "nothing:base/bin/", "base" },
	{ "link", "base" }, /* link/python3 -> base/bin/python3 */
	{ "venv/bin", "venv" }, { "nothing", "" },
	{ "./base/bin", "" }, /* whatever lies where the command is given */
};

TEST_EACH(python_installations_are_found, interpreters)
{
	struct pf_discover_config c = { .root = "/nowhere" };
	char text[PATH_MAX] = "", *list = strdup(interpreters[_i].path), *at = list,
	     *word;
	struct pf_discovery *d;

	put_file("base/lib/python3.9/site-packages/p/libpjrt_base.so", LIBRARY);
	put_file("base/bin/python3", "");
	chmod("base/bin/python3", 0700);
	make_dirs("link/x");
	ck_assert_int_eq(symlink("../base/bin/python3", "link/python3"), 0);
	put_file("venv/lib/python3.9/site-packages/p/libpjrt_venv.so", LIBRARY);
	make_dirs("venv/bin/x");
	ck_assert_int_eq(symlink("../../base/bin/python3", "venv/bin/python3"), 0);
	put_file("venv/pyvenv.cfg", "");

	while ((word = strsep(&at, ":")))
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s/%s",
			 *text ? ":" : "", *word == '.' ? "." : work_dir, word);
	free(list);
	setenv("PATH", text, 1);
	d = discover(&c);
	ck_assert_uint_eq(d->n_files, *interpreters[_i].want != '\0');
	if (d->n_files) {
		ck_assert_str_eq(d->places[d->files[0].place].source, "python3 on $PATH");
		ck_assert_str_eq(d->files[0].name, interpreters[_i].want);
	}
	pf_discovery_free(d);
}

UNIT_FIXTURE(set_up, work_dir_end)
