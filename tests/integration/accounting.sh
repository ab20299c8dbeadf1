#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What df calls used is the sum of the segments that the arrays' .json name, each once.
. "$srcdir/tests/words.sh"
mount_pjrtfs --memory-limit 512M
b=$mnt/buffers
cpu=${plugin:-cpu}
b1=$mnt/devices/$cpu/1/buffers
MiB=1048576
equal "at the beginning" "$(used)" 0
# a removed program is charged nothing, though the kernel still knows its executable's files
for _ in 1 2 3; do
	cp "$data/add.mlir" "$mnt/programs/gone.mlir"
	bounded stat "$mnt/executables/gone/state" "$mnt/executables/gone/run" >/dev/null
	tells "$mnt/executables/gone/info.json" .
	exec 5<"$mnt/programs/gone.mlir"
	bounded rm "$mnt/programs/gone.mlir"
	bounded cmp /dev/fd/5 "$data/add.mlir" # but processes that have it open read it
	exec 5<&-
done
cp "$data/add.mlir" "$mnt/programs/part"
bounded rm "$mnt/programs/part"
eventually uses_less 1
cp "$data/add.mlir" "$mnt/programs/"
cat >"$mnt/programs/twice.mlir" <<'END'
func.func @main(%x: tensor<2048x2048xf32>) -> (tensor<2048x2048xf32>, tensor<2048x2048xf32>) {
  %0 = stablehlo.add %x, %x : tensor<2048x2048xf32>
  return %0, %x : tensor<2048x2048xf32>, tensor<2048x2048xf32>
}
END
bounded mkdir "$b/ns"
settle
programs=$(used) # programs and directories are not arrays
# The bytes of all distinct segments that the arrays on all devices name.
named()
{
	local name
	bounded find "$b" "$b1" -type f ! -name '*.part' | while read -r name; do
		bounded cat "${name%.*}.json"
	done | jq -s 'map(.segments[]?) | unique_by(.id) | map(.bytes) | add // 0'
}
# agree WHAT [LEAST MOST]: the two are equal, and within these bounds in MiB
agree()
{
	local sum=0 df=1 end=$((SECONDS + patience))
	# Freed memory is counted until the worker has freed it, too; df counts blocks.
	while :; do
		df=$(($(used) - programs)) sum=$(named)
		[ $((df - sum)) -ge 4096 ] || [ $((sum - df)) -ge 4096 ] || break
		[ "$SECONDS" -lt "$end" ] || fail "$1: df says $df, the segments are $sum"
		sleep 0.05
	done
	[ $# = 1 ] || { [ $((sum / MiB)) -ge "$2" ] && [ $((sum / MiB)) -le "$3" ]; } ||
		fail "$1: $((sum / MiB)) MiB instead of $2 to $3"
}
agree "nothing" 0 0

# -- uploads of several sizes and formats
head -c $((16 * MiB)) /dev/urandom >16M.raw
npy '<f4' '(2048, 2048)' <16M.raw >16M.npy
cp "$data/x.npy" "$data/y.npy" "$b/"
printf '1 2\n3 4\n' | bounded tee "$b/t.txt" >/dev/null
bounded cp 16M.npy "$b/big.npy"
bounded cp 16M.raw "$b/raw.raw"
agree "uploads" 32 37

# -- shared: by cp, in several directories
bounded cp "$b/big.npy" "$b/ns/one.npy"
bounded cp "$b/ns/one.npy" "$b/two.npy"
bounded cp "$b/x.npy" "$b/ns/x.npy"
agree "shared" 32 37
equal "one segment" "$(cat "$b/big.json" "$b/ns/one.json" "$b/two.json" | jq -s 'map(.segments[].id | select(startswith("file") | not)) | unique | length')" 1

# -- one of those changes, in the middle and at its end
printf '\x42' | bounded dd of="$b/two.npy" bs=1 seek=$((8 * MiB)) conv=notrunc status=none
agree "changed" 48 54
head -c $MiB 16M.raw >>"$b/raw.raw"
agree "appended" 49 74
bounded truncate -s $MiB "$b/raw.raw"
agree "cut" 33 74
bounded cp 16M.raw "$b/raw.raw"
agree "written again" 48 58

# -- views that are rendered and converted; a scratch file; what is not whole
bounded cat "$b/big.raw" "$b/x.txt" >/dev/null
agree "read" 48 58
head -c $((3 * MiB)) 16M.npy >half.npy
fails_with 'Invalid argument' cp half.npy "$b/half.npy"
agree "incomplete" 51 61
bounded rm "$b/half.npy"
printf '7 8\n' | bounded tee "$b/x.txt" >/dev/null # a view that is written
agree "another view" 48 58

# -- results: small, and large ones, read or not; copies and moves of them
run add 'y y -> z'
agree "a small result" 48 58
run twice 'big -> r1 r2'
# With sanitizers the plugin allocates for itself, and the worker copies what it made.
most=90
! sanitized || most=124
agree "large results" 80 $most
bounded cat "$b/r1.npy" "$b/r2.raw" >/dev/null
agree "large results that were read" 80 $most
bounded cp "$b/r1.npy" "$b/r3.npy"
agree "a copy of a result" 80 $most
bounded cp "$b/r1.npy" "$b1/r1.npy"
bounded cat "$b1/r1.npy" >/dev/null
agree "on another device"
bounded python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2])' "$b/r2.npy" "$b1/r2.npy"
eventually jq -e '.state == "ready"' "$b1/r2.json"
bounded cat "$b1/r2.npy" >/dev/null
agree "moved"
run twice 'r3 -> r1 r3' # takes the names over
agree "replaced"
printf 'x' | bounded dd of="$b/r3.npy" bs=1 seek=$((8 * MiB)) conv=notrunc status=none
agree "a result that was changed"
good '{"op":"execute","executable":"twice","inputs":["r3"],"outputs":["s1","s2"],"donate":["r3"]}'
agree "donated"
ask '{"op":"create","buffer":"f","dtype":"F32","shape":[2048,2048],"fill":1}' >reply
ask '{"op":"create","buffer":"u","dtype":"F32","shape":[2048,2048],"uninitialized":true}' >>reply
agree "created"
bounded cat "$b/u.npy" >/dev/null
agree "created and read"

# -- freed one by one: memory that other buffers share is kept
while read -r name; do
	bounded rm "$name"
	agree "without ${name#"$mnt/"}"
done < <(bounded find "$b" "$b1" -type f)
agree "nothing" 0 0
shows "$mnt/health" ok
