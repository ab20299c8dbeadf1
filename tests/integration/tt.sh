#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: deep
# SANITIZE: none
# COST: 60 CPU-s in 90 s
# Tenstorrent's plugin on the mock cluster of its library, a card that computes nothing: of the plugins
# that are not made of XLA, it is the one that starts on any machine.
. "$srcdir/tests/words.sh"
requires_fetched tt
patience=$((patience * 6)) # it builds the firmware of the card, on a busy machine for longer than --start-timeout lets by default

# What it unpacks, builds and writes at each start stays in a folder that is removed.
export HOME=$work/home
mkdir home tmp
! isolated || mount -t tmpfs tmpfs /dev/shm
mount_pjrtfs tt --sandbox off --start-timeout 3600 --plugin-env "tt:TMPDIR=$work/tmp" \
	--plugin-env "tt:TT_METAL_MOCK_CLUSTER_DESC_PATH=$data/blackhole.yaml"
at=$mnt/plugins/tt
shows "$at/state" ready
equal 'the devices' "$(bounded ls "$mnt/devices/tt" | tr '\n' ' ')" '0 '
knows "$mnt/devices/tt/0/attributes.json" '.device_arch == "Blackhole"'
knows "$mnt/devices/tt/0/memory_stats.json" '.bytes_limit > 1e10'

# arrives: arrays go there and come back
arrives()
{
	bounded cp "$data/x.npy" "$mnt/buffers/"
	knows "$mnt/buffers/x.json" '.state == "ready" and .zero_copy == false and .device == "tt:0"'
	same "$mnt/buffers/x.npy" "$data/x.npy"
	bounded rm "$mnt/buffers/x.npy"
}
arrives

# -- it gives no HLO: the program itself says what its arguments are
bounded cp "$data/add.mlir" "$mnt/programs/"
shows "$mnt/executables/add/state" ready
equal 'the signature of add' \
	"$(bounded jq -c '[.inputs, .outputs] | map(map([.dtype, .shape]))' "$mnt/executables/add/signature.json")" \
	'[[["F32",[2,3]],["F32",[2,3]]],[["F32",[2,3]]]]'

# -- its process ends: the next one has the program and takes arrays
kill_worker tt
arrives
shows "$mnt/executables/add/state" ready
shows "$mnt/health" ok
