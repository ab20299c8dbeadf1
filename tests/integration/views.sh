#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# One buffer, several views: .npy, .raw, .txt, .json; each can be read, and written but .json.
. "$srcdir/tests/words.sh"
mount_pjrtfs
b=$mnt/buffers
put_add
tail -c 24 "$data/x.npy" >x.raw

# -- reading: unlisted, each with a size and an inode of its own
same "$b/x.raw" x.raw
shows "$b/x.txt" $'1 2 3\n4 5 6'
equal "what is listed" "$(bounded ls "$b" | tr '\n' ' ')" 'x.npy y.npy '
equal "size of x.raw" "$(bounded stat -c %s "$b/x.raw")" 24
equal "inodes" "$(bounded stat -c %i "$b"/x.{npy,raw,txt,json} | sort -u | wc -l)" 4
equal "x.txt's inode stays" "$(bounded stat -c %i "$b/x.txt")" "$(bounded stat -c %i "$b/x.txt")"
knows "$b/x.json" '.dtype == "F32" and .shape == [2, 3] and .bytes == 24 and .state == "ready" and
	.device == "'"${plugin:-cpu}:0"'" and .on_device_bytes == 24 and .memory == "device"'
equal "size of x.json" "$(bounded stat -c %s "$b/x.json")" "$(bounded cat "$b/x.json" | wc -c)"

# -- .txt: dtype and shape from the text, rows, blocks
bounded cp "$b/x.txt" "$b/t.txt"
run add 'x t -> sum'
shows "$b/sum.txt" $'2 4 6\n8 10 12'
same "$b/t.txt" <(printf '1 2 3\n4 5 6\n')

# -- .raw: U8[n] unless another type and shape were declared
printf abc | bounded tee "$b/r.raw" >/dev/null
equal "r" "$(bounded jq -c '[.dtype, .shape]' "$b/r.json")" '["U8",[3]]'
shows "$b/r.txt" '97 98 99'
good '{"op":"create","buffer":"c","dtype":"f32","shape":[2,3]}'
equal "a created buffer" "$(bounded jq -c '[.dtype, .shape]' "$b/c.json")" '["F32",[2,3]]'
equal "its listing" "$(bounded ls "$b" | grep '^c\.')" c.raw
bounded cp x.raw "$b/c.raw"
run add 'x c -> sum2'
same "$b/sum2.npy" "$b/sum.npy"
head -c 20 x.raw >short.raw
fails_with 'Invalid argument' cp short.raw "$b/c.raw"
# the write may be repeated
bounded cp x.raw "$b/c.raw"
shows "$b/c.txt" $'1 2 3\n4 5 6'
# -- writing another view: a new value, listed under that name, its bytes come back
ls_x()
{
	bounded ls "$b" | grep '^x\.' | tr '\n' ' '
}
printf '10 20 30\n40 50 60\n' >ten.txt
bounded cp ten.txt "$b/x.txt"
equal "listed" "$(ls_x)" 'x.txt '
same "$b/x.txt" ten.txt
equal "dtype after text" "$(bounded jq -c '[.dtype, .shape]' "$b/x.json")" '["F32",[2,3]]'
run add 'x y -> sum3'
shows "$b/sum3.txt" $'20 40 60\n80 100 120'
bounded cp x.raw "$b/x.raw"
equal "listed" "$(ls_x)" 'x.raw '
equal "dtype after raw" "$(bounded jq -c '[.dtype, .shape]' "$b/x.json")" '["F32",[2,3]]'
shows "$b/x.txt" $'1 2 3\n4 5 6'
bounded cp "$data/x.npy" "$b/x.npy"
equal "listed" "$(ls_x)" 'x.npy '
same "$b/x.npy" "$data/x.npy"
# through a view only what fits
fails_with 'Invalid argument' cp short.raw "$b/x.raw"
bounded cp x.raw "$b/x.raw"
shows "$b/x.txt" $'1 2 3\n4 5 6'
# an output's
printf '7 7 7\n7 7 7\n' | bounded tee "$b/sum.txt" >/dev/null
bounded cmp "$b/sum.raw" <(packed 'f<*' 7 7 7 7 7 7)

# -- a part of the raw bytes, in place
packed 'f<' 99 | bounded dd of="$b/sum.raw" bs=4 seek=2 conv=notrunc status=none
shows "$b/sum.txt" $'7 7 99\n7 7 7'

# -- a wrong line is refused by the write that ends it; after a refused line all further lines are refused
exec 3>"$b/rows.txt"
printf '1 2\n3 ' >&3
printf '4\n5 6\n' >&3 || fail "rows of two numbers were refused"
fails_with 'rite error: Invalid argument' bash -c 'echo 7 >&3'
fails_with 'rite error: Invalid argument' bash -c 'echo 7 8 >&3'
exec 3>&-
tells "$b/rows.json" '"state":"error"' 'line 4 has 1 numbers, the lines before it have 2'
bounded bash -c 'echo 7 8 >>"$1"' - "$b/rows.txt"
shows "$b/rows.txt" $'1 2\n3 4\n5 6\n7 8'

# -- one view is open to write: another one cannot be opened so, the same one can
exec 5>"$b/rows.txt"
fails_with 'busy' cp x.raw "$b/rows.raw"
bounded cp ten.txt "$b/rows.txt"
exec 5>&-
eventually cp x.raw "$b/rows.raw"

# -- an array without elements is an empty text, which does not determine a shape
npy '<f4' '(0, 3)' </dev/null >none.npy
bounded cp none.npy "$b/none.npy"
equal "as text" "$(bounded cat "$b/none.txt" && echo .)" .
bounded cp "$b/none.txt" none.txt
bounded cp none.txt "$b/none.txt"
tells "$b/none.json" '"state":"ready"' '"dtype":"F32","shape":\[0,3\]'
printf '1 2\n' | bounded tee "$b/pair.txt" >/dev/null
bounded cp none.txt "$b/pair.txt"
tells "$b/pair.json" '"state":"empty"'
printf '1 2\n' | bounded tee "$b/none.txt" >/dev/null
tells "$b/none.json" '"dtype":"F32","shape":\[2\]'
shows "$mnt/health" ok
