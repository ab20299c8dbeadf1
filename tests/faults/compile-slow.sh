#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A program is used, written, moved, removed while it compiles.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty
to=$mnt/programs
made=$mnt/executables
cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
sed 's/@add/@other/' "$data/add.mlir" >other.mlir

# begin NAME: write it in the background, as process $writer, and wait until it compiles.
begin()
{
	faults compile=slow:1500
	bounded cp "$data/add.mlir" "$to/$1.mlir" 2>"$1.err" &
	writer=$!
	eventually grep -qx compiling "$made/$1/state"
}

# -- used: an execution waits for it
begin used
run used 'x y -> z'
shows "$made/used/state" ready
wait "$writer"

# -- moved: its executable moves too, and the writer still gets the result
begin moved
timeout 1 mv "$to/moved.mlir" "$to/there.mlir" || fail "mv waits for a compile"
gone "$made/moved"
shows "$made/there/state" compiling
wait "$writer"
shows "$made/there/state" ready
run there 'x y -> z'

# -- removed: at once, and it does not reappear
begin removed
timeout 1 rm "$to/removed.mlir" || fail "rm waits for a compile"
gone "$made/removed"
wait "$writer" || true
gone "$made/removed" "$to/removed.mlir"

# -- written again: the newest source is compiled, whether or not the first writer succeeds
begin again
bounded cp other.mlir "$to/again.mlir"
wait "$writer" || grep -q 'cp: ' again.err
eventually grep -qx ready "$made/again/state"
same "$to/again.mlir" other.mlir
run again 'x y -> z'
begin again
faults compile=error:INVALID_ARGUMENT:'the newer one is bad'
fails_with 'Invalid argument' cp other.mlir "$to/again.mlir"
wait "$writer" || grep -q 'cp: ' again.err
shows "$made/again/state" failed
shows "$made/again/error" 'compile again: the newer one is bad'

# -- replaced by a rename
begin over
cp other.mlir "$to/new"
faults
timeout 1 mv "$to/new" "$to/over.mlir" || fail "mv over a program waits for a compile"
same "$to/over.mlir" other.mlir
wait "$writer" || true
eventually grep -qx ready "$made/over/state"
run over 'x y -> z'

# -- several compiles at once take about as long as one
faults compile=slow:1500
start=$(date +%s%N)
pids=()
for i in 1 2 3 4; do
	bounded cp "$data/add.mlir" "$to/many$i.mlir" &
	pids+=($!)
done
for pid in "${pids[@]}"; do
	wait "$pid"
done
[ $((($(date +%s%N) - start) / 1000000)) -lt 4500 ] || fail "compiles wait for one another"
shows "$mnt/plugins/faulty/restarts" 0

# -- removed while executions wait for it: these end, and all else goes on
bounded cp "$data/add.mlir" "$to/waited.mlir"
cat "$data/x.npy" "$data/y.npy" >inputs
# The worker that has loaded the program is gone, so that the next execution loads it, slowly.
faults load=slow:1500 compile=slow:1500
bounded sh -c 'kill -KILL $(cat "$1")' - "$mnt/plugins/faulty/pid"
eventually grep -qx ready "$mnt/plugins/faulty/state"
bounded bash -c '{ cat inputs; cat <&1 >outputs; } 1<>"$1"' - "$made/waited/call" 2>call.err &
caller=$!
bounded bash -c 'echo "x y -> z" >"$1"' - "$made/waited/run" 2>run.err &
runner=$!
sleep 0.5
timeout 5 rm "$to/waited.mlir" || fail "rm waits for a load"
wait "$caller" && fail "the call succeeded"
wait "$runner" && fail "the run succeeded"
timeout 5 ls "$to" >/dev/null || fail "the mount hangs"
