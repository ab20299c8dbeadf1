#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A plugin that is slow or hangs: other processes do not wait, and a waiting process can be killed
# at once.
. "$srcdir/tests/lib.sh"
faults memory=kept # its first upload: close(2) waits for the plugin from then on
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
# ended FAULT COMMAND...: the command hangs by that, and SIGKILL ends it; wake-ups.sh has others
n=0
ended()
{
	local pid
	n=$((n + 1))
	faults "$1:$n"
	perl -e 'setpgrp; exec @ARGV' "${@:2}" >ended.log 2>&1 &
	pid=$!
	reached "$n"
	meanwhile
	kill -KILL -- "-$pid"
	lib_gone "$pid" || fail "SIGKILL does not end: $*"
	! wait "$pid" 2>/dev/null || fail "killed, but succeeded: $*"
}

# -- compile
like_add killed
ended compile=held cp killed.mlir "$mnt/programs/"
tells "$mnt/executables/killed/state" '^(compiling|empty|failed)$'
like_add state
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

# -- execute; its descriptor's later commands had not begun: they never run
printf 'x y -> first\nx y -> second\nx y -> third\n' >three
ended execute=held bash -c 'cat three >"$1"' - "$mnt/executables/add/run"
faults
eventually grep -qx 0 "$mnt/users/0/executions.current"
run add 'x y -> z'
gone "$b/second.npy" "$b/third.npy"

# -- upload
ended upload=held cp "$data/x.npy" "$b/slow.npy"
faults
bounded cp "$data/x.npy" "$b/slow.npy"

# -- an event that never becomes ready hangs like a call
ended execute=held-event bash -c 'echo "x y -> never" >"$1"' - "$mnt/executables/add/run"
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
