#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Go on writing a text that begins "'Twas bri", as demo/continue does, but through call.raw:

    demo/continue.py TEXT [MOUNT POINT [LETTERS]]

The weights are bound, so they stay on the device.  The cache of keys and values, 12 kB, comes back
with each letter and goes into the next call.
"""
import os
import shutil
import sys

if not sys.argv[1:]:
    sys.exit("usage: demo/continue.py TEXT [MOUNT POINT [LETTERS]]")
text = os.fsencode(sys.argv[1])
mnt = os.path.abspath(sys.argv[2] if sys.argv[2:] else "/mnt/pjrt")
if not os.path.isfile(f"{mnt}/version"):
    sys.exit(f"demo/continue.py: {mnt} is not a mount of pjrtfs")
letters = int(sys.argv[3]) if sys.argv[3:] else 300
os.chdir(os.path.dirname(os.path.abspath(__file__)) + "/transformer")
me = f"continue.{os.getpid()}"
os.mkdir(f"{mnt}/programs/{me}")
try:
    shutil.copyfile("step/program.mlir", f"{mnt}/programs/{me}/step.mlir")
    shutil.copyfile("weights.safetensors", f"{mnt}/buffers/{me}.safetensors")
    with open(f"{mnt}/executables/{me}/step/bind", "w") as bind:
        bind.write(f"{me} * * * *\n")
    call = os.open(f"{mnt}/executables/{me}/step/call.raw", os.O_RDWR)
    state = bytes(4 + 2 * 32 * 3 * 16 * 4)  # at, keys, values: no letter has been read

    def step(letter):
        global state
        os.write(call, state + letter)
        answer = os.read(call, len(state) + 1)
        state = answer[:-1]
        return answer[-1:]

    for i in range(len(text)):
        letter = step(text[i : i + 1])
    sys.stdout.buffer.write(text)
    for i in range(letters):
        sys.stdout.buffer.write(letter)
        sys.stdout.flush()
        letter = step(letter)
    print()
finally:
    shutil.rmtree(f"{mnt}/programs/{me}")
    shutil.rmtree(f"{mnt}/buffers/{me}", ignore_errors=True)
