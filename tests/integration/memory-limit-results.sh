#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# What programs and commands make counts against --memory-limit before it is made.
. "$srcdir/tests/words.sh"
mount_pjrtfs --memory-limit 256M
b=$mnt/buffers
cpu=${plugin:-cpu}
b1=$mnt/devices/$cpu/1/buffers
MiB=1048576
# rest: what df calls used when all is freed that has no name
rest()
{
	settle
	used
}
# slim AFTER: the worker's memory was never as much as an array that was refused
slim()
{
	local pid peak
	pid=$(bounded cat "$mnt/plugins/$cpu/pid")
	peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")
	[ "$peak" -lt 1048576 ] || sanitized || fail "$1: the worker had $peak KiB"
}
# refused ERRNO PATTERN JSON: the command's reply
refused()
{
	bad "$3" "\"errno\":\"$1\"" "$2"
	slim "$3"
}
full='no room for [0-9]+ bytes.* of the memory limit'

# -- arrays that are made on the device
refused ENOSPC "create: $full" \
	'{"op":"create","buffer":"u","dtype":"F32","shape":[1073741824],"uninitialized":true}'
gone "$b/u.npy"
equal "after a refusal" "$(rest)" 0
good '{"op":"create","buffer":"u","dtype":"F32","shape":[16777216],"uninitialized":true}'
one=$(rest)
[ "$one" -ge $((64 * MiB)) ] || fail "an array of 64 MiB takes $one"
for _ in 1 2 3 4 5 6 7 8; do
	refused EEXIST 'there is a buffer u already' \
		'{"op":"create","buffer":"u","dtype":"F32","shape":[16777216],"uninitialized":true}'
done
equal "after duplicates" "$(rest)" "$one"

# -- results, with and without a donation; call.sh has those of calls
cat >"$mnt/programs/wide.mlir" <<'END'
func.func @main(%x: tensor<f32>) -> tensor<1073741824xf32> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<1073741824xf32>
  return %0 : tensor<1073741824xf32>
}
END
printf '1\n' | bounded tee "$b/s.txt" >/dev/null
refused ENOSPC "wide: its results: $full" \
	'{"op":"execute","executable":"wide","inputs":["s"],"outputs":["w"]}'
refused ENOSPC "wide: its results: $full" \
	'{"op":"execute","executable":"wide","inputs":["s"],"outputs":["w"],"donate":["s"]}'
tells "$b/s.json" '"state":"ready"' # no argument was consumed
refused ENOSPC "its results: $full" \
	'{"op":"batch","steps":[{"op":"execute","executable":"wide","inputs":["s"],"outputs":["w"]}]}'
gone "$b/w.npy"
bounded rm "$b/u.npy"
eventually uses_less $((2 * MiB))

# -- small results on the device only count, too
N=16384 # 64 KiB
sed "s/2x3x/${N}x/g" "$data/add.mlir" >"$mnt/programs/plus.mlir"
good "{\"op\":\"create\",\"buffer\":\"o\",\"dtype\":\"F32\",\"shape\":[$N],\"fill\":1}"
before=$(rest)
for i in $(seq 100); do
	echo "o o -> o$i"
done | bounded tee "$mnt/executables/plus/run" >/dev/null
after=$(rest)
[ $((after - before)) -ge $((100 * N * 4)) ] || fail "100 results of 64 KiB take $((after - before))"
bounded rm "$b"/o*.npy
eventually uses_less $((2 * MiB))

# -- a result that takes an argument's place needs no more than that had
cat >"$mnt/programs/inplace.mlir" <<'END'
func.func @main(%x: tensor<41943040xf32> {tf.aliasing_output = 0 : i32}) -> tensor<41943040xf32> {
  %0 = stablehlo.add %x, %x : tensor<41943040xf32>
  return %0 : tensor<41943040xf32>
}
END
good '{"op":"create","buffer":"p","dtype":"F32","shape":[41943040],"uninitialized":true}'
one=$(rest)
good '{"op":"execute","executable":"inplace","inputs":["p"],"outputs":["p"],"donate":["p"]}'
good '{"op":"execute","executable":"inplace","inputs":["p"],"outputs":["p"],"donate":["p"],"repeat":5}'
# With sanitizers the plugin allocates for itself, and the worker copies what it made.
sanitized || equal "in place" "$(rest)" "$one"
one=$(rest)

# -- a copy on another device
refused ENOSPC "$full" "{\"op\":\"copy\",\"buffer\":\"p\",\"as\":\"$cpu:1/p\"}"
gone "$b1/p.npy"
equal "after a refused copy" "$(rest)" "$one"
bounded rm "$b"/*
eventually uses_less $((2 * MiB)) # the programs
bounded cp "$data/x.npy" "$b/"
same "$b/x.npy" "$data/x.npy"
shows "$mnt/health" ok
