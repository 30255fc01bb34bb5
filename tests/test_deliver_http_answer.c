/* SPDX-License-Identifier: MIT
 *
 * What comes back of a delivery: status, class, hint, header fields and body of the final answer.
 */
#include "rig.h"
#include "harness.h"

#include "task/fields.h"

#include <stdio.h>
#include <stdlib.h>

#define BODY_MAX 8

/* One request against one script, which writes `answer` in one piece or byte by byte and closes. */
struct trial {
    struct rig rig;
    struct delivery delivery;
    struct target_step steps[3];
};

static void trial_open(struct trial *trial, enum target_act how, struct span answer)
{
    trial->steps[0] = (struct target_step){.act = TARGET_READ};
    trial->steps[1] = (struct target_step){.act = how, .bytes = answer.at, .len = answer.len};
    rig_open_script(&trial->rig, trial->steps, 2);
    trial->delivery = rig_delivery(&trial->rig, "GET");
}

static void trial_close(struct trial *trial)
{
    delivery_done(&trial->delivery);
    rig_close(&trial->rig);
}

static struct span fields_of(const struct trial *trial)
{
    return buf_span(&trial->delivery.response_headers);
}

static void expect_field(const struct trial *trial, const char *name, const char *value)
{
    struct span found = {0};

    assert_true(fields_find(fields_of(trial), name, &found));
    assert_true(span_is(found, value));
}

static void expect_body(const struct trial *trial, struct span body)
{
    assert_true(span_equal(buf_span(&trial->delivery.response_body), body));
}

static void expect_answer(const struct trial *trial, int status, const char *message)
{
    assert_string_equal(trial->delivery.message, message);
    assert_int_equal(trial->delivery.outcome.sent, TASK_SENT_YES);
    assert_int_equal(trial->delivery.outcome.status, status);
    assert_int_equal(trial->delivery.sends, 1);
}

static struct trial *run_as(const char *method, enum target_act how, struct span answer)
{
    struct trial *trial = calloc(1, sizeof *trial);

    assert_non_null(trial);
    trial_open(trial, how, answer);
    trial->delivery.method = span_of(method);
    rig_carry_out(&trial->rig, &trial->delivery);
    return trial;
}

static struct trial *run(struct span answer)
{
    return run_as("GET", TARGET_WRITE, answer);
}

static void end(struct trial *trial)
{
    trial_close(trial);
    free(trial);
}

static void status_fields_and_body_come_back_as_they_are(void **state)
{
    (void)state;
    struct trial *trial = run(SPAN("HTTP/1.1 201 Created\r\n"
                                   "Content-Type: text/plain\r\n"
                                   "X-Odd:   \t spaced out \t \r\n"
                                   "X-Empty:\r\n"
                                   "Content-Length: 5\r\n"
                                   "\r\n"
                                   "hello"));

    expect_answer(trial, 201, "");
    assert_true(span_is(fields_of(trial), "Content-Type: text/plain\n"
                                          "X-Odd: spaced out\n"
                                          "X-Empty: \n"
                                          "Content-Length: 5\n"));
    expect_body(trial, SPAN("hello"));
    assert_false(trial->delivery.is_unframed);
    assert_false(trial->delivery.outcome.has_hint);
    end(trial);
}

static void an_answer_that_drips_in_is_the_same_answer(void **state)
{
    (void)state;
    struct trial *trial =
        run_as("POST", TARGET_DRIP,
               SPAN("HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"));

    expect_answer(trial, 200, "");
    expect_field(trial, "a", "b");
    expect_body(trial, SPAN("abcdefg"));
    end(trial);
}

/* Engineering 1.14: it cannot be told from one that is cut off, so it is kept and marked. */
static void an_answer_that_ends_with_its_connection_is_kept_and_marked(void **state)
{
    (void)state;
    struct trial *trial = run(SPAN("HTTP/1.1 200 OK\r\nA: b\r\n\r\nall of it?"));

    expect_answer(trial, 200, "");
    expect_body(trial, SPAN("all of it?"));
    assert_true(trial->delivery.is_unframed);
    end(trial);
}

static void an_old_answer_without_length_is_marked_too(void **state)
{
    (void)state;
    struct trial *trial = run(SPAN("HTTP/1.0 200 OK\r\n\r\n"));

    expect_answer(trial, 200, "");
    assert_true(trial->delivery.is_unframed);
    end(trial);
}

static void only_the_final_answer_is_kept(void **state)
{
    (void)state;
    struct trial *trial = run_as("POST", TARGET_WRITE,
                                 SPAN("HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\n"
                                      "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
                                      "HTTP/1.1 200 OK\r\nX-Final: 1\r\nContent-Length: 2\r\n"
                                      "\r\nok"));

    expect_answer(trial, 200, "");
    assert_true(span_is(fields_of(trial), "X-Final: 1\nContent-Length: 2\n"));
    expect_body(trial, SPAN("ok"));
    end(trial);
}

