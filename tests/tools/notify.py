#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A service manager that prints the messages of a service: notify.py ADDRESS PROGRAM [ARG]...

ADDRESS is the path of a socket, or an abstract name after "@".  Prints each
line that the program sends (sd_notify(3)), and "ended STATUS".
"""
import os
import socket
import subprocess
import sys


def main():
    address = sys.argv[1]
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(address.replace("@", "\0", 1) if address[0] == "@" else address)
    sock.settimeout(0.02)
    program = subprocess.Popen(sys.argv[2:], env=dict(os.environ, NOTIFY_SOCKET=address))
    ended = False
    while True:
        try:
            text, fds, _, _ = socket.recv_fds(sock, 4096, 16)
            for fd in fds:
                os.close(fd)
            print(text.decode(), flush=True)
        except TimeoutError:
            if ended:
                break
            ended = program.poll() is not None
    print("ended", program.returncode, flush=True)


main()
