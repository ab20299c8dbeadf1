#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# NEEDS: net
# COST: 30 CPU-s
# LIMIT: 3600 s
# The wheel of make wheel, in clean environments of Python 3.9 (or 3.10) and 3.13, those that are here, else of the system's:
# an ordinary user installs it with pip, mounts with what came, without NumPy, too, calls a program, and gets an exception.
. "$srcdir/tests/lib.sh"
requires_mount
requires isolated

# find_version VERSION: set $python to such a Python, which pyenv may have.
find_version()
{
	for python in "/usr/bin/python$1" "/usr/local/bin/python$1" ~/.pyenv/versions/"$1".*/bin/"python$1"; do
		! [ -x "$python" ] || return 0
	done
	return 1
}
pythons=()
if find_version 3.9 || find_version 3.10; then pythons+=("$python"); fi
if find_version 3.13; then pythons+=("$python"); fi
[ ${#pythons[@]} != 0 ] || pythons=(/usr/bin/python3)

make_alone wheel 'wheel/pjrtfs-*.whl'
[ "$(wc -c <pjrtfs-*.whl)" -lt 6000000 ] || fail "the wheel is large: $(ls -l pjrtfs-*.whl)"

cp "$data/add.mlir" .
cat >calls.py <<'END'
import os
import numpy
import pjrtfs

with pjrtfs.Mount() as mount:
    add = mount.compile("add", open("../add.mlir").read())
    x = numpy.arange(6, dtype="f4").reshape(2, 3)
    assert (add.call(x, 10 * x) == 11 * x).all()
    try:
        mount.compile("wrong", "func.func @main() { return } x")
    except pjrtfs.Error as error:
        print(error.errno, error)
assert not os.path.exists(mount.path)
END
cat >uses.sh <<'END'
cd "$HOME"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1 PATH=/usr/bin:/bin
export XDG_CACHE_HOME=$HOME
unset PJRTFS_PLUGIN_PATH VIRTUAL_ENV
"$1" -m venv env
pip=(env/bin/python -m pip install -q --no-compile --find-links ..)
"${pip[@]}" --no-deps ../pjrtfs-*.whl
# as the extra cpu brings it
package=$(echo env/lib/python3*/site-packages)/lammps_jax_pjrt_cpu
mkdir "$package"
ln -s "$so" "$package/pjrt_c_api_cpu_plugin.so"
env/bin/python -c 'import pjrtfs; pjrtfs.Mount().close()'
mkdir m
env/bin/pjrtfs cpu m
trap 'fusermount3 -u m' EXIT
cat m/health
exe=$(readlink "/proc/$(cat m/pid)/exe")
[ "${exe#"$PWD"/env/lib/python3}" != "$exe" ]
cat m/plugins/cpu/path
env/bin/pjrtfs-top --once m | head -n 1
trap - EXIT
fusermount3 -u m
# the files that pages name
cd env/share/doc/pjrtfs
cat tests/data/add.mlir >/dev/null
../../../bin/python docs/examples/import_torch_xla.py nowhere net "$HOME/none" 2>&1 | cat
cd "$HOME"
for tool in bench fetch-plugins top; do
	env/bin/pjrtfs-$tool --help | head -n 1
done
"${pip[@]}" pjrtfs
env/bin/python ../calls.py
END
for python in "${pythons[@]}"; do
	echo "$python"
	requires "$patient" $((patience * 6)) "$python" -m pip download -q -d . numpy
	# An ordinary user may not read root's Python: it is mounted, to read only.
	mount --bind "$("$python" -c 'import sys; print(sys.base_prefix)')" /mnt
	mount -o remount,bind,ro /mnt
	libraries=$(case $python in /usr/bin/*) ;; *) echo /mnt/lib ;; esac)
	LD_LIBRARY_PATH=$libraries ordinary bash -eu "$work/uses.sh" "/mnt/bin/${python##*/}" >said 2>&1 ||
		fail "$python: $(cat said)"
	tells said '^ok$' '/plugin/pjrt_plugin\.so$' '^m  pjrtfs ' '^import_torch_xla\.py: cannot import nowhere, ' '^usage: pjrtfs-fetch-plugins ' \
		'^22 close programs/wrong\.mlir: line 1, column 30'
	umount /mnt
	rm -rf home numpy-*.whl
done
