/* SPDX-License-Identifier: MIT
 *
 * The small rules about tasks: ids, names, fields, options, fingerprints, the schedule, the clock's
 * text.
 */
#include "harness.h"

#include "base/clock.h"
#include "engine/schedule.h"
#include "task/fields.h"
#include "task/fingerprint.h"
#include "task/options.h"
#include "task/task.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOW_MS INT64_C(1800000000123)

static void an_id_is_a_uuid_v7_and_leads_back_to_its_row(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(1);
    struct id_maker maker = {.dice = &dice};
    struct task_id id = id_make(&maker, NOW_MS), again;
    char text[ID_TEXT_LEN + 1];

    (void)state;
    id_format(id, text);
    assert_int_equal(text[14], '7');
    assert_non_null(strchr("89ab", text[19]));
    assert_true(id_parse(span_of(text), &again));
    assert_true(again.row == id.row && again.tail == id.tail);
    assert_int_equal(id_created_ms(id.row), NOW_MS);
    text[35] = text[35] == '0' ? '1' : '0';
    assert_true(id_parse(span_of(text), &again));
    assert_false(id_matches(id, again)); /* the row alone does not open the door */
}

static void ids_only_grow_whatever_the_clock_does(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(2);
    struct id_maker maker = {.dice = &dice};
    int64_t last = 0;

    (void)state;
    for (int i = 0; i < 10000; i++) { /* more than a millisecond has numbers for */
        struct task_id id = id_make(&maker, NOW_MS - i / 100);
        assert_true(id.row > last);
        last = id.row;
    }
}

/* The dice's mixing function, and back: each step can be undone. */
static uint64_t mixed(uint64_t bits)
{
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

static uint64_t unshifted(uint64_t bits, int by)
{
    uint64_t found = bits;

    for (int known = by; known < 64; known += by) {
        found = bits ^ (found >> by);
    }
    return found;
}

static uint64_t unmixed(uint64_t bits)
{
    bits = unshifted(bits, 31) * UINT64_C(0x319642b2d24d8ec3);
    bits = unshifted(bits, 27) * UINT64_C(0x96de1b173f119089);
    return unshifted(bits, 30);
}

/* A caller knows his own ids, and the process is one of four million. */
static bool can_be_computed(struct task_id seen, struct task_id next)
{
    uint64_t process = mixed((uint64_t)getpid());

    for (uint64_t top = 0; top < 4; top++) {
        uint64_t state = unmixed((seen.tail | top << 62) ^ process);
        uint64_t guess = mixed(state + UINT64_C(0x9e3779b97f4a7c15)) ^ process;
        if ((guess & ID_TAIL_MAX) == next.tail) {
            return true;
        }
    }
    return false;
}

static void an_id_cannot_be_computed_from_the_one_before(void **state)
{
    struct id_maker maker = {0};
    struct task_id seen = id_make(&maker, NOW_MS);

    (void)state;
    assert_int_equal(unmixed(mixed(NOW_MS)), NOW_MS);
    for (int i = 0; i < 2000; i++) { /* more than one stock of bits */
        struct task_id next = id_make(&maker, NOW_MS);
        assert_false(can_be_computed(seen, next));
        assert_true(next.tail != seen.tail);
        seen = next;
    }
}

static void what_is_not_one_of_our_ids_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "0198",
        "01a1dee6-e8cc-4000-a089-bf438de472af", /* version 4 */
        "01a1dee6-e8cc-7000-c089-bf438de472af", /* another variant */
        "01a1dee6xe8cc-7000-a089-bf438de472af",
        "01a1dee6-e8cc-7000-a089-bf438de472ag",
        "01a1dee6-e8cc-7000-a089-bf438de472af0",
        "00000000-0000-7000-8000-000000000000", /* before 2020 */
    };
    struct task_id id;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(id_parse(span_of(bad[i]), &id));
    }
    assert_true(id_parse(span_of("01A1DEE6-E8CC-7000-A089-BF438DE472AF"), &id));
}

