/* SPDX-License-Identifier: MIT */
#include "harness.h"

#include "base/handover.h"

#include <pthread.h>
#include <stdlib.h>

#define GIVERS 4
#define EACH   2000

struct thing {
    struct handover_link link; /* first */
    int giver, number;
};

static void things_come_out_in_order_and_within_the_bound(void **state)
{
    struct handover *handover = handover_new(3);
    struct thing things[4] = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        things[i].number = i;
        assert_true(handover_give(handover, &things[i].link));
    }
    assert_false(handover_give(handover, &things[3].link));
    assert_int_equal(handover_count(handover), 3);
    struct thing *taken = (struct thing *)handover_take(handover, 2, 0);
    assert_int_equal(taken->number, 0);
    assert_int_equal(((struct thing *)taken->link.next)->number, 1);
    assert_null(taken->link.next->next);
    assert_true(handover_give(handover, &things[3].link));
    taken = (struct thing *)handover_take(handover, 10, 0);
    assert_int_equal(taken->number, 2);
    assert_null(handover_take(handover, 10, 0));
    assert_null(handover_take(handover, 10, 1)); /* a wait that ends by itself */
    handover_close(handover);
    assert_false(handover_give(handover, &things[0].link));
    assert_null(handover_take(handover, 1, -1)); /* closed: nobody waits for ever */
    assert_true(handover_is_closed(handover));
    handover_free(handover);
    handover_free(NULL);
}

static struct handover *shared;
static struct thing many[GIVERS][EACH];

static void *give_all(void *argument)
{
    int giver = (int)(intptr_t)argument;

    for (int i = 0; i < EACH; i++) {
        many[giver][i] = (struct thing){.giver = giver, .number = i};
        while (!handover_give(shared, &many[giver][i].link)) {
        }
    }
    return NULL;
}

static void nothing_is_lost_or_reordered_between_threads(void **state)
{
    pthread_t givers[GIVERS];
    int next[GIVERS] = {0}, count = 0;

    (void)state;
    shared = handover_new(64);
    for (int i = 0; i < GIVERS; i++) {
        assert_int_equal(pthread_create(&givers[i], NULL, give_all, (void *)(intptr_t)i), 0);
    }
    while (count < GIVERS * EACH) {
        struct thing *thing = (struct thing *)handover_take(shared, 16, -1);
        for (; thing != NULL; thing = (struct thing *)thing->link.next, count++) {
            assert_int_equal(thing->number, next[thing->giver]++);
        }
    }
    for (int i = 0; i < GIVERS; i++) {
        pthread_join(givers[i], NULL);
    }
    handover_free(shared);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(things_come_out_in_order_and_within_the_bound),
        cmocka_unit_test(nothing_is_lost_or_reordered_between_threads),
    };
    return HARNESS_RUN(argc, argv, tests);
}
