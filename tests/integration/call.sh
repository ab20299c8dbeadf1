#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# PLUGIN: each
# SANITIZE: asan
# COST: 6 CPU-s
# executables/NAME/call: arrays in and out on one descriptor, in any pieces; failures; a death.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
chmod 755 "$work" # other users take part
"$patient" $((patience * 6)) python3 -B "$top/tests/tools/call.py" "$mnt"
shows "$mnt/health" ok
equal "buffers" "$(bounded ls "$mnt/buffers")" ''

# -- the memory limit: of inputs at once, of outputs when they are there
mount_pjrtfs --memory-limit 64M
echo 'func.func @main(%x: tensor<25165824xf32>) -> tensor<f32> {
%0 = stablehlo.constant dense<1.0> : tensor<f32>
return %0 : tensor<f32> }' >in.mlir
echo 'func.func @main(%x: tensor<f32>) -> tensor<25165824xf32> {
%0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<25165824xf32>
return %0 : tensor<25165824xf32> }' >out.mlir
bounded cp in.mlir out.mlir "$data/add.mlir" "$mnt/programs/"
space()
{
	settle
	bounded df --output=used -B1 "$mnt" | tail -n 1
}
before=$(space)
npy '<f4' '(25165824,)' </dev/null >header.npy
fails_with 'No space left' bash -c 'cat header.npy 1<>"$1"' - "$mnt/executables/in/call"
bounded bash -c 'exec 3<>"$1"; ! cat header.npy >&3 2>/dev/null; ! cat <&3; cat <&3' - \
	"$mnt/executables/in/call" 2>/dev/null >told
tells told '"errno":"ENOSPC".*in: input 0 .*memory limit'
printf '\0\0\200\77' | npy '<f4' '()' >one.npy
fails_with 'No space left' bash -c '{ cat one.npy; cat <&1 >out.npy; } 1<>"$1"' - \
	"$mnt/executables/out/call"
bash -c '{ cat "$2" "$3"; cat <&1 >sum.npy; } 1<>"$1"' - "$mnt/executables/add/call" \
	"$data/x.npy" "$data/y.npy"
cp sum.npy "$mnt/buffers/"
shows "$mnt/buffers/sum.txt" $'11 22 33\n44 55 66'
bounded rm "$mnt/buffers/sum.npy"
equal "in use" "$(space)" "$before"