static void names_and_keys_have_their_characters_and_lengths(void **state)
{
    char longest[TASK_KEY_MAX + 2];

    (void)state;
    memset(longest, 'k', sizeof longest);
    assert_true(task_key_is_valid((struct span){longest, TASK_KEY_MAX}));
    assert_false(task_key_is_valid((struct span){longest, TASK_KEY_MAX + 1}));
    assert_false(task_key_is_valid(SPAN("")));
    assert_false(task_key_is_valid(SPAN("a b")));
    assert_false(task_key_is_valid(SPAN("caf\xc3\xa9")));
    assert_true(task_key_is_valid(SPAN("!~")));
    assert_true(task_queue_name_is_valid(SPAN("bigquery-sync_1.2")));
    assert_false(task_queue_name_is_valid(SPAN(".hidden")));
    assert_false(task_queue_name_is_valid(SPAN("a/b")));
    assert_false(task_queue_name_is_valid(SPAN("")));
    assert_false(task_queue_name_is_valid((struct span){longest, TASK_QUEUE_NAME_MAX + 1}));
}

static void a_state_outside_may_be_two_inside(void **state)
{
    unsigned states = 0;

    (void)state;
    assert_true(task_state_parse(SPAN("failed"), &states));
    assert_int_equal(states, 1u << TASK_FAILED | 1u << TASK_DEAD);
    assert_true(task_state_parse(SPAN("waiting"), &states));
    assert_int_equal(states, 1u << TASK_WAITING);
    assert_false(task_state_parse(SPAN("dead"), &states));
    assert_string_equal(task_state_text(TASK_DEAD), "failed");
    assert_string_equal(task_state_text(TASK_STATE_COUNT), "unknown");
}

static void fields_keep_order_and_repetition(void **state)
{
    struct buf fields;
    struct span rest, name, value;

    (void)state;
    buf_init(&fields, 1000);
    assert_int_equal(fields_add(&fields, SPAN("A"), SPAN("1: x")), 0);
    assert_int_equal(fields_add(&fields, SPAN("b"), SPAN("")), 0);
    assert_int_equal(fields_add(&fields, SPAN("a"), SPAN(" 2")), 0);
    assert_int_equal(fields_add(&fields, SPAN("a:b"), SPAN("")), FAULT_INPUT);
    assert_int_equal(fields_add(&fields, SPAN("a"), SPAN("x\ny")), FAULT_INPUT);
    assert_int_equal(fields_add(&fields, SPAN(""), SPAN("x")), FAULT_INPUT);
    rest = buf_span(&fields);
    assert_true(fields_next(&rest, &name, &value));
    assert_true(span_is(name, "A") && span_is(value, "1: x"));
    assert_true(fields_next(&rest, &name, &value));
    assert_true(span_is(name, "b") && value.len == 0);
    assert_true(fields_next(&rest, &name, &value));
    assert_true(span_is(name, "a") && span_is(value, " 2"));
    assert_false(fields_next(&rest, &name, &value));
    assert_true(fields_find(buf_span(&fields), "a", &value) && span_is(value, "1: x"));
    assert_true(fields_has(buf_span(&fields), SPAN("a"), SPAN(" 2")));
    assert_false(fields_has(buf_span(&fields), SPAN("a"), SPAN("1: x")));
    buf_done(&fields);
    assert_true(fields_name_is_token(SPAN("X-A!")));
    assert_false(fields_name_is_token(SPAN("X A")));
    assert_false(fields_name_is_token((struct span){"X\0", 2}));
    assert_true(fields_value_is_clean(SPAN("a\tb \xe3\x81\x82")));
    assert_false(fields_value_is_clean(SPAN("a\rb")));
}

/* Each byte at each place of a text that is longer than a word of the machine. */
static void every_byte_of_a_field_is_judged(void **state)
{
    char text[19];

    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        bool is_token = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                        (byte >= 'A' && byte <= 'Z') ||
                        (byte != 0 && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
        bool is_clean = byte == '\t' || (byte >= 0x20 && byte != 0x7f);
        for (size_t at = 0; at < sizeof text; at++) {
            memset(text, 'a', sizeof text);
            text[at] = (char)byte;
            struct span whole = {.at = text, .len = sizeof text};
            assert_int_equal(fields_name_is_token(whole), is_token);
            assert_int_equal(fields_value_is_clean(whole), is_clean);
            text[0] = '\t'; /* a clean byte that ends the way by words */
            assert_int_equal(fields_value_is_clean(whole), at == 0 || is_clean);
        }
    }
    assert_false(fields_name_is_token(SPAN("")));
    assert_true(fields_value_is_clean(SPAN("")));
}

