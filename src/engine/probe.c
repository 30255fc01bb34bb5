/* SPDX-License-Identifier: MIT
 *
 * probe -- asks the upstream whether an unsettled request happened. The task stays unsettled all the
 * while and keeps the fence of the attempt in doubt; the probe, a person and that attempt's own late
 * answer settle it by compare-and-set, whoever is first (I2). What a probe has learnt is committed
 * before the next one, so that a crash neither forgets nor doubles a miss.
 *
 *   schedule --due--> read the task --> GET --> judge --> SETTLE --> found: succeeded
 *      ^                 | not unsettled: drop              |------> not done: released, or waiting
 *      '-----------------'------------ unsettled, asked again later <'
 */
#include "engine/engine_internal.h"
#include "task/fields.h"
#include "task/route_headers.h"
#include "task/route_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PROBES_MAX     64     /* under way at once */
#define PROBE_URL_MAX  16384  /* a template with a key filled in */
#define PROBE_REST_MS  1000   /* after one that could not even begin */
#define PROBE_LATER_MS 600000 /* where the route is not configured: it may come back */
#define PROBE_TARGET   "probe"

struct probe {
    struct delivery delivery; /* first */
    struct probe *next;
    struct arena *arena;
    const struct route_settings *route;
    struct task task;
    struct life life;
    int64_t since_ms;
    bool is_sent;
};

/* The schedule is a hint: one too many is found out by the read, one lost by the next start. */
void probe_note(struct engine *engine, const struct life *life, int64_t row)
{
    if (life->state == TASK_UNSETTLED && life->probe_due_ms != 0) {
        (void)!schedule_add(&engine->probes,
                            (struct schedule_entry){.due_ms = life->probe_due_ms, .row = row});
    }
}

static void note_later(struct engine *engine, int64_t row)
{
    const struct life life = {.state = TASK_UNSETTLED,
                              .probe_due_ms = engine_now_ms(engine) + PROBE_REST_MS};

    probe_note(engine, &life, row);
}

static void probe_free(struct engine *engine, struct probe *probe)
{
    struct probe **link = &engine->probing;

    while (*link != probe) {
        link = &(*link)->next;
    }
    *link = probe->next;
    engine->probe_count--;
    delivery_done(&probe->delivery);
    arena_free(probe->arena);
    free(probe);
}

void probe_free_all(struct engine *engine)
{
    while (engine->probing != NULL) {
        probe_free(engine, engine->probing);
    }
    schedule_done(&engine->probes);
}

/* --- asking ------------------------------------------------------------------------------------------ */

/* The caller's own headers, so that the upstream knows whom it is about; nothing about a body. */
static int fill_headers(struct probe *probe, struct buf *headers)
{
    struct span rest = probe->task.headers, name, value;
    char id[ID_TEXT_LEN + 1];
    int failed = 0;

    while (failed == 0 && fields_next(&rest, &name, &value)) {
        bool is_body_s =
            span_is_nocase(span_until(name, 8), "content-") || span_is_nocase(name, "traceparent");
        failed = is_body_s ? 0 : fields_copy(headers, name, value);
    }
    id_format(probe->task.id, id);
    return failed != 0 ? failed : fields_add(headers, SPAN("X-Daruma-Task"), span_of(id));
}

/* The key header as it was forwarded: among the request's own headers. */
static struct span forwarded_key(const struct probe *probe)
{
    struct span rest = probe->task.headers, name, value;

    while (fields_next(&rest, &name, &value)) {
        if (span_equal_nocase(name, probe->route->header)) {
            return value;
        }
    }
    return (struct span){.at = "", .len = 0};
}

/* An upstream may know a quoted key with its quotes, as it came, or without: both are asked for. */
static bool has_two_spellings(const struct probe *probe)
{
    return span_starts(forwarded_key(probe), "\"");
}

/* The key as the upstream knows it: what it was sent, whatever the route says by now. */
static int upstream_key(const struct probe *probe, char room[ROUTE_DERIVED_TEXT_LEN + 1],
                        struct span *ret_key)
{
    bool is_plain_s_turn = has_two_spellings(probe) && probe->life.probe_count % 2 == 1;

