#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# COST: 2 CPU-s in 13 s
# FFI libraries that are registered and crash, hang or cannot work: the mount stays as it is.
. "$srcdir/tests/lib.sh"
name=${plugin:-cpu}
read -ra cc <<<"${CC:-cc}" # it may have options
requires "${cc[@]}" --version
requires_mount
fault=$build/tests/faults/ffi_library.so
good=$work/leaky_relu.so
"${cc[@]}" -shared -fPIC -O2 -I"$top/include" -o "$good" "$top/docs/examples/ffi/leaky_relu.c"
register() # LIBRARY
{
	ask "{\"op\":\"register\",\"library\":\"$1\"}"
}

# -- when it is loaded
ends=(crash exit)
! sanitized || ends=(crash) # ThreadSanitizer reports an exit(3) within dlopen(3) itself
for how in "${ends[@]}" why; do
	mount_pjrtfs --plugin-env "$name:FFI_FAULT=$how"
	put_add
	pid=$(bounded cat "$mnt/plugins/$name/pid")
	want="EIO.*register: plugin $name: the worker of plugin $name .*FFI library $fault ended the process while it was loaded"
	[ "$how" != why ] || want="EOPNOTSUPP.*register: plugin $name: FFI library $fault: it needs a library that is not there"
	tells <(register "$fault") "$want"
	shows "$mnt/plugins/$name/pid" "$pid"
	gone "$mnt/ffi/ffi_library"
	shows "$mnt/health" ok
	run add 'x y -> z'
	# Another one is registered as if nothing had been.
	tells <(register "$good") '"library":"leaky_relu"'
	run add 'z y -> z'
	unmount_pjrtfs
done

# -- a program that never ends does not keep a library out: it fails, with the reason
mount_pjrtfs --ffi-library "$fault"
cat >hangs.mlir <<-'END'
	func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
	  %y = stablehlo.custom_call @test_fault(%x) {backend_config = {how = -2 : i32}, api_version = 4 : i32}
	    : (tensor<4xf32>) -> tensor<4xf32>
	  return %y : tensor<4xf32>
	}
END
bounded cp hangs.mlir "$data/add.mlir" "$mnt/programs/"
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
say "$mnt/buffers/v.txt" '1 2 3 4'
ask '{"op":"execute","executable":"hangs","inputs":["v"],"outputs":["w"],"async":true}' >job
eventually grep -qx running "$mnt/jobs/1/state"
run add 'x y -> z' # which loads it
halt "$(cat "$mnt/plugins/$name/pid")" # it cannot answer either
ask '{"op":"execute","executable":"add","inputs":["z","y"],"outputs":["z"]}' >late &
late=$!
tells <(register "$good") '"library":"leaky_relu"'
tells <(ask '{"op":"wait","job":1}') 'EIO.*hangs: .*it was replaced, and did not end in time what was under way'
wait "$late"
tells "$mnt/plugins/$name/custom_calls" $'^leaky_relu\tleaky_relu$'
shows "$mnt/plugins/$name/restarts" 1
run add 'x y -> z'
unmount_pjrtfs

# -- the mount ends while a library is tried
cat >slow.c <<-'END'
	#include <unistd.h>
	static void __attribute__((constructor)) begin(void) { pause(); }
END
"${cc[@]}" -shared -fPIC -o slow.so slow.c
mount_pjrtfs
timeout "$patience" bash -c 'exec 3<>"$1" && echo "$2" >&3 && cat <&3' - "$mnt/control" \
	"{\"op\":\"register\",\"library\":\"$work/slow.so\"}" >/dev/null 2>&1 &
client=$!
two_workers()
{
	[ "$(pgrep -P "$daemon" | wc -l)" = 2 ]
}
eventually two_workers
kill "$client"
wait "$client" || :
unmount_pjrtfs
