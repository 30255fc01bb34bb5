/* SPDX-License-Identifier: MIT
 *
 * The thread that beats, on a store whose peers have much to say, and an engine that has no turn.
 */
#include "engine_rig.h"
#include "harness.h"

#include "engine/pulse.h"

#include <time.h>

#define WORDS       100 /* before the beat that renews the lease: more than are kept for an engine */
#define EPOCH_LATER 77

static struct rig rig; /* large */
static int calls;      /* atomic */

static void rest(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* cut short: sooner */
}

/* Words, one beat that is fresh, and more words. */
static int say_much(struct store *store, int64_t wait_ms, struct arena *arena,
                    struct beat *ret_beat, struct error *err)
{
    int call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);

    (void)store, (void)wait_ms, (void)arena, (void)err;
    *ret_beat = (struct beat){.epoch = rig.store->epoch, .is_word = true};
    if (call == WORDS) {
        *ret_beat = (struct beat){.is_fresh = true, .epoch = EPOCH_LATER, .node_count = 1};
    } else if (call > WORDS) {
        rest();
    }
    return 0;
}

static void be_woken(void *user)
{
    (void)user;
}

static void words_of_peers_do_not_crowd_out_the_beat_that_renews_the_lease(void **state)
{
    static const struct store_nodes nodes = {.beat = say_much, .counts = rig_count_nothing};
    (void)state;

    rig = (struct rig){.keep_ms = 100000};
    rig_open(&rig, "default");
    rig.store->nodes = &nodes;
    struct pulse *pulse = pulse_new(rig.store, be_woken, NULL);
    assert_int_equal(pulse_start(pulse, NULL), 0);
    while (__atomic_load_n(&calls, __ATOMIC_RELAXED) <= WORDS + 1) {
        rest();
    }
    pulse_stop(pulse);
    assert_int_not_equal(rig.store->epoch, EPOCH_LATER);
    pulse_take(pulse, rig.engine);
    assert_int_equal(rig.store->epoch, EPOCH_LATER);
    assert_int_equal(pulse_health(pulse), 0);
    pulse_free(pulse);
    rig_settle(&rig);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_peers_do_not_crowd_out_the_beat_that_renews_the_lease),
    };
    return HARNESS_RUN(argc, argv, tests);
}
