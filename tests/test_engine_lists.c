/* SPDX-License-Identifier: MIT
 *
 * How many lists and bulk commands callers may have under way, and that what needs one task is read
 * all the same. How many redrives and runs may be live, and that no caller takes the places of the others.
 */
#include "harness.h"

#include "engine_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTS       4 /* of which one caller has three */
#define LIVE        100
#define LIMITED     25 /* of a token that is limited to queues */
#define OF_QUEUE    10 /* runs */
#define BEGINS_MAX  200
#define QUEUE_MANY  12
#define REDRIVE_MAX 2000000000 /* a letter takes so long, ms */

static struct rig rig; /* large */

static const struct rig_reply *ask(enum ask_kind kind, uint64_t exchange, const char *who)
{
    return rig_full_ask(&rig, &(struct ask){.kind = kind,
                                            .exchange = exchange,
                                            .who = span_of(who),
                                            .filter = {.states = STORE_ALL_STATES, .limit = 10},
                                            .audit = {.limit = 10}});
}

static void open_rig(void)
{
    rig = (struct rig){.lists_max = LISTS};
    rig_open(&rig, "default");
    rig_submit(&rig, "", "{}", 100000, 0);
    rig_settle(&rig);
    rig.holds_reads = true;
}

/* Those that were held come back. */
static void let_go(void)
{
    rig.holds_reads = false;
    rig_settle(&rig);
}

static void lists_above_the_limit_are_refused_and_single_tasks_are_read(void **state)
{
    (void)state;
    open_rig();
    for (uint64_t exchange = 2; exchange < 5; exchange++) {
        assert_int_equal(ask(ASK_LIST, exchange, "a")->count, 0);
    }
    assert_int_equal(ask(ASK_LIST, 5, "a")->kind, REPLY_FAULT); /* the place of another caller */
    assert_int_equal(rig.error.fault, FAULT_FULL);
    assert_int_equal(ask(ASK_AUDIT, 6, "b")->count, 0);
    assert_int_equal(ask(ASK_LIST, 7, "b")->kind, REPLY_FAULT);
    assert_int_equal(ask(ASK_UNSETTLED, 8, "c")->kind, REPLY_FAULT);
    rig_full_ask(&rig, &(struct ask){.kind = ASK_TASK, .exchange = 9, .id = rig.id});
    assert_int_equal(rig.replies[9].count, 0); /* being read */
    let_go();
    assert_int_equal(rig.replies[9].kind, REPLY_TASK);
    assert_int_equal(rig.replies[2].kind, REPLY_LIST);
    assert_int_equal(rig.replies[2].record_count, 1);
    assert_int_equal(rig.replies[6].kind, REPLY_AUDIT);
    assert_int_equal(ask(ASK_LIST, 5, "a")->kind, REPLY_LIST); /* there is room again */
    rig_close(&rig);
}

static void bulk_commands_have_places_of_their_own(void **state)
{
    (void)state;
    open_rig();
    for (uint64_t exchange = 2; exchange < 5; exchange++) {
        assert_int_equal(ask(ASK_LIST, exchange, "a")->count, 0);
    }
    assert_int_equal(ask(ASK_LIST, 5, "b")->count, 0);
    for (uint64_t exchange = 6; exchange < 6 + LISTS / 2; exchange++) {
        assert_int_equal(ask(ASK_QUEUE_RUN, exchange, "a")->count, 0);
        assert_int_equal(ask(ASK_REDRIVE_MANY, 10 + exchange, "a")->count, 0);
    }
    assert_int_equal(ask(ASK_QUEUE_PURGE, 20, "b")->kind, REPLY_FAULT);
    assert_int_equal(rig.error.fault, FAULT_FULL);
    assert_non_null(strstr(rig.error.text, "bulk commands"));
    assert_int_equal(ask(ASK_REDRIVE_MANY, 21, "b")->kind, REPLY_FAULT);
    let_go();
    assert_int_equal(rig.replies[6].kind, REPLY_RUN);
    assert_int_equal(rig.replies[16].kind, REPLY_REDRIVE);
    assert_int_equal(ask(ASK_QUEUE_PURGE, 20, "b")->kind, REPLY_QUEUE);
    rig_close(&rig);
}

