#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the sync example: a server of its own on a free port in a folder of its own, a target that
# misbehaves on command, one task of each category of docs/requirements.md, part E. Everything is gone afterwards.
#
#   examples/sync/run.sh          in a few seconds: every wait is a hundredth of the real one
#   examples/sync/run.sh --real   with the real waits (1 s, 2 s, 4 s ... 256 s): nine minutes
set -eu

here=$(cd "$(dirname "$0")" && pwd)
DARUMA_BIN=${DARUMA_BIN:-$here/../../build/daruma}
if [ ! -x "$DARUMA_BIN" ]; then
    echo "run.sh: there is no $DARUMA_BIN: run make first, or say where it is in DARUMA_BIN" >&2
    exit 2
fi
export DARUMA_BIN PYTHONDONTWRITEBYTECODE=1
exec python3 "$here/sync.py" "$@"