static void trailers_are_not_header_fields(void **state)
{
    (void)state;
    struct trial *trial = run(SPAN("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   "2\r\nok\r\n0\r\nRetry-After: 9\r\nHTTP/1.1 500 No: x\r\n\r\n"));

    expect_answer(trial, 200, "");
    assert_true(span_is(fields_of(trial), "Transfer-Encoding: chunked\n"));
    expect_body(trial, SPAN("ok"));
    assert_false(trial->delivery.is_unframed);
    assert_false(trial->delivery.outcome.has_hint);
    end(trial);
}

/* A target that keeps the connection open behind its answer. */
static struct trial *run_held(const char *method, struct span answer)
{
    struct trial *trial = calloc(1, sizeof *trial);

    assert_non_null(trial);
    trial->steps[0] = (struct target_step){.act = TARGET_READ};
    trial->steps[1] =
        (struct target_step){.act = TARGET_WRITE, .bytes = answer.at, .len = answer.len};
    trial->steps[2] = (struct target_step){.act = TARGET_HOLD};
    rig_open_script(&trial->rig, trial->steps, 3);
    trial->delivery = rig_delivery(&trial->rig, method);
    rig_carry_out(&trial->rig, &trial->delivery);
    return trial;
}

/* RFC 9112 has no such coding any more; before, it was a word for none. */
static void the_coding_identity_is_none(void **state)
{
    static const struct {
        const char *method, *fields, *body, *wanted;
    } rows[] = {
        {"POST", "Transfer-Encoding: identity\r\nContent-Length: 5\r\n", "hello", "hello"},
        {"POST", "Content-Length: 5\r\nTransfer-Encoding: Identity\r\n", "hello", "hello"},
        {"POST", "Content-Length: 5\r\nTransfer-Encoding: identity, identity\r\n", "hello and more",
         "hello"},
        {"POST", "Content-Length: 0\r\nTransfer-Encoding: identity\r\n", "", ""},
        {"HEAD", "Content-Length: 5\r\nTransfer-Encoding: identity\r\n", "", ""},
    };
    char answer[200];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\n%s\r\n%s", rows[i].fields,
                       rows[i].body);
        struct trial *trial = run_held(rows[i].method, span_of(answer));
        expect_answer(trial, 200, "");
        expect_body(trial, span_of(rows[i].wanted));
        assert_false(trial->delivery.is_unframed);
        end(trial);
    }
    struct trial *trial = run(SPAN("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n"
                                   "Content-Length: 5\r\n\r\nhell")); /* closed too early */
    assert_int_equal(trial->delivery.outcome.sent, TASK_SENT_MAYBE);
    end(trial);
}

static void expect_bodyless(const char *method, struct span answer, int status, const char *message)
{
    struct trial *trial = run_as(method, TARGET_WRITE, answer);

    expect_answer(trial, status, message);
    expect_body(trial, SPAN(""));
    assert_false(trial->delivery.is_unframed);
    end(trial);
}

