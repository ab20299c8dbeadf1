#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 10 CPU-s in 18 s
# Commands of all sorts, very many, leave no memory taken; GROWTH_COMMANDS says how many.
. "$srcdir/tests/words.sh"
mount_pjrtfs
few=60000 growth=2048
if sanitized; then
	few=3000 growth=1000000 # freed memory is kept for a while to be watched
fi
cat >add.mlir <<'END'
func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}
END
bounded cp add.mlir "$mnt/programs/"
good '{"op":"batch","steps":[{"op":"create","buffer":"x","dtype":"F32","shape":[],"fill":2},{"op":"create","buffer":"y","dtype":"F32","shape":[],"fill":3}]}'
commands=${GROWTH_COMMANDS:-$((few * times))}
"$patient" $((patience * 6 + commands / 500)) \
	python3 -B "$top/tests/tools/growth.py" "$mnt" "${plugin:-cpu}" "$commands" $growth
shows "$mnt/buffers/z1.txt" 5
shows "$mnt/plugins/${plugin:-cpu}/restarts" 0
shows "$mnt/health" ok
