/* SPDX-License-Identifier: Apache-2.0 */
/* What of this host and this process decides what a compiler makes. */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "pjrtfs/cache/key.h"

enum { MAX_FILE = 1 << 20 };

/* Append what PATH holds, up to MAX_FILE bytes. */
static void read_file(const char *path, struct pf_buf *out)
{
	pf_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *dst = fd >= 0 ? pf_buf_reserve(out, MAX_FILE) : NULL;
	size_t got = 0;
	ssize_t n = 1;

	while (dst && got < MAX_FILE && n > 0) {
		n = read(fd, dst + got, MAX_FILE - got);
		got += n > 0 ? (size_t)n : 0;
	}
	if (dst) {
		dst[got] = '\0';
		out->len += got;
	}
}

/* Of x86, ARM, POWER, s390 and RISC-V; clocks and the like change all the time. */
static bool tells_of_code(const char *line)
{
	static const char *const keys[] = {
		"vendor_id",   "cpu family",
		"model",       "model name",
		"stepping",    "flags",
		"Features",    "CPU implementer",
		"CPU variant", "CPU architecture",
		"CPU part",    "CPU revision",
		"cpu",         "isa",
		"uarch",       "features",
	};
	size_t len = strcspn(line, "\t:\n");

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (len == strlen(keys[i]) && !memcmp(line, keys[i], len))
			return true;
	return false;
}

void pf_cache_host(const char *cpuinfo, struct pf_buf *out)
{
	pf_autobuf struct pf_buf text = PF_BUF_INIT;
	struct utsname machine;
	cpu_set_t cpus;

	read_file(cpuinfo, &text);
	/* The first processor's lines end with an empty one. */
	for (const char *line = text.data; line && *line && *line != '\n';) {
		size_t len = strcspn(line, "\n");

		if (tells_of_code(line))
			pf_buf_printf(out, "%.*s\n", (int)len, line);
		line += len + (line[len] == '\n');
	}
	if (uname(&machine) == 0)
		pf_buf_printf(out, "%s\n", machine.machine);
	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		pf_buf_printf(out, "%d\n", CPU_COUNT(&cpus));
}

static bool is_read_by_compilers(const char *variable)
{
	static const char *const prefixes[] = { "XLA_",  "TF_XLA_", "LIBTPU_", "TPU_",
						"CUDA_", "NVIDIA_", "ROCM_",   "HIP_",
						"HSA_",  "NEURON_", "LLVM_",   "MLIR_" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void pf_cache_environment(char *const *environ, struct pf_buf *out)
{
	pf_autofree char **list = NULL;
	size_t n = 0, used = 0;

	while (environ[n])
		n++;
	list = calloc(n + 1, sizeof(*list));
	if (!list) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (is_read_by_compilers(environ[i]))
			list[used++] = environ[i];
	qsort(list, used, sizeof(*list), compare);
	for (size_t i = 0; i < used; i++) {
		const char *flags = list[i] + strlen("XLA_FLAGS=");

		pf_buf_printf(out, "%s\n", list[i]);
		/* XLA takes what does not begin with a dash for a file's name. */
		if (!strncmp(list[i], "XLA_FLAGS=", 10) && *flags && *flags != '-')
			read_file(flags, out);
	}
}
