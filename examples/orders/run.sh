#!/bin/sh
# SPDX-License-Identifier: MIT
# Document C's hands-on: an order service that takes 5 seconds, the gateway in front of it, and curl.
# Both run on free ports in a folder of their own; everything is gone afterwards.
#
#   examples/orders/run.sh                  the hands-on: 202 while it is processed, then the same 201
#   examples/orders/run.sh all              failure policy 1: a 500 is kept and given again
#   examples/orders/run.sh settled          failure policy 2: a 500 stays in progress, a 400 is kept
#   examples/orders/run.sh probe            the same, and the gateway asks whether it happened
#   examples/orders/run.sh client-timeout   the client gives up; the order goes on
#   examples/orders/run.sh cut              the connection breaks after the order was confirmed
#   examples/orders/run.sh server-timeout   the service never answers
#   examples/orders/run.sh unavailable      the service says 503: nothing happened, the key is free
#
# ORDERS_SECONDS: how long a confirmation takes (5).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
DARUMA_BIN=${DARUMA_BIN:-$here/../../build/daruma}
ORDERS_BIN=${ORDERS_BIN:-$(dirname "$DARUMA_BIN")/examples/orders}
ORDERS_SECONDS=${ORDERS_SECONDS:-5}
what=${1:-hands-on}
for program in "$DARUMA_BIN" "$ORDERS_BIN"; do
    if [ ! -x "$program" ]; then
        echo "run.sh: there is no $program: run make first, or say where it is in DARUMA_BIN and" \
             "ORDERS_BIN" >&2
        exit 2
    fi
done

case $what in
    hands-on | client-timeout | all) replay=all ambiguous=hold ;;
    settled | unavailable | server-timeout) replay=settled ambiguous=hold ;;
    probe | cut) replay=settled ambiguous=probe ;;
    *) sed -n '5,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

folder=$(mktemp -d)
orders= gateway=
finish() {
    for process in $orders $gateway; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 1' INT TERM

# The first line of a file that matches, once it is there.
until_line() {
    tries=0
    while ! grep -m 1 "$2" "$1" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || { echo "run.sh: no $2 in $1" >&2; cat "$1" >&2; exit 1; }
        sleep 0.05
    done
}

"$ORDERS_BIN" 0 "$ORDERS_SECONDS" > "$folder/orders.log" &
orders=$!
port=$(until_line "$folder/orders.log" 'listening on' | sed 's/.* //')

probe=
if [ $ambiguous = probe ]; then
    probe='probe: {request: "GET /api/orders/by-key/{key}", every: 300ms, status: 201}'
fi
cat > "$folder/daruma.yaml" <<YAML
store: sqlite:$folder/orders.db
api: {listen: 127.0.0.1:0}
gateway: {listen: 127.0.0.1:0}
routes:
  - match: POST /api/orders/confirm
    upstream: http://127.0.0.1:$port
    timeout: $((ORDERS_SECONDS + 2))s
    scope: global            # a real one: header:authorization
    in_progress: accepted    # these callers know what a 202 is
    retry_after: 2s
    replay: $replay
    ambiguous: $ambiguous
    $probe
YAML
"$DARUMA_BIN" serve -c "$folder/daruma.yaml" 2> "$folder/gateway.log" &
gateway=$!
base=$(until_line "$folder/gateway.log" event=gateway_ready | sed 's/.* gateway=\([^ ]*\).*/\1/')

key=9f0c8d7d-1111-2222-3333-444444444444

# The document's curl. $1: what is to go wrong; the rest are more arguments of curl.
call() {
    body="{\"orderId\":123,\"amount\":5000${1:+,\"fail\":\"$1\"}}"
    shift
    got=$(mktemp "$folder/got.XXXXXX")
    curl -sS -i -X POST "$base/api/orders/confirm" -H 'Content-Type: application/json' \
         -H "Idempotency-Key: $key" -d "$body" "$@" > "$got" || echo "curl: exit $?"
    tr -d '\r' < "$got" | grep -E '^(HTTP|Retry-After|Idempotent-Replayed)|^\{' || true
    echo
}

say() {
    echo "--- $*"
}

again_until_settled() {
    for _ in $(seq 100); do
        sleep 0.3
        call "$1" > "$folder/last"
        grep -q ' 202 ' "$folder/last" || break
    done
    cat "$folder/last"
}

echo "curl -i -X POST \"$base/api/orders/confirm\" -H 'Content-Type: application/json' \\"
echo "     -H 'Idempotency-Key: $key' -d '{\"orderId\":123,\"amount\":5000}'"
echo
case $what in
    hands-on)
        say "the first call; the order service takes $ORDERS_SECONDS s"
        call "" > "$folder/first" &
        first=$!
        until [ -n "$(curl -sS "$(until_line "$folder/gateway.log" event=ready |
                sed 's/.* api=\([^ ]*\).*/\1/')/v1/keys?route=POST-api-orders-confirm" |
                grep running)" ]; do
            sleep 0.05
        done
        say "the same call meanwhile"
        call ""
        wait $first
        say "what the first call got"
        cat "$folder/first"
        say "the same call later: the same body"
        call ""
        ;;
    all)
        say "the service confirms, and then fails with 500: kept as it is"
        call 500
        say "the same key: the same 500; a new try needs a new key"
        call 500
        ;;
    settled)
        say "the service confirms, and then fails with 500: did it happen?"
        call 500
        say "the same key: still in progress, and not sent again"
        call 500
        key=9f0c8d7d-1111-2222-3333-555555555555
        say "another key, bad input: a 400 is certain"
        call 400
        say "and is kept"
        call 400
        ;;
    probe | cut)
        failure=500
        [ $what = probe ] || failure=cut
        say "the service confirms, and then ${failure}: nobody knows"
        call $failure
        say "the gateway asks GET /api/orders/by-key/KEY; the same call, later"
        again_until_settled $failure
        ;;
    client-timeout)
        say "the client waits for half a second only"
        call "" --max-time 0.5 2>&1
        say "the same call again: it goes on"
        call ""
        say "and later"
        again_until_settled ""
        ;;
    server-timeout)
        say "the service never answers; the gateway gives up after $((ORDERS_SECONDS + 2)) s"
        call hang
        say "the same call: in doubt, and not sent again"
        call hang
        ;;
    unavailable)
        say "the service says 503 with Retry-After: nothing happened"
        call 503
        say "the same key again, once the service is back"
        call ""
        ;;
esac
echo "--- what the order service did"
grep -c confirmation "$folder/orders.log" | sed 's/$/ confirmation(s)/' || true
