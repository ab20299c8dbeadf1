#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A plugin without a device here, or whose device is not to be touched, compiles for topologies, and
# does nothing else; one whose device has vanished does not become such a compiler.
. "$srcdir/tests/lib.sh"
so=$build/tests/faults/faulty_plugin.so
none=(client=error:UNAVAILABLE:'no card in any slot' topologies=any serialize=works)
printf 'faulty: two devices\0' >two.pb
refusal='plugin faulty only compiles for topologies: no device here .no card in any slot.'

# -- a mount of compilers only
faults "${none[@]}"
mount_pjrtfs faulty --keep
at=$mnt/plugins/faulty x=$mnt/executables/add
shows "$at/state" compiler
shows "$at/error" 'no card in any slot'
shows "$mnt/health" ok
equal "devices" "$(bounded ls "$mnt/devices")" ""
tells "$mnt/README" "Plugin faulty has no device here, and compiles for topologies/; why: $at/error"
tells "$mnt/metrics.prom" '^pjrtfs_worker_up{plugin="faulty"} 1$'
"$pjrtfs" --status "$mnt" >status || fail "status $?: $(cat status)"
tells status '^plugin  faulty: compiler, process [0-9]*, restarts 0, no card in any slot$'
grep -Fq 'plugin faulty: compiler: no device here (no card in any slot)' "$mnt.log" || fail "the log does not tell"

# -- a program needs a topology; then it is compiled, described and serialized
bounded cp two.pb "$mnt/topologies/"
fails_with 'Operation not supported' cp "$data/add.mlir" "$mnt/programs/"
tells "$x/error" "$refusal"
tells "$x/error" 'the program.s options.json can name a topology'
say "$x/options.json" '{"topology":"two"}'
shows "$x/state" compiled
tells "$x/signature.json" '"dtype":"F32"'
tells "$x/info.json" '"fingerprint":"6601fe"'
bounded grep -aFq 'what the faulty plugin compiled' "$x/serialized" || fail 'it cannot be serialized'

tells "$x/signature.json" '"platform":"faulty"'

# a program of several platforms takes the number of the topology's
bounded touch "$mnt/programs/several.jax_exported"
say "$mnt/executables/several/options.json" '{"topology":"two"}'
fails_with 'nvalid argument' cp "$data/jax/platforms.jax_exported" "$mnt/programs/several.jax_exported"
tells "$mnt/error" 'the program was exported for cuda tpu cpu, the plugin.s platform is faulty'

# -- what its README shows works
sed -n '/^Nothing runs here/,/^cp does the same/{s/^  //p;}' "$mnt/README" >lines
bounded bash -eu lines >out
tells out '"plugin":"faulty","for_topology":true'
shows "$x/state" compiled
say "$x/options.json" '{"topology":"two"}'

# -- all else is refused, in the daemon or in the worker
fails_with 'Operation not supported' cp "$data/x.npy" "$mnt/buffers/"
tells "$mnt/error" "$refusal"
fails_with 'Operation not supported' cat "$at/topology.json"
tells "$mnt/error" "$refusal"
fails_with 'Operation not supported' cat "$at/topology.pb"
fails_with 'Operation not supported' run add 'x y -> z'

# -- another process of it is a compiler again, though a device has come meanwhile
faults topologies=any serialize=works
kill -KILL "$(bounded cat "$at/pid")"
eventually grep -qx 1 "$at/restarts"
eventually grep -qx compiler "$at/state"
shows "$at/error" 'no card in any slot'
fails_with 'Operation not supported' cat "$at/topology.json"
tells "$mnt/error" "$refusal"
bounded cp "$data/add.mlir" "$mnt/programs/"
shows "$x/state" compiled
shows "$mnt/health" ok

# -- another daemon has the device; when it vanishes, that is an error, for each later daemon, too
restart()
{
	local pid
	pid=$(bounded cat "$mnt/pid")
	kill -USR2 "$pid"
	eventually another "$pid"
}
restart
shows "$at/state" ready
bounded cp "$data/x.npy" "$mnt/buffers/"
faults "${none[@]}"
kill -KILL "$(bounded cat "$at/pid")"
eventually grep -q 'no card in any slot' "$at/error"
shows "$at/state" restarting
tells "$mnt/health" '^plugin faulty (is restarting$|cannot be started again: .*no card in any slot)'
kill -KILL "$(bounded cat "$mnt/pid")"
eventually grep -q 'error: plugin faulty: no card in any slot' "$mnt.log"
faults
same "$mnt/buffers/x.npy" "$data/x.npy"
shows "$at/state" ready
unmount_pjrtfs

