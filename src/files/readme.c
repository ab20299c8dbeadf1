/* SPDX-License-Identifier: Apache-2.0 */
/* README: what to do first. */
#include "internal.h"

static void print_devices(const struct pf_fs *fs, const char *m, struct pf_buf *out)
{
	if (fs->n_devices)
		pf_buf_printf(out,
			      "Devices (the first is the default, whose buffers/ is "
			      "%s/buffers):\n",
			      m);
	for (unsigned i = 0; i < fs->n_devices; i++) {
		const struct device *d = &fs->devices[i];

		pf_buf_printf(out, "  %s  %s\n", d->name,
			      pf_worker_description(d->worker)->devices[d->index].kind);
	}
	for (unsigned i = 0; i < fs->n_workers; i++)
		if (pf_worker_has_client(fs->workers[i], NULL) < 0)
			pf_buf_printf(out,
				      "Plugin %s has no device here, and compiles for "
				      "topologies/; why: %s/plugins/%s/error\n",
				      pf_worker_name(fs->workers[i]), m,
				      pf_worker_name(fs->workers[i]));
	for (unsigned i = 0; i < fs->config.n_failed; i++)
		pf_buf_printf(out, "Plugin %s did not start; why: %s/plugins/%s/error\n",
			      fs->config.failed[i].name, m, fs->config.failed[i].name);
}

/* The lines of a program that adds two arrays, in a here-document. */
#define ADD                                                                              \
	"  func.func @main(%%x: tensor<3xf32>, %%y: tensor<3xf32>) -> tensor<3xf32> {\n" \
	"    %%z = stablehlo.add %%x, %%y : tensor<3xf32>\n"                             \
	"    return %%z : tensor<3xf32>\n"                                               \
	"  }\n"                                                                          \
	"  END\n"

/* What a mount does that has devices. */
static void print_running(const char *m, struct pf_buf *out)
{
	pf_buf_printf(out,
		      "\nTry it; these lines work when pasted:\n\n"
		      "  cat > %s/programs/add.mlir <<'END'\n" ADD
		      "  echo 1 2 3 > %s/buffers/x.txt\n"
		      "  echo 10 20 30 > %s/buffers/y.txt\n"
		      "  echo 'x y -> z' > %s/executables/add/run\n"
		      "  cat %s/buffers/z.txt\n\n",
		      m, m, m, m, m);
	pf_buf_printf(
		out,
		"Write a program into programs/ as NAME.mlir, .mlirbc, .hlo.pb or .jax_exported:\n"
		"closing the file compiles it, but none that is called otherwise.  Write an array\n"
		"into buffers/ (" FILES_ARRAY_NAMES "): closing the file puts it on\n"
		"the device.  Every array can be read as x.npy, x.txt, x.raw, x.safetensors, and\n"
		"x.json describes it.\n"
		"control takes JSON commands, one object each; its reply is read back:\n\n"
		"  exec 3<>%s/control\n"
		"  echo '{\"op\":\"execute\",\"executable\":\"add\",\"inputs\":[\"x\",\"y\"],"
		"\"outputs\":[\"z\"]}' >&3\n"
		"  cat <&3\n\n"
		"Several commands in one: {\"op\":\"batch\",\"steps\":[...]}; \"async\":true makes a\n"
		"job in jobs/.  From a program of yours executables/NAME/call is the fastest way:\n"
		"write the inputs as .npy, read the outputs as .npy, on one descriptor.\n\n",
		m);
}

/* What a mount does whose plugins have no device here. */
static void print_compiling(const char *m, struct pf_buf *out)
{
	pf_buf_printf(
		out,
		"\nNothing runs here, and buffers/ takes no array: programs are compiled for\n"
		"devices elsewhere.  Name these devices, TPUs by a name, GPUs by options:\n\n"
		"  echo v5e:2x2 > %s/topologies/tpu.txt\n"
		"  echo '{\"name\":\"\",\"options\":{\"topology\":\"1x1x1\",\"target_config\":"
		"\"h100_sxm\"}}' > %s/topologies/gpu.json\n\n"
		"Then compile a program for them (\"gpu\" for the others; \"plugin\" names another\n"
		"plugin than the first), and see what it costs there:\n\n"
		"  touch %s/programs/add.mlir\n"
		"  echo '{\"topology\":\"tpu\"}' > %s/executables/add/options.json\n"
		"  cat > %s/programs/add.mlir <<'END'\n" ADD
		"  cat %s/executables/add/estimate.json\n\n",
		m, m, m, m, m, m);
	pf_buf_puts(
		out,
		"cp does the same with a file: NAME.mlir, .mlirbc, .hlo.pb or .jax_exported.  The\n"
		"compiled program is executables/NAME/serialized: as NAME.pjrtexe in programs/ it\n"
		"runs in a mount that has these devices.  Without a mount,\n"
		"pjrtfs --estimate v5e:2x2 NAME.mlir tells what a program costs.\n\n");
}

/* Where it says what failed; RUNS: there are devices. */
static void print_failures(const char *m, bool runs, struct pf_buf *out)
{
	pf_buf_printf(out,
		      "When a command fails, this says why:\n\n"
		      "  cat %s/error\n\n"
		      "Older failures are in:\n"
		      "  executables/NAME/error      a program that did not compile\n",
		      m);
	if (runs)
		pf_buf_puts(
			out,
			"  cat executables/NAME/run    the reply to your last run\n"
			"  buffers/NAME.json           an array, or a NAME, that was refused\n");
	pf_buf_puts(
		out,
		"  plugins/NAME/log            what the plugin printed\n"
		"  tail -f events              all of these, and all other events\n"
		"  trace.json                  the same on a time line (ui.perfetto.dev)\n\n");
}

static int readme_show(struct pf_node *node, struct pf_buf *out, struct pf_err *err)
{
	struct pf_fs *fs = fs_of(node);
	const char *m = fs->config.mountpoint ? fs->config.mountpoint : "MOUNTPOINT";
	bool runs = fs->n_devices > 0;

	(void)err;
	pf_buf_puts(out, "This is pjrtfs: accelerators as files.\n\n");
	print_devices(fs, m, out);
	if (runs)
		print_running(m, out);
	else
		print_compiling(m, out);
	print_failures(m, runs, out);
	if (runs) {
		pf_buf_puts(out, "These lines convert files of other formats:\n\n");
		files_print_conversions(out);
		pf_buf_puts(out, "\n");
	}
	pf_buf_puts(out, "The manual: man 1 pjrtfs, man 5 pjrtfs, man -k pjrtfs.\n");
	return 0;
}

const struct pf_kind kind_readme = { .name = "README",
				     .mode = S_IFREG | 0444,
				     .show = readme_show };
