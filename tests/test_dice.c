/* SPDX-License-Identifier: MIT
 *
 * Tests of dice: a seed repeats bit for bit, the thread's own dice never repeats another process,
 * and a caller's generator replaces the built-in one.
 */
#include "harness.h"

#include <daruma/dice.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROLLS 4

static void the_same_seed_gives_the_same_rolls(void **state)
{
    struct daruma_dice one = daruma_dice_seed(78), other = daruma_dice_seed(78);

    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_true(daruma_dice_roll(&one) == daruma_dice_roll(&other));
    }
}

/* The published first outputs of splitmix64: a seed means the same on every machine and in every
 * version. */
static void rolls_are_those_of_splitmix64(void **state)
{
    static const uint64_t published[] = {
        UINT64_C(6457827717110365317), UINT64_C(3203168211198807973), UINT64_C(9817491932198370423),
        UINT64_C(4593380528125082431), UINT64_C(16408922859458223821)};
    struct daruma_dice dice = daruma_dice_seed(1234567);
    struct daruma_dice zero = daruma_dice_seed(0);

    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        assert_true(daruma_dice_roll(&dice) == published[i]);
    }
    assert_true(daruma_dice_roll(&zero) == UINT64_C(0xe220a8397b1dcdaf));
}

static void other_seeds_give_other_rolls(void **state)
{
    struct daruma_dice one = daruma_dice_seed(1), other = daruma_dice_seed(2);

    (void)state;
    assert_true(daruma_dice_roll(&one) != daruma_dice_roll(&other));
}

static void a_copied_dice_goes_on_from_the_same_place(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(3);

    (void)state;
    (void)daruma_dice_roll(&dice);
    struct daruma_dice copy = dice;
    assert_true(daruma_dice_roll(&dice) == daruma_dice_roll(&copy));
}

/* Every bit is used: over many rolls each one is set about half of the time. */
static void no_bit_is_stuck(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(78);
    int set[64] = {0};

    (void)state;
    for (int i = 0; i < 4096; i++) {
        uint64_t roll = daruma_dice_roll(&dice);
        for (int bit = 0; bit < 64; bit++) {
            set[bit] += (int)(roll >> bit & 1);
        }
    }
    for (int bit = 0; bit < 64; bit++) {
        assert_in_range(set[bit], 1800, 2300);
    }
}

static uint64_t roll_seven(struct daruma_dice *dice)
{
    dice->state++;
    return 7;
}

static void a_callers_generator_replaces_the_built_in_one(void **state)
{
    struct daruma_dice dice = {.roll = roll_seven};

    (void)state;
    assert_true(daruma_dice_roll(&dice) == 7);
    assert_true(daruma_dice_roll(&dice) == 7);
    assert_true(dice.state == 2); /* it was handed its own dice */
}

static void roll_own(uint64_t rolls[ROLLS])
{
    for (int i = 0; i < ROLLS; i++) {
        rolls[i] = daruma_dice_roll(NULL);
    }
}

static void the_threads_own_dice_does_not_stand_still(void **state)
{
    uint64_t rolls[ROLLS];

    (void)state;
    roll_own(rolls);
    for (int i = 1; i < ROLLS; i++) {
        assert_true(rolls[i] != rolls[0]);
    }
}

/* The rolls of a child that was forked just now. */
static void roll_in_child(uint64_t rolls[ROLLS])
{
    int ends[2], status = -1;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        roll_own(rolls);
        ssize_t written = write(ends[1], rolls, ROLLS * sizeof *rolls);
        _exit(written == (ssize_t)(ROLLS * sizeof *rolls) ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(read(ends[0], rolls, ROLLS * sizeof *rolls), ROLLS * sizeof *rolls);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(ends[1]);
}

/* A child inherits the state of the generator; workers that fork must not retry in step. */
static void a_forked_child_rolls_otherwise_than_its_parent(void **state)
{
    uint64_t parent[ROLLS], child[ROLLS], sibling[ROLLS];

    (void)state;
    (void)daruma_dice_roll(NULL); /* seeded before the fork */
    roll_in_child(child);
    roll_in_child(sibling);
    roll_own(parent);
    for (int i = 0; i < ROLLS; i++) {
        assert_true(child[i] != parent[i]);
        assert_true(sibling[i] != parent[i]);
        assert_true(sibling[i] != child[i]);
    }
}

static void *roll_in_thread(void *user)
{
    *(uint64_t *)user = daruma_dice_roll(NULL);
    return NULL;
}

static void each_thread_has_rolls_of_its_own(void **state)
{
    uint64_t rolls[8];

    (void)state;
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, roll_in_thread, &rolls[i]), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        for (int j = 0; j < i; j++) {
            assert_true(rolls[i] != rolls[j]);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_rolls),
        cmocka_unit_test(rolls_are_those_of_splitmix64),
        cmocka_unit_test(other_seeds_give_other_rolls),
        cmocka_unit_test(a_copied_dice_goes_on_from_the_same_place),
        cmocka_unit_test(no_bit_is_stuck),
        cmocka_unit_test(a_callers_generator_replaces_the_built_in_one),
        cmocka_unit_test(the_threads_own_dice_does_not_stand_still),
        cmocka_unit_test(a_forked_child_rolls_otherwise_than_its_parent),
        cmocka_unit_test(each_thread_has_rolls_of_its_own),
    };
    return HARNESS_RUN(argc, argv, tests);
}
