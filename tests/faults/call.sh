#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 1 CPU-s in 12 s
# Calls on a plugin that fails, is slow or hangs: a read fails, and no client hangs.
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty
call=$mnt/executables/add/call
bounded cp "$data/add.mlir" "$mnt/programs/"
cat "$data/x.npy" "$data/y.npy" >inputs
# called: the inputs are written, the outputs are read
called()
{
	bounded bash -c '{ cat inputs; cat <&1 >outputs; } 1<>"$1"' - "$call"
}
# refused MESSAGE ERRNO CODE: the write succeeds, a read fails, the next one says why
refused()
{
	exec 3<>"$call"
	bounded cat inputs >&3
	fails_with "$1" cat <&3
	bounded cat <&3 >why
	exec 3<&-
	jq -e --arg errno "$2" --arg code "$3" \
		'.ok == false and .error.errno == $errno and .error.code == $code' why >/dev/null ||
		fail "not $2, $3: $(cat why)"
}

# -- failures, of the arguments, of the execution, and late ones
called
faults 'execute=error:RESOURCE_EXHAUSTED:out of memory'
refused 'No space left' ENOSPC RESOURCE_EXHAUSTED
tells why 'add: out of memory'
faults 'execute=event-error:DATA_LOSS:late oops'
refused 'Input/output error' EIO DATA_LOSS
faults 'upload=error:INVALID_ARGUMENT:bad bytes'
refused 'Invalid argument' EINVAL INVALID_ARGUMENT
tells why 'add: input 0: bad bytes'
faults 'execute=abort:Check failed: x'
refused 'Input/output error' EIO INTERNAL
tells why 'add: .*Check failed: x'
faults
eventually grep -qx ready "$mnt/plugins/faulty/state"
called

# -- poll(2): not readable while the call executes, readable afterwards
faults execute=held
bounded python3 -c '
import os, select, sys
call, inputs, faults = sys.argv[1:]
fd = os.open(call, os.O_RDWR)
p = select.poll()
p.register(fd, select.POLLIN | select.POLLOUT)
os.write(fd, open(inputs, "rb").read())
assert p.poll(300) == [], "ready while it executes"
other = os.open(call, os.O_RDWR | os.O_NONBLOCK)
os.write(other, open(inputs, "rb").read())
try:
    os.read(other, 4096)
    raise SystemExit("a read gives what is not there")
except BlockingIOError:
    os.close(other)
os.truncate(faults, 0)
assert p.poll(1000000) == [(fd, select.POLLIN)], "not ready"
assert os.read(fd, 4096).startswith(b"\x93NUMPY")
assert p.poll(0) == [(fd, select.POLLOUT)], "no room for the next inputs"
' "$call" inputs "$faults"

# -- a held execution: the write does not wait, the read does; an interrupted reader loses no data
faults execute=held:slow
exec 3<>"$call"
bounded cat inputs >&3 || fail "writing waits for the execution"
reached slow
cat <&3 >lost &
reader=$!
eventually waits "$reader"
bounded ls -lR "$mnt" >/dev/null || fail "ls waits"
kill -KILL "$reader"
! wait "$reader" || fail "killed, but succeeded"
faults
bounded cat <&3 >outputs
[ -s outputs ] || fail "an interrupted reader took the outputs along"
exec 3<&-

# -- a write waits for the program to be compiled for the first time, alone
faults compile=held:again
like_add later
bounded cp later.mlir "$mnt/programs/" &
call=$mnt/executables/later/call
writer=$!
reached again
# Python begins a write anew that a signal has interrupted.  The third signal lets the program compile.
bounded python3 -c '
import os, signal, sys
call, inputs, faults = sys.argv[1:]
signals = 0
def interrupt(*_):
    global signals
    signals += 1
    if signals == 3:
        os.truncate(faults, 0)
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
inputs = open(inputs, "rb").read()
fd = os.open(call, os.O_RDWR)
assert os.write(fd, inputs) == len(inputs)
signal.setitimer(signal.ITIMER_REAL, 0)
assert os.read(fd, 4096).startswith(b"\x93NUMPY")
assert signals >= 3, "the write did not wait"
' "$call" inputs "$faults" || fail "a write that was interrupted cannot be repeated"
called
wait "$writer"
called

# -- for ever: the worker can be ended; wake-ups.sh ends readers
faults execute=held:hangs
bounded bash -c '{ cat inputs; cat <&1 >outputs; } 1<>"$1"' - "$call" 2>err &
hanging=$!
reached hangs
kill -KILL "$(bounded cat "$mnt/plugins/faulty/pid")"
! wait "$hanging" || fail "what hung succeeded"
grep -q 'Input/output error' err || fail "what hung says $(cat err)"
faults
eventually grep -qx ready "$mnt/plugins/faulty/state"
called

# -- the mount ends though a call hangs, and one that waits for a compile that does
faults execute=held:call compile=held:never
bash -c '{ cat inputs; cat <&1 >outputs; } 1<>"$1"' - "$call" 2>/dev/null &
hanging=$!
bounded cp "$data/add.mlir" "$mnt/programs/never.mlir" 2>/dev/null &
compiling=$!
reached call
reached never
setsid bash -c '{ cat inputs; cat <&1 >outputs; } 1<>"$1"' - "$mnt/executables/never/call" 2>/dev/null &
waiting=$!
eventually waits "$waiting"
kill -TERM "$daemon"
lib_gone "$daemon" || fail "a call that hangs keeps the daemon"
for pid in "$hanging" "$compiling" "$waiting"; do
	! wait "$pid" || fail "what hung succeeded"
done
