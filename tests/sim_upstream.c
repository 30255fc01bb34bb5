/* SPDX-License-Identifier: MIT
 *
 * sim_upstream -- what is behind the simulated gateway: an upstream that does what it is asked, or
 * does not, says so, or is cut off; that can be asked afterwards what it has done; and the ledger of
 * its effects, by which the promises about keys are checked. See sim.h.
 */
#include "sim.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>

#define UPSTREAM_ARENA_MAX (1 << 18)

uint64_t sim_digest(const struct answer *answer)
{
    const struct span parts[] = {answer->headers, answer->body};
    uint64_t digest = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < 2; i++) {
        for (size_t at = 0; at < parts[i].len; at++) {
            digest = (digest ^ (unsigned char)parts[i].at[at]) * UINT64_C(1099511628211);
        }
        digest = (digest ^ 0x1ff) * UINT64_C(1099511628211);
    }
    return digest;
}

/* --- the ledger -------------------------------------------------------------------------------------- */

/* When a key that is kept may be used again. */
static int64_t free_at_ms(const struct sim_key *key, int64_t keep_until_ms)
{
    return keep_until_ms + (key->route->expired == ROUTE_EXPIRED_RERUN ? 0 : SIM_TOMBSTONES_MS);
}

static void forget_effects(struct sim_key *key)
{
    key->effects = 0;
    key->in_doubt = false;
    key->misses = 0;
}

/* The key has a new task: what came of the one before it? */
static void check_free(struct sim *sim, uint32_t number, struct arena *arena)
{
    struct sim_key *key = &sim->keys[number];
    struct record before;
    bool was_kept = key->kept.row == key->id.row;

    bool is_there = sim_read(sim, key->id, arena, &before);
    bool is_kept = is_there && before.life.keep_until_ms != 0; /* since the last look */
    int64_t until_ms = is_kept ? before.life.keep_until_ms : key->kept.until_ms;
    if ((was_kept || is_kept) && free_at_ms(key, until_ms) <= sim->wall_max_ms) {
        forget_effects(key);
    } else if (!is_there) {
        if (!key->forget_asked) {
            sim_fail(sim, "I3: key %u is forgotten before its time", number);
        }
        forget_effects(key);
    } else if (before.is_bound) {
        sim_fail(sim, "I3: key %u has two tasks: the one before is %s", number,
                 task_state_text(before.life.state));
    }
}

/* Before the first byte goes out. On routes that hold or probe nothing goes out twice that may have
 * happened, but by a person's word or after as many misses as the route wants. */
static void check_sent(struct sim *sim, uint32_t number, struct task_id id)
{
    struct sim_key *key = &sim->keys[number];
    struct arena *arena = arena_new(UPSTREAM_ARENA_MAX);
    bool may_repeat = key->route->ambiguous == ROUTE_AMBIGUOUS_RETRY || key->not_done_said;
    struct record record;

    if (!sim_read(sim, id, arena, &record) || record.life.state != TASK_RUNNING) {
        sim_fail(sim, "I5: key %u goes out without a committed lease", number);
    } else if (key->id.row == id.row && record.life.attempts_all <= key->attempt_seen) {
        sim_fail(sim, "I5: key %u goes out as attempt %u, after attempt %u", number,
                 record.life.attempts_all, key->attempt_seen);
    } else if (record.life.attempts > SIM_ATTEMPTS_MAX) {
        sim_fail(sim, "I6: key %u goes out as attempt %u of a round", number, record.life.attempts);
    } else {
        key->attempt_seen = record.life.attempts_all;
    }
    if (key->id.row != 0 && key->id.row != id.row) {
        check_free(sim, number, arena);
    }
    if (key->in_flight && !may_repeat) {
        sim_fail(sim, "I2: key %u is in flight twice", number);
    } else if (key->effects > 0 && !may_repeat) {
        sim_fail(sim, "key %u goes out although it happened", number);
    } else if (key->in_doubt && !may_repeat && key->misses < SIM_MISSES) {
        sim_fail(sim, "key %u goes out again in doubt, after %u misses", number, key->misses);
    }
    key->id = id;
    key->misses = 0;
    arena_free(arena);
}

/* --- sending ----------------------------------------------------------------------------------------- */

static const struct sim_answer answers[] = {
    {200, TASK_SENT_YES, 0, true},  {201, TASK_SENT_YES, 0, true},
    {500, TASK_SENT_YES, 0, true},  {503, TASK_SENT_YES, 700, false},
    {429, TASK_SENT_YES, 0, false}, {401, TASK_SENT_YES, 0, false},
    {400, TASK_SENT_YES, 0, false}, {0, TASK_SENT_NO, 0, false},
    {0, TASK_SENT_MAYBE, 0, true},  {0, TASK_SENT_MAYBE, 0, true},
};

static const struct sim_answer probed_found = {200, TASK_SENT_YES, 0, false};
static const struct sim_answer probed_missing = {404, TASK_SENT_YES, 0, false};

