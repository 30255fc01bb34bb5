/* SPDX-License-Identifier: MIT
 *
 * sim_gateway -- callers of the gateway, and what they can rely on: requests with keys on routes that
 * are drawn anew for each seed, duplicates, mismatches, polls, callers who leave, and people who
 * settle and forget. The upstream is sim_upstream.c. See sim.h.
 */
#include "sim.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GATEWAY_ARENA_MAX (1 << 18)
#define PERSON_BODY       "by a person"

/* --- routes ------------------------------------------------------------------------------------------ */

static void release(struct route_settings *route, uint16_t status, bool needs_hint)
{
    route->release[route->release_count++] =
        (struct route_release){.status = status, .needs_hint = needs_hint};
}

static void draw_route(struct sim *sim, size_t at, const struct daruma_policy *policy)
{
    static const enum route_ambiguous ways[SIM_ROUTE_COUNT] = {
        ROUTE_AMBIGUOUS_HOLD, ROUTE_AMBIGUOUS_PROBE, ROUTE_AMBIGUOUS_RETRY};
    struct route_settings *route = &sim->routes[at];

    *route = (struct route_settings){
        .name = span_of(at == 0   ? "hold"
                        : at == 1 ? "probe"
                                  : "retry"),
        .upstream = SPAN(SIM_UPSTREAM_URL),
        .timeout_ms = 3000,
        .deadline_ms = 6000,
        .policy = *policy,
        .concurrency = 4,
        .repeatable = ways[at] == ROUTE_AMBIGUOUS_RETRY,
        .header = SPAN(ROUTE_KEY_HEADER),
        .keep_ms = 2000 + (int64_t)sim_roll(sim, 20000),
        .expired = (enum route_expired)sim_roll(sim, 2),
        .in_progress = (enum route_way)sim_roll(sim, 3),
        .wait_ms = 2000,
        .wait_then = sim_roll(sim, 2) == 0 ? ROUTE_WAY_ACCEPTED : ROUTE_WAY_CONFLICT,
        .retry_after_ms = 1000,
        .replay = (enum route_replay)sim_roll(sim, 3),
        .not_sent = (enum route_not_sent)sim_roll(sim, 3),
        .ambiguous = ways[at],
        .mismatch = 409,
    };
    if (route->replay != ROUTE_REPLAY_ALL) {
        release(route, 401, false);
        release(route, 429, false);
        release(route, 503, true);
    }
    if (route->ambiguous == ROUTE_AMBIGUOUS_PROBE) {
        route->probe = (struct route_probe){.method = SPAN("GET"),
                                            .path = SPAN("/probe/{key}"),
                                            .every_ms = 300,
                                            .misses = SIM_MISSES,
                                            .settle_after_ms = 1000,
                                            .on_missing = (enum route_missing)sim_roll(sim, 2)};
    }
}

void sim_gateway_set_up(struct sim *sim, const struct daruma_policy *policy)
{
    for (size_t i = 0; i < SIM_ROUTE_COUNT; i++) {
        draw_route(sim, i, policy);
    }
}

/* --- callers ----------------------------------------------------------------------------------------- */

static struct sim_caller *new_caller(struct sim *sim, uint32_t number, unsigned variant)
{
    size_t at = (size_t)(sim->caller_last % SIM_CALLERS_MAX);
    struct sim_caller *caller = &sim->callers[at];

    if (caller->is_there) {
        return NULL;
    }
    *caller = (struct sim_caller){.is_there = true,
                                  .exchange = SIM_CALLERS + sim->caller_last++,
                                  .number = number,
                                  .variant = variant};
    return caller;
}

