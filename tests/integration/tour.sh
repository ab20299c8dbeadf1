#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NEEDS: net
# The lines to try it in README.md, and those for pip in docs/building.md: pasted as they stand, each does what is
# written beside it.
. "$srcdir/tests/words.sh"
requires_mount
export PIP_CACHE_DIR=${PIP_CACHE_DIR:-$HOME/.cache/pip} PIP_DISABLE_PIP_VERSION_CHECK=1
export HOME=$work/home PJRTFS_BUILD=$build PJRTFS_CACHE_DIR=$work/cache
mkdir home plugins
# They mount what is called cpu.
ln -s "$(realpath "$plugins/${plugin:-cpu}")" plugins/cpu
export PJRTFS_PLUGIN_PATH=$work/plugins

page README.md 'mount of what the demo has built' '## ' >lines
for command in 'run-here ~/pjrt' 'cp ' 'echo ' 'cat ' 'fusermount3 -u'; do
	grep -qF "$command" lines || fail "README.md has no $command: $(cat lines)"
done
# The shell continues after a failed command, as an interactive one does.
at_end "bounded fusermount3 -u -z $HOME/pjrt 2>/dev/null"
(cd "$top" && "$patient" $((patience * 3)) bash <"$work/lines") >out 2>err || {
	fail "they end with status $?: $(cat out err)"
}

tells out '^11 22 33$' '^44 55 66$' '"inputs"' # buffers/z.txt, signature.json
tells out '^write executables/add/run: .*takes 2 inputs, 1 was given$' # error
equal "lines that fail" "$(grep -c . err)" 1
tells err 'Invalid argument$'
tail -c 24 "$HOME/z.npy" | cmp - <(packed 'f<*' 11 22 33 44 55 66)
gone "$HOME/pjrt"

# -- a plugin of pip, in a virtual environment, which pjrtfs finds by its name
page docs/building.md '## A plugin by pip' '## ' >lines
[ "$(wc -l <lines)" = 3 ] || fail "the lines for pip are others: $(cat lines)"
"$patient" $((patience * 6)) python3 -m pip download -q --no-deps -d wheels lammps-jax-pjrt-cpu >out 2>&1 || {
	echo "SKIP: this part: pip reaches no index: $(cat out)"
	exit 77
}
env -u PJRTFS_PLUGIN_PATH -u PYTHONPATH PATH="$build:$PATH" "$patient" $((patience * 6)) \
	bash -eu lines >out 2>err || fail "the lines for pip: $(cat out err)"
tells out '^ok$'
bounded cat "$HOME/pjrt/plugins/cpu/path" >path
tells path "^$HOME/venv/lib.*/pjrt_c_api_cpu_plugin\.so\$"
bounded fusermount3 -u "$HOME/pjrt"