    *ret_key = is_plain_s_turn ? probe->task.key : forwarded_key(probe);
    if (ret_key->len > 0) {
        return 0;
    }
    *ret_key = probe->task.key; /* the route's header has got another name since */
    if (!probe->route->derives_key) {
        return 0;
    }
    int failed =
        route_key_derive(probe->route->name, probe->task.scope, probe->task.key, room, NULL);
    *ret_key = span_of(room);
    return failed;
}

static int fill_delivery(const struct engine *engine, struct probe *probe)
{
    char room[ROUTE_DERIVED_TEXT_LEN + 1] = "", id[ID_TEXT_LEN + 1];
    struct route_probe_input input = {.route = probe->route, .target = probe->task.target};
    struct delivery *out = &probe->delivery;
    struct buf url, headers;

    buf_init(&url, PROBE_URL_MAX);
    buf_init(&headers, ARENA_MAX);
    id_format(probe->task.id, id);
    input.id_text = span_of(id);
    int failed = upstream_key(probe, room, &input.key);
    failed = failed != 0 ? failed : route_probe_url(&input, &url);
    failed = failed != 0 ? failed : fill_headers(probe, &headers);
    out->is_upstream = true;
    out->url = arena_copy(probe->arena, buf_span(&url));
    out->headers = arena_copy(probe->arena, buf_span(&headers));
    buf_done(&url);
    buf_done(&headers);
    out->method = probe->route->probe.method;
    out->ca = probe->route->ca;
    out->timeout_ms = probe->route->timeout_ms;
    out->response_max = engine->options.response_max;
    out->repeatable = true; /* asking twice does no harm */
    out->ticket = DELIVERY_PROBE;
    out->task_id_text = arena_copy(probe->arena, span_of(id));
    return failed != 0 || out->url.at == NULL || out->headers.at == NULL ? FAULT_MEMORY : 0;
}

static struct probe *find(const struct engine *engine, int64_t row)
{
    struct probe *probe = engine->probing;

    while (probe != NULL && probe->task.id.row != row) {
        probe = probe->next;
    }
    return probe;
}

/* What was read, kept for as long as the probe takes. */
static void keep_record(struct probe *probe, const struct record *record)
{
    probe->task = record->task;
    probe->task.headers = arena_copy(probe->arena, record->task.headers);
    probe->task.target = arena_copy(probe->arena, record->task.target);
    probe->task.scope = arena_copy(probe->arena, record->task.scope);
    probe->task.key = arena_copy(probe->arena, record->task.key);
    probe->task.labels = probe->task.options = probe->task.body = (struct span){"", 0};
    probe->life = record->life;
    probe->since_ms = record->trail_count > 0 ? record->trail[record->trail_count - 1].ended_at_ms
                                              : record->life.due_at_ms;
}

static void put_off(struct engine *engine, struct errand *errand)
{
    (void)engine;
    errand_free(errand);
}

/* It is due, and there is no probe to ask: a restored store does not know which routes have one, and a
 * route may have lost it, or is gone, and may come back with the next configuration. Written down, since
 * among nodes what stays due is told by every beat, in place of others that can be asked. */
static void write_no_probe(struct engine *engine, const struct record *record)
{
    struct errand *errand = record->life.probe_due_ms != 0 ? errand_new(engine, OP_SETTLE) : NULL;

    if (errand == NULL) {
        return;
    }
    errand->op.task.id = record->task.id;
    errand->op.life = record->life;
    errand->op.life.probe_due_ms = engine_now_ms(engine) + PROBE_LATER_MS;
    errand->then = put_off;
    (void)errand_start(engine, errand); /* no room: it is told again */
}

