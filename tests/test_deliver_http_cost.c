/* SPDX-License-Identifier: MIT
 *
 * What an answer may cost: one that goes on and on, within its header, between its chunks or behind
 * them, is cut off at a limit, and what is known by then is told. And answers whose length can be read
 * in more than one way are none. Nor does a host that is an address cost anything once it was sent to.
 */
#include "rig.h"
#include "harness.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

/* `head`, then `piece` over and over. */
struct endless {
    const char *head, *piece;
    size_t times;
};

static void answer_with(const struct endless *endless, struct rig *rig, struct delivery *delivery)
{
    size_t head = strlen(endless->head), piece = strlen(endless->piece);
    size_t len = head + piece * endless->times;
    char *bytes = malloc(len + 1);

    assert_non_null(bytes);
    memcpy(bytes, endless->head, head);
    for (size_t at = head; at < len; at += piece) {
        memcpy(bytes + at, endless->piece, piece);
    }
    const struct target_step steps[] = {
        TARGET_READS, {.act = TARGET_WRITE, .bytes = bytes, .len = len}, TARGET_HOLDS};
    rig_open_script(rig, steps, 3);
    *delivery = rig_delivery(rig, "POST");
    rig_carry_out(rig, delivery);
    rig_close(rig);
    free(bytes);
}

static void expect_cut(const struct endless *endless, const char *message)
{
    struct rig rig = {0};
    struct delivery delivery;

    answer_with(endless, &rig, &delivery);
    rig_expect(&delivery, TASK_SENT_MAYBE, message);
}

static void a_header_without_end_is_no_answer(void **state)
{
    (void)state;
    static const struct endless lines[] = {
        {"HTTP/1.1 200 OK\r\n", "X-Many: 0123456789012345678901234567890123456789\r\n", 20000},
        {"HTTP/1.1 200 OK\r\n", "a:\r\n", 20000},
        {"HTTP/1.1 200 OK\r\nA: b\r\n", " folded\r\n", 20000},
        {"", "HTTP/1.1 100 Continue\r\n\r\n", 20000},
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        expect_cut(&lines[i], "answer_headers_too_large: over 262144 bytes or 4096 lines of header "
                              "(sent: maybe)");
    }
}

static void a_body_of_nothing_but_framing_is_no_answer(void **state)
{
    (void)state;
    static char extension[8200] = "1;";

    memset(extension + 2, 'y', 8000);
    memcpy(extension + 8002, "\r\nx\r\n", 6);
    expect_cut(&(struct endless){CHUNKED "1;", "yyyyyyyyyyyyyyyy", 100000},
               "answer_framing_too_large: over 262144 bytes that are no part of it (sent: maybe)");
    expect_cut(&(struct endless){CHUNKED, extension, 200},
               "answer_framing_too_large: over 262144 bytes that are no part of it (sent: maybe)");
}

/* The body had come to its end: the target has done its work. */
static void trailers_without_end_leave_the_answer_whole(void **state)
{
    (void)state;
    static const struct endless trailers[] = {
        {CHUNKED "2\r\nok\r\n0\r\n", "X-Many: 0123456789012345678901234567890123456789\r\n", 40000},
        {CHUNKED "2\r\nok\r\n0\r\n", "a:\r\n", 40000},
    };

    for (size_t i = 0; i < sizeof trailers / sizeof *trailers; i++) {
        struct rig rig = {0};
        struct delivery delivery;
        answer_with(&trailers[i], &rig, &delivery);
        rig_expect(
            &delivery, TASK_SENT_YES,
            "answer_headers_too_large: over 262144 bytes or 4096 lines of trailers, not read "
            "on");
        assert_int_equal(delivery.outcome.status, 200);
        assert_true(span_is(buf_span(&delivery.response_body), "ok"));
        delivery_done(&delivery);
    }
}

