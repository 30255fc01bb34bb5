/* SPDX-License-Identifier: MIT
 *
 * buf and arena: what owns bytes, and its ceilings.
 */
#include "harness.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/fault.h"
#include "base/room.h"

#include <stdlib.h>
#include <string.h>

static void a_buf_grows_up_to_its_ceiling_and_not_a_byte_further(void **state)
{
    struct buf buf;

    (void)state;
    buf_init(&buf, 1000);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(buf_add(&buf, SPAN("x")), 0);
    }
    assert_int_equal(buf_add(&buf, SPAN("y")), FAULT_LIMIT);
    assert_int_equal(buf_addf(&buf, "%d", 1), FAULT_LIMIT);
    assert_int_equal(buf.len, 1000);
    assert_int_equal(buf_add(&buf, (struct span){"", 0}), 0);
    buf_done(&buf);
    buf_done(&buf);
    buf_done(NULL);
}

static void what_is_taken_is_the_callers(void **state)
{
    struct buf buf;
    size_t len;

    (void)state;
    buf_init(&buf, SIZE_MAX);
    assert_int_equal(buf_addf(&buf, "%s-%d", "a", 7), 0);
    assert_true(span_is(buf_span(&buf), "a-7"));
    char *taken = buf_take(&buf, &len);
    assert_int_equal(len, 3);
    assert_int_equal(buf.len, 0);
    assert_true(span_is(buf_span(&buf), ""));
    free(taken);
    buf_done(&buf);
}

static void an_arena_gives_zeroed_aligned_pieces_until_its_ceiling(void **state)
{
    struct arena *arena = arena_new(100000);
    size_t given = 0;

    (void)state;
    for (size_t size = 1; size < 700; size += 13) {
        unsigned char *piece = arena_alloc(arena, size);
        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % sizeof(max_align_t) % 16, 0);
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(piece[i], 0);
        }
        memset(piece, 0xff, size);
        given += size;
    }
    assert_int_equal(arena_used(arena), given);
    assert_null(arena_alloc(arena, 100000));
    assert_non_null(arena_alloc(arena, 50000)); /* a large one has a block of its own */
    assert_non_null(arena_alloc(arena, 1));
    arena_free(arena);
    arena_free(NULL);
}

static void a_copy_ends_in_a_nul_that_does_not_count(void **state)
{
    struct arena *arena = arena_new(64);
    struct span copy = arena_copy(arena, (struct span){"a\0b", 3});

    (void)state;
    assert_int_equal(copy.len, 3);
    assert_int_equal(copy.at[3], '\0');
    assert_non_null(arena_copy(arena, (struct span){0}).at);
    assert_true(span_is(arena_printf(arena, "%d", 42), "42"));
    assert_null(arena_printf(arena, "%100d", 1).at);
    assert_null(arena_copy(arena, (struct span){"0123456789012345678901234567890123456789"
                                                "0123456789012345678901234567890123456789",
                                                80})
                    .at);
    arena_free(arena);
}

static void every_fault_has_a_code_and_a_text(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(fail(&err, FAULT_IO, "read %s", "x"), FAULT_IO);
    assert_string_equal(err.text, "read x");
    assert_int_equal(fail_field(&err, FAULT_INPUT, "a.b", "%0300d", 1), FAULT_INPUT);
    assert_string_equal(err.field, "a.b");
    assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
    assert_int_equal(fail(NULL, FAULT_FULL, "nobody wants to know"), FAULT_FULL);
    for (int fault = -20; fault <= 0; fault++) {
        assert_non_null(fault_code(fault));
        assert_non_null(fault_text(fault));
    }
    assert_string_equal(fault_code(FAULT_UNKNOWN), "store_unknown");
}

static void a_large_copy_can_be_dropped_alone(void **state)
{
    static char bytes[3000];
    struct arena *arena = arena_new(100000);
    const size_t lens[] = {0, 1, 100, 983, 991, 992, 999, 1000, 1983, 1984, 1999, 2000, 2001, 3000};
    struct span small = arena_copy(arena, SPAN("small")), other = {bytes, 100};

    (void)state;
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        size_t used = arena_used(arena);
        struct span copy = arena_copy(arena, (struct span){bytes, lens[i]});
        struct span after = arena_copy(arena, SPAN("after"));
        bool is_dropped = arena_drop(arena, copy);
        assert_int_equal(is_dropped, lens[i] >= 992);
        assert_int_equal(arena_used(arena), used + 6 + (is_dropped ? 0 : lens[i] + 1));
        assert_true(span_is(after, "after"));
        assert_true(span_is(arena_copy(arena, SPAN("more")), "more"));
    }
    assert_true(span_is(small, "small"));
    assert_false(arena_drop(arena, other));
    arena_free(arena);

    arena = arena_new(100000); /* the first and only piece */
    arena_hold_secrets(arena);
    assert_true(arena_drop(arena, arena_copy(arena, (struct span){bytes, sizeof bytes})));
    assert_true(span_is(arena_copy(arena, SPAN("more")), "more"));
    arena_free(arena);
}

static void what_counts_in_a_room_is_given_back_once(void **state)
{
    struct arena *arena = arena_new(100000);
    struct room room;

    (void)state;
    room_init(&room, 1 << 20);
    assert_true(room_take(&room, 0, 50000));
    arena_count(arena, &room, 50000);
    assert_int_equal(room.bytes, 50000 - ROOM_SMALL_BYTES);
    arena_uncount(arena);
    assert_int_equal(room.bytes, 0);
    arena_uncount(arena);
    arena_free(arena);
    assert_int_equal(room.bytes, 0);
    arena = arena_new(100000);
    assert_true(room_take(&room, 0, 50000));
    arena_count(arena, &room, 50000);
    arena_free(arena);
    assert_int_equal(room.bytes, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buf_grows_up_to_its_ceiling_and_not_a_byte_further),
        cmocka_unit_test(what_is_taken_is_the_callers),
        cmocka_unit_test(an_arena_gives_zeroed_aligned_pieces_until_its_ceiling),
        cmocka_unit_test(a_copy_ends_in_a_nul_that_does_not_count),
        cmocka_unit_test(every_fault_has_a_code_and_a_text),
        cmocka_unit_test(a_large_copy_can_be_dropped_alone),
        cmocka_unit_test(what_counts_in_a_room_is_given_back_once),
    };
    return HARNESS_RUN(argc, argv, tests);
}
