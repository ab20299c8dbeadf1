#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# events: what it tells, to whom, and how it reads as a file.
. "$srcdir/tests/lib.sh"
mount_pjrtfs ${others:+-o allow_other}
chmod 755 "$work"
tool=$top/tests/tools/events.py
e=$mnt/events
b=$mnt/buffers
p=${plugin:-cpu}
# saw FILTER WHAT: some event's line is as the jq filter says.
saw()
{
	bounded cat "$e" | jq -es "any(.[]; $1)" >/dev/null ||
		fail "nothing of $1 in: $(bounded cat "$e")"
}
# last FIELD: of the last line.
last()
{
	bounded tail -n 1 "$e" | jq -r "$1"
}
equal "mode" "$(bounded stat -c %a "$e")" 444

# -- programs
bounded cp "$data/add.mlir" "$mnt/programs/"
saw '.event == "worker.started" and .object == "plugins/'"$p"'" and .pid > 1'
saw '.event == "program.committed" and .object == "programs/add.mlir"'
saw '.event == "program.queued" and .object == "executables/add" and .bytes > 100'
saw '.event == "program.compiling" and .object == "executables/add"'
saw '.event == "program.finished" and .object == "executables/add" and .seconds > 0'
echo 'func.func @main(' >bad.mlir
fails_with '' cp bad.mlir "$mnt/programs/"
saw '.event == "program.failed" and .object == "executables/bad" and
	(.error.errno | test("^E")) and (.error.message | length) > 10'
bounded mv "$mnt/programs/bad.mlir" "$mnt/programs/worse.mlir"
saw '.event == "program.moved" and .object == "programs/worse.mlir" and
	.from == "programs/bad.mlir"'
bounded rm "$mnt/programs/worse.mlir"
saw '.event == "executable.removed" and .object == "executables/worse"'

# -- buffers
bounded cp "$data/x.npy" "$data/y.npy" "$b/"
saw '.event == "buffer.created" and .object == "buffers/x.npy"'
saw '.event == "buffer.ready" and .object == "buffers/x.npy" and .type == "F32[2,3]" and
	.bytes == 24 and .device == "'"$p"':0" and .seconds > 0'
fails_with 'Invalid argument' cp "$data/add.mlir" "$b/no.npy"
head -c 100 "$data/x.npy" >half.npy
fails_with '' cp half.npy "$b/"
saw '.event == "buffer.refused" and .object == "buffers/half.npy" and .error.errno == "EINVAL"'
run add 'x y -> z'
saw '.event == "execution.finished" and .object == "executables/add" and
	.devices == ["'"$p"':0"] and .seconds > 0 and .device_seconds >= 0'
saw '.event == "buffer.ready" and .object == "buffers/z.npy" and .by == "add"'
long=$(printf 'd%.0s' {1..200})
bounded mkdir "$mnt/programs/$long"
bounded cp "$data/add.mlir" "$mnt/programs/$long/$long.mlir"
run "$long/$long" 'x y -> long'
saw '.event == "buffer.ready" and .object == "buffers/long.npy" and .by == "'"$long/$long"'"'
run add 'x y -> z'
equal "a result in another's place" "$(last '.event + " " + (.replaced | tostring)')" \
	'buffer.ready true'
fails_with 'Invalid argument' run add 'x -> z'
saw '.event == "command.failed" and (.error.message | test("takes 2 inputs"))'
echo 1 >"$b/one.txt"
fails_with 'Invalid argument' run add 'x one -> z'
saw '.event == "execution.failed" and (.error.message | test("the program wants"))'
equal "a command that failed" "$(last '.event + " " + .object')" \
	'command.failed executables/add/run'
ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"],"id":["a",7]}' \
	>/dev/null
saw '.event == "execution.finished" and .id == ["a",7]'
ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["z"],"async":true,"id":8}' \
	>/dev/null
bounded python3 "$tool" "$mnt" job 1
eventually grep -q '"job.finished"' "$e"
saw '.event == "job.started" and .object == "jobs/1" and .id == 8'
saw '.event == "job.finished" and .object == "jobs/1" and .id == 8 and .seconds > 0'
# -- calls: all of a descriptor in one event, unless they take longer than a second
bounded python3 -c '
import os, sys
f = os.open(sys.argv[1], os.O_RDWR)
data = b"".join(open(p, "rb").read() for p in sys.argv[2:])
for i in range(7):
    os.write(f, data)
    while os.read(f, 1 << 20): pass
