#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 5 CPU-s in 10 s
# A mount outlives its daemon: a process holds its descriptors, and starts the daemon again.
. "$srcdir/tests/words.sh"
requires_mount

mnt=$work/mnt
mkdir "$mnt" bin
holder=
at_end '[ -z "$holder" ] || kill -KILL "$holder" 2>/dev/null'
at_end 'bounded fusermount3 -u -z "$work/mnt" 2>/dev/null'
cp "$pjrtfs" "$build/pjrtfs-worker" bin

# begin [pjrtfs options]: mount in the background.
begin()
{
	bounded ${rights[@]+"${rights[@]}"} bin/pjrtfs "${plugin:-cpu}" "$mnt" --plugin-dir "$plugins" \
		--cache-dir "$work/cache" "$@" </dev/null >out 2>&1 || fail "cannot mount: $(cat out)"
	daemon=$(bounded cat "$mnt/pid")
	holder=$(parent "$daemon")
}
parent()
{
	awk '/^PPid:/ { print $2 }' "/proc/$1/status"
}
# next_life SIGNAL: the daemon gets the signal, and another one serves.
next_life()
{
	next_daemon "$1"
	daemon=$(bounded cat "$mnt/pid")
	equal "the holder" "$(parent "$daemon")" "$holder"
}
over()
{
	lib_gone "$holder" || fail "the holder lives on"
	! kill -0 "$daemon" 2>/dev/null || fail "the daemon lives on"
	! grep " $mnt fuse.pjrtfs " /proc/self/mounts || fail "it is still mounted"
	holder=
}

# When memory runs short, the kernel kills a worker first and the holder last.
scores()
{
	local pid
	for pid in "$holder" "$daemon" "$(bounded cat "$mnt/plugins/${plugin:-cpu}/pid")"; do
		cat "/proc/$pid/oom_score_adj"
	done >scores
	equal "scores ($1)" "$(sort -nu scores)" "$(cat scores)"
}
rights=()
if [ "$(id -u)" = 0 ]; then # a holder that may not lower its score
	rights=(setpriv --inh-caps=-sys_resource --bounding-set=-sys_resource)
	begin --sandbox off
	scores "$(grep CapBnd "/proc/$holder/status")"
	bounded fusermount3 -u "$mnt"
	over
	rights=()
fi

