#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 15 CPU-s
# What docs/examples/import_*.py say of everyday mistakes: one sentence, without a traceback, and nothing half-written
# stays; and where they write if there is no mount.
. "$srcdir/tests/words.sh"
examples=$top/docs/examples
mkdir bin
ln -s /usr/bin/python3 bin/python3
export PATH=$work/bin:$PATH PYTHONDONTWRITEBYTECODE=1

# says PATTERN COMMAND...: it fails with that sentence, and so does the shell that reads what it says to type
says()
{
	# shellcheck disable=SC2016 # sh expands it
	ends_with 1 "$1" sh -c '"$@" | sh' - "${@:2}"
}

# -- packages that are missing: the line that brings them
for framework in jax onnx tensorflow torch; do
	says "^import_$framework\.py: .*/python3 lacks a package .*: pip install .*$framework" \
		python3 -S "$examples/import_$framework.py" a b c d
done

export PYTHONPATH=$plugins/jax
requires python3 -c 'import jax'
mount_pjrtfs --memory-limit 8M
cat >model.py <<'END'
import numpy

w = numpy.ones((4, 2), "f4")
x = numpy.ones((1, 4), "f4")
wrong = numpy.ones((1, 3), "f4")
large = numpy.ones((4, 1 << 20), "f4")


def f(w, x):
    return x @ w


def g(w, x):
    return w.sum() + x.sum()
END
# refused PATTERN ARGUMENT...: import_jax.py says so, and the mount has what it had
refused()
{
	says "^import_jax\.py: $1" python3 -S "$examples/import_jax.py" "${@:2}"
	equal "files after $*" "$(bounded ls -A "$mnt/programs" "$mnt/buffers" | xargs)" "$had"
}
had=$(bounded ls -A "$mnt/programs" "$mnt/buffers" | xargs)
refused 'none\.py: there is no such file$' none.py f w x "$mnt"
refused 'model\.py has no variable fn; it has w, x, wrong, large, f, g$' model.py fn w x "$mnt"
refused 'x in model\.py is no function: it is of type ndarray$' model.py x w x "$mnt"
refused 'cannot import f\(w float32\[4, 2\], wrong float32\[1, 3\]\): model.py, line 10: TypeError: ' model.py f w wrong "$mnt"
refused 'n=two: expected SIZE=NUMBER, as in batch=8$' f.jax_exported n=two "$mnt"
touch f.jax_exported
refused '.*/python3 lacks a package that this needs \(No module named .flatbuffers.\): pip install flatbuffers$' \
	f.jax_exported n=2 "$mnt"
refused 'write buffers/large\.npy: no room for [0-9]+ bytes.* \(--memory-limit\)$' model.py g x large "$mnt"
# an array of another import is whole, and stays
bounded python3 "$examples/import_jax.py" model.py f w x "$mnt" >said
had=$(bounded ls -A "$mnt/programs" "$mnt/buffers" | xargs)
refused 'write buffers/large\.npy: no room ' model.py g x large "$mnt"

# -- torch_xla's script, which needs no package
mkdir -p saved/functions saved/data
cat >saved/functions/forward.meta <<'END'
{"input_locations": [{"type_": "parameter", "position": -1, "name": "0.weight"},
                     {"type_": "input_arg", "position": 0, "name": ""}], "output_signature": [{}]}
END
cp "$data/add.mlir" saved/functions/forward.mlir
cp "$data/x.npy" saved/data/0.weight
bounded python3 "$examples/import_torch_xla.py" saved net "$mnt" >said
equal 'the line to run' "$(cat said)" "echo 'net x -> y' > $mnt/executables/net/run"
bounded cp "$data/y.npy" "$mnt/buffers/x.npy"
bounded bash -eu said
tells "$mnt/executables/net/run" ', by name$'
shows "$mnt/buffers/y.txt" "$sum"
sed -i 's/stablehlo.add/stablehlo.ad/' saved/functions/forward.mlir
fails_with 'import_torch_xla.py: close programs/net.mlir: ' python3 "$examples/import_torch_xla.py" saved net "$mnt"
[ ! -e "$mnt/programs/net.mlir" ] || fail 'a program that was refused stays'
says "^import_torch_xla\.py: cannot import $work, as torch_xla\.stablehlo saves a module: FileNotFoundError: .*forward\.meta'$" \
	python3 "$examples/import_torch_xla.py" "$work" net "$mnt"

# -- no mount: an empty directory is a mount point, another one gets plain files, and the lines bring them into a mount
mkdir empty
says '^import_jax\.py: empty is an empty directory, and no mount: pjrtfs cpu empty mounts there; ' \
	python3 "$examples/import_jax.py" model.py f w x empty
bounded rmdir empty
bounded rm -r "$mnt"/programs/* "$mnt"/buffers/*
bounded python3 "$examples/import_jax.py" model.py f w x plain >lines 2>said
tells said '^import_jax\.py: plain is no mount: plain files were written there\. '
sed -i "s|MOUNTPOINT|$mnt|" lines
bounded bash -eu lines
shows "$mnt/buffers/y.txt" '4 4'
