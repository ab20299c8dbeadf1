#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# A program in each of its forms compiles at close, tells its signature, and runs right.
. "$srcdir/tests/lib.sh"
requires jq --version
requires xz --version
mount_pjrtfs
tar -xJf "$top/tests/conformance/cases.tar.xz" cases/jax/bitops
case=cases/jax/bitops

# Text, bytecode, portable artifact: the same program.
bounded cp "$case/program.mlir" "$mnt/programs/text.mlir"
bounded cp "$case/program.mlirbc" "$mnt/programs/code.mlirbc"
bounded cp "$case/program.vhlo.mlirbc" "$mnt/programs/portable.mlirbc"
bounded cp "$case/in0.npy" "$case/in1.npy" "$mnt/buffers/"
for name in text code portable; do
	x=$mnt/executables/$name
	shows "$x/state" ready
	bounded test ! -s "$x/error" ||
		fail "$name has an error: $(bounded cat "$x/error")"
	run "$name" 'in0 in1 -> out0 out1 out2 out3 out4'
	for i in 0 1 2 3 4; do
		same "$mnt/buffers/out$i.npy" "$case/out$i.npy"
	done
	bounded jq -e '[.inputs[].dtype] == ["U32", "U32"] and [.inputs[].shape] == [[16], [16]]
		and [.outputs[].shape] == [[16], [16], [16], [16], [16]]' \
		"$x/signature.json" >/dev/null ||
			fail "$name: $(bounded cat "$x/signature.json")"
done

# -- what jax.export serializes: a portable artifact in a container of its own
bounded cp "$data/jax/f.jax_exported" "$data/jax/sharded.jax_exported" "$mnt/programs/"
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run f 'x y -> doubled'
shows "$mnt/buffers/doubled.txt" $'12 24 36\n48 60 72'
shows "$mnt/executables/f/state" ready
bounded jq -e '[.inputs[].name] == ["x", "y"]' "$mnt/executables/f/signature.json" >/dev/null ||
	fail "the names of f's arguments: $(bounded cat "$mnt/executables/f/signature.json")"
same "$mnt/programs/f.jax_exported" "$data/jax/f.jax_exported"
bounded jq -e '.num_partitions == 2' "$mnt/executables/sharded/info.json" >/dev/null ||
	fail "the partitions of sharded: $(bounded cat "$mnt/executables/sharded/info.json")"

# -- the facts about a program
cp "$data/add.mlir" "$mnt/programs/"
x=$mnt/executables/add
bounded jq -e '.name == "add" and .platform == "cpu" and (.inputs | length) == 2 and
	.outputs[0].dtype == "F32" and .outputs[0].shape == [2, 3]' "$x/signature.json" >/dev/null ||
	fail "add's signature: $(bounded cat "$x/signature.json")"
bounded jq -e '.inputs[0] | .dtype == "F32" and .datatype == "FP32" and .shape == [2, 3] and
	.layout == [1, 0] and .donated == false' "$x/signature.json" >/dev/null ||
	fail "add's first input: $(bounded cat "$x/signature.json")"
bounded jq -e '.state == "ready" and .plugin == "'"${plugin:-cpu}"'" and
	.program_bytes > 100 and .compile_seconds > 0' "$x/info.json" >/dev/null ||
	fail "add's info: $(bounded cat "$x/info.json")"
equal "add's program" "$(bounded realpath "$x/program")" "$mnt/programs/add.mlir"
same "$x/program" "$data/add.mlir"
same "$mnt/programs/code.mlirbc" "$case/program.mlirbc"

# -- names, unused, donated, scalar and empty parameters, several dtypes
cat >sig.mlir <<'END'
module @sig {
  func.func public @main(%arg0: tensor<f64> loc("scale"), %unused: tensor<7xi8>,
      %arg2: tensor<0x3xi1>, %arg3: tensor<4xbf16> {jax.buffer_donor = true})
      -> (tensor<4xbf16>, tensor<0x3xi1>, tensor<f64>) {
    return %arg3, %arg2, %arg0 : tensor<4xbf16>, tensor<0x3xi1>, tensor<f64>
  }
}
END
bounded cp sig.mlir "$mnt/programs/"
bounded jq -c '[.inputs[] | [.dtype, .datatype, .shape, .donated]],
	[.outputs[] | [.dtype, .shape]]' "$mnt/executables/sig/signature.json" >out
cat >want <<'END'
[["F64","FP64",[],false],["S8","INT8",[7],false],["PRED","BOOL",[0,3],false],["BF16","BF16",[4],true]]
[["BF16",[4]],["PRED",[0,3]],["F64",[]]]
END
diff want out || fail "the signature of sig.mlir"

# -- no inputs, no outputs
echo 'func.func @main() -> tensor<2xi32> { %0 = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
return %0 : tensor<2xi32> }' >none.mlir
bounded cp none.mlir "$mnt/programs/"
run none '-> c'
shows "$mnt/buffers/c.txt" '3 4'
echo 'func.func @main(%x: tensor<f32>) { return }' >sink.mlir
bounded cp sink.mlir "$mnt/programs/"
echo 5 >"$mnt/buffers/five.txt"
ask '{"op":"create","buffer":"f","dtype":"F32","shape":[]}' >/dev/null
packed 'f<' 5 | bounded tee "$mnt/buffers/f.raw" >/dev/null
run sink 'f ->'
