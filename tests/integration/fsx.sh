#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 13 CPU-s
# Random operations on files in buffers/ do what the same ones do in tmpfs.
. "$srcdir/tests/words.sh"
mount_pjrtfs
b=$mnt/buffers
many=$((20000 * times)) few=$((2000 * times))
if sanitized; then
	many=2000 few=500
fi
# fsx FILE OPTION...: the same, or the test ends with what was done last
fsx()
{
	"$patient" $((patience * 6 * times)) python3 -B "$top/tests/tools/fsx.py" "${@:2}" "$1" ||
		fail "$1: not as in tmpfs"
}

for seed in 1 2; do
	fsx "$b/x.raw" --ops $many --seed $seed
	bounded jq -e '.state == "ready" and .dtype == "U8"' "$b/x.json" >/dev/null ||
		fail "after $seed: $(bounded cat "$b/x.json")"
	bounded rm "$b/x.raw"
done

# -- scratch files, of any name
for name in x x.part x.npy.part .x.raw.swp x.txt~; do
	fsx "$b/$name" --ops $few --seed 3
	bounded rm "$b/$name"
done
# in another directory, and small, so that every operation meets the end
bounded mkdir "$b/ns"
fsx "$b/ns/x.raw" --ops $few --size 5000 --seed 4
bounded rm -r "$b/ns"

# -- arrays with a header keep their size; everything else may change
head -c 100000 /dev/urandom | npy '|u1' '(4, 25000)' >u.npy
head -c 99999 /dev/urandom | npy '|u1' '(99999,)' >odd.npy
for name in u odd; do
	bounded cp $name.npy "$b/"
	fsx "$b/$name.npy" --ops $few --keep 128 --seed 5
	bounded jq -e '.state == "ready" and .dtype == "U8"' "$b/$name.json" >/dev/null
	bounded cat "$b/$name.npy" | tail -c +129 >data
	same "$b/$name.raw" data
done
# a view of one that is written, whose header is made anew
fsx "$b/u.raw" --ops $few --keep 0 --seed 6
equal "the shape" "$(bounded jq -c .shape "$b/u.json")" '[4,25000]'
good '{"op":"create","buffer":"f","dtype":"F32","shape":[100,100]}'
bounded truncate -s 40000 "$b/f.raw"
fsx "$b/f.raw" --ops $few --keep 0 --seed 7
equal "type and shape" "$(bounded jq -c '[.dtype, .shape]' "$b/f.json")" '["F32",[100,100]]'

# -- no file is left over
bounded rm -r "$b"/*
eventually bash -c "[ \$(df --output=used -B1 $mnt | tail -n 1) -lt 1048576 ]"
shows "$mnt/health" ok
shows "$mnt/plugins/${plugin:-cpu}/restarts" 0
