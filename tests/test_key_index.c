/* SPDX-License-Identifier: MIT
 *
 * test_key_index -- the index against the plainest thing that does the same: an array that is
 * searched from end to end.
 */
#include "store/key_index.h"

#include "base/fault.h"
#include "harness.h"

#include <daruma/dice.h>

#define PAIRS_MAX  2000
#define STEPS      200000
#define GROW_KEYS  100000
#define BATCH_MAX  40
#define FEW_HASHES 97

struct model {
    struct key_slot pairs[PAIRS_MAX];
    size_t count;
};

static void model_remove(struct model *model, size_t at)
{
    model->pairs[at] = model->pairs[--model->count];
}

/* Few hashes, at both ends of a table and of the tables: long chains that wrap around. */
static uint64_t odd_hash(struct daruma_dice *dice)
{
    uint64_t few = daruma_dice_roll(dice) % FEW_HASHES;

    return few % 3 == 0   ? UINT64_MAX - few
           : few % 3 == 1 ? few + 1
                          : UINT64_C(0x0700000000000000) | few;
}

static size_t count_found(const struct key_index *index, uint64_t hash, int64_t row)
{
    struct key_cursor cursor = {.hash = hash};
    size_t count = 0;
    int64_t found;

    while ((found = key_index_next(index, &cursor)) != 0) {
        count += row == 0 || found == row;
    }
    return count;
}

static void expect_same(const struct key_index *index, const struct model *model)
{
    assert_int_equal(key_index_count(index), model->count);
    for (size_t i = 0; i < model->count; i++) {
        size_t equal = 0;
        for (size_t n = 0; n < model->count; n++) {
            equal += model->pairs[n].hash == model->pairs[i].hash;
        }
        assert_int_equal(count_found(index, model->pairs[i].hash, model->pairs[i].row), 1);
        assert_int_equal(count_found(index, model->pairs[i].hash, 0), equal);
    }
}

static void it_finds_what_an_array_would_find(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(harness_seed());
    static struct key_index index;
    static struct model model;
    (void)state;

    for (int64_t step = 1; step <= STEPS; step++) {
        size_t wanted = (size_t)(step / 100 % PAIRS_MAX); /* fills and empties in waves */
        bool adds = model.count < wanted;
        if (adds) {
            struct key_slot pair = {.hash = odd_hash(&dice), .row = step};
            assert_int_equal(key_index_add(&index, pair.hash, pair.row), 0);
            model.pairs[model.count++] = pair;
        } else if (model.count > 0) {
            size_t at = daruma_dice_roll(&dice) % model.count;
            assert_true(key_index_remove(&index, model.pairs[at].hash, model.pairs[at].row));
            assert_false(key_index_remove(&index, model.pairs[at].hash, model.pairs[at].row));
            model_remove(&model, at);
        }
        if (step % 10000 == 0) {
            expect_same(&index, &model);
        }
    }
    key_index_done(&index);
}

/* I7: a batch that failed has never been. */
static void what_a_batch_did_can_be_taken_back(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(harness_seed());
    static struct key_index index;
    static struct model model, kept;
    struct key_log log = {0};
    int64_t row = 0;
    (void)state;

    for (int round = 0; round < 2000; round++) {
        kept = model;
        assert_int_equal(key_log_begin(&log, BATCH_MAX), 0);
        for (size_t i = daruma_dice_roll(&dice) % BATCH_MAX; i > 0; i--) {
            if (model.count < 100 || daruma_dice_roll(&dice) % 2 == 0) {
                struct key_slot pair = {.hash = odd_hash(&dice), .row = ++row};
                assert_int_equal(key_log_add(&log, &index, pair.hash, pair.row), 0);
                model.pairs[model.count++] = pair;
            } else {
                size_t at = daruma_dice_roll(&dice) % model.count;
                key_log_remove(&log, &index, model.pairs[at].hash, model.pairs[at].row);
                key_log_remove(&log, &index, model.pairs[at].hash, -1); /* was never there */
                model_remove(&model, at);
            }
        }
        if (round % 2 == 0 || model.count > PAIRS_MAX - BATCH_MAX) {
            key_log_undo(&log, &index);
            model = kept;
        }
        if (round % 50 == 0) {
            expect_same(&index, &model);
        }
    }
    key_log_done(&log);
    key_index_done(&index);
}

static void it_grows_and_finds_every_key(void **state)
{
    static struct key_index index;
    (void)state;

    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 1; i <= GROW_KEYS; i++) {
            struct span key = {.at = (const char *)&i, .len = sizeof i};
            uint64_t hash = key_index_hash(&index, 1, SPAN("scope"), key);
            if (round == 0) {
                assert_int_equal(key_index_add(&index, hash, i), 0);
            }
            assert_int_equal(count_found(&index, hash, i), 1);
        }
    }
    assert_int_equal(key_index_count(&index), GROW_KEYS);
    for (size_t i = 0; i < KEY_INDEX_TABLES; i++) { /* the hash spreads them evenly */
        assert_in_range(index.tables[i].count, GROW_KEYS / 512, GROW_KEYS / 128);
    }
    key_index_done(&index);
    assert_int_equal(key_index_count(&index), 0);
}

static void the_hash_depends_on_all_of_it_and_on_the_secret(void **state)
{
    static struct key_index index, other = {.secret = {1}};
    uint64_t hash = key_index_hash(&index, 1, SPAN("ab"), SPAN("c"));
    (void)state;

    assert_int_equal(hash, key_index_hash(&index, 1, SPAN("ab"), SPAN("c")));
    assert_int_not_equal(hash, key_index_hash(&index, 2, SPAN("ab"), SPAN("c")));
    assert_int_not_equal(hash, key_index_hash(&index, 1, SPAN("a"), SPAN("bc")));
    assert_int_not_equal(hash, key_index_hash(&index, 1, SPAN(""), SPAN("abc")));
    assert_int_not_equal(hash, key_index_hash(&index, 1, SPAN("ab"), SPAN("c\0")));
    assert_int_not_equal(hash, key_index_hash(&other, 1, SPAN("ab"), SPAN("c")));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_finds_what_an_array_would_find),
        cmocka_unit_test(what_a_batch_did_can_be_taken_back),
        cmocka_unit_test(it_grows_and_finds_every_key),
        cmocka_unit_test(the_hash_depends_on_all_of_it_and_on_the_secret),
    };
    return HARNESS_RUN(argc, argv, tests);
}
