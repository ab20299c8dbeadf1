#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# Three plugins of one platform, one cache: none runs what another compiled.
. "$srcdir/tests/lib.sh"
requires jq --version
export PJRTFS_CACHE_DIR=$work/kept
for round in miss hit; do
	for p in cpu cpu-0.81 cpu-0.115; do
		mount_pjrtfs "$p"
		bounded cp "$data/add.mlir" "$mnt/programs/"
		bounded cp "$data/x.npy" "$data/y.npy" "$mnt/buffers/"
		equal "$p" "$(bounded jq -r .cache "$mnt/executables/add/info.json")" $round
		run add 'x y -> z'
		shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
		bounded jq -r .fingerprint "$mnt/executables/add/info.json" >>fingerprints
		unmount_pjrtfs
	done
done
equal "entries" "$(find "$work/kept/entries" -type f | wc -l)" 3
# Their own fingerprints would not have kept them apart.
[ "$(sort -u fingerprints | wc -l)" -lt 3 ] || fail "the fingerprints differ by now"
equal "plugins known" "$(wc -l <"$work/kept/plugins")" 3
