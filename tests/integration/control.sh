#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# control: each op, ids, sessions, syntax errors, a failed write; check_ctl.c has the rest.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
c=$mnt/control
put_add
add() # OUTPUT [MORE]
{
	printf '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["%s"]%s}' "$1" "${2-}"
}
# answers TEXT FILTER: one line of reply, for which jq's filter is true.
answers()
{
	ask "$1" >reply
	equal "replies to $1" "$(wc -l <reply)" 1
	jq -e "$2" reply >/dev/null || fail "$1 was answered $(cat reply)"
}

# -- each op
answers "$(add z)" '.ok and (.outputs == [{"name":"z","dtype":"F32","shape":[2,3],
	"device":"'"${plugin:-cpu}"':0"}]) and .seconds > 0 and .seconds < 10'
shows "$mnt/buffers/z.txt" $'11 22 33\n44 55 66'
answers '{"op":"stat","buffer":"z"}' '.ok and .buffer.dtype == "F32" and .buffer.shape == [2,3] and
	.buffer.state == "ready"'
answers '{"op":"stat","executable":"add"}' '.ok and .executable.state == "ready"'
answers '{"op":"create","buffer":"c","dtype":"S32","shape":[2]}' '.ok'
equal "created" "$(bounded jq -c '[.dtype, .shape]' "$mnt/buffers/c.json")" '["S32",[2]]'
answers '{"op":"delete","buffer":"c"}' '.ok'
gone "$mnt/buffers/c.raw" "$mnt/buffers/c.npy"
answers '{"op":"create","buffer":"c","dtype":"f32","shape":[2],"device":"'"${plugin:-cpu}"':1"}' .ok
bounded test -e "$mnt/devices/${plugin:-cpu}/1/buffers/c.raw"
answers '{"op":"stat","buffer":"'"${plugin:-cpu}"':1/c"}' .ok
answers '{"op":"delete","buffer":"c","device":"'"${plugin:-cpu}"':1"}' .ok
gone "$mnt/devices/${plugin:-cpu}/1/buffers/c.raw"

# -- ids are echoed, in failures too; of any JSON type
for id in 7 '"seven"' '{"a":[1]}' null; do
	answers "$(add z ",\"id\":$id")" ".ok and .id == $id"
	answers '{"op":"delete","buffer":"nothing","id":'"$id}" ".ok == false and .id == $id"
	answers '{"op":"nothing","id":'"$id}" ".ok == false and .id == $id"
done

# -- a descriptor is a session: its own replies, in order; offsets do not matter
exec 3<>"$c" 4<>"$c"
add a >&3
add b >&4
add d >&3
bounded cat <&3 | jq -c '.outputs[].name' >out
equal "the first session" "$(tr '\n' ' ' <out)" '"a" "d" '
bounded cat <&4 | jq -c '.outputs[].name' >out
equal "the second session" "$(tr '\n' ' ' <out)" '"b" '

# -- syntax errors: a reply that says where; a newline begins anew
exec 5<>"$c"
{
	echo '{"op":"stat" "buffer":"x"}'
	add after
	echo
	echo 'nonsense'
	echo '[1]'
	echo '{"op":"stat","buffer":"x"}'
} >&5
bounded cat <&5 >replies
equal "replies around syntax errors" "$(jq -c .ok <replies | tr '\n' ' ')" \
	'false true false false true '
jq -r 'select(.ok | not) | .error.errno' replies | sort -u >out
equal "their errno" "$(cat out)" EINVAL
head -n 1 replies | jq -r .error.message | grep -q 'expected' ||
	fail "$(head -n 1 replies)"
same "$mnt/buffers/after.npy" "$mnt/buffers/z.npy"
exec 3<&- 4<&- 5<&-

# -- a write-only descriptor: the failed command fails the write, later ones are not run
bounded rm -f "$mnt"/buffers/{a,b}.npy
bad='{"op":"execute","executable":"add","inputs":["x"],"outputs":["never"]}'
printf '%s\n' "$(add a)" "$bad" "$(add b)" >three
fails_with 'Invalid argument' bash -c 'cat three >"$1"' - "$c"
bounded test -e "$mnt/buffers/a.npy" ||
	fail "the command before the failed one did not run"
gone "$mnt/buffers/b.npy" "$mnt/buffers/never.npy"
# another descriptor is another session
add b >"$c"
bounded test -e "$mnt/buffers/b.npy"
shows "$mnt/health" ok
