/* SPDX-License-Identifier: MIT
 *
 * fleet_gateway -- callers of the gateway at any node, who use the same few keys again and again, and
 * the upstream behind it: it does what it is asked or does not, says so or is cut off, streams some of
 * its answers, and can be asked afterwards what it has done. See fleet.h.
 */
#include "fleet.h"

#include "engine/engine_internal.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>

#define CALL_ARENA_MAX (1 << 16)
#define UPSTREAM       "http://upstream.invalid"
#define PROBE_URL      UPSTREAM "/probe/"
#define MISSES         2

/* --- routes ------------------------------------------------------------------------------------------ */

static void draw_route(struct fleet *fleet, size_t at)
{
    static const enum route_ambiguous ways[FLEET_ROUTES] = {
        ROUTE_AMBIGUOUS_HOLD, ROUTE_AMBIGUOUS_PROBE, ROUTE_AMBIGUOUS_RETRY};
    static const char *const names[FLEET_ROUTES] = {"hold", "probe", "retry"};
    struct route_settings *route = &fleet->routes[at];

    *route = (struct route_settings){
        .name = span_of(names[at]),
        .upstream = SPAN(UPSTREAM),
        .timeout_ms = 3000,
        .deadline_ms = 8000,
        .policy = fleet->settings[0].policy,
        .concurrency = 6,
        .repeatable = ways[at] == ROUTE_AMBIGUOUS_RETRY,
        .header = SPAN(ROUTE_KEY_HEADER),
        .keep_ms = INT64_MAX / 8,
        .in_progress = (enum route_way)fleet_roll(fleet, 3),
        .wait_ms = 2000,
        .wait_then = fleet_roll(fleet, 2) == 0 ? ROUTE_WAY_ACCEPTED : ROUTE_WAY_CONFLICT,
        .retry_after_ms = 1000,
        .replay = (enum route_replay)fleet_roll(fleet, 3),
        .not_sent = (enum route_not_sent)fleet_roll(fleet, 3),
        .ambiguous = ways[at],
        .mismatch = 409,
        .release = {{.status = 401}, {.status = 429}, {.status = 503, .needs_hint = true}},
        .release_count = fleet_roll(fleet, 2) == 0 ? 3 : 0,
    };
    if (route->ambiguous == ROUTE_AMBIGUOUS_PROBE) {
        route->probe = (struct route_probe){.method = SPAN("GET"),
                                            .path = SPAN("/probe/{key}"),
                                            .every_ms = 300,
                                            .misses = MISSES,
                                            .settle_after_ms = 1000,
                                            .on_missing = (enum route_missing)fleet_roll(fleet, 2)};
    }
}

void fleet_gateway_set_up(struct fleet *fleet)
{
    for (size_t i = 0; i < FLEET_ROUTES; i++) {
        draw_route(fleet, i);
    }
}

/* --- callers ----------------------------------------------------------------------------------------- */

static const struct route_settings *route_of(const struct fleet *fleet, uint32_t key)
{
    return &fleet->routes[key % FLEET_ROUTES];
}

static void call(struct fleet *fleet, size_t node, uint32_t key)
{
    uint32_t serial = fleet->call_count;
    const struct route_settings *route = route_of(fleet, key);

    if (serial == FLEET_CALLS_MAX || !fleet->has_gateway) {
        return;
    }
    struct arena *arena = arena_new(CALL_ARENA_MAX);
    struct submission submission = {
        .exchange = FLEET_CALLS + serial,
        .arena = arena,
        .queue = arena_printf(arena, ROUTE_QUEUE_PREFIX "%.*s", SPAN_ARGS(route->name)),
        .scope = SPAN("one"),
        .key = arena_printf(arena, "%" PRIu32, key),
        .method = SPAN("POST"),
        .target = SPAN(UPSTREAM "/things"),
        .body = arena_printf(arena, "k %" PRIu32 " %" PRIu32, key, serial),
        .route = route,
        .wish = {.is_async = fleet_roll(fleet, 6) == 0},
        .has_fingerprint = true,
        .fingerprint = {(unsigned char)(1 + key)},
    };

    fleet->call_count++;
    fleet->calls[serial] = (struct fleet_call){
        .key = key, .node = node, .is_there = true, .is_async = submission.wish.is_async};
    if (engine_replay(fleet->nodes[node].engine, &submission)) {
        fleet->seen.held++;
        arena_free(arena);
    } else {
        engine_submit(fleet->nodes[node].engine, &submission);
    }
}

