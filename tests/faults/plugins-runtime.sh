#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A plugin that is added at run time fails, dies or waits when it starts: the mount stays as it is.
. "$srcdir/tests/lib.sh"
requires_mount
so=$build/tests/faults/faulty_plugin.so
if has_landlock; then
	mount_pjrtfs cpu --keep --sandbox-write "$work/.faulty"
else
	mount_pjrtfs cpu --keep --sandbox off
fi
p=$mnt/plugins
first=$(bounded cat "$mnt/pid")
printf '%s' "$so" >path
bounded cp "$data/x.npy" "$mnt/buffers/"
bounded mkdir "$p/f"
# refused FAULT SENTENCE
refused()
{
	faults "$1"
	fails_with 'failed to close' bounded cp path "$p/f/path"
	shows "$p/f/state" failed
	tells "$p/f/error" "$2"
	shows "$mnt/pid" "$first" # nothing was restarted
}
refused client=error:INTERNAL:'no such hardware' 'no such hardware'
refused client=abort:'Check failed: start' 'died of signal 6 .Aborted.; it printed last: Check failed: start'

# -- while it starts, the mount serves, and the directory stays
faults client=held
bounded cp path "$p/f/path" &
writer=$!
eventually grep -qx starting "$p/f/state"
same "$data/x.npy" "$mnt/buffers/x.npy"
fails_with 'busy' bounded rmdir "$p/f"
fails_with 'busy' bounded cp path "$p/f/path"
shows "$mnt/pid" "$first"
faults
wait "$writer" || fail "it did not start: $(cat "$mnt/error")"
shows "$p/f/state" ready

# -- in the next life it does not start: the others do, and it can be removed
faults client=error:INTERNAL:'gone'
second=$(bounded cat "$mnt/pid")
kill -KILL "$second"
shows "$p/f/state" failed
tells "$p/f/error" gone
same "$data/x.npy" "$mnt/buffers/x.npy"
bounded rmdir "$p/f"
gone "$p/f"
faults
kill -KILL "$(bounded cat "$mnt/pid")"
same "$data/x.npy" "$mnt/buffers/x.npy"
gone "$p/f"
shows "$mnt/health" ok

# -- the mount ends while one starts
bounded mkdir "$p/g"
faults client=held
timeout "$patience" cp path "$p/g/path" 2>/dev/null &
writer=$!
eventually grep -qx starting "$p/g/state"
kill "$writer" # its close is interrupted, and the plugin still starts
wait "$writer" || :
unmount_pjrtfs
