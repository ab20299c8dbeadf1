#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# The messages for a service manager (sd_notify(3)), with a socket of this test: READY, STATUS,
# WATCHDOG and STOPPING, with and without a process that holds the mount.
. "$srcdir/tests/lib.sh"
requires_mount
mnt=$work/mnt
mkdir "$mnt"
manager='' daemon=''
at_end '[ "$lib_status" = 0 ] || cat said
	kill -CONT "$daemon" 2>/dev/null # (it may have ended)
	bounded fusermount3 -u -z "$mnt" 2>/dev/null
	[ -z "$manager" ] || wait "$manager"'
export PJRTFS_FAULTY_FILE=$faults

# begin ADDRESS [pjrtfs options]: the manager starts pjrtfs, which gets ready.
begin()
{
	: >said
	address=$1
	"$top/tests/tools/notify.py" "$1" env ${watchdog:+WATCHDOG_USEC="$watchdog"} "$pjrtfs" "$mnt" -f \
		"${faulty_options[@]}" --no-cache "${@:2}" >said 2>err &
	manager=$!
	eventually grep -q '^READY=1$' said
	bounded grep -qx ok "$mnt/health"
}
ends()
{
	# The watchdog's look at the mount may keep it busy just then.
	eventually fusermount3 -u "$mnt"
	eventually grep -q '^ended' said
	tells said '^STOPPING=1$' '^ended 0$'
	wait "$manager"
	manager=
}
beats()
{
	grep -c '^WATCHDOG=1$' said || :
}
# seen: said has all messages that were sent
marks=0
seen()
{
	marks=$((marks + 1))
	bounded perl -MSocket -e '
		my ($to, $text, $s) = @ARGV;
		$to =~ s/^@/\0/;
		socket($s, AF_UNIX, SOCK_DGRAM, 0) && send($s, $text, 0, pack_sockaddr_un($to)) or die $!' \
		"$address" "MARK=$marks"
	eventually grep -qx "MARK=$marks" said
}
# quiet: no sign comes
quiet()
{
	local n
	seen
	n=$(beats)
	# real time: five times as long as between two signs
	sleep 0.5
	seen
	equal "signs" "$(beats)" "$n"
}
has_returned()
{
	[ "$(grep -c '^STATUS=faulty: 2 devices$' said)" = 2 ]
}
more_beats()
{
	[ "$(beats)" -gt "$1" ]
}

# -- an abstract socket and a path; the daemon reports itself, or by its holder
watchdog=200000
for how in '@ --no-keep' "/ --keep"; do
	address=${how%% *}
	if [ "$address" = @ ]; then address=@$work/notify; else address=$work/notify; fi
	faults
	begin "$address" "${how#* }"
	equal "the order" "$(grep -E '^(READY|STATUS)=' said | head -n 2 | cut -d= -f1 | paste -sd ' ')" \
		"STATUS READY"
	tells said '^STATUS=faulty: 2 devices$'
	eventually more_beats 3

	# A worker that dies and returns.
	faults "init=held:$address"
	worker=$(bounded cat "$mnt/plugins/faulty/pid")
	kill -KILL "$worker"
	eventually grep -qx 'STATUS=faulty: restarting' said
	reached "$address"
	faults
	eventually has_returned

	# A daemon that does not serve gives no sign, and its holder gives none for it.
	daemon=$(bounded cat "$mnt/pid")
	halt "$daemon"
	quiet
	kill -CONT "$daemon"
	eventually more_beats $(($(beats) + 1))
	ends
done

# -- a daemon that is started again, by its holder, gives signs again
begin "@$work/notify" --keep
daemon=$(bounded cat "$mnt/pid")
kill -KILL "$daemon"
eventually another "$daemon"
eventually more_beats $(($(beats) + 2))
ends

# -- a daemon that reads no request gives no sign, though its other threads go on
# As a debugger does: the thread that reads stops until the input ends.
cat >stop.py <<'PYTHON'
import ctypes, glob, os, sys
SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
readers = []
while not readers:
    readers = [path for path in glob.glob(f"/proc/{sys.argv[1]}/task/*/wchan")
               if open(path).read().startswith("fuse_dev_")]
thread = int(readers[0].split("/")[4])
for request in SEIZE, INTERRUPT:
    if libc.ptrace(request, thread, None, None):
        sys.exit(os.strerror(ctypes.get_errno()))
os.waitpid(thread, WALL)
sys.stdin.read()
PYTHON
asks()
{
	grep -qs request_wait_answer "/proc/$daemon/task/"*/wchan
}
begin "@$work/notify" --no-keep
daemon=$(bounded cat "$mnt/pid")
mkfifo input
python3 stop.py "$daemon" <input &
exec 3<>input
eventually asks
quiet
exec 3>&-
eventually more_beats $(($(beats) + 1))
ends

# -- a watchdog for another process, none, and addresses that are none
watchdog=
export WATCHDOG_PID=1 WATCHDOG_USEC=200000
begin "@$work/notify" --no-keep
quiet
equal "signs for another process" "$(beats)" 0
ends
unset WATCHDOG_PID WATCHDOG_USEC
for address in nothing "$work/missing" "@$work/nobody"; do
	NOTIFY_SOCKET=$address mount_pjrtfs
	shows "$mnt/health" ok
	unmount_pjrtfs
done
