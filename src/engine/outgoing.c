/* SPDX-License-Identifier: MIT
 *
 * outgoing -- what goes out for a leased task: its target by turn, the request as a person may have
 * edited it, the target's headers and ours, the signature, the time that it may take. Copies, for a
 * queue may be changed while its attempts are under way.
 */
#include "engine/engine_internal.h"
#include "task/fallback.h"
#include "task/fields.h"
#include "task/url.h"

#include <inttypes.h>
#include <stdio.h>

#define NUMBER_ROOM      10  /* digits of an attempt's number */
#define OWN_HEADERS_ROOM 192 /* what our own take, but for a long key */

/* The target's headers, but for those that the task has itself; then the task's own. */
static int add_headers(struct buf *headers, struct span from, struct span unless)
{
    struct span name, value, other;
    int failed = 0;

    while (failed == 0 && fields_next(&from, &name, &value)) {
        char text[256];
        (void)snprintf(text, sizeof text, "%.*s", SPAN_ARGS(name)); /* names are short */
        if (!fields_find(unless, text, &other)) {
            failed = fields_copy(headers, name, value);
        }
    }
    return failed;
}

/* What a person has changed stands for the request's own. */
static void apply_edit(struct attempt *attempt)
{
    const struct edit *edit = &attempt->op.edited;

    if ((edit->parts & EDIT_TARGET) != 0) {
        attempt->task.target = edit->target;
    }
    if ((edit->parts & EDIT_HEADERS) != 0) {
        attempt->task.headers = edit->headers;
    }
    if ((edit->parts & EDIT_BODY) != 0) {
        attempt->task.body = edit->body;
    }
    attempt->key_round = (edit->parts & (EDIT_TARGET | EDIT_BODY)) != 0 ? edit->round : 0;
}

/* The key that the target sees: the task's own, or its id; with the round of the latest edit, since
 * a target that knows the first request under that key would refuse or replay. */
static int add_key(struct buf *headers, const struct attempt *attempt, struct span id)
{
    char key[TASK_KEY_MAX + 16];
    struct span plain = attempt->task.key.len > 0 ? attempt->task.key : id;

    if (attempt->key_round == 0) {
        return fields_add(headers, SPAN("Idempotency-Key"), plain);
    }
    (void)snprintf(key, sizeof key, "%.*s~%" PRIu32, SPAN_ARGS(plain),
                   attempt->key_round + 1); /* fits */
    return fields_add(headers, SPAN("Idempotency-Key"), span_of(key));
}

static void put_hex(char *to, uint32_t value)
{
    for (int i = 0; i < 8; i++) {
        to[i] = "0123456789abcdef"[value >> (28 - 4 * i) & 15];
    }
}

/* W3C trace context: where the caller has none, the task's id is the trace. */
static int add_trace(struct buf *headers, const struct attempt *attempt, const char *id)
{
    char trace[] = "00-TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT-SSSSSSSSSSSSSSSS-01";
    char *to = trace + 3;
    struct span given;

    if (fields_find(attempt->task.headers, "traceparent", &given)) {
        return 0;
    }
    for (const char *at = id; *at != '\0' && *to == 'T'; at++) {
        if (*at != '-') {
            *to++ = *at;
        }
    }
    put_hex(to + 1, (uint32_t)attempt->task.id.row | 1);
    put_hex(to + 9, attempt->life.attempts_all);
    return fields_copy(headers, SPAN("traceparent"), span_of(trace));
}

/* By hand: it is written for each attempt. */
static struct span number_text(uint32_t number, char room[NUMBER_ROOM])
{
    size_t at = NUMBER_ROOM;

