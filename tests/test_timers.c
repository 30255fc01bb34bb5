/* SPDX-License-Identifier: MIT
 *
 * The heap of waiting operations against the simplest thing that can be right: an array in which
 * the least is searched for.
 */
#include "harness.h"

#include "timers_internal.h"

#include <daruma/dice.h>

#include <inttypes.h>
#include <stdio.h>

#define OPS_MAX 300

struct model {
    struct daruma_retry_loop loop;
    struct daruma_retry_op ops[OPS_MAX];
    bool is_in[OPS_MAX];
    size_t count;
    struct daruma_dice dice;
};

static uint64_t roll(struct model *model, uint64_t below)
{
    return daruma_dice_roll(&model->dice) % below;
}

static void model_init(struct model *model, uint64_t seed)
{
    *model = (struct model){.dice = daruma_dice_seed(seed)};
    daruma_retry_loop_init(&model->loop, NULL, NULL);
}

static void model_add(struct model *model, size_t index, int64_t due_ms)
{
    model->ops[index].due_ms = due_ms;
    daruma_timers_add(&model->loop, &model->ops[index]);
    model->is_in[index] = true;
    model->count++;
}

static void model_remove(struct model *model, size_t index)
{
    daruma_timers_remove(&model->loop, &model->ops[index]);
    model->is_in[index] = false;
    model->count--;
    assert_null(model->ops[index].left);
    assert_null(model->ops[index].right);
    assert_null(model->ops[index].parent);
}

static int64_t model_least(const struct model *model)
{
    int64_t least_ms = INT64_MAX;

    for (size_t i = 0; i < OPS_MAX; i++) {
        if (model->is_in[i] && model->ops[i].due_ms < least_ms) {
            least_ms = model->ops[i].due_ms;
        }
    }
    return least_ms;
}

/* Counts a subtree whose root is node `number`; every link and the order hold. */
static size_t check_tree(const struct model *model, const struct daruma_retry_op *op, size_t number)
{
    if (op == NULL) {
        return 0;
    }
    assert_in_range(number, 1, model->count); /* complete: numbered without a gap */
    assert_true(model->is_in[op - model->ops]);
    if (op->left != NULL) {
        assert_ptr_equal(op->left->parent, op);
        assert_true(op->left->due_ms >= op->due_ms);
    }
    if (op->right != NULL) {
        assert_ptr_equal(op->right->parent, op);
        assert_true(op->right->due_ms >= op->due_ms);
    }
    return 1 + check_tree(model, op->left, 2 * number) +
           check_tree(model, op->right, 2 * number + 1);
}

static void check(const struct model *model)
{
    assert_int_equal(model->loop.count, model->count);
    assert_int_equal(check_tree(model, model->loop.root, 1), model->count);
    if (model->count == 0) {
        assert_null(model->loop.root);
        return;
    }
    assert_null(model->loop.root->parent);
    assert_int_equal(model->loop.root->due_ms, model_least(model));
}

/* Takes the first again and again: they come in order. */
static void drain(struct model *model)
{
    int64_t last_ms = INT64_MIN;

    while (model->loop.root != NULL) {
        struct daruma_retry_op *first = model->loop.root;
        assert_true(first->due_ms >= last_ms);
        last_ms = first->due_ms;
        model_remove(model, (size_t)(first - model->ops));
        check(model);
    }
    assert_int_equal(model->count, 0);
}

static void every_order_of_arrival_comes_out_sorted(void **state)
{
    /* All orders of up to 7 moments, some of them equal. */
    const int64_t dues_ms[] = {5, 1, 5, 3, 9, 1, 7};
    size_t orders = 1;

    (void)state;
    for (size_t count = 1; count <= 7; count++) {
        orders *= count;
        for (size_t order = 0; order < orders; order++) {
            struct model model;
            size_t left[7] = {0, 1, 2, 3, 4, 5, 6};
            size_t rest = order;
            model_init(&model, 1);
            for (size_t n = count; n > 0; n--) {
                size_t pick = rest % n;
                rest /= n;
                model_add(&model, left[pick], dues_ms[left[pick]]);
                left[pick] = left[n - 1];
            }
            check(&model);
            drain(&model);
        }
    }
}