# Whatever the daemon dies of, the mount goes on, and so do open files.
begin
log=$(echo "$XDG_STATE_HOME"/pjrtfs/*-mnt.log)
[ -e /dev/log ] || tells "$log" '^[0-9T:-]+Z pjrtfs\[[0-9]+\]: info: pjrtfs .* serves '
equal "the holder's name" "$(cat "/proc/$holder/comm")" pjrtfs-holder
exec 7<"$mnt/version" 8<"$mnt/plugins"
bounded ls -iR "$mnt" >before 2>&1
# A sanitizer ends a crashed process with a status, after a report.
signals=(KILL SEGV ABRT)
if sanitized; then signals=(KILL); fi
for signal in "${signals[@]}"; do
	next_life "$signal"
	bounded ls -iR "$mnt" >after 2>&1
	diff before after
done
equal "an open file" "$(bounded cat <&7)" "$(bounded cat "$mnt/version")"
bounded test -e /proc/self/fd/8/.
exec 7<&- 8<&-

# It needs little memory.
[ "$(awk '/^VmRSS:/ { print $2 }' "/proc/$holder/status")" -lt 16384 ] ||
	fail "the holder takes $(grep VmRSS "/proc/$holder/status")"

# SIGUSR2: a new version of the program takes over.
cp "$pjrtfs" bin/new
mv bin/new bin/pjrtfs
next_life USR2
equal "the program" "$(stat -Lc %i "/proc/$daemon/exe")" "$(stat -c %i bin/pjrtfs)"

# Messages of other processes to the holder do not count.
bounded cp "$data/x.npy" "$mnt/buffers/"
python3 - "$daemon" <<'END'
import socket, sys
variables = open(f"/proc/{sys.argv[1]}/environ", "rb").read().split(b"\0")
name = next(v for v in variables if v.startswith(b"NOTIFY_SOCKET=@")).partition(b"@")[2]
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for text in (b"FDSTOREREMOVE=1\nFDNAME=state", b"FDSTOREREMOVE=1\nFDNAME=fuse"):
    s.sendto(text, b"\0" + name)
END
next_life KILL
same "$mnt/buffers/x.npy" "$data/x.npy"

# The program is gone: the next one runs what the holder was started from.
mv bin/pjrtfs bin/away
next_life USR2
same "$mnt/buffers/x.npy" "$data/x.npy"
mv bin/away bin/pjrtfs

# The ways to end it.
bounded fusermount3 -u "$mnt"
over
begin
kill "$daemon"
over
begin
kill "$holder"
over

# In the foreground there is one if the user wants one.
bin/pjrtfs "${plugin:-cpu}" "$mnt" -f --keep --plugin-dir "$plugins" --no-cache </dev/null \
	>foreground.log 2>&1 &
holder=$!
eventually test -e "$mnt/pid"
daemon=$(bounded cat "$mnt/pid")
[ "$daemon" != "$holder" ] || fail "the daemon holds itself"
next_life KILL
grep -q "the daemon of $mnt ended (signal 9 (Killed)) after .* ms: it is started again" foreground.log ||
	fail "the end was not logged: $(cat foreground.log)"

# A daemon that crashes again and again begins anew: what it keeps may be damaged.
if ! sanitized; then
	# real time: only lives of less than a second count, so a busy machine has more of them
	for _ in {1..60}; do
		! grep -q "$mnt is mounted anew, without its files" foreground.log || break
		next_life SEGV
	done
	grep -q "$mnt is mounted anew, without its files" foreground.log || fail "it never begins anew"
fi

# So does one that finds the journal of another version: byte 8 of the journal is the version's lowest.
bounded cp "$data/x.npy" "$mnt/buffers/"
next_life KILL
same "$mnt/buffers/x.npy" "$data/x.npy"
journal=
for fd in "/proc/$holder/fd"/*; do
	[[ $(readlink "$fd") != /memfd:pjrtfs-state* ]] || journal=$fd
done
printf '\377' | dd of="$journal" bs=1 seek=8 conv=notrunc status=none
next_life KILL
grep -Eq "$mnt is mounted anew, without its files: .*expected version [0-9]+, found 255" foreground.log ||
	fail "the version was not logged: $(cat foreground.log)"
gone "$mnt/buffers/x.npy"
bounded cp "$data/x.npy" "$mnt/buffers/"
next_life KILL
same "$mnt/buffers/x.npy" "$data/x.npy"
bounded fusermount3 -u "$mnt"
wait "$holder"
over

# Without a holder SIGUSR2 does nothing, and a dead daemon's mount is dead.
begin --no-keep
holder=$daemon
kill -USR2 "$daemon"
equal "the process" "$(bounded cat "$mnt/pid")" "$daemon"
kill -KILL "$daemon"
lib_gone "$daemon"
fails_with 'endpoint is not connected' ls "$mnt"
bounded fusermount3 -u "$mnt"

# A daemon that cannot begin is not started again, and says why.
holder=
fails_with 'plugin no-such-plugin: not found' bin/pjrtfs no-such-plugin "$mnt" --plugin-dir "$plugins"
fails_with 'cannot be combined with auto_unmount' bin/pjrtfs cpu "$mnt" --keep -o auto_unmount \
	--plugin-dir "$plugins"
fails_with 'cannot be combined with a mount point /dev/fd' bin/pjrtfs cpu /dev/fd/9 --keep \
	--plugin-dir "$plugins" 9<>/dev/fuse

# A service manager with a file descriptor store holds what the holder holds, so the holder may die
# and be replaced, too.
"$top/tests/tools/fd_store.py" bin/pjrtfs "${plugin:-cpu}" "$mnt" -f --keep --no-cache \
	--plugin-dir "$plugins" </dev/null >store.log 2>&1 &
manager=$!
eventually test -e "$mnt/pid"
bounded cp "$data/x.npy" "$mnt/buffers/"
daemon=$(bounded cat "$mnt/pid")
holder=$(parent "$daemon")
equal "the holder's parent" "$(parent "$holder")" "$manager"
grep -q "^ready $holder arena fuse .*state" store.log || fail "not stored: $(cat store.log)"
next_life KILL
for signal in KILL USR2; do
	before=$daemon
	kill -"$signal" "$holder"
	eventually another "$before"
	daemon=$(bounded cat "$mnt/pid")
	lib_gone "$before"
	[ "$(parent "$daemon")" != "$holder" ] || fail "the holder was not replaced"
	holder=$(parent "$daemon")
	same "$mnt/buffers/x.npy" "$data/x.npy"
done
next_life USR2
tells store.log '^ended -9' '^ended 75'
bounded fusermount3 -u "$mnt"
wait "$manager"
tells store.log '^ended 0'
holder=
! sanitized || exit 0

# A kernel that cannot send requests again (before Linux 6.9): those that a dead daemon had read
# fail, and no caller waits for ever.
LD_PRELOAD=$build/tests/tools/no_resend.so mount_pjrtfs --keep --sandbox off
ls -l "/proc/$(bounded cat "$mnt/pid")/fd" >fds
[ "$(grep -c /dev/fuse fds)" -ge 2 ] || fail "the connection was not cloned: $(cat fds)"
put_add
for _ in 1 2 3; do
	server=$(bounded cat "$mnt/pid")
	(exec timeout "$patience" tail -f "$mnt/events") >/dev/null 2>reader &
	reader=$!
	# A command is a write that waits for the execution.
	(exec timeout "$patience" python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY)
try:
    os.write(fd, b"x y -> x repeat=1000000000\n")
except OSError as e:
    print(e.errno)' "$mnt/executables/add/run") >errno &
	parked=$!
	eventually grep -q '^[0-9]* running ' "$mnt/devices/${plugin:-cpu}/0/queue"
	kill -KILL "$server"
	eventually another "$server"
	wait "$parked" || :
	grep -qx -e 103 -e 4 -e 5 errno || fail "the errno of the command: $(cat errno)"
	kill "$reader" 2>/dev/null || :
	bounded cat "$mnt/health" >/dev/null
	bounded ls -R "$mnt" >/dev/null
done

# --isolate=user: the holder has the memory of many users, so all files outlive the daemon.
[ -n "$others" ] || exit 0
users=150 # one descriptor each
cp "$data/x.npy" .
chmod 644 x.npy
mount_pjrtfs --keep --isolate user --mode 1777 -o allow_other
b=$mnt/buffers

"$patient" $((patience * 6)) bash -eu -c 'for ((user = 2001; user <= 2000 + $2; user++)); do
		setpriv --reuid $user --regid $user --clear-groups cp x.npy "$1/$user.npy"
	done' - "$b" "$users"
bounded ls -il "$b" >before
equal "files" "$(grep -c '\.npy$' before)" "$users"
for signal in KILL USR2; do
	next_daemon "$signal"
	bounded ls -il "$b" >after
	diff before after || fail "files are lost: $(cat "$mnt.log")"
	for user in 2001 $((2000 + users / 2)) $((2000 + users)); do
		same "$b/$user.npy" x.npy
	done
done
shows "$mnt/health" ok
