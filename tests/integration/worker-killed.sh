#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# kill -9 of the worker: the mount stays, and everything works again by itself.
. "$srcdir/tests/lib.sh"
requires jq --version
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
	eventually known "$pid"
}
known()
{
	[ "$(cat "$at/pid")" != "$1" ] || ! grep -qx ready "$at/state"
}
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/x.npy" "$data/y.npy" "$b/"
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
ask '{"op":"copy","buffer":"sized1","as":"copied"}' >reply
tells reply '"ok":true'

# -- the mount goes on; restarts are counted
kill_worker
same "$b/x.npy" "$data/x.npy"
same "$b/large.npy" large.npy
tells "$mnt/version" .
eventually grep -qx ok "$mnt/health"
equal "the new worker" "$(ps -o ppid= -p "$(bounded cat "$at/pid")" | tr -d ' ')" "$daemon"

# -- small outputs and those in the shared pool are kept, also for processes that had them open
shows "$b/small.txt" $'11 22 33\n44 55 66'
same "$b/unread.npy" large.npy
bounded python3 - "$b" <<'END'
import struct, sys

# Results of every size, packed ones, and more small ones than a reply has room for.
for n in (1, 1024, 1025, 16384, 262143, 262144):
    with open(f"{sys.argv[1]}/sized{n}.raw", "rb") as f:
        assert f.read() == struct.pack("<f", 3) * n, n
with open(f"{sys.argv[1]}/packed.raw", "rb") as f:
    assert f.read() == b"\x03" * 100000
for i in range(32):
    with open(f"{sys.argv[1]}/many{i}.raw", "rb") as f:
        assert f.read() == struct.pack("<f", 3) * 1000, i
with open(f"{sys.argv[1]}/copied.raw", "rb") as f:
    assert f.read() == struct.pack("<f", 3)
END
bounded cat <&3 >notlarge.npy
exec 3<&-
same "$b/notlarge.npy" notlarge.npy
bounded jq -e '.state == "ready"' "$b/notlarge.json" >/dev/null

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

# -- calls while it restarts wait for it, or fail with how it died; later calls work
for _ in 1 2 3; do
	pid=$(bounded cat "$at/pid")
	kill -KILL "$pid"
	if ! run add 'x y -> z' 2>err; then
		tells "$mnt/executables/add/run" '^error: EIO: add: .*worker'
		run add 'x y -> z' ||
			fail "after the death was told: $(cat "$mnt/executables/add/run")"
	fi
	shows "$b/z.txt" $'11 22 33\n44 55 66'
done

# -- calls in flight: EIO and a sentence
cat >loop.mlir <<'END'
func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.while(%i = %x) : tensor<i32>
    cond {
      %c = stablehlo.constant dense<2147483647> : tensor<i32>
      %1 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %z = stablehlo.constant dense<0> : tensor<i32>
      %1 = stablehlo.multiply %i, %z : tensor<i32>
      stablehlo.return %1 : tensor<i32>
    }
  return %0 : tensor<i32>
}
END
bounded cp loop.mlir "$mnt/programs/"
# computes: a program runs, and its worker has begun: it uses a processor
ticks()
{
	sed 's/.*) //' "/proc/$(bounded cat "$at/pid")/stat" | awk '{ print $12 + $13 }'
}
beyond()
{
	[ "$(ticks)" -gt "$1" ]
}
computes()
{
	eventually grep -q '^[0-9]* running ' "$mnt/devices/$p/0/queue"
	eventually beyond $(($(ticks) + 20))
}
ask '{"op":"create","buffer":"i","dtype":"S32","shape":[]}' >/dev/null
packed 'l<' 0 | bounded tee "$b/i.raw" >/dev/null
run loop 'i -> never' 2>err &
caller=$!
computes
kill -0 "$caller" || fail "the endless program ended: $(cat err)"
run add 'x y -> meanwhile'
before=$(bounded cat "$at/restarts")
kill_worker
! wait "$caller" || fail "the call in flight succeeded"
grep -q 'Input/output error' err || fail "the call in flight says: $(cat err)"
tells "$mnt/executables/loop/run" \
	'^error: EIO: loop: .*worker of plugin '"$p"' died of signal 9'
gone "$b/never.npy"
run add 'x y -> z'
shows "$b/z.txt" $'11 22 33\n44 55 66'
[ "$(bounded cat "$at/restarts")" -gt "$before" ] || fail "a death is not counted"
same "$b/large.npy" large.npy

# -- a result whose memory an execution may have changed when the worker died is lost, not wrong;
#    bytes that a user wrote are not the plugin's to change
cat >spin.mlir <<'END'
func.func @main(%x: tensor<1048576xi32> {tf.aliasing_output = 0 : i32}) -> tensor<1048576xi32> {
  %0 = stablehlo.while(%v = %x) : tensor<1048576xi32>
    cond {
      %t = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %1 = stablehlo.add %v, %v : tensor<1048576xi32>
      stablehlo.return %1 : tensor<1048576xi32>
    }
  return %0 : tensor<1048576xi32>
}
END
bounded cp spin.mlir "$mnt/programs/"
run not 'large -> result'
for donated in result large; do
	run spin "$donated -> never donate=$donated" 2>err &
	caller=$!
	eventually grep -Fq '"state":"donated"' "$b/$donated.json"
	computes
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
