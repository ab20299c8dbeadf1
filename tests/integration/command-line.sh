#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command line: an error is one sentence, and status 2 or 1.
. "$srcdir/tests/lib.sh"
export PJRTFS_CACHE_DIR=$work/cache
name=${plugin:-cpu}
mkdir m

# -- --version, --help
"$pjrtfs" --version >out
grep -qxE 'pjrtfs [0-9.]+[0-9a-z.-]*' out || fail "--version: $(cat out)"
"$pjrtfs" -V | cmp - out
"$pjrtfs" --help >out
for word in --plugin --plugin-dir --memory-limit --version -f -d -o MOUNTPOINT fusermount3; do
	grep -qF -e "$word" out || fail "--help says nothing of $word"
done
"$pjrtfs" -h | cmp - out
"$pjrtfs" --help --plugin-dir /nothing | cmp - out

# refused STATUS PATTERN ARGUMENT...: one line on standard error, and no mount.
refused()
{
	refuses "$@"
	equal "what ${*:3} prints" "$(cat out)" ''
	equal "lines about ${*:3} ($(cat err))" "$(wc -l <err)" 1
	! mountpoint -q m || fail "mounted: ${*:3}"
}
refused 2 'unknown option --nothing; see --help' --nothing m
refused 2 'unknown option --memorylimit .did you mean "memory-limit"..; see' --memorylimit 1G m
refused 2 'mount point nowhere: No such file or directory; mkdir -p nowhere$' "$name" nowhere --plugin-dir "$plugins"
refused 2 'mount point nowhere: .*: pjrtfs nowhere MOUNTPOINT if it is a plugin, else mkdir -p nowhere$' nowhere
refused 2 'mount point: expected a directory, found an empty word$' "$name" ''
refused 2 'plugin nvidia: not found: .*; for an NVIDIA GPU, "pip install' nvidia m
refused 2 'plugin xpu: not found: .*; for an Intel GPU, "pip install' xpu m
refused 2 'mount point nowhere: .*; the plugin comes first: pjrtfs nowhere ./m$' ./m nowhere --plugin-dir "$plugins"
refused 2 'expected .SOURCE. MOUNTPOINT, found umount; a mount ends with: fusermount3 -u m$' umount m
refused 2 'mount point help: .*; did you mean pjrtfs --help.$' help
refused 2 'mount point version: .*; did you mean pjrtfs --version.$' version
for dir in / /dev /etc /proc /sys /usr; do
	refused 2 "mount point $dir: expected a directory for the mount, found one that the system needs, .*: mkdir -p" \
		"$name" "$dir" --plugin-dir "$plugins"
done
refused 2 "not found: looked for .* in /nothing .No such file or directory., " nothing m --plugin-dir /nothing
if [ -w /dev/fuse ]; then
	touch file
	refused 1 'file' "$name" file -f --plugin-dir "$plugins"
	refused 1 'file' "$name" file --plugin-dir "$plugins"
	refused 1 'the plugin has no create option of this name: .*: nosuch$' "$name" m -f --plugin-dir "$plugins" \
		--plugin-option "$name:nosuch=1"
	# -- a plugin's file that is not whole, or for another processor: bytes 18 and 19 are the machine
	head -c 100000 "$plugins/$name/pjrt_plugin.so" >cut.so
	refused 1 "plugin cut: .*$work/cut.so: it is cut short: 100000 bytes of [0-9]+: download or copy it again$" ./cut.so m -f
	cp "$plugins/$name/pjrt_plugin.so" alien.so
	printf '\x2a\x01' | dd of=alien.so bs=1 seek=18 conv=notrunc status=none
	refused 1 'plugin alien: .*expected a shared library for this machine .*, found one for another .ELF machine 298, 64 bits.$' \
		./alien.so m -f
	# an option that libfuse refuses, in its words
	refused 2 'unknown option.*-o nothing_known' "$name" m -f --plugin-dir "$plugins" -o nothing_known
	refused 2 'unknown option.*-o nothing_known' "$name" m --plugin-dir "$plugins" -o nothing_known
	refused 2 'did you mean "allow_other"' "$name" m --plugin-dir "$plugins" -o allowother
	LD_PRELOAD=$build/tests/tools/no_custom_io.so refused 1 'libfuse 3.* without custom I/O.*: use the portable' \
		"$name" m -f --plugin-dir "$plugins"
	# root without the right to mount, as in containers
	if [ "$(id -u)" = 0 ] && setpriv --bounding-set -sys_admin true 2>/dev/null; then
		mount_without()
		{
			setpriv --bounding-set -sys_admin --inh-caps -sys_admin "$pjrtfs" "$@"
		}
		fails_with 'm: cannot mount' mount_without "$name" m -f --plugin-dir "$plugins"
		fails_with 'in a container: start it with --cap-add SYS_ADMIN' \
			mount_without "$name" m -f --plugin-dir "$plugins"
	fi
fi

# -- words for mount(8) are ignored; pjrtfs's own work in -o, too
mount_pjrtfs "$name" -o defaults,nofail,_netdev,noauto,user,x-systemd.automount -o relatime,comment=x \
	-o memory_limit=128M,noatime
equal "memory_limit" "$(df --output=size -B1M "$mnt" | tail -n 1 | tr -d ' ')" 128
unmount_pjrtfs
mount_pjrtfs "$name" -o ro
fails_with 'Read-only file system' touch "$mnt/buffers/x.npy"
unmount_pjrtfs

# -- a directory of plugins that is not there
mount_pjrtfs "$name" --plugin-dir /nothing
equal "warnings" "$(grep -c 'plugin-dir /nothing: No such file or directory: it has no plugin$' "$mnt.log")" 1
unmount_pjrtfs

# -- a plugin by its path, with another name, by PJRTFS_PLUGIN_PATH
mount_pjrtfs "$plugins/$name/pjrt_plugin.so"
bounded test -d "$mnt/devices/$name/0"
unmount_pjrtfs
ln -s "$plugins/$name/pjrt_plugin.so" mine.so
mkdir m2
bounded "$pjrtfs" m2 -o "plugin=own=mine.so" >out 2>&1 </dev/null || fail "$(cat out)"
bounded test -d m2/devices/own/0 || fail "no device of plugin own"
bounded fusermount3 -u m2
PJRTFS_PLUGIN_PATH=/nothing:$work bounded "$pjrtfs" mine m2 >out 2>&1 </dev/null ||
	fail "$(cat out)"
bounded test -d m2/devices/mine/0 || fail "no device of plugin mine"
bounded fusermount3 -u m2
