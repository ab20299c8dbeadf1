#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# A request that ends the daemon each time it is processed: after two deaths it fails, and all else
# goes on.
. "$srcdir/tests/lib.sh"
CRASH=$work/crash LD_PRELOAD=$build/tests/tools/crash.so mount_pjrtfs --keep
bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers"
equal "dtype" "$(bounded getfattr --absolute-names --only-values -n user.pjrtfs.dtype "$mnt/buffers/x.npy")" F32
first=$(bounded cat "$mnt/pid")

# To get an attribute of an array calls json_object_object_get.
touch crash
fails_with 'Input/output error' getfattr --absolute-names -n user.pjrtfs.dtype "$mnt/buffers/x.npy"
rm crash
# All says so: the caller's error, events, metrics, a file, --status.
tells "$mnt/error" '^getxattr buffers/x.npy: pjrtfs died of signal 6 \(Aborted\) at this, twice: it is refused$'
grep -c '"daemon.died".*"object":"buffers/x.npy","how":"signal 6 (Aborted)","operation":"getxattr"' "$mnt/events" >died
shows died 1 # events of earlier processes are gone
tells "$mnt/events" '"daemon.restarted".*"operation":"getxattr buffers/x.npy".*"restarts":2'
tells "$mnt/metrics.prom" '^pjrtfs_daemon_deaths_total 2$' '^pjrtfs_daemon_last_death_seconds [1-9]'
tells "$mnt/last_death" 'Z signal 6 \(Aborted\), at: getxattr buffers/x.npy$'
bounded "$build/pjrtfs" --status "$mnt" >status
tells status '^daemon  restarts 2, last death .*, at: getxattr buffers/x.npy$'
[ "$(bounded cat "$mnt/pid")" != "$first" ] || fail "the daemon did not die"
for name in x y; do
	same "$mnt/buffers/$name.npy" "$data/$name.npy"
	equal "dtype" "$(bounded getfattr --absolute-names --only-values -n user.pjrtfs.dtype "$mnt/buffers/$name.npy")" F32
done
unmount_pjrtfs

# A daemon that dies before it has said that it serves, after it has taken requests, is started again.
touch ready
CRASH_READY=$work/ready LD_PRELOAD=$build/tests/tools/crash.so mount_pjrtfs --keep
eventually test ! -e ready
eventually grep -qx 1 "$mnt/restarts"
