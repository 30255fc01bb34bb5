/* SPDX-License-Identifier: MIT
 *
 * test_engine_ahead -- a wall clock that was ahead once. Ids only grow, so those that come afterwards lie
 * ahead too; nothing else goes by them.
 */
#include "engine_rig.h"
#include "harness.h"

#include "task/id.h"

#define YEAR_MS    (INT64_C(365) * 86400000)
#define MANY       1700 /* more than three pages of the janitor */
#define KEEP_MS    100000
#define ROUND_MS   10000
#define QUICKLY_MS 1000

static struct rig rig;
static int64_t ahead_ms;

static int64_t wall(const struct clock *clock)
{
    return ((const struct rig *)clock)->now_ms + ahead_ms;
}

static struct rig_answer succeed(struct rig *of, uint32_t attempt)
{
    (void)of;
    (void)attempt;
    return (struct rig_answer){.status = 200, .sent = TASK_SENT_YES};
}

static void open_ahead(void)
{
    rig = (struct rig){.keep_ms = KEEP_MS, .sends_max = MANY + 10, .backlog_max = 10000};
    rig_open(&rig, "sync");
    rig.answer = succeed;
    rig.clock.wall_ms = wall;
    ahead_ms = YEAR_MS;
    rig_submit(&rig, "ahead", "x", 0, 0);
    ahead_ms = 0;
}

static uint64_t succeeded(void)
{
    rig_ask(&rig, ASK_QUEUE);
    return rig.queue_counts[TASK_SUCCEEDED];
}

static void what_was_made_after_it_is_forgotten_in_time(void **state)
{
    (void)state;
    open_ahead();
    for (int i = 0; i < MANY; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
    assert_true(id_created_ms(rig.id.row) >= RIG_START_MS + YEAR_MS);
    assert_int_equal(succeeded(), MANY + 1);
    rig_pass(&rig, KEEP_MS);
    rig_wait(&rig, ROUND_MS + QUICKLY_MS); /* one round, however many pages it has */
    assert_int_equal(succeeded(), 1);      /* settled in that future, and kept as long */
    rig_close(&rig);
}

static void it_is_told_once_in_a_while(void **state)
{
    (void)state;
    open_ahead();
    rig_wait(&rig, ROUND_MS);
    const char *told = strstr(rig.log_text, "clock_was_ahead");
    assert_non_null(told);
    assert_null(strstr(told + 1, "clock_was_ahead"));
    rig_restart(&rig);
    rig_wait(&rig, ROUND_MS);
    assert_non_null(strstr(told + 1, "clock_was_ahead"));
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_made_after_it_is_forgotten_in_time),
        cmocka_unit_test(it_is_told_once_in_a_while),
    };
    return HARNESS_RUN(argc, argv, tests);
}