/* Some keys are used again and again: their answers are held in memory. */
void fleet_call(struct fleet *fleet, size_t node)
{
    uint32_t hot =
        fleet_roll(fleet, 2) == 0 ? fleet->hot_key : (uint32_t)fleet_roll(fleet, FLEET_HOT_KEYS);

    call(fleet, node, (uint32_t)fleet_roll(fleet, FLEET_KEYS));
    for (int i = 0; fleet_options.held_answers && i < 3; i++) {
        call(fleet, node, hot);
    }
}

/* Callers who have got a piece want the next one. */
void fleet_read_on(struct fleet *fleet, size_t node)
{
    for (uint32_t i = 0; i < fleet->call_count; i++) {
        struct fleet_call *call = &fleet->calls[i];
        if (call->node == node && call->wants_more) {
            call->wants_more = false;
            engine_more(fleet->nodes[node].engine, FLEET_CALLS + i);
        }
    }
}

/* "k KEY SERIAL" */
void fleet_call_applied(struct fleet *fleet, const struct op *op)
{
    struct span rest = span_from(op->task.body, 2), text;
    int64_t key = -1, serial = -1;

    (void)span_cut(&rest, ' ', &text);
    if (!span_to_int(text, &key) || key < 0 || key >= FLEET_KEYS || !span_to_int(rest, &serial) ||
        serial < 0 || serial >= fleet->call_count) {
        fleet_fail(fleet, "a request of the gateway without a caller");
        return;
    }
    struct fleet_call *call = &fleet->calls[serial];
    call->is_recorded = true;
    if (call->told == FLEET_REFUSED) {
        fleet_fail(fleet, "I7: call %d of key %d was refused and is recorded", (int)serial,
                   (int)key);
    }
}

