/* SPDX-License-Identifier: MIT
 *
 * The simulation on PostgreSQL: the same lives, faults and crashes as in memory, with what PostgreSQL
 * has kept. DARUMA_SEED=N DARUMA_SIM_POSTGRES_SEEDS=1 plays one again.
 */
#include "harness.h"
#include "postgres_rig.h"

#include "sim.h"

#include <inttypes.h>
#include <stdio.h>

#define SEEDS       8
#define STEPS       250
#define CHECK_EVERY 20 /* each look is a question to the server for each task */
#define DATABASE    "simulated"

static void prepare(void)
{
    postgres_rig_new(DATABASE);
}

static void invariants_hold_through_crashes_and_faults_on_postgres(void **state) /* I1-I9, E7 */
{
    uint64_t first = harness_seed(), count = harness_size("DARUMA_SIM_POSTGRES_SEEDS", SEEDS);
    static struct sim sim; /* large */
    uint64_t crashes = 0, faults = 0, sent = 0, routed = 0;

    (void)state;
    sim_place = (struct sim_place){
        .spec = "postgres:" DATABASE, .prepare = prepare, .check_every = CHECK_EVERY};
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!sim_run(&sim, seed, STEPS)) {
            fail_msg("seed %" PRIu64 ", step %" PRIu64 ": %s", seed, sim.steps, sim.failure);
        }
        crashes += sim.crashes;
        faults += sim.faults;
        sent += sim.seen.sent;
        routed += sim.seen.routed;
    }
    printf("%" PRIu64 " seeds: %" PRIu64 " crashes, %" PRIu64 " store faults, %" PRIu64
           " sent, %" PRIu64 " told to callers of the gateway\n",
           count, crashes, faults, sent, routed);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invariants_hold_through_crashes_and_faults_on_postgres),
    };
    if (!postgres_rig_start()) {
        return 1;
    }
    int failed = HARNESS_RUN(argc, argv, tests);
    postgres_rig_stop();
    return failed;
}
