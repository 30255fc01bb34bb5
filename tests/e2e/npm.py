# SPDX-License-Identifier: MIT
"""What tests take from the npm registry: tests/npm/package.json, installed beside it when it is not
there yet or is not what the lock says. node(SCRIPT, INPUT) runs a script that may require it."""
import fcntl
import json
import os
import pathlib
import subprocess

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "npm"
INSTALL_SECONDS = 120
NODE_SECONDS = 30


def install():
    """Once for all: tests of another file may want it at the same time."""
    lock = FOLDER / "package-lock.json"
    done = FOLDER / "node_modules" / ".installed"
    with open(lock, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not done.exists() or done.read_bytes() != lock.read_bytes():
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
                           cwd=FOLDER, check=True, timeout=INSTALL_SECONDS,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            done.write_bytes(lock.read_bytes())


def node(script, given):
    """What the script prints, as JSON; it finds `given` as JSON on its standard input."""
    ran = subprocess.run(["node", "-e", script], input=json.dumps(given), text=True, check=True,
                         stdout=subprocess.PIPE, timeout=NODE_SECONDS,
                         env={**os.environ, "NODE_PATH": str(FOLDER / "node_modules")})
    return json.loads(ran.stdout)