/* What is asked about is answered by what is true when the question arrives. */
static const struct sim_answer *draw_probed(struct sim *sim, const struct sim_key *key)
{
    if (!sim->is_calm && sim_roll(sim, 3) == 0) { /* it cannot say */
        return &answers[2 + 6 * sim_roll(sim, 2)];
    }
    return key->effects > 0 ? &probed_found : &probed_missing;
}

/* "NUMBER VARIANT", or "…/probe/NUMBER". */
static bool read_number(const struct sim *sim, const struct delivery *delivery, int64_t *ret_number)
{
    struct span text = delivery->body, rest = delivery->url;

    if (span_starts(delivery->url, SIM_UPSTREAM_URL "/probe/")) {
        text = span_from(rest, sizeof SIM_UPSTREAM_URL "/probe/" - 1);
    } else {
        (void)span_cut(&text, ' ', &rest);
        text = rest;
    }
    return span_to_int(text, ret_number) && *ret_number >= 0 && *ret_number < sim->key_count;
}

void sim_upstream_send(struct sim *sim, struct sim_flight *flight, struct delivery *delivery)
{
    bool is_probe = span_starts(delivery->url, SIM_UPSTREAM_URL "/probe/");
    struct span text;
    struct task_id id;
    int64_t number = 0;

    if (!read_number(sim, delivery, &number) ||
        !fields_find(delivery->headers, "X-Daruma-Task", &text) || !id_parse(text, &id)) {
        sim_fail(sim, "a request of the gateway that nobody asked for");
        return;
    }
    struct sim_key *key = &sim->keys[number];
    *flight = (struct sim_flight){.delivery = delivery,
                                  .number = (uint32_t)number,
                                  .kind = is_probe ? SIM_FLIGHT_PROBE : SIM_FLIGHT_ROUTE,
                                  .back_at_ms = sim->mono_ms + (int64_t)sim_roll(sim, 2000)};
    if (is_probe) {
        flight->answer = draw_probed(sim, key);
        return;
    }
    check_sent(sim, (uint32_t)number, id);
    flight->answer = &answers[sim_roll(sim, sizeof answers / sizeof *answers)];
    bool is_done = flight->answer->status == 200 || flight->answer->status == 201;
    key->effects += is_done || (flight->answer->leaves_doubt && sim_roll(sim, 2) == 0);
    key->in_flight = true;
    key->in_doubt = true; /* as far as anybody but the upstream can tell */
}

/* --- coming back ------------------------------------------------------------------------------------- */

/* Every answer is another one, so that a replay of the wrong one is seen. */
static void fill_answer(struct sim *sim, const struct sim_flight *flight)
{
    struct delivery *delivery = flight->delivery;
    char text[64];

    sim->answer_last++;
    (void)snprintf(text, sizeof text, "answer %" PRIu64 " of %" PRIu32, sim->answer_last,
                   flight->number);
    buf_init(&delivery->response_headers, UPSTREAM_ARENA_MAX);
    buf_init(&delivery->response_body, UPSTREAM_ARENA_MAX);
    (void)!fields_add(&delivery->response_headers, SPAN("Content-Type"), SPAN("text/plain"));
    (void)!fields_add(&delivery->response_headers, SPAN("X-Number"), span_of(text));
    (void)!fields_add(&delivery->response_headers, SPAN("Set-Cookie"), span_of(text));
    if (!flight->is_streaming) {
        (void)!buf_add(&delivery->response_body, span_of(text)); /* no room is none */
    }
}

static void fill_outcome(struct sim *sim, struct delivery *delivery,
                         const struct sim_answer *answer)
{
    delivery->outcome = (struct outcome){.status = answer->status,
                                         .sent = answer->sent,
                                         .hint_ms = answer->hint_ms,
                                         .has_hint = answer->hint_ms > 0};
    delivery->sends = answer->sent != TASK_SENT_NO;
    delivery->ended_at_ms = sim->wall_ms;
    (void)daruma_class_of_status(answer->status, &delivery->outcome.error_class); /* 200: unused */
}

static void land(struct sim *sim, struct sim_flight *flight)
{
    struct sim_key *key = &sim->keys[flight->number];
    struct delivery *delivery = flight->delivery;

    flight->delivery = NULL;
    if (flight->kind == SIM_FLIGHT_PROBE) {
        key->misses += flight->answer->status == 404;
    } else {
        key->in_flight = false;
        key->in_doubt = flight->answer->leaves_doubt;
    }
    engine_delivered(sim->engine, delivery);
}

/* The head of an answer that is handed on as it comes. */
static void begin_stream(struct sim *sim, struct sim_flight *flight)
{
    flight->is_streaming = true;
    flight->pieces_left = (unsigned)sim_roll(sim, 3);
    fill_answer(sim, flight);
    fill_outcome(sim, flight->delivery, flight->answer);
    engine_streamed(sim->engine, flight->delivery, (struct span){NULL, 0});
}

