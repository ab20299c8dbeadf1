#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 2 CPU-s in 13 s
# A mount whose daemon was killed looks dead and is replaced; a daemon unmounts no mount but its
# own.  In a mount namespace of its own, so that /dev/fuse can be open to ordinary users.
. "$srcdir/tests/lib.sh"
requires isolated
requires_mount
chmod 755 "$work"

daemon='' sleeper='' holder='' # what may be left when the test fails
at_end 'kill -KILL $daemon $sleeper $holder 2>/dev/null'

# start [pjrtfs options]: a mount at $mnt, in the background; $daemon is its pid.
start()
{
	bounded "${as[@]}" "$pjrtfs" "${plugin:-cpu}" "$mnt" --no-keep --plugin-dir "$plugins" \
		--cache-dir "$work/cache-${#as[@]}" "$@" </dev/null >out 2>&1 ||
		fail "cannot mount: $(cat out)"
	daemon=$(bounded "${as[@]}" cat "$mnt/pid")
}
kill_daemon()
{
	kill -KILL "$daemon"
	daemon_ended
}
replaced()
{
	grep -q "$mnt: unmounted a pjrtfs mount whose process is gone" out ||
		fail "the log does not mention the dead mount: '$(cat out)'"
}
looks_dead()
{
	LC_ALL=C "${as[@]}" stat "$mnt" 2>&1 | grep -q 'not connected'
}
is_busy()
{
	[ "$(readlink "/proc/$sleeper/cwd")" = "$mnt/programs" ]
}
refused()
{
	fails_with 'is a pjrtfs mount already' "${as[@]}" "$pjrtfs" "${plugin:-cpu}" "$mnt" \
		--plugin-dir "$plugins" --no-cache
}

# use: root, then an ordinary user
use()
{
	start
	equal "what it said" "$(cat out)" ''
	refused
	"${as[@]}" stat "$mnt" "$mnt/buffers" >/dev/null
	kill_daemon
	eventually looks_dead
	! bounded "${as[@]}" mountpoint -q "$mnt" || fail "mountpoint takes it for a live mount"

	# In its place; with a slash, as shells complete it; and one that is busy.
	start
	replaced
	equal "health" "$(bounded "${as[@]}" cat "$mnt/health")" ok
	kill_daemon
	eventually looks_dead # a process that the daemon was starting may have the device open
	mnt=$mnt/ start
	replaced
	"${as[@]}" bash -c 'cd "$1/programs" && exec sleep infinity' - "$mnt" &
	sleeper=$!
	eventually is_busy
	kill_daemon
	eventually looks_dead
	start
	replaced
	kill "$sleeper"
	wait "$sleeper" 2>/dev/null || :
	sleeper=

	# A daemon that does not answer is not gone.
	halt "$daemon"
	refused
	kill -CONT "$daemon"
	equal "health" "$(bounded "${as[@]}" cat "$mnt/health")" ok
	bounded "${as[@]}" fusermount3 -u "$mnt"
	daemon_ended
	equal "mounts at $mnt" "$(grep -c " $mnt " /proc/self/mounts)" 0
}

as=()
mnt=$work/of-root
mkdir "$mnt"
use

# -- a daemon whose mount only another mount namespace holds lets the new mount at its place be
start
before=$daemon
unshare --mount --propagation private bash -c 'grep " fuse\.pjrtfs " /proc/self/mounts |
	while read -r _ at _; do [ "$at" = "$1" ] || umount -l "$at"; done; exec sleep infinity' - "$mnt" &
holder=$!
eventually grep -qx sleep "/proc/$holder/comm"
bounded fusermount3 -u "$mnt"
kill -0 "$before" || fail "nothing holds the mount"
start
kill -TERM "$before"
lib_gone "$before" || fail "the daemon $before stays"
shows "$mnt/pid" "$daemon"
shows "$mnt/health" ok
kill "$holder"
wait "$holder" 2>/dev/null || :
holder=
# and one that holds its place ends its mount, as ever
kill -TERM "$daemon"
daemon_ended
! bounded mountpoint -q "$mnt" || fail "$mnt is still mounted"

# -- auto_unmount: fusermount3, which waits for the daemon, unmounts
unmounted()
{
	! grep -q " $mnt " /proc/self/mounts
}
start -o auto_unmount
# The kernel closes the highest descriptor first: the device, before the socket for which
# fusermount3 waits, or it finds a mount that is about to die.
fds=$(find "/proc/$daemon/fd" -printf '%f %l\n' | sort -n)
[[ $fds == *socket:*/dev/fuse* ]] || fail "the device is closed after all sockets: $fds"
kill_daemon
eventually unmounted

# -- ordinary users
mknod -m 666 fuse c 10 229
mount --bind fuse /dev/fuse
user=$(id -u nobody) # fusermount3 looks for its name
as=(setpriv --reuid "$user" --regid "$user" --clear-groups)
mnt=$work/of-user
mkdir "$mnt"
chown "$user" "$mnt"
mkdir -m 700 "$work/cache-${#as[@]}"
chown "$user" "$work/cache-${#as[@]}"
"${as[@]}" test -w /dev/fuse -a -x "$pjrtfs" -a -r "$plugins/${plugin:-cpu}/pjrt_plugin.so" || {
	umount /dev/fuse
	echo "SKIP: the rest: users may not open /dev/fuse, or reach $build"
	exit 0
}
use
# That of libfuse 3.14 leaves a dead mount, as mount.pjrtfs(8) says, which the next daemon replaces.
start -o auto_unmount
kill_daemon
case $(fusermount3 --version) in
*' 3.14.'*)
	eventually looks_dead
	start
	replaced
	bounded "${as[@]}" fusermount3 -u "$mnt"
	daemon_ended
	;;
*) eventually unmounted ;;
esac
umount -l /dev/fuse # a process that ends may have it open
