#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A program is used, written, moved, removed while it compiles.
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty --compile-jobs 4
to=$mnt/programs
made=$mnt/executables
cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
like_add other

# begin NAME [AS]: write it in the background, as process $writer, and hold its compile.  Each time it
# is another program: the same one would join a compile that still ends.
begin()
{
	like_add "${2-$1}"
	faults "compile=held:${2-$1}"
	bounded cp "${2-$1}.mlir" "$to/$1.mlir" 2>"$1.err" &
	writer=$!
	reached "${2-$1}"
	shows "$made/$1/state" compiling
}

# -- used: an execution waits for it
begin used
run used 'x y -> z' &
user=$!
eventually waits "$user"
faults
wait "$user"
shows "$made/used/state" ready
wait "$writer"

# -- moved: its executable moves too, and the writer still gets the result
begin moved
bounded mv "$to/moved.mlir" "$to/there.mlir" || fail "mv waits for a compile"
gone "$made/moved"
shows "$made/there/state" compiling
faults
wait "$writer"
shows "$made/there/state" ready
run there 'x y -> z'

# -- removed: at once, and it does not reappear
begin removed
bounded rm "$to/removed.mlir" || fail "rm waits for a compile"
gone "$made/removed"
faults
wait "$writer" || true
gone "$made/removed" "$to/removed.mlir"

# -- replaced by a rename
begin over
cp other.mlir "$to/new"
faults
bounded mv "$to/new" "$to/over.mlir" || fail "mv over a program waits for a compile"
same "$to/over.mlir" other.mlir
wait "$writer" || true
eventually grep -qx ready "$made/over/state"
run over 'x y -> z'

# -- removed while executions wait for it: these end, and all else goes on
bounded cp "$data/add.mlir" "$to/waited.mlir"
cat "$data/x.npy" "$data/y.npy" >inputs
# The worker that has loaded the program is gone, so that the next execution loads it, when it is let.
faults load=held:waited compile=held:waited
kill_worker faulty
bounded bash -c '{ cat inputs; cat <&1 >outputs; } 1<>"$1"' - "$made/waited/call" 2>call.err &
caller=$!
bounded bash -c 'echo "x y -> z" >"$1"' - "$made/waited/run" 2>run.err &
runner=$!
reached waited
eventually waits "$caller"
eventually waits "$runner"
bounded rm "$to/waited.mlir" || fail "rm waits for a load"
faults
wait "$caller" && fail "the call succeeded"
wait "$runner" && fail "the run succeeded"
bounded ls "$to" >/dev/null || fail "the mount hangs"
