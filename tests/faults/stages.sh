#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: tsan
# Stages: each word of queue for a compile and an execution that is held there, and where work stood that was
# ended there, in its message.
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty --compile-jobs 1 --fault serialize=works
compiles=$mnt/plugins/faulty/queue
executions=$mnt/devices/faulty/0/queue
put_add

# at QUEUE STAGE POSITION NAME: a line of the list says so
at()
{
	eventually grep -Eqx "0 $2 [0-9]+\.[0-9]{3} $3 0/1 $4" "$1"
}
# begin NAME: execute it in the background, as process $runner
begin()
{
	run "$1" 'x y -> z' 2>/dev/null &
	runner=$!
}
# stood PATTERN: it fails, and says where it stood
stood()
{
	! wait "$runner" || fail "it succeeded"
	tells "$mnt/executables/add/run" "^error: [A-Z]+: add: $1"
}

# -- a compile: the next one waits; the program is ready before the cache has it
like_add one
like_add two
faults serialize=works compile=held:compiling
bounded cp one.mlir "$mnt/programs/" &
one=$!
reached compiling
at "$compiles" compiling 0 one
bounded cp two.mlir "$mnt/programs/" &
two=$!
at "$compiles" waiting 1 two
faults serialize=held:saving
reached saving
at "$compiles" saving 0 one
wait "$one"
shows "$mnt/executables/one/state" ready
at "$compiles" waiting 1 two
faults serialize=works
wait "$two"
settle
equal "compiles" "$(bounded cat "$compiles")" ''

# -- an execution whose program is loaded again, and whose inputs are brought to the device again
faults serialize=works load=held:loading
kill_worker faulty
begin add
reached loading
at "$compiles" loading 0 add
equal "executions" "$(bounded cat "$executions")" ''
faults serialize=works upload=held:uploading
reached uploading
at "$executions" uploading 0 add
equal "compiles" "$(bounded cat "$compiles")" ''
bounded "$pjrtfs" --status "$mnt" >status
tells status 'running 0, waiting 1'
equal "what runs, and what waits" "$(bounded awk '/^pjrtfs_executions_(running|queued)/ {n += $2}
	END {print n}' "$mnt/metrics.prom")" 0
faults serialize=works execute=held:running
reached running
at "$executions" running 0 add

# -- ended there: by a death, by a time limit
kill_worker faulty
stood 'while running: the worker of plugin faulty died of signal 9'
faults serialize=works upload=held:late
ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"],"timeout_ms":500}' >reply
tells reply '"ETIMEDOUT".*"while uploading: it did not end within 500 ms; '
reached late
faults serialize=works execute=held:late
ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"],"timeout_ms":500}' >reply
tells reply '"ETIMEDOUT".*"while running: it did not end within 500 ms; '
faults serialize=works
eventually grep -qx 0 "$mnt/users/0/executions.current"

# -- by a death during a transfer; the next process has not shown that it uses bytes in place
kill_worker faulty
faults serialize=works upload=abort
fails_with 'Input/output error' cp "$data/x.npy" "$mnt/buffers/dies.npy"
tells "$mnt/error" 'while uploading: the worker of plugin faulty died of signal 6'
