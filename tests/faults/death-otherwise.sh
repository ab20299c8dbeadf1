#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A plugin that dies in other ways than by abort, prints much or nothing, has other calls, or
# does not come back at once.
. "$srcdir/tests/lib.sh"
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

# -- otherwise than by abort
faults execute=segv
fails_with 'Input/output error' run add 'x y -> never'
tells "$mnt/executables/add/run" 'died of signal 11'
back
faults execute=exit:3
fails_with 'Input/output error' run add 'x y -> never'
tells "$mnt/executables/add/run" 'exited with status 3'
back

# -- the plugin printed no line since the call began: earlier lines do not explain the death
faults 'compile=print:1:W0000 00:00:1.5 x.cc:1] of another program'
bounded cp "$data/add.mlir" "$mnt/programs/other.mlir"
eventually grep -q 'of another program 1$' "$at/log"
faults execute=segv
fails_with 'Input/output error' run add 'x y -> never'
shows "$mnt/executables/add/run" \
	'error: EIO: add: the worker of plugin faulty died of signal 11 (Segmentation fault)'
back
# nor if it dies while no call runs
faults 'execute=print:1:W0000 00:00:1.5 x.cc:1] of a good one'
run add 'x y -> z'
eventually grep -q 'of a good one 1$' "$at/log"
bounded kill -KILL "$(bounded cat "$at/pid")"
back
eventually grep -q 'faulty died of signal 9 (Killed)$' "$mnt.log"

# -- the plugin prints nothing, or much, before the worker dies
faults "execute=abort:$(printf 'word%.0s ' {1..40})"
fails_with 'Input/output error' run add 'x y -> never'
tells "$mnt/executables/add/run" "^error: EIO: add: ${died}word word"
equal "lines of the reply" "$(bounded wc -l <"$mnt/executables/add/run")" 1
back

# -- all calls under way fail with the same sentence; later calls work
faults execute=held:slow
run add 'x y -> slow' 2>err &
slow=$!
reached slow
faults execute=held:slow compile=abort:'someone else'
fails_with 'Input/output error' cp "$data/add.mlir" "$mnt/programs/q.mlir"
faults
! wait "$slow" || fail "a call of the dead worker succeeded"
grep -q 'Input/output error' err || fail "it says $(cat err)"
back

# -- the first restarts fail: calls meanwhile wait, or fail with a sentence
faults execute=abort client=error:UNAVAILABLE:'device is gone'
fails_with 'Input/output error' run add 'x y -> never'
eventually grep -q 'device is gone' "$mnt.log"
faults client=held:away
reached away
eventually grep -qv '^ok$' "$mnt/health"
tells "$mnt/health" '^plugin faulty is (restarting|starting|failed)$'
bounded ls -lR "$mnt" >/dev/null || fail "ls waits for a plugin"
same "$b/x.npy" "$data/x.npy"
faults
eventually grep -qx ready "$at/state"
run add 'x y -> z'
shows "$b/z.txt" $'0 0 0\n0 0 0'

# -- deaths without work: each restart waits for longer than the one before
restarts=$(bounded cat "$at/restarts")
for _ in 1 2 3 4; do
	pid=$(bounded cat "$at/pid")
	began=$(date +%s%N)
	kill -KILL "$pid"
	restarts=$((restarts + 1))
	eventually grep -qx "$restarts" "$at/restarts"
	eventually grep -qx ready "$at/state"
done
took=$((($(date +%s%N) - began) / 1000000))
[ "$took" -ge 800 ] || fail "the fourth restart came after $took ms"

# -- a process that has executed ends that series: the restarts after it do not wait, where the next
# eight would take 139 s
began=$SECONDS
for _ in 1 2 3 4 5 6 7 8; do
	run add 'x y -> z'
	kill -KILL "$(bounded cat "$at/pid")"
	restarts=$((restarts + 1))
	eventually grep -qx "$restarts" "$at/restarts"
	eventually grep -qx ready "$at/state"
done
# real time: the pauses are what is tested
[ $((SECONDS - began)) -lt 130 ] || fail "eight restarts took $((SECONDS - began)) s"
