#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# NEEDS: net
# COST: 40 CPU-s
# LIMIT: 3600 s
# The portable archive of make portable mounts in a minimal system of this release of Debian that has fuse3; made on Debian 12,
# in the deep run in Ubuntu 24.04, too, and in tests/systems/debian-13.sh in that; its check says in a line what a system lacks.
. "$srcdir/tests/lib.sh"
. "$top/tests/root.sh"

portable
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
new_root "$suite" fuse3,xz-utils
try_portable

# -- what check says
cd "$root"/home/user/pjrtfs-*/ || exit
# lacks LINE: check fails, and this is one of its lines
lacks()
{
	fails_with "check: $1" ./check
}
program=lib/pjrtfs/pjrtfs
cp $program kept
sed 's/GLIBC_2\.3/GLIBC_9.3/g' kept >$program
lacks "the C library is too old: expected glibc 2."
sed 's|/lib64/ld-linux-x86-64\.so\.2|/lib64/ld-linux-x86-64.so.0|' kept >$program
lacks 'this system has no GNU C library (Alpine has musl): expected glibc 2.'
cp kept $program
mkdir stub
printf '#!/bin/sh\necho aarch64\n' >stub/uname
chmod +x stub/uname
PATH=$PWD/stub:$PATH lacks 'this archive is for x86_64, and this machine is aarch64: build pjrtfs from its source'
part "without /dev/fuse and fusermount3" in_root 'cd /home/user/pjrtfs-*/
	rm /usr/bin/fusermount3
	runuser -u user ./check || :
	mount -t tmpfs tmpfs /dev
	./check || :'
tells "$work/said" '^check: fusermount3 is missing, with which users mount: apt install fuse3' \
	'^check: /dev/fuse is missing: modprobe fuse; in a container, start it with --device /dev/fuse'
cd "$work" || exit

# -- the script of plugins finds its list: the plugin is there, as it says
in_root 'cd /home/user/.local/lib/pjrtfs; /home/user/pjrtfs-*/bin/pjrtfs-fetch-plugins --dir plugins cpu'

# -- Ubuntu, whose keys this system has not: TLS vouches for the mirror
if [ "$times" != 1 ] && [ "$suite" = bookworm ] && curl -sfo /dev/null https://archive.ubuntu.com/ubuntu/dists/noble/Release; then
	new_root noble fuse3,xz-utils https://archive.ubuntu.com/ubuntu gutsy --no-check-gpg
	try_portable
fi
