/* SPDX-License-Identifier: MIT
 *
 * The order in which reads are performed, on a store that looks at a slice when the test lets it, and
 * writes down what it was asked for.
 */
#include "harness.h"

#include "engine/engine_internal.h"
#include "engine/reader.h"

#include <semaphore.h>

#define LONG_SLICES 3 /* of a list that looks through the whole store */
#define STEPS_MAX   (2 * READER_WAITING_MAX)

/* A step: row 1 to 9 is a list's, by the queue that it asks for; others are of single tasks. */
static int64_t steps[STEPS_MAX];
static size_t step_count;
static sem_t begun, may_go;
static bool is_held; /* the next slice waits for the test */

static void hold(void)
{
    if (is_held) {
        is_held = false;
        sem_post(&begun);
        sem_wait(&may_go);
    }
}

static int slow_read_task(struct store *store, struct task_id id, unsigned wants,
                          struct arena *arena, struct record *ret_record, bool *ret_found,
                          struct error *err)
{
    (void)store, (void)wants, (void)arena, (void)ret_record, (void)err;
    steps[step_count++] = id.row;
    *ret_found = false;
    return 0;
}

/* Queue 9 has nothing behind its first slice, others have LONG_SLICES. */
static int slow_list(struct store *store, const struct store_filter *filter, struct arena *arena,
                     store_record_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    (void)store, (void)arena, (void)visit, (void)user, (void)err;
    steps[step_count++] = filter->queue;
    assert_true(filter->scan_max > 0);
    hold();
    *ret_next =
        filter->queue == 9 || filter->after_row + 1 == LONG_SLICES ? 0 : filter->after_row + 1;
    return 0;
}

static const struct store_ops slow_ops = {
    .name = "slow", .read_task = slow_read_task, .list = slow_list};
static struct store slow = {.ops = &slow_ops};

static void be_woken(void *user)
{
    (void)user;
}

static struct reader *begin(void)
{
    struct reader *reader = reader_new(&slow, be_woken, NULL);

    assert_non_null(reader);
    step_count = 0;
    assert_int_equal(sem_init(&begun, 0, 0), 0);
    assert_int_equal(sem_init(&may_go, 0, 0), 0);
    is_held = true;
    return reader;
}

/* How many came back; the row that the last list goes on after is in *ret_next. */
static size_t end(struct reader *reader, int64_t *ret_next)
{
    size_t count = 0;

    *ret_next = 0;
    reader_stop(reader);
    for (struct handover_link *link = reader_take(reader, SIZE_MAX); link != NULL; count++) {
        struct read *read = (struct read *)link;
        link = link->next;
        assert_int_equal(read->fault, 0);
        *ret_next = read->next_row != 0 ? read->next_row : *ret_next;
        inspect_drop(read);
    }
    reader_free(reader);
    (void)sem_destroy(&begun);
    (void)sem_destroy(&may_go);
    return count;
}

static struct read *new_task(int64_t row)
{
    struct read *read = inspect_new(READ_TASK);

    assert_non_null(read);
    read->id.row = row;
    return read;
}

static struct read *new_list(uint32_t queue)
{
    struct read *read = inspect_new(READ_LIST);

    assert_non_null(read);
    read->filter = (struct store_filter){.queue = queue, .limit = 10};
    return read;
}

/* A list that looks through the store is in the middle of its first slice. */
static struct reader *begin_within_list(void)
{
    struct reader *reader = begin();

    assert_int_equal(reader_start(reader, NULL), 0);
    assert_true(reader_give(reader, new_list(1)));
    sem_wait(&begun);
    return reader;
}

static void wait_for(struct reader *reader, size_t count, struct handover_link *ret_reads[])
{
    while (count > 0) {
        for (struct handover_link *link = reader_take(reader, SIZE_MAX); link != NULL; count--) {
            *ret_reads++ = link;
            link = link->next;
        }
    }
}

static void drop(struct handover_link *reads[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        inspect_drop((struct read *)reads[i]);
    }
}

