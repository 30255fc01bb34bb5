/* SPDX-License-Identifier: MIT
 *
 * Answers that are handed on as they come, many at a time: each is told what is its own, and those of
 * which there is nothing to tell cost nothing.
 */
#include "rig.h"
#include "harness.h"

#include "deliver/http_internal.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS 200
#define HEAD                                                                                       \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

static sem_t may_go_on;
static const struct target_step steps[] = {TARGET_READS, TARGET_WRITES(HEAD "5\r\nfirst\r\n"),
                                           TARGET_TELLS, TARGET_WRITES("6\r\nsecond\r\n0\r\n\r\n"),
                                           TARGET_REPEATS};
static const struct target_script scripts[] = {TARGET_SCRIPT(steps)};

struct crowd {
    struct rig rig; /* first */
    struct delivery deliveries[STREAMS];
    size_t heads[STREAMS], pieces[STREAMS], bytes[STREAMS];
    size_t told_count, told_wanted; /* pieces, of all */
};

static void wait_for_leave(void *user)
{
    (void)user;
    while (sem_wait(&may_go_on) != 0) {
    }
}

static struct http *http_of(struct crowd *crowd)
{
    return (struct http *)crowd->rig.deliver;
}

static void on_stream(void *user, struct delivery *delivery, struct span bytes)
{
    struct crowd *crowd = user;
    size_t n = (size_t)delivery->ticket;

    crowd->heads[n] += bytes.at == NULL;
    crowd->pieces[n] += bytes.at != NULL;
    crowd->bytes[n] += bytes.len;
    crowd->told_count += bytes.at != NULL;
    deliver_pull(crowd->rig.deliver, delivery);
    if (crowd->told_count == crowd->told_wanted) {
        loop_stop(crowd->rig.loop);
    }
}

static struct crowd *crowd_new(void)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);

    assert_non_null(crowd);
    assert_int_equal(sem_init(&may_go_on, 0, 0), 0);
    crowd->rig.options.stream = on_stream;
    crowd->rig.options.stream_user = crowd;
    rig_open(&crowd->rig,
             &(struct target_plan){.scripts = scripts, .count = 1, .told = wait_for_leave});
    crowd->told_wanted = STREAMS;
    for (size_t i = 0; i < STREAMS; i++) {
        crowd->deliveries[i] = rig_delivery(&crowd->rig, "POST");
        crowd->deliveries[i].is_proxied = true;
        crowd->deliveries[i].ticket = i;
        rig_send(&crowd->rig, &crowd->deliveries[i]);
    }
    loop_run(crowd->rig.loop); /* until each has had its first piece */
    for (size_t i = 0; i < STREAMS; i++) {
        assert_int_equal(crowd->heads[i], 1);
        assert_int_equal(crowd->bytes[i], strlen("first"));
    }
    return crowd;
}

static void crowd_free(struct crowd *crowd)
{
    rig_close(&crowd->rig);
    for (size_t i = 0; i < STREAMS; i++) {
        delivery_done(&crowd->deliveries[i]);
    }
    free(crowd);
}

static void let_go(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(sem_post(&may_go_on), 0);
    }
}

/* Counted, not timed: what there is to look at is what there is to tell. */
static void an_event_of_one_stream_looks_at_no_other(void **state)
{
    (void)state;
    struct crowd *crowd = crowd_new();
    size_t ended = 0;

    assert_null(http_of(crowd)->news); /* all are open, and silent */
    let_go(1);
    rig_wait(&crowd->rig, 1);
    assert_null(http_of(crowd)->news);
    assert_int_equal(crowd->told_count, STREAMS + 1);
    for (size_t i = 0; i < STREAMS; i++) {
        bool is_it = crowd->rig.last == &crowd->deliveries[i];
        assert_int_equal(crowd->bytes[i], strlen("first") + (is_it ? strlen("second") : 0));
        ended += is_it;
    }
    assert_int_equal(ended, 1);
    let_go(STREAMS - 1);
    rig_wait(&crowd->rig, STREAMS - 1);
    for (size_t i = 0; i < STREAMS; i++) {
        assert_int_equal(crowd->heads[i], 1);
        assert_int_equal(crowd->bytes[i], strlen("firstsecond"));
        assert_int_equal(crowd->deliveries[i].outcome.sent, TASK_SENT_YES);
        assert_null(crowd->deliveries[i].carrier);
    }
    assert_null(http_of(crowd)->streams);
    crowd_free(crowd);
}

