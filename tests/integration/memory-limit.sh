#!/usr/bin/env bash
# What does not fit into --memory-limit is refused with ENOSPC, and the rest stays.
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs --memory-limit 64M
b=$mnt/buffers
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/x.npy" "$data/y.npy" "$b/"

# df shows the budget.
total=$(bounded df --output=size -B1 "$mnt" | tail -n 1)
equal "the budget" "$((total))" 67108864

head -c 16777216 /dev/zero | npy '<f4' '(4194304,)' >16M.npy
head -c 100663296 /dev/zero | npy '<f4' '(25165824,)' >96M.npy

fails_with 'No space left' cp 96M.npy "$b/big.npy"
bounded rm -f "$b/big.npy"

# Several that fit one by one do not all fit.
n=0
while [ "$n" -lt 8 ] && bounded cp 16M.npy "$b/n$n.npy" 2>err; do
	n=$((n + 1))
done
grep -q 'No space left' err || fail "8 arrays of 16 MiB fit into 64 MiB: $(cat err)"
[ "$n" -ge 2 ] || fail "only $n arrays of 16 MiB fit into 64 MiB"
left=$(bounded df --output=avail -B1 "$mnt" | tail -n 1)
[ "$((left))" -lt 33554432 ] || fail "df says that $left bytes are free"
bounded jq -e '.state != "ready"' "$b/n$n.json" >/dev/null || fail "n$n is ready"
bounded jq -r .error "$b/n$n.json" | grep -qi 'memory' ||
	fail "n$n: $(bounded cat "$b/n$n.json")"

# The others are there, and small ones and executions go on.
for ((i = 0; i < n; i++)); do
	same "$b/n$i.npy" 16M.npy
done
bounded rm "$b/n$n.npy"
run add 'x y -> z'
shows "$b/z.txt" $'11 22 33\n44 55 66'

# What is removed makes room.
bounded rm "$b"/n*.npy
eventually bash -c "[ \$(df --output=used -B1 $mnt | tail -n 1) -lt 2097152 ]"
bounded cp 16M.npy "$b/again.npy"
same "$b/again.npy" 16M.npy
bounded cp 16M.npy "$b/again.npy"

# A failing overwrite in place frees the former value; one by rename keeps it.
bounded cp "$data/x.npy" "$b/keep.npy"
fails_with 'No space left' cp 96M.npy "$b/keep.part"
bounded rm "$b/keep.part"
same "$b/keep.npy" "$data/x.npy"
shows "$mnt/health" ok
