#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Programs and cache entries that kill a worker: only they fail.
. "$srcdir/tests/lib.sh"
requires jq --version
program()
{
	sed "s/@add/@$1/" "$data/add.mlir" >"$1.mlir"
	bounded cp "$1.mlir" "$mnt/programs/$1.mlir"
}
restarts()
{
	bounded cat "$mnt/plugins/faulty/restarts"
}
restarted()
{
	[ "$(cat "$mnt/plugins/faulty/restarts")" -ge "$1" ]
}
has_entry()
{
	[ -n "$(ls "$mnt/cache/entries")" ]
}
damaged()
{
	bounded jq .damaged "$mnt/cache/stats.json"
}
mount_pjrtfs faulty --compile-jobs 4
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"

# -- one of three compiles kills the worker: the other two succeed
faults compile=when:@long:held:long 'compile=when:@killer:abort:LLVM ERROR: killer'
program long1 &
one=$!
program long2 &
two=$!
reached long 2
program killer 2>killed &
three=$!
# each of those before is tried alone in the next instance
eventually restarted 1
faults 'compile=when:@killer:abort:LLVM ERROR: killer'
! wait "$three" || fail "killer compiles"
grep -q 'Input/output error' killed || fail "cp says $(cat killed)"
wait "$one" || fail "long1 was failed: $(cat "$mnt/executables/long1/error")"
wait "$two" || fail "long2 was failed: $(cat "$mnt/executables/long2/error")"
shows "$mnt/executables/killer/state" failed
tells "$mnt/executables/killer/error" \
	'^compile killer: the worker of plugin faulty died of signal 6 .*LLVM ERROR: killer$'
run long1 'x y -> z'
run long2 'x y -> z'
equal "restarts" "$(restarts)" 2
# -- neither the daemon nor an execution compiles it again
fails_with '' run killer 'x y -> z'
program another
equal "restarts" "$(restarts)" 2
shows "$mnt/executables/killer/state" failed
# but when it is written again
faults
program killer
run killer 'x y -> z'

# -- entries that the plugin refuses, or dies of, are removed, and the programs compiled
faults serialize=works
program kept
eventually has_entry
bounded rm "$mnt/programs/kept.mlir"
program kept
equal "kept" "$(bounded jq -r .cache "$mnt/executables/kept/info.json")" hit
run kept 'x y -> z'
bounded rm "$mnt/programs/kept.mlir"
faults serialize=works load=error:INTERNAL:'not mine'
program kept
equal "kept" "$(bounded jq -r .cache "$mnt/executables/kept/info.json")" miss
run kept 'x y -> z'
equal "damaged" "$(damaged)" 1
bounded rm "$mnt/programs/kept.mlir"
eventually has_entry
# An entry is not damaged because there is no handler for its program's calls.
faults serialize=works load=error:NOT_FOUND:'No FFI handler registered for t on'
program kept
equal "kept" "$(bounded jq -r .cache "$mnt/executables/kept/info.json")" miss
equal "damaged" "$(damaged)" 1
bounded rm "$mnt/programs/kept.mlir"
faults serialize=works load=abort:'bad entry'
program kept
equal "kept" "$(bounded jq -r .cache "$mnt/executables/kept/info.json")" miss
eventually grep -qx ready "$mnt/plugins/faulty/state"
run kept 'x y -> z'
equal "damaged" "$(damaged)" 2
equal "restarts" "$(restarts)" 3

# -- a program whose serialization ends the plugin is compiled nevertheless
bounded rm "$mnt/programs/kept.mlir"
faults serialize=abort:'cannot'
program other
faults
eventually grep -qx ready "$mnt/plugins/faulty/state"
run other 'x y -> z'
