#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# memory_stats.json: a write to it lets the figures begin anew, so that they tell the peak of one run; only
# the mount's owner and root may, unless the owner changes its mode; a plugin that cannot says so.
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty --fault stats=works ${others:+-o allow_other}
stats=$mnt/devices/faulty/0/memory_stats.json
# peak WANT: the file says it, once the worker answers in time
peak()
{
	eventually jq -e ".unavailable == null" "$stats"
	equal "the peak" "$(bounded jq -c '[.peak_bytes_in_use, .bytes_in_use]' "$stats")" "[$1,1024]"
}
peak 4096
equal "its mode" "$(bounded stat -c %a "$stats")" 644
bounded truncate -s 0 "$stats" # alone it changes nothing
bounded bash -c ': >"$1"' - "$stats"
peak 4096
bounded bash -c 'exec 3<>"$1"; read -ru 3 line; echo clear >&3 && [[ $line == *4096* ]]' - "$stats"
peak 1024

if [ -n "$others" ]; then
	chmod 755 "$work"
	as 1234 test -r "$stats" || fail "others cannot read it"
	as 1234 bash -c 'echo >"$1"' - "$stats" 2>err && fail "another user cleared it"
	grep -q 'Permission denied' err || fail "it failed with: $(cat err)"
	bounded chmod o+w "$stats"
	as 1234 bash -c 'echo >"$1"' - "$stats"
fi

# -- a plugin that cannot, and one that does not answer
pid=$(cat "$mnt/plugins/faulty/pid")
halt "$pid"
fails_with 'timed out' bash -c 'echo >"$1"' - "$stats"
tells "$mnt/error" 'the worker of plugin faulty did not answer within 1000 ms$'
kill -CONT "$pid"
eventually bash -c 'echo >"$1"' - "$stats"
unmount_pjrtfs
mount_pjrtfs faulty --fault api=short:118
stats=$mnt/devices/faulty/0/memory_stats.json
fails_with 'Operation not supported' bash -c 'echo >"$1"' - "$stats"
tells "$mnt/error" 'the plugin has no PJRT_Device_ClearMemoryStats: it speaks PJRT 0\.81$'
