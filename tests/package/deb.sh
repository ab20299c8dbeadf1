#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 90 CPU-s
# LIMIT: 3600 s
# The package: lintian finds nothing in it; installed, it runs the demo.  In the deep run it is made
# again in another folder, with the same bytes.
. "$srcdir/tests/lib.sh"
requires command -v dh
requires command -v lintian
requires test -e "$plugins/cpu/pjrt_plugin.so"
requires isolated
# ccache can write paths into what it compiles.
export CCACHE_DISABLE=1

make_alone deb
deb=$(echo "$build"/deb/pjrtfs_*.deb)

# -- again, elsewhere, by somebody with other habits
if [ "$times" != 1 ]; then
	make_alone dist
	mkdir -p other/folder
	tar -C other/folder -xf "$build"/pjrtfs-*.tar.xz
	(
		cd other/folder/pjrtfs-*
		umask 027
		mkdir -p plugins/include
		cp "$plugins/include/pjrt_c_api.h" plugins/include/
		TZ=Asia/Tokyo LC_ALL=C.UTF-8 dpkg-buildpackage -J -us -uc -b >"$work/out" 2>&1
	) || fail "dpkg-buildpackage: $(tail -n 40 out)"
	same "$deb" other/folder/pjrtfs_*.deb
fi

# -- lintian
lintian --allow-root --fail-on error,warning "$build"/deb/pjrtfs_*.changes >out 2>&1 ||
	fail "lintian: $(cat out)"

# -- installed over this system, in a mount namespace
dpkg-deb -x "$deb" root
mount -t overlay -o "lowerdir=$work/root/usr:/usr" overlay /usr
for file in lib/systemd/system/pjrtfs@.service share/bash-completion/completions/pjrtfs \
	share/doc/pjrtfs/docs/HACKING.md share/doc/pjrtfs/docs/serving.md share/doc/pjrtfs/tests/data/x.npy share/doc/pjrtfs/demo/mlp/w1.npy share/doc/pjrtfs/examples/call.py share/pjrtfs/commands.schema.json share/pjrtfs/schema/info.schema.json \
	share/man/man1/pjrtfs-fetch-plugins.1.gz share/man/man5/pjrtfs-control.5.gz share/man/man8/umount.fuse.pjrtfs.8.gz \
	share/zsh/vendor-completions/_pjrtfs; do
	test -e "root/usr/$file" || test -e "root/$file" || fail "not in the package: $file"
done
# What pages link to is there, and the manual pages name the package's paths.
find root/usr/share/doc/pjrtfs -name '*.md' | while read -r page; do
	grep -oE '\]\([^)#: ]+[)#]' "$page" | sed 's|^..|/usr/'"${page#root/usr/}"'/../|; s|.$||' || :
done >links
sed 's|/[^/]*\.md/\.\./|/|' links | sort -u | while read -r link; do
	test -e "$link" || test -e "$link.gz" || fail "a page links to $link"
done
[ -s links ] || fail "no page has a link"
zcat root/usr/share/man/man?/*.gz | sed 's/\\-/-/g' | grep -oE '/usr/[^ ]*pjrtfs[a-zA-Z/._-]*[a-z]' | sort -u >paths
grep -q '^/usr/share/pjrtfs/targets' paths || fail "the manual's paths: $(cat paths)"
while read -r path; do
	case $path in
	/usr/local/lib/pjrtfs/plugins*) ;; # of pjrtfs-fetch-plugins
	*) test -e "root$path" || fail "the manual names $path, which is not in the package" ;;
	esac
done <paths
cd "$build"/deb/pjrtfs-0* || exit
PJRTFS_PLUGIN_PATH=$plugins "$patient" $((patience * 5)) debian/tests/demo >"$work/out" 2>&1 ||
	fail "debian/tests/demo: $(tail -n 40 "$work/out")"
tells "$work/out" '^/usr/bin/pjrtfs$' 'numbers, as JAX computed them$' '^Unmounted\.'
