#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# A program in each of its forms compiles at close, tells its signature, and runs right.
. "$srcdir/tests/words.sh"
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
	knows "$x/signature.json" '[.inputs[].dtype] == ["U32", "U32"] and [.inputs[].shape] == [[16], [16]]
		and [.outputs[].shape] == [[16], [16], [16], [16], [16]]'
done

# -- what jax.export serializes: a portable artifact in a container of its own
bounded cp "$data/jax/f.jax_exported" "$data/jax/sharded.jax_exported" "$mnt/programs/"
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run f 'x y -> doubled'
shows "$mnt/buffers/doubled.txt" $'12 24 36\n48 60 72'
shows "$mnt/executables/f/state" ready
knows "$mnt/executables/f/signature.json" '[.inputs[].name] == ["x", "y"]'
same "$mnt/programs/f.jax_exported" "$data/jax/f.jax_exported"
knows "$mnt/executables/sharded/info.json" '.num_partitions == 2'

# -- the facts about a program
cp "$data/add.mlir" "$mnt/programs/"
x=$mnt/executables/add
knows "$x/signature.json" '.name == "add" and .platform == "cpu" and (.inputs | length) == 2 and
	.outputs[0].dtype == "F32" and .outputs[0].shape == [2, 3]'
knows "$x/signature.json" '.inputs[0] | .dtype == "F32" and .datatype == "FP32" and .shape == [2, 3] and
	.layout == [1, 0] and .donated == false'
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

# -- a portable artifact of a newer StableHLO than the plugin's: when the plugin refuses it, the
# sentence begins with both versions and with what to do
requires test -e "$plugins/cpu-0.81/pjrt_plugin.so" -a -e "$plugins/cpu/pjrt_plugin.so"
# artifact VERSION EDIT: one that says that it is of VERSION, otherwise changed by EDIT
artifact()
{
	LC_ALL=C sed "s/StableHLO_v1\.15\.0/StableHLO_v$1/; $2" "$data/jax/f.jax_exported"
}
spoil='s/vhlo/vhlX/g' # no plugin reads that
artifact 1.15.0 '' >good.jax_exported
artifact 1.18.0 "$spoil" >newer.jax_exported
artifact 1.99.0 "$spoil" >newest.jax_exported
artifact 1.10.0 "$spoil" >older.jax_exported
printf 'module { nonsense }\n' >bad.mlir
# refused FILE: its program does not compile; $error is the file with the reason
refused()
{
	error=$mnt/executables/${1%%.*}/error
	fails_with 'Invalid argument' cp "$1" "$mnt/programs/"
}
mount_pjrtfs cpu-0.81,cpu
bounded cp good.jax_exported "$mnt/programs/" # newer than the plugin, which reads it all the same
# a plugin of the mount is new enough: it is named, without starting anything
refused newer.jax_exported
old='plugin cpu-0\.81 has 1\.13\.3'
tells "$error" vhlX "^compile newer: the program is StableHLO 1\.18\.0, $old: try plugin cpu " \
	'\(options\.json \{"plugin":"cpu"\}\): '
equal "workers" "$(pgrep -c -P "$daemon")" 2
# none is
refused newest.jax_exported
tells "$error" vhlX "^compile newest: the program is StableHLO 1\.99\.0, $old: send the text, exported\.mlir_module\(\) into a \.mlir, or try a newer plugin: "
# what is not newer has another reason, a text has no version, and a plugin that is named has its own
echo '{"plugin":"cpu"}' >"$mnt/executables/newer/options.json"
for file in older.jax_exported bad.mlir newer.jax_exported; do
	refused "$file"
	! bounded grep 'the program is' "$error" || fail "$file has a version"
done
