/* SPDX-License-Identifier: MIT
 *
 * The engine in a hostile world: DARUMA_SIM_SEEDS seeds, each a life of submissions, commits that
 * fail, deliveries that fail, crashes and clocks that jump, with the invariants checked after each
 * step. DARUMA_SEED=N DARUMA_SIM_SEEDS=1 plays one again.
 */
#include "harness.h"

#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SEEDS 2000
#define STEPS 250

static void invariants_hold_through_crashes_and_faults(void **state) /* I1-I9 */
{
    uint64_t first = harness_seed(), count = harness_size("DARUMA_SIM_SEEDS", SEEDS);
    static struct sim world; /* large */
    struct sim *sim = &world;
    uint64_t crashes = 0, faults = 0, steps = 0, sent = 0, leased = 0, expired = 0, redriven = 0;
    uint64_t resolved = 0, callbacks = 0, outages = 0, routed = 0, replayed = 0, probes = 0;
    uint64_t released = 0, streams = 0, conflicts = 0, expired_keys = 0;

    (void)state;
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!sim_run(sim, seed, STEPS)) {
            fail_msg("seed %" PRIu64 ", step %" PRIu64 ": %s\nplay it again: DARUMA_SEED=%" PRIu64
                     " DARUMA_SIM_SEEDS=1 tests/test_simulation",
                     seed, sim->steps, sim->failure, seed);
        }
        crashes += sim->crashes;
        faults += sim->faults;
        steps += sim->steps;
        sent += sim->seen.sent;
        leased += sim->seen.leased;
        expired += sim->seen.expired_leases;
        redriven += sim->seen.redriven;
        resolved += sim->seen.resolved;
        callbacks += sim->seen.callbacks;
        outages += sim->seen.outages;
        routed += sim->seen.routed;
        replayed += sim->seen.replayed;
        probes += sim->seen.probes;
        released += sim->seen.released;
        streams += sim->seen.streams;
        conflicts += sim->seen.conflicts;
        expired_keys += sim->seen.expired_keys;
    }
    printf("%" PRIu64 " seeds: %" PRIu64 " steps, %" PRIu64 " crashes, %" PRIu64 " store faults\n",
           count, steps, crashes, faults);
    printf("%" PRIu64 " sent, %" PRIu64 " leased, %" PRIu64 " leases expired, %" PRIu64
           " redriven, %" PRIu64 " resolved, %" PRIu64 " callbacks, %" PRIu64 " outages\n",
           sent, leased, expired, redriven, resolved, callbacks, outages);
    printf("%" PRIu64 " told to callers of the gateway: %" PRIu64 " replays, %" PRIu64
           " conflicts, %" PRIu64 " streams, %" PRIu64 " expired; %" PRIu64 " probes, %" PRIu64
           " keys released\n",
           routed, replayed, conflicts, streams, expired_keys, probes, released);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invariants_hold_through_crashes_and_faults),
    };
    return HARNESS_RUN(argc, argv, tests);
}
