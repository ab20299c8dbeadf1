# SPDX-License-Identifier: Apache-2.0
"""A store of a group whose answers do not end: endless_store.py PORT slow|fast [CERTIFICATE KEY].

slow: a byte at a time, each of which comes in time; fast: as much as the client reads.
"""
import socket
import ssl
import sys
import threading
import time

port, mode = int(sys.argv[1]), sys.argv[2]
context = None
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[3:])


def answer(link):
    try:
        if context:
            link = context.wrap_socket(link, server_side=True)
        link.recv(65536)
        link.sendall(b"+")
        while True:
            link.sendall(b"a" * (1 if mode == "slow" else 1 << 20))
            if mode == "slow":
                time.sleep(0.1)  # real time: each byte comes in time
    except OSError:
        pass  # the client has gone


server = socket.create_server(("127.0.0.1", port))
print("it listens", flush=True)
while True:
    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
