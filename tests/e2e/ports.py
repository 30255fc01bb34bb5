# SPDX-License-Identifier: MIT
"""Ports for servers that are away for a while and come back on the same one."""
import random
import socket

RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
LEAST = 10000


def lasting():
    """A free port that the system gives to no connection or listener that asks for any."""
    with open(RANGE, encoding="ascii") as file:
        first = int(file.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(LEAST, first)
        with socket.socket() as chosen:
            chosen.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                chosen.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def listen():
    """That of the api, as the configuration has it."""
    return {"listen": f"127.0.0.1:{lasting()}"}
