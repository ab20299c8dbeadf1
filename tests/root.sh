# SPDX-License-Identifier: Apache-2.0
# Help for tests in another system, which they make and forget.  After lib.sh, in namespaces of the test's own.
# shellcheck shell=bash disable=SC2154
requires command -v debootstrap
requires_mount
requires isolated

# part NAME COMMAND...: one part of the work, with its time, its own and the kernel's for it; its output is shown if it fails.
part()
{
	local TIMEFORMAT="$1: %0R s, %0U + %0S CPU-s"
	time "${@:2}" >"$work/said" 2>&1 </dev/null || fail "$1: $(grep -v '^PASS' "$work/said" | tail -n 200)"
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
	part "debootstrap $1" debootstrap --variant=minbase ${2:+"--include=$2"} "${@:5}" "$1" "$root" "${3:-$mirror}" "${@:4:1}"
	ln -sfn ../proc/self/mounts "$root/etc/mtab" # as systemd and containers make it
	printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # packages start no daemon
	chmod +x "$root/usr/sbin/policy-rc.d"
	mkdir "$root/old"
	mount --rbind /dev "$root/dev"
	mount --rbind /sys "$root/sys"
	mount -t proc proc "$root/proc"
}

# as_here: pip in $root, which has ca-certificates, finds the index as it does here.
as_here()
{
	cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
	[ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
}

# put_tree: this tree, without what was built, as /pjrtfs of $root, with the plugins of here; what pip brought for this
# system's Python is not among them.
put_tree()
{
	local dir
	mkdir "$root/pjrtfs"
	tar -C "$top" --exclude=./plugins --exclude=./build --exclude=./.git --exclude=./configure -c . |
		tar -C "$root/pjrtfs" -x
	for dir in "$plugins"/*/; do
		case $dir in
		*/jax/ | */validators/) continue ;;
		esac
		dir=$(basename "$dir")
		mkdir -p "$root/pjrtfs/plugins/$dir"
		mount --bind "$plugins/$dir" "$root/pjrtfs/plugins/$dir"
	done
}

# in_tree COMMANDS: there, where scripts/setup builds without what debuggers need
in_tree()
{
	in_root "cd /pjrtfs; $1" CONFIGURE_FLAGS='--enable-werror CFLAGS=-O2' PJRTFS_TEST_PATIENCE="$patience"
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

# portable: make $archive.
portable()
{
	make_alone portable 'portable/pjrtfs-*.tar.xz'
	archive=$(echo "$work"/pjrtfs-*-linux-*.tar.xz)
}

# try_portable: in $root, after try_package, with fuse3 and xz, and nothing else of what came with the package, an ordinary user
# unpacks $archive, mounts, and runs a program; what it needs of libraries, but for the C library, comes from the archive.
try_portable()
{
	local home=$root/home/user
	part "fuse3 and xz alone" in_root 'apt-get -q --purge autoremove && apt-get -q install fuse3 xz-utils'
	in_root 'useradd -m user'
	mknod -m 666 "$root/fuse" c 10 229 # open to users, as is usual
	mount --bind "$root/fuse" "$root/dev/fuse"
	cp "$archive" "$home"
	mkdir -p "$home/.local/lib/pjrtfs/plugins"
	mount --bind "$plugins" "$home/.local/lib/pjrtfs/plugins"
	part "the archive in ${root##*/}" in_root 'cd /home/user; exec runuser -u user -- env HOME=/home/user bash -euxc "$COMMANDS"' COMMANDS='
		tar -xf pjrtfs-*-linux-*.tar.xz
		cd pjrtfs-*/
		./check | grep " is ready: $PWD/bin/pjrtfs$"
		[ -e share/man/man1/pjrtfs.1 ]
		[ -e lib/pjrtfs/targets/h100_sxm.txtpb ]
		bin/pjrtfs-top --help
		for file in lib/pjrtfs/pjrtfs*; do
			/lib64/ld-linux-x86-64.so.2 --list "$PWD/$file"
		done | grep "=>" >../loaded
		if grep -v "=> $PWD/lib/pjrtfs/\|^.lib[cm]\.so\.6 " ../loaded; then exit 1; fi

		mkdir ../m
		bin/pjrtfs cpu ../m
		trap "fusermount3 -u ../m" EXIT
		grep "LAPACK cannot be loaded" ../m/ffi/libpjrtfs-lapack/error
		cp share/doc/pjrtfs/tests/data/add.mlir ../m/programs
		cp share/doc/pjrtfs/tests/data/[xy].npy ../m/buffers
		echo "x y -> z" >../m/executables/add/run
		cat ../m/buffers/z.txt >../z
		pid=$(cat ../m/pid)
		trap - EXIT
		fusermount3 -u ../m
		tail --pid="$pid" -f /dev/null'
	shows "$home/z" $'11 22 33\n44 55 66'
}

# package: make $package.
package()
{
	make_alone deb 'deb/pjrtfs_*.deb'
	package=$(echo "$work"/pjrtfs_*.deb)
}

# try_package: in $root, a system without anything else, README.md's lines, as they stand but for Python, install $package with
# few others, fetch a plugin and mount it; what an upgrade says of a mount that goes on is right; what docs/systemd.md says removes all.
try_package()
{
	sed -n '/^There, or, if /,/^As a wheel/s/^    //p' "$top/README.md" | sed 's/ python3-venv$//' >"$root/install"
	sed -n '/^## Remove/,/^## /s/^    //p' "$top/docs/systemd.md" | grep -v '^systemctl ' >"$root/remove"
	mkdir -p "$root/root/build/deb"
	cp "$package" "$root/root/build/deb"
	printf '#!/bin/sh\nexec "$@"\n' >"$root/usr/bin/sudo"
	chmod +x "$root/usr/bin/sudo"
	echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/yes"
	mkdir -p /usr/local/share/ca-certificates # those of this system, for its way to the network
	cp -R /usr/local/share/ca-certificates "$root/usr/local/share"
	part "the package in ${root##*/}" in_root 'cd
		! command -v update-ca-certificates || update-ca-certificates
		apt-get -q update
		. /install
		cat pjrt/health
		version=$(cat pjrt/pid)
		exec >/said
		apt-get -q --reinstall install ./build/deb/pjrtfs_*.deb
		exec 1>&2
		tr -d "\r" </said | sed -n "s/^    kill/kill/p" >/command # dpkg writes to a terminal
		. /command
		until [ "$(readlink /proc/$(cat pjrt/pid)/exe)" = /usr/bin/pjrtfs ]; do sleep 0.1; done
		fusermount3 -u pjrt
		rmdir pjrt
		. /remove
		rm -r build
		find / -xdev -name "*pjrtfs*" >/left'
	equal "what is left" "$(cat "$root/left")" ''
}