static void equal_moments_are_all_kept(void **state)
{
    struct model model;

    (void)state;
    model_init(&model, 1);
    for (size_t i = 0; i < OPS_MAX; i++) {
        model_add(&model, i, 42);
    }
    check(&model);
    for (size_t i = 0; i < OPS_MAX; i += 3) {
        model_remove(&model, i);
        check(&model);
    }
    drain(&model);
}

static void any_one_can_be_taken_out(void **state)
{
    (void)state;
    for (size_t count = 1; count <= 40; count++) {
        for (size_t out = 0; out < count; out++) {
            struct model model;
            model_init(&model, count);
            for (size_t i = 0; i < count; i++) {
                model_add(&model, i, (int64_t)roll(&model, 10));
            }
            model_remove(&model, out);
            check(&model);
            drain(&model);
        }
    }
}

static void random_steps_agree_with_the_model(void **state)
{
    uint64_t runs = harness_size("DARUMA_TIMER_RUNS", 30000), seed = harness_seed();
    const uint64_t spans[] = {2, 50, UINT64_C(1) << 40};
    struct model model;

    (void)state;
    printf("seed %" PRIu64 "\n", seed);
    model_init(&model, seed);
    for (uint64_t run = 0; run < runs; run++) {
        size_t index = (size_t)roll(&model, OPS_MAX);
        bool growing = run / 2000 % 2 == 0; /* now mostly in, now mostly out */
        if (model.is_in[index]) {
            if (!growing || roll(&model, 4) == 0) {
                model_remove(&model, index);
            }
        } else if (growing || roll(&model, 4) == 0) {
            uint64_t span = spans[roll(&model, 3)];
            model_add(&model, index, (int64_t)roll(&model, span) - (int64_t)(span / 2));
        }
        if (run % 16 == 0 || model.count < 8) {
            check(&model);
        }
    }
    drain(&model);
}

static void begin_nothing(void *user, struct daruma_retry_op *op,
                          const struct daruma_attempt *attempt)
{
    (void)user;
    (void)op;
    (void)attempt;
}

static void count_end(void *user, struct daruma_retry_op *op, int code,
                      const struct daruma_error *error)
{
    (void)op;
    (void)error;
    assert_int_equal(code, DARUMA_CANCELLED);
    ++*(int *)user;
}

/* Bad use, but no reason to abort: the operation can still be ended. */
static void a_loop_made_anew_under_its_operations_lets_them_be_cancelled(void **state)
{
    struct daruma_retry_loop loop;
    struct daruma_retry_options options = {.loop = &loop, .attempt_timeout_ms = 60000};
    struct daruma_retry_op op = {0};
    int end_count = 0;

    (void)state;
    daruma_retry_loop_init(&loop, NULL, NULL);
    assert_int_equal(daruma_retry_async_start(&op, begin_nothing, &end_count, &options, count_end),
                     0);
    daruma_retry_loop_init(&loop, NULL, NULL);
    assert_true(daruma_retry_async_cancel(&op));
    assert_int_equal(daruma_retry_tick(&loop), 1);
    assert_int_equal(end_count, 1);
    assert_int_equal(daruma_retry_next_timeout_ms(&loop), -1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_of_arrival_comes_out_sorted),
        cmocka_unit_test(equal_moments_are_all_kept),
        cmocka_unit_test(any_one_can_be_taken_out),
        cmocka_unit_test(random_steps_agree_with_the_model),
        cmocka_unit_test(a_loop_made_anew_under_its_operations_lets_them_be_cancelled),
    };
    return HARNESS_RUN(argc, argv, tests);
}