# -- beside a plugin with a device, which is the default; what the other one printed says why it has none
faults client=error:NOT_FOUND:'no card' topologies=named init=print:1:CUDA_ERROR_NO_DEVICE
mount_pjrtfs faulty --plugin "good=$so" --plugin-env "good:PJRTFS_FAULTY_FILE=/none"
shows "$mnt/plugins/faulty/state" compiler
tells "$mnt/plugins/faulty/error" '^no NVIDIA GPU here: .*: no card$'
equal "devices" "$(bounded ls "$mnt/devices")" good
put_add
shows "$mnt/executables/add/state" ready
bounded cp two.pb "$mnt/topologies/"
say "$mnt/executables/add/options.json" '{"topology":"two","plugin":"faulty"}'
shows "$mnt/executables/add/state" compiled
unmount_pjrtfs

# -- a client that needs the sandbox device is tried there first
faults client=needs-socket topologies=any
mount_pjrtfs faulty
shows "$mnt/plugins/faulty/state" ready
unmount_pjrtfs

# -- without topologies, or with an option that it refuses, it is no compiler
fails()
{
	PJRTFS_FAULTY=$1 refuses 1 "$2" --plugin "faulty=$so" none -f
}
mkdir none
fails client=error:UNAVAILABLE:'no card' 'plugin faulty: no card'
fails client=error:INVALID_ARGUMENT:'no such option',topologies=any 'plugin faulty: no such option'

# -- told to compile only, its client is not created
faults client=abort:'it was created' serialize=works
mount_pjrtfs faulty --compile-only faulty
shows "$mnt/plugins/faulty/state" compiler
shows "$mnt/plugins/faulty/error" 'it was told to compile only: its client is not created'
unmount_pjrtfs
printf '{"compile_only":["faulty"]}' >only.json
mount_pjrtfs faulty --config "$work/only.json"
shows "$mnt/plugins/faulty/state" compiler
unmount_pjrtfs
refuses 2 'options for plugin tpu, which is not loaded' --compile-only tpu --plugin "faulty=$so" none
refuses 2 'plugin faulty cannot both compile only and be the group.s' --compile-only faulty --plugin "faulty=$so" none \
	--group redis://127.0.0.1:1 --group-name compiler --group-process 0/2
PJRTFS_FAULTY_CALLS=yes PJRTFS_FAULTY=PJRT_TopologyDescription_Create=missing \
	refuses 1 'plugin faulty: compile only: .*PJRT_TopologyDescription_Create' --compile-only faulty --plugin "faulty=$so" none -f

# -- --list-plugins and --check-plugin
unset PJRTFS_PLUGIN_PATH PJRT_NAMES_AND_LIBRARY_PATHS PJRT_PLUGIN_LIBRARY_PATH LD_LIBRARY_PATH
export PJRTFS_FAULTY=client=error:UNAVAILABLE:'no card',topologies=any PJRT_PLUGIN_PATH=$work/d
mkdir d
ln -s "$so" d/faulty_pjrt.so
lists()
{
	"$patient" $((patience * 6)) "$pjrtfs" --list-plugins --config /dev/null "$@" >out 2>err ||
		fail "status $?: $(cat err)"
}
checks()
{
	"$patient" $((patience * 6)) "$pjrtfs" --check-plugin "$so" --config /dev/null >out 2>err ||
		fail "status $?: $(cat err)"
}
lists
tells out '^    platform  compiler: no device here .no card.$'
lists --json
tells out '"compiler": "no card"'
lists --check
tells out '^    program   was compiled for a topology$'
checks
tells err 'plugin faulty_plugin: compiler: no device here .no card.'
tells out '"compiler": "no card"' '"compile_seconds": '
PJRTFS_FAULTY=client=error:UNAVAILABLE:'no card',topologies=named checks
tells out '"unavailable": "topology without a name: faulty: expected the name of a topology"'