/* As the edge does it: from memory, else by the store. */
static void call(struct sim *sim, uint32_t number, unsigned variant)
{
    struct sim_key *key = &sim->keys[number];
    struct sim_caller *caller = new_caller(sim, number, variant);
    struct arena *arena = arena_new(GATEWAY_ARENA_MAX);
    struct submission submission = {
        .exchange = caller == NULL ? 0 : caller->exchange,
        .arena = arena,
        .queue = arena_printf(arena, ROUTE_QUEUE_PREFIX "%.*s", SPAN_ARGS(key->route->name)),
        .scope = SPAN("somebody"),
        .key = arena_printf(arena, "%" PRIu32, number),
        .method = SPAN("POST"),
        .target = SPAN(SIM_UPSTREAM_URL "/things"),
        .body = arena_printf(arena, "%" PRIu32 " %u", number, variant),
        .route = key->route,
        .wish = {.is_async = sim_roll(sim, 6) == 0},
        .has_fingerprint = true,
        .fingerprint = {(unsigned char)variant},
    };

    if (caller == NULL) {
        arena_free(arena);
        return;
    }
    caller->is_async = submission.wish.is_async;
    key->is_used = true;
    key->variants |= 1u << variant;
    if (engine_replay(sim->engine, &submission)) {
        arena_free(arena);
    } else {
        engine_submit(sim->engine, &submission);
    }
}

static void call_new(struct sim *sim)
{
    uint32_t number = sim->key_count;

    if (number == SIM_KEYS_MAX) {
        return;
    }
    sim->key_count++;
    sim->keys[number] = (struct sim_key){.route = &sim->routes[sim_roll(sim, SIM_ROUTE_COUNT)],
                                         .has_people = sim_roll(sim, 4) == 0};
    call(sim, number, 0);
}

static void poll_key(struct sim *sim, uint32_t number)
{
    struct sim_caller *caller = sim->keys[number].id.row == 0 ? NULL : new_caller(sim, number, 0);

    if (caller != NULL) {
        caller->is_poll = true;
        engine_ask(sim->engine, &(struct ask){.kind = ASK_POLL,
                                              .exchange = caller->exchange,
                                              .id = sim->keys[number].id});
    }
}

static void leave(struct sim *sim)
{
    struct sim_caller *caller = &sim->callers[sim_roll(sim, SIM_CALLERS_MAX)];

    if (caller->is_there && !caller->has_left) {
        caller->has_left = true;
        engine_leave(sim->engine, caller->exchange);
    }
}

/* People act on few keys, so that of most nobody's word excuses anything. */
static void act(struct sim *sim, uint32_t number)
{
    const struct answer answer = {.status = 200, .headers = {"", 0}, .body = SPAN(PERSON_BODY)};
    struct sim_key *key = &sim->keys[number];
    struct ask ask = {.kind = sim_roll(sim, 3) == 0 ? ASK_FORGET : ASK_SETTLE,
                      .exchange = SIM_ASIDE,
                      .who = SPAN("simulated"),
                      .id = key->id,
                      .settlement = (enum settlement)sim_roll(sim, 3),
                      .answer = sim_roll(sim, 2) == 0 ? &answer : NULL};

    if (!key->has_people || key->id.row == 0) {
        return;
    }
    key->forget_asked |= ask.kind == ASK_FORGET;
    key->not_done_said |= ask.kind == ASK_SETTLE && ask.settlement == SETTLEMENT_NOT_DONE;
    engine_ask(sim->engine, &ask);
}

/* Whoever has sent a piece wants the next one; that somebody has left shows when it is sent. */
void sim_gateway_read_on(struct sim *sim)
{
    for (size_t i = 0; i < SIM_CALLERS_MAX; i++) {
        struct sim_caller *caller = &sim->callers[i];
        if (!caller->wants_more || sim->is_crashing) {
            continue;
        }
        caller->wants_more = false;
        if (caller->has_left) {
            caller->is_there = false;
            engine_leave(sim->engine, caller->exchange);
        } else {
            engine_more(sim->engine, caller->exchange);
        }
    }
}

