#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# A kernel that cannot send requests again (before Linux 6.9): those that a dead daemon had read
# fail, and no caller waits for ever.
. "$srcdir/tests/lib.sh"
LD_PRELOAD=$build/tests/tools/no_resend.so mount_pjrtfs --keep --sandbox off
ls -l "/proc/$(bounded cat "$mnt/pid")/fd" >fds
[ "$(grep -c /dev/fuse fds)" -ge 2 ] || fail "the connection was not cloned: $(cat fds)"
for _ in 1 2 3; do
	server=$(bounded cat "$mnt/pid")
	# A reader of events waits when it has read all there are.
	(exec timeout 60 tail -f "$mnt/events") >/dev/null 2>reader &
	reader=$!
	(exec timeout 60 python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
try:
    while os.read(fd, 65536):
        pass
except OSError as e:
    print(e.errno)' "$mnt/events") >errno &
	parked=$!
	sleep 0.3
	kill -KILL "$server"
	eventually another "$server"
	wait "$parked" || :
	grep -qx -e 103 -e 4 -e 5 errno || [ ! -s errno ] || fail "the reader's errno: $(cat errno)"
	kill "$reader" 2>/dev/null || :
	bounded cat "$mnt/health" >/dev/null
	bounded ls -R "$mnt" >/dev/null
done
