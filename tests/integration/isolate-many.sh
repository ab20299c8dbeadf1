#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# --isolate=user: 256 users have homes; after a planned restart only those who have files, and the
# others' arenas are gone.  More than a sanitizer can map.
. "$srcdir/tests/words.sh"
requires test "$(id -u)" = 0
mount_pjrtfs --keep -o allow_other --mode 1777 --isolate user
create() # FIRST LAST: a file of each of these users; prints the errors
{
	python3 - "$mnt" "$1" "$2" <<'PY'
import os, sys
for uid in range(int(sys.argv[2]), int(sys.argv[3]) + 1):
    if os.fork() == 0:
        os.setgroups([])
        os.setresuid(uid, uid, uid)
        try:
            with open(f"{sys.argv[1]}/buffers/{uid}.raw", "w") as f:
                f.write("x" * 5000)
        except OSError as e:
            print(e.strerror, open(sys.argv[1] + "/error").read())
        os._exit(0)
    os.wait()
PY
}
arenas() { grep -c 'pjrtfs-arena-' "/proc/$(bounded cat "$mnt/pid")/maps" || :; }
equal "errors of 256 users" "$(create 3001 3256)" ''
create 3257 3257 >refusal
tells refusal '^Too many users .*256 users have had arrays or programs since the daemon started.*kill -USR2'
for uid in $(seq 3002 3256); do
	echo "$mnt/buffers/$uid.raw"
done | xargs rm
next_daemon USR2
equal "errors after the restart" "$(create 3257 3300)" ''
equal "the file that stayed" "$(bounded stat -c %u "$mnt/buffers/3001.raw")" 3001
[ "$(arenas)" -le 46 ] || fail "$(arenas) arenas of users are mapped"
