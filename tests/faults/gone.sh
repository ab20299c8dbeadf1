#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# What a worker is started from is gone: calls end with a sentence instead of waiting, and once it is back the
# mount goes on.
. "$srcdir/tests/lib.sh"
mkdir bin
cp "$build/pjrtfs" "$build/pjrtfs-worker" bin/
cp "$build/tests/faults/faulty_plugin.so" plugin.so
pjrtfs=$work/bin/pjrtfs
mount_pjrtfs "faulty=$work/plugin.so" "${faulty_options[@]:2}"
b=$mnt/buffers at=$mnt/plugins/faulty
put_add
like_add other

# without FILE: the worker dies, and FILE is gone meanwhile
without()
{
	run add 'x y -> z'
	mv "$1" away
	kill -KILL "$(bounded cat "$at/pid")"
	eventually grep -qx restarting "$at/state"

	# -- a call that waits for the worker ends, and so do all later ones
	fails_with 'Input/output error' run add 'x y -> never'
	tells "$mnt/error" "plugin faulty cannot be started again: .*$work/$1: No such file or directory; put that right, and"
	fails_with 'Input/output error' run add 'x y -> never'
	fails_with 'Input/output error' cp "$data/x.npy" "$b/late.npy"
	fails_with 'Input/output error' cp other.mlir "$mnt/programs/"
	tells "$mnt/executables/other/error" "$work/$1: No such file or directory"

	# -- whoever looks is told
	shows "$at/state" restarting
	tells "$mnt/health" "^plugin faulty cannot be started again: .*$work/$1: No such file or directory; put that right, and"
	ends=0
	"$pjrtfs" --status "$mnt" >status || ends=$?
	equal "exit status of --status" "$ends" 1
	tells status "^health  plugin faulty cannot be started again: .*$work/$1: "

	# -- it is back: all that was there works, also what came meanwhile
	same "$b/x.npy" "$data/x.npy"
	mv away "$1"
	eventually grep -qx ok "$mnt/health"
	shows "$mnt/executables/add/state" ready
	run add 'late y -> z'
	bounded rm "$b/late.npy"
	bounded cp other.mlir "$mnt/programs/"
	shows "$mnt/executables/other/state" ready
	bounded rm "$mnt/programs/other.mlir"
}
without bin/pjrtfs-worker
without plugin.so
grep -q 'error: plugin faulty cannot be started again' "$mnt.log" || fail "the log does not tell"
