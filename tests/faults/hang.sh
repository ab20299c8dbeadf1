#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 1 CPU-s in 16 s
# A plugin that is slow or hangs: other processes do not wait, and a waiting process can be killed
# at once.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty
b=$mnt/buffers
put_add

# meanwhile: everything but what hangs is answered
meanwhile()
{
	bounded ls -lR "$mnt" >list || fail "ls waits"
	grep -q add.mlir list || fail "ls shows nothing"
	bounded cat "$b/x.npy" "$b/x.txt" "$b/x.json" >/dev/null ||
		fail "cat of a buffer waits"
	bounded cp "$data/x.npy" "$b/scratch" || fail "cp to a scratch name waits"
	bounded mv "$b/scratch" "$b/scratch2" || fail "mv waits"
	bounded rm "$b/scratch2" || fail "rm waits"
	bounded mkdir "$b/dir" || fail "mkdir waits"
	bounded rmdir "$b/dir" || fail "rmdir waits"
	bounded cat "$mnt/health" "$mnt/plugins/faulty/state" >/dev/null ||
		fail "cat waits"
}
# ended SIGNAL OP COMMAND...: the command hangs in that operation, and the signal ends it.
n=0
ended()
{
	local signal=$1 op=$2 pid
	shift 2
	n=$((n + 1))
	faults "$op=held:$n"
	# As from a terminal: a group of its own, which does not ignore SIGINT.
	perl -e 'setpgrp; $SIG{INT} = "DEFAULT"; exec @ARGV' "$@" >ended.log 2>&1 &
	pid=$!
	reached "$n"
	meanwhile
	kill -"$signal" -- "-$pid"
	lib_gone "$pid" || fail "$signal does not end: $*"
	! wait "$pid" 2>/dev/null || fail "ended by $signal, but succeeded: $*"
}

# -- compile; each program is another one, or a compile that was given up may end in time for
# the next one to find what it made
for name in INT TERM KILL cat state; do
	{ cat "$data/add.mlir" && echo "// $name"; } >"$name.mlir"
done
for signal in INT TERM KILL; do
	ended "$signal" compile cp "$signal.mlir" "$mnt/programs/slow$signal.mlir"
	tells "$mnt/executables/slow$signal/state" '^(compiling|empty|failed)$'
done
ended INT compile bash -c 'cat "$1" >"$2"' - cat.mlir "$mnt/programs/cat.mlir"
# state can be read meanwhile
faults compile=held:state
cp state.mlir "$mnt/programs/state.mlir" &
writer=$!
reached state
shows "$mnt/executables/state/state" compiling
bounded cat "$mnt/executables/state/info.json" >/dev/null || fail "info.json waits"
bounded test ! -s "$mnt/executables/state/error"
faults
wait "$writer" || fail "a slow compile fails"
shows "$mnt/executables/state/state" ready
run state 'x y -> z'

# -- execute
for signal in INT KILL; do
	ended "$signal" execute bash -c 'echo "x y -> z" >"$1"' - "$mnt/executables/add/run"
done
ended INT execute bash -c 'exec 3<>"$1"
	echo "{\"op\":\"execute\",\"executable\":\"add\",\"inputs\":[\"x\",\"y\"],\"outputs\":[\"z\"]}" >&3
	cat <&3' - "$mnt/control"
# its descriptor's later commands had not begun: they never run
printf 'x y -> first\nx y -> second\nx y -> third\n' >three
ended INT execute bash -c 'cat three >"$1"' - "$mnt/executables/add/run"
faults
eventually grep -qx 0 "$mnt/users/0/executions.current"
run add 'x y -> z'
gone "$b/second.npy" "$b/third.npy"

# -- upload
for signal in INT KILL; do
	ended "$signal" upload cp "$data/x.npy" "$b/slow$signal.npy"
done
faults
bounded cp "$data/x.npy" "$b/slowINT.npy"

# -- for ever: kill -9 of the worker ends the calls, and the daemon reports it
faults execute=held:never
run add 'x y -> never' 2>err &
hanging=$!
reached never
meanwhile
kill -KILL "$(bounded cat "$mnt/plugins/faulty/pid")"
! wait "$hanging" || fail "what hung succeeded"
grep -q 'Input/output error' err || fail "what hung says $(cat err)"
gone "$b/never.npy"
faults
eventually grep -qx ready "$mnt/plugins/faulty/state"
run add 'x y -> z'

# -- an event that never becomes ready hangs like a call
ended INT event bash -c 'echo "x y -> never" >"$1"' - "$mnt/executables/add/run"
ended KILL event bash -c 'echo "x y -> never" >"$1"' - "$mnt/executables/add/run"
faults

# -- the mount ends though the plugin hangs
faults compile=held:compile execute=held:execute
run add 'x y -> never' 2>/dev/null &
one=$!
bounded cp "$data/add.mlir" "$mnt/programs/hang.mlir" 2>/dev/null &
two=$!
reached compile
reached execute
kill -TERM "$daemon"
lib_gone "$daemon" || fail "a plugin that hangs keeps the daemon"
! wait "$one" || fail "an execution that hung succeeded"
! wait "$two" || fail "a compile that hung succeeded"
