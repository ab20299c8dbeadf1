#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# Arrays in other layouts, and over several devices: split, joined, and as arguments and results of programs.
. "$srcdir/tests/words.sh"

requires find_numpy
mount_pjrtfs ${others:+-o allow_other}
"$patient" $((patience * 12)) "$python" -B "$top/tests/tools/shards.py" "$mnt"
unharmed
"$patient" $((patience * 12)) "$python" -B "$top/tests/tools/layouts.py" "$mnt"
shows "$mnt/health" ok
shows "$mnt/plugins/${plugin:-cpu}/restarts" 1 # a case kills the worker

# -- the memory limit: what is in another order is a copy, which counts before it is made
mount_pjrtfs --memory-limit 64M
b=$mnt/buffers
full() # COMMAND PATTERN
{
	bad "$1" '"errno":"ENOSPC"' "$2"
}
cpu=${plugin:-cpu}
cat >"$mnt/programs/turned.mlir" <<'END'
func.func @main(%x: tensor<5120x2048xf32> {mhlo.layout_mode = "{0,1}"}) -> tensor<f32> {
  %0 = stablehlo.slice %x [7:8, 9:10] : (tensor<5120x2048xf32>) -> tensor<1x1xf32>
  %1 = stablehlo.reshape %0 : (tensor<1x1xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
END
good '{"op":"create","buffer":"w","dtype":"F32","shape":[5120,2048],"fill":3}'
full '{"op":"copy","buffer":"w","as":"w2","layout":[0,1]}' 'copy: no room for 41943040 bytes'
gone "$b/w2.npy"
fails_with 'No space left' run turned 'w -> y'
bounded rm "$b/w.npy"
good '{"op":"create","buffer":"w","dtype":"F32","shape":[5120,2048],"uninitialized":true,"layout":[0,1]}'
run turned 'w -> y'
shows "$b/y.txt" 0
bounded rm "$b"/*

# all shards or none
good '{"op":"create","buffer":"w","dtype":"F32","shape":[5120,2048],"fill":1}'
full '{"op":"shard","buffer":"w","as":"ws","mesh":{"x":4},"spec":[null,"x"]}' 'shard: '
equal "what is there" "$(bounded ls "$b" "$mnt/devices/$cpu/1/buffers" | grep -c .)" 3
bounded test -e "$b/w.npy"
good '{"op":"shard","buffer":"w","as":"ws","mesh":{"x":4},"spec":["x"]}'
full '{"op":"gather","buffer":"ws","as":"w2"}' 'gather: '
gone "$b/w2.npy"
full '{"op":"reshard","buffer":"ws","as":"wt","sharding":"{devices=[1,4]<=[4]}"}' 'reshard: '
equal "what is there" "$(bounded find "$mnt/devices/$cpu/" -name 'wt*' | wc -l)" 0
gone "$b/wt.sharding.json"
# and a worker's death: the arrays are uploaded again, and read from the host's copies
printf '1 2 3 4\n' | bounded tee "$b/s.txt" >/dev/null
ask '{"op":"shard","buffer":"s","as":"ss","mesh":{"x":2},"spec":["x"]}' >reply
kill_worker "$cpu"
good '{"op":"gather","buffer":"ss","as":"s2"}'
shows "$b/s2.txt" '1 2 3 4'
shows "$mnt/devices/$cpu/1/buffers/ss.txt" '3 4'
eventually grep -qx ok "$mnt/health"
