#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# repeat: results that cannot be the next repetition's arguments are refused before anything
# runs, so that no argument is consumed in vain.
. "$srcdir/tests/words.sh"
mount_pjrtfs
p=${plugin:-cpu}
b=$mnt/buffers

# first: its first result has another shape than the argument whose memory it could take over
cat >"$mnt/programs/first.mlir" <<'END'
module @first {
  func.func public @main(%x: tensor<2x3xf32> {tf.aliasing_output = 1 : i32})
      -> (tensor<1x3xf32>, tensor<2x3xf32>) {
    %0 = stablehlo.slice %x [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
    %1 = stablehlo.add %x, %x : tensor<2x3xf32>
    return %0, %1 : tensor<1x3xf32>, tensor<2x3xf32>
  }
}
END
# bits: its result has as many bytes, but another type
cat >"$mnt/programs/bits.mlir" <<'END'
module @bits {
  func.func public @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>)
      -> (tensor<2x3xi32>, tensor<2x3xf32>) {
    %0 = stablehlo.convert %x : (tensor<2x3xf32>) -> tensor<2x3xi32>
    %1 = stablehlo.add %x, %y : tensor<2x3xf32>
    return %0, %1 : tensor<2x3xi32>, tensor<2x3xf32>
  }
}
END
shows "$mnt/executables/first/state" ready
shows "$mnt/executables/bits/state" ready
before=$(od -An -tx1 "$data/x.npy")

# fresh DIRECTORY: the array x and y are there as they were
fresh()
{
	bounded cp "$data/x.npy" "$data/y.npy" "$1/"
}
# untouched: x is unchanged, and no result has a name
untouched()
{
	equal "$1" "$(bounded od -An -tx1 "$1")" "$before"
	tells "${1%.npy}.json" '"state":"ready"'
	gone "${1%/*}/z.npy"
}
shape='repeat: output 0 \(x\) is F32\[1,3\], the next repetition takes it as input 0, which is F32\[2,3\]'
dtype='repeat: output 0 \(x\) is S32\[2,3\], the next repetition takes it as input 0, which is F32\[2,3\]'

# refused JSON WHY [FILE]: the command to control, or to FILE, changes nothing
refused()
{
	fresh "$b"
	ask "$1" "${@:3}" >reply
	tells reply "$2"
	untouched "$b/x.npy"
}
x='"inputs":["x"],"outputs":["x","z"],"repeat":3'
first='{"op":"execute","executable":"first",'$x'}'

# -- run: a line, and an object
refused 'x -> x z repeat=3' "^error: EINVAL: first: $shape\$" "$mnt/executables/first/run"
refused 'x -> x z repeat=3 donate=x' "$shape" "$mnt/executables/first/run"
refused 'x y -> x z repeat=2' "^error: EINVAL: bits: $dtype\$" "$mnt/executables/bits/run"
refused '{"inputs":["x","y"],"outputs":["x","z"],"repeat":2}' "$dtype" "$mnt/executables/bits/run"

# -- control, a job, a step of a batch
refused "$first" "$shape"
job=$(ask "$(jq -c '. + {"async":true}' <<<"$first")" | jq -e .job)
eventually grep -qx failed "$mnt/jobs/$job/state"
untouched "$b/x.npy"
bits='{"op":"execute","executable":"bits","inputs":["x","y"],"outputs":["i","s"]}'
refused '{"op":"batch","steps":['"$bits,$bits,$first"']}' "$shape"
bounded test -e "$b/s.npy"

# -- on two devices at once, and in the second row alone
say "$mnt/executables/first/options.json" '{"num_replicas":2}'
fresh "$mnt/devices/$p/1/buffers"
refused "$first" "$shape"
for outputs in '["x","z"],["x","z"]' '["z","x"],["x","z"]'; do
	rows='"inputs":[["x"],["x"]],"outputs":['$outputs'],"repeat":3'
	refused '{"op":"execute","executable":"first",'"$rows"'}' "$shape"
	untouched "$mnt/devices/$p/1/buffers/x.npy"
done
run first 'x -> z w'
row='z F32\[[0-9,]+\], w F32\[[0-9,]+\] on '
tells "$mnt/executables/first/run" "^ok: $row$p:0; $row$p:1 in [0-9]+\.[0-9]{6} s\$"

# -- matching results replace arguments; repeat=1 replaces none
good '{"op":"execute","executable":"first","inputs":["x"],"outputs":["z","x"],"repeat":3}'
shows "$b/x.txt" $'8 16 24\n32 40 48'
say "$mnt/executables/first/options.json" '{}'
run first 'x -> x z'
tells "$b/x.json" '"shape":\[1,3\]'