static uint64_t hash_of(const struct answer *answer)
{
    uint64_t hash = (uint64_t)answer->status;

    for (size_t i = 0; i < answer->body.len; i++) {
        hash = (hash ^ (unsigned char)answer->body.at[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

/* --- what was forgotten ------------------------------------------------------------------------------ */

void fleet_key_forgotten(struct fleet *fleet, int64_t row)
{
    for (size_t i = 0; i < FLEET_KEYS; i++) {
        struct fleet_key *key = &fleet->keys[i];
        if (key->kept_row == row) {
            *key = (struct fleet_key){0}; /* its next request is a first one */
        }
    }
}

void fleet_key_streamed(struct fleet *fleet, int64_t row)
{
    for (size_t i = 0; i < FLEET_KEYS; i++) {
        struct fleet_key *key = &fleet->keys[i];
        key->streamed_row = key->row_seen == row ? row : key->streamed_row;
    }
}

static bool was_forgotten(const struct fleet *fleet, int64_t row)
{
    for (uint32_t i = 0; i < fleet->act_count; i++) {
        const struct fleet_act *act = &fleet->acts[i];
        if (act->kind == ASK_FORGET && act->is_committed && act->row == row) {
            return true;
        }
    }
    return false;
}

/* Who called before an operator was told may get it. */
static void check_forgotten(struct fleet *fleet, uint32_t serial, int64_t row)
{
    for (uint32_t i = 0; i < fleet->act_count; i++) {
        const struct fleet_act *act = &fleet->acts[i];
        if (act->kind == ASK_FORGET && act->told == FLEET_DONE && act->row == row &&
            serial >= act->call_first) {
            fleet_fail(fleet, "I4: call %u of key %u gets what operator %u was told is forgotten",
                       serial, fleet->calls[serial].key, i);
        }
    }
}

/* --- what callers are told --------------------------------------------------------------------------- */

/* What is told as the kept answer is committed, byte for byte, and never changes. */
static void check_answer(struct fleet *fleet, const struct fleet_call *call,
                         const struct route_reply *said)
{
    const struct version *version = fleet_version(fleet, said->id.row);
    struct fleet_key *key = &fleet->keys[call->key];

    check_forgotten(fleet, (uint32_t)(call - fleet->calls), said->id.row);
    if (version == NULL && was_forgotten(fleet, said->id.row)) {
        return;
    }
    if (version == NULL || !task_is_settled(version->life.state) || version->answer == NULL) {
        fleet_fail(fleet, "I1: the answer of key %u is told before it is committed", call->key);
    } else if (version->answer->answer.status != said->answer->status ||
               !span_equal(version->answer->answer.body, said->answer->body)) {
        fleet_fail(fleet, "I4: key %u is told other bytes than are kept", call->key);
    } else if (key->kept_row == said->id.row && key->kept_hash != hash_of(said->answer)) {
        fleet_fail(fleet, "I4: the kept answer of key %u has changed", call->key);
    }
    key->kept_row = said->id.row;
    key->kept_hash = hash_of(said->answer);
}

/* Others take a 202 for the upstream's answer. */
static bool takes_progress(const struct fleet *fleet, const struct fleet_call *call)
{
    const struct route_settings *route = route_of(fleet, call->key);
    bool ends_so = route->in_progress == ROUTE_WAY_WAIT && route->wait_then == ROUTE_WAY_ACCEPTED;

    return call->is_async || ends_so || route->in_progress == ROUTE_WAY_ACCEPTED;
}

static void check_told(struct fleet *fleet, const struct fleet_call *call,
                       const struct route_reply *said)
{
    const struct version *version = fleet_version(fleet, said->id.row);
    bool is_conflict =
        said->said == ROUTE_SAID_REFUSAL && said->problem == ROUTE_PROBLEM_KEY_CONFLICT;

    if (said->said == ROUTE_SAID_PROGRESS && !takes_progress(fleet, call)) {
        fleet_fail(fleet, "key %u is told 202, which its caller did not ask for", call->key);
    }
    if (said->said == ROUTE_SAID_ANSWER) {
        check_answer(fleet, call, said);
    } else if (version == NULL && was_forgotten(fleet, said->id.row)) {
        return; /* since its operation was answered */
    } else if (said->said == ROUTE_SAID_PROGRESS && version == NULL) {
        fleet_fail(fleet, "I1: key %u is said to be under way and is not there", call->key);
    } else if (said->said == ROUTE_SAID_STREAM && said->id.row != 0 &&
               fleet->keys[call->key].streamed_row != said->id.row) {
        fleet_fail(fleet, "I1: a stream of key %u begins before it is committed", call->key);
    } else if (is_conflict) {
        fleet_fail(fleet, "I3: key %u conflicts with itself", call->key);
    }
}

/* Each is answered once; of a stream, until it ends. */
void fleet_call_replied(struct fleet *fleet, uint32_t serial, const struct reply *reply)
{
    struct fleet_call *call = &fleet->calls[serial];
    bool is_route = reply->kind == REPLY_ROUTE;
    bool is_refused = reply->kind == REPLY_FAULT && reply->error.fault != FAULT_UNKNOWN;

    fleet_trace(fleet, "call %u of key %u is told %d %d '%s'", serial, call->key, (int)reply->kind,
                is_route ? (int)reply->route->said : -1, fault_code(reply->error.fault));
    if (!call->is_there) {
        fleet_fail(fleet, "a caller of the gateway is answered twice");
        return;
    }
    if (is_route) {
        check_told(fleet, call, reply->route);
    }
    call->told = is_refused ? FLEET_REFUSED : FLEET_DONE;
    if (is_refused && call->is_recorded && fleet_options.failed_waits) {
        fleet_fail(fleet, "I7: call %u of key %u is told '%s' and is recorded", serial, call->key,
                   fault_code(reply->error.fault));
    }
    call->is_there = call->wants_more = is_route && (reply->route->said == ROUTE_SAID_STREAM ||
                                                     reply->route->said == ROUTE_SAID_PIECE);
    fleet->seen.calls++;
}

/* --- the upstream ------------------------------------------------------------------------------------ */

static const struct fleet_answer answers[] = {
    {200, TASK_SENT_YES, 0, true},  {201, TASK_SENT_YES, 0, true},
    {500, TASK_SENT_YES, 0, true},  {503, TASK_SENT_YES, 700, false},
    {429, TASK_SENT_YES, 0, false}, {401, TASK_SENT_YES, 0, false},
    {400, TASK_SENT_YES, 0, false}, {0, TASK_SENT_NO, 0, false},
    {0, TASK_SENT_MAYBE, 0, true},  {0, TASK_SENT_MAYBE, 0, true},
};
static const struct fleet_answer found = {200, TASK_SENT_YES, 0, false};
static const struct fleet_answer missing = {404, TASK_SENT_YES, 0, false};

bool fleet_is_gateway(const struct delivery *delivery)
{
    return span_starts(delivery->url, UPSTREAM);
}

/* "k KEY SERIAL", or "…/probe/KEY". */
bool fleet_gateway_begin(struct fleet_flight *flight)
{
    const struct delivery *delivery = flight->delivery;
    struct span text = span_from(delivery->body, 2), front;
    int64_t key = -1;

    flight->is_probe = span_starts(delivery->url, PROBE_URL);
    flight->is_route = true;
    if (flight->is_probe) {
        front = span_from(delivery->url, sizeof PROBE_URL - 1);
    } else {
        (void)span_cut(&text, ' ', &front);
    }
    bool is_good = span_to_int(front, &key) && key >= 0 && key < FLEET_KEYS;
    flight->number = is_good ? (uint32_t)key : 0;
    return is_good;
}

/* On routes that hold or probe nothing goes out again that may have happened, but after as many misses
 * as the route wants. */
static void check_sent(struct fleet *fleet, const struct fleet_flight *flight)
{
    const struct attempt *attempt = fleet_attempt_of(flight->delivery);
    const struct version *version = fleet_version(fleet, attempt->task.id.row);
    const struct fleet_key *key = &fleet->keys[flight->number];
    bool may_repeat = route_of(fleet, flight->number)->ambiguous == ROUTE_AMBIGUOUS_RETRY;

    if (version == NULL || version->life.state != TASK_RUNNING ||
        version->life.fence != flight->fence) {
        fleet_fail(fleet, "I2: node %zu sends key %u under a fence that is not its own",
                   flight->node, flight->number);
    } else if (!fleet_epoch_is_live(fleet, version->life.epoch)) {
        fleet_fail(fleet, "I2: node %zu sends key %u after its peers took it for dead",
                   flight->node, flight->number);
    } else if (key->effects > 0 && !may_repeat) {
        fleet_fail(fleet, "key %u goes out although it happened", flight->number);
    } else if (key->in_doubt && !may_repeat && key->misses < MISSES) {
        fleet_fail(fleet, "key %u goes out again in doubt, after %u misses", flight->number,
                   key->misses);
    }
}

void fleet_gateway_sent(struct fleet *fleet, struct fleet_flight *flight)
{
    struct fleet_key *key = &fleet->keys[flight->number];

    flight->at_ms = fleet->mono_ms + (int64_t)fleet_roll(fleet, 2000);
    if (flight->is_probe) {
        bool is_mute = !fleet->is_calm && fleet_roll(fleet, 3) == 0;
        flight->answer = is_mute ? &answers[8] : key->effects > 0 ? &found : &missing;
        return;
    }
    check_sent(fleet, flight);
    flight->answer = &answers[fleet_roll(fleet, sizeof answers / sizeof *answers)];
    bool is_done = flight->answer->status == 200 || flight->answer->status == 201;
    key->effects += is_done || (flight->answer->leaves_doubt && fleet_roll(fleet, 2) == 0);
    key->in_doubt = true;
    key->misses = 0;
    key->fence_seen = flight->fence;
    key->row_seen = fleet_attempt_of(flight->delivery)->task.id.row;
    fleet->seen.routed++;
}

static void fill(struct fleet *fleet, struct fleet_flight *flight)
{
    const struct fleet_answer *answer = flight->answer;
    struct delivery *delivery = flight->delivery;
    char text[64];

    delivery->outcome = (struct outcome){.status = answer->status,
                                         .sent = answer->sent,
                                         .hint_ms = answer->hint_ms,
                                         .has_hint = answer->hint_ms > 0};
    delivery->sends = answer->sent != TASK_SENT_NO;
    delivery->ended_at_ms = fleet_server_ms(fleet);
    (void)daruma_class_of_status(answer->status, &delivery->outcome.error_class); /* 200: unused */
    if (answer->status == 0) {
        return;
    }
    (void)snprintf(text, sizeof text, "answer %" PRIu64, ++fleet->answer_last);
    buf_init(&delivery->response_headers, CALL_ARENA_MAX);
    buf_init(&delivery->response_body, CALL_ARENA_MAX);
    (void)!fields_add(&delivery->response_headers, SPAN("Content-Type"), SPAN("text/plain"));
    if (!flight->is_streaming) {
        (void)!buf_add(&delivery->response_body, span_of(text)); /* no room is none */
    }
}

static void land(struct fleet *fleet, struct fleet_flight *flight)
{
    struct fleet_key *key = &fleet->keys[flight->number];
    struct delivery *delivery = flight->delivery;
    struct engine *engine = fleet->nodes[flight->node].engine;

    if (flight->is_probe) {
        key->misses += flight->answer->status == 404;
    } else if (flight->is_on_wire && key->fence_seen == flight->fence &&
               key->row_seen == fleet_attempt_of(delivery)->task.id.row) {
        key->in_doubt = flight->answer->leaves_doubt;
    }
    *flight = (struct fleet_flight){0};
    engine_delivered(engine, delivery);
}

/* An answer that is handed on as it comes: its head, then a piece for each pull, then its end. */
static void stream(struct fleet *fleet, struct fleet_flight *flight)
{
    struct engine *engine = fleet->nodes[flight->node].engine;

    if (!flight->is_streaming) {
        flight->is_streaming = true;
        flight->pieces_left = (unsigned)fleet_roll(fleet, 3);
        fill(fleet, flight);
        fleet->seen.streams++;
        engine_streamed(engine, flight->delivery, (struct span){NULL, 0});
    } else if (flight->is_pulled && flight->pieces_left > 0 && !flight->is_stopped) {
        flight->is_pulled = false;
        flight->pieces_left--;
        engine_streamed(engine, flight->delivery, SPAN("piece"));
    } else if (flight->is_pulled || flight->is_stopped) {
        flight->delivery->is_omitted = true;
        if (flight->is_stopped || fleet_roll(fleet, 4) == 0) {
            flight->delivery->outcome.sent = TASK_SENT_MAYBE; /* cut off */
        }
        land(fleet, flight);
    }
}

void fleet_gateway_back(struct fleet *fleet, struct fleet_flight *flight)
{
    bool may_stream = flight->is_on_wire && !flight->is_probe && flight->answer->status != 0;

    if (flight->is_streaming || (may_stream && fleet_roll(fleet, 6) == 0)) {
        stream(fleet, flight);
    } else {
        fill(fleet, flight);
        land(fleet, flight);
    }
}

void fleet_pull(void *user, struct delivery *delivery)
{
    struct fleet_node *node = user;

    for (size_t i = 0; i < FLEET_FLIGHTS_MAX; i++) {
        struct fleet_flight *flight = &node->fleet->flights[i];
        flight->is_pulled |= flight->delivery == delivery;
    }
}

void fleet_stop(void *user, struct delivery *delivery)
{
    struct fleet_node *node = user;

    for (size_t i = 0; i < FLEET_FLIGHTS_MAX; i++) {
        struct fleet_flight *flight = &node->fleet->flights[i];
        flight->is_stopped |= flight->delivery == delivery;
    }
}

bool fleet_has_callers(const struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->call_count; i++) {
        if (fleet->calls[i].is_there) {
            return true;
        }
    }
    return false;
}
