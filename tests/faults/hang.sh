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
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/x.npy" "$data/y.npy" "$b/"

# meanwhile: everything but what hangs is answered at once
meanwhile()
{
	timeout 2 ls -lR "$mnt" >list || fail "ls waits"
	grep -q add.mlir list || fail "ls shows nothing"
	timeout 2 cat "$b/x.npy" "$b/x.txt" "$b/x.json" >/dev/null ||
		fail "cat of a buffer waits"
	timeout 2 cp "$data/x.npy" "$b/scratch" || fail "cp to a scratch name waits"
	timeout 2 mv "$b/scratch" "$b/scratch2" || fail "mv waits"
	timeout 2 rm "$b/scratch2" || fail "rm waits"
	timeout 2 mkdir "$b/dir" || fail "mkdir waits"
	timeout 2 rmdir "$b/dir" || fail "rmdir waits"
	timeout 2 cat "$mnt/health" "$mnt/plugins/faulty/state" >/dev/null ||
		fail "cat waits"
}
# ended SIGNAL COMMAND...: the command hangs, and the signal ends it within a second.
ended()
{
	local signal=$1 pid left
	shift
	# As from a terminal: a group of its own, which does not ignore SIGINT.
	perl -e 'setpgrp; $SIG{INT} = "DEFAULT"; exec @ARGV' "$@" >ended.log 2>&1 &
	pid=$!
	eventually kill -0 -- "-$pid"
	sleep 0.4
	kill -0 "$pid" 2>/dev/null || fail "did not hang: $* ($(cat ended.log))"
	meanwhile
	kill -"$signal" -- "-$pid"
	left=20
	while [ "$left" -gt 0 ] && grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$pid/status"; do
		sleep 0.05
		left=$((left - 1))
	done
	[ "$left" -gt 0 ] || fail "$signal does not end: $*"
	! wait "$pid" 2>/dev/null || fail "ended by $signal, but succeeded: $*"
}

# -- compile; each program is another one, or a compile that was given up may end in time for
# the next one to find what it made
for name in INT TERM KILL cat state; do
	{ cat "$data/add.mlir" && echo "// $name"; } >"$name.mlir"
done
faults compile=slow:3000
for signal in INT TERM KILL; do
	ended "$signal" cp "$signal.mlir" "$mnt/programs/slow$signal.mlir"
	tells "$mnt/executables/slow$signal/state" '^(compiling|empty|failed)$'
done
ended INT bash -c 'cat "$1" >"$2"' - cat.mlir "$mnt/programs/cat.mlir"
# state can be read meanwhile
cp state.mlir "$mnt/programs/state.mlir" &
writer=$!
eventually grep -qx compiling "$mnt/executables/state/state"
timeout 1 cat "$mnt/executables/state/info.json" >/dev/null || fail "info.json waits"
bounded test ! -s "$mnt/executables/state/error"
wait "$writer" || fail "a slow compile fails"
shows "$mnt/executables/state/state" ready
run state 'x y -> z'
faults

# -- execute
faults execute=slow:3000
for signal in INT KILL; do
	ended "$signal" bash -c 'echo "x y -> z" >"$1"' - "$mnt/executables/add/run"
done
ended INT bash -c 'exec 3<>"$1"
	echo "{\"op\":\"execute\",\"executable\":\"add\",\"inputs\":[\"x\",\"y\"],\"outputs\":[\"z\"]}" >&3
	cat <&3' - "$mnt/control"
faults
# its descriptor's later commands had not begun: they never run
faults execute=slow:1500
printf 'x y -> first\nx y -> second\nx y -> third\n' >three
ended INT bash -c 'cat three >"$1"' - "$mnt/executables/add/run"
faults
sleep 2
gone "$b/second.npy" "$b/third.npy"
run add 'x y -> z'

# -- upload
faults upload=slow:3000
for signal in INT KILL; do
	ended "$signal" cp "$data/x.npy" "$b/slow$signal.npy"
done
faults
sleep 0.1
bounded cp "$data/x.npy" "$b/slowINT.npy"

# -- for ever: kill -9 of the worker ends the calls, and the daemon reports it
faults execute=hang
run add 'x y -> never' 2>err &
hanging=$!
sleep 0.4
meanwhile
faults
kill -KILL "$(bounded cat "$mnt/plugins/faulty/pid")"
! wait "$hanging" || fail "what hung succeeded"
grep -q 'Input/output error' err || fail "what hung says $(cat err)"
gone "$b/never.npy"
eventually grep -qx ready "$mnt/plugins/faulty/state"
run add 'x y -> z'

# -- an event that never becomes ready hangs like a call
faults event=hang
ended INT bash -c 'echo "x y -> never" >"$1"' - "$mnt/executables/add/run"
ended KILL bash -c 'echo "x y -> never" >"$1"' - "$mnt/executables/add/run"
faults

# -- the mount ends though the plugin hangs
faults compile=hang execute=hang
run add 'x y -> never' 2>/dev/null &
one=$!
bounded cp "$data/add.mlir" "$mnt/programs/hang.mlir" 2>/dev/null &
two=$!
sleep 0.4
kill -TERM "$daemon"
lib_gone "$daemon" || fail "a plugin that hangs keeps the daemon"
! wait "$one" || fail "an execution that hung succeeded"
! wait "$two" || fail "a compile that hung succeeded"
