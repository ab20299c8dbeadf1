#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# Where results go: new names, names that are taken, an input's own; and what is donated.
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs
b=$mnt/buffers
cp "$data/add.mlir" "$mnt/programs/"
cat >swap.mlir <<'END'
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = stablehlo.add %x, %x : tensor<2x3xf32>
  return %y, %0 : tensor<2x3xf32>, tensor<2x3xf32>
}
END
bounded cp swap.mlir "$mnt/programs/"
fresh()
{
	bounded rm -rf "$b"/*
	cp "$data/x.npy" "$data/y.npy" "$b/"
}
one=$'1 2 3\n4 5 6' two=$'2 4 6\n8 10 12' ten=$'10 20 30\n40 50 60' sum=$'11 22 33\n44 55 66'

# -- new names
fresh
run swap 'x y -> p q'
shows "$b/p.txt" "$ten"
shows "$b/q.txt" "$two"
equal "listed" "$(bounded ls "$b" | tr '\n' ' ')" 'p.npy q.npy x.npy y.npy '
equal "made by" "$(bounded jq -r .made_by "$b/p.json")" swap
equal "size" "$(bounded stat -c %s "$b/p.npy")" 152

# -- an input's name: the input is read first
run add 'x y -> x'
shows "$b/x.txt" "$sum"
fresh
run swap 'x y -> y x'
shows "$b/x.txt" "$two"
shows "$b/y.txt" "$ten"
for _ in 1 2 3 4 5; do
	run add 'x x -> x'
done
shows "$b/x.txt" $'64 128 192\n256 320 384'

# -- a name of another format: the buffer has one name, and that is .npy
fresh
echo 5 | bounded tee "$b/t.txt" >/dev/null
run add 'x y -> t'
equal "listed" "$(bounded ls "$b" | tr '\n' ' ')" 't.npy x.npy y.npy '
shows "$b/t.txt" "$sum"

# -- one name for two results: refused, before any run or replacement
fails_with 'Invalid argument' run swap 'x y -> r r'
tells "$mnt/executables/swap/run" '^error: EINVAL: swap: outputs 0 and 1 are both called r$'
fails_with 'Invalid argument' run swap 'x y -> x x.npy'
gone "$b/r.npy"
same "$b/x.npy" "$data/x.npy"

# -- a failing command replaces no buffer
fails_with '' run swap 'x nothing -> x y'
fails_with '' run swap 'x y -> x nowhere/y'
same "$b/x.npy" "$data/x.npy"
same "$b/y.npy" "$data/y.npy"

# -- in a directory, on a device
bounded mkdir "$b/ns"
run swap 'x y -> ns/x ns/new'
shows "$b/ns/x.txt" "$ten"
same "$b/x.npy" "$data/x.npy"

# -- arguments are donated only on request, also where the program allows donation
sed 's/%arg0: tensor<2x3xf32>/%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}/' \
	"$data/add.mlir" >donor.mlir
bounded cp donor.mlir "$mnt/programs/"
equal "donated" "$(bounded jq -c '[.inputs[].donated]' "$mnt/executables/donor/signature.json")" \
	'[true,false]'
fresh
run donor 'x y -> z'
shows "$b/x.txt" "$one"
run donor 'x y -> z'
shows "$b/z.txt" "$sum"

# -- donate: the array is gone afterwards, and errors say so
run donor 'x y -> z donate=x'
shows "$b/z.txt" "$sum"
equal "state" "$(bounded jq -r .state "$b/x.json")" donated
fails_with '' run add 'x y -> w'
tells "$mnt/executables/add/run" 'add: input 0 .arg0.: x: .*donated'
fails_with '' cat "$b/x.npy"
fails_with '' cat "$b/x.txt"
same "$b/y.npy" "$data/y.npy"
# it may be written again
bounded cp "$data/x.npy" "$b/x.npy"
run donor 'x y -> z donate=x'
bounded rm "$b/x.npy"
# a name that is not an input, an input that is used twice
fresh
fails_with 'Invalid argument' run donor 'x y -> z donate=z'
tells "$mnt/executables/donor/run" 'donate: z is not an input'
fails_with 'Invalid argument' run donor 'x x -> z donate=x'
tells "$mnt/executables/donor/run" 'donate: x is used twice'
same "$b/x.npy" "$data/x.npy"
# a failed execution consumes no argument
fails_with '' run donor 'x y -> z nothing donate=x'
same "$b/x.npy" "$data/x.npy"
ask '{"op":"execute","executable":"donor","inputs":["x","y"],"outputs":["x"],"donate":["x"]}' >reply
tells reply '^\{"ok":true'
shows "$b/x.txt" "$sum"

# -- donate by number, and all
states() {
	bounded jq -r .state "$b/x.json" "$b/y.json" | paste -sd ' '
}
fresh
ask '{"op":"execute","executable":"donor","inputs":["x","y"],"outputs":["z"],"donate":[1]}' >reply
tells reply '^\{"ok":true'
equal "states" "$(states)" 'ready donated'
fresh
ask '{"op":"execute","executable":"donor","inputs":["x","y"],"outputs":["z"],"donate":false}' >reply
tells reply '^\{"ok":true'
equal "states" "$(states)" 'ready ready'
run donor '{"inputs":["x","y"],"outputs":["z"],"donate":true}'
equal "states" "$(states)" 'donated donated'
shows "$b/z.txt" "$sum"
fresh

# -- outputs of several types, none, scalars, empty ones, and large
cat >many.mlir <<'END'
func.func @main() -> (tensor<f64>, tensor<0x2xi32>, tensor<2xi1>, tensor<262145xi32>) {
  %0 = stablehlo.constant dense<0.1> : tensor<f64>
  %1 = stablehlo.constant dense<> : tensor<0x2xi32>
  %2 = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %3 = stablehlo.iota dim = 0 : tensor<262145xi32>
  return %0, %1, %2, %3 : tensor<f64>, tensor<0x2xi32>, tensor<2xi1>, tensor<262145xi32>
}
END
bounded cp many.mlir "$mnt/programs/"
run many '-> a b c d'
shows "$b/a.txt" 0.1
equal "an empty output" "$(bounded jq -c '[.dtype, .shape]' "$b/b.json") $(
	bounded stat -c %s "$b/b.npy" "$b/b.raw" | tr '\n' ' ')" '["S32",[0,2]] 128 0 '
shows "$b/c.txt" 'true false'
perl -e 'print pack("l<*", 0..262144)' | npy '<i4' '(262145,)' >iota.npy
same "$b/d.npy" iota.npy
equal "size of a large output" "$(bounded stat -c %s "$b/d.npy")" "$(stat -c %s iota.npy)"

# -- many results, each at once
fresh
for i in {1..50}; do
	echo "x y -> o$i"
done >lines
bounded dd if=lines of="$mnt/executables/add/run" bs=1M status=none
for i in 1 25 50; do
	shows "$b/o$i.txt" "$sum"
done
equal "buffers" "$(bounded ls "$b" | wc -l)" 52
