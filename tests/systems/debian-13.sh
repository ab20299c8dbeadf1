#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On Debian 13, in a system that the test makes and forgets, pjrtfs is built without a warning, runs
# the demo and passes the smoke tests.
# TIER: deep
# SANITIZE: none
# NEEDS: net
# CPU: 240
. "$srcdir/tests/lib.sh"
requires test -n "$others" # root
requires command -v debootstrap
requires test -e "$top/.git" # to know its sources
requires_mount
own_namespace --mount --pid --fork --kill-child --mount-proc --propagation private

# What the smoke tests need beside scripts/setup's packages.
smoke_packages="attr jq parallel perl procps psmisc python3-numpy xz-utils"
# Until tests/run says which they are.
smoke_tests="program-forms tree run call control cache npy jobs life worker-killed"
smoke_units="base formats wire store"

# part NAME COMMAND...: one part of the work, with its time; its output is shown if it fails.
part()
{
	local start=$SECONDS
	"${@:2}" >"$work/said" 2>&1 </dev/null || fail "$1: $(tail -n 60 "$work/said")"
	echo "$1: $((SECONDS - start)) s"
}

# The mirror of this system has the other's packages, too.
mirror=$(apt-get indextargets --format "\$(SITE)" 'Label: Debian' | sort -u | head -n 1)
requires test -n "$mirror"

# The system lies in memory: no disk waits for dpkg, and it ends with the mount namespace.
root=$work/root
mkdir root
mount -t tmpfs -o mode=755 tmpfs root
end()
{
	local status=$?
	set +e
	umount -l "$root" # and what is mounted in it
	(exit "$status")
	lib_end
}
trap end EXIT
part debootstrap debootstrap --variant=minbase trixie "$root" "$mirror"

in_system()
{
	chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive CONFIGURE_FLAGS=--enable-werror \
		PJRTFS_TEST_PATIENCE="$patience" \
		${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
		bash -euc "cd /pjrtfs; $1"
}
mkdir root/pjrtfs
git -C "$top" -c safe.directory='*' ls-files -co --exclude-standard -z |
	tar -C "$top" --null -T - -c | tar -C root/pjrtfs -x
mkdir root/pjrtfs/plugins
mount --bind "$plugins" root/pjrtfs/plugins
mount --rbind /dev root/dev
mount -t proc proc root/proc

part "scripts/setup" in_system scripts/setup
part "packages of the tests" in_system \
	"apt-get -q -y --no-install-recommends install $smoke_packages"
part demo in_system 'PJRTFS_BUILD=build scripts/demo'
for layer in $smoke_units; do
	# shellcheck disable=SC2016 # the other shell's words
	part "unit tests of $layer" in_system 'programs=$(cd tests/unit && printf "tests/unit/%s\n" '"$layer"'/check_*.c)
		cd build
		make -j$(nproc) ${programs//.c/}
		for program in ${programs//.c/}; do
			srcdir=.. plugins=/pjrtfs/plugins timeout -k 5 600 "$program"
		done'
done
for name in $smoke_tests; do
	part "$name" in_system "cd build
		srcdir=.. timeout -k 5 600 bash ../tests/integration/$name.sh"
done
