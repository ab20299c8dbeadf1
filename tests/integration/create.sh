#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# The create command: empty, filled and uninitialized arrays, on any device and memory.
. "$srcdir/tests/words.sh"
mount_pjrtfs --memory-limit 512M
b=$mnt/buffers
cpu=${plugin:-cpu}
cp "$data/add.mlir" "$mnt/programs/"
cp "$data/x.npy" "$b/"
# create JSON-MEMBERS: the reply, which must be good
create()
{
	ask "{\"op\":\"create\",$1}" >reply
	grep -q '"ok":true' reply || fail "create $1: $(cat reply)"
}
# refused JSON-MEMBERS ERRNO PATTERN: the reply has the reason, and no buffer is made
refused()
{
	ask "{\"op\":\"create\",\"buffer\":\"no\",$1}" >reply
	tells reply '"ok":false' "\"errno\":\"($2)\"" "$3"
	equal "what is listed" "$(bounded ls "$b" | grep '^no\.' || true)" ''
}
told()
{
	bounded jq -c '[.dtype, .shape, .state, .memory, .device]' "$b/$1.json"
}

# -- filled: ready at once, listed as results are
create '"buffer":"z","dtype":"F32","shape":[2,3],"fill":0'
equal "z" "$(told z)" "[\"F32\",[2,3],\"ready\",\"device\",\"$cpu:0\"]"
shows "$b/z.txt" $'0 0 0\n0 0 0'
equal "listed" "$(bounded ls "$b" | tr '\n' ' ')" 'x.npy z.npy '
run add 'x z -> sum'
shows "$b/sum.txt" $'1 2 3\n4 5 6'
head -c 24 /dev/zero | npy '<f4' '(2, 3)' >zeros.npy
same "$b/z.npy" zeros.npy

# -- a large one, which a thread fills
create '"buffer":"large","dtype":"S32","shape":[5000000],"fill":7,"layout":[0]'
equal "values" "$(bounded od -An -v -td4 -w4 "$b/large.raw" | uniq -c | tr -s ' ')" '5000000 7'
refused '"dtype":"S32","shape":[5000000],"fill":7.5' EINVAL 'create: .*fill.*7.5'
refused '"dtype":"S32","shape":[200000000],"fill":7' ENOSPC 'create: no room for 800000000 bytes'
refused '"dtype":"S32","shape":[5000000],"fill":7,"layout":[1]' EINVAL 'create: .*layout.*expected'
rm "$b/large.npy"
i=0
while IFS='|' read -r dtype fill text; do
	i=$((i + 1))
	create "\"buffer\":\"f$i\",\"dtype\":\"$dtype\",\"shape\":[3],\"fill\":$fill"
	equal "$dtype filled with $fill" "$(bounded cat "$b/f$i.txt")" "$text $text $text"
	equal "its type" "$(bounded jq -c '[.dtype, .shape]' "$b/f$i.json")" "[\"$dtype\",[3]]"
done <<'END'
F32|1.5|1.5
F32|"nan"|nan
F32|"-inf"|-inf
BF16|3.25|3.25
F8E4M3FN|0.5|0.5
F4E2M1FN|-6|-6
S4|-8|-8
S64|-9223372036854775808|-9223372036854775808
U64|"18446744073709551615"|18446744073709551615
PRED|true|true
C64|"1+2j"|1+2j
C64|2|2+0j
END
# shapes: scalar, no elements, 8 dimensions
create '"buffer":"scalar","dtype":"S32","shape":[],"fill":7'
shows "$b/scalar.txt" 7
create '"buffer":"nothing","dtype":"S32","shape":[3,0],"fill":7'
equal "nothing" "$(told nothing)" "[\"S32\",[3,0],\"ready\",\"device\",\"$cpu:0\"]"
# packed on the device, whole when read
create '"buffer":"many","dtype":"S4","shape":[4097],"fill":-3'
equal "4097 nibbles" "$(bounded od -An -v -tx1 -w1 "$b/many.raw" | sort | uniq -c | tr -s ' ')" ' 4097 fd'

# -- uninitialized: of that size, with any contents; to be written
create '"buffer":"u","dtype":"F32","shape":[2,3],"uninitialized":true'
equal "u" "$(told u)" "[\"F32\",[2,3],\"ready\",\"device\",\"$cpu:0\"]"
equal "its bytes" "$(bounded stat -c %s "$b/u.raw")" 24
run add 'u u -> sum'
bounded cp "$data/x.npy" "$b/u.npy"
run add 'u u -> sum'
shows "$b/sum.txt" $'2 4 6\n8 10 12'
create '"buffer":"u2","dtype":"F32","shape":[2,3],"uninitialized":false'
equal "u2" "$(bounded jq -r .state "$b/u2.json")" empty
bounded rm "$b/u2.raw"

# -- elsewhere
create '"buffer":"d1","dtype":"F32","shape":[2],"fill":4,"device":"'"$cpu"':1"'
shows "$mnt/devices/$cpu/1/buffers/d1.txt" '4 4'
equal "its device" "$(bounded jq -r .device "$mnt/devices/$cpu/1/buffers/d1.json")" "$cpu:1"
create '"buffer":"'"$cpu"':1/d2","dtype":"F32","shape":[2],"fill":5'
shows "$mnt/devices/$cpu/1/buffers/d2.txt" '5 5'
gone "$b/d1.npy" "$b/d2.npy"
for memory in $(bounded ls "$mnt/devices/$cpu/0/memories"); do
	for how in '"fill":6' '"uninitialized":true'; do
		create "\"buffer\":\"m\",\"dtype\":\"F32\",\"shape\":[2],\"memory\":\"$memory\",$how"
		equal "m" "$(told m)" "[\"F32\",[2],\"ready\",\"$memory\",\"$cpu:0\"]"
		[ "$how" != '"fill":6' ] || shows "$b/m.txt" '6 6'
		bounded rm "$b/m.npy"
	done
	create "\"buffer\":\"m\",\"dtype\":\"F32\",\"shape\":[2],\"memory\":\"$memory\""
	packed 'f<*' 1 2 | bounded tee "$b/m.raw" >/dev/null
	equal "m" "$(told m)" "[\"F32\",[2],\"ready\",\"$memory\",\"$cpu:0\"]"
	shows "$b/m.txt" '1 2'
	bounded rm "$b/m.raw"
done
bounded mkdir -p "$b/ns/deep"
create '"buffer":"ns/deep/a","dtype":"F32","shape":[1],"fill":1'
shows "$b/ns/deep/a.txt" 1

bounded rm -r "$b"/*
eventually uses_less 1048576
shows "$mnt/health" ok
shows "$mnt/plugins/$cpu/restarts" 0