/* --- what lasts ---------------------------------------------------------------------------------------- */

static struct rig_answer refuse(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 400};
}

/* Two dead letters. */
static void open_with_letters(void)
{
    rig = (struct rig){.answer = refuse, .keep_ms = REDRIVE_MAX};
    rig_open(&rig, "sync");
    rig_submit(&rig, "", "one", 0, 0);
    rig_submit(&rig, "", "other", 0, 0);
    rig_pass(&rig, 1000);
}

static const struct rig_reply *begin(const char *who, bool is_limited, bool is_dry)
{
    static const struct span own = {RIG_QUEUE, sizeof RIG_QUEUE - 1};

    return rig_full_ask(&rig, &(struct ask){.kind = ASK_REDRIVE_MANY,
                                            .exchange = 5,
                                            .who = span_of(who),
                                            .reach = {&own, is_limited, false},
                                            .rate_per_second = 0.001,
                                            .dry_run = is_dry});
}

/* How many begin before one is refused. */
static size_t begin_all(const char *who, bool is_limited)
{
    for (size_t count = 0; count < BEGINS_MAX; count++) {
        if (begin(who, is_limited, false)->kind != REPLY_REDRIVE) {
            assert_int_equal(rig.error.fault, FAULT_FULL);
            return count;
        }
    }
    return BEGINS_MAX;
}

static uint64_t last_told(void)
{
    const char *at = strstr(rig.error.text, "cancel one: ");

    assert_non_null(at);
    return strtoull(at + strlen("cancel one: "), NULL, 10);
}

static const struct rig_reply *cancel(uint64_t id)
{
    return rig_full_ask(
        &rig, &(struct ask){.kind = ASK_REDRIVE_CANCEL, .exchange = 6, .id = {.row = (int64_t)id}});
}

static void live_redrives_are_bounded_and_leave_room_to_others(void **state)
{
    (void)state;
    open_with_letters();
    assert_int_equal(begin_all("ann", true), LIMITED);
    assert_int_equal(begin_all("bob", true), LIMITED);
    assert_int_equal(begin_all("ops", false), LIVE - 2 * LIMITED);
    assert_int_equal(begin("ops", false, true)->kind, REPLY_REDRIVE); /* a dry run does not last */
    assert_int_equal(rig.replies[5].redrive.matched, 2);
    assert_int_equal(begin_all("ops", false), 0);
    assert_int_equal(cancel(last_told())->kind, REPLY_REDRIVE);
    assert_string_equal(rig.replies[6].redrive.state, "cancelled");
    assert_int_equal(begin_all("ops", false), 1);
    rig_close(&rig);
}

static void what_ends_makes_room_for_another_redrive(void **state)
{
    (void)state;
    open_with_letters();
    assert_int_equal(begin_all("ann", true), LIMITED);
    rig_wait(&rig, 3000000); /* the two letters at their rate */
    assert_int_equal(begin_all("ann", true), LIMITED);
    rig_close(&rig);
}

static void a_start_goes_on_with_all_redrives_there_are(void **state) /* I8 */
{
    (void)state;
    open_with_letters();
    assert_int_equal(begin_all("ann", true), LIMITED);
    rig_restart(&rig);
    assert_int_equal(begin_all("ann", true), 0);
    assert_int_equal(begin_all("ops", false), LIVE - LIMITED);
    rig_wait(&rig, 1000);
    assert_int_equal(cancel(last_told())->kind, REPLY_REDRIVE);
    assert_int_equal(begin_all("ops", false), 1);
    rig_close(&rig);
}

static void prepare_pull(struct rig *self)
{
    self->settings.target_count = 0;
}

