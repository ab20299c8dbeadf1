#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# Programs whose parameters and results are not row-major on the device.
. "$srcdir/tests/lib.sh"

requires find_numpy
mount_pjrtfs
timeout -k 5 $((patience * 12)) "$python" -B "$top/tests/tools/layouts.py" "$mnt"
shows "$mnt/health" ok
shows "$mnt/plugins/${plugin:-cpu}/restarts" 1 # a case kills the worker

# -- the memory limit: what is in another order is a copy, which counts before it is made
mount_pjrtfs --memory-limit 64M
b=$mnt/buffers
cat >"$mnt/programs/turned.mlir" <<'END'
func.func @main(%x: tensor<5120x2048xf32> {mhlo.layout_mode = "{0,1}"}) -> tensor<f32> {
  %0 = stablehlo.slice %x [7:8, 9:10] : (tensor<5120x2048xf32>) -> tensor<1x1xf32>
  %1 = stablehlo.reshape %0 : (tensor<1x1xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
END
ask '{"op":"create","buffer":"w","dtype":"F32","shape":[5120,2048],"fill":3}' >reply
tells reply '"ok":true'
ask '{"op":"copy","buffer":"w","as":"w2","layout":[0,1]}' >reply
tells reply '"errno":"ENOSPC"' 'copy: no room for 41943040 bytes'
gone "$b/w2.npy"
fails_with 'No space left' run turned 'w -> y'
bounded rm "$b/w.npy"
ask '{"op":"create","buffer":"w","dtype":"F32","shape":[5120,2048],"uninitialized":true,"layout":[0,1]}' >reply
tells reply '"ok":true'
run turned 'w -> y'
shows "$b/y.txt" 0
