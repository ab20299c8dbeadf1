#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# --isolate=user: 256 users have homes; one who has no files any more makes room for another, who sees
# nothing of the first.  After a restart only those who have files have homes, and the others' arenas are
# gone.  More than a sanitizer can map.
. "$srcdir/tests/words.sh"
requires test "$(id -u)" = 0
mount_pjrtfs --keep -o allow_other --mode 1777 --isolate user --isolate-idle 1
u=$mnt/plugins/${plugin:-cpu}/users
own_data
cp "$data/overflow.mlir" .
chmod 644 overflow.mlir
# users COMMAND FIRST LAST: each of them creates a file, or does so, reads it and removes it ("visit"),
# when there is room; prints the errors
users()
{
	python3 - "$mnt" "$@" <<'PY'
import errno, os, sys, time
mnt, command, first, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def create(path, text):
    with open(path, "w") as f:
        f.write(text)
def visit(path, text):
    for patience in range(400):
        try:
            create(path, text)
            break
        except OSError as e:
            if e.errno != errno.EUSERS or patience == 399:
                raise
            time.sleep(0.05)
    with open(path) as f:
        if f.read() != text:
            print("other bytes in", path)
    os.unlink(path)
for uid in range(first, last + 1):
    if os.fork() == 0:
        os.setgroups([])
        os.setresuid(uid, uid, uid)
        try:
            {"create": create, "visit": visit}[command](f"{mnt}/buffers/{uid}.raw", str(uid) * 1000)
        except OSError as e:
            print(e.strerror, open(mnt + "/error").read())
        sys.stdout.flush()
        os._exit(0)
    os.wait()
PY
}
comes() # UID: there is room for this user
{
	[ -z "$(users create "$1" "$1")" ]
}
holds() # UID...: the files of these users have their bytes
{
	local uid
	for uid; do
		equal "the file of $uid" "$(bounded head -c 8 "$mnt/buffers/$uid.raw")" "$uid$uid"
	done
}
arenas() { grep -c 'pjrtfs-arena-' "/proc/$(bounded cat "$mnt/pid")/maps" || :; }
equal "errors of 256 users" "$(users create 3001 3256)" ''
users create 3257 3257 >refusal
tells refusal '^Too many users .*256 users have arrays or programs.*--isolate-idle'

# -- who has no files any more, and no process, makes room for one user
fails_with 'Input/output error' as 3002 cp overflow.mlir "$mnt/programs/3002.mlir"
tells "$u/3002/log" overflow
exec {log}<"$u/3002/log"
bounded rm -f "$mnt/buffers/3002.raw" "$mnt/programs/3002.mlir"
eventually comes 3257
users create 3258 3258 >refusal
tells refusal '^Too many users'
fails_with 'No such file' ls "$u/3002"
equal "the log of 3257" "$(bounded cat "$u/3257/log")" ''
shows "$u/3257/state" idle
equal "users of the plugin" "$(bounded ls "$u" | wc -l)" 256
grep -q overflow <&"$log" || fail "the open log of 3002 has lost its lines"
exec {log}<&-
holds 3001 3003 3256 3257

# -- one after the other, more than 256 more
as 3257 mkdir "$mnt/buffers/more"
as 3257 cp x.npy y.npy "$mnt/buffers/more/"
as 3257 cp add.mlir "$mnt/programs/3257.mlir"
as_run 3257 3257 'more/x more/y -> more/z'
bounded rm -r "$mnt/buffers/3257.raw" "$mnt/buffers/more" "$mnt/programs/3257.mlir"
equal "errors of visitors" "$(users visit 4001 4300)" ''
[ "$(arenas)" -le 256 ] || fail "$(arenas) arenas of users are mapped"
holds 3001 3003 3256

# -- several at a time, and the first one again; each has but one home
visits=()
for first in 5000 5100 5200 5300; do
	users visit $((first + 1)) $((first + 30)) >"errors$first" &
	visits+=($!)
done
wait "${visits[@]}"
equal "errors of visitors at a time" "$(cat errors5*)" ''
eventually comes 3002
as 3002 mkdir "$mnt/buffers/more"
as 3002 cp x.npy y.npy "$mnt/buffers/more/"
as 3002 cp add.mlir "$mnt/programs/3002.mlir"
as_run 3002 3002 'more/x more/y -> more/z'
shows "$mnt/buffers/more/z.txt" "$sum"
equal "lines of another life" "$(grep -c overflow "$u/3002/log" || :)" 0
shows "$mnt/health" ok

# -- a daemon that dies loses none of them
next_daemon KILL
holds 3001 3002 3003 3256
as_run 3002 3002 'more/z more/y -> more/z'
shows "$mnt/buffers/more/z.txt" $'21 42 63\n84 105 126'

# -- a planned restart forgets those who have none
for uid in $(seq 3003 3256); do
	echo "$mnt/buffers/$uid.raw"
done | xargs rm
next_daemon USR2
equal "errors after the restart" "$(users create 3257 3300)" ''
equal "the file that stayed" "$(bounded stat -c %u "$mnt/buffers/3001.raw")" 3001
[ "$(arenas)" -le 47 ] || fail "$(arenas) arenas of users are mapped"
