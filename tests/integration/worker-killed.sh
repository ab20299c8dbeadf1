#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# kill -9 of the worker: the mount stays, and everything works again by itself.
. "$srcdir/tests/words.sh"
mount_pjrtfs
p=${plugin:-cpu}
b=$mnt/buffers
at=$mnt/plugins/$p
# Kill it, and wait until the daemon knows: later calls are not under way then.
kill_worker()
{
	local pid
	pid=$(bounded cat "$at/pid")
	kill -KILL "$pid"
	lib_gone "$pid"
	eventually eval "[ \$(cat '$at/pid') != $pid ] || ! grep -qx ready '$at/state'"
}
put_add
head -c 4194304 /dev/urandom >large.raw
npy '<i4' '(1048576,)' <large.raw >large.npy
echo 'func.func @main(%x: tensor<1048576xi32>) -> tensor<1048576xi32> {
%0 = stablehlo.not %x : tensor<1048576xi32>
return %0 : tensor<1048576xi32> }' >not.mlir
bounded cp not.mlir "$mnt/programs/"
bounded cp large.npy "$b/large.npy"
run add 'x y -> small'
run not 'large -> notlarge'
run not 'notlarge -> unread'
exec 3<"$b/notlarge.npy"
# three NAME TYPE RESULT...: a program whose results are full of threes
three()
{
	local name=$1 type=$2 line
	shift 2
	line=$(printf "$type, %.0s" "$@")
	printf 'func.func @main() -> (%s) {\n%%0 = stablehlo.constant dense<3%s> : %s\nreturn %s : %s\n}\n' \
		"${line%, }" "$([ "${type%f32>}" = "$type" ] || echo .0)" "$type" \
		"$(printf '%%0, %.0s' "$@" | sed 's/, $//')" "${line%, }" >"$name.mlir"
	bounded cp "$name.mlir" "$mnt/programs/"
	run "$name" "-> $*"
}
for n in 1 1024 1025 16384 262143 262144; do
	three "sized$n" "tensor<${n}xf32>" "sized$n"
done
three packed 'tensor<100000xi4>' packed
# shellcheck disable=SC2046 # words
three many 'tensor<1000xf32>' $(seq -f many%.0f 0 31)
good '{"op":"copy","buffer":"sized1","as":"copied"}'

# -- the mount goes on; restarts are counted
kill_worker
same "$b/x.npy" "$data/x.npy"
same "$b/large.npy" large.npy
tells "$mnt/version" .
eventually grep -qx ok "$mnt/health"
equal "the new worker" "$(ps -o ppid= -p "$(bounded cat "$at/pid")" | tr -d ' ')" "$daemon"

# -- small outputs and those in the shared pool are kept, also for processes that had them open
shows "$b/small.txt" "$sum"
same "$b/unread.npy" large.npy
# results of every size, packed ones, and more small ones than a reply has room for
threes() # NAME N: the array has so many threes
{
	equal "$1" "$(bounded tr ' ' '\n' <"$b/$1.txt" | sort | uniq -c | xargs)" "$2 3"
}
for n in 1 1024 1025 16384 262143 262144; do
	threes "sized$n" "$n"
done
threes packed 100000
threes copied 1
for n in {0..31}; do
	threes "many$n" 1000
done
bounded cat <&3 >notlarge.npy
exec 3<&-
same "$b/notlarge.npy" notlarge.npy
knows "$b/notlarge.json" '.state == "ready"'

# -- the first commands after it work: executables and buffers are loaded again
kill_worker
run add 'x small -> again'
shows "$b/again.txt" $'12 24 36\n48 60 72'
run not 'notlarge -> back'
same "$b/back.npy" large.npy
run not 'large -> fresh'
same "$b/fresh.npy" notlarge.npy
shows "$mnt/executables/add/state" ready
bounded cp "$data/add.mlir" "$mnt/programs/new.mlir"
bounded cp "$data/x.npy" "$b/new.npy"
run new 'new y -> again'

# has_begun: a program runs, and its worker has begun: it uses a processor
ticks()
{
	sed 's/.*) //' "/proc/$(bounded cat "$at/pid")/stat" | awk '{ print $12 + $13 }'
}
beyond()
{
	[ "$(ticks)" -gt "$1" ]
}
has_begun()
{
	eventually grep -q '^[0-9]* running ' "$mnt/devices/$p/0/queue"
	eventually beyond $(($(ticks) + 20))
}

# -- a result whose memory an execution may have changed when the worker died is lost, not wrong;
#    bytes that a user wrote are not the plugin's to change
endless 'tensor<1048576xi32>' '{tf.aliasing_output = 0 : i32}' >spin.mlir
bounded cp spin.mlir "$mnt/programs/"
run not 'large -> result'
for donated in result large; do
	run spin "$donated -> never donate=$donated" 2>err &
	caller=$!
	eventually grep -Fq '"state":"donated"' "$b/$donated.json"
	has_begun
	kill_worker
	! wait "$caller" || fail "the execution of the killed worker succeeded"
	run add 'x y -> z'
done
equal "the donated result" "$(bounded jq -r .state "$b/result.json")" lost
fails_with 'Input/output error' cat "$b/result.npy"
same "$b/large.npy" large.npy

# The log has the deaths and the restarts.
eventually grep -Eq "error: the worker of plugin $p died of signal 9" "$mnt.log"
eventually grep -Eq "info: the worker of plugin $p runs again: process $(cat "$at/pid")$" "$mnt.log"
