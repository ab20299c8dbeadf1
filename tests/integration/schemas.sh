#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The schemas of commands, replies, signature.json, info.json, x.json, events, --status and the names of metrics,
# and the mount agree.
. "$srcdir/tests/lib.sh"
read -ra cc <<<"${CC:-cc}" # it may have options
requires "${cc[@]}" --version
"${cc[@]}" -shared -fPIC -O2 -I"$top/include" -Dpjrtfs_ffi_library=unused -Dstatic= \
	-o library.so "$top/docs/examples/ffi/leaky_relu.c"
export FFI_LIBRARY=$work/library.so
mount_pjrtfs
echo 'func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
	%0 = stablehlo.custom_call @pjrtfs_callback(%x) {api_version = 4 : i32,
		backend_config = {index = 0 : ui64}} : (tensor<4xf32>) -> tensor<4xf32>
	return %0 : tensor<4xf32> }' >calls.mlir
cp "$data/add.mlir" "$data/jax/sharded.jax_exported" calls.mlir "$mnt/programs/"
fails_with 'Invalid argument' cp "$data/overflow.mlir" "$mnt/programs/none.hlo.pb"
touch "$mnt/programs/empty.mlir"
cp "$data/x.npy" "$data/y.npy" .
cp x.npy y.npy "$mnt/buffers/"
cp "$data/x.npy" "$mnt/buffers/gone.npy"
cp "$top/demo/transformer/weights.safetensors" "$mnt/buffers/"
head -c 100 "$data/x.npy" >half.npy
fails_with 'Invalid argument' cp half.npy "$mnt/buffers/"
fails_with 'Invalid argument' cp calls.mlir "$mnt/buffers/refused.npy"
bounded mv "$mnt/buffers/y.npy" "$mnt/buffers/moved.npy"
run add 'x moved -> z'
run add 'x moved -> z'
fails_with 'Invalid argument' run add 'x -> z'
ask '{"op":"execute","executable":"add","inputs":["gone","x"],"outputs":["sum"],"donate":[0],"id":[1]}
{"op":"stat","buffer":"z","async":true}
{"op":"stat","buffer":"none"}' >out
bounded bash -c 'exec 3<>"$1" && cat x.npy y.npy >&3 && cat <&3 >out' call "$mnt/executables/add/call"
eventually grep -qx "done" "$mnt/jobs/1/state"

# -- make install installs all of them
make -s -C "$build" DESTDIR="$work/inst" pkgdatadir=/share install-dist_pkgdataDATA \
	install-dist_schemaDATA >out 2>&1 || fail "make install: $(cat out)"
same "$top/docs/commands.schema.json" inst/share/commands.schema.json
diff -r "$top/docs/schema" inst/share/schema || fail "the installed schemas are others"

ask '{"op":"execute","executable":"add","inputs":["x","moved"],"outputs":["z"],"repeat":1000000000,"async":true}' >out
runs()
{
	"$pjrtfs" --status "$mnt" --json >status.json && jq -e '[.plugins[].devices[].runs | values] != []' status.json
}
eventually runs
say "$mnt/jobs/2/cancel" 1
eventually grep -qx cancelled "$mnt/jobs/2/state"
status=0
bounded "$pjrtfs" --status "$work" --json >nowhere.json 2>err || status=$?
equal "status of no mount" "$status" 2

"$patient" $((patience * 3)) python3 -B "$top/tests/tools/schemas.py" "$mnt" "$top"/docs/*.pod
shows "$mnt/health" ok
mount_pjrtfs
"$patient" $((patience * 6)) python3 -B "$top/tests/tools/commands_schema.py" "$mnt"
shows "$mnt/health" ok
