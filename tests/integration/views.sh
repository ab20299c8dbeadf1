#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# One buffer, several views: .npy, .raw, .txt, .json; each can be read, and written but .json.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires jq --version
mount_pjrtfs
b=$mnt/buffers
cp "$data/x.npy" "$data/y.npy" "$b/"
cp "$data/add.mlir" "$mnt/programs/"
tail -c 24 "$data/x.npy" >x.raw

# -- reading: unlisted, each with a size and an inode of its own
same "$b/x.raw" x.raw
shows "$b/x.txt" $'1 2 3\n4 5 6'
equal "what is listed" "$(bounded ls "$b" | tr '\n' ' ')" 'x.npy y.npy '
equal "size of x.raw" "$(bounded stat -c %s "$b/x.raw")" 24
equal "inodes" "$(bounded stat -c %i "$b"/x.{npy,raw,txt,json} | sort -u | wc -l)" 4
equal "x.txt's inode stays" "$(bounded stat -c %i "$b/x.txt")" "$(bounded stat -c %i "$b/x.txt")"
bounded jq -e '.dtype == "F32" and .shape == [2, 3] and .bytes == 24 and .state == "ready" and
	.device == "'"${plugin:-cpu}:0"'" and .on_device_bytes == 24 and .memory == "device"' \
	"$b/x.json" >/dev/null || fail "x.json: $(bounded cat "$b/x.json")"
equal "size of x.json" "$(bounded stat -c %s "$b/x.json")" "$(bounded cat "$b/x.json" | wc -c)"

# -- .txt: dtype and shape from the text, rows, blocks
bounded cp "$b/x.txt" "$b/t.txt"
run add 'x t -> sum'
shows "$b/sum.txt" $'2 4 6\n8 10 12'
same "$b/t.txt" <(printf '1 2 3\n4 5 6\n')
printf '1 2\n3 4\n\n5 6\n7 8\n' | bounded tee "$b/cube.txt" >/dev/null
equal "the cube's shape" "$(bounded jq -c .shape "$b/cube.json")" '[2,2,2]'
printf ' 1,2 ,\t3 \r\n' | bounded tee "$b/comma.txt" >/dev/null
shows "$b/comma.txt" $' 1,2 ,\t3 \r'
equal "commas" "$(bounded jq -c .shape "$b/comma.json")" '[3]'

# -- .raw: U8[n] unless another type and shape were declared
printf abc | bounded tee "$b/r.raw" >/dev/null
equal "r" "$(bounded jq -c '[.dtype, .shape]' "$b/r.json")" '["U8",[3]]'
shows "$b/r.txt" '97 98 99'
ask '{"op":"create","buffer":"c","dtype":"f32","shape":[2,3]}' >reply
tells reply '^\{"ok":true'
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
# types that .npy cannot name, one element a byte below a byte
ask '{"op":"create","buffer":"nibbles","dtype":"S4","shape":[4]}' >/dev/null
packed 'c*' 1 -2 7 -8 | bounded tee "$b/nibbles.raw" >/dev/null
shows "$b/nibbles.txt" '1 -2 7 -8'
ask '{"op":"create","buffer":"e4","dtype":"F8E4M3FN","shape":[2]}' >/dev/null
packed 'C*' 56 184 | bounded tee "$b/e4.raw" >/dev/null
shows "$b/e4.txt" '1 -1'
ask '{"op":"create","buffer":"bf","dtype":"bfloat16","shape":[2]}' >/dev/null
echo '1.5 -2' | bounded tee "$b/bf.txt" >/dev/null
equal "text written to a created buffer" "$(bounded jq -c .dtype "$b/bf.json")" '"BF16"'
bounded cmp "$b/bf.raw" <(packed 'S<*' 16320 49152)

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
# bytes that may still get a type are kept, and close(2) reports it
for line in '1 2' true 1e50 1+2j 300; do
	say "$b/typed.txt" "$line" || fail "refused by write: $line"
done
fails_with 'Invalid argument' bash -c 'echo 1+2j | tee "$1"' - "$b/typed.txt"
bounded setfattr -n user.pjrtfs.dtype -v C64 "$b/typed.txt"
shows "$b/typed.txt" 1+2j
fails_with 'rite error: Invalid argument' say "$b/typed.txt" true # now it has one

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
for blank in '' $'\n' $' \n\n\t\n'; do
	bounded rm -f "$b"/none.*
	ask '{"op":"create","buffer":"none","dtype":"S32","shape":[2,0]}' >reply
	printf %s "$blank" | bounded tee "$b/none.txt" >/dev/null
	tells "$b/none.json" '"state":"ready"' '"dtype":"S32","shape":\[2,0\]'
	equal "bytes" "$(bounded wc -c <"$b/none.raw")" 0
done
printf '1 2\n' | bounded tee "$b/none.txt" >/dev/null
tells "$b/none.json" '"dtype":"S32","shape":\[2\]'

# -- text of 33 million numbers is rendered as far as it is read
part='pack("f<*", map { $_ * 0.37 } 1 .. 1000)'
# array N, text N: of N times the same thousand numbers, .npy and what it reads as
array()
{
	npy '<f4' "(${1}000,)" </dev/null
	perl -e 'my $part = '"$part"'; print $part for 1 .. shift' "$1"
}
text()
{
	perl -e 'my ($n, $part) = @ARGV; print $part, " " for 2 .. $n; print $part, "\n"' \
		"$1" "$(bounded cat "$b/part.txt")"
}
array 1 | bounded cp /dev/stdin "$b/part.npy"
# milliseconds that a command takes; what it says is in said
takes()
{
	local start=${EPOCHREALTIME//[.,]/}
	timeout -k 5 $((patience * 20)) "$@" >said
	echo $(((${EPOCHREALTIME//[.,]/} - start) / 1000))
}
array 33000 >long.npy
bounded cp long.npy "$b/long.npy"
first=$(takes head -c 100 "$b/long.txt")
equal "the first bytes" "$(cat said)" "$(text 1 | head -c 100)"
whole=$(takes cksum "$b/long.txt")
equal "all of them" "$(cut -d ' ' -f 1,2 said)" "$(text 33000 | cksum)"
[ $((first * 5)) -lt "$whole" ] || fail "the first bytes took $first ms, all $whole ms"
bounded rm "$b/long.npy" long.npy
# not in order; the size of a descriptor that the shell opened, or of stat(2) before the open
array 300 >some.npy
text 300 >some.txt
for way in 'exec 3<"$1"; wc -c <&3' 'wc -c <"$1"' \
	'tail -c +1 "$1" | wc -c' \
	'perl -e "stat \$ARGV[0]; open F, shift; print +(stat F)[7]" "$1"'; do
	bounded cp some.npy "$b/some.npy"
	bounded bash -c 'perl -e "open F, shift; sysseek F, 900000, 0; sysread F, \$x, 1000;
		print \$x" "$1"' - "$b/some.txt" | bounded cmp - \
		<(tail -c +900001 some.txt | head -c 1000) || fail "bytes further on"
	equal "its size by $way" "$(bounded bash -c "$way" - "$b/some.txt")" "$(wc -c <some.txt)"
done
bounded cmp "$b/some.txt" some.txt