void sim_gateway_call(struct sim *sim)
{
    uint32_t number = sim->key_count == 0 ? 0 : (uint32_t)sim_roll(sim, sim->key_count);
    uint64_t roll = sim_roll(sim, 12);

    sim_gateway_read_on(sim);
    if (sim->key_count == 0 || (roll < 3 && !sim->is_calm)) {
        call_new(sim);
    } else if (roll < 8) {
        call(sim, number, 0);
    } else if (roll == 8) {
        call(sim, number, 1);
    } else if (roll == 9) {
        poll_key(sim, number);
    } else if (roll == 10) {
        leave(sim);
    } else if (!sim->is_calm) {
        act(sim, number);
    }
}

bool sim_gateway_is_quiet(const struct sim *sim)
{
    for (size_t i = 0; i < SIM_CALLERS_MAX; i++) {
        if (sim->callers[i].is_there && !sim->callers[i].has_left) {
            return false;
        }
    }
    return true;
}

void sim_gateway_crash(struct sim *sim)
{
    memset(sim->callers, 0, sizeof sim->callers);
    for (uint32_t i = 0; i < sim->key_count; i++) {
        sim->keys[i].in_flight = false;
    }
}

/* --- what they are told ------------------------------------------------------------------------------ */

static bool is_same_answer(const struct answer *one, const struct answer *other)
{
    return one->status == other->status && span_equal(one->headers, other->headers) &&
           span_equal(one->body, other->body);
}

static bool is_kept_one(const struct sim_key *key, struct task_id id, const struct answer *answer)
{
    return key->kept.row == id.row && key->kept.status == answer->status &&
           key->kept.digest == sim_digest(answer);
}

/* I1, I4: what is told as the kept answer is on disk, as it is told; what was forgotten meanwhile had
 * been there. */
static void check_answer(struct sim *sim, const struct sim_caller *caller,
                         const struct route_reply *said, const struct record *record)
{
    const struct sim_key *key = &sim->keys[caller->number];
    bool is_forgotten = record == NULL || record->life.state == TASK_GONE;

    if (is_forgotten && !key->forget_asked && !is_kept_one(key, said->id, said->answer)) {
        sim_fail(sim, "I1: key %u is answered with what is not there", caller->number);
    } else if (!is_forgotten && !task_is_settled(record->life.state)) {
        sim_fail(sim, "I1: the answer of key %u is told before it is committed", caller->number);
    } else if (!is_forgotten && !record->is_bound &&
               (record->life.keep_until_ms == 0 || record->life.keep_until_ms > sim->wall_max_ms)) {
        sim_fail(sim, "I4: what is not kept of key %u is told as kept", caller->number);
    } else if (!is_forgotten && !is_same_answer(said->answer, &record->answer)) {
        sim_fail(sim, "I4: key %u is told other bytes than are kept", caller->number);
    }
}

static void check_refusal(struct sim *sim, const struct sim_caller *caller,
                          const struct route_reply *said, const struct record *record)
{
    const struct sim_key *key = &sim->keys[caller->number];
    unsigned others = key->variants & ~(1u << caller->variant);

    if (said->problem == ROUTE_PROBLEM_KEY_CONFLICT && others == 0) {
        sim_fail(sim, "I3: key %u conflicts with itself", caller->number);
    } else if (said->problem == ROUTE_PROBLEM_RESULT_EXPIRED && record != NULL &&
               record->life.keep_until_ms > sim->wall_max_ms) {
        sim_fail(sim, "I4: key %u is told to be expired before its time", caller->number);
    }
}

/* "NUMBER VARIANT": whose request it was. */
static bool is_request_of(const struct record *record, const struct sim_caller *caller)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%" PRIu32 " %u", caller->number, caller->variant);
    return span_is(record->task.body, text) ||
           (caller->is_poll &&
            span_starts(record->task.body, (text[strlen(text) - 1] = '\0', text)));
}

