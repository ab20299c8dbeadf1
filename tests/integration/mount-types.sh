#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# mount -t pjrtfs, mount -t fuse.pjrtfs, fstab and umount, by root and by an ordinary user, with
# the installed helpers in /sbin of a mount namespace of its own.
. "$srcdir/tests/words.sh"
requires isolated
requires_mount
requires type mount.fuse3
unset XDG_CONFIG_HOME XDG_CACHE_HOME PJRTFS_CACHE_DIR
plugin=${plugin:-cpu}
mnt=$work/mnt
mkdir "$mnt" seen

# -- install, and uninstall
make_here()
{
	make -s -C "$build" DESTDIR="$work/inst" mountdir=/sbin "$@" >out 2>&1 ||
		fail "make $*: $(cat out)"
}
make_here install-mountSCRIPTS install-mount-link
equal "helpers" "$(cd inst/sbin && echo *)" "mount.fuse.pjrtfs mount.pjrtfs umount.fuse.pjrtfs"
# As installed, but with this build, where others can read it.
sed "s|@bindir@|$work/seen/build|" "$top/mount/mount.pjrtfs.in" >inst/sbin/mount.pjrtfs
mount -t tmpfs -o mode=755 tmpfs seen
mkdir seen/build seen/plugins
mount --rbind "$build" seen/build
mount --rbind "$plugins" seen/plugins
mknod -m 666 seen/fuse c 10 229
mount --bind seen/fuse /dev/fuse
requires mount -t overlay -o "lowerdir=$work/inst/sbin:/sbin" overlay /sbin
cat >fstab <<END
$plugin $mnt fuse.pjrtfs user,noauto,nofail,_netdev,plugin_dir=$work/seen/plugins,no_cache 0 0
END
mount --bind "$work/fstab" /etc/fstab

at_end "umount -i -l $mnt /sbin /dev/fuse /etc/fstab $work/seen 2>/dev/null"
user=$(id -u nobody)
# begun [UID]: it is mounted and works, for that user
begun()
{
	daemon=$(as "${1:-0}" cat "$mnt/pid")
	equal "the type" "$(findmnt -no FSTYPE "$mnt")" fuse.pjrtfs
	equal "the user" "$(stat -c %u "/proc/$daemon")" "${1:-0}"
	as "${1:-0}" cat "$mnt/health" >health
	tells health '^ok$'
}
over()
{
	! findmnt "$mnt" >/dev/null || fail "it is still mounted"
	daemon_ended
}

# -- both types, by root; a mount is changed with remount; each umount
for type in pjrtfs fuse.pjrtfs; do
	bounded mount -t "$type" "$plugin" "$mnt" -o "plugin_dir=$plugins,no_cache,allow_other,mode=1777"
	begun
	bounded mount -o remount,ro "$mnt"
	fails_with 'Read-only file system' cp "$data/x.npy" "$mnt/buffers/"
	shows "$mnt/health" ok
	bounded mount -o remount,rw "$mnt"
	bounded cp "$data/x.npy" "$mnt/buffers/"
	findmnt -no OPTIONS "$mnt" >options
	tells options '(^|,)nosuid,nodev,' '(^|,)allow_other(,|$)'
	if [ "$type" = pjrtfs ]; then bounded umount "$mnt"; else bounded umount -l "$mnt"; fi
	over
done

# -- a line of fstab, by an ordinary user, who alone may unmount
chown "$user" "$mnt"
as "$user" mount "$mnt" >out 2>&1 || fail "mount by a user: $(cat out)"
begun "$user"
fails_with 'superuser' as "$user" mount -o remount,ro "$mnt"
fails_with 'not found' as "$(id -u daemon)" umount "$mnt"
as "$user" umount "$mnt"
over
bounded mount "$mnt"
begun
fails_with 'not found' as "$user" umount "$mnt"
bounded umount -f "$mnt"
over
bounded mount -f -t pjrtfs "$plugin" "$mnt" # only pretends
! findmnt "$mnt" >/dev/null || fail "mount -f mounts"

# -- the page: blocks as they stand, but for the places
# block HEADING: the indented lines of that section
block()
{
	sed -n "\\|^## $1\$|,/^## /s/^    //p" "$top/docs/systemd.md" |
		sed "s|/mnt/pjrt|$mnt|g; s|/mnt/lazy|$work/lazy|g; s|/home/me/pjrt|$work/own|g"
}
export PJRTFS_PLUGIN_PATH=$plugins PJRTFS_CACHE_DIR=$work/cache
block 'mount(8)' >lines
[ "$(wc -l <lines)" = 6 ] || fail "the page has other lines: $(cat lines)"
bounded bash -eu lines >out 2>&1 || fail "$(cat out)"
tells out '^ok$'
eventually eval '! findmnt "$mnt"'

