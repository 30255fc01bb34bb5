/* SPDX-License-Identifier: MIT
 *
 * Several engines on one store in a hostile world: DARUMA_SIM_SEEDS seeds, each a life of stopped and
 * crashed nodes, lost connections and lost commits, operators and workers at any node, with the
 * invariants checked after each step. DARUMA_SEED=N DARUMA_SIM_SEEDS=1 plays one again;
 * DARUMA_SIM_WITH=NAME,… (or all) adds to what the code is put to (struct fleet_options), and
 * DARUMA_SIM_TRACE=1 prints what happens, line by line.
 */
#include "harness.h"

#include "fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 1000
#define STEPS 600

/* What the code is put to here, and what is added to it by name. */
static const struct {
    const char *name;
    bool *option;
    bool is_held;
} options[] = {
    {"late_doubts", &fleet_options.late_doubts, true},
    {"renewed_leases", &fleet_options.renewed_leases, true},
    {"queue_targets", &fleet_options.queue_targets, true},
    {"empty_deletes", &fleet_options.empty_deletes, true},
    {"leftovers", &fleet_options.leftovers, true},
    {"stale_orphans", &fleet_options.stale_orphans, true},
    {"early_changes", &fleet_options.early_changes, true},
    {"dropped_reads", &fleet_options.dropped_reads, true},
    {"raced_changes", &fleet_options.raced_changes, true},
    {"failed_waits", &fleet_options.failed_waits, true},
    {"shared_slots", &fleet_options.shared_slots, true},
    {"lost_turns", &fleet_options.lost_turns, true},
    {"bulk_redrives", &fleet_options.bulk_redrives, true},
    {"many_hosts", &fleet_options.many_hosts, true},
    {"late_reads", &fleet_options.late_reads, true},
    {"held_answers", &fleet_options.held_answers, true},
};

static void choose_options(void)
{
    const char *wanted = getenv("DARUMA_SIM_WITH");

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        *options[i].option =
            options[i].is_held || (wanted != NULL && (strstr(wanted, options[i].name) != NULL ||
                                                      strcmp(wanted, "all") == 0));
    }
}

static void invariants_hold_among_nodes(void **state) /* I1-I8 */
{
    uint64_t first = harness_seed(), count = harness_size("DARUMA_SIM_SEEDS", SEEDS);
    uint64_t sent = 0, late = 0, crashes = 0, stops = 0, outages = 0, there = 0, gone = 0;
    uint64_t dropped = 0, claims = 0, recorded = 0, unknown = 0, acts = 0, leases = 0;
    uint64_t leaving = 0;
    int64_t calm_ms = 0;
    uint64_t calls = 0, routed = 0, streams = 0, held = 0, forgotten = 0, words = 0;
    static struct fleet world; /* large */
    struct fleet *fleet = &world;

    (void)state;
    choose_options();
    for (uint64_t seed = first; seed < first + count; seed++) {
        if (!fleet_run(fleet, seed, STEPS)) {
            fail_msg("seed %" PRIu64 ", step %" PRIu64 ": %s\nplay it again: DARUMA_SEED=%" PRIu64
                     " DARUMA_SIM_SEEDS=1 tests/test_simulation_nodes",
                     seed, fleet->steps, fleet->failure, seed);
        }
        sent += fleet->seen.sent;
        late += fleet->seen.late;
        crashes += fleet->seen.crashes;
        stops += fleet->seen.stops;
        outages += fleet->seen.outages;
        there += fleet->seen.lost_there;
        gone += fleet->seen.lost_gone;
        dropped += fleet->seen.dropped_nodes;
        claims += fleet->seen.claims;
        recorded += fleet->seen.recorded;
        unknown += fleet->seen.unknown;
        acts += fleet->seen.acts;
        leases += fleet->seen.leases;
        calls += fleet->seen.calls;
        routed += fleet->seen.routed;
        streams += fleet->seen.streams;
        held += fleet->seen.held;
        forgotten += fleet->seen.forgotten;
        words += fleet->seen.words;
        leaving += fleet->seen.leaving;
        calm_ms = fleet->seen.calm_ms > calm_ms ? fleet->seen.calm_ms : calm_ms;
    }
    printf("%" PRIu64 " seeds: %" PRIu64 " crashes, %" PRIu64 " stops, %" PRIu64
           " outages, %" PRIu64 " nodes taken for dead\n",
           count, crashes, stops, outages, dropped);
    printf("%" PRIu64 " recorded, %" PRIu64 " claimed, %" PRIu64 " sent, %" PRIu64
           " too late to send, %" PRIu64 " leases of workers, %" PRIu64 " acts\n",
           recorded, claims, sent, late, leases, acts);
    printf("%" PRIu64 " lost commits were there, %" PRIu64 " were not; %" PRIu64
           " callers were told 'unknown'\n",
           there, gone, unknown);
    printf("%" PRIu64 " replies to callers of the gateway, %" PRIu64
           " requests to its upstream, %" PRIu64 " streams\n",
           calls, routed, streams);
    printf("%" PRIu64 " replies from memory, %" PRIu64 " keys forgotten, %" PRIu64
           " words of peers\n",
           held, forgotten, words);
    printf("%" PRIu64 " nodes were told to stop; all was done %" PRId64
           " ms after the last fault\n",
           leaving, calm_ms);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invariants_hold_among_nodes),
    };
    return HARNESS_RUN(argc, argv, tests);
}
