#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What does not fit into --memory-limit is refused with ENOSPC, and the rest stays.
. "$srcdir/tests/words.sh"
mount_pjrtfs --memory-limit 64M
b=$mnt/buffers
put_add

head -c 16777216 /dev/zero | npy '<f4' '(4194304,)' >16M.npy
head -c 100663296 /dev/zero | npy '<f4' '(25165824,)' >96M.npy

fails_with 'No space left' cp 96M.npy "$b/big.npy"
bounded rm -f "$b/big.npy"

# A program's error has the reason, until the program is written again.
head -c 16777216 /dev/zero | tr '\0' '\n' >16M.mlir
bounded cp 16M.npy "$b/one.npy"
bounded cp 16M.npy "$b/two.npy"
bounded cp 16M.npy "$b/three.npy"
fails_with 'No space left' dd if=16M.mlir of="$mnt/programs/big.mlir" bs=16M conv=notrunc
tells "$mnt/executables/big/error" '^program of big: no room for [0-9]+ bytes'
bounded rm "$b/one.npy" "$b/two.npy" "$b/three.npy"
bounded cp "$data/add.mlir" "$mnt/programs/big.mlir"
bounded test ! -s "$mnt/executables/big/error" || fail "the error stays"
bounded rm "$mnt/programs/big.mlir"

# Several that fit one by one do not all fit.
n=0
while [ "$n" -lt 8 ] && bounded cp 16M.npy "$b/n$n.npy" 2>err; do
	n=$((n + 1))
done
grep -q 'No space left' err || fail "8 arrays of 16 MiB fit into 64 MiB: $(cat err)"
[ "$n" -ge 2 ] || fail "only $n arrays of 16 MiB fit into 64 MiB"
left=$(bounded df --output=avail -B1 "$mnt" | tail -n 1)
[ "$((left))" -lt 33554432 ] || fail "df says that $left bytes are free"
knows "$b/n$n.json" '.state != "ready"'
bounded jq -r .error "$b/n$n.json" | grep -qi 'memory' ||
	fail "n$n: $(bounded cat "$b/n$n.json")"

# The other buffers stay, and small buffers and executions still work.
for ((i = 0; i < n; i++)); do
	same "$b/n$i.npy" 16M.npy
done
bounded rm "$b/n$n.npy"
computes

# Removing buffers frees memory.
bounded rm "$b"/n*.npy
eventually uses_less 2097152
bounded cp 16M.npy "$b/again.npy"
same "$b/again.npy" 16M.npy
bounded cp 16M.npy "$b/again.npy"

# What fitted of bytes that are too many stays, and the sentence says how to have it back.
bounded rm "$b"/*
fails_with 'No space left' dd if=96M.npy of="$b/grows.raw" bs=1M status=none
tells "$mnt/error" '--memory-limit\); rm of this file gives back the [1-9][0-9]* bytes'
bounded rm "$b/grows.raw"

# At the limit the daemon drops host copies of results, the longest unread first; reading one
# fetches it again.  Data that a user wrote is kept.  S4 is packed on the device, so that its host
# copies are copies.
N=524288 RESULTS=30
sed "s/2x3xf32/${N}xi4/g" "$data/add.mlir" >"$mnt/programs/plus.mlir"
good "{\"op\":\"create\",\"buffer\":\"o0\",\"dtype\":\"S4\",\"shape\":[$N],\"fill\":1}"
for ((i = 1; i <= RESULTS; i++)); do
	echo "o$((i - 1)) o0 -> o$i"
done | bounded tee "$mnt/executables/plus/run" >/dev/null
# copies FROM TO: which of the results have one in host memory, as 0 and 1
copies()
{
	local i
	for ((i = $1; i <= $2; i++)); do
		bounded cat "$b/o$i.json"
	done | jq -r 'if .host_copy then 1 else 0 end' | tr -d '\n'
}
all_are_right()
{
	bounded python3 -c 'import struct, sys
b, n, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for i in range(n + 1):
    with open(f"{b}/o{i}.raw", "rb") as f:
        assert f.read() == struct.pack("b", (i + 9) % 16 - 8) * size, i' "$b" "$RESULTS" "$N"
}
head -c 8388608 /dev/urandom >mine.raw
bounded cp mine.raw "$b/mine.raw"
all_are_right
equal "fetched" "$(copies 1 $RESULTS)" "$(printf '1%.0s' $(seq $RESULTS))"
bounded cat "$b"/o{1..10}.raw >/dev/null # used last
head -c 33554432 /dev/urandom >32M.raw
# Its size is known at once: growing, it may need room for a copy of itself, and more must go.
bounded truncate -s 33554432 "$b/32M.raw"
bounded dd if=32M.raw of="$b/32M.raw" bs=1M conv=notrunc status=none
same "$b/32M.raw" 32M.raw
left=$(bounded df --output=avail -B1 "$mnt" | tail -n 1)
[ "$((left))" -ge 0 ] || fail "more than the limit is in use"
equal "used last" "$(copies 1 10)" 1111111111
equal "unread for longest" "$(copies 11 15)" 00000
case $(copies 11 $RESULTS) in
*10*) fail "copies were dropped out of order: $(copies 11 $RESULTS)" ;;
esac
equal "what was written" "$(bounded jq -c '[.host_copy, .state]' "$b/mine.json")" '[true,"ready"]'
same "$b/mine.raw" mine.raw
# All can be read again, by many processes at once, and the user's data is kept.
all_are_right &
first=$!
all_are_right &
wait "$first"
wait $!
same "$b/mine.raw" mine.raw
same "$b/32M.raw" 32M.raw
fails_with 'No space left' cp 96M.npy "$b/never.npy"
bounded rm "$b/never.npy" "$b/32M.raw"
all_are_right
same "$b/mine.raw" mine.raw
shows "$mnt/health" ok
