/* SPDX-License-Identifier: MIT
 *
 * How old the oldest of many is, against a list of all of them that is searched each time: what comes
 * and goes at random, in order and out of order, and what it costs in memory.
 */
#include "harness.h"

#include "engine/ages.h"

#include <daruma/dice.h>

#include <stdbool.h>
#include <stdlib.h>

#define START_MS INT64_C(1800000000000)
#define HOUR_MS  3600000
#define MANY     4000
#define STEPS    40000

static void nothing_has_no_age(void **state)
{
    struct ages ages = {0};

    (void)state;
    assert_int_equal(ages_oldest_ms(&ages), 0);
    ages_remove(&ages, START_MS);
    ages_add(&ages, 0, 1); /* not known when */
    ages_add(&ages, -5, 1);
    ages_add(&ages, START_MS, 0);
    assert_int_equal(ages_oldest_ms(&ages), 0);
    ages_done(&ages);
}

static void the_oldest_is_told_to_the_millisecond_until_it_goes(void **state)
{
    struct ages ages = {0};

    (void)state;
    ages_add(&ages, START_MS + 70001, 1);
    ages_add(&ages, START_MS + 7, 1);
    ages_add(&ages, START_MS + 5, 1);
    ages_add(&ages, START_MS + HOUR_MS, 1);
    assert_int_equal(ages_oldest_ms(&ages), START_MS + 5);
    ages_remove(&ages, START_MS + 5);
    assert_in_range(ages_oldest_ms(&ages), START_MS + 5, START_MS + 7); /* the same minute */
    ages_remove(&ages, START_MS + 7);
    assert_int_equal(ages_oldest_ms(&ages), START_MS + 70001);
    ages_remove(&ages, START_MS + HOUR_MS);
    ages_remove(&ages, START_MS + 70001);
    assert_int_equal(ages_oldest_ms(&ages), 0);
    ages_add(&ages, START_MS, 3);
    ages_remove(&ages, START_MS);
    assert_int_equal(ages_oldest_ms(&ages), START_MS);
    ages_clear(&ages);
    assert_int_equal(ages_oldest_ms(&ages), 0);
    ages_done(&ages);
}

static void what_was_never_counted_takes_none_away(void **state)
{
    struct ages ages = {0};

    (void)state;
    ages_add(&ages, START_MS, 1);
    ages_remove(&ages, START_MS + HOUR_MS);
    ages_remove(&ages, START_MS - HOUR_MS);
    assert_int_equal(ages_oldest_ms(&ages), START_MS);
    ages_done(&ages);
}

static int64_t oldest_of(const int64_t *at_ms, size_t count)
{
    int64_t oldest_ms = 0;

    for (size_t i = 0; i < count; i++) {
        oldest_ms = oldest_ms == 0 || at_ms[i] < oldest_ms ? at_ms[i] : oldest_ms;
    }
    return oldest_ms;
}

static void it_is_what_a_search_finds_to_within_a_slot(void **state)
{
    static int64_t there[MANY];
    struct daruma_dice dice = daruma_dice_seed(7);
    struct ages ages = {0};
    size_t count = 0;

    (void)state;
    for (int step = 0; step < STEPS; step++) {
        uint64_t roll = daruma_dice_roll(&dice);
        bool is_ebb = step / (STEPS / 8) % 2 == 1; /* by turns more come and more go */
        if (count < MANY && (count == 0 || (roll % 4 == 0) == is_ebb)) {
            int64_t at_ms = START_MS + step * INT64_C(500) - (int64_t)(roll >> 8) % HOUR_MS;
            there[count++] = at_ms;
            ages_add(&ages, at_ms, 1);
        } else {
            size_t at = (size_t)(roll >> 8) % count;
            ages_remove(&ages, there[at]);
            there[at] = there[--count];
        }
        int64_t wanted_ms = oldest_of(there, step % 16 == 0 ? count : 0);
        if (wanted_ms != 0) {
            assert_in_range(ages_oldest_ms(&ages), wanted_ms - AGES_SLOT_MS, wanted_ms);
        }
    }
    while (count > 0) {
        ages_remove(&ages, there[--count]);
    }
    assert_int_equal(ages_oldest_ms(&ages), 0);
    ages_done(&ages);
}

/* One that stays keeps none of those that come and go after it. */
static void a_year_of_letters_that_are_dealt_with_takes_no_memory(void **state)
{
    struct ages ages = {0};

    (void)state;
    ages_add(&ages, START_MS, 1);
    for (int64_t at_ms = START_MS; at_ms < START_MS + 365 * INT64_C(24) * HOUR_MS;
         at_ms += 10 * AGES_SLOT_MS) {
        ages_add(&ages, at_ms, 1);
        ages_remove(&ages, at_ms);
    }
    assert_int_equal(ages_oldest_ms(&ages), START_MS);
    assert_in_range(ages.room, 1, 64);
    ages_done(&ages);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_has_no_age),
        cmocka_unit_test(the_oldest_is_told_to_the_millisecond_until_it_goes),
        cmocka_unit_test(what_was_never_counted_takes_none_away),
        cmocka_unit_test(it_is_what_a_search_finds_to_within_a_slot),
        cmocka_unit_test(a_year_of_letters_that_are_dealt_with_takes_no_memory),
    };
    return HARNESS_RUN(argc, argv, tests);
}