static void what_is_back_can_be_pulled_and_cancelled_in_vain(void **state)
{
    (void)state;
    struct crowd *crowd = crowd_new();

    for (size_t i = 0; i < STREAMS; i += 2) {
        rig_cancel(&crowd->rig, &crowd->deliveries[i]);
    }
    rig_wait(&crowd->rig, STREAMS / 2);
    for (size_t i = 0; i < STREAMS; i += 2) {
        assert_int_equal(crowd->deliveries[i].outcome.sent, TASK_SENT_MAYBE);
        rig_cancel(&crowd->rig, &crowd->deliveries[i]);
        deliver_pull(crowd->rig.deliver, &crowd->deliveries[i]);
    }
    assert_null(http_of(crowd)->news);
    let_go(STREAMS);
    rig_wait(&crowd->rig, STREAMS / 2);
    for (size_t i = 1; i < STREAMS; i += 2) {
        assert_int_equal(crowd->bytes[i], strlen("firstsecond"));
    }
    crowd_free(crowd);
}

static void closing_drops_streams_that_are_open(void **state)
{
    (void)state;
    struct crowd *crowd = crowd_new();

    let_go(STREAMS);
    crowd_free(crowd);
}

#define LONG_BYTES (256u << 10)

struct lone {
    struct rig rig; /* first */
    size_t heads, bytes, largest, counted_max;
};

static void on_lone(void *user, struct delivery *delivery, struct span bytes)
{
    struct lone *lone = user;
    size_t counted = atomic_load(&lone->rig.options.room->bytes);

    lone->heads += bytes.at == NULL;
    lone->bytes += bytes.len;
    lone->largest = bytes.len > lone->largest ? bytes.len : lone->largest;
    lone->counted_max = counted > lone->counted_max ? counted : lone->counted_max;
    deliver_pull(lone->rig.deliver, delivery);
}

/* One answer of LONG_BYTES through a room of bytes_max, of which `taken` are another's. */
static void carry_long(struct lone *lone, size_t bytes_max, size_t taken, size_t response_max)
{
    static char text[LONG_BYTES + 100];
    struct room room;
    int head =
        snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %u\r\n\r\n", LONG_BYTES);
    struct target_step parts[] = {
        TARGET_READS,
        {.act = TARGET_WRITE, .bytes = text, .len = (size_t)head + LONG_BYTES},
        TARGET_REPEATS};
    const struct target_script script[] = {TARGET_SCRIPT(parts)};

    memset(text + head, 'x', LONG_BYTES);
    *lone = (struct lone){0};
    room_init(&room, bytes_max);
    assert_true(room_take(&room, 0, taken));
    lone->rig.options.stream = on_lone;
    lone->rig.options.stream_user = lone;
    lone->rig.options.room = &room;
    rig_open(&lone->rig, &(struct target_plan){.scripts = script, .count = 1});
    struct delivery delivery = rig_delivery(&lone->rig, "POST");
    delivery.is_proxied = true;
    delivery.response_max = response_max;
    rig_carry_out(&lone->rig, &delivery);
    assert_int_equal(delivery.outcome.sent, TASK_SENT_YES);
    assert_int_equal(delivery.response_body.len + lone->bytes, LONG_BYTES);
    room_give(&room, taken);
    assert_int_equal(atomic_load(&room.bytes), 0);
    delivery_done(&delivery);
    rig_end(&lone->rig);
    rig_close(&lone->rig);
}