static void lines_that_are_no_fields_are_read_as_far_as_they_go(void **state)
{
    struct span rest = SPAN("bare\n\n: v\nlast:x"), name, value;

    (void)state;
    assert_true(fields_next(&rest, &name, &value));
    assert_true(span_is(name, "bare") && value.len == 0);
    assert_true(fields_next(&rest, &name, &value));
    assert_true(name.len == 0 && value.len == 0);
    assert_true(fields_next(&rest, &name, &value));
    assert_true(name.len == 0 && span_is(value, "v"));
    assert_true(fields_next(&rest, &name, &value));
    assert_true(span_is(name, "last") && span_is(value, "x"));
    assert_false(fields_next(&rest, &name, &value));
}

/* By all short texts of a few bytes, which have every kind of line. */
static void a_field_is_found_as_a_walk_finds_it(void **state)
{
    static const char bytes[] = "aB:\n x";
    char text[6];

    (void)state;
    for (int number = 0; number < 6 * 6 * 6 * 6 * 6 * 6; number++) {
        int digits = number;
        for (size_t i = 0; i < sizeof text; i++, digits /= 6) {
            text[i] = bytes[digits % 6];
        }
        for (size_t len = 0; len <= sizeof text; len += 3) {
            struct span whole = {.at = text, .len = len}, rest = whole, name, value, found;
            bool is_there = false;
            while (!is_there && fields_next(&rest, &name, &value)) {
                is_there = span_is_nocase(name, "ab");
            }
            assert_int_equal(fields_find(whole, "Ab", &found), is_there);
            assert_true(!is_there || (found.at == value.at && found.len == value.len));
        }
    }
}

static void a_field_that_does_not_fit_leaves_nothing(void **state)
{
    struct buf fields;

    (void)state;
    buf_init(&fields, 10);
    assert_int_equal(fields_add(&fields, SPAN("a"), SPAN("123456")), 0); /* 10 with its newline */
    assert_int_equal(fields_add(&fields, SPAN("b"), SPAN("")), FAULT_LIMIT);
    assert_true(span_is(buf_span(&fields), "a: 123456\n"));
    buf_done(&fields);
}

static void options_come_back_as_they_went(void **state)
{
    struct task_options in = {.timeout_ms = 250,
                              .has_repeatable = true,
                              .retry = SPAN("{\"max_attempts\":3}"),
                              .callback = SPAN("{\"url\":\"http://x/\"}")};
    struct task_options out;
    struct buf fields;

    (void)state;
    buf_init(&fields, 1000);
    assert_int_equal(options_render(&in, &fields), 0);
    options_read(buf_span(&fields), &out);
    assert_int_equal(out.timeout_ms, 250);
    assert_true(out.has_repeatable && !out.repeatable);
    assert_true(span_equal(out.retry, in.retry) && span_equal(out.callback, in.callback));
    buf_clear(&fields);
    assert_int_equal(options_render(&(struct task_options){0}, &fields), 0);
    assert_int_equal(fields.len, 0); /* no wish costs nothing */
    buf_done(&fields);
}

static void a_fingerprint_covers_what_makes_the_request(void **state) /* I3 */
{
    struct task one = {.method = SPAN("POST"), .target = SPAN("http://a/"), .body = SPAN("xy")};
    struct task other = one;
    struct error err;

    (void)state;
    other.labels = SPAN("a: b\n");
    other.headers = SPAN("X-Retry: 2\n");
    assert_int_equal(fingerprint_task(&one, &err), 0);
    assert_int_equal(fingerprint_task(&other, &err), 0);
    assert_memory_equal(one.fingerprint, other.fingerprint, sizeof one.fingerprint);
    const struct task different[] = {
        {.method = SPAN("PUT"), .target = one.target, .body = one.body},
        {.method = one.method, .target = SPAN("http://b/"), .body = one.body},
        {.method = one.method, .target = one.target, .body = SPAN("xz")},
        {.method = one.method,
         .target = one.target,
         .body = one.body,
         .headers = SPAN("content-type: text/plain\n")},
        {.method = SPAN("POS"), .target = SPAN("Thttp://a/"), .body = one.body},
    };
    for (size_t i = 0; i < sizeof different / sizeof *different; i++) {
        other = different[i];
        assert_int_equal(fingerprint_task(&other, &err), 0);
        assert_memory_not_equal(one.fingerprint, other.fingerprint, sizeof one.fingerprint);
    }
}

