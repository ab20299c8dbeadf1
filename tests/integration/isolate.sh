#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# --isolate=user: a user's aborts, endless programs and idle time concern this user's process only.
. "$srcdir/tests/words.sh"
requires test "$(id -u)" = 0
p=${plugin:-cpu}
furnish() # UID: the directories of a user
{
	as "$1" mkdir "$mnt/buffers/$1" "$mnt/programs/$1"
	as "$1" cp x.npy y.npy "$mnt/buffers/$1/"
}
endless 'tensor<2x3xf32>' >endless.mlir
sed 's/stablehlo.add/stablehlo.multiply/' "$data/add.mlir" >mul.mlir
own_data
chmod 644 endless.mlir mul.mlir
mount_pjrtfs -o allow_other --mode 1777 --isolate user
u=$mnt/plugins/$p/users
b=$mnt/buffers

# -- arrays start no process; the first program does
furnish 1001
shows "$u/1001/state" idle
shows "$u/1001/pid" ''
as 1001 cp add.mlir "$mnt/programs/1001/"
shows "$u/1001/state" ready
as_run 1001 1001/add '1001/x 1001/y -> 1001/z'
shows "$b/1001/z.txt" "$sum"
pid=$(bounded cat "$u/1001/pid")
[ "$pid" != "$(bounded cat "$mnt/plugins/$p/pid")" ] || fail "both are process $pid"
equal "the rights of the log" "$(bounded stat -c '%u %a' "$u/1001/log")" '1001 440'

# -- another user's aborts end only this user's process, and no execution of others
furnish 1002
ask_as 1001 '{"op":"execute","executable":"1001/add","inputs":["1001/x","1001/y"],"outputs":["1001/x"],"repeat":200000}' >reply &
running=$!
for n in 1 2 3; do
	sed "1i // $n" "$data/overflow.mlir" >"o$n.mlir"
	chmod 644 "o$n.mlir"
	fails_with 'Input/output error' as 1002 cp "o$n.mlir" "$mnt/programs/1002/"
done
wait "$running" || fail "the execution of 1001 ended with $?"
tells reply '"ok":true'
eventually grep -qx ready "$u/1002/state"
shows "$u/1001/pid" "$pid"
shows "$u/1001/restarts" 0
shows "$mnt/plugins/$p/restarts" 0
tells "$u/1002/log" overflow
equal "lines about it" "$(grep -c overflow "$u/1001/log" "$mnt/plugins/$p/log" | grep -vc ':0$')" 0

# -- nor do endless programs keep others waiting; their owner ends them
as 1002 cp endless.mlir "$mnt/programs/1002/"
for n in 1 2 3 4 5 6; do
	ask_as 1002 "{\"op\":\"execute\",\"executable\":\"1002/endless\",\"inputs\":[\"1002/x\"],\"outputs\":[\"1002/e$n\"],\"async\":true}" >"job$n"
done
as_run 1001 1001/add '1001/y 1001/y -> 1001/z'
as 1001 cp mul.mlir "$mnt/programs/1001/"
for n in 6 5 4 3 2 1; do
	ask_as 1002 "{\"op\":\"cancel\",\"job\":$(jq -e .job "job$n"),\"force\":true}" >/dev/null
done
shows "$u/1001/restarts" 0

# -- arguments, programs and results of another user, who permits it
as 1001 bash -c 'echo 1 2 3 >"$1"/one.txt; echo 4 5 6 >>"$1"/one.txt' - "$b/1001"
as 1002 cp mul.mlir "$mnt/programs/1002/"
as_run 1002 1002/mul '1001/y 1001/one -> 1002/product'
shows "$b/1002/product.txt" $'10 40 90\n160 250 360'
as_run 1002 1001/add '1002/product 1001/one -> 1002/sum'
shows "$b/1002/sum.txt" $'11 42 93\n164 255 366'
as_run 1002 1002/mul '1002/sum 1001/one -> 1002/again'
shows "$b/1002/again.txt" $'11 84 279\n656 1275 2196'
as 1001 chmod 600 "$b/1001/one.txt"
fails_with 'ermission denied' as_run 1002 1002/mul '1001/y 1001/one -> 1002/product'
allowed 1002 '{"op":"compile","program":"1001/add","as":"1002/mine"}'
as_run 1002 1002/mine '1002/x 1002/y -> 1002/z'
allowed 1002 '{"op":"copy","buffer":"1001/y","as":"1002/copied"}'
allowed 1002 '{"op":"create","buffer":"1002/filled","dtype":"F32","shape":[2,3],"fill":2}'
as_run 1002 1002/mul '1002/copied 1002/filled -> 1002/z'
shows "$b/1002/z.txt" $'20 40 60\n80 100 120'

# -- memory is counted once for all, and given back
settle
had=$(used)
shmem() { awk '/^RssShmem/ { print $2 }' "/proc/$daemon/status"; }
before=$(shmem)
as 1001 bash -c 'head -c 200000000 /dev/zero >"$1"/large.raw' - "$b/1001"
[ "$(shmem)" -gt $((before + 150000)) ] || fail "the file takes no memory"
[ "$(used)" -ge $((had + 200000000)) ] || fail "df does not count the file"
as 1001 rm "$b/1001/large.raw"
eventually eval '[ "$(shmem)" -lt $((before + 50000)) ]'
settle
equal "bytes in use" "$(used)" "$had"
unmount_pjrtfs

# -- no more processes than the limit; a user without one gets a sentence, and one later
mount_pjrtfs -o allow_other --mode 1777 --isolate user --isolate-idle 2 --isolate-max 1
u=$mnt/plugins/$p/users
b=$mnt/buffers
furnish 1001
furnish 1002
as 1001 cp add.mlir "$mnt/programs/1001/"
as_run 1001 1001/add '1001/x 1001/y -> 1001/z'
ask_as 1001 '{"op":"execute","executable":"1001/add","inputs":["1001/x","1001/y"],"outputs":["1001/x"],"repeat":1000000000,"async":true}' >job
pid=$(bounded cat "$u/1001/pid")
fails_with 'Too many users' as 1002 cp add.mlir "$mnt/programs/1002/"
tells "$mnt/executables/1002/add/error" "1 users have a process of plugin $p, the most that --isolate-max allows"
ask_as 1002 '{"op":"create","buffer":"1002/u","dtype":"F32","shape":[2],"uninitialized":true}' >reply
grep -q 'the most that --isolate-max allows' reply || fail "create says $(<reply)"
shows "$u/1002/state" idle
allowed 1001 "{\"op\":\"cancel\",\"job\":$(jq -e .job job)}"

# -- the process ends when it is idle; nothing is lost, and the next use starts another one
eventually grep -qx idle "$u/1001/state"
shows "$u/1001/pid" ''
equal "the error" "$(bounded cat "$u/1001/error")" ''
fails_with 'No such process' kill -0 "$pid"
shows "$b/1001/z.txt" "$sum"
as 1002 cp add.mlir "$mnt/programs/1002/"
as_run 1002 1002/add '1002/x 1002/y -> 1002/z'
shows "$b/1002/z.txt" "$sum"
eventually grep -qx idle "$u/1002/state"
as_run 1001 1001/add '1001/z 1001/y -> 1001/later'
shows "$b/1001/later.txt" $'21 42 63\n84 105 126'
shows "$u/1001/restarts" 0
