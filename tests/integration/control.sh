#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# control: sessions, pieces, several commands a write, syntax errors, who sees which reply.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires jq --version
requires python3 --version
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
equal "read again" "$(bounded cat <&3)" ''
for name in a b d; do
	add "$name$name" >&3
	IFS= read -r reply <&3 || fail "no line of reply"
	jq -e '.outputs[0].name == "'$name$name'"' <<<"$reply" >/dev/null || fail "$reply"
done
{ add e; add f; add g; } >&3
for name in e f g; do
	IFS= read -r reply <&3 || fail "no line of reply"
	jq -e '.outputs[0].name == "'$name'"' <<<"$reply" >/dev/null ||
		fail "$name: $reply"
done

# -- pieces, down to a byte each
text=$(add pieces)
for ((i = 0; i < ${#text}; i++)); do
	printf %s "${text:i:1}" >&3 || fail "byte $i is refused"
done
IFS= read -r reply <&3
jq -e '.ok and .outputs[0].name == "pieces"' <<<"$reply" >/dev/null ||
	fail "in pieces: $reply"
# over lines, with blanks, escapes, and UTF-8
printf '\n { "op" :\n"stat"\t,\r\n "buffer":"\\u0078" }  \n\n' >&3
IFS= read -r reply <&3
jq -e '.ok and .buffer.name == "x"' <<<"$reply" >/dev/null || fail "over lines: $reply"
# short reads give the rest later
add short >&3
equal "a reply in pieces" "$(bounded bash -c 'head -c 5 <&3; head -c 5 <&3; cat <&3' |
	jq -c .ok)" true

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
exec 5<&-

# -- half a command: EINVAL at each close of a copy, but kept for the writer that completes it
printf '{"op":"stat",' >&4
bounded python3 -c 'import errno, os
try:
    os.close(os.dup(4))
    raise SystemExit("closing half a command succeeded")
except OSError as e:
    assert e.errno == errno.EINVAL, e'
printf '"buffer":"x"}' >&4
IFS= read -r reply <&4
jq -e .ok <<<"$reply" >/dev/null || fail "the other half: $reply"
exec 3<&- 4<&-
fails_with 'nvalid argument' bash -c 'printf "{\"op\":" | tee "$1" >/dev/null' - "$c"

# -- a write-only descriptor: the failed command fails the write, later ones are not run
bounded rm -f "$mnt"/buffers/{a,b}.npy
bad='{"op":"execute","executable":"add","inputs":["x"],"outputs":["never"]}'
printf '%s\n' "$(add a)" "$bad" "$(add b)" >three
fails_with 'Invalid argument' bash -c 'cat three >"$1"' - "$c"
bounded test -e "$mnt/buffers/a.npy" ||
	fail "the command before the failed one did not run"
gone "$mnt/buffers/b.npy" "$mnt/buffers/never.npy"
# later writes fail alike, and what a buffered writer repeats does not run twice
bounded python3 -c 'import errno, os, sys
f = os.open(sys.argv[1], os.O_WRONLY)
good, bad = sys.argv[2].encode(), sys.argv[3].encode()
os.write(f, b"{\"op\":\"create\",\"buffer\":\"once\",\"dtype\":\"f32\",\"shape\":[1]}")
for text in bad, good, bad + good, b"\n", good:
    try:
        os.write(f, text)
        raise SystemExit("a write after a failure succeeded")
    except OSError as e:
        assert e.errno == errno.EINVAL, e
os.close(f)' "$c" "$(add b)" "$bad"
gone "$mnt/buffers/b.npy"
# another descriptor is another session
add b >"$c"
bounded test -e "$mnt/buffers/b.npy"
# a read-write one never fails a write
printf '%s\n' "$bad" "$bad" 'nonsense' 1<>"$c" ||
	fail "a write to a read-write descriptor failed"

# -- read-only: the last reply of the same user and session, alone
add last >"$c"
bounded cat "$c" | jq -e '.outputs[0].name == "last"' >/dev/null || fail "no last reply"
bounded cat "$c" | jq -e '.outputs[0].name == "last"' >/dev/null || fail "only once"
fails_with "" bash -c 'echo "$2" >"$1"' - "$c" "$bad"
bounded cat "$c" | jq -e '.ok == false' >/dev/null || fail "the last reply is older"
equal "in another session" "$(setsid -w timeout "$patience" cat "$c")" ''
setsid -w bash -c 'echo "$2" >"$1" && exec timeout "$3" cat "$1"' - "$c" "$(add mine)" "$patience" |
	jq -e '.outputs[0].name == "mine"' >/dev/null ||
		fail "another session has no last reply"
bounded cat "$c" | jq -e '.ok == false' >/dev/null ||
	fail "that of another session is shown"

# -- control cannot be truncated, and its size has no meaning
: >"$c"
bounded truncate -s 0 "$c"
bounded truncate -s 100 "$c" 2>/dev/null || true

# -- many commands in one write, answered in order
for i in {1..200}; do
	echo '{"op":"stat","buffer":"x","id":'"$i}"
done >many
ask "$(cat many)" | jq .id >ids
seq 200 | cmp - ids || fail "200 commands: $(wc -l <ids) replies"
shows "$mnt/health" ok

# -- a command that is too large is refused alone
{
	printf '{"op":"stat","buffer":"'
	head -c 70000000 /dev/zero | tr '\0' x
	printf '"}\n'
} >huge
bounded bash -c 'exec 3<>"$1"; cat huge >&3; echo "{\"op\":\"stat\",\"buffer\":\"x\"}" >&3; cat <&3' \
	huge "$c" >replies
equal "replies around a huge command" "$(jq -c .ok replies | tr '\n' ' ')" 'false true '
