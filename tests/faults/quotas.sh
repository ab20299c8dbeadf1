#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Quotas of what takes time: executions at once, of the mount and of a device, jobs, and the seconds
# of compiles.
. "$srcdir/tests/lib.sh"
requires test "$(id -u)" = 0
requires setpriv --reuid 12345 --clear-groups true
mount_pjrtfs faulty -o allow_other,mode=1777 --quota 1001:executions=2 --quota 1001:jobs=2
chmod 755 "$work"
u=$mnt/users
put_add
cp "$data/add.mlir" .
like_add other
like_add third
chmod 644 ./*.mlir
execute() # OUTPUT [MORE]
{
	printf '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["%s"]%s}' "$1" "${2:-}"
}
has() # UID RESOURCE NUMBER
{
	bounded grep -qx "$3" "$u/$1/$2.current"
}

# -- executions at once: the third is refused, other users' are not
faults execute=held
ask_as 1001 "$(execute a1)" >one &
first=$!
ask_as 1001 "$(execute a2)" >two &
second=$!
eventually has 1001 executions 2
eventually has 1001 faulty:0/executions 2
ask_as 1001 "$(execute a3)" >three || fail "the third execution is not refused: it waits"
jq -e '.error.errno == "EDQUOT"' three >/dev/null || fail "$(cat three)"
tells three 'user 1001 has 2 of 2 executions that have not ended: users/1001/executions.max'
ask_as 1002 "$(execute b1)" >four &
third=$!
eventually has 1002 executions 1
faults
wait "$first" "$second" "$third"
for reply in one two four; do
	tells $reply '"ok":true'
done
eventually has 1001 executions 0
eventually has 1001 faulty:0/executions 0
faults execute=error:INTERNAL # those that fail do not count any more
ask_as 1001 "$(execute a4)" >reply
tells reply '"ok":false'
eventually has 1001 executions 0
faults
for _ in 1 2 3; do
	ask_as 1001 "$(execute a4)" >reply
	tells reply '"ok":true'
done

# -- on one device
echo 0 >"$u/1001/faulty:0/executions.max"
ask_as 1001 "$(execute a5)" >reply
tells reply 'user 1001 has 0 of 0 executions .*: users/1001/faulty:0/executions.max'
equal "at once" "$(cat "$u/1001/executions.current")" 0
echo max >"$u/1001/faulty:0/executions.max"

# -- jobs
faults execute=held
for job in 1 2; do
	ask_as 1001 "$(execute "j$job" ',"async":true')" >reply
	tells reply '"ok":true'
done
ask_as 1001 "$(execute j3 ',"async":true')" >reply
tells reply 'user 1001 has 2 of 2 jobs that have not ended: users/1001/jobs.max'
faults
eventually has 1001 jobs 0
ask_as 1001 "$(execute j3 ',"async":true')" >reply
tells reply '"ok":true'

# -- seconds of compiles: one that has begun ends; the next needs a higher maximum
faults compile=held:c1
echo 1 >"$u/1001/compile_seconds.max"
as 1001 cp add.mlir "$mnt/programs/c1.mlir" &
first=$!
reached c1
takes_a_second()
{
	bounded jq -e '.compiling_seconds >= 1.1' "$mnt/executables/c1/info.json"
}
eventually takes_a_second
faults
wait "$first"
at_least 1 "$u/1001/compile_seconds.current"
fails_with 'quota exceeded' as 1001 cp other.mlir "$mnt/programs/c2.mlir"
tells "$mnt/executables/c2/error" 'user 1001 has [0-9]+ of 1 seconds of compiles: users/1001/compile_seconds.max'
as 1002 cp other.mlir "$mnt/programs/d.mlir"
echo 100 >"$u/1001/compile_seconds.max"
as 1001 cp third.mlir "$mnt/programs/c2.mlir"
