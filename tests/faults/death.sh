#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A plugin that dies: EIO, a sentence with its last line, and a restart.  calls-end.sh lets each of its
# functions die.
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty
b=$mnt/buffers
at=$mnt/plugins/faulty
put_add
run add 'x y -> z'
deaths=0
back()
{
	faults
	deaths=$((deaths + 1))
	restarted "$deaths" faulty
	eventually grep -qx ok "$mnt/health"
	run add 'x y -> z'
	same "$b/x.npy" "$data/x.npy"
}
# dies FAULT PATTERN: an execution ends with the plugin, and says so
dies()
{
	faults "execute=$1"
	fails_with 'Input/output error' run add 'x y -> never'
	tells "$mnt/executables/add/run" "^error: EIO: add: while running: the worker of plugin faulty $2"
	equal "lines of the reply" "$(bounded wc -l <"$mnt/executables/add/run")" 1
	gone "$b/never.npy"
	back
}
died='died of signal 6 \(Aborted\); it printed last: '

# -- in each way
dies abort:'Check failed: 1 == 2' "${died}Check failed: 1 == 2\$"
tells "$at/log" '^Check failed: 1 == 2$'
dies exit:3 'exited with status 3'
dies "abort:$(printf 'word%.0s ' {1..40})" "${died}word word"

# -- a module with a schedule, which XLA made and may abort on: the next step stands before the reason
faults compile=abort:'it must have a parent'
printf '\n\1m\x1a\0:\2\n\0' >scheduled.hlo.pb
fails_with 'Input/output error' cp scheduled.hlo.pb "$mnt/programs/"
tells "$mnt/executables/scheduled/error" \
	'^compile scheduled: XLA has optimized this program before, .* stage hlo_serialized or stablehlo_serialized: while compiling: .*it must have a parent$'
back

# -- the first restarts fail: calls meanwhile wait, or fail with a sentence
faults execute=abort client=error:UNAVAILABLE:'device is gone'
fails_with 'Input/output error' run add 'x y -> never'
eventually grep -q 'device is gone' "$mnt.log"
faults client=held:away
reached away
eventually grep -qv '^ok$' "$mnt/health"
tells "$mnt/health" '^plugin faulty (is restarting$|cannot be started again: .*device is gone)'
bounded ls -lR "$mnt" >/dev/null || fail "ls waits for a plugin"
same "$b/x.npy" "$data/x.npy"
faults
eventually grep -qx ready "$at/state"
run add 'x y -> z'
shows "$b/z.txt" $'0 0 0\n0 0 0'

# -- deaths without work: each restart waits for longer than the one before
for _ in 1 2 3 4; do
	began=$(date +%s%N)
	kill_worker faulty
done
took=$((($(date +%s%N) - began) / 1000000))
[ "$took" -ge 800 ] || fail "the fourth restart came after $took ms"

# -- a process that has executed ends that series: the restarts after it do not wait, where the next
# eight would take 139 s
began=$SECONDS
for _ in 1 2 3 4 5 6 7 8; do
	run add 'x y -> z'
	kill_worker faulty
done
# real time: the pauses are what is tested
[ $((SECONDS - began)) -lt 130 ] || fail "eight restarts took $((SECONDS - began)) s"
