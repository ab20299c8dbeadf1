#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: deep
# SANITIZE: none
# COST: 5 CPU-s in 15 s
# JAX's plugin for CUDA where there is no GPU: a compiler for the GPUs that pjrtfs describes.  The sandbox
# that pjrtfs chooses lets it start ptxas, which lies where pip puts it.
. "$srcdir/tests/words.sh"
requires_fetched cuda
requires test ! -e /dev/nvidiactl

mount_pjrtfs cuda
at=$mnt/plugins/cuda x=$mnt/executables/add
shows "$at/state" compiler
tells "$at/error" 'No visible GPU devices'
tells "$at/sandbox" '^device$'

say "$mnt/topologies/h100.json" \
	'{"name":"","options":{"topology":"1x1x1","target_config":"h100_sxm"}}'
knows "$mnt/topologies/h100.json" '.plugin == "cuda" and .devices[0].attributes.compute_capability == "9.0"'
bounded touch "$mnt/programs/add.mlir"
say "$x/options.json" '{"topology":"h100"}'
bounded cp "$data/add.mlir" "$mnt/programs/"
shows "$x/state" compiled
knows "$x/memory.json" '.peak_memory_in_bytes > 0'
knows "$x/signature.json" '[.inputs, .outputs | length] == [2, 1]'
bounded cat "$x/serialized" >serialized
grep -aqF $'\x7fELF' serialized || fail 'there is no machine code in serialized'
shows "$mnt/health" ok
