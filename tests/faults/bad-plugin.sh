#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
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
		PJRTFS_FAULTY=$1 bounded "$pjrtfs" --plugin "faulty=$so" m ${way:+"$way"} \
			>out 2>err </dev/null || status=$?
		equal "status with $1 ($(cat err))" "$status" 1
		grep -Eq -e "$2" err || fail "$1: '$(cat err)' instead of '$2'"
		! bounded mountpoint -q m || fail "mounted with $1"
	done
}
refused api=empty 'plugin faulty: '
refused api=short:3 'plugin faulty: '
refused init=error:INTERNAL:'no init' 'plugin faulty: .*no init'
refused client=error:UNAVAILABLE:'no device' 'plugin faulty: .*no device'
refused client=error:FAILED_PRECONDITION:'No visible GPU devices.' 'plugin faulty: there is no GPU here, .*: No visible GPU devices'
# What it printed may be more exact than its answer.
refused "client=error:FAILED_PRECONDITION:No visible GPU devices.,init=print:1:failed call to cuInit: UNKNOWN ERROR (303)" \
	'plugin faulty: no NVIDIA driver \(libcuda.so.1\) here: .*: No visible GPU devices'
sanitized || for step in init client; do
	refused "$step=error:INTERNAL:mkdir /x: Permission denied" 'plugin faulty: .*/x: Permission denied; the sandbox may forbid it: '
done
sanitized || refused "client=abort:mkdir /x: Operation not permitted" 'signal 6 .*/x: Operation not permitted; the sandbox may forbid it: '
# What it printed as an error explains more than its answer.
cause='E0000 00:00:1.5 x.cc:1] the driver is too old'
refused "client=error:UNAVAILABLE:no device,init=print:1:$cause" 'plugin faulty: .*the driver is too old'
refused "client=error:UNAVAILABLE:no device,init=print:1:$cause" 'plugin faulty: no device'
! PJRTFS_FAULTY="client=error:UNAVAILABLE:no device,init=print:1:all is well" \
	bounded "$pjrtfs" --plugin "faulty=$so" m -f 2>err || fail "it started"
! grep 'all is well' err || fail "a message of the plugin is no explanation"

PJRTFS_FAULTY=client=hang:'builds firmware' fails_with \
	'plugin faulty: it was not loaded within 1 s; --start-timeout gives it longer' \
	"$pjrtfs" --plugin "faulty=$so" m -f --start-timeout 1

# All bad: the daemon does not mount, and reports each one.
all_bad()
{
	PJRTFS_FAULTY=init=error:INTERNAL:'no init' bounded "$pjrtfs" m \
		--plugin "faulty=$so" --plugin "other=$so" -f
}
fails_with "plugin other: $so: initialize the plugin: no init" all_bad
fails_with "plugin faulty: $so: initialize the plugin: no init" all_bad
fails_with 'none of 2 plugins could be started' all_bad
! bounded mountpoint -q m || fail "mounted with bad plugins"

# One bad plugin and a good one: the good one works; the bad one's error says why it failed.
mount_pjrtfs "faulty=$so,good=$so" \
	--plugin-env "faulty:PJRTFS_FAULTY=init=print:2:early,client=error:INTERNAL:no init"
grep -q 'warning: the mount is without plugin faulty: .*no init' "$mnt.log" || fail "the log does not tell why"
shows "$mnt/plugins/faulty/state" failed
tells "$mnt/plugins/faulty/error" 'no init'
shows "$mnt/plugins/faulty/options.json" '{}'
tells "$mnt/plugins/faulty/log" '^early 1$' '^early 2$'
shows "$mnt/plugins/faulty/path" "$(realpath "$so")"
shows "$mnt/plugins/good/state" ready
equal "no error" "$(bounded cat "$mnt/plugins/good/error")" ""
shows "$mnt/health" 'plugin faulty has failed'
tells "$mnt/README" "Plugin faulty did not start; why: $mnt/plugins/faulty/error"
equal "devices" "$(bounded ls "$mnt/devices")" good
equal "the default" "$(bounded realpath "$mnt/devices/good/0/buffers")" "$mnt/buffers"
unmount_pjrtfs

# An old plugin with a short table works, except for the missing functions.
mount_pjrtfs faulty --fault api=short
cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
same "$mnt/buffers/x.npy" "$data/x.npy"
cp "$data/add.mlir" "$mnt/programs/"
run add 'x y -> z'
shows "$mnt/plugins/faulty/state" ready
