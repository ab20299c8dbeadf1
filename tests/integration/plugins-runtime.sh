#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Plugins are added, changed and removed while the mount is served; files and open descriptors stay.
. "$srcdir/tests/words.sh"
requires_mount
requires test -e "$plugins/cpu-0.106/pjrt_plugin.so"
mount_pjrtfs cpu --devices 1 --keep ${others:+-o allow_other}
p=$mnt/plugins b=$mnt/buffers
# put TEXT FILE: as cp(1), which says how the close ends
put()
{
	printf '%s' "$1" >text
	bounded cp text "$2"
}

# -- what there is
bounded cat "$p/available.json" >found
equal 'the plugin that is loaded' "$(jq -r '.plugins[] | select(.plugin) | .name' found)" cpu
jq -e --arg p "$plugins/cpu-0.106/pjrt_plugin.so" 'any(.plugins[]; .path == $p and
	.name == "cpu-0.106")' found >/dev/null || fail "not found: $(cat found)"

# -- a plugin by its name, with create options; arrays, programs and descriptors are as before
put_add
exec 3<"$b/x.npy"
bounded mkdir "$p/more"
shows "$p/more/state" new
put '{"cpu_device_count":2}' "$p/more/options.json"
put cpu-0.106 "$p/more/path"
shows "$p/more/state" ready # by the next call
shows "$p/more/path" "$(realpath "$plugins/cpu-0.106/pjrt_plugin.so")"
equal devices "$(bounded ls "$mnt/devices" "$mnt/devices/more" | paste -sd ' ')" \
	"$mnt/devices: cpu more  $mnt/devices/more: 0 1"
cmp - "$data/x.npy" <&3
exec 3<&-
computes
bounded cp "$b/x.npy" "$mnt/devices/more/1/buffers/"
bounded cp "$data/add.mlir" "$mnt/programs/there.mlir"
put '{"device":"more:0"}' "$mnt/executables/there/options.json"
shows "$mnt/executables/there/state" ready
bounded cat "$p/available.json" >found
equal 'the plugins that are loaded' "$(jq -r '.plugins[] | select(.plugin) | .plugin' found |
	sort -u | paste -sd ' ')" 'cpu more'

# -- it survives the daemon's death
next_daemon KILL
shows "$p/more/state" ready
same "$data/x.npy" "$mnt/devices/more/1/buffers/x.npy"

# -- another create option: the client is made anew, and devices that have arrays stay
fails_with 'failed to close' put '{"cpu_device_count":1}' "$p/more/options.json"
tells "$mnt/error" 'device more:1 would be gone, and has arrays'
put '{"cpu_device_count":3}' "$p/more/options.json"
shows "$p/more/options.json" '{"cpu_device_count":3}'
bounded test -d "$mnt/devices/more/2"
same "$data/x.npy" "$mnt/devices/more/1/buffers/x.npy"
fails_with 'failed to close' put '{"cpu_device_count":"two"}' "$p/more/options.json"
tells "$mnt/error" 'expected an integer from 1 to 1024'
fails_with 'failed to close' put '[1]' "$p/more/options.json"
put '{"cpu_device_count":2}' "$p/cpu/options.json"
bounded test -d "$mnt/devices/cpu/1"
run add 'x y -> z'

# -- what is used stays; then the plugin goes, with its process
worker=$(bounded cat "$p/more/pid")
fails_with 'busy' bounded rmdir "$p/more"
tells "$mnt/error" 'plugin more is used by [0-9]+ buffers and 1 programs'
bounded rm "$mnt/programs/there.mlir"
bounded find "$mnt/devices/more/" -path '*/buffers/*' -type f -delete
bounded mkdir "$p/last"
put cpu-0.106 "$p/last/path"
maxima=$mnt/users/1009
bounded mkdir "$maxima"
say "$maxima/more:0/memory.max" 5000
say "$maxima/last:0/memory.max" 7000
bounded rmdir "$p/more"
gone "$p/more" "$mnt/devices/more"
lib_gone "$worker" || fail 'the worker stays'
same "$data/x.npy" "$b/x.npy"

# -- maxima stay with the names of devices, whichever plugins there are
gone "$maxima/more:0"
shows "$maxima/last:0/memory.max" 7000
say "$maxima/last:0/executions.max" 3
bounded mkdir "$p/more"
put cpu-0.106 "$p/more/path"
shows "$maxima/more:0/memory.max" 5000
shows "$maxima/more:0/executions.max" max
shows "$maxima/last:0/executions.max" 3
bounded rmdir "$p/more" "$p/last"
fails_with 'busy' bounded rmdir "$p/cpu"
tells "$mnt/error" 'it stays until the mount ends'

# -- what is no plugin
bounded mkdir "$p/bad"
for word in /etc/passwd nothing-like-it ./relative /etc "$work/none.so"; do
	fails_with 'failed to close' put "$word" "$p/bad/path"
	shows "$p/bad/state" failed
	test -s "$p/bad/error" || fail "no error for $word"
done
fails_with 'nvalid argument' bounded mkdir "$p/.hidden"
fails_with 'xists' bounded mkdir "$p/cpu"
fails_with 'File too large' bash -c 'head -c 5000 /dev/zero >"$1"' - "$p/bad/path"
bounded rmdir "$p/bad"

# -- a mount has at most sixteen
bounded mkdir "$p"/n{1..15}
fails_with 'No space' bounded mkdir "$p/n16"
tells "$mnt/error" 'a mount has at most 16 plugins'
bounded rmdir "$p"/n{1..15}

# -- other users can neither add nor change one, whatever the modes are
if [ -n "$others" ]; then
	bounded chmod 1777 "$p"
	fails_with 'not permitted' as 1001 mkdir "$p/mine"
	bounded mkdir "$p/open"
	bounded chmod 777 "$p/open" "$p/open/path" "$p/cpu/options.json"
	fails_with 'not permitted' as_write 1001 "$p/open/path" cpu-0.106
	fails_with 'not permitted' as_write 1001 "$p/cpu/options.json" '{}'
	fails_with 'denied' as 1001 cat "$p/available.json"
	bounded rmdir "$p/open"
fi
shows "$mnt/health" ok

# -- without a process that holds the mount
mount_pjrtfs cpu
fails_with 'not supported' bounded mkdir "$mnt/plugins/more"
tells "$mnt/error" 'start pjrtfs in the background, or with --keep'
