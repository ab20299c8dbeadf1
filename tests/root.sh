# SPDX-License-Identifier: Apache-2.0
# Help for tests in another system, which they make and forget.  After lib.sh, in namespaces of the test's own.
# shellcheck shell=bash disable=SC2154
requires command -v debootstrap
requires_mount
requires isolated

# part NAME COMMAND...: one part of the work, with its time; its output is shown if it fails.
part()
{
	local start=$SECONDS
	"${@:2}" >"$work/said" 2>&1 </dev/null || fail "$1: $(grep -v '^PASS' "$work/said" | tail -n 200)"
	echo "$1: $((SECONDS - start)) s"
}

# The mirror of this system has the other's packages, too.
mirror=$(apt-get indextargets --format "\$(SITE)" 'Label: Debian' | sort -u | head -n 1)
requires test -n "$mirror"

# new_root SUITE [PACKAGES [MIRROR SCRIPT option...]]: a minimal system, and these packages, at $root.
# It lies in memory: no disk waits for dpkg, and it ends with the mount namespace.
new_root()
{
	root=$work/$1
	mkdir "$root"
	mount -t tmpfs -o mode=755 tmpfs "$root"
	at_end "umount -l '$root'" # and what is mounted in it
	part "debootstrap $1" debootstrap --variant=minbase ${2:+"--include=$2"} "${@:5}" "$1" "$root" "${3:-$mirror}" "${@:4:1}"
	ln -sfn ../proc/self/mounts "$root/etc/mtab" # as systemd and containers make it
	mkdir "$root/old"
	mount --rbind /dev "$root/dev"
	mount -t proc proc "$root/proc"
}

# in_root COMMANDS [VARIABLE=VALUE...]: the system becomes the root of a mount namespace, not of a chroot: after
# its own unshare(2), pjrtfs --run would not find its worker there.
in_root()
{
	unshare --mount --propagation private bash -euc 'cd "$1"; pivot_root . old; cd /; umount -l /old; exec "${@:2}"' - \
		"$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive ${http_proxy:+"http_proxy=$http_proxy"} \
		${https_proxy:+"https_proxy=$https_proxy"} "${@:2}" bash -euc "$1"
}