static void has_read(struct engine *engine, struct read *read)
{
    struct probe *probe = find(engine, read->id.row);
    const struct record *record = read->records;
    struct error error = {0};

    if (read->fault != 0 || read->record_count == 0 || record->life.state != TASK_UNSETTLED ||
        engine->is_draining) {
        if (read->fault != 0) {
            note_later(engine, probe->task.id.row);
        }
        probe_free(engine, probe);
        return;
    }
    if (record->life.probe_due_ms > engine_now_ms(engine)) {
        probe_note(engine, &record->life, record->task.id.row);
        probe_free(engine, probe);
        return;
    }
    const struct queue *queue = engine_queue_at(engine, record->task.queue);
    const struct route_settings *route = queue != NULL ? queue->route : NULL;
    if (route == NULL || route->ambiguous != ROUTE_AMBIGUOUS_PROBE) {
        write_no_probe(engine, record);
        probe_free(engine, probe);
        return;
    }
    probe->route = route;
    keep_record(probe, record);
    int failed = fill_delivery(engine, probe);
    failed = failed != 0
                 ? failed
                 : engine->options.world.send(engine->options.world.user, &probe->delivery, &error);
    if (failed != 0) {
        note_later(engine, probe->task.id.row);
        probe_free(engine, probe);
        return;
    }
    probe->is_sent = true;
    engine->stats.probes++;
}

static bool begin(struct engine *engine, int64_t row)
{
    struct read *read = inspect_new(READ_TASK);
    struct probe *probe = read == NULL ? NULL : calloc(1, sizeof *probe);

    if (probe != NULL) {
        probe->arena = arena_new(ARENA_MAX);
        probe->task.id = (struct task_id){.row = row, .tail = ID_ANY_TAIL};
        probe->life.state = TASK_UNSETTLED;
        probe->next = engine->probing;
        engine->probing = probe;
        engine->probe_count++;
    }
    if (probe != NULL && probe->arena != NULL) {
        read->id = probe->task.id;
        read->wants = READ_TRAIL | READ_LATEST;
        read->then = has_read;
        if (inspect_start(engine, read)) {
            return true;
        }
        read = NULL; /* gone with the refusal */
    }
    if (probe != NULL) {
        probe_free(engine, probe);
    }
    inspect_drop(read);
    return false;
}

void probe_tick(struct engine *engine)
{
    struct schedule_entry entry;

    while (!engine->is_draining && engine->probe_count < PROBES_MAX &&
           schedule_first(&engine->probes, &entry) && entry.due_ms <= engine_now_ms(engine)) {
        schedule_pop(&engine->probes);
        if (find(engine, entry.row) == NULL && !begin(engine, entry.row)) {
            (void)!schedule_add(
                &engine->probes,
                (struct schedule_entry){.due_ms = engine_now_ms(engine) + PROBE_REST_MS,
                                        .row = entry.row});
        }
    }
}

int64_t probe_next_ms(const struct engine *engine)
{
    struct schedule_entry entry;
    bool has_room = !engine->is_draining && engine->probe_count < PROBES_MAX;

    return has_room && schedule_first(&engine->probes, &entry) ? entry.due_ms : INT64_MAX;
}

/* --- hearing ----------------------------------------------------------------------------------------- */

/* What the probe found is the answer, by the route's mapping. False: it is not there, so that the
 * probe could not say. */
static bool fill_answer(const struct probe *probe, struct errand *errand)
{
    const struct route_settings *route = probe->route;
    struct span body = buf_span(&probe->delivery.response_body);
    struct buf kept;

    if (route->probe.field.len > 0 &&
        route_json_find(body, route->probe.field, &body) != ROUTE_JSON_FOUND) {
        return false;
    }
    buf_init(&kept, ARENA_MAX);
    int failed = route_headers_keep(route, buf_span(&probe->delivery.response_headers), &kept);
    errand->answer = (struct answer){
        .status =
            route->probe.status != 0 ? (int)route->probe.status : probe->delivery.outcome.status,
        .headers = arena_copy(errand->arena, buf_span(&kept)),
        .body = arena_copy(errand->arena, body),
        .settled_by = SPAN(PROBE_TARGET),
    };
    buf_done(&kept);
    errand->op.answer = &errand->answer;
    return failed == 0 && errand->answer.headers.at != NULL && errand->answer.body.at != NULL;
}

