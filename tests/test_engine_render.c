/* SPDX-License-Identifier: MIT
 *
 * Answers that are rendered by whoever reads, before the engine has them back.
 */
#include "harness.h"

#include "engine_rig.h"

#include <stdio.h>

static int render_count;

static int render(void *user, const struct reply *reply, struct buf *out)
{
    (void)user;
    render_count++;
    return buf_addf(out, "kind %d, %zu tasks, queue %.*s, at most %u", reply->kind,
                    reply->record_count,
                    SPAN_ARGS(reply->queue_count > 0 ? reply->queues[0].name : SPAN("-")),
                    reply->queue_count > 0 ? reply->queues[0].attempts_max : 0);
}

static int render_nothing(void *user, const struct reply *reply, struct buf *out)
{
    (void)user, (void)reply, (void)out;
    return FAULT_LIMIT;
}

static void open_rig(struct rig *rig, engine_render_fn with)
{
    *rig = (struct rig){.render = with};
    rig_open(rig, "sync");
    render_count = 0;
}

static void ask_list(struct rig *rig)
{
    engine_ask(rig->engine, &(struct ask){.kind = ASK_LIST,
                                          .exchange = 2,
                                          .queue = SPAN(RIG_QUEUE),
                                          .filter = {.states = STORE_ALL_STATES, .limit = 10}});
    rig_settle(rig);
}

/* Engineering 2.5. */
static void lists_and_tasks_come_back_rendered(void **state)
{
    char wanted[128];
    struct rig rig;

    (void)state;
    open_rig(&rig, render);
    rig_submit(&rig, "k", "a", 60000, 0);
    rig_submit(&rig, "", "b", 60000, 0);
    assert_string_equal(rig.rendered, "");
    ask_list(&rig);
    snprintf(wanted, sizeof wanted, "kind %d, 2 tasks, queue q, at most 10", REPLY_LIST);
    assert_string_equal(rig.rendered, wanted);
    rig_ask(&rig, ASK_TASK);
    snprintf(wanted, sizeof wanted, "kind %d, 1 tasks, queue -, at most 0", REPLY_TASK);
    assert_string_equal(rig.rendered, wanted);
    rig_submit(&rig, "k", "a", 60000, 0);
    snprintf(wanted, sizeof wanted, "kind %d, 1 tasks, queue -, at most 0", REPLY_DUPLICATE);
    assert_string_equal(rig.rendered, wanted);
    rig.id.row++;
    rig_ask(&rig, ASK_TASK);
    assert_int_equal(rig.reply_kind, REPLY_UNKNOWN_TASK);
    assert_string_equal(rig.rendered, "");
    rig_close(&rig);
}

static void what_nobody_is_told_is_not_rendered(void **state)
{
    struct rig rig;

    (void)state;
    open_rig(&rig, render);
    rig_submit(&rig, "", "a", 60000, 0);
    struct ask ask = {.kind = ASK_TASK, .exchange = 3, .id = rig.id, .wait_ms = 500};
    engine_ask(rig.engine, &ask);
    rig_settle(&rig);
    assert_int_equal(render_count, 0);
    rig_ask(&rig, ASK_CANCEL); /* wakes him */
    assert_int_equal(rig.life.state, TASK_CANCELLED);
    assert_int_equal(render_count, 2);
    rig_close(&rig);
}

static void an_answer_that_cannot_be_rendered_is_a_fault(void **state)
{
    struct rig rig;

    (void)state;
    open_rig(&rig, render_nothing);
    ask_list(&rig);
    assert_int_equal(rig.reply_kind, REPLY_FAULT);
    assert_int_equal(rig.error.fault, FAULT_MEMORY);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_tasks_come_back_rendered),
        cmocka_unit_test(what_nobody_is_told_is_not_rendered),
        cmocka_unit_test(an_answer_that_cannot_be_rendered_is_a_fault),
    };
    return HARNESS_RUN(argc, argv, tests);
}
