#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# NEEDS: net
# COST: 65 CPU-s
# LIMIT: 3600 s
# In a minimal system of this release of Debian: at most 12 packages come with the package of make deb, of 60 MB with it, and
# README.md's lines install it; the portable archive of make portable mounts where fuse3 is, and its check says in a line what a
# system lacks; what Containerfile runs makes an image in which its user mounts.  In the deep run the package and the archive, made
# on Debian 12, mount in Ubuntu 24.04, too, and in tests/systems/debian-13.sh in that.
. "$srcdir/tests/lib.sh"
. "$top/tests/root.sh"

package
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
new_root "$suite"
cp "$package" "$root"
part "what comes with it" in_root 'apt-get -q --assume-no install /pjrtfs_*.deb || :'
grep -A 99 '^The following additional packages' said | sed '1d; /^[^ ]/,$d' | wc -w >packages
[ "$(cat packages)" -le 12 ] || fail "$(cat packages) packages: $(cat said)"
tells said '^After this operation, ([1-5]?[0-9]|6[01])\.[0-9] MB'
rm "$root"/pjrtfs_*.deb
try_package
portable
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
	mv /usr/bin/fusermount3 /
	runuser -u user ./check || :
	mv /fusermount3 /usr/bin/
	mount -t tmpfs tmpfs /dev
	./check || :'
tells "$work/said" '^check: fusermount3 is missing, with which users mount: apt install fuse3' \
	'^check: /dev/fuse is missing: modprobe fuse; in a container, start it with --device /dev/fuse'
cd "$work" || exit

# -- the script of plugins finds its list: the plugin is there, as it says
in_root 'cd /home/user/.local/lib/pjrtfs; /home/user/pjrtfs-*/bin/pjrtfs-fetch-plugins --dir plugins cpu'

# -- the image
in_root 'userdel user'
sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$top/Containerfile" | sed -n '/-slim$/,$s/^RUN //p' >"$root/image"
part "the image's packages and user" in_root '. /image'
make -C "$build" install-strip DESTDIR="$root" >out 2>&1 || fail "make install-strip: $(tail -n 20 out)"
mkdir "$root/plugin"
mount --bind "$plugins/cpu" "$root/plugin"
part "the image" in_root 'exec setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/home/pjrtfs \
	/usr/local/bin/pjrtfs /plugin/pjrt_plugin.so --run sh -c "cat \$PJRTFS_MOUNT/health"'
shows said ok

# Ubuntu, whose keys this system has not: TLS vouches for the mirror
if [ "$times" != 1 ] && [ "$suite" = bookworm ] && curl -sfo /dev/null https://archive.ubuntu.com/ubuntu/dists/noble/Release; then
	new_root noble '' https://archive.ubuntu.com/ubuntu gutsy --no-check-gpg --components=main,universe
	try_package
	try_portable
fi