static void go_on_streaming(struct sim *sim, struct sim_flight *flight)
{
    if (!flight->is_pulled && !flight->is_stopped) {
        return;
    }
    flight->is_pulled = false;
    if (flight->pieces_left > 0 && !flight->is_stopped) {
        flight->pieces_left--;
        engine_streamed(sim->engine, flight->delivery, SPAN("piece"));
        return;
    }
    flight->delivery->is_omitted = true;
    if (flight->is_stopped || sim_roll(sim, 4) == 0) {
        flight->delivery->outcome.sent = TASK_SENT_MAYBE; /* cut off */
    }
    land(sim, flight);
}

void sim_upstream_back(struct sim *sim, struct sim_flight *flight)
{
    bool may_stream =
        flight->kind == SIM_FLIGHT_ROUTE && flight->answer->status != 0 && sim_roll(sim, 6) == 0;

    if (flight->is_streaming) {
        go_on_streaming(sim, flight);
    } else if (may_stream) {
        begin_stream(sim, flight);
    } else {
        if (flight->answer->status != 0) {
            fill_answer(sim, flight);
        }
        fill_outcome(sim, flight->delivery, flight->answer);
        land(sim, flight);
    }
}

void sim_upstream_pull(void *user, struct delivery *delivery)
{
    struct sim *sim = user;

    for (size_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        if (sim->flights[i].delivery == delivery) {
            sim->flights[i].is_pulled = true;
        }
    }
}

void sim_upstream_stop(void *user, struct delivery *delivery)
{
    struct sim *sim = user;

    for (size_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        if (sim->flights[i].delivery == delivery) {
            sim->flights[i].is_stopped = true;
        }
    }
}

/* --- the invariants of keys -------------------------------------------------------------------------- */

static void note_kept(struct sim *sim, uint32_t number, const struct record *record)
{
    struct sim_key *key = &sim->keys[number];
    uint64_t digest = sim_digest(&record->answer);

    if (key->kept.row == record->task.id.row &&
        (key->kept.digest != digest || key->kept.status != record->answer.status ||
         key->kept.state != record->life.state)) {
        sim_fail(sim, "I4: the kept answer of key %u has changed", number);
    }
    key->kept.row = record->task.id.row;
    key->kept.digest = digest;
    key->kept.status = record->answer.status;
    key->kept.state = record->life.state;
    key->kept.until_ms = record->life.keep_until_ms;
}

static void check_key(struct sim *sim, uint32_t number, struct arena *arena)
{
    struct sim_key *key = &sim->keys[number];
    struct record record;
    bool was_kept = key->kept.row != 0 && key->kept.row == key->id.row;

    if (key->id.row == 0) {
        return;
    }
    if (!sim_read(sim, key->id, arena, &record)) {
        if (was_kept && !key->forget_asked &&
            free_at_ms(key, key->kept.until_ms) > sim->wall_max_ms) {
            sim_fail(sim, "I4: key %u is forgotten before its time", number);
        }
        return;
    }
    /* The key of what is released has no keeping time. */
    bool is_kept = task_is_settled(record.life.state) && record.life.keep_until_ms != 0;
    if (is_kept) {
        note_kept(sim, number, &record);
        was_kept = true;
    }
    bool is_free = !record.is_bound || (!is_kept && record.life.state != TASK_GONE);
    if (was_kept && is_free && free_at_ms(key, key->kept.until_ms) > sim->wall_max_ms) {
        sim_fail(sim, "I4: key %u was answered and is %s%s", number,
                 task_state_text(record.life.state), record.is_bound ? "" : ", free");
    } else if (record.life.state == TASK_GONE && record.life.keep_until_ms > sim->wall_max_ms) {
        sim_fail(sim, "I4: the answer of key %u is gone before its time", number);
    }
    if (key->streamed == key->id.row && key->streamed != 0 && !record.is_bound &&
        record.life.state != TASK_GONE && !was_kept) {
        sim_fail(sim, "key %u was told a stream and is free", number);
    }
}

void sim_check_keys(struct sim *sim)
{
    struct arena *arena = arena_new(UPSTREAM_ARENA_MAX);

    for (uint32_t i = 0; i < sim->key_count && sim->failure[0] == '\0'; i++) {
        check_key(sim, i, arena);
    }
    arena_free(arena);
}

/* When all is calm, everybody has been answered and what can be asked about is known. */
void sim_check_keys_calm(struct sim *sim)
{
    struct arena *arena = arena_new(UPSTREAM_ARENA_MAX);
    struct record record;

    for (size_t i = 0; i < SIM_CALLERS_MAX; i++) {
        if (sim->callers[i].is_there && !sim->callers[i].has_left) {
            sim_fail(sim, "a caller of key %u was never answered", sim->callers[i].number);
        }
    }
    for (uint32_t i = 0; i < sim->key_count; i++) {
        const struct sim_key *key = &sim->keys[i];
        if (key->route->ambiguous == ROUTE_AMBIGUOUS_PROBE && key->id.row != 0 &&
            sim_read(sim, key->id, arena, &record) && record.life.state == TASK_UNSETTLED) {
            sim_fail(sim, "key %u is still in doubt when all is calm", i);
        }
    }
    arena_free(arena);
}
