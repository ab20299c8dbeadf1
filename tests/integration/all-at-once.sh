#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: tsan
# Results get their names all at once, or none does.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
b=$mnt/buffers
# takes as many steps as the input says, none of which can be left out, and gives two results
cat >count.mlir <<'END'
func.func @main(%n: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %factor = stablehlo.constant dense<1664525> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %s = %n) : tensor<i32>, tensor<i32>
    cond {
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.multiply %s, %factor : tensor<i32>
      %3 = stablehlo.xor %2, %i : tensor<i32>
      stablehlo.return %1, %3 : tensor<i32>, tensor<i32>
    }
  return %0#0, %0#1 : tensor<i32>, tensor<i32>
}
END
bounded cp count.mlir "$mnt/programs/"

# While the program runs a directory takes the second result's name.  Where it ended before
# that, it counts further.
n=1000000
while :; do
	[ "$n" -lt 2000000000 ] || fail "the program always ends before the mkdir"
	bounded rm -f "$b/first.npy" "$b/second.npy"
	ask '{"op":"create","buffer":"n","dtype":"S32","shape":[]}' >/dev/null
	packed 'l<' "$n" | bounded tee "$b/n.raw" >/dev/null
	ask '{"op":"execute","executable":"count","inputs":["n"],"outputs":["first","second"],"async":true}' >said
	job=$(jq .job said)
	if bounded mkdir "$b/second" 2>/dev/null; then
		break
	fi
	bounded rm -f "$b/n.raw"
	n=$((n * 10))
done
eventually grep -qxE 'done|failed' "$mnt/jobs/$job/state"
shows "$mnt/jobs/$job/state" failed
tells "$mnt/jobs/$job/result.json" 'there is a directory second'
gone "$b/first.npy"
bounded rmdir "$b/second"
shows "$mnt/health" ok