static void a_body_of_short_chunks_is_kept(void **state)
{
    (void)state;
    enum { CHUNKS = 300000 };
    struct rig rig = {0};
    char *bytes = malloc(CHUNKS * 6 + 128);
    size_t len = strlen(CHUNKED);

    assert_non_null(bytes);
    memcpy(bytes, CHUNKED, len);
    for (int i = 0; i < CHUNKS; i++, len += 6) {
        memcpy(bytes + len, "1\r\nx\r\n", 6);
    }
    memcpy(bytes + len, "0\r\n\r\n", 5);
    const struct target_step steps[] = {
        TARGET_READS, {.act = TARGET_WRITE, .bytes = bytes, .len = len + 5}, TARGET_REPEATS};
    rig_open_script(&rig, steps, 3);
    for (int i = 0; i < 2; i++) { /* and its connection is used again */
        struct delivery delivery = rig_delivery(&rig, "POST");
        rig_carry_out(&rig, &delivery);
        rig_expect(&delivery, TASK_SENT_YES, "");
        assert_int_equal(delivery.response_body.len, CHUNKS);
        delivery_done(&delivery);
    }
    assert_int_equal(target_connection_count(rig.target), 1);
    rig_close(&rig);
    free(bytes);
}

static void only_so_many_fields_are_kept(void **state)
{
    (void)state;
    enum { FIELDS = 2000 };
    char *head = malloc(FIELDS * 16);
    struct rig rig = {0};
    struct delivery delivery;
    size_t len;

    assert_non_null(head);
    len = (size_t)snprintf(head, FIELDS * 16, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < FIELDS; i++) {
        len += (size_t)snprintf(head + len, FIELDS * 16 - len, "X-%d: 1\r\n", i);
    }
    (void)snprintf(head + len, FIELDS * 16 - len, "Content-Length: 2\r\n\r\nok");
    answer_with(&(struct endless){head, "", 0}, &rig, &delivery);
    rig_expect(&delivery, TASK_SENT_YES, "more than 1024 header fields, some not kept");
    assert_true(delivery.is_header_cut);
    assert_false(delivery.is_unframed); /* the length was read, kept or not */
    delivery_done(&delivery);
    free(head);
}

static void a_length_that_can_be_read_in_two_ways_is_no_answer(void **state)
{
    (void)state;
    static const char *const lengths[] = {"-1",
                                          "+2",
                                          "2, 2",
                                          "2x",
                                          "0x2",
                                          "two",
                                          "",
                                          "18446744073709551618",
                                          "2\r\nContent-Length: 3"};
    char answer[128];

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        (void)snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\nok",
                       lengths[i]);
        struct rig rig = {0};
        struct delivery delivery;
        answer_with(&(struct endless){answer, "", 0}, &rig, &delivery);
        assert_int_equal(delivery.outcome.sent, TASK_SENT_MAYBE);
        assert_true(span_starts(span_of(delivery.message), "answer is not HTTP: "));
    }
}

static void a_switch_of_protocols_is_no_answer(void **state)
{
    (void)state;
    expect_cut(&(struct endless){"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", "", 0},
               "answer is not HTTP: it switches to a protocol that was not asked for");
}

static void send_to_addresses(struct rig *rig, int from, int to)
{
    char url[64];

    for (int i = from; i < to; i++) {
        struct delivery delivery = rig_delivery(rig, "GET");
        (void)snprintf(url, sizeof url, "http://127.1.%d.%d:1/", i / 256, i % 256); /* fits */
        delivery.url = span_of(url);
        rig_carry_out(rig, &delivery);
        assert_int_equal(delivery.outcome.sent, TASK_SENT_NO);
        delivery_done(&delivery);
    }
}

/* What libcurl remembers it walks at each transfer. */
static void a_host_that_is_an_address_is_not_remembered(void **state)
{
    (void)state;
    enum { HOSTS = 1000, ROOM = 20 };
    const struct target_step steps[] = {TARGET_HOLDS};
    struct rig rig = {0};

    rig_open_script(&rig, steps, 1);
    send_to_addresses(&rig, 0, 100);
    size_t before = mallinfo2().uordblks;
    send_to_addresses(&rig, 100, 100 + HOSTS);
    size_t after = mallinfo2().uordblks;
    assert_true(after < before + (size_t)HOSTS * ROOM); /* ASan counts nothing */
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_without_end_is_no_answer),
        cmocka_unit_test(a_body_of_nothing_but_framing_is_no_answer),
        cmocka_unit_test(trailers_without_end_leave_the_answer_whole),
        cmocka_unit_test(a_body_of_short_chunks_is_kept),
        cmocka_unit_test(only_so_many_fields_are_kept),
        cmocka_unit_test(a_length_that_can_be_read_in_two_ways_is_no_answer),
        cmocka_unit_test(a_switch_of_protocols_is_no_answer),
        cmocka_unit_test(a_host_that_is_an_address_is_not_remembered),
    };

    return HARNESS_RUN(argc, argv, tests);
}