static void an_answer_without_room_is_handed_on_in_small_pieces(void **state)
{
    struct lone lone;

    (void)state;
    carry_long(&lone, 4 * LONG_BYTES, 0, LONG_BYTES); /* there is room: it is told as a whole */
    assert_int_equal(lone.heads, 0);
    carry_long(&lone, LONG_BYTES, 0, LONG_BYTES); /* and just enough */
    assert_int_equal(lone.heads, 0);
    carry_long(&lone, 4 * LONG_BYTES, 3 * LONG_BYTES, LONG_BYTES); /* the last quarter is others' */
    assert_int_equal(lone.heads, 1);
    assert_int_equal(lone.bytes, LONG_BYTES);
    assert_true(lone.largest <= ROOM_SMALL_BYTES);
}

static void what_was_collected_of_a_long_answer_is_counted_until_it_is_told(void **state)
{
    struct lone lone;

    (void)state;
    carry_long(&lone, 4 * LONG_BYTES, 0, LONG_BYTES / 2);
    assert_int_equal(lone.heads, 1);
    assert_int_equal(lone.bytes, LONG_BYTES);
    assert_true(lone.largest <= ROOM_SMALL_BYTES);
    assert_true(lone.counted_max > LONG_BYTES / 4 && lone.counted_max <= LONG_BYTES / 2);
}

#define EVENTS      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 5\r\n\r\n"
#define LARGE_BYTES (64u << 20) /* more than the kernel takes for a target that does not read */

struct sender {
    struct rig rig; /* first */
    bool was_spent; /* with the head */
};

static void on_head(void *user, struct delivery *delivery, struct span bytes)
{
    struct sender *sender = user;

    if (bytes.at == NULL) {
        sender->was_spent = delivery->is_body_spent;
        loop_stop(sender->rig.loop);
    }
}

static bool is_spent_at_head(const struct target_step *parts, size_t count, size_t body_bytes)
{
    const struct target_script script[] = {{.steps = parts, .count = count}};
    struct sender sender = {.was_spent = false};
    char *body = calloc(1, body_bytes);

    assert_non_null(body);
    sender.rig.options.stream = on_head;
    sender.rig.options.stream_user = &sender;
    rig_open(&sender.rig, &(struct target_plan){.scripts = script, .count = 1});
    struct delivery delivery = rig_delivery(&sender.rig, "POST");
    delivery.is_proxied = true;
    delivery.body = (struct span){.at = body, .len = body_bytes};
    rig_send(&sender.rig, &delivery);
    loop_run(sender.rig.loop);
    rig_cancel(&sender.rig, &delivery);
    rig_wait(&sender.rig, 1);
    rig_end(&sender.rig);
    rig_close(&sender.rig);
    delivery_done(&delivery);
    free(body);
    return sender.was_spent;
}

static void a_body_is_spent_once_it_has_gone_out(void **state)
{
    static const struct target_step after[] = {TARGET_READS, TARGET_WRITES(EVENTS), TARGET_HOLDS};
    static const struct target_step before[] = {TARGET_HEARS, TARGET_WRITES(EVENTS), TARGET_HOLDS};
    const size_t lens[] = {0, 1, 1000, 100000, 1u << 20};
    (void)state;

    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        assert_true(is_spent_at_head(after, 3, lens[i]));
    }
    assert_false(is_spent_at_head(before, 3, LARGE_BYTES));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_of_one_stream_looks_at_no_other),
        cmocka_unit_test(what_is_back_can_be_pulled_and_cancelled_in_vain),
        cmocka_unit_test(closing_drops_streams_that_are_open),
        cmocka_unit_test(an_answer_without_room_is_handed_on_in_small_pieces),
        cmocka_unit_test(what_was_collected_of_a_long_answer_is_counted_until_it_is_told),
        cmocka_unit_test(a_body_is_spent_once_it_has_gone_out),
    };

    return HARNESS_RUN(argc, argv, tests);
}
