/* SPDX-License-Identifier: MIT
 *
 * Many queues, made and dropped: those that are there are found, those that are gone leave room.
 */
#include "harness.h"

#include "engine_rig.h"

#include <stdio.h>
#include <string.h>

static struct rig rig; /* large */

static struct rig_answer answer_200(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 200};
}

static void open_rig(void)
{
    memset(&rig, 0, sizeof rig);
    rig.answer = answer_200;
    rig.keep_ms = 3600000;
    rig_open(&rig, "sync");
}

static enum reply_kind ask(enum ask_kind kind, int number)
{
    char name[32];

    (void)snprintf(name, sizeof name, "q-%d", number);
    engine_ask(
        rig.engine,
        &(struct ask){.kind = kind, .exchange = 3, .queue = span_of(name), .settings = SPAN("{}")});
    rig_settle(&rig);
    return rig.reply_kind;
}

static void queues_that_were_dropped_leave_room_for_others(void **state)
{
    (void)state;
    open_rig();
    for (int i = 0; i < ENGINE_QUEUES_MAX + 20; i++) {
        assert_int_equal(ask(ASK_QUEUE_PUT, i), REPLY_QUEUE);
        (void)ask(ASK_QUEUE_DELETE, i);
        assert_int_equal(ask(ASK_QUEUE, i), REPLY_UNKNOWN_QUEUE);
    }
    assert_int_equal(ask(ASK_QUEUE_PUT, 3), REPLY_QUEUE); /* a name that was there before */
    rig_submit_to(&rig, "q-3");
    assert_int_equal(rig.reply_kind, REPLY_CREATED);
    rig_close(&rig);
}

static void each_of_a_thousand_queues_is_found_and_one_more_is_refused(void **state)
{
    (void)state;
    open_rig(); /* has one already */
    for (int i = 1; i < ENGINE_QUEUES_MAX; i++) {
        assert_int_equal(ask(ASK_QUEUE_PUT, i), REPLY_QUEUE);
    }
    assert_int_equal(ask(ASK_QUEUE_PUT, ENGINE_QUEUES_MAX), REPLY_FAULT);
    rig_restart(&rig);
    for (int i = 1; i < ENGINE_QUEUES_MAX; i += 111) {
        char name[32];
        (void)snprintf(name, sizeof name, "q-%d", i);
        rig_submit_to(&rig, name);
        assert_int_equal(rig.reply_kind, REPLY_CREATED);
        assert_int_equal(ask(ASK_QUEUE, i), REPLY_QUEUE);
        assert_int_equal(rig.queue_counts[TASK_SUCCEEDED], 1);
    }
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_that_were_dropped_leave_room_for_others),
        cmocka_unit_test(each_of_a_thousand_queues_is_found_and_one_more_is_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
