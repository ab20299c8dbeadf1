#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# Programs for several devices, for one that is not the first, and for any, from the cache.
. "$srcdir/tests/lib.sh"
requires jq --version
export PJRTFS_CACHE_DIR=$work/kept
p=${plugin:-cpu}
cat >sum.mlir <<'END'
module @sum attributes {mhlo.num_replicas = 2 : i32} {
  func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
END
for want in miss hit; do
	mount_pjrtfs
	b=$mnt/buffers
	for d in 0 1 3; do echo "1 2 $d" >"$mnt/devices/$p/$d/buffers/v.txt"; done
	bounded cp sum.mlir "$mnt/programs/"
	equal "sum" "$(bounded jq -r .cache "$mnt/executables/sum/info.json")" $want
	ask '{"op":"execute","executable":"sum","inputs":[["v"],["v"]],"outputs":[["s"],["s"]]}' >reply
	tells reply '"ok":true'
	shows "$mnt/devices/$p/1/buffers/s.txt" '2 4 1'
	bounded touch "$mnt/programs/far.mlir" "$mnt/programs/any.mlir"
	say "$mnt/executables/far/options.json" '{"device":3}'
	say "$mnt/executables/any/options.json" '{"compile_portable_executable":true}'
	sed '/num_replicas/s/attributes.*{/{/; s/@sum/@far/' sum.mlir | perl -0pe 's/%0 = "stablehlo.all_reduce".*?-> tensor<3xf32>/%0 = stablehlo.negate %x : tensor<3xf32>/s' >far.mlir
	bounded cp far.mlir "$mnt/programs/far.mlir"
	bounded cp far.mlir "$mnt/programs/any.mlir"
	equal "far" "$(bounded jq -r .cache "$mnt/executables/far/info.json")" $want
	equal "any" "$(bounded jq -r .cache "$mnt/executables/any/info.json")" $want
	run far 'v -> n'
	shows "$mnt/devices/$p/3/buffers/n.txt" '-1 -2 -3'
	run any 'v -> n'
	shows "$b/n.txt" '-1 -2 -0'
	unmount_pjrtfs
done
