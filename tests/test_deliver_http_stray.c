/* SPDX-License-Identifier: MIT
 *
 * Bytes on a kept connection that no request has asked for: whenever they come, no request gets
 * them, and none is sent twice for it. The target's first connection answers one request and sends
 * them; every other one just answers.
 */
#include "rig.h"
#include "harness.h"

#include "base/clock.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define OK_ANSWER     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define OWN_ANSWER    "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nown"
#define POISON_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON"

static const struct target_step answers[] = {TARGET_READS, TARGET_WRITES(OWN_ANSWER),
                                             TARGET_REPEATS};

struct stray {
    const char *method;  /* of the first request; NULL: POST */
    const char *answer;  /* to it */
    const char *follows; /* once that is back; NULL: nothing */
    const char *tls_name;
    bool is_repeatable;
};

struct course {
    sem_t is_back, is_written;
    bool has_answered;
};

/* The target's own thread: the first time it waits for the delivery to be back, the second time it
 * says that the bytes are on their way, which on a loopback is to say that they have come. */
static void on_told(void *user)
{
    struct course *course = user;

    if (!course->has_answered) {
        course->has_answered = true;
        (void)sem_wait(&course->is_back);
    } else {
        (void)sem_post(&course->is_written);
    }
}

static struct target_step writes(const char *text)
{
    return (struct target_step){.act = TARGET_WRITE, .bytes = text, .len = strlen(text)};
}

static void carry_out_first(struct rig *rig, const struct stray *stray, struct course *course)
{
    struct delivery first = rig_delivery(rig, stray->method != NULL ? stray->method : "POST");

    first.repeatable = stray->is_repeatable;
    first.ca = stray->tls_name != NULL ? span_of(target_certificate(rig->target)) : first.ca;
    rig_carry_out(rig, &first);
    rig_expect(&first, TASK_SENT_YES, first.outcome.status == 304 ? "HTTP 304" : "");
    delivery_done(&first);
    (void)sem_post(&course->is_back);
    if (stray->follows != NULL) {
        (void)sem_wait(&course->is_written);
    }
}

/* Two requests one after the other, and three at once: each gets its own answer. */
static void expect_own_answers(const struct stray *stray)
{
    struct course course = {0};
    struct target_step steps[] = {
        TARGET_READS,      writes(stray->answer),
        TARGET_TELLS,      writes(stray->follows != NULL ? stray->follows : ""),
        TARGET_TELLS,      TARGET_READS,
        writes(OK_ANSWER), TARGET_HOLDS};
    const struct target_script scripts[] = {TARGET_SCRIPT(steps), TARGET_SCRIPT(answers)};
    struct rig rig = {0};
    struct delivery later[5];

    assert_int_equal(sem_init(&course.is_back, 0, 0), 0);
    assert_int_equal(sem_init(&course.is_written, 0, 0), 0);
    rig_open(&rig, &(struct target_plan){.scripts = scripts,
                                         .count = 2,
                                         .tls_name = stray->tls_name,
                                         .told = on_told,
                                         .user = &course});
    carry_out_first(&rig, stray, &course);
    for (int i = 0; i < 5; i++) {
        later[i] = rig_delivery(&rig, "POST");
        later[i].body = SPAN("pay 100");
        later[i].repeatable = stray->is_repeatable;
        later[i].ca = stray->tls_name != NULL ? span_of(target_certificate(rig.target)) : SPAN("");
        rig_send(&rig, &later[i]);
        if (i < 2) {
            rig_wait(&rig, 1);
        }
    }
    rig_wait(&rig, 3);
    for (int i = 0; i < 5; i++) {
        rig_expect(&later[i], TASK_SENT_YES, "");
        assert_true(span_is(buf_span(&later[i].response_body), "own"));
        assert_int_equal(later[i].sends, 1);
        delivery_done(&later[i]);
    }
    rig_end(&rig);
    assert_int_equal(target_request_count(rig.target), 6); /* each of them once */
    rig_close(&rig);
}

