#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Programs and cache entries that kill a worker: only they fail.
. "$srcdir/tests/lib.sh"
# kept HIT-OR-MISS: the program is written anew, and loaded from the cache or compiled
kept()
{
	settle # else it would join a compile that still ends
	bounded rm "$mnt/programs/kept.mlir"
	put_like_add kept
	equal "kept" "$(bounded jq -r .cache "$mnt/executables/kept/info.json")" "$1"
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
put_like_add long1 &
one=$!
put_like_add long2 &
two=$!
reached long 2
put_like_add killer 2>killed &
three=$!
# each of those before is tried alone in the next instance
eventually at_least 1 "$mnt/plugins/faulty/restarts"
faults 'compile=when:@killer:abort:LLVM ERROR: killer'
! wait "$three" || fail "killer compiles"
grep -q 'Input/output error' killed || fail "cp says $(cat killed)"
wait "$one" || fail "long1 was failed: $(cat "$mnt/executables/long1/error")"
wait "$two" || fail "long2 was failed: $(cat "$mnt/executables/long2/error")"
shows "$mnt/executables/killer/state" failed
tells "$mnt/executables/killer/error" \
	'^compile killer: while compiling: the worker of plugin faulty died of signal 6 .*LLVM ERROR: killer$'
run long1 'x y -> z'
run long2 'x y -> z'
shows "$mnt/plugins/faulty/restarts" 2
# -- neither the daemon nor an execution compiles it again
fails_with '' run killer 'x y -> z'
put_like_add another
shows "$mnt/plugins/faulty/restarts" 2
shows "$mnt/executables/killer/state" failed
# but when it is written again
faults
put_like_add killer
run killer 'x y -> z'

# -- entries that the plugin refuses, or dies of, are removed, and the programs compiled
faults serialize=works
put_like_add kept
settle
has_entry
kept hit
run kept 'x y -> z'
faults serialize=works load=error:INTERNAL:'not mine'
kept miss
run kept 'x y -> z'
equal "damaged" "$(damaged)" 1
settle
has_entry
# An entry is not damaged because there is no handler for its program's calls.
faults serialize=works load=error:NOT_FOUND:'No FFI handler registered for t on'
kept miss
equal "damaged" "$(damaged)" 1
faults serialize=works load=abort:'bad entry'
kept miss
eventually grep -qx ready "$mnt/plugins/faulty/state"
run kept 'x y -> z'
equal "damaged" "$(damaged)" 2
shows "$mnt/plugins/faulty/restarts" 3

# -- a program whose serialization ends the plugin is compiled nevertheless
# (it is held, as the program may be ready before; the next worker waits until the fault is gone)
faults serialize=held:other
put_like_add other &
writer=$!
reached other
faults serialize=abort:'cannot' client=held:again
reached again
faults
wait "$writer"
eventually at_least 4 "$mnt/plugins/faulty/restarts"
eventually grep -qx ready "$mnt/plugins/faulty/state"
run other 'x y -> z'
