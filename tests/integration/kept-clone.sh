#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# A kernel that cannot send requests again (before Linux 6.9): those that a dead daemon had read
# fail, and no caller waits for ever.
. "$srcdir/tests/lib.sh"
LD_PRELOAD=$build/tests/tools/no_resend.so mount_pjrtfs --keep --sandbox off
ls -l "/proc/$(bounded cat "$mnt/pid")/fd" >fds
[ "$(grep -c /dev/fuse fds)" -ge 2 ] || fail "the connection was not cloned: $(cat fds)"
bounded cp "$data/add.mlir" "$mnt/programs/"
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
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
