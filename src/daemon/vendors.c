/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugins of each vendor get beyond what all get. */
#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/json.h"

/* Words with a blank between them, or NULL.  docs/SECURITY.md has the same table: tests/style/vendors.sh. */
struct vendor {
	const char *plugins; /* patterns of the names of plugins, and of their files */
	const char *sandbox; /* its mode, if the user names none; NULL: as any plugin's */
	const char *variables, *options; /* NAME=VALUE, unless the user sets NAME */
	/* Variables where no device on the PCI bus is of the vendor PCI. */
	const char *pci, *without;
	/* In the mode device: patterns of the files in /dev that it reads, writes and controls; what it
	 * reads elsewhere; directories in which it makes files. */
	const char *devices, *reads, *writes;
};

static const struct vendor vendors[] = {
	{
		.plugins = "tpu libtpu*",
		/* In strict, which forbids the timer of its profiler, it aborts. */
		.sandbox = "device",
		/* Its lock is a file in /tmp, which is everyone's and which the sandbox forbids: one
		 * process loads it for a mount.  Its logs would be files in /dev/shm: the plugin's log
		 * has what it prints. */
		.variables = "ALLOW_MULTIPLE_LIBTPU_LOAD=1 GOOGLE_LOGTOSTDERR=1",
		/* It would ask the cloud's metadata server for a TPU, without end. */
		.pci = "0x1ae0",
		.without = "TPU_SKIP_MDS_QUERY=1",
		.devices = "/dev/accel /dev/accel[0-9]* /dev/vfio",
	},
	{
		.plugins = "*cuda*",
		.devices = "/dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm "
			   "/dev/nvidia-uvm-tools /dev/nvidia-caps /dev/nvidia-modeset",
		.reads = "/etc/nvidia",
	},
	{
		.plugins = "*rocm*",
		.options = "platform_name=ROCM", /* as JAX gives it */
		.devices = "/dev/kfd /dev/dri",
	},
	{
		.plugins = "*oneapi* *sycl* *xpu*",
		.options = "platform_name=SYCL", /* as JAX gives it */
		.devices = "/dev/dri",
		.reads = "/etc/OpenCL",
	},
	{
		.plugins = "tt libtt* *_tt.so",
		.devices = "/dev/tenstorrent*",
		.writes = "/dev/hugepages /dev/hugepages-1G",
	},
	{
		.plugins = "*neuron*",
		.devices = "/dev/neuron[0-9]*",
	},
	{
		.plugins = "*vulkan*",
		.devices = "/dev/dri /dev/nvidia[0-9]* /dev/nvidiactl "
			   "/dev/nvidia-modeset",
		.reads = "/etc/vulkan",
	},
};

enum { WORD = 64 };

/* Copy the next word of *AT, and move *AT behind it.  False: there is none. */
static bool next_word(const char **at, char word[static WORD])
{
	size_t len;

	if (!*at)
		return false;
	*at += strspn(*at, " ");
	len = strcspn(*at, " ");
	snprintf(word, WORD, "%.*s", (int)len, *at);
	*at += len;
	return len;
}

static bool is_of(const struct vendor *v, const struct pf_candidate *c)
{
	const char *slash = c->path ? strrchr(c->path, '/') : NULL, *at = v->plugins;
	char word[WORD];

	while (next_word(&at, word))
		if (fnmatch(word, c->name, 0) == 0 ||
		    (slash && fnmatch(word, slash + 1, 0) == 0))
			return true;
	return false;
}

/* Does the PCI bus have a device of VENDOR ("0x1ae0")? */
static bool has_device(const char *vendor)
{
	bool found = false;
	glob_t files;

	if (glob("/sys/bus/pci/devices/*/vendor", 0, NULL, &files))
		files.gl_pathc = 0;
	for (size_t i = 0; i < files.gl_pathc && !found; i++) {
		char text[16];

		pf_read_start(files.gl_pathv[i], text, sizeof(text));
		found = !strncmp(text, vendor, strlen(vendor));
	}
	globfree(&files);
	return found;
}

/* --- variables and create options ---------------------------------------------------------- */

/* Set NAME of O to VALUE for each NAME=VALUE in WORDS that O lacks, and write those that are so to NOTE. */
static void add_words(struct json_object *o, const char *words, struct pf_buf *note)
{
	char word[WORD];

	while (next_word(&words, word)) {
		char *value = strchr(word, '=');

		*value++ = '\0';
		if (!json_object_object_get_ex(o, word, NULL))
			pf_json_add_string(o, word, value);
		if (!strcmp(pf_json_get_string(o, word), value))
			pf_buf_printf(note, " %s=%s", word, value);
	}
}

/* The variables of WORDS that pjrtfs's own environment lacks: else the user has set them. */
static void add_variables(struct json_object *env, const char *words, struct pf_buf *note)
{
	char word[WORD], name[WORD];

	while (next_word(&words, word)) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
		if (!getenv(name))
			add_words(env, word, note);
	}
}

static void add_settings(const struct vendor *v, struct pf_candidate *c,
			 struct pf_buf *note)
{
	if (v->sandbox && !json_object_object_get_ex(c->sandbox, "sandbox", NULL))
		pf_json_add_string(c->sandbox, "sandbox", v->sandbox);
	add_variables(c->env, v->variables, note);
	if (v->pci && !has_device(v->pci))
		add_variables(c->env, v->without, note);
	add_words(c->options, v->options, note);
}

int vendors_set(struct pf_candidate *c, struct pf_err *err)
{
	pf_autobuf struct pf_buf words = PF_BUF_INIT;

	for (size_t i = 0; i < PF_ARRAY_SIZE(vendors); i++)
		if (is_of(&vendors[i], c))
			add_settings(&vendors[i], c, &words);
	free(pf_steal(&c->note));
	if (words.len &&
	    asprintf(&c->note,
		     "pjrtfs: it runs with%s, as plugins of its vendor need; "
		     "--plugin-env and --plugin-option change that\n",
		     words.data) < 0)
		c->note = NULL;
	return !words.failed && !words.len == !c->note && pf_json_complete(c->env) &&
			       pf_json_complete(c->options) &&
			       pf_json_complete(c->sandbox)
		       ? 0
		       : no_memory(err);
}

/* --- files -------------------------------------------------------------------------------- */

static void add_paths(struct json_object *sandbox, const char *key, const char *words)
{
	struct json_object *list = pf_json_get(sandbox, key, json_type_array);
	char word[WORD];

	if (!list) {
		list = json_object_new_array();
		pf_json_add(sandbox, key, list);
	}
	while (next_word(&words, word))
		pf_json_append(list, json_object_new_string(word));
}

void vendors_add_files(struct pf_candidate *c)
{
	bool known = false;

	for (size_t i = 0; i < PF_ARRAY_SIZE(vendors); i++)
		known |= is_of(&vendors[i], c);
	for (size_t i = 0; i < PF_ARRAY_SIZE(vendors); i++) {
		const struct vendor *v = &vendors[i];

		if (known && !is_of(v, c))
			continue;
		add_paths(c->sandbox, "devices", v->devices);
		add_paths(c->sandbox, "driver_read", v->reads);
		add_paths(c->sandbox, "driver_write", v->writes);
	}
}
