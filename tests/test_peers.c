/* SPDX-License-Identifier: MIT
 *
 * test_peers -- who is alive, told from counters and our own clock.
 */
#include "harness.h"
#include "store/peers.h"

#define LEASE_MS 10000
#define GAP_MS   5000
#define OWN      5

static void look(struct peers *peers, int64_t now_ms, int64_t own_beat, int64_t other_beat)
{
    const struct peer seen[] = {{.epoch = OWN, .beat = own_beat}, {.epoch = 7, .beat = other_beat}};

    peers_look(peers, seen, 2, now_ms, GAP_MS);
}

static bool is_dead(const struct peers *peers, int64_t now_ms)
{
    const struct peer *dead = peers_dead(peers, OWN, now_ms, LEASE_MS);

    return dead != NULL && dead->epoch == 7;
}

/* E7: as watched by a connected peer. */
static void a_counter_that_stands_still_for_the_lease_is_a_dead_nodes(void **state)
{
    struct peers peers = {0};
    int64_t now_ms = 1;
    (void)state;

    for (; now_ms <= LEASE_MS; now_ms += 1000) {
        look(&peers, now_ms, now_ms, 3);
        assert_false(is_dead(&peers, now_ms));
    }
    look(&peers, now_ms, now_ms, 3);
    assert_true(is_dead(&peers, now_ms));
    look(&peers, now_ms + 1000, now_ms, 4); /* it moves: it was only slow */
    assert_false(is_dead(&peers, now_ms + 1000));
}

static void a_counter_that_moves_in_any_direction_is_a_live_nodes(void **state)
{
    struct peers peers = {0};
    (void)state;

    for (int64_t now_ms = 1; now_ms < 100 * LEASE_MS; now_ms += 4000) {
        look(&peers, now_ms, 1, now_ms % 3);
        assert_false(is_dead(&peers, now_ms));
    }
}

/* Engineering 1.9: after an outage of the store nobody's lease is over at once. */
static void whoever_was_away_begins_to_watch_anew(void **state)
{
    struct peers peers = {0};
    int64_t back_ms = 1 + 100 * LEASE_MS;
    (void)state;

    look(&peers, 1, 1, 3);
    look(&peers, back_ms, 2, 3);
    assert_false(is_dead(&peers, back_ms));
    look(&peers, back_ms + 4000, 3, 3);
    look(&peers, back_ms + 8000, 4, 3);
    assert_false(is_dead(&peers, back_ms + LEASE_MS - 1));
    assert_true(is_dead(&peers, back_ms + LEASE_MS));
}

static void a_node_is_never_dead_to_itself(void **state)
{
    const struct peer own = {.epoch = OWN, .beat = 1};
    struct peers peers = {0};
    (void)state;

    for (int64_t now_ms = 1; now_ms < 10 * LEASE_MS; now_ms += 1000) {
        peers_look(&peers, &own, 1, now_ms, GAP_MS);
        assert_null(peers_dead(&peers, OWN, now_ms, LEASE_MS));
    }
}

static void who_is_gone_is_forgotten(void **state)
{
    const struct peer own = {.epoch = OWN, .beat = 1};
    struct peers peers = {0};
    (void)state;

    look(&peers, 1, 1, 3);
    peers_look(&peers, &own, 1, 1000, GAP_MS);
    assert_int_equal(peers.count, 1);
    look(&peers, 2000, 1, 3); /* the same epoch again would be somebody who came back */
    assert_false(is_dead(&peers, 2000 + LEASE_MS - 1));
}

/* Who joins takes a share only when every older node has looked since: then the sum of all shares is
 * never above the limit. */
static void a_node_settles_in_when_all_older_ones_have_looked_twice(void **state)
{
    const struct peer seen[] = {{.epoch = 3, .beat = 10}, {.epoch = OWN, .beat = 1}, {7, 1, 0, 0}};
    struct peers peers = {0};
    (void)state;

    peers_look(&peers, seen, 3, 1, GAP_MS);
    assert_false(peers_have_seen_us(&peers, OWN));
    struct peer later[] = {seen[0], seen[1], seen[2]};
    later[0].beat = 11;
    peers_look(&peers, later, 3, 1000, GAP_MS);
    assert_false(peers_have_seen_us(&peers, OWN)); /* that beat may have begun before we came */
    later[0].beat = 12;
    peers_look(&peers, later, 3, 2000, GAP_MS);
    assert_true(peers_have_seen_us(&peers, OWN)); /* younger ones wait for us, not we for them */
    peers_look(&peers, later + 1, 2, 3000, GAP_MS);
    assert_true(peers_have_seen_us(&peers, OWN));
}

static void more_nodes_than_there_is_room_for_do_no_harm(void **state)
{
    struct peer many[PEERS_MAX + 9];
    struct peers peers = {0};
    (void)state;

    for (size_t i = 0; i < PEERS_MAX + 9; i++) {
        many[i] = (struct peer){.epoch = 100 + i, .beat = 1};
    }
    peers_look(&peers, many, PEERS_MAX + 9, 1, GAP_MS);
    assert_int_equal(peers.count, PEERS_MAX);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_that_stands_still_for_the_lease_is_a_dead_nodes),
        cmocka_unit_test(a_counter_that_moves_in_any_direction_is_a_live_nodes),
        cmocka_unit_test(whoever_was_away_begins_to_watch_anew),
        cmocka_unit_test(a_node_is_never_dead_to_itself),
        cmocka_unit_test(who_is_gone_is_forgotten),
        cmocka_unit_test(a_node_settles_in_when_all_older_ones_have_looked_twice),
        cmocka_unit_test(more_nodes_than_there_is_room_for_do_no_harm),
    };
    return HARNESS_RUN(argc, argv, tests);
}