' "$mnt/executables/add/call" "$data/x.npy" "$data/y.npy"
called()
{
	bounded cat "$e" | jq -es '[.[] | select(.event == "calls.finished" and
		.object == "executables/add" and .devices == ["'"$p"':0"] and .seconds > 0 and
		.device_seconds > 0) | .calls] | add == '"$1" >/dev/null
}
eventually called 7 # the kernel sends RELEASE after close(2)
fails_with '' bash -c 'exec 3<>"$1" && cat "$2" >&3 && cat <&3' - "$mnt/executables/add/call" \
	"$data/add.mlir"
saw '.event == "command.failed" and .object == "executables/add/call" and
	.error.errno == "EINVAL" and (.error.message | test("^add: input 0"))'
bounded cp "$b/x.npy" "$b/gift.npy"
run add 'gift y -> z donate=gift'
saw '.event == "buffer.donated" and .object == "buffers/gift.npy"'
bounded mkdir "$b/ns"
bounded mv "$b/z.npy" "$b/ns/w.npy"
equal "a move" "$(last '.event + " " + .from + " " + .object')" \
	'buffer.moved buffers/z.npy buffers/ns/w.npy'
bounded mv "$b/ns/w.npy" "$b/x.npy"
saw '.event == "buffer.removed" and .object == "buffers/x.npy"'
bounded rm "$b/x.npy"
equal "a removal" "$(last '.event + " " + .object')" 'buffer.removed buffers/x.npy'

# -- the worker dies, and starts again
kill -KILL "$(cat "$mnt/plugins/$p/pid")"
eventually grep -q '"worker.restarted"' "$e"
saw '.event == "worker.died" and (.error.message | test("signal 9"))'
saw '.event == "worker.restarted" and .restarts == 1'
bounded python3 "$tool" "$mnt" check poll

# -- it only reads
if [ -n "$others" ]; then
	fails_with 'ermission denied' as 1001 bash -c 'echo x >"$1"' - "$e"
fi

# -- tail -f follows, also during other users' events
tail -n 1 -s 0.1 -f "$e" >followed 2>followed.err &
follower=$!
eventually test -s followed
bounded cp "$data/x.npy" "$b/followed.npy"
eventually grep -q '"buffer.ready".*followed.npy' followed
bounded cp "$data/x.npy" "$b/more.npy"
eventually grep -q '"buffer.ready".*more.npy' followed
kill "$follower"
wait "$follower" 2>/dev/null || true
equal "what tail said" "$(cat followed.err)" ''
equal "lines that came twice" "$(sort followed | uniq -d)" ''

# -- each user sees their own, root and the owner all
if [ -n "$others" ]; then
	bounded mkdir -m 1777 "$b/all"
	cp "$data/x.npy" .
	chmod 644 x.npy
	equal "a stranger's" "$(as 1001 cat "$e")" ''
	equal "a stranger's size" "$(as 1001 stat -c %s "$e")" 0
	as 1001 cp x.npy "$b/all/mine.npy"
	as 1001 bash -c 'echo 1 >"$1"' - "$b/all/small.txt"
	as 1002 cp x.npy "$b/all/theirs.npy"
	as 1001 bash -c 'echo "all/mine all/small -> all/z" >"$1"' - "$mnt/executables/add/run" 2>/dev/null ||
		true
	for user in 1001 1002; do
		as "$user" cat "$e" >"seen$user"
		equal "$user's size" "$(as "$user" stat -c %s "$e")" "$(wc -c <"seen$user")"
		equal "whom $user sees" "$(jq -s 'map(.user) | unique | .[]' "seen$user")" \
			"$user"
	done
	equal "the user's events" "$(jq -r .event seen1001 | tr '\n' ' ')" \
		'buffer.created buffer.ready buffer.created buffer.ready execution.failed command.failed '
	equal "the other's" "$(jq -r .event seen1002 | tr '\n' ' ')" \
		'buffer.created buffer.ready '
	saw '.user == 1001 and .object == "buffers/all/mine.npy"'
	saw '.user == 1002'
fi
