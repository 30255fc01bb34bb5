/* SPDX-License-Identifier: MIT
 *
 * Out of memory on the way through providers: whichever allocation is refused, a delivery is refused
 * at once or comes back exactly once, as a success that is whole or as a failure that can be tried
 * again; and nothing is left behind.
 */
#include "harness.h"

#include "alloc_fail.h"
#include "newsroom.h"

#define NTH_MAX 500

static struct newsroom room;

static void check_outcome(const struct delivery *delivery)
{
    if (delivery->outcome.status == 200) {
        assert_true(room_has(buf_span(&delivery->response_body), "\"summary\":\"short\""));
        assert_true(span_is(delivery->settled_by, "claude") ||
                    span_is(delivery->settled_by, "openai"));
    } else {
        assert_int_equal(delivery->outcome.error_class, DARUMA_CLASS_TRANSIENT);
    }
}

/* True: nothing was refused. */
static bool carry_out(uint64_t nth)
{
    size_t before = room.done_count;
    struct delivery delivery;

    room_open(&room);
    room.fallback.order = FALLBACK_STICKY;
    room.script[ROOM_OPENAI] = (struct room_answer){.status = 500, .body = "{\"error\":{}}"};
    delivery = room_delivery(&room);
    before = room.done_count;
    alloc_fail_start(nth);
    int failed = deliver_send(room.deliver, &delivery, NULL);
    while (failed == 0 && room.done_count == before && room_step(&room)) {
    }
    struct alloc_count count = alloc_fail_stop();
    assert_int_equal(room.done_count, before + (failed == 0));
    if (failed == 0) {
        check_outcome(&delivery);
    }
    delivery_done(&delivery);
    room_close(&room);
    return count.refused == 0;
}

static void every_allocation_may_be_refused(void **state)
{
    uint64_t nth = 1;

    (void)state;
    while (nth < NTH_MAX && !carry_out(nth)) {
        nth++;
    }
    assert_true(nth > 10 && nth < NTH_MAX);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_be_refused)};

    return HARNESS_RUN(argc, argv, tests);
}
