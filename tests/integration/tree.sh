#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# The fixed files: at the root, of each plugin and of each device; stat tells true sizes.
. "$srcdir/tests/words.sh"
mount_pjrtfs
p=${plugin:-cpu}

# -- the root
shows "$mnt/pid" "$daemon"
shows "$mnt/health" ok
equal "the version" "pjrtfs $(bounded cat "$mnt/version")" "$("$pjrtfs" --version)"
for d in plugins devices programs executables buffers; do
	bounded test -d "$mnt/$d" || fail "no directory $d"
done
tells "$mnt/README" "$p:0"

# -- the plugin
at=$mnt/plugins/$p
shows "$at/path" "$(realpath "$plugins/$p/pjrt_plugin.so")"
tells "$at/api_version" '^0\.[0-9]+$'
shows "$at/platform" cpu
shows "$at/platform_version" cpu
shows "$at/state" ready
shows "$at/restarts" 0
worker=$(bounded cat "$at/pid")
equal "the worker's parent" "$(ps -o ppid= -p "$worker" | tr -d ' ')" "$daemon"
tells "$at/extensions" '.'
[ "$(bounded grep -c ' ' "$at/extensions")" = 0 ] ||
	fail "extensions: more than a name a line"
knows "$at/attributes.json" 'type == "object"'
bounded cat "$at/log" >/dev/null

# -- the devices
n=$(bounded ls "$mnt/devices/$p" | wc -l)
[ "$n" -ge 1 ] || fail "no devices"
for ((i = 0; i < n; i++)); do
	at=$mnt/devices/$p/$i
	shows "$at/id" "$i"
	shows "$at/platform" cpu
	shows "$at/local_hardware_id" "$i"
	shows "$at/process_index" 0
	shows "$at/addressable" true
	tells "$at/kind" .
	tells "$at/description" .
	tells "$at/debug" .
	knows "$at/attributes.json" 'type == "object"'
	# XLA's CPU plugins do not count: that is said, not shown as zeros.
	knows "$at/memory_stats.json" 'keys == ["unavailable"] and (.unavailable | test("not supported"))'
	equal "plugin of device $i" "$(bounded realpath "$at/plugin")" "$mnt/plugins/$p"
	for m in "$at"/memories/*/; do
		shows "$m/kind" "$(basename "$m")"
		tells "$m/id" '^-?[0-9]+$'
		tells "$m/description" .
		tells "$m/default" '^(true|false)$'
	done
	equal "default memories of device $i" \
		"$(bounded grep -lx true "$at"/memories/*/default | wc -l)" 1
	bounded test -d "$at/buffers" || fail "device $i has no buffers"
done
bounded test -L "$mnt/devices/$p/0/buffers" ||
	fail "the default device's buffers are no link"
equal "the default device's buffers" "$(bounded realpath "$mnt/devices/$p/0/buffers")" \
	"$mnt/buffers"

# -- stat's size is what a reader gets, before and after there is something
put_add
run add 'x y -> z'
eventually grep -q '"entries":1' "$mnt/cache/stats.json" # it is put there behind
check_sizes()
{
	local path size
	while read -r size path; do
		case $path in
		*/run | */control) continue ;; # what they hold is each reader's own
		*/topology.json | */topology.pb | */available.json | */trace.json | */memory_stats.json | \
			*/estimate.json)
			continue # made at each open
			;;
		esac
		equal "the size of $path" "$(bounded cat "$path" | wc -c)" "$size"
	done
}
bounded find "$mnt" -type f -printf '%s %p\n' >"$work/list"
[ "$(wc -l <"$work/list")" -gt 40 ] || fail "few files: $(cat "$work/list")"
check_sizes <"$work/list"
for view in x.npy x.raw x.json z.npy z.raw z.json; do
	bounded stat -c '%s %n' "$mnt/buffers/$view"
done >"$work/list"
check_sizes <"$work/list"

# -- without an error, error is empty: test -s is the idiom
bounded test ! -s "$mnt/executables/add/error"

# -- block counts agree with sizes, and cp reads in large pieces
equal "st_blksize" "$(bounded stat -c %o "$mnt/buffers/x.npy")" 1048576
equal "st_blocks" "$(bounded stat -c %b "$mnt/buffers/x.npy")" 1

# -- df shows the memory limit
[ "$(bounded df --output=size -B1 "$mnt" | tail -n 1)" -gt 1000000 ] ||
	fail "df tells no size"
equal "the type" "$(bounded df --output=fstype "$mnt" | tail -n 1)" fuse.pjrtfs
