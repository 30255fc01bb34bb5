# SPDX-License-Identifier: MIT
"""Polling for what cannot be waited for otherwise: what another process or another node does."""
import time

SECONDS = 90
EVERY_SECONDS = 0.02


def until(look, what="it", seconds=SECONDS):
    """What `look` gives once it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = look()
        if got:
            return got
        time.sleep(EVERY_SECONDS)
    raise AssertionError(f"{what} does not come about")
