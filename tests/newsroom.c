/* SPDX-License-Identifier: MIT
 *
 * newsroom -- see newsroom.h.
 */
#include "newsroom.h"

#include "harness.h"

#include <stdio.h>
#include <string.h>

static int64_t room_now(const struct clock *clock)
{
    return ((const struct newsroom *)clock)->now_ms;
}

static struct newsroom *room_of(struct deliver *inner)
{
    return (struct newsroom *)(void *)((char *)inner - offsetof(struct newsroom, inner));
}

static int provider_of(const struct newsroom *room, struct span url)
{
    for (int i = 0; i < ROOM_PROVIDERS; i++) {
        if (span_equal(span_until(url, room->settings[i].url.len), room->settings[i].url)) {
            return i;
        }
    }
    fail_msg("a call to nobody: %.*s", SPAN_ARGS(url));
    return 0;
}

static int inner_send(struct deliver *inner, struct delivery *delivery, struct error *err)
{
    struct newsroom *room = room_of(inner);
    int provider = provider_of(room, delivery->url);
    struct room_answer answer =
        room->answer != NULL ? room->answer(room, provider) : room->script[provider];

    if (answer.cannot_begin) {
        return fail(err, FAULT_MEMORY, "the deliverer is full");
    }
    assert_true(room->call_count < ROOM_CALLS_MAX);
    room->calls[room->call_count++] =
        (struct room_call){.delivery = delivery,
                           .answer = answer,
                           .ends_at_ms = room->now_ms + answer.takes_ms,
                           .provider = provider};
    if (room->called[0] + room->called[1] + room->called[2] < sizeof room->order - 1) {
        room->order[strlen(room->order)] = "oct"[provider];
    }
    room->called[provider]++;
    room->last_timeout_ms = delivery->timeout_ms;
    snprintf(room->last_headers, sizeof room->last_headers, "%.*s", SPAN_ARGS(delivery->headers));
    const char *key = strstr(room->last_headers, "secret-key-");
    room->last_key = key != NULL ? key[14] : '\0';
    return 0;
}

static void end_call(struct newsroom *room, size_t at)
{
    struct room_call call = room->calls[at];
    struct delivery *delivery = call.delivery;
    const char *body = call.answer.body;

    room->calls[at] = room->calls[--room->call_count];
    delivery->outcome = (struct outcome){
        .status = call.answer.status,
        .sent = call.answer.status != 0 ? TASK_SENT_YES : TASK_SENT_MAYBE,
        .timed_out = call.answer.is_timeout,
        .error_class = call.answer.is_forbidden ? DARUMA_CLASS_INVALID : DARUMA_CLASS_TRANSIENT,
        .hint_ms = call.answer.hint_ms,
        .has_hint = call.answer.hint_ms > 0};
    delivery->sends = 1;
    delivery->ended_at_ms = room->now_ms;
    buf_init(&delivery->response_headers, 10000);
    buf_init(&delivery->response_body, 10000);
    if (body == NULL && call.answer.status == 200) {
        body = call.provider == ROOM_CLAUDE ? ROOM_CLAUDE_OK : ROOM_OPENAI_OK;
    }
    (void)!buf_add(&delivery->response_headers, span_of(call.answer.headers)); /* without memory */
    (void)!buf_add(&delivery->response_body, span_of(body));                   /* none is kept */
    providers_delivered(room->providers, delivery);
}

static void inner_cancel(struct deliver *inner, struct delivery *delivery)
{
    struct newsroom *room = room_of(inner);

    for (size_t i = 0; i < room->call_count; i++) {
        if (room->calls[i].delivery == delivery) {
            room->calls[i].answer = (struct room_answer){0};
            room->calls[i].ends_at_ms = room->now_ms;
        }
    }
}

static void inner_close(struct deliver *inner)
{
    room_of(inner)->call_count = 0;
}

static void inner_pull(struct deliver *inner, struct delivery *delivery)
{
    (void)delivery;
    room_of(inner)->pull_count++;
}

static const struct deliver_ops inner_ops = {
    .send = inner_send, .cancel = inner_cancel, .close = inner_close, .pull = inner_pull};

static void wake_at(void *user, int64_t at_ms)
{
    ((struct newsroom *)user)->alarm_ms = at_ms;
}

static void note_alert(void *user, const struct provider_alert *alert)
{
    struct newsroom *room = user;

    room->alert = *alert;
    room->alert_count++;
}