/* Others take a 202 for the upstream's answer. */
static bool takes_progress(const struct sim *sim, const struct sim_caller *caller)
{
    const struct route_settings *route = sim->keys[caller->number].route;
    bool ends_so = route->in_progress == ROUTE_WAY_WAIT && route->wait_then == ROUTE_WAY_ACCEPTED;

    return caller->is_poll || caller->is_async || ends_so ||
           route->in_progress == ROUTE_WAY_ACCEPTED;
}

static void check_told(struct sim *sim, const struct sim_caller *caller,
                       const struct route_reply *said)
{
    struct arena *arena = arena_new(GATEWAY_ARENA_MAX);
    struct record found, *record = NULL;

    if (said->id.row != 0 && sim_read(sim, said->id, arena, &found)) {
        record = &found;
    }
    bool has_body = record != NULL && record->life.state != TASK_GONE;
    if (said->said != ROUTE_SAID_REFUSAL && has_body && !is_request_of(record, caller)) {
        sim_fail(sim, "I3: key %u is told of another request", caller->number);
    }
    switch (said->said) {
    case ROUTE_SAID_ANSWER:
        check_answer(sim, caller, said, record);
        break;
    case ROUTE_SAID_UNKEPT:
        if (record != NULL && (!task_is_settled(record->life.state) || record->is_bound)) {
            sim_fail(sim, "I1: key %u is told to be free and is not", caller->number);
        }
        break;
    case ROUTE_SAID_STREAM:
        if (said->id.row == 0) { /* of a key that is being released: it promises nothing */
            break;
        }
        if (record == NULL || (record->life.flags & LIFE_OMITTED) == 0 ||
            record->answer.status != said->answer->status) {
            sim_fail(sim, "I1: a stream of key %u begins before it is committed", caller->number);
        }
        sim->keys[caller->number].streamed = said->id.row;
        break;
    case ROUTE_SAID_PROGRESS:
        if (!takes_progress(sim, caller)) {
            sim_fail(sim, "key %u is told 202, which its caller did not ask for", caller->number);
        }
        if (record == NULL && !sim->keys[caller->number].forget_asked) {
            sim_fail(sim, "I1: key %u is said to be under way and is not there", caller->number);
        }
        break;
    case ROUTE_SAID_REFUSAL:
        check_refusal(sim, caller, said, record);
        break;
    case ROUTE_SAID_PIECE:
    case ROUTE_SAID_END:
    case ROUTE_SAID_CUT:
        break;
    }
    arena_free(arena);
}

static void note_seen(struct sim *sim, const struct route_reply *said)
{
    bool is_refusal = said->said == ROUTE_SAID_REFUSAL;

    sim->seen.routed++;
    sim->seen.replayed += said->said == ROUTE_SAID_ANSWER && !said->is_first;
    sim->seen.streams += said->said == ROUTE_SAID_STREAM;
    sim->seen.conflicts += is_refusal && said->problem == ROUTE_PROBLEM_KEY_CONFLICT;
    sim->seen.expired_keys += is_refusal && said->problem == ROUTE_PROBLEM_RESULT_EXPIRED;
}

/* Everybody is answered once; of a stream, until it ends. */
void sim_gateway_told(struct sim *sim, const struct reply *reply)
{
    struct sim_caller *caller = &sim->callers[(reply->exchange - SIM_CALLERS) % SIM_CALLERS_MAX];
    bool is_route = reply->kind == REPLY_ROUTE;

    if (!caller->is_there || caller->exchange != reply->exchange) {
        sim_fail(sim, "a caller of the gateway is answered twice");
        return;
    }
    if (is_route) {
        note_seen(sim, reply->route);
        check_told(sim, caller, reply->route);
    } else if (reply->kind != REPLY_FAULT) {
        sim_fail(sim, "a caller of the gateway gets a reply of kind %d", (int)reply->kind);
    }
    bool is_streamed = is_route && (reply->route->said == ROUTE_SAID_STREAM ||
                                    reply->route->said == ROUTE_SAID_PIECE);
    caller->wants_more = is_streamed;
    caller->is_there = is_streamed;
}