static void a_schedule_gives_the_earliest_first_and_the_oldest_among_equals(void **state)
{
    struct schedule schedule = {0};
    struct schedule_entry entry, last = {.due_ms = INT64_MIN};
    struct daruma_dice dice = daruma_dice_seed(harness_seed());

    (void)state;
    for (int i = 0; i < 5000; i++) {
        int64_t due_ms = (int64_t)(daruma_dice_roll(&dice) % 500);
        assert_true(
            schedule_add(&schedule, (struct schedule_entry){.due_ms = due_ms, .row = i + 1}));
        if (i % 3 == 0) {
            schedule_pop(&schedule);
        }
    }
    size_t due = schedule_due_count(&schedule, 250, SIZE_MAX), found = 0;
    assert_int_equal(schedule_due_count(&schedule, 250, 7), 7);
    assert_int_equal(schedule_due_count(&schedule, -1, SIZE_MAX), 0);
    while (schedule_first(&schedule, &entry)) {
        found += entry.due_ms <= 250;
        assert_true(entry.due_ms > last.due_ms ||
                    (entry.due_ms == last.due_ms && entry.row > last.row));
        last = entry;
        schedule_pop(&schedule);
    }
    assert_int_equal(due, found);
    schedule_pop(&schedule);
    schedule_done(&schedule);
}

/* Against a plain list of what is there. */
static void a_row_that_is_added_once_is_there_once(void **state)
{
    struct schedule schedule = {0};
    struct schedule_entry first;
    bool is_there[301] = {false};
    struct daruma_dice dice = daruma_dice_seed(harness_seed());

    (void)state;
    for (int i = 0; i < 20000; i++) {
        int64_t row = 1 + (int64_t)(daruma_dice_roll(&dice) % 300);
        switch (daruma_dice_roll(&dice) % 4) {
        case 0:
            if (schedule_first(&schedule, &first)) {
                is_there[first.row] = false;
                schedule_pop(&schedule);
            }
            break;
        case 1:
            if (i % 50 == 0) {
                schedule_remove(&schedule, &row, 1);
                is_there[row] = false;
            }
            break;
        default:
            assert_true(
                schedule_add_once(&schedule, (struct schedule_entry){.due_ms = i, .row = row}));
            is_there[row] = true;
        }
        size_t count = 0;
        for (int64_t each = 1; each <= 300; each++) {
            count += is_there[each];
        }
        assert_int_equal(schedule.count, count);
    }
    while (schedule_first(&schedule, &first)) {
        assert_true(is_there[first.row]);
        is_there[first.row] = false;
        schedule_pop(&schedule);
    }
    assert_null(schedule.rows); /* one that was large for a while takes no memory for it later */
    schedule_done(&schedule);
}

static void a_moment_is_written_in_utc_with_milliseconds(void **state)
{
    char text[CLOCK_TEXT_MAX];

    (void)state;
    clock_format(INT64_C(1794738030123), text);
    assert_string_equal(text, "2026-11-15T10:20:30.123Z");
    clock_format(INT64_C(951782400000), text);
    assert_string_equal(text, "2000-02-29T00:00:00.000Z");
    clock_format(-5, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    clock_format(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
    assert_true(clock_wall_ms(&clock_real) > INT64_C(1700000000000));
    assert_true(clock_mono_ms(&clock_real) >= 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_a_uuid_v7_and_leads_back_to_its_row),
        cmocka_unit_test(ids_only_grow_whatever_the_clock_does),
        cmocka_unit_test(an_id_cannot_be_computed_from_the_one_before),
        cmocka_unit_test(what_is_not_one_of_our_ids_is_refused),
        cmocka_unit_test(names_and_keys_have_their_characters_and_lengths),
        cmocka_unit_test(a_state_outside_may_be_two_inside),
        cmocka_unit_test(fields_keep_order_and_repetition),
        cmocka_unit_test(every_byte_of_a_field_is_judged),
        cmocka_unit_test(lines_that_are_no_fields_are_read_as_far_as_they_go),
        cmocka_unit_test(a_field_is_found_as_a_walk_finds_it),
        cmocka_unit_test(a_field_that_does_not_fit_leaves_nothing),
        cmocka_unit_test(options_come_back_as_they_went),
        cmocka_unit_test(a_fingerprint_covers_what_makes_the_request),
        cmocka_unit_test(a_schedule_gives_the_earliest_first_and_the_oldest_among_equals),
        cmocka_unit_test(a_row_that_is_added_once_is_there_once),
        cmocka_unit_test(a_moment_is_written_in_utc_with_milliseconds),
    };
    return HARNESS_RUN(argc, argv, tests);
}