/* Queues that are pulled, each with a task that no worker takes; the first one is the rig's. */
static void open_with_stuck(void)
{
    char name[16];

    rig = (struct rig){.prepare = prepare_pull, .keep_ms = REDRIVE_MAX};
    rig_open(&rig, "sync");
    rig_submit(&rig, "", "stuck", 0, 0);
    for (int i = 1; i < QUEUE_MANY; i++) {
        (void)snprintf(name, sizeof name, "q%d", i);
        (void)rig_full_ask(&rig, &(struct ask){.kind = ASK_QUEUE_PUT,
                                               .exchange = 3,
                                               .queue = span_of(name),
                                               .settings = SPAN("{}")});
        assert_int_equal(rig.replies[3].kind, REPLY_QUEUE);
        rig_submit_to(&rig, name);
    }
}

static size_t run_all(const char *queue, const char *who, bool is_limited)
{
    static const struct span own = {"q*", 2};

    for (size_t count = 0; count < BEGINS_MAX; count++) {
        const struct rig_reply *reply =
            rig_full_ask(&rig, &(struct ask){.kind = ASK_QUEUE_RUN,
                                             .exchange = 5,
                                             .queue = span_of(queue),
                                             .who = span_of(who),
                                             .reach = {&own, is_limited, false}});
        if (reply->kind != REPLY_RUN) {
            assert_int_equal(rig.error.fault, FAULT_FULL);
            return count;
        }
    }
    return BEGINS_MAX;
}

static void live_runs_are_bounded_and_leave_room_to_others(void **state)
{
    char name[16];
    size_t count = 0;

    (void)state;
    open_with_stuck();
    assert_int_equal(run_all(RIG_QUEUE, "ann", true), OF_QUEUE);
    assert_int_equal(run_all(RIG_QUEUE, "ops", false), 0); /* of the queue */
    assert_non_null(strstr(rig.error.text, "of this queue"));
    assert_int_equal(run_all("q1", "ann", true), OF_QUEUE);
    assert_int_equal(run_all("q2", "ann", true), LIMITED - 2 * OF_QUEUE);
    for (int i = 2; i < QUEUE_MANY; i++) {
        (void)snprintf(name, sizeof name, "q%d", i);
        count += run_all(name, "ops", false);
    }
    assert_int_equal(count, LIVE - LIMITED);
    assert_non_null(strstr(rig.error.text, "too many runs"));
    rig_close(&rig);
}

static void a_refused_run_leaves_no_trace_and_one_that_ends_makes_room(void **state)
{
    (void)state;
    open_with_stuck();
    assert_int_equal(run_all(RIG_QUEUE, "ann", true), OF_QUEUE);
    rig.log_text[0] = '\0';
    assert_int_equal(run_all(RIG_QUEUE, "bob", true), 0);
    assert_null(strstr(rig.log_text, "queue_length"));
    (void)rig_full_ask(&rig,
                       &(struct ask){.kind = ASK_AUDIT, .exchange = 8, .audit = {.limit = 50}});
    assert_non_null(strstr(rig.replies[8].audit, "ann queue_run"));
    assert_null(strstr(rig.replies[8].audit, "bob"));

    rig_ask(&rig, ASK_QUEUE_PURGE);
    assert_int_equal(rig.reply_kind, REPLY_QUEUE);
    rig_submit(&rig, "", "stuck as well", 0, 0);
    assert_int_equal(run_all(RIG_QUEUE, "bob", true), OF_QUEUE);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_above_the_limit_are_refused_and_single_tasks_are_read),
        cmocka_unit_test(bulk_commands_have_places_of_their_own),
        cmocka_unit_test(live_redrives_are_bounded_and_leave_room_to_others),
        cmocka_unit_test(what_ends_makes_room_for_another_redrive),
        cmocka_unit_test(a_start_goes_on_with_all_redrives_there_are),
        cmocka_unit_test(live_runs_are_bounded_and_leave_room_to_others),
        cmocka_unit_test(a_refused_run_leaves_no_trace_and_one_that_ends_makes_room),
    };
    return HARNESS_RUN(argc, argv, tests);
}
