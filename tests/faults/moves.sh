#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# Copies and moves between devices and memories that fail, come late or end the process.
. "$srcdir/tests/lib.sh"
requires setfattr --version
faults memory=kept # its first upload: close(2) waits for the plugin from then on
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

# -- renamed into place it is uploaded behind; a failure is in x.json, and ends what uses it
faults 'upload=error:UNAVAILABLE:no device'
cp "$data/x.npy" "$b/part"
bounded mv "$b/part" "$b/behind.npy"
eventually grep -q '"state":"error"' "$b/behind.json"
equal "behind" "$(told "$b/behind.json")" '["error","faulty:0","no device"]'
fails_with 'No such device' run add 'x behind -> z2'
tells "$mnt/executables/add/run" 'add: input 1: behind: no device'
