/* SPDX-License-Identifier: MIT
 *
 * The numbers of runs and redrives among nodes: each is given once, whatever became of its node.
 */
#include "engine/engine_internal.h"
#include "engine_rig.h"
#include "harness.h"

#define FAR_MS 1000000

static struct rig rig; /* large */

static void renew_the_lease(void)
{
    rig_be_one_of(&rig, 0, 2);
}

static void expect(enum reply_kind run, enum reply_kind redrive)
{
    const struct ask asks[] = {
        {.kind = ASK_QUEUE_RUN, .exchange = 3, .queue = SPAN("q")},
        {.kind = ASK_REDRIVE_MANY, .exchange = 4, .queue = SPAN("q")},
    };

    assert_int_equal(rig_full_ask(&rig, &asks[0])->kind, run);
    assert_int_equal(rig_full_ask(&rig, &asks[1])->kind, redrive);
}

/* A peer may have been given this node's part of the numbers since: two runs or redrives of one number
 * would be taken for one. */
static void a_node_whose_lease_is_over_numbers_no_runs_or_redrives(void **state)
{
    static const struct store_nodes nodes = {.counts = rig_count_nothing};
    (void)state;

    rig = (struct rig){.keep_ms = 100000};
    rig_open(&rig, "default");
    rig.store->nodes = &nodes;
    rig.store->node_lease_ms = FAR_MS;
    renew_the_lease();
    expect(REPLY_RUN, REPLY_REDRIVE);
    rig.now_ms += FAR_MS;
    expect(REPLY_FAULT, REPLY_FAULT);
    renew_the_lease();
    expect(REPLY_RUN, REPLY_REDRIVE);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_whose_lease_is_over_numbers_no_runs_or_redrives),
    };
    return HARNESS_RUN(argc, argv, tests);
}
