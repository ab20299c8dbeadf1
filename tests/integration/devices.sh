#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# What lives on each device: executables by name, counts of them and of buffers.
. "$srcdir/tests/lib.sh"
p=${plugin:-cpu}
mount_pjrtfs
d=$mnt/devices/$p
b=$mnt/buffers
# alive FILTER WANT: jq's FILTER of plugins/NAME/alive.json prints WANT
alive()
{
	equal "alive: $1" "$(bounded jq -c "$1" "$mnt/plugins/$p/alive.json")" "$2"
}
# the sample of NAME on DEVICE being VALUE
sample()
{
	echo "pjrtfs_$1_alive{plugin=\"$p\",device=\"$p:$2\"} $3"
}
# gauge NAME DEVICE WANT
gauge()
{
	bounded grep -Fqx "$(sample "$@")" "$mnt/metrics.prom" ||
		fail "$1 of device $2 are not $3: $(grep "_alive{" "$mnt/metrics.prom")"
}
# lists DEVICE NAME...: its executables
lists()
{
	local device=$1
	shift
	equal "executables of device $device" "$(bounded sort "$d/$device/executables")" \
		"$([ $# = 0 ] || printf '%s\n' "$@")"
}
# compile NAME OPTIONS
compile()
{
	ask "{\"op\":\"compile\",\"program\":\"add\",\"as\":\"$1\",\"options\":$2}" >reply
	jq -e .ok reply >/dev/null || fail "$(cat reply)"
}
alive '[.executables, .buffers]' '[0,0]'
equal "devices" "$(bounded jq -r '.devices | keys[]' "$mnt/plugins/$p/alive.json" | sort)" \
	"$(bounded find "$d" -mindepth 1 -maxdepth 1 -printf "$p:%f\n" | sort)"
bounded test ! -s "$d/0/executables" || fail "something is loaded from the start"

# -- executables, where they run
bounded mkdir -p "$mnt/programs/empty/deep" # directories of executables are none
bounded cp "$data/add.mlir" "$mnt/programs/"
compile two '{"device":1}'
compile any '{"compile_portable_executable":true}'
bounded mkdir "$mnt/programs/ns"
compile ns/both '{"num_replicas":2}'
lists 0 add any ns/both
lists 1 any ns/both two
lists 2 any
equal "its size" "$(bounded stat -c %s "$d/0/executables")" \
	"$(bounded cat "$d/0/executables" | wc -c)"
alive '[.executables, .buffers]' '[4,0]'
alive ".devices[\"$p:0\"].executables" 3
alive ".devices[\"$p:2\"].executables" 1
gauge executables 1 3
bounded rmdir "$mnt/executables/two" "$mnt/executables/ns/both"
settle # a compile that still ends has its program
lists 0 add any
lists 1 any
alive .executables 2
echo 'func.func @main(' >bad.mlir
fails_with '' cp bad.mlir "$mnt/programs/"
lists 0 add any
bounded mv "$mnt/programs/add.mlir" "$mnt/programs/ns/sum.mlir"
lists 0 any ns/sum

# -- buffers, which the plugin has when they were used
bounded cp "$data/x.npy" "$data/y.npy" "$b/"
run ns/sum 'x y -> z'
bounded rm "$b/z.npy"
eventually grep -Fqx "$(sample buffers 0 2)" "$mnt/metrics.prom"
alive .buffers 2
gauge buffers 0 2
bounded cp "$b/x.npy" "$b/same.npy" # shares it
alive .buffers 2
bounded cp "$b/x.npy" "$d/1/buffers/"
alive ".devices | [.[\"$p:0\", \"$p:1\", \"$p:2\"].buffers]" '[2,1,0]'
bounded mv "$d/1/buffers/x.npy" "$d/2/buffers/"
eventually grep -Fqx "$(sample buffers 2 1)" "$mnt/metrics.prom"
settle
gauge buffers 1 0
run ns/sum 'x y -> z'
alive .buffers 4
run ns/sum 'x y -> z' # in the place of the other
eventually grep -Fqx "$(sample buffers 0 3)" "$mnt/metrics.prom"
bounded rm "$b/same.npy" "$b/x.npy"
eventually grep -Fqx "$(sample buffers 0 2)" "$mnt/metrics.prom"

# -- a call leaves no memory in use
bounded bash -c 'exec 3<>"$1" && cat "$2" "$3" >&3 && exec cat <&3' - \
	"$mnt/executables/ns/sum/call" "$data/x.npy" "$data/y.npy" >called.npy
same called.npy "$b/z.npy"
settle
gauge buffers 0 2

# -- memory_stats.json: XLA's CPU plugins keep no figures, so none can be cleared
bounded truncate -s 0 "$d/0/memory_stats.json"
fails_with 'Operation not supported' bash -c 'echo >"$1"' - "$d/0/memory_stats.json"
tells "$mnt/error" 'ClearMemoryStats is not supported|no PJRT_Device_ClearMemoryStats: it speaks PJRT 0\.'

# -- the worker's death frees everything; the next uses load it again
kill_worker "$p"
alive '[.executables, .buffers]' '[0,0]'
lists 0
bounded cp "$data/x.npy" "$b/x.npy"
run ns/sum 'x y -> z'
lists 0 ns/sum
alive '[.executables, .buffers]' '[1,3]'
bounded rm "$b/x.npy" "$b/y.npy" "$b/z.npy" "$mnt/programs/ns/sum.mlir"
eventually jq -e '.executables == 0 and .buffers == 0' "$mnt/plugins/$p/alive.json"
