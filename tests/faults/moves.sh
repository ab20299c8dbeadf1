#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Copies and moves between devices and memories that fail, come late or end the process.
# shellcheck disable=SC2016 # what another shell expands
. "$srcdir/tests/lib.sh"
requires jq --version
requires setfattr --version
mount_pjrtfs faulty
b=$mnt/buffers
b1=$mnt/devices/faulty/1/buffers
put_add
told()
{
	bounded jq -c '[.state, .device, .error]' "$1"
}

# A move is a copy by the device, or another upload of the bytes that the host has.
# -- late: users of the buffer wait, other processes do not
faults copy=held-event:there upload=held:there
bounded mv "$b/x.npy" "$b1/x.npy"
reached there
equal "after mv" "$(bounded jq -r .state "$b1/x.json")" transferring
bounded ls -l "$b" "$b1" >/dev/null
bounded cat "$b/y.npy" >/dev/null
equal "after others" "$(bounded jq -r .state "$b1/x.json")" transferring
# poll(2) of its description waits for the end of the transfer.
bounded python3 -c 'import json, select, sys
with open(sys.argv[1]) as f:
    p = select.poll()
    p.register(f, select.POLLIN)
    print("early" if p.poll(0) else "waits", flush=True)
    p.poll()
print(json.load(open(sys.argv[1]))["state"])' "$b1/x.json" >polled &
poller=$!
eventually grep -qx waits polled
faults
wait "$poller"
shows polled $'waits\nready'
eventually grep -q '"state":"ready"' "$b1/x.json"
equal "x" "$(told "$b1/x.json")" '["ready","faulty:1",null]'
same "$b1/x.npy" "$data/x.npy"
faults copy=held-event:back upload=held:back
bounded mv "$b1/x.npy" "$b/x.npy"
reached back
equal "on its way back" "$(bounded jq -r .state "$b/x.json")" transferring
run add 'x y -> z' &
waits=$!
faults
wait "$waits"
eventually grep -q '"state":"ready"' "$b/x.json" # the result may be there before
equal "x" "$(told "$b/x.json")" '["ready","faulty:0",null]'

# -- refused: mv ended before; state and error report it, the bytes are kept
faults 'copy=error:UNAVAILABLE:no link' 'upload=error:UNAVAILABLE:no link'
bounded mv "$b/x.npy" "$b1/x.npy"
eventually grep -q '"state":"error"' "$b1/x.json"
bounded jq -e '.error | test("no link")' "$b1/x.json" >/dev/null || fail "x: $(told "$b1/x.json")"
same "$b1/x.npy" "$data/x.npy"
faults
bounded cp "$b1/x.npy" x.npy
bounded cp x.npy "$b1/x.npy" # and the move may be repeated
equal "x" "$(told "$b1/x.json")" '["ready","faulty:1",null]'
bounded mv "$b1/x.npy" "$b/x.npy"
run add 'x y -> z'

# -- by the event, and with a full device
for fault in 'event-error:DATA_LOSS:bits fell off' 'error:RESOURCE_EXHAUSTED:full'; do
	faults "copy=$fault" "upload=${fault/event-error/error}"
	bounded mv "$b/x.npy" "$b1/x.npy"
	eventually grep -q '"state":"error"' "$b1/x.json"
	bounded jq -e '.error | test("'"${fault##*:}"'")' "$b1/x.json" >/dev/null ||
		fail "$fault: $(told "$b1/x.json")"
	same "$b1/x.npy" "$data/x.npy"
	faults
	bounded rm "$b1/x.npy"
	cp "$data/x.npy" "$b/x.npy"
done

# -- a result, whose only copy is on the device
run add 'x y -> z'
bounded cat "$b/z.npy" >z.npy
run add 'x y -> z'
faults 'copy=error:UNAVAILABLE:no link' 'upload=error:UNAVAILABLE:no link'
bounded mv "$b/z.npy" "$b1/z.npy"
eventually grep -q '"state":"error"' "$b1/z.json"
same "$b1/z.npy" z.npy
faults
bounded rm "$b1/z.npy"

# -- cp: close(2) reports it
faults 'copy=error:UNAVAILABLE:no link' 'upload=error:UNAVAILABLE:no link'
fails_with 'No such device' cp "$b/x.npy" "$b1/c.npy"
same "$b/x.npy" "$data/x.npy"
equal "the original" "$(bounded jq -r .state "$b/x.json")" ready
bounded rm -f "$b1/c.npy"
# a copy that the device cannot make goes through the host
faults copy=error:UNIMPLEMENTED
bounded cp "$b/x.npy" "$b1/c.npy"
equal "by the host" "$(told "$b1/c.json")" '["ready","faulty:1",null]'
same "$b1/c.npy" "$data/x.npy"
faults

# -- memory: the same
bounded setfattr -n user.pjrtfs.memory -v pinned_host "$b/x.npy"
eventually sh -c '[ "$(jq -r "[.memory, .state] | @text" "$1")" = "[\"pinned_host\",\"ready\"]" ]' - "$b/x.json"
same "$b/x.npy" "$data/x.npy"
faults 'copy=error:UNAVAILABLE:no link' 'upload=error:UNAVAILABLE:no link'
bounded setfattr -n user.pjrtfs.memory -v device "$b/x.npy" || true
eventually sh -c '[ "$(jq -r .state "$1")" = error ] || [ "$(jq -r .memory "$1")" = pinned_host ]' - "$b/x.json"
same "$b/x.npy" "$data/x.npy"
faults
bounded rm "$b/x.npy"
cp "$data/x.npy" "$b/x.npy"

# -- the worker dies meanwhile: it is restarted, and the array is available again
faults copy=abort:'wire cut' upload=abort:'wire cut'
bounded mv "$b/x.npy" "$b1/x.npy"
eventually at_least 1 "$mnt/plugins/faulty/restarts"
faults
eventually grep -qx ready "$mnt/plugins/faulty/state"
same "$b1/x.npy" "$data/x.npy"
bounded mv "$b1/x.npy" "$b/x.npy" || true
same "$b/x.npy" "$data/x.npy"
# the copy hangs: mv and other processes do not; it ends with the worker
faults copy=hang:'it hangs' upload=hang:'it hangs'
bounded mv "$b/x.npy" "$b1/x.npy"
eventually grep -qx 'it hangs' "$mnt/plugins/faulty/log"
bounded ls -l "$b1" >/dev/null || fail "ls waits for a move that hangs"
bounded cat "$mnt/version" >/dev/null || fail "a reader waits for a move that hangs"
faults
kill_worker faulty
same "$b1/x.npy" "$data/x.npy"