mkdir lazy own generated
chown "$user" own
cp fstab own.fstab
block /etc/fstab >fstab
bounded mount -a
begun
bounded umount "$mnt"
over
as "$user" mount -f "$work/own"
generator=/lib/systemd/system-generators/systemd-fstab-generator
requires test -x "$generator"
SYSTEMD_FSTAB=$work/fstab SYSTEMD_PROC_CMDLINE='' "$generator" generated generated generated 2>err ||
	fail "the generator: $(cat err)"
unit=generated/$(systemd-escape --path "$work/lazy")
tells "$unit.mount" '^Type=pjrtfs$' '^What=cpu$'
tells "$unit.automount" "^Where=$work/lazy\$"
grep -q '^Options=nofail' "generated/$(systemd-escape --path "$mnt").mount" || fail "nofail is lost"

printf 'PRUNE_BIND_MOUNTS="yes"\nPRUNEFS="NFS afs fuse.sshfs"\n' >updatedb.conf
block 'Indexers and upgrades' | sed "s|/etc/updatedb|$work/updatedb|; s|/usr/local/share|$work/share|; s|/etc|$work|" >lines
mkdir -p needrestart/conf.d share/pjrtfs
cp "$top/mount/needrestart.conf" share/pjrtfs
bash -eu lines
tells updatedb.conf '^PRUNEFS="fuse.pjrtfs NFS afs fuse.sshfs"$'
perl -we 'our %nrconf; do "./needrestart/conf.d/pjrtfs.conf" // die $@;
	my ($match) = keys %{$nrconf{override_rc}};
	exit !("pjrtfs\@mnt-pjrt.service" =~ $match && $nrconf{override_rc}{$match} == 0)'
unset PJRTFS_PLUGIN_PATH PJRTFS_CACHE_DIR
cat own.fstab >fstab

# -- what cannot be
# helper STATUS MESSAGE COMMAND...: one line, and nothing is mounted
helper()
{
	ends_with "$@"
	! findmnt "$mnt" >/dev/null || fail "it is mounted: ${*:3}"
}
# refused STATUS MESSAGE ARGUMENT...
refused()
{
	helper "$1" "^pjrtfs: error: .*$2" mount -t pjrtfs "${@:3}"
}
refused 2 'plugin nothing: not found' nothing "$mnt" -o "plugin_dir=$plugins"
refused 2 'no_such_option' "$plugin" "$mnt" -o "plugin_dir=$plugins,no_such_option"
refused 2 'mount point .*/nowhere: No such file' "$plugin" "$work/nowhere" -o "plugin_dir=$plugins"
chmod 600 seen/fuse
fails_with '/dev/fuse' as "$user" mount "$mnt"
helper 1 '^pjrtfs: error: /dev/fuse: not permitted' setpriv --reuid "$user" --regid "$user" --clear-groups \
	mount -t pjrtfs "$plugin" "$work/lazy" -o "plugin_dir=$work/seen/plugins,no_cache"
umount -l /dev/fuse # a process that ends may have it open
mkdir dev
mount -t tmpfs tmpfs dev
mknod -m 666 dev/null c 1 3
mount --move dev /dev
refused 1 '/dev/fuse is missing' "$plugin" "$mnt" -o "plugin_dir=$plugins"
umount /dev
expected='expected -f, -n, -o, -s, -t or -v$'
helper 1 "^mount.pjrtfs: option -q: $expected" "$work/inst/sbin/mount.pjrtfs" "$plugin" "$mnt" -q
helper 1 "^mount.pjrtfs: option -o: $expected" "$work/inst/sbin/mount.pjrtfs" "$plugin" "$mnt" -o
helper 1 '^umount.fuse.pjrtfs: option -q: expected -f, -l, -n, -r, -t or -v$' \
	"$work/inst/sbin/umount.fuse.pjrtfs" "$mnt" -q
fails_with 'expected SOURCE MOUNTPOINT' "$work/inst/sbin/mount.pjrtfs"
fails_with 'expected MOUNTPOINT' "$work/inst/sbin/umount.fuse.pjrtfs"

make_here uninstall-mountSCRIPTS uninstall-hook
equal "helpers that are left" "$(ls inst/sbin)" ''
