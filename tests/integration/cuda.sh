#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: deep
# SANITIZE: none
# COST: 5 CPU-s in 15 s
# JAX's plugin for CUDA where there is no GPU: a compiler for the GPUs that pjrtfs describes.  The sandbox
# that pjrtfs chooses lets it start ptxas, which lies where pip puts it.
. "$srcdir/tests/words.sh"
requires_fetched cuda
requires test ! -e /dev/nvidiactl

mount_pjrtfs cuda
at=$mnt/plugins/cuda x=$mnt/executables/add
shows "$at/state" compiler
tells "$at/error" 'No visible GPU devices'
tells "$at/sandbox" '^device$'

say "$mnt/topologies/h100.json" \
	'{"name":"","options":{"topology":"1x1x1","target_config":"h100_sxm"}}'
knows "$mnt/topologies/h100.json" '.plugin == "cuda" and .devices[0].attributes.compute_capability == "9.0"'
bounded touch "$mnt/programs/add.mlir"
say "$x/options.json" '{"topology":"h100"}'
bounded cp "$data/add.mlir" "$mnt/programs/"
shows "$x/state" compiled
knows "$x/memory.json" '.peak_memory_in_bytes > 0'
knows "$x/signature.json" '[.inputs, .outputs | length] == [2, 1]'
bounded cat "$x/serialized" >serialized
grep -aqF $'\x7fELF' serialized || fail 'there is no machine code in serialized'
shows "$mnt/health" ok

# -- JAX's linear algebra: its handlers, from modules of Python, answer, and programs that call them compile
equal 'custom calls of JAX' "$(bounded cut -f 2 "$at/custom_calls" | grep -v pjrtfs | sort | uniq -c | tr -s ' \n' ' ')" \
	' 3 _linalg 1 _prng 2 _rnn 13 _solver 9 _sparse '
cat >cholesky.mlir <<-'END'
	func.func @main(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<i32>) {
	  %y:2 = stablehlo.custom_call @cusolver_potrf_ffi(%x) {mhlo.backend_config = {lower = true},
	    operand_layouts = [dense<[0, 1]> : tensor<2xindex>], output_operand_aliases = [
	    #stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>],
	    result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]}
	    : (tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<i32>)
	  return %y#0, %y#1 : tensor<64x64xf32>, tensor<i32>
	}
END
bounded touch "$mnt/programs/cholesky.mlir"
say "$mnt/executables/cholesky/options.json" '{"topology":"h100"}'
bounded cp cholesky.mlir "$mnt/programs/"
shows "$mnt/executables/cholesky/state" compiled
knows "$mnt/executables/cholesky/info.json" '.custom_calls == [{"target":"cusolver_potrf_ffi","library":"_solver"}]'
shows "$mnt/health" ok

# Python says the same addresses, if the one is here that can load the modules.
beside=$(dirname "$(realpath "$plugins/cuda/pjrt_plugin.so")")
for python in python3.12 ~/.pyenv/versions/3.12.*/bin/python3; do
	"$python" -c "" 2>/dev/null || continue
	(cd "$beside" && "$python" -B "$top/docs/examples/ffi/make_map.py" CUDA ../../jax_cuda13_plugin/_{solver,linalg,prng,sparse,rnn}.so) \
		>list.json 2>said || fail "make_map.py: $(cat said)"
	same list.json "$top/scripts/cuda.ffi.json"
	break
done
