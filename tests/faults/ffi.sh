#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# SANITIZE: asan
# Handlers of FFI libraries that fail, crash, end the process or never return: the execution fails,
# with its program as the culprit, and everything else goes on.
. "$srcdir/tests/lib.sh"
name=${plugin:-cpu}
mount_pjrtfs ${others:+-o allow_other} --ffi-library "$build/tests/faults/ffi_library.so" \
	--execute-timeout 3
at=$mnt/plugins/$name
chmod 755 "$work"
say "$mnt/buffers/x.txt" '1 2 3 4'

program() # NAME HOW: how the handler is to fail
{
	cat >"$1.mlir" <<-END
		func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
		  %y = stablehlo.custom_call @test_fault(%x) {backend_config = {how = $2 : i32}, api_version = 4 : i32}
		    : (tensor<4xf32>) -> tensor<4xf32>
		  return %y : tensor<4xf32>
		}
	END
	bounded cp "$1.mlir" "$mnt/programs/"
}
program works 0
run works 'x -> y'

# -- a code has its errno, and the sentence arrives; calls.sh has every code
while read -r code errno; do
	program "code$code" "$code"
	fails_with '' run "code$code" 'x -> y'
	tells "$mnt/executables/code$code/run" "^error: $errno: code$code: the handler says no"
done <<'END'
1 ECANCELED
3 EINVAL
8 ENOSPC
16 EACCES
END
shows "$at/restarts" 0

# -- a crash, and an exit
restarts=0
for how in -1 -3; do
	program "dies$how" "$how"
	fails_with 'Input/output error' run "dies$how" 'x -> z'
	tells "$mnt/executables/dies$how/run" "^error: EIO: dies$how: while running: the worker of plugin $name (died of signal 6|exited with status 5)"
	restarts=$((restarts + 1))
	restarted "$restarts"
	run works 'x -> y'
	shows "$mnt/buffers/y.txt" '1 2 3 4'
done

# -- a handler that never returns
program hangs -2
fails_with 'Input/output error' run hangs 'x -> z'
tells "$mnt/executables/hangs/run" 'an execution took longer than the time of --execute-timeout'
restarted "$((restarts + 1))"
run works 'x -> y'

# -- the program of another user is refused after it has ended the worker
if [ -n "$others" ]; then
	bounded mkdir -m 1777 "$mnt/buffers/all"
	run_as() # PROGRAM
	{
		as 1001 bash -c 'echo "x -> all/y" >"$1"' - "$mnt/executables/$1/run"
	}
	fails_with 'Input/output error' run_as dies-1
	restarted "$((restarts + 2))"
	fails_with 'Input/output error' run_as dies-1
	shows "$at/restarts" "$((restarts + 2))"
	run_as works
fi
