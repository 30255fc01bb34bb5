#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the articles example: a server of its own on a free port in a folder of its own, stand-ins for
# both AI providers that fail on command, and all of docs/requirements.md, part D, from the first article
# to the manual run. No key, no model and no network are needed. Everything is gone afterwards.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
DARUMA_BIN=${DARUMA_BIN:-$here/../../build/daruma}
if [ ! -x "$DARUMA_BIN" ]; then
    echo "run.sh: there is no $DARUMA_BIN: run make first, or say where it is in DARUMA_BIN" >&2
    exit 2
fi
export DARUMA_BIN PYTHONDONTWRITEBYTECODE=1
exec python3 "$here/articles.py" "$@"
