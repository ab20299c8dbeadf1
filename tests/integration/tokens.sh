#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# Programs whose main takes and returns tokens, as JAX's ordered effects have it.
. "$srcdir/tests/words.sh"
mount_pjrtfs
x=$mnt/executables


# -- tokens are neither arguments nor results; all else is as the program has it
cat >ordered.mlir <<'END'
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: !stablehlo.token {jax.token = true}, %arg1: !stablehlo.token {jax.token = true}, %state: tensor<2xf32> {tf.aliasing_output = 3 : i32}, %step: tensor<f32>) -> (!stablehlo.token {jax.token = true}, tensor<f32> {jax.result_info = "result[0]"}, !stablehlo.token {jax.token = true}, tensor<2xf32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.after_all %arg0, %arg1 : !stablehlo.token
    %1 = stablehlo.add %step, %step : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %step, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %3 = stablehlo.add %state, %2 : tensor<2xf32>
    return %0, %1, %arg1, %3 : !stablehlo.token, tensor<f32>, !stablehlo.token, tensor<2xf32>
  }
}
END
bounded cp ordered.mlir "$mnt/programs/"
knows "$x/ordered/signature.json" '[.inputs[] | .name, .shape] == ["state", [2], "step", []]'
knows "$x/ordered/signature.json" '.inputs[0].donated and .inputs[0].alias_output == 1'
knows "$x/ordered/signature.json" '[.outputs[].shape] == [[], [2]]'
say "$mnt/buffers/state.txt" '1 2'
say "$mnt/buffers/step.txt" 3
run ordered 'state step -> twice next'
shows "$mnt/buffers/twice.txt" 6
shows "$mnt/buffers/next.txt" '4 5'

# The file is the user's; a copy of it compiles as it does, and from the cache.
bounded cmp ordered.mlir "$mnt/programs/ordered.mlir"
key=$(bounded jq -r .cache_key "$x/ordered/info.json")
bounded cp "$mnt/programs/ordered.mlir" "$mnt/programs/again.mlir"
equal 'the key of the same program' "$(bounded jq -r .cache_key "$x/again/info.json")" "$key"
knows "$x/again/info.json" '.cache == "hit"'
run again 'state step -> twice next'
shows "$mnt/buffers/next.txt" '4 5'

# -- a main of nothing but tokens
cat >nothing.mlir <<'END'
func.func @main(%x: !stablehlo.token) -> !stablehlo.token { return %x : !stablehlo.token }
END
bounded cp nothing.mlir "$mnt/programs/"
knows "$x/nothing/signature.json" '.inputs == [] and .outputs == []'

# -- an error stands in the line where it is in the file
sed 's/add %state, %2/add %state, %nowhere/' ordered.mlir >wrong.mlir
fails_with '' cp wrong.mlir "$mnt/programs/"
tells "$x/wrong/error" ': line 6, column [0-9]+: '

# A new worker gets the program once more.
kill_worker
run ordered 'state step -> twice last'
shows "$mnt/buffers/last.txt" '4 5'

# -- JAX's io_callback(ordered=True): the program calls its host twice
cat >writes.mlir <<'END'
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @maximal_mesh_0 = <[], device_ids=[0]> {stablehlo.mesh = {axes = [], device_ids = dense<0> : tensor<1xi64>}}
  func.func public @main(%arg0: !stablehlo.token {jax.token = true}, %arg1: tensor<3xf32>) -> (!stablehlo.token {jax.token = true}, tensor<i32> {jax.result_info = "result[0]"}) {
    %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg0, %arg1) {backend_config = "", has_side_effect = true, mhlo.backend_config = {index = 0 : ui64}, operand_layouts = [dense<> : tensor<0xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<> : tensor<0xindex>], sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>]>} : (!stablehlo.token, tensor<3xf32>) -> !stablehlo.token
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %2 = stablehlo.multiply %arg1, %1 : tensor<3xf32>
    %3:2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%0, %2) {backend_config = "", has_side_effect = true, mhlo.backend_config = {index = 1 : ui64}, operand_layouts = [dense<> : tensor<0xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<> : tensor<0xindex>, dense<> : tensor<0xindex>], sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>, <@maximal_mesh_0, []>]>} : (!stablehlo.token, tensor<3xf32>) -> (!stablehlo.token, tensor<i32>)
    return %3#0, %3#1 : !stablehlo.token, tensor<i32>
  }
}
END
bounded cp writes.mlir "$mnt/programs/"
knows "$x/writes/signature.json" '[.inputs[].shape, .outputs[].shape] == [[3], []]'
knows "$x/writes/signature.json" '[.callbacks[] | .index, .ordered, .side_effect] == [0, true, true, 1, true, true]'
knows "$x/writes/signature.json" '[.callbacks[].inputs[]] | unique == [{"dtype":"F32","datatype":"FP32","shape":[3]}]'
knows "$x/writes/signature.json" '[.callbacks[].outputs] == [[], [{"dtype":"S32","datatype":"INT32","shape":[]}]]'

# Its cached and its compiled program have them, too.
bounded jq .callbacks "$x/writes/signature.json" >want
bounded cp writes.mlir "$mnt/programs/cached.mlir"
knows "$x/cached/info.json" '.cache == "hit"'
bounded cp "$x/writes/serialized" "$mnt/programs/native.pjrtexe"
for n in cached native; do
	bounded jq .callbacks "$x/$n/signature.json" >have
	same have want
done

# -- bytecode; conformance.sh has more of it
# An export for several platforms, whose first argument is the platform's number.
bounded cp "$data/jax/ordered.jax_exported" "$mnt/programs/exported.jax_exported"
knows "$x/exported/signature.json" '[.inputs[].shape] == [[2, 3], [2, 3]]'
knows "$x/exported/signature.json" '.inputs[0].donated and .inputs[0].alias_output == 0'
knows "$x/exported/signature.json" '[.outputs[].shape] == [[2, 3], []]'
say "$mnt/buffers/x.txt" '1 2 3
4 5 6'
say "$mnt/buffers/state.txt" '10 20 30
40 50 60'
run exported 'state x -> after sum'
[ "$(bounded cat "$mnt/buffers/after.txt" | tr '\n' ' ')" = '12 24 36 48 60 72 ' ] ||
	fail "computed $(bounded cat "$mnt/buffers/after.txt")"
shows "$mnt/buffers/sum.txt" 21
bounded cmp "$data/jax/ordered.jax_exported" "$mnt/programs/exported.jax_exported"
bounded cp "$data/jax/ordered.jax_exported" "$mnt/programs/copied.jax_exported"
knows "$x/copied/info.json" '.cache == "hit"'

# Bytecode of version 4 keeps its tokens, and is refused with a remedy.
fails_with '' cp "$data/jax/ordered-old.mlirbc" "$mnt/programs/old.mlirbc"
tells "$x/old/error" 'argument 0 .*token.*as_text'

# -- the copy is charged while the program compiles, and not afterwards
{
	cat ordered.mlir
	yes '// a long program' | head -c 2000000
	echo
} >long.mlir
bounded rm "$mnt/programs/"*
u=$mnt/users/$(id -u)
settle
before=$(bounded cat "$u/memory.current")
say "$u/memory.max" $((before + 3000000))
fails_with 'Disk quota exceeded' cp long.mlir "$mnt/programs/"
tells "$x/long/error" 'memory.max'
say "$u/memory.max" $((before + 5000000))
bounded cp long.mlir "$mnt/programs/"
eventually eval '[ "$(bounded cat "$u/memory.current")" -le $((before + 3000000)) ]'
