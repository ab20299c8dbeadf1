#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# Compiled programs as files: from the cache and without it, for this plugin and no other, and
# only for those who may bring machine code.
. "$srcdir/tests/words.sh"
requires test "$(id -u)" = 0
first=${plugin:-cpu}
second=cpu-0.106
[ "$first" != "$second" ] || second=cpu
# loads FILE: it does what the program that it was made of does
loads()
{
	bounded cp "$1" "$mnt/programs/native.pjrtexe"
	shows "$mnt/executables/native/state" ready
	bounded rm -f "$mnt/buffers/z.npy"
	run native 'x y -> z'
	shows "$mnt/buffers/z.txt" "$sum"
}

# -- without a cache the plugin serializes it; what was loaded gives its own bytes back
mount_pjrtfs --no-cache
put_add
bounded cat "$mnt/executables/add/serialized" >one.pjrtexe
[ "$(stat -c %s one.pjrtexe)" -gt 1000 ] || fail "only $(stat -c %s one.pjrtexe) bytes"
loads one.pjrtexe
bounded cat "$mnt/executables/native/serialized" >again.pjrtexe
same one.pjrtexe again.pjrtexe
equal "its size" "$(bounded stat -c %s "$mnt/executables/native/serialized")" \
	"$(stat -c %s one.pjrtexe)"
for file in signature.json cost.json memory.json; do
	equal "$file" "$(bounded jq -cS 'del(.name)' "$mnt/executables/native/$file")" \
		"$(bounded jq -cS 'del(.name)' "$mnt/executables/add/$file")"
done
equal "its memory kinds" "$(bounded jq -c .input_memory_kinds "$mnt/executables/native/info.json")" \
	"$(bounded jq -c .input_memory_kinds "$mnt/executables/add/info.json")"
# the options that it was compiled with, as far as the plugin has kept them
bounded cat "$mnt/executables/native/options.pb" >options.pb
case $first in
cpu-0.81) equal "its options" "$(wc -c <options.pb)" 0 ;;
*)
	bounded cp options.pb "$mnt/executables/add/options.pb"
	knows "$mnt/executables/add/options.json" '.num_replicas == 1 and .num_partitions == 1'
	;;
esac
# no compiled program to serialize yet
bounded touch "$mnt/programs/none.mlir"
equal "of nothing" "$(bounded cat "$mnt/executables/none/serialized")" ''
# -- damage is found before the plugin sees it: in the header, in the program, at the end
# (check_cache.c changes every byte)
size=$(stat -c %s one.pjrtexe)
for at in 20 $((size - 1)); do
	perl -e 'local $/; $_ = <STDIN>; substr($_, $ARGV[0], 1) ^= "\4"; print' "$at" <one.pjrtexe >bad.pjrtexe
	fails_with 'nvalid argument' cp bad.pjrtexe "$mnt/programs/bad.pjrtexe"
	tells "$mnt/executables/bad/error" 'damaged|expected a compiled program'
done
head -c $((size - 1)) one.pjrtexe >bad.pjrtexe
fails_with 'nvalid argument' cp bad.pjrtexe "$mnt/programs/bad.pjrtexe"
fails_with 'nvalid argument' cp "$data/add.mlir" "$mnt/programs/bad.pjrtexe"
tells "$mnt/executables/bad/error" 'expected a compiled program'
shows "$mnt/plugins/$first/restarts" 0
unmount_pjrtfs

# -- through the cache, also where the program came from it
for round in compiled cached; do
	mount_pjrtfs
	put_add
	# a plugin may serialize otherwise each time: what is kept counts
	eventually jq -e '.entries >= 1' "$mnt/cache/stats.json" >/dev/null
	bounded cat "$mnt/executables/add/serialized" >"$round.pjrtexe"
	loads "$round.pjrtexe"
	loads one.pjrtexe
	bounded rm "$mnt/programs/native.pjrtexe"
	# a scratch file that gets the name
	bounded cp one.pjrtexe "$mnt/programs/native.part"
	bounded mv "$mnt/programs/native.part" "$mnt/programs/native.pjrtexe"
	eventually grep -qx ready "$mnt/executables/native/state"
	run native 'x y -> z'
	unmount_pjrtfs
done
same compiled.pjrtexe cached.pjrtexe

# -- another plugin: refused with a sentence that says whose it is
mount_pjrtfs "$second"
fails_with 'nvalid argument' cp one.pjrtexe "$mnt/programs/"
tells "$mnt/executables/one/error" "was compiled by plugin $first " "this is plugin $second "
shows "$mnt/plugins/$second/restarts" 0
unmount_pjrtfs

# -- permitted owners of the files
chmod 644 ./*.pjrtexe
mount_pjrtfs -o allow_other
bounded mkdir -m 1777 "$mnt/programs/all"
fails_with 'not permitted' as 1001 cp one.pjrtexe "$mnt/programs/all/"
as 1001 cp one.pjrtexe "$mnt/programs/all/part"
fails_with 'not permitted' as 1001 mv "$mnt/programs/all/part" "$mnt/programs/all/p.pjrtexe"
bounded cp one.pjrtexe "$mnt/programs/all/"
bounded chmod 666 "$mnt/programs/all/one.pjrtexe"
fails_with 'not permitted' as 1001 bash -c "echo >>\"\$1\"" - "$mnt/programs/all/one.pjrtexe"
# who gets the root directory does not get the mount
bounded chown 1001 "$mnt"
fails_with 'not permitted' as 1001 cp one.pjrtexe "$mnt/programs/all/two.pjrtexe"
unmount_pjrtfs
mount_pjrtfs -o allow_other,allow_native
bounded mkdir -m 1777 "$mnt/programs/all"
as 1001 cp one.pjrtexe "$mnt/programs/all/"
shows "$mnt/executables/all/one/state" ready