static void fill_trail(const struct probe *probe, struct errand *errand, enum route_probed probed)
{
    char text[TASK_MESSAGE_MAX + 1];

    if (probed == ROUTE_PROBE_FOUND) {
        (void)snprintf(text, sizeof text, "the probe found that it happened"); /* fits */
    } else {
        (void)snprintf(text, sizeof text, "%" PRIu32 " probes found nothing: it did not happen",
                       (uint32_t)probe->life.probe_count + 1); /* fits */
    }
    errand->trail = (struct trail_row){
        .attempt = probe->life.attempts_all,
        .target = arena_copy(errand->arena, probe->delivery.url),
        .started_at_ms = probe->delivery.started_at_ms,
        .ended_at_ms = probe->delivery.ended_at_ms,
        .error_class = probed == ROUTE_PROBE_FOUND ? -1 : DARUMA_CLASS_TRANSIENT,
        .status = probe->delivery.outcome.status,
        .sent = probe->delivery.outcome.sent,
        .sends = probe->delivery.sends,
        .message = arena_copy(errand->arena, span_of(text)),
    };
    errand->op.trail = &errand->trail;
    errand->op.trail_count = 1;
}

/* The SETTLE is answered. */
static void written(struct engine *engine, struct errand *errand)
{
    struct op *op = &errand->op;

    if (op->fault == 0 && op->result == RESULT_DONE && op->life.state == TASK_UNSETTLED) {
        probe_note(engine, &op->life, op->task.id.row);
    } else if (op->fault == 0 && op->result == RESULT_DONE) {
        const struct record record = {.task = op->task,
                                      .life = op->life,
                                      .answer =
                                          op->answer != NULL ? *op->answer : (struct answer){0},
                                      .is_bound = !op->releases_key};
        replay_note_untold(engine, errand->queue, &record);
        engine->stats.released += op->releases_key;
        inspect_told(engine, &record, errand->stamp);
        settle_follow(engine, errand->queue, op->task.id, op);
        dispatch_queue(engine, errand->queue);
    } else {
        /* What was learnt is lost, or somebody else has settled it; by now it may be in doubt again,
         * and what was noted of that was passed over while this probe was under way. */
        note_later(engine, op->task.id.row);
    }
    errand_free(errand);
}

/* Each spelling of the key has to be missed as often as the route says, and for as long: a miss in one
 * spelling says nothing of the other. They take turns, so that the first one's last miss comes one
 * step before the end. */
static struct route_settings probed_by(const struct probe *probe)
{
    struct route_settings route = *probe->route;

    if (has_two_spellings(probe)) {
        route.probe.misses *= 2;
        route.probe.settle_after_ms +=
            route.probe.settle_after_ms / (int64_t)(route.probe.misses - 1) + 1;
    }
    return route;
}

static void write_down(struct engine *engine, struct probe *probe, struct errand *errand)
{
    const struct route_settings route = probed_by(probe);
    int64_t now_ms = engine_now_ms(engine);
    enum route_probed probed = ROUTE_PROBE_AGAIN;
    struct outcome outcome = probe->delivery.outcome;

    if (probe->delivery.is_omitted ||
        (outcome.status >= 200 && outcome.status < 300 && !fill_answer(probe, errand))) {
        outcome.sent = TASK_SENT_MAYBE; /* it cannot say */
    }
    probed = route_judge_probe(&route, &outcome, &probe->life, probe->since_ms, now_ms,
                               &errand->op.life);
    if (probed != ROUTE_PROBE_FOUND) {
        errand->op.answer = NULL;
    } else if (probe->delivery.is_header_cut || !route_headers_fit(errand->answer.headers)) {
        errand->op.life.flags |= LIFE_UNTOLD;
    }
    if (probed != ROUTE_PROBE_AGAIN) {
        fill_trail(probe, errand, probed);
    }
    errand->op.releases_key =
        probed == ROUTE_PROBE_NOT_DONE && errand->op.life.state == TASK_FAILED;
    errand->op.task.id = probe->task.id;
    errand->op.is_patient = true;
    errand->queue = engine_queue_at(engine, probe->task.queue);
    errand->then = written;
}

void probe_delivered(struct engine *engine, struct delivery *delivery)
{
    struct probe *probe = (struct probe *)delivery;
    struct errand *errand = errand_new(engine, OP_SETTLE);

    if (errand != NULL) {
        write_down(engine, probe, errand);
    }
    if (!errand_start(engine, errand)) {
        note_later(engine, probe->task.id.row);
    }
    probe_free(engine, probe);
}
