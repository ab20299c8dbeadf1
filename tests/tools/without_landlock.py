#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run a command as on a kernel without Landlock: its three calls are not there (ENOSYS).

    without_landlock.py COMMAND [ARGUMENT...]

Only root can, as what runs may still gain rights (fusermount3).
"""
import ctypes
import errno
import os
import struct
import sys

PR_SET_SECCOMP, MODE_FILTER = 22, 2
LOAD, JUMP_FROM, JUMP_BEYOND, RETURN = 0x20, 0x35, 0x25, 0x06  # ld abs, jge, jgt, ret
ALLOW, FAIL = 0x7FFF0000, 0x00050000
FIRST, LAST = 444, 446  # landlock_create_ruleset to landlock_restrict_self


def main():
    """Install the filter and become the command."""
    program = b"".join(struct.pack("HBBI", *line) for line in (
        (LOAD, 0, 0, 0),            # the call's number
        (JUMP_FROM, 0, 2, FIRST),
        (JUMP_BEYOND, 1, 0, LAST),
        (RETURN, 0, 0, FAIL | errno.ENOSYS),
        (RETURN, 0, 0, ALLOW),
    ))
    code = ctypes.create_string_buffer(program)
    filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, MODE_FILTER, filter_, 0, 0):
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")
    os.execv(sys.argv[1], sys.argv[1:])


main()
