// SPDX-License-Identifier: Apache-2.0
// What frameworks write besides plain operations; tests/tools/producers.py has the form of this table.


// Quantized types: TensorFlow's quantizer, torch_xla of a PT2E model

// ----- quantized
// EINVAL: line [0-9]+: expected types of numbers, found !quant.uniform: .*lower them to integers
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// ----- quantized-axis
// EINVAL: line [0-9]+: expected types of numbers, found !quant.uniform: .*lower them to integers
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.uniform_quantize %x : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i8<-127:127>:f32:1, {5.000000e-01,2.500000e-01}>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<2x2x!quant.uniform<i8<-127:127>:f32:1, {5.000000e-01,2.500000e-01}>>) -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// ----- quantized-argument
// EINVAL: line [0-9]+: expected types of numbers, found !quant.uniform: .*lower them to integers
func.func @main(%x: tensor<4x!quant.uniform<u8:f32, 3.400000e+01:16>>) -> tensor<4x!quant.uniform<u8:f32, 3.400000e+01:16>> {
  return %x : tensor<4x!quant.uniform<u8:f32, 3.400000e+01:16>>
}

// ----- quantized-alias
// EINVAL: line [0-9]+: expected types of numbers, found !quant.uniform: .*lower them to integers
!q = !quant.uniform<i8:f32, 5.000000e-01>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!q>
  %1 = stablehlo.add %0, %0 : tensor<4x!q>
  %2 = stablehlo.uniform_dequantize %1 : (tensor<4x!q>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// ----- quantized-weights
// EINVAL: line [0-9]+: expected types of numbers, found !quant.uniform: .*lower them to integers
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = stablehlo.constant() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>} : () -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01>>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// ----- quantized-torch-xla
// EINVAL: expected types of numbers, found a quantized one, which plugins do not know: lower it to integers .*: <unknown>:0: error

// ----- quantized-bytecode
// EINVAL: expected tensors of numbers, found a type that XLA lacks, .*: Shape Error

// ----- quantized-call
// EOPNOTSUPP: the program calls stablehlo.uniform_quantize, which is for tools .*: export the model before it is quantized
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @stablehlo.uniform_quantize(%x) {backend_config = "scale=0.5,zero_point=3,storage_type=si8,expressed_type=f32,storage_min=-128,storage_max=127"} : (tensor<4xf32>) -> tensor<4xi8>
  %1 = stablehlo.custom_call @stablehlo.uniform_dequantize(%0) {backend_config = "scale=0.5,zero_point=3"} : (tensor<4xi8>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// ----- quantized-as-integers
// runs x: 1 2 3 4
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = stablehlo.constant dense<5.000000e-01> : tensor<4xf32>
  %z = stablehlo.constant dense<3.000000e+00> : tensor<4xf32>
  %0 = stablehlo.divide %x, %s : tensor<4xf32>
  %1 = stablehlo.add %0, %z : tensor<4xf32>
  %2 = stablehlo.round_nearest_even %1 : tensor<4xf32>
  %3 = stablehlo.convert %2 : (tensor<4xf32>) -> tensor<4xi8>
  %4 = stablehlo.convert %3 : (tensor<4xi8>) -> tensor<4xf32>
  %5 = stablehlo.subtract %4, %z : tensor<4xf32>
  %6 = stablehlo.multiply %5, %s : tensor<4xf32>
  return %6 : tensor<4xf32>
}

// Composites: torch_xla's StableHLOCompositeBuilder, jax.lax.composite; operations of CHLO