static void a_short_read_waits_for_one_slice_of_a_list_and_no_more(void **state)
{
    struct reader *reader = begin_within_list();
    struct handover_link *reads[5];
    int64_t next = 0;
    (void)state;

    assert_true(reader_give(reader, new_list(2)));
    assert_true(reader_give(reader, new_task(100)));
    assert_true(reader_give(reader, new_list(9)));
    assert_true(reader_give(reader, new_task(101)));
    sem_post(&may_go);
    wait_for(reader, 5, reads);
    /* The two short ones first; then what has not begun and what has, in turn. */
    const int64_t expected[] = {1, 100, 101, 1, 2, 1, 9, 2, 2};
    assert_int_equal(step_count, sizeof expected / sizeof *expected);
    assert_memory_equal(steps, expected, sizeof expected);
    drop(reads, 5);
    assert_int_equal(end(reader, &next), 0);
}

static void short_reads_without_end_do_not_keep_out_the_lists(void **state)
{
    struct reader *reader = begin_within_list();
    int64_t next = 0;
    size_t at = 1;
    (void)state;

    for (int i = 0; i < READER_SHORTS_MAX + 10; i++) {
        assert_true(reader_give(reader, new_task(100 + i)));
    }
    sem_post(&may_go);
    assert_int_equal(end(reader, &next), READER_SHORTS_MAX + 11);
    while (steps[at] != 1) {
        at++;
    }
    assert_int_equal(at, 1 + READER_SHORTS_MAX);
}

static void what_was_not_taken_back_counts_against_the_limit(void **state)
{
    struct reader *reader = begin();
    static struct handover_link *reads[READER_WAITING_MAX];
    int64_t next = 0;
    (void)state;

    is_held = false;
    assert_int_equal(reader_start(reader, NULL), 0);
    for (size_t i = 0; i < READER_WAITING_MAX; i++) {
        assert_true(reader_give(reader, new_list(9)));
    }
    struct read *more = new_list(9);
    assert_false(reader_give(reader, more));
    inspect_drop(more);
    wait_for(reader, READER_WAITING_MAX, reads);
    drop(reads, READER_WAITING_MAX);
    assert_true(reader_give(reader, new_task(100)));
    assert_int_equal(end(reader, &next), 1);
}

static void a_list_that_is_cut_says_where_it_goes_on(void **state)
{
    struct reader *reader = begin_within_list();
    struct read *second = new_list(2);
    struct handover_link *reads[2];
    int64_t next = 0;
    (void)state;

    assert_true(reader_give(reader, second));
    read_cut(second); /* its caller has left */
    sem_post(&may_go);
    wait_for(reader, 2, reads);
    const int64_t expected[] = {1, 1, 2, 1};
    assert_int_equal(step_count, sizeof expected / sizeof *expected);
    assert_memory_equal(steps, expected, sizeof expected);
    assert_int_equal(second->next_row, 1);
    drop(reads, 2);
    assert_int_equal(end(reader, &next), 0);
}

static void a_stop_waits_for_one_slice_of_each_list(void **state)
{
    struct reader *reader = begin();
    int64_t next = 0;
    (void)state;

    is_held = false;
    for (int i = 0; i < 10; i++) {
        assert_true(reader_give(reader, new_list(2)));
    }
    reader_stop(reader); /* it has no thread yet */
    assert_int_equal(reader_start(reader, NULL), 0);
    assert_int_equal(end(reader, &next), 10);
    assert_int_equal(step_count, 10);
    assert_int_equal(next, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_read_waits_for_one_slice_of_a_list_and_no_more),
        cmocka_unit_test(short_reads_without_end_do_not_keep_out_the_lists),
        cmocka_unit_test(what_was_not_taken_back_counts_against_the_limit),
        cmocka_unit_test(a_list_that_is_cut_says_where_it_goes_on),
        cmocka_unit_test(a_stop_waits_for_one_slice_of_each_list),
    };
    return HARNESS_RUN(argc, argv, tests);
}