static void note_done(void *user, struct delivery *delivery)
{
    struct newsroom *room = user;

    room->done_count++;
    if (room->done != NULL) {
        room->done(room->done_user, delivery);
    }
}

static void fill_settings(struct newsroom *room)
{
    static const char *const names[] = {"openai", "claude", "third"};

    for (int i = 0; i < ROOM_PROVIDERS; i++) {
        room->settings[i] = (struct provider_settings){.name = span_of(names[i]),
                                                       .kind = i == ROOM_CLAUDE ? PROVIDER_ANTHROPIC
                                                                                : PROVIDER_OPENAI,
                                                       .url = span_of(names[i]),
                                                       .model = SPAN("m"),
                                                       .keys = {SPAN(ROOM_KEY), SPAN(ROOM_KEY_2)},
                                                       .key_count = i == ROOM_OPENAI ? 2 : 1,
                                                       .user = SPAN("{content}"),
                                                       .version = SPAN("v"),
                                                       .headers = SPAN(""),
                                                       .timeout_ms = PROVIDER_TIMEOUT_MS};
        room->fallback.providers[i] = &room->settings[i];
        room->script[i] = (struct room_answer){.status = 200};
    }
    room->fallback.provider_count = 2;
    room->fallback.wait_under_ms = FALLBACK_WAIT_UNDER_MS;
}

void room_open(struct newsroom *room)
{
    struct error err = {0};

    *room = (struct newsroom){.clock = {room_now, room_now},
                              .inner = {&inner_ops},
                              .now_ms = ROOM_START_MS,
                              .dice = daruma_dice_seed(7),
                              .alarm_ms = INT64_MAX};
    fill_settings(room);
    const struct providers_options options = {.providers = room->settings,
                                              .provider_count = ROOM_PROVIDERS,
                                              .clock = &room->clock,
                                              .dice = &room->dice,
                                              .wake_at = wake_at,
                                              .alert = note_alert,
                                              .user = room};
    assert_int_equal(providers_open(&options, note_done, room, &room->providers, &err), 0);
    providers_set_inner(room->providers, &room->inner);
    room->deliver = providers_deliver(room->providers);
}

void room_close(struct newsroom *room)
{
    deliver_close(room->deliver);
}

struct delivery room_delivery(struct newsroom *room)
{
    return (struct delivery){.body = SPAN(ROOM_ARTICLE),
                             .response_max = 100000,
                             .fallback = &room->fallback,
                             .task_id_text = SPAN("task-1"),
                             .repeatable = true};
}

void room_send(struct newsroom *room, struct delivery *delivery)
{
    size_t before = room->done_count;

    assert_int_equal(deliver_send(room->deliver, delivery, NULL), 0);
    assert_int_equal(room->done_count, before); /* never from inside send */
}

int64_t room_next_ms(const struct newsroom *room)
{
    int64_t next_ms = room->alarm_ms;

    for (size_t i = 0; i < room->call_count; i++) {
        next_ms = room->calls[i].ends_at_ms < next_ms ? room->calls[i].ends_at_ms : next_ms;
    }
    return next_ms;
}

void room_happen(struct newsroom *room)
{
    for (size_t i = 0; i < room->call_count;) {
        if (room->calls[i].ends_at_ms <= room->now_ms) {
            end_call(room, i);
            i = 0; /* what it led to may be over as well */
        } else {
            i++;
        }
    }
    if (room->alarm_ms <= room->now_ms) {
        room->alarm_ms = INT64_MAX;
        providers_tick(room->providers);
    }
}

bool room_step(struct newsroom *room)
{
    int64_t next_ms = room_next_ms(room);

    if (next_ms == INT64_MAX) {
        return false;
    }
    room->now_ms = next_ms > room->now_ms ? next_ms : room->now_ms;
    room_happen(room);
    return true;
}

void room_pass(struct newsroom *room, int64_t ms)
{
    int64_t until_ms = room->now_ms + ms;

    while (room_next_ms(room) <= until_ms) {
        (void)room_step(room); /* there is one */
    }
    room->now_ms = until_ms;
}

bool room_has(struct span bytes, const char *text)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (span_starts(span_from(bytes, i), text)) {
            return true;
        }
    }
    return false;
}

struct delivery room_carry_out(struct newsroom *room)
{
    struct delivery delivery = room_delivery(room);
    size_t before = room->done_count;

    room_send(room, &delivery);
    while (room->done_count == before && room_step(room)) {
    }
    assert_int_equal(room->done_count, before + 1);
    return delivery;
}