    do {
        room[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return (struct span){.at = room + at, .len = NUMBER_ROOM - at};
}

static int add_own_headers(struct buf *headers, const struct attempt *attempt, const char *id)
{
    char room[NUMBER_ROOM];
    struct span given;
    int failed = 0;

    if (attempt->queue->route != NULL) { /* the key is among the task's own, by the route's name */
        failed = add_trace(headers, attempt, id);
    } else if (!fields_find(attempt->task.headers, "Idempotency-Key", &given)) {
        failed = add_key(headers, attempt, span_of(id));
    }
    failed = failed != 0 ? failed : fields_copy(headers, SPAN("X-Daruma-Task"), span_of(id));
    return failed != 0 ? failed
                       : fields_copy(headers, SPAN("X-Daruma-Attempt"),
                                     number_text(attempt->life.attempts_all, room));
}

/* Spans of the settings are copied: a queue may be changed while its attempts are under way. */
static int fill_headers(struct attempt *attempt, const struct target *target, const char *id)
{
    struct buf headers;

    buf_init(&headers, ARENA_MAX);
    int failed =
        buf_reserve(&headers, target->headers.len + attempt->task.headers.len + OWN_HEADERS_ROOM);
    failed = failed != 0 ? failed : add_headers(&headers, target->headers, attempt->task.headers);
    failed = failed != 0 ? failed : buf_add(&headers, attempt->task.headers);
    failed = failed != 0 ? failed : add_own_headers(&headers, attempt, id);
    attempt->delivery.headers = arena_copy(attempt->arena, buf_span(&headers));
    buf_done(&headers);
    return failed != 0 || attempt->delivery.headers.at == NULL ? FAULT_MEMORY : 0;
}

static struct span first_given(struct span one, struct span other, struct span usual)
{
    return one.len > 0 ? one : other.len > 0 ? other : usual;
}

/* With the round of the latest edit, as the key has it: providers make their keys from it. */
static struct span id_text(const struct attempt *attempt, const char *text)
{
    return attempt->key_round == 0
               ? arena_copy(attempt->arena, span_of(text))
               : arena_printf(attempt->arena, "%s~%" PRIu32, text, attempt->key_round + 1);
}

/* A copy, for the same reason. The providers have their own time-outs, unless the task says how long
 * an attempt may take. */
static int fill_fallback(struct attempt *attempt, const struct task_options *options)
{
    struct fallback *fallback = arena_alloc(attempt->arena, sizeof *fallback);

    if (fallback == NULL) {
        return FAULT_MEMORY;
    }
    *fallback = *attempt->queue->settings.fallback;
    attempt->delivery.fallback = fallback;
    attempt->delivery.timeout_ms = options->timeout_ms;
    return 0;
}

/* The target whose settings the attempt takes. A task may name a URL of its own: to another origin goes
 * nothing that was set up for the queue's target, as with redirects. Callbacks are signed wherever they
 * go: that is what the signature is for. */
static struct target settings_of(const struct engine *engine, const struct attempt *attempt,
                                 const struct target *chosen)
{
    struct span own = attempt->task.target;
    struct target target =
        chosen != NULL ? *chosen
                       : (struct target){.timeout_ms = QUEUE_TIMEOUT_MS, .repeatable = true};

    bool has_secrets = target.headers.len > 0 || target.ca.len > 0 || target.sign_count > 0;
    bool is_ours = own.len == 0 || attempt->queue->route != NULL; /* the configuration's own word */

    if (!has_secrets || is_ours || url_is_same_origin(own, target.url)) {
        return target;
    }
    target.headers = target.ca = SPAN("");
    target.sign_count = attempt->queue == engine->callbacks ? target.sign_count : 0;
    return target;
}

/* Does the URL begin with that one, of the configuration, and go on with a path? */
static bool is_below(struct span url, struct span upstream)
{
    while (upstream.len > 0 && upstream.at[upstream.len - 1] == '/') {
        upstream.len--;
    }
    return url.len > upstream.len && span_equal(span_until(url, upstream.len), upstream) &&
           (url.at[upstream.len] == '/' || url.at[upstream.len] == '?');
}

/* The lease is committed: all of the delivery but its outcome. */
int outgoing_fill(const struct engine *engine, struct attempt *attempt)
{
    apply_edit(attempt);
    uint32_t turn = attempt->life.attempts_all > 0 ? attempt->life.attempts_all - 1 : 0;
    const struct target target = settings_of(
        engine, attempt,
        targets_choose(attempt->queue, attempt->task.target, turn, &attempt->target_index));
    struct task_options options;
    struct delivery *out = &attempt->delivery;
    struct arena *arena = attempt->arena;
    char id[ID_TEXT_LEN + 1];

    options_read(attempt->task.options, &options);
    attempt->repeatable = (attempt->life.flags & LIFE_ONCE) == 0;
    attempt->is_misjudged =
        attempt->repeatable && !(options.has_repeatable ? options.repeatable : target.repeatable);
    attempt->target_name =
        arena_copy(arena, target.name.len > 0 && attempt->task.target.len == 0
                              ? target.name
                              : first_given(attempt->task.target, target.url, SPAN("")));
    out->url = arena_copy(arena, first_given(attempt->task.target, target.url, SPAN("")));
    out->method = arena_copy(arena, first_given(attempt->task.method, target.method, SPAN("POST")));
    out->ca = arena_copy(arena, target.ca);
    out->body = attempt->task.body;
    out->timeout_ms = options.timeout_ms != 0 ? options.timeout_ms : target.timeout_ms;
    out->response_max = engine->options.response_max;
    out->repeatable = attempt->repeatable;
    if (attempt->queue->settings.fallback != NULL && fill_fallback(attempt, &options) != 0) {
        return FAULT_MEMORY;
    }
    id_format(attempt->task.id, id);
    out->task_id_text = id_text(attempt, id);
    out->is_forced = attempt->is_forced;
    out->sender = attempt->queue->number;
    out->is_proxied = attempt->queue->route != NULL;
    out->is_upstream = out->is_proxied && is_below(out->url, attempt->queue->route->upstream);
    if (attempt->life.deadline_at_ms != 0) {
        out->send_until_ms = clock_mono_ms(engine->options.clock) +
                             (attempt->life.deadline_at_ms - engine_now_ms(engine));
    }
    nodes_bind(engine, &attempt->life, out);
    if (out->url.at == NULL || out->method.at == NULL || out->task_id_text.at == NULL ||
        attempt->target_name.at == NULL || delivery_sign(out, &target, arena) != 0) {
        return FAULT_MEMORY;
    }
    return fill_headers(attempt, &target, id);
}
