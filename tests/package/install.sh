#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: deep
# SANITIZE: none
# NEEDS: net
# COST: 270 CPU-s
# LIMIT: 3600 s
# README.md, docs/building.md and docs/quickstart.md: their blocks that install, pasted in the root of a clone, install
# and mount.  What they write on this system is gone at the end.
. "$srcdir/tests/lib.sh"
requires command -v apt
requires command -v dh
requires_mount
requires isolated
export PIP_CACHE_DIR=${PIP_CACHE_DIR:-$HOME/.cache/pip} PIP_DISABLE_PIP_VERSION_CHECK=1
export DEBIAN_FRONTEND=noninteractive CCACHE_DISABLE=1
requires "$patient" $((patience * 6)) python3 -m pip download -q --no-deps -d wheels lammps-jax-pjrt-cpu

# sudo may be missing where root works.
mkdir bin clone
printf '#!/bin/sh\nexec "$@"\n' >bin/sudo
chmod +x bin/sudo
tar -C "$top" --exclude=./build --exclude=./plugins -cf - . | tar -C clone -xf -
ln -s "$(realpath "$plugins")" clone/plugins

# installs PAGE FROM TO MOUNTPOINT: paste the block between the two lines on a system of its own; if pjrtfs is in PATH
# then, mount(8) finds its helper, too
installs()
{
	local own
	own=$(mktemp -d "$work/own-XXXXXX")
	sed -n "/^$2/,/^$3/s/^    //p" "$top/$1" >lines
	grep -qF "pjrtfs cpu $4" lines || fail "$1 has other lines: $(cat lines)"
	mkdir -p "$own/home"
	(cd clone && unset PJRTFS_PLUGIN_PATH PJRTFS_BUILD && export own && HOME=$own/home USER=root \
		PATH=$work/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		"$patient" $((patience * 60)) unshare --mount --propagation private bash -eu -c '
		for dir in usr etc var; do
			mkdir -p "$own/$dir" "$own/.$dir"
			mount -t overlay -o "lowerdir=/$dir,upperdir=$own/$dir,workdir=$own/.$dir" overlay "/$dir"
		done
		echo "APT::Get::Assume-Yes \"true\";" >/etc/apt/apt.conf.d/99yes # who pastes answers Y
		mount -t tmpfs tmpfs /mnt
		bash -eu "$1"
		mountpoint=$(eval "echo $2")
		cat "$mountpoint/health"
		pid=$(cat "$mountpoint/pid")
		fusermount3 -u "$mountpoint"
		tail --pid="$pid" -f /dev/null
		command -v pjrtfs || exit 0
		mkdir /mnt/by-mount
		mount -t pjrtfs cpu /mnt/by-mount # by the helper that was installed
		cat /mnt/by-mount/health
		umount /mnt/by-mount' - "$work/lines" "$4") >out 2>&1 </dev/null || fail "$1, $2: $(tail -n 40 out)"
	tail -n 3 out >last
}
installs docs/building.md '## From the source' '## As a package' /mnt/pjrt
shows last $'ok\n/usr/local/bin/pjrtfs\nok'
# shellcheck disable=SC2088 # the other shell expands it
{
	installs README.md 'On Debian 12, as a package' 'As a wheel' '~/pjrt'
	shows last $'ok\n/usr/bin/pjrtfs\nok'
	installs README.md 'As a wheel' 'As a portable archive' '~/pjrt'
	installs README.md 'As a portable archive' 'Each last line' '~/pjrt'
	installs docs/quickstart.md '## Install and mount' '## A batch of one' '~/pjrt'
}
tells out '^0\.26894[0-9]* 0\.73105[0-9]*$'
