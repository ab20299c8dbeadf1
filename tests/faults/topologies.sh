#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A topology ends the worker that reads it: its user cannot have it read again at once.
. "$srcdir/tests/lib.sh"
requires test "$(id -u)" = 0
export PJRTFS_FAULTY_CALLS=yes
mount_pjrtfs faulty -o allow_other
at=$mnt/plugins/faulty
chmod 755 "$work"
bounded chmod 1777 "$mnt/topologies" "$mnt/programs"
bounded cp "$at/topology.pb" two.pb
chmod 644 two.pb
cp_as() # UID FILE NAME
{
	as "$1" cp "$2" "$mnt/topologies/$3"
}
restarts()
{
	eventually grep -qx ready "$at/state"
	shows "$at/restarts" "$1"
}

faults PJRT_TopologyDescription_Deserialize=abort:'Check failed: devices'
fails_with 'Input/output error' cp_as 1001 two.pb bad.pb
faults
restarts 1
# -- refused, though it would work now; others are not refused
fails_with 'Input/output error' cp_as 1001 two.pb bad2.pb
cp_as 1002 two.pb good.pb
restarts 1

# -- a compile at that time is not the culprit: it is tried once more
faults compile=held:add
bounded cp "$data/add.mlir" "$mnt/programs/" &
compile=$!
reached add
faults PJRT_TopologyDescription_Deserialize=abort compile=held:add
fails_with 'Input/output error' cp_as 1003 two.pb third.pb
reached add 2
faults
wait "$compile" || fail 'the compile was taken for the culprit'
shows "$mnt/executables/add/state" ready
restarts 2
cp_as 1003 two.pb third.pb # the topology is not known to be the culprit either

# -- the owner is never refused; a compile for a topology ends the worker
faults PJRT_TopologyDescription_Deserialize=abort
say "$mnt/executables/add/options.json" '{"topology":"good"}'
tells "$mnt/executables/add/state" '^ready, update failed: '
tells "$mnt/executables/add/error" 'the worker of plugin faulty died of signal 6'
restarts 3
faults
bounded cp two.pb "$mnt/topologies/mine.pb"
say "$mnt/executables/add/options.json" '{"topology":"mine"}'
shows "$mnt/executables/add/state" compiled
shows "$mnt/health" ok
