/* SPDX-License-Identifier: MIT
 *
 * Answers that are handed on as they come, many at a time: each is told what is its own, and those of
 * which there is nothing to tell cost nothing.
 */
#include "rig.h"
#include "harness.h"

#include "deliver/http_internal.h"

#include <semaphore.h>
#include <stdlib.h>

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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_of_one_stream_looks_at_no_other),
        cmocka_unit_test(what_is_back_can_be_pulled_and_cancelled_in_vain),
        cmocka_unit_test(closing_drops_streams_that_are_open),
    };

    return HARNESS_RUN(argc, argv, tests);
}
