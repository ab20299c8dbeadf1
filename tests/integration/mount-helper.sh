#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mount.fuse3(8) on behalf of mount(8): for users with root's HOME, and with /dev/fuse opened
# and mounted by it.  In a mount namespace of its own, so that /dev/fuse can be open to users.
. "$srcdir/tests/words.sh"
requires isolated
requires_mount
requires type mount.fuse3
unset XDG_CONFIG_HOME XDG_CACHE_HOME PJRTFS_CACHE_DIR
export PATH=$build:$PATH
mnt=$work/mnt

daemon='' # what may be left when the test fails
at_end 'kill -KILL $daemon 2>/dev/null; umount -l "$mnt" 2>/dev/null; umount /dev/fuse 2>/dev/null'

# -- a user with root's HOME: no file there is the user's, and the home is that of passwd(5)
mknod -m 666 fuse c 10 229
mount --bind fuse /dev/fuse
user=$(id -u nobody)
as=(setpriv --reuid "$user" --regid "$user" --clear-groups)
home=$(getent passwd nobody | cut -d: -f6)
mkdir "$mnt" root root/.config
echo '{"devices": 3}' >root/.config/pjrtfs.json
chown "$user" "$mnt"
if "${as[@]}" test -w /dev/fuse -a -x "$pjrtfs" -a -r "$plugins/${plugin:-cpu}/pjrt_plugin.so"; then
	for mode in 700 755; do # what is in it can be read, or not
		chmod "$mode" root
		HOME=$work/root bounded "${as[@]}" mount.fuse3 "pjrtfs#${plugin:-cpu}" "$mnt" \
			-o "plugin_dir=$plugins,nofail" </dev/null >out 2>&1 || fail "cannot mount: $(cat out)"
		daemon=$(bounded "${as[@]}" cat "$mnt/pid")
		equal "devices" "$("${as[@]}" ls "$mnt/devices/${plugin:-cpu}" | wc -l)" 4
		! grep -q "$work/root" out || fail "it looks at another's home: $(cat out)"
		[ -d "$home" ] || grep -q "no cache: cache directory $home/" out ||
			fail "it does not look at its own home: $(cat out)"
		bounded "${as[@]}" fusermount3 -u "$mnt"
		daemon_ended
	done
	# A file named by the user must be readable.
	chmod 700 root
	fails_with "read the configuration $work/root/.config/pjrtfs.json: Permission denied" \
		"${as[@]}" "$pjrtfs" "$mnt" --config "$work/root/.config/pjrtfs.json"
	bounded "${as[@]}" env HOME="$work/root" "$pjrtfs" --dump-config >/dev/null ||
		fail "a configuration that cannot be read is an error"
else
	echo "SKIP: this part: users may not open /dev/fuse, or reach $build"
fi
umount -l /dev/fuse # a process that ends may have it open
rm fuse
chown 0 "$mnt"

# -- the mount is handed in as a descriptor of /dev/fuse, and the daemon has no privileges
# handed_in: after such a mount
handed_in()
{
	eventually test -e "$mnt/pid"
	daemon=$(bounded cat "$mnt/pid")
	shows "$mnt/health" ok
	put_add
	computes
	tells "$mnt/README" 'cat > MOUNTPOINT/programs/add.mlir'
	for pid in $(pgrep -P "$daemon"); do # independent of the plugin
		! readlink "/proc/$pid"/fd/* | grep -q /dev/fuse || fail "a worker has /dev/fuse"
	done
}
bounded mount.fuse3 "pjrtfs#${plugin:-cpu}" "$mnt" \
	-o "drop_privileges,plugin_dir=$plugins,cache_dir=$work/cache" </dev/null >out 2>&1 ||
	fail "drop_privileges: $(cat out)"
handed_in
grep -q '^CapEff:[[:space:]]*0*$' "/proc/$daemon/status" || fail "it has capabilities"
bounded umount "$mnt"
daemon_ended

# SIGTERM ends the daemon: the mount stays its mounter's.
how=subtype=pjrtfs,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other
bounded bash -c 'exec 7<>/dev/fuse &&
	mount -i -t fuse -o "fd=7,$3" pjrtfs "$1" &&
	exec pjrtfs "$2" /dev/fd/7 --plugin-dir "$4" --no-cache -o default_permissions,allow_other' \
	- "$mnt" "${plugin:-cpu}" "$how" "$plugins" >out 2>&1 || fail "$(cat out)"
handed_in
kill -TERM "$daemon"
daemon_ended
fails_with 'not connected' ls "$mnt"
grep -q " $mnt fuse.pjrtfs " /proc/self/mounts || fail "it has unmounted what it did not mount"
bounded umount "$mnt"

# -- descriptors that are not /dev/fuse
exec 3</dev/null
fails_with 'mount point /dev/fd/3: expected an open /dev/fuse' "$pjrtfs" --plugin-dir "$plugins" \
	"${plugin:-cpu}" /dev/fd/3
fails_with 'mount point /dev/fd/17: expected an open descriptor' "$pjrtfs" \
	--plugin-dir "$plugins" "${plugin:-cpu}" /dev/fd/17
fails_with 'allow_other without default_permissions' bash -c 'exec 7<>/dev/fuse
	exec pjrtfs "$1" /dev/fd/7 --plugin-dir "$2" -o allow_other' - "${plugin:-cpu}" "$plugins"
