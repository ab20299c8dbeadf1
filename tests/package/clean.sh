#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# NEEDS: net
# COST: 50 CPU-s
# LIMIT: 3600 s
# The package of make deb in a Debian 12 that has nothing else: at most 12 packages come with it, of 60 MB with it, and
# README.md's lines install it; in the deep run in Ubuntu 24.04, too, and in tests/systems/debian-13.sh in that.  There, what
# Containerfile runs makes an image in which its user mounts.
. "$srcdir/tests/lib.sh"
. "$top/tests/root.sh"

package
new_root bookworm
cp "$package" "$root"
part "what comes with it" in_root 'apt-get -q --assume-no install /pjrtfs_*.deb || :'
grep -A 99 '^The following additional packages' said | sed '1d; /^[^ ]/,$d' | wc -w >packages
[ "$(cat packages)" -le 12 ] || fail "$(cat packages) packages: $(cat said)"
tells said '^After this operation, [1-5]?[0-9]\.[0-9] MB|^After this operation, 60\.'
rm "$root"/pjrtfs_*.deb
try_package

# -- the image
sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$top/Containerfile" | sed -n '/-slim$/,$s/^RUN //p' >"$root/image"
part "the image's packages and user" in_root '. /image'
make -C "$build" install-strip DESTDIR="$root" >out 2>&1 || fail "make install-strip: $(tail -n 20 out)"
mkdir "$root/plugin"
mount --bind "$plugins/cpu" "$root/plugin"
mknod -m 666 "$root/fuse" c 10 229
mount --bind "$root/fuse" "$root/dev/fuse"
part "the image" in_root 'exec setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/home/pjrtfs \
	/usr/local/bin/pjrtfs /plugin/pjrt_plugin.so --run sh -c "cat \$PJRTFS_MOUNT/health"'
shows said ok

# Ubuntu, whose keys this system has not: TLS vouches for the mirror
if [ "$times" != 1 ] && curl -sfo /dev/null https://archive.ubuntu.com/ubuntu/dists/noble/Release; then
	new_root noble '' https://archive.ubuntu.com/ubuntu gutsy --no-check-gpg --components=main,universe
	try_package
fi