static void answers_that_have_no_body_do_not_wait_for_one(void **state)
{
    (void)state;
    expect_bodyless("POST", SPAN("HTTP/1.1 204 No Content\r\nA: b\r\n\r\n"), 204, "");
    expect_bodyless("GET", SPAN("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"), 304,
                    "HTTP 304");
    expect_bodyless("HEAD", SPAN("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"), 200, "");
    expect_bodyless("HEAD", SPAN("HTTP/1.1 200 OK\r\n\r\n"), 200, "");
    expect_bodyless("GET", SPAN("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), 200, "");
}

static void a_field_that_is_there_twice_is_kept_twice(void **state)
{
    (void)state;
    struct trial *trial = run(SPAN("HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nVary: x\r\n"
                                   "set-cookie: b=2\r\nContent-Length: 0\r\n\r\n"));

    assert_true(span_is(fields_of(trial),
                        "Set-Cookie: a=1\nVary: x\nset-cookie: b=2\nContent-Length: 0\n"));
    end(trial);
}

static void fields_that_are_not_valid_are_dropped(void **state)
{
    (void)state;
    struct trial *trial = run(SPAN("HTTP/1.1 200 OK\r\nGood: 1\r\n"
                                   "bad name: x\r\n: nameless\r\nBad-Value: a\001b\r\n"
                                   "Content-Length: 0\r\n\r\n"));

    expect_answer(trial, 200, "");
    assert_true(span_is(fields_of(trial), "Good: 1\nContent-Length: 0\n"));
    end(trial);
}

static void a_folded_field_is_one_line(void **state)
{
    (void)state;
    struct trial *trial = run(SPAN("HTTP/1.1 200 OK\r\nLong: one\r\n  two\r\n\tthree \r\n"
                                   "bad name: x\r\n gone with it\r\nContent-Length: 0\r\n\r\n"));

    expect_answer(trial, 200, "");
    assert_true(span_is(fields_of(trial), "Long: one two three\nContent-Length: 0\n"));
    end(trial);
}

struct status_case {
    int status;
    enum daruma_class error_class;
};

static void each_status_has_its_class(void **state)
{
    (void)state;
    static const struct status_case cases[] = {
        {301, DARUMA_CLASS_INVALID},      {400, DARUMA_CLASS_INVALID},
        {401, DARUMA_CLASS_AUTH},         {403, DARUMA_CLASS_AUTH},
        {404, DARUMA_CLASS_INVALID},      {407, DARUMA_CLASS_INVALID},
        {408, DARUMA_CLASS_TRANSIENT},    {410, DARUMA_CLASS_GONE},
        {417, DARUMA_CLASS_INVALID},      {425, DARUMA_CLASS_TRANSIENT},
        {429, DARUMA_CLASS_RATE_LIMITED}, {500, DARUMA_CLASS_TRANSIENT},
        {503, DARUMA_CLASS_TRANSIENT},    {529, DARUMA_CLASS_TRANSIENT},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char answer[160], message[32];
        (void)snprintf(answer, sizeof answer,
                       "HTTP/1.1 %d Reason\r\nLocation: /elsewhere\r\nWWW-Authenticate: Digest "
                       "realm=x, nonce=y\r\nContent-Length: 2\r\n\r\nno",
                       cases[i].status);
        (void)snprintf(message, sizeof message, "HTTP %d", cases[i].status);
        struct trial *trial = run_as("POST", TARGET_WRITE, span_of(answer));
        expect_answer(trial, cases[i].status, message);
        assert_int_equal(trial->delivery.outcome.error_class, cases[i].error_class);
        expect_body(trial, SPAN("no"));
        rig_end(&trial->rig);
        assert_int_equal(target_request_count(trial->rig.target), 1);
        end(trial);
    }
}

static void expect_hint(struct span answer, bool has_hint, int64_t hint_ms)
{
    struct trial *trial = run_as("POST", TARGET_WRITE, answer);

    assert_int_equal(trial->delivery.outcome.has_hint, has_hint);
    assert_int_equal(trial->delivery.outcome.hint_ms, hint_ms);
    end(trial);
}

/* The clock stands at Fri, 15 Jan 2027 08:00:00 GMT. */
static void hints_are_read(void **state)
{
    (void)state;
    expect_hint(SPAN("HTTP/1.1 429 Slow\r\nContent-Length: 0\r\nRetry-After: 7\r\n\r\n"), true,
                7000);
    expect_hint(SPAN("HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n"
                     "Retry-After: Fri, 15 Jan 2027 08:00:30 GMT\r\n\r\n"),
                true, 30000);
    expect_hint(SPAN("HTTP/1.1 429 Slow\r\nContent-Length: 0\r\nDate: Fri, 15 Jan 2027 09:00:00 GMT"
                     "\r\nRetry-After: Fri, 15 Jan 2027 09:00:12 GMT\r\n\r\n"),
                true, 12000); /* an hour fast: measured from its own Date */
    expect_hint(SPAN("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nretry-after: 120\r\n\r\n"), true,
                120000);
    expect_hint(SPAN("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: 0\r\n\r\n"), true, 0);
    expect_hint(SPAN("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), false, 0);
    expect_hint(SPAN("HTTP/1.1 100 Go\r\nRetry-After: 5\r\n\r\n"
                     "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
                false, 0);
}

static void a_hint_in_an_answer_that_is_cut_off_still_counts(void **state)
{
    (void)state;
    struct trial *trial = run(SPAN("HTTP/1.1 503 Busy\r\nContent-Length: 9\r\nRetry-After: 60\r\n"
                                   "\r\nhalf"));

    assert_int_equal(trial->delivery.outcome.sent, TASK_SENT_MAYBE);
    assert_int_equal(trial->delivery.outcome.status, 0);
    assert_int_equal(trial->delivery.outcome.hint_ms, 60000);
    assert_int_equal(trial->delivery.response_headers.len, 0);
    end(trial);
}

static struct trial *run_limited(struct span answer)
{
    struct trial *trial = calloc(1, sizeof *trial);

    assert_non_null(trial);
    trial_open(trial, TARGET_WRITE, answer);
    trial->delivery.response_max = BODY_MAX;
    rig_carry_out(&trial->rig, &trial->delivery);
    return trial;
}

static void a_body_as_long_as_the_limit_is_kept(void **state)
{
    (void)state;
    struct trial *trial = run_limited(SPAN("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n12345678"));

    expect_answer(trial, 200, "");
    expect_body(trial, SPAN("12345678"));
    end(trial);
}

/* The target has done its work: to call it a failure would only do it again. */
static void a_longer_one_is_a_success_whose_body_is_not_kept(void **state)
{
    (void)state;
    struct trial *trial =
        run_limited(SPAN("HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 9\r\n\r\n123456789"));

    expect_answer(trial, 200, "answer longer than 8 bytes, body not kept");
    expect_field(trial, "A", "b");
    expect_body(trial, SPAN(""));
    end(trial);
}

static void a_longer_failure_keeps_its_status(void **state)
{
    (void)state;
    struct trial *trial =
        run_limited(SPAN("HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
                         "5\r\n12345\r\n5\r\n67890\r\n")); /* and no end of it */

    expect_answer(trial, 503, "HTTP 503, answer longer than 8 bytes, body not kept");
    assert_int_equal(trial->delivery.outcome.error_class, DARUMA_CLASS_TRANSIENT);
    assert_int_equal(trial->delivery.outcome.hint_ms, 1000);
    expect_body(trial, SPAN(""));
    end(trial);
}

static void header_fields_past_their_limit_are_left_out(void **state)
{
    (void)state;
    enum { FIELDS = 20, VALUE = 4000 };
    static char answer[FIELDS * (VALUE + 32) + 128];
    size_t len = (size_t)snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\n");

    for (int i = 0; i < FIELDS; i++) {
        len += (size_t)snprintf(answer + len, sizeof answer - len, "X-%d: %0*d\r\n", i, VALUE, 7);
    }
    len += (size_t)snprintf(answer + len, sizeof answer - len, "Content-Length: 2\r\n\r\nok");
    struct trial *trial = run((struct span){.at = answer, .len = len});
    expect_answer(trial, 200, "header fields over 65536 bytes, some not kept");
    assert_in_range(trial->delivery.response_headers.len, 60000, HTTP_ANSWER_FIELDS_MAX);
    expect_body(trial, SPAN("ok"));
    assert_false(trial->delivery.is_unframed); /* the length was read, kept or not */
    end(trial);
}

static void any_byte_comes_and_goes(void **state)
{
    (void)state;
    enum { BYTES = 1024 * 1024 };
    static char body[BYTES], answer[BYTES + 64];
    struct trial trial = {0};

    for (size_t i = 0; i < BYTES; i++) {
        body[i] = (char)(i * 31 + (i >> 8));
    }
    int head =
        snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BYTES);
    memcpy(answer + head, body, BYTES);
    trial_open(&trial, TARGET_WRITE, (struct span){.at = answer, .len = (size_t)head + BYTES});
    trial.delivery.method = SPAN("PUT");
    trial.delivery.body = (struct span){.at = body, .len = BYTES};
    rig_carry_out(&trial.rig, &trial.delivery);
    expect_answer(&trial, 200, "");
    expect_body(&trial, trial.delivery.body);
    assert_true(span_equal(target_request_body(trial.rig.target, 0), trial.delivery.body));
    trial_close(&trial);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_fields_and_body_come_back_as_they_are),
        cmocka_unit_test(an_answer_that_drips_in_is_the_same_answer),
        cmocka_unit_test(an_answer_that_ends_with_its_connection_is_kept_and_marked),
        cmocka_unit_test(an_old_answer_without_length_is_marked_too),
        cmocka_unit_test(only_the_final_answer_is_kept),
        cmocka_unit_test(trailers_are_not_header_fields),
        cmocka_unit_test(the_coding_identity_is_none),
        cmocka_unit_test(answers_that_have_no_body_do_not_wait_for_one),
        cmocka_unit_test(a_field_that_is_there_twice_is_kept_twice),
        cmocka_unit_test(fields_that_are_not_valid_are_dropped),
        cmocka_unit_test(a_folded_field_is_one_line),
        cmocka_unit_test(each_status_has_its_class),
        cmocka_unit_test(hints_are_read),
        cmocka_unit_test(a_hint_in_an_answer_that_is_cut_off_still_counts),
        cmocka_unit_test(a_body_as_long_as_the_limit_is_kept),
        cmocka_unit_test(a_longer_one_is_a_success_whose_body_is_not_kept),
        cmocka_unit_test(a_longer_failure_keeps_its_status),
        cmocka_unit_test(header_fields_past_their_limit_are_left_out),
        cmocka_unit_test(any_byte_comes_and_goes),
    };

    return HARNESS_RUN(argc, argv, tests);
}
