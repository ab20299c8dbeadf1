#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# NEEDS: net
# COST: 330 CPU-s
# LIMIT: 3600 s
# On Debian 13, in a system that the test makes and forgets, the package and the portable archive made here mount; pjrtfs is built
# without a warning, runs the demo and passes the smoke tests of the default plugin, but for those of style; with its Python, the
# newest JAX that there is exports everyday functions, which give JAX's numbers on the default plugin and on one of an older
# StableHLO: each in one of three forms, which take turns, and in the deep run in all.
. "$srcdir/tests/lib.sh"
. "$top/tests/root.sh"

# What the smoke tests need beside scripts/setup's packages.
smoke_packages="attr iproute2 jq parallel perl procps psmisc python3-numpy"

package
new_root trixie
try_package
portable
try_portable
put_tree

in_root 'apt-get -q purge xz-utils' >out 2>&1 || fail "apt-get: $(cat out)" # as it is in a bare system
part "scripts/setup" in_tree scripts/setup
part "what packs the archive and the wheel" in_tree 'command -v xz'
part "packages of the tests" in_tree \
	"apt-get -q -y --no-install-recommends install $smoke_packages"
part demo in_tree 'PJRTFS_BUILD=$PWD/build scripts/demo'
part "the tests' programs" in_tree 'make -C build -j$(nproc) check-programs'
part "smoke tests" in_tree 'smoke=$(tests/run --list | awk "\$1 == \"smoke\" && \$6 !~ /^style/ { print \$6 }")
	PJRTFS_TEST_PLUGIN=$PWD/plugins/cpu/pjrt_plugin.so tests/run --build build $smoke'
tail -n 1 said

# This system's pip, which knows the way to the index, fetches for that Python; it would compare what a
# package requires with its own.
version=$(in_tree 'python3 -c "import sys; print(*sys.version_info[:2], sep=\".\")"')
part "the newest JAX for Python $version" "$patient" $((patience * 6)) /usr/bin/python3 -m pip install -q --no-compile \
	--target "$root/jax" --python-version "$version" --only-binary=:all: --ignore-requires-python jax flatbuffers
forms=$([ "$times" = 1 ] || echo --all-forms)
part "functions of JAX" in_tree '
	end() { fusermount3 -u -z /mnt/new; fusermount3 -u -z /mnt/old; }
	trap end EXIT
	scripts/run-here /mnt/new --plugin cpu
	scripts/run-here /mnt/old --plugin cpu-0.106
	PYTHONPATH=/jax python3 -B tests/tools/jax_functions.py '"$forms"' /mnt/new /mnt/old'
tail -n 1 said
tells said '^JAX .*, StableHLO 1\.(1[89]|[2-9][0-9])\.' # the newest, not one that an older Python has
