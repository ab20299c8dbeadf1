#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A failed compile is seen by the writer, explained by error, and leaves nothing that runs.
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty --fault compile=error:INVALID_ARGUMENT:'bad op'
x=$mnt/executables/p
fails_with 'Invalid argument' cp "$data/add.mlir" "$mnt/programs/p.mlir"
shows "$x/error" 'compile p: bad op'
shows "$x/state" failed
fails_with 'Invalid argument' run p 'x y -> z'
shows "$mnt/health" ok
same "$mnt/programs/p.mlir" "$data/add.mlir"

# Written again it compiles, and the error is cleared.
faults
bounded cp "$data/add.mlir" "$mnt/programs/p.mlir"
shows "$x/state" ready
bounded test ! -s "$x/error" || fail "the error stays: $(bounded cat "$x/error")"
cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
run p 'x y -> z'
bounded rm "$mnt/programs/p.mlir"
settle # the same program would join a compile that still ends

# A marker of newer XLA's is no call that a library could provide.
faults 'compile=error:NOT_FOUND:No registered implementation for custom call to annotate_device_placement for Host.'
fails_with 'Operation not supported' cp "$data/add.mlir" "$mnt/programs/p.mlir"
tells "$x/error" 'annotate_device_placement, .* plugin faulty is too old for it, try a newer one$'

# A tool that is missing is named, with its package.
faults 'compile=error:UNAVAILABLE:No PTX compilation provider is available.'
fails_with 'Operation not supported' cp "$data/add.mlir" "$mnt/programs/p.mlir"
tells "$x/error" '^compile p: ptxas is missing: pip install nvidia-cuda-nvcc .*: No PTX compilation provider is available.$'

# A long text loses its end, never its beginning; control characters become spaces.
faults "compile=error:INTERNAL:$(printf 'long%.0s ' {1..50})"
fails_with 'Input/output error' cp "$data/add.mlir" "$mnt/programs/p.mlir"
tells "$x/error" '^compile p: long long long'
faults $'compile=error:INTERNAL:a tab\tand a bell\ain it'
fails_with 'Input/output error' cp "$data/add.mlir" "$mnt/programs/p.mlir"
shows "$x/error" 'compile p: a tab and a bell in it'

# One of several lines stays so where it is read; a reply, an event and a log are lines.
faults 'compile=error:INTERNAL:Bad op:\n  %0 = "x"\n       ^\n'
tail -n +1 -s 0.1 -f "$mnt/events" >events 2>/dev/null &
follower=$!
fails_with 'Input/output error' cp "$data/add.mlir" "$mnt/programs/p.mlir"
shows "$x/error" $'compile p: Bad op:\n  %0 = "x"\n       ^'
shows "$mnt/error" $'close programs/p.mlir: Bad op:\n  %0 = "x"\n       ^'
eventually grep -q 'Bad op:\\u000a  %0 = \\"x\\"\\u000a       ^"' events
kill "$follower"
wait "$follower" 2>/dev/null || true
fails_with '' run p 'x y -> z'
tells "$x/run" '^error: EIO: p: .*Bad op:   %0 = "x"        \^$'
equal "lines of the reply" "$(bounded wc -l <"$x/run")" 1
faults 'execute=error:INTERNAL:one\ntwo'
bounded cp "$data/add.mlir" "$mnt/programs/r.mlir"
fails_with 'Input/output error' run r 'x y -> z'
shows "$mnt/executables/r/run" 'error: EIO: r: one two'
faults
settle # as before

# After a rename, a late failure is also in state and error.
faults compile=error:ALREADY_EXISTS:'such a name'
cp "$data/add.mlir" "$mnt/programs/q.part"
bounded mv "$mnt/programs/q.part" "$mnt/programs/q.mlir"
eventually grep -qx failed "$mnt/executables/q/state"
shows "$mnt/executables/q/error" 'compile q: such a name'
fails_with 'File exists' run q 'x y -> z2'
gone "$mnt/buffers/z2.npy"
shows "$mnt/plugins/faulty/restarts" 0
