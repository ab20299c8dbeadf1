#!/usr/bin/env bash
# Plugins that cannot be used: refused at the start, with a sentence; nothing is mounted.
. "$srcdir/tests/lib.sh"
requires test -w /dev/fuse
so=$build/tests/faults/faulty_plugin.so
mkdir m

# refused FAULT PATTERN: in the foreground and in the background.
refused()
{
	local way status
	for way in -f ''; do
		status=0
		PJRTFS_FAULTY=$1 timeout 60 "$pjrtfs" --plugin "faulty=$so" m ${way:+"$way"} \
			>out 2>err </dev/null || status=$?
		equal "status with $1 ($(cat err))" "$status" 1
		grep -Eq -e "$2" err || fail "$1: '$(cat err)' instead of '$2'"
		! timeout 5 mountpoint -q m || fail "mounted with $1"
	done
}
refused api=major 'plugin faulty: .*99.*PJRT|plugin faulty: .*PJRT.*99'
refused api=null 'plugin faulty: .*GetPjrtApi'
refused api=empty 'plugin faulty: '
refused api=short:3 'plugin faulty: '
refused api=abort:'no way' 'plugin faulty: .*no way'
refused init=error:INTERNAL:'no init' 'plugin faulty: .*no init'
refused init=abort:'dies at once' 'plugin faulty: .*signal 6.*dies at once'
refused client=error:UNAVAILABLE:'no device' 'plugin faulty: .*no device'
refused client=exit:7 'plugin faulty: .*status 7'
refused client=segv 'plugin faulty: .*signal 11'

# One bad plugin beside a good one: the whole mount is refused, naming it.
if [ -e "$plugins/cpu/pjrt_plugin.so" ]; then
	refused_with_cpu()
	{
		PJRTFS_FAULTY=init=error:INTERNAL:'no init' timeout 60 "$pjrtfs" cpu m \
			--plugin-dir "$plugins" --plugin "faulty=$so" -f
	}
	fails_with 'no init' refused_with_cpu
	! timeout 5 mountpoint -q m || fail "mounted with one bad plugin of two"
fi

# An old plugin, whose table ends early, works as far as it goes.
mount_pjrtfs faulty --fault api=short
cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
same "$mnt/buffers/x.npy" "$data/x.npy"
cp "$data/add.mlir" "$mnt/programs/"
run add 'x y -> z'
shows "$mnt/plugins/faulty/state" ready
