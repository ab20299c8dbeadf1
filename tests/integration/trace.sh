#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# trace.json: what happened, as spans that Perfetto shows.
. "$srcdir/tests/words.sh"
mount_pjrtfs ${others:+-o allow_other --mode 1777}
p=${plugin:-cpu}
# spans COMMAND...: the command prints a trace; its spans are in the file spans, sorted
spans()
{
	bounded "$@" >trace || fail "no trace"
	bounded python3 -B "$top/tests/tools/trace.py" <trace >unsorted || fail "$(cat trace)"
	sort unsorted >spans
}
spans cat "$mnt/trace.json"
equal "spans of an empty mount" "$(cat spans)" ''

put_add
run add 'x y -> z'
run add 'x y -> x repeat=100'
cat "$data/x.npy" "$data/y.npy" >inputs
bounded bash -c 'for i in 1 2 3; do cat inputs >&3; head -c 152 <&3 >out; done' 3<>"$mnt/executables/add/call"
called()
{
	spans cat "$mnt/trace.json"
	grep -qx "$p:0 calls add" spans
}
eventually called # the kernel sends RELEASE after close(2)
tells spans "^$p compile add\$" "^$p:0 upload x.npy\$" "^$p:0 execution add\$" \
	"^$p:0 execute execute\$"
equal "executions" "$(grep -c "^$p:0 execution add\$" spans)" 2
equal "tracks of a compile that was queued" "$(grep -c '"thread_name".*"pid":1,' trace)" 1

# -- many at once, while others read
endless='{"op":"execute","executable":"add","inputs":["y","y"],"outputs":["w"],"repeat":2000,"async":true}'
for _ in 1 2 3 4 5 6 7 8; do
	ask "$endless" >/dev/null
	spans cat "$mnt/trace.json"
done
eventually eval '[ "$(grep -c "\"job.finished\"" "$mnt/events")" = 8 ]'
spans cat "$mnt/trace.json"
equal "executions" "$(grep -c "^$p:0 execution add\$" spans)" 10
cp "$mnt/trace.json" copied
spans cat copied

# -- each user sees their own
if [ -n "$others" ]; then
	spans as 1001 cat "$mnt/trace.json"
	equal "spans that a stranger sees" "$(cat spans)" ''
	bounded mkdir -m 1777 "$mnt/buffers/all"
	as 1001 bash -c 'echo 1 >"$1"' - "$mnt/buffers/all/mine.txt"
	spans as 1001 cat "$mnt/trace.json"
	equal "spans that user 1001 sees" "$(cat spans)" "$p:0 upload all/mine.txt"
	spans cat "$mnt/trace.json"
	tells spans '^.* upload all/mine.txt$'
fi

# -- executions wait for a slot; arrays of a device's own memory are copied to the host
mount_pjrtfs faulty
put_add
faults execute=held
for i in $(seq 40); do
	ask '{"op":"execute","executable":"add","inputs":["x","y"],"outputs":["w'"$i"'"],"async":true}' >/dev/null
done
eventually grep -q ' waiting ' "$mnt/devices/faulty/0/queue"
faults
eventually eval '[ "$(grep -c "\"job.finished\"" "$mnt/events")" = 40 ]'
faults pointer=error:UNIMPLEMENTED
ask '{"op":"create","buffer":"own","dtype":"F32","shape":[64,64],"uninitialized":true}' >/dev/null
bounded cat "$mnt/buffers/own.npy" >/dev/null
spans cat "$mnt/trace.json"
tells spans '^faulty:0 queue queue$' '^faulty:0 download own.npy$'