static void an_answer_that_was_not_asked_for_is_not_given_to_the_next(void **state)
{
    (void)state;
    expect_own_answers(&(struct stray){.answer = OK_ANSWER, .follows = POISON_ANSWER});
}

static void nor_to_one_that_may_be_repeated(void **state)
{
    (void)state;
    expect_own_answers(
        &(struct stray){.answer = OK_ANSWER, .follows = POISON_ANSWER, .is_repeatable = true});
}

static void nor_over_tls(void **state)
{
    (void)state;
    expect_own_answers(
        &(struct stray){.answer = OK_ANSWER, .follows = POISON_ANSWER, .tls_name = "IP:127.0.0.1"});
}

static void a_single_byte_spoils_a_connection(void **state)
{
    (void)state;
    expect_own_answers(&(struct stray){.answer = OK_ANSWER, .follows = "x"});
    expect_own_answers(&(struct stray){.answer = OK_ANSWER, .follows = "\r\n"});
}

static void so_does_an_interim_answer(void **state)
{
    (void)state;
    expect_own_answers(
        &(struct stray){.answer = OK_ANSWER, .follows = "HTTP/1.1 100 Continue\r\n\r\n"});
}

/* What libcurl has read together with an answer is gone, but what comes behind it is not. */
static void a_connection_with_excess_behind_an_answer_is_not_used_again(void **state)
{
    (void)state;
    static const struct stray strays[] = {
        {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nokHTTP/1.1 200 OK\r\n"},
        {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n"},
        {.answer = "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n"},
        {.answer = "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\n"},
        {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\nHTTP/1.1 200 OK\r\n",
         .method = "HEAD"},
        {.answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
                   "HTTP/1.1 200 OK\r\n"},
        {.answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
                   "A: b\r\n\r\nHTTP/1.1 200 OK\r\n"},
    };

    for (size_t i = 0; i < sizeof strays / sizeof *strays; i++) {
        expect_own_answers(&strays[i]);
    }
}

static void likewise_over_tls(void **state)
{
    (void)state;
    expect_own_answers(
        &(struct stray){.answer = "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n",
                        .tls_name = "IP:127.0.0.1"});
    expect_own_answers(&(struct stray){.answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nok"
                                                 "HTTP/1.1 200 OK\r\n",
                                       .tls_name = "IP:127.0.0.1"});
}

enum { AT_FIRST = 2, AT_ONCE = 4, WAIT_TIMES_MAX = 2000 };

/* In each connection's thread: none of the first two, and none of the others, is answered before all
 * of them have come, or it has taken long. */
static void on_all(void *user)
{
    atomic_int *count = user;

    int wanted = atomic_fetch_add(count, 1) < AT_FIRST ? AT_FIRST : AT_FIRST + AT_ONCE;
    for (int i = 0; i < WAIT_TIMES_MAX && atomic_load(count) < wanted; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* libcurl believes it, of every connection to that target, and puts many requests on one. */
static void a_target_that_claims_http_2_gets_one_request_at_a_time(void **state)
{
    (void)state;
    static const struct target_step claims[] = {
        TARGET_READS, TARGET_TELLS, TARGET_WRITES("HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        TARGET_HOLDS};
    static const struct target_step waits[] = {TARGET_READS, TARGET_TELLS,
                                               TARGET_WRITES(OWN_ANSWER), TARGET_REPEATS};
    const struct target_script scripts[] = {TARGET_SCRIPT(waits), TARGET_SCRIPT(claims),
                                            TARGET_SCRIPT(waits)};
    atomic_int count = 0;
    struct rig rig = {0};
    struct delivery pair[AT_FIRST], later[AT_ONCE];

    rig_open(&rig,
             &(struct target_plan){.scripts = scripts, .count = 3, .told = on_all, .user = &count});
    for (int i = 0; i < AT_FIRST; i++) { /* on two connections */
        pair[i] = rig_delivery(&rig, "POST");
        rig_send(&rig, &pair[i]);
    }
    rig_wait(&rig, AT_FIRST);
    for (int i = 0; i < AT_ONCE; i++) {
        later[i] = rig_delivery(&rig, "POST");
        rig_send(&rig, &later[i]);
    }
    rig_wait(&rig, AT_ONCE);
    assert_int_equal(target_connection_count(rig.target), AT_FIRST + AT_ONCE - 1); /* one again */
    for (int i = 0; i < AT_ONCE; i++) {
        rig_expect(&later[i], TASK_SENT_YES, "");
        delivery_done(&later[i]);
    }
    for (int i = 0; i < AT_FIRST; i++) {
        delivery_done(&pair[i]);
    }
    rig_close(&rig);
}

/* The target's session tickets come before its first answer. */
static void a_clean_connection_over_tls_is_used_again(void **state)
{
    (void)state;
    const struct target_script scripts[] = {TARGET_SCRIPT(answers)};
    struct rig rig = {0};
    rig_open(&rig,
             &(struct target_plan){.scripts = scripts, .count = 1, .tls_name = "IP:127.0.0.1"});

    for (int i = 0; i < 5; i++) {
        struct delivery delivery = rig_delivery(&rig, "POST");
        delivery.ca = span_of(target_certificate(rig.target));
        rig_carry_out(&rig, &delivery);
        rig_expect(&delivery, TASK_SENT_YES, "");
        delivery_done(&delivery);
    }
    assert_int_equal(target_connection_count(rig.target), 1);
    rig_close(&rig);
}

/* By this clock all of the time was over when the connection was found to be spoilt. */
static void what_begins_again_has_only_what_is_left_of_the_time(void **state)
{
    const struct stray stray = {.answer = OK_ANSWER, .follows = POISON_ANSWER};
    struct course course = {0};
    struct target_step steps[] = {TARGET_READS,          writes(stray.answer), TARGET_TELLS,
                                  writes(stray.follows), TARGET_TELLS,         TARGET_HOLDS};
    static const struct target_step holds[] = {TARGET_READS, TARGET_HOLDS};
    const struct target_script scripts[] = {TARGET_SCRIPT(steps), TARGET_SCRIPT(holds)};
    struct rig rig = {0};
    (void)state;

    assert_int_equal(sem_init(&course.is_back, 0, 0), 0);
    assert_int_equal(sem_init(&course.is_written, 0, 0), 0);
    rig_open(&rig, &(struct target_plan){
                       .scripts = scripts, .count = 2, .told = on_told, .user = &course});
    carry_out_first(&rig, &stray, &course);
    rig.mono_step_ms = RIG_TIMEOUT_MS;
    struct delivery later = rig_delivery(&rig, "POST");
    int64_t began_ms = clock_mono_ms(&clock_real);
    rig_carry_out(&rig, &later);
    assert_true(clock_mono_ms(&clock_real) - began_ms < RIG_TIMEOUT_MS / 2);
    assert_int_equal(strncmp(later.message, "timeout after 20000 ms", 22), 0);
    delivery_done(&later);
    rig_end(&rig);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_was_not_asked_for_is_not_given_to_the_next),
        cmocka_unit_test(nor_to_one_that_may_be_repeated),
        cmocka_unit_test(nor_over_tls),
        cmocka_unit_test(what_begins_again_has_only_what_is_left_of_the_time),
        cmocka_unit_test(a_single_byte_spoils_a_connection),
        cmocka_unit_test(so_does_an_interim_answer),
        cmocka_unit_test(a_connection_with_excess_behind_an_answer_is_not_used_again),
        cmocka_unit_test(likewise_over_tls),
        cmocka_unit_test(a_target_that_claims_http_2_gets_one_request_at_a_time),
        cmocka_unit_test(a_clean_connection_over_tls_is_used_again),
    };

    return HARNESS_RUN(argc, argv, tests);
}
