#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the worker example: a server of its own on a free port in a folder of its own, a language model
# that misbehaves on command, and the worker, which is killed once. Everything is gone afterwards.
#
#   examples/worker/run.sh          in a few seconds: every wait is a thousandth of the real one
#   examples/worker/run.sh --real   with the real waits (120 s, 240 s ... 960 s): half an hour
set -eu

here=$(cd "$(dirname "$0")" && pwd)
DARUMA_BIN=${DARUMA_BIN:-$here/../../build/daruma}
WORKER_BIN=${WORKER_BIN:-$(dirname "$DARUMA_BIN")/examples/worker}
for program in "$DARUMA_BIN" "$WORKER_BIN"; do
    if [ ! -x "$program" ]; then
        echo "run.sh: there is no $program: run make first, or say where it is in DARUMA_BIN and" \
             "WORKER_BIN" >&2
        exit 2
    fi
done
export DARUMA_BIN WORKER_BIN PYTHONDONTWRITEBYTECODE=1
exec python3 "$here/demo.py" "$@"
