#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A plugin that dies in each operation: EIO, a sentence with its last line, and a restart.
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs faulty
b=$mnt/buffers
at=$mnt/plugins/faulty
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/x.npy" "$data/y.npy" "$b/"
run add 'x y -> z'
deaths=0
back()
{
	faults
	deaths=$((deaths + 1))
	eventually grep -qx "$deaths" "$at/restarts"
	eventually grep -qx ready "$at/state"
	eventually grep -qx ok "$mnt/health"
	run add 'x y -> z'
	same "$b/x.npy" "$data/x.npy"
}
died='the worker of plugin faulty died of signal 6 \(Aborted\); it printed last: '

# -- in execute, in compile
faults execute=abort:'Check failed: 1 == 2'
fails_with 'Input/output error' run add 'x y -> never'
tells "$mnt/executables/add/run" "^error: EIO: add: ${died}Check failed: 1 == 2\$"
tells "$at/log" '^Check failed: 1 == 2$'
gone "$b/never.npy"
back
faults compile=abort:'LLVM ERROR'
fails_with 'Input/output error' cp "$data/add.mlir" "$mnt/programs/p.mlir"
tells "$mnt/executables/p/error" "^compile p: ${died}LLVM ERROR\$"
shows "$mnt/executables/p/state" failed
back
fails_with '' run p 'x y -> never'
bounded cp "$data/add.mlir" "$mnt/programs/p.mlir"
run p 'x y -> z'

# -- in an upload: the daemon keeps the bytes, because the array need not be the reason
faults upload=abort:'bad array'
status=0
bounded cp "$data/x.npy" "$b/u.npy" 2>err || status=$?
if [ "$status" != 0 ]; then
	grep -q 'Input/output error' err || fail "cp says $(cat err)"
	bounded jq -r .error "$b/u.json" | grep -Eq "${died}bad array" ||
		fail "$(bounded cat "$b/u.json")"
fi
faults
eventually run add 'x y -> z' # no upload that began before ends the worker any more
deaths=$(($(bounded cat "$at/restarts") - 1))
back
same "$b/u.npy" "$data/x.npy"
bounded cp "$data/x.npy" "$b/u.npy"
run add 'x u -> z'