// ----- composite
// runs x: 2 4 6 8
module @IrToHlo.9 attributes {mhlo.cross_program_prefetches = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.composite "test.scale" %arg0 {composite_attributes = {factor = 2.000000e+00 : f32}, decomposition = @test.scale.impl} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @test.scale.impl(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// ----- composite-nested
// runs x: 4 8 12 16
module {
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.composite "a.outer" %arg0 {decomposition = @outer, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @outer(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.composite "a.inner" %arg0 {decomposition = @inner} : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.composite "a.inner" %0 {decomposition = @inner} : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func private @inner(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// ----- composite-lost
// EINVAL: line [0-9]+, column [0-9]+: 'gone' does not reference a valid function
module {
  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.composite "a.gone" %arg0 {decomposition = @gone} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// ----- composite-topk
// runs x: 4 3 3 2
module {
  func.func @main(%arg0: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
    %0:2 = stablehlo.composite "chlo.top_k" %arg0 {composite_attributes = {k = 2 : i64, largest = true}, decomposition = @top_k_impl, version = 1 : i32} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
    return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
  }
  func.func private @top_k_impl(%arg0: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
    %0:2 = chlo.top_k(%arg0, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
    return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
  }
}

// ----- chlo-erf
// runs x: 0.84270084 0.9953222 0.99997795 1
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = chlo.erf %x : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// ----- chlo-functions
// runs x: 0.08885599 0.17914347 0.27246276 0.3708072
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<1.000000e+01> : tensor<4xf32>
  %d = stablehlo.divide %x, %c : tensor<4xf32>
  %0 = chlo.asin %d : tensor<4xf32> -> tensor<4xf32>
  %1 = chlo.lgamma %x : tensor<4xf32> -> tensor<4xf32>
  %2 = chlo.digamma %x : tensor<4xf32> -> tensor<4xf32>
  %3 = chlo.square %1 : tensor<4xf32> -> tensor<4xf32>
  %4 = chlo.erf_inv %d : tensor<4xf32> -> tensor<4xf32>
  %5 = chlo.sinh %d : tensor<4xf32> -> tensor<4xf32>
  %6 = chlo.next_after %d, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// ----- chlo-broadcast
// runs x: 11 12 13 14
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<1.000000e+01> : tensor<f32>
  %0 = chlo.broadcast_add %x, %c : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// ----- chlo-ragged-dot
// EOPNOTSUPP: the program has an operation that compilers for other devices know: .*: HLO opcode `ragged-dot`
func.func @main(%x: tensor<2x2xf32>, %g: tensor<1xi32>) -> tensor<2x2xf32> {
  %w = stablehlo.constant dense<1.0> : tensor<1x2x2xf32>
  %0 = "chlo.ragged_dot"(%x, %w, %g) {precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>} : (tensor<2x2xf32>, tensor<1x2x2xf32>, tensor<1xi32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// ----- mhlo
// runs x: 2 4 6 8
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mhlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Custom calls that XLA's compiler knows

// ----- topk
// runs x: 4 3 3 2
func.func @main(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : i64, largest = true}, mhlo.version = 1 : i64} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}

// ----- topk-compared
// runs x: 4 3 3 2
func.func @main(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0:2 = stablehlo.custom_call @TopK(%x) {called_computations = [@greater], api_version = 0 : i32} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}
func.func private @greater(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}

// ----- topk-approximate
// runs x: 4 3
func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {
  %i = stablehlo.iota dim = 0 : tensor<4xi32>
  %f = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %n = stablehlo.constant dense<-1> : tensor<i32>
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %f, %n) {called_computations = [@greater], mhlo.backend_config = {aggregate_to_topk = true, recall_target = 0.94999998807907104 : f32, reduction_dim = 0 : i64, reduction_input_size_override = -1 : i64, top_k = 2 : i64, is_fallback = true}} : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0 : tensor<2xf32>
}
func.func private @greater(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}

// ----- erf
// runs x: 0.84270084 0.9953222 0.99997795 1
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @mhlo.erf(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// ----- tan
// runs x: 1.5574077 -2.1850398 -0.14254655 1.1578213
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @mhlo.tan(%x) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// ----- qr
// runs square: -3.1622777 -4.4271884 0.7207592 -0.6324553
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0:2 = stablehlo.custom_call @Qr(%x) : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
  return %0#0 : tensor<2x2xf32>
}

// ----- placement-host
// runs x: 2 4 6 8
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @annotate_device_placement(%x) {backend_config = "", has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.add %0, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// ----- placement-device
// runs x: 2 4 6 8
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = stablehlo.custom_call @annotate_device_placement(%0) {backend_config = "", has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "device"}} : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// ----- move-to-host
// runs x: 1 2 3 4
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @MoveToHost(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.custom_call @MoveToDevice(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// ----- layout
// runs square: 1 2 3 4
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.custom_call @LayoutConstraint(%x) {operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// ----- sharding
// runs x: 2 4 6 8
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @Sharding(%x) {backend_config = "", mhlo.sharding = "{replicated}"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.add %0, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// ----- sharding-devices
// runs x: 2 4 6 8
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @Sharding(%x) {backend_config = "", mhlo.sharding = "{devices=[2]0,1}"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.add %0, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// ----- spmd
// EINVAL: expected arrays of one partition, found a program that takes them apart: write {"num_partitions": N} to its options.json: RET_CHECK
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{devices=[2]0,1}"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} : (tensor<4xf32>) -> tensor<2xf32>
  %2 = stablehlo.add %1, %1 : tensor<2xf32>
  %3 = stablehlo.custom_call @Sharding(%2) {mhlo.sharding = "{manual}"} : (tensor<2xf32>) -> tensor<2xf32>
  %4 = stablehlo.custom_call @SPMDShardToFullShape(%3) {mhlo.sharding = "{devices=[2]0,1}"} : (tensor<2xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// Custom calls of other devices, and of the framework's own process

// ----- pallas-tpu
// EOPNOTSUPP: the program calls tpu_custom_call, which is a Pallas kernel for TPUs: .*interpret=True
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @tpu_custom_call(%x) {backend_config = "{\22custom_call_config\22: {\22body\22: \22\22}}", kernel_name = "add"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// ----- pallas-gpu
// EOPNOTSUPP: the program calls __gpu\$xla.gpu.triton, which is a Pallas kernel for GPUs: .*interpret=True
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @__gpu$xla.gpu.triton(%x) {api_version = 4 : i32, mhlo.backend_config = {name = "k"}} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// ----- shape-assertion
// EOPNOTSUPP: the program calls shape_assertion, which checks symbolic sizes: export the function with numbers
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<true> : tensor<i1>
  stablehlo.custom_call @shape_assertion(%c) {api_version = 2 : i32, error_message = "Input shapes do not match", has_side_effect = true} : (tensor<i1>) -> ()
  return %x : tensor<4xf32>
}

// ----- dynamic-window
// EOPNOTSUPP: the program calls stablehlo.dynamic_reduce_window, which has sizes that the program computes: export
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %z = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %1 = stablehlo.constant dense<1> : tensor<1xi64>
  %p = stablehlo.constant dense<0> : tensor<1x2xi64>
  %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %z, %1, %1, %1, %1, %p) {called_computations = [@add]} : (tensor<4xf32>, tensor<f32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1x2xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}

// ----- call-tf
// EOPNOTSUPP: the program calls tf.call_tf_function, which is a function that TensorFlow's process has: jax2tf.call_tf without
module {
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  stablehlo.custom_call @tf.call_tf_function(%x) {api_version = 2 : i32, has_side_effect = true, tf.backend_config = {called_index = 0 : i64, has_token_input_output = false}} : (tensor<4xf32>) -> ()
  return %x : tensor<4xf32>
}
}

// ----- pad-to-static
// EOPNOTSUPP: the program is for a compiler that knows this call: export it for this platform: Custom call target PadToStatic
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0:2 = stablehlo.custom_call @PadToStatic(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>)
  return %0#0 : tensor<4xf32>
}

// ----- unknown-call
// EOPNOTSUPP: the program calls my.kernel, which no FFI library provides: name one that does with --ffi-library
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @my.kernel(%x) {api_version = 4 : i32, mhlo.backend_config = {}} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// ----- unknown-call-old
// EOPNOTSUPP: the program calls my.kernel, which no FFI library provides: name one that does with --ffi-library
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @my.kernel(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Sizes that are values: they may be constants, and sometimes arguments, where the result's shape is fixed

// ----- reshape
// runs x: 1 2 3 4
func.func @main(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %n = stablehlo.constant dense<[2, 2]> : tensor<2xi32>
  %0 = stablehlo.dynamic_reshape %x, %n : (tensor<4xf32>, tensor<2xi32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// ----- reshape-argument
// runs x twos: 1 2 3 4
func.func @main(%x: tensor<4xf32>, %n: tensor<2xi32>) -> tensor<2x2xf32> {
  %0 = stablehlo.dynamic_reshape %x, %n : (tensor<4xf32>, tensor<2xi32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// ----- reshape-inner
// EINVAL: expected sizes that are numbers, found an operation .*export it with numbers for its sizes: line
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = stablehlo.constant dense<[2, 2]> : tensor<2xi32>
  %m = stablehlo.constant dense<4> : tensor<1xi32>
  %0 = stablehlo.dynamic_reshape %x, %n : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x2xf32>
  %1 = stablehlo.add %0, %0 : tensor<?x2xf32>
  %2 = stablehlo.dynamic_reshape %1, %m : (tensor<?x2xf32>, tensor<1xi32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// ----- broadcast
// runs x: 1 2 3 4 1 2 3 4
func.func @main(%x: tensor<4xf32>) -> tensor<2x4xf32> {
  %n = stablehlo.constant dense<[2, 4]> : tensor<2xi32>
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [1] : (tensor<4xf32>, tensor<2xi32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// ----- broadcast-argument
// runs x twos: 1 2 3 4 1 2 3 4
func.func @main(%x: tensor<4xf32>, %n: tensor<2xi32>) -> tensor<2x4xf32> {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [1] : (tensor<4xf32>, tensor<2xi32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// ----- broadcast-inner
// EINVAL: expected sizes that are numbers, found an operation .*export it with numbers for its sizes: line
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = stablehlo.constant dense<4> : tensor<1xi32>
  %c = stablehlo.constant dense<2.000000e+00> : tensor<f32>
  %b = stablehlo.dynamic_broadcast_in_dim %c, %n, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
  %y = stablehlo.dynamic_reshape %x, %n : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>
  %0 = stablehlo.multiply %y, %b : tensor<?xf32>
  %1 = stablehlo.dynamic_reshape %0, %n : (tensor<?xf32>, tensor<1xi32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// ----- size
// runs x: 4
func.func @main(%x: tensor<4xf32>) -> tensor<i32> {
  %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<4xf32>) -> tensor<i32>
  return %0 : tensor<i32>
}

// ----- slice
// runs x: 2 3
func.func @main(%x: tensor<4xf32>) -> tensor<2xf32> {
  %a = stablehlo.constant dense<1> : tensor<1xi32>
  %b = stablehlo.constant dense<3> : tensor<1xi32>
  %c = stablehlo.constant dense<1> : tensor<1xi32>
  %0 = stablehlo.real_dynamic_slice %x, %a, %b, %c : (tensor<4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// ----- slice-argument
// EINVAL: expected sizes that are numbers, found an operation .*export it with numbers for its sizes: line
func.func @main(%x: tensor<4xf32>, %a: tensor<1xi32>, %b: tensor<1xi32>) -> tensor<2xf32> {
  %c = stablehlo.constant dense<1> : tensor<1xi32>
  %0 = stablehlo.real_dynamic_slice %x, %a, %b, %c : (tensor<4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// ----- iota
// runs x: 1 3 5 7
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = stablehlo.constant dense<4> : tensor<1xi32>
  %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<4xf32>
  %1 = stablehlo.add %x, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// ----- gather
// runs x: 3 1
func.func @main(%x: tensor<4xf32>) -> tensor<2x1xf32> {
  %i = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi32>
  %s = stablehlo.constant dense<1> : tensor<1xi32>
  %0 = "stablehlo.dynamic_gather"(%x, %i, %s) {dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false} : (tensor<4xf32>, tensor<2x1xi32>, tensor<1xi32>) -> tensor<2x1xf32>
  return %0 : tensor<2x1xf32>
}

// ----- gather-argument
// EINVAL: expected sizes that are numbers, found an operation .*export it with numbers for its sizes: line
func.func @main(%x: tensor<4xf32>, %s: tensor<1xi32>) -> tensor<2x1xf32> {
  %i = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi32>
  %0 = "stablehlo.dynamic_gather"(%x, %i, %s) {dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false} : (tensor<4xf32>, tensor<2x1xi32>, tensor<1xi32>) -> tensor<2x1xf32>
  return %0 : tensor<2x1xf32>
}

// ----- pad
// runs x: 0 1 2 3 4 0
func.func @main(%x: tensor<4xf32>) -> tensor<6xf32> {
  %v = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %1 = stablehlo.constant dense<1> : tensor<1xi32>
  %0 = stablehlo.constant dense<0> : tensor<1xi32>
  %r = stablehlo.dynamic_pad %x, %v, %1, %1, %0 : (tensor<4xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// ----- pad-argument
// EINVAL: expected sizes that are numbers, found an operation .*export it with numbers for its sizes: line
func.func @main(%x: tensor<4xf32>, %1: tensor<1xi32>) -> tensor<6xf32> {
  %v = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.constant dense<0> : tensor<1xi32>
  %r = stablehlo.dynamic_pad %x, %v, %1, %1, %0 : (tensor<4xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}

// ----- convolution
// EINVAL: expected sizes that are numbers, found an operation .*export it with numbers for its sizes: line
func.func @main(%x: tensor<1x1x4xf32>) -> tensor<1x1x4xf32> {
  %w = stablehlo.constant dense<[[[1.0, 1.0, 1.0]]]> : tensor<1x1x3xf32>
  %p = stablehlo.constant dense<[[1, 1]]> : tensor<1x2xi32>
  %r = "stablehlo.dynamic_conv"(%x, %w, %p) {batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, feature_group_count = 1 : i64} : (tensor<1x1x4xf32>, tensor<1x1x3xf32>, tensor<1x2xi32>) -> tensor<1x1x4xf32>
  return %r : tensor<1x1x4xf32>
}

// ----- bounded
// runs x two: 3
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<f32> {
  %z = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
  %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?xf32, #stablehlo.bounds<4>>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// ----- bounded-result
// EINVAL: line [0-9]+: expected fixed shapes, found a dimension of main.s types as "\?": export the function with numbers
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>> {
  %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
  return %0 : tensor<?xf32, #stablehlo.bounds<4>>
}

// ----- unbounded
// EINVAL: line [0-9]+: expected fixed shapes, found a dimension of main.s types as "\?": export the function with numbers
module @IrToHlo.16 attributes {mhlo.cross_program_prefetches = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<?x5xf32>, %arg1: tensor<5xf32>) -> tensor<?x5xf32> {
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x5xf32>) -> tensor<i32>
    %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    %c = stablehlo.constant dense<5> : tensor<1xi32>
    %2 = stablehlo.concatenate %1, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %3 = stablehlo.dynamic_broadcast_in_dim %arg1, %2, dims = [1] : (tensor<5xf32>, tensor<2xi32>) -> tensor<?x5xf32>
    %4 = stablehlo.add %arg0, %3 : tensor<?x5xf32>
    return %4 : tensor<?x5xf32>
  }
}

// ----- unranked
// EINVAL: expected tensors of numbers, found a type that XLA lacks, .*: Shape Error
func.func @main(%x: tensor<*xf32>) -> tensor<*xf32> {
  return %x : tensor<*xf32>
}

// ----- shape-of
// runs x: 1 2 3 4
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shape.shape_of %x : tensor<4xf32> -> tensor<1xindex>
  %0 = stablehlo.dynamic_reshape %x, %s : (tensor<4xf32>, tensor<1xindex>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// ----- index
// EINVAL: expected tensors of numbers, found a type that XLA lacks, .*: Shape Error
func.func @main(%x: tensor<4xf32>, %n: tensor<1xindex>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// Bytecode of one version, as mlir.Module.write_bytecode writes it, whose custom call another version cannot read

// ----- plain-bytecode
// EINVAL: expected bytecode that every version reads, found some of one version of StableHLO: write what serialize_portable_artifact gives, or text

// Of builders: GoMLX's (github.com/gomlx/go-xla 0.1.4) in Go, the crate stablehlo 0.4.0 in Rust

// ----- gomlx
// runs row kernel bias: 0.98901306 0.01098694
module @net {
  func.func @main(%row: tensor<1x4xf32>, %kernel: tensor<4x2xf32>, %bias: tensor<2xf32>) -> tensor<1x2xf32> {
    %0 = "stablehlo.dot_general"(%row, %kernel) {
      dot_dimension_numbers = #stablehlo.dot<
  lhs_batching_dimensions = [],
  rhs_batching_dimensions = [],
  lhs_contracting_dimensions = [1],
  rhs_contracting_dimensions = [0]
>,
      precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]
    } : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32>
    %1 = "stablehlo.broadcast_in_dim"(%bias) { broadcast_dimensions = array<i64: 1> } : (tensor<2xf32>) -> tensor<1x2xf32>
    %2 = "stablehlo.add"(%0, %1) : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
    %3 = "stablehlo.constant"() { value = dense<0.0> : tensor<f32> } : () -> tensor<f32>
    %4 = "stablehlo.broadcast_in_dim"(%3) { broadcast_dimensions = array<i64> } : (tensor<f32>) -> tensor<1x2xf32>
    %5 = "stablehlo.maximum"(%2, %4) : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
    %6 = "stablehlo.exponential"(%5) : (tensor<1x2xf32>) -> tensor<1x2xf32>
    %8 = "stablehlo.reduce"(%6, %3) ({
      ^reductionFn(%arg0: tensor<f32>, %arg1: tensor<f32>) :
          %7 = "stablehlo.add"(%arg0, %arg1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
          "stablehlo.return"(%7) : (tensor<f32>) -> ()
    }) { dimensions = array<i64: 1> } : (tensor<1x2xf32>, tensor<f32>) -> tensor<1xf32>
    %9 = "stablehlo.broadcast_in_dim"(%8) { broadcast_dimensions = array<i64: 0> } : (tensor<1xf32>) -> tensor<1x2xf32>
    %10 = "stablehlo.divide"(%6, %9) : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
    "stablehlo.return"(%10) : (tensor<1x2xf32>) -> ()
  }
}

// ----- rust
// runs square square: 2.7182817 7.389056 20.085537 54.59815
module {
func.func @main(%v0: tensor<2x2xf32>, %v1: tensor<2x2xf32>) -> (tensor<2x2xf32>) {
%v2 = "stablehlo.add"(%v0, %v1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> (tensor<2x2xf32>)
%v3 = "stablehlo.constant"() <{value = dense<0x3F000000> : tensor<2x2xf32>}> : () -> (tensor<2x2xf32>)
%v4 = "stablehlo.multiply"(%v2, %v3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> (tensor<2x2xf32>)
%v5 = "stablehlo.exponential"(%v4) : (tensor<2x2xf32>) -> (tensor<2x2xf32>)
"func.return"(%v5) : (tensor<2x2xf32>) -> ()
}
}
