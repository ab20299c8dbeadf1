#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: deep
# SANITIZE: none
# COST: 5 CPU-s in 10 s
# Google's libtpu where there is no TPU: a compiler for the TPUs whose names it knows, in the sandbox that
# pjrtfs chooses for it.
. "$srcdir/tests/words.sh"
requires_fetched tpu
requires bash -c '! grep -qsx 0x1ae0 /sys/bus/pci/devices/*/vendor'

mount_pjrtfs tpu
at=$mnt/plugins/tpu
shows "$at/state" compiler
tells "$at/error" '^there is no TPU on this machine'
tells "$at/sandbox" '^device$'
shows "$mnt/health" ok

# -- a TPU by its name, and what is none
say "$mnt/topologies/v5e.txt" v5e:2x2
knows "$mnt/topologies/v5e.json" '.plugin == "tpu" and (.devices | length) == 4'
echo v5e:3x3 >odd.txt
fails_with 'failed to close' cp odd.txt "$mnt/topologies/"
tells "$mnt/error" 'topologies/odd.txt: expected a topology that a plugin makes: tpu: Topology layout "v5e:3x3"'

# compiles NAME: another program than the ones before, for that TPU, and what is known of it
compiles()
{
	local x=$mnt/executables/$1
	like_add "$1"
	bounded touch "$mnt/programs/$1.mlir"
	say "$x/options.json" '{"topology":"v5e"}'
	bounded cp "$1.mlir" "$mnt/programs/"
	shows "$x/state" compiled
	knows "$x/cost.json" '.optimal_seconds > 0'
	knows "$x/memory.json" '.peak_memory_in_bytes > 0'
	knows "$x/signature.json" '[.inputs, .outputs | length] == [2, 1]'
	knows "$x/info.json" '.cache == "miss" and (.fingerprint | test("^[0-9a-f]{64}$"))'
	bounded test -s "$x/serialized" || fail "$1: serialized is empty"
}
compiles before

# -- of a program for several platforms that for a TPU
bounded touch "$mnt/programs/several.jax_exported"
say "$mnt/executables/several/options.json" '{"topology":"v5e"}'
bounded cp "$data/jax/platforms.jax_exported" "$mnt/programs/several.jax_exported"
shows "$mnt/executables/several/state" compiled
knows "$mnt/executables/several/signature.json" '.platform == "tpu" and ([.inputs[].shape] == [[2, 3], [2, 3]])'

# -- its process ends: the next one compiles
kill -KILL "$(bounded cat "$at/pid")"
eventually grep -qx 1 "$at/restarts"
eventually grep -qx compiler "$at/state"
compiles after
shows "$mnt/health" ok
