/* SPDX-License-Identifier: MIT
 *
 * How far a delivery got, against a target that does each thing that can go wrong: never "no" when
 * the target may have seen it, never two requests where one is allowed. test_deliver_http_answer.c
 * has what is sent and what comes back, test_deliver_http_many.c many at a time.
 */
#include "rig.h"
#include "harness.h"

#include <netdb.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void expect_start(const struct delivery *delivery, const char *message)
{
    if (strncmp(delivery->message, message, strlen(message)) != 0) {
        fail_msg("\"%s\" does not begin with \"%s\"", delivery->message, message);
    }
}

/* One POST on a new connection against one script: it comes back maybe sent, seen once. */
static void expect_maybe(const struct target_step *steps, size_t count, int64_t timeout_ms,
                         const char *message)
{
    struct rig rig = {0};
    rig_open_script(&rig, steps, count);
    struct delivery delivery = rig_delivery(&rig, "POST");

    delivery.body = SPAN("body");
    delivery.timeout_ms = timeout_ms;
    rig_carry_out(&rig, &delivery);
    rig_expect(&delivery, TASK_SENT_MAYBE, message);
    assert_int_equal(delivery.sends, 1);
    rig_end(&rig);
    assert_int_equal(target_request_count(rig.target), 1);
    delivery_done(&delivery);
    rig_close(&rig);
}

#define EXPECT_MAYBE(steps, timeout_ms, message)                                                   \
    expect_maybe((steps), sizeof(steps) / sizeof *(steps), (timeout_ms), (message))

static void a_new_connection_closed_after_reading_is_maybe_sent(void **state)
{
    (void)state;
    static const struct target_step steps[] = {TARGET_READS};

    EXPECT_MAYBE(steps, RIG_TIMEOUT_MS, "connection closed before the answer");
}

static void a_reset_after_reading_is_maybe_sent(void **state)
{
    (void)state;
    static const struct target_step steps[] = {TARGET_READS, TARGET_RESETS};

    EXPECT_MAYBE(steps, RIG_TIMEOUT_MS, "connection closed before the answer");
}

static void a_reset_within_the_body_is_maybe_sent(void **state)
{
    (void)state;
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), TARGET_RESETS};
    struct rig rig = {0};
    RIG_OPEN(&rig, steps);
    struct delivery delivery = rig_delivery(&rig, "GET");

    rig_carry_out(&rig, &delivery); /* what was written before a reset may be lost with it */
    assert_int_equal(delivery.outcome.sent, TASK_SENT_MAYBE);
    assert_int_equal(delivery.outcome.status, 0);
    rig_close(&rig);
}

static void silence_is_a_timeout_and_maybe_sent(void **state)
{
    (void)state;
    static const struct target_step steps[] = {TARGET_READS, TARGET_HOLDS};

    EXPECT_MAYBE(steps, RIG_SENT_MS, "timeout after 500 ms (sent: maybe)");
}

static void a_header_that_does_not_end_is_a_timeout(void **state)
{
    (void)state;
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES("HTTP/1.1 200 OK\r\nContent-Len"), TARGET_HOLDS};

    EXPECT_MAYBE(steps, RIG_SENT_MS, "timeout after 500 ms (sent: maybe)");
}

static void a_body_that_does_not_end_is_a_timeout(void **state)
{
    (void)state;
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"),
        TARGET_HOLDS};

    EXPECT_MAYBE(steps, RIG_SENT_MS, "timeout after 500 ms (sent: maybe)");
}

static void a_body_shorter_than_its_length_is_cut_off(void **state)
{
    (void)state;
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")};

    EXPECT_MAYBE(steps, RIG_TIMEOUT_MS, "answer cut off after 4 bytes");
}

static void a_chunk_that_is_not_whole_is_cut_off(void **state)
{
    (void)state;
    static const struct target_step steps[] = {
        TARGET_READS,
        TARGET_WRITES(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n9\r\nhalf")};

    EXPECT_MAYBE(steps, RIG_TIMEOUT_MS, "answer cut off after 7 bytes");
}

static void chunks_without_the_last_one_are_cut_off(void **state)
{
    (void)state;
    static const struct target_step steps[] = {
        TARGET_READS,
        TARGET_WRITES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")};

    EXPECT_MAYBE(steps, RIG_TIMEOUT_MS, "answer cut off after 3 bytes");
}

static void half_a_status_line_is_no_answer(void **state)
{
    (void)state;
    static const struct target_step steps[] = {TARGET_READS, TARGET_WRITES("HTTP/1.1 2")};

    EXPECT_MAYBE(steps, RIG_TIMEOUT_MS, "connection closed before the answer");
}

/* libcurl calls this a success with status 200. */
static void a_header_cut_off_after_its_status_is_no_answer(void **state)
{
    (void)state;
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Le")};

    EXPECT_MAYBE(steps, RIG_TIMEOUT_MS, "answer cut off within its header");
}

static void an_interim_answer_alone_is_no_answer(void **state)
{
    (void)state;
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")};

    EXPECT_MAYBE(steps, RIG_TIMEOUT_MS, "connection closed before the answer");
}

static void an_answer_that_is_not_http_is_maybe_sent(void **state)
{
    (void)state;
    static const struct target_step steps[] = {TARGET_READS, TARGET_WRITES("+OK POP3 ready\r\n")};
    struct rig rig = {0};
    RIG_OPEN(&rig, steps);
    struct delivery delivery = rig_delivery(&rig, "POST");

    rig_carry_out(&rig, &delivery);
    expect_start(&delivery, "answer is not HTTP: ");
    assert_int_equal(delivery.outcome.sent, TASK_SENT_MAYBE);
    delivery_done(&delivery);
    rig_close(&rig);
}

/* The kernel accepts before the target does, so the reset may come before the request or after. */
static void a_reset_before_reading_is_never_an_answer(void **state)
{
    (void)state;
    static const struct target_step steps[] = {TARGET_RESETS};
    struct rig rig = {0};
    RIG_OPEN(&rig, steps);
    struct delivery delivery = rig_delivery(&rig, "POST");

    rig_carry_out(&rig, &delivery);
    assert_int_equal(delivery.outcome.sent, delivery.sends == 0 ? TASK_SENT_NO : TASK_SENT_MAYBE);
    assert_int_equal(delivery.outcome.error_class, DARUMA_CLASS_TRANSIENT);
    rig_end(&rig);
    assert_int_equal(target_request_count(rig.target), 0);
    rig_close(&rig);
}

static void a_refused_connection_is_not_sent(void **state)
{
    (void)state;
    struct rig rig = {0};
    rig_open(&rig, NULL);
    struct delivery delivery = rig_delivery(&rig, "POST");
    char url[RIG_URL_MAX];

    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/", (int)target_free_port());
    delivery.url = span_of(url);
    rig_carry_out(&rig, &delivery);
    rig_expect(&delivery, TASK_SENT_NO, "connect: connection refused");
    rig_close(&rig);
}

static void ignore_ready(void *user, unsigned events)
{
    (void)user, (void)events;
}

/* libcurl 7.88 closes a socket that is still connecting without telling anybody first. */
static void a_connection_that_never_stands_is_not_sent_and_leaves_its_descriptor_free(void **state)
{
    (void)state;
    struct rig rig = {0};
    rig_open(&rig, NULL);
    struct delivery delivery = rig_delivery(&rig, "POST"), given_up = delivery;
    char url[RIG_URL_MAX];
    struct loop_watch *watches[6];
    int fds[6];

    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/", (int)target_full_port());
    delivery.url = given_up.url = span_of(url);
    delivery.timeout_ms = RIG_SHORT_MS;
    rig_send(&rig, &given_up);
    rig_carry_out(&rig, &delivery);
    rig_expect(&delivery, TASK_SENT_NO, "timeout after 40 ms (sent: no)");
    rig_cancel(&rig, &given_up);
    rig_wait(&rig, 1);
    rig_expect(&given_up, TASK_SENT_NO, "cancelled (sent: no)");
    for (int i = 0; i < 6; i += 2) { /* the lowest numbers, those two among them */
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, &fds[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        assert_int_equal(loop_watch_new(rig.loop, fds[i], ignore_ready, NULL, &watches[i], NULL),
                         0);
        assert_int_equal(loop_watch_set(watches[i], LOOP_READABLE), 0);
        loop_watch_free(watches[i]);
        (void)close(fds[i]);
    }
    rig_close(&rig);
}

/* -- a connection that was kept ------------------------------------------------------------------
 * Design, trap of libcurl 7.88: it silently sends again when a connection that it had kept closes
 * before the first byte of an answer. */

static const struct target_step answers_then_closes[] = {TARGET_READS, TARGET_WRITES(OK_ANSWER),
                                                         TARGET_READS};
static const struct target_step answers[] = {TARGET_READS, TARGET_WRITES(OK_ANSWER),
                                             TARGET_REPEATS};
static const struct target_script reuse_scripts[] = {TARGET_SCRIPT(answers_then_closes),
                                                     TARGET_SCRIPT(answers)};

struct reuse {
    const char *tls_name;
    struct span body;
    bool is_repeatable;
};

/* Two deliveries; the connection of the first is kept, and closes under the second. */
static void reuse(const struct reuse *reuse, struct rig *rig, struct delivery *ret_second)
{
    rig_open(rig, &(struct target_plan){
                      .scripts = reuse_scripts, .count = 2, .tls_name = reuse->tls_name});
    struct delivery first = rig_delivery(rig, "POST");
    first.body = reuse->body;
    first.repeatable = reuse->is_repeatable;
    first.ca = span_of(target_certificate(rig->target));
    *ret_second = first;
    rig_carry_out(rig, &first);
    rig_expect(&first, TASK_SENT_YES, "");
    delivery_done(&first);
    rig_carry_out(rig, ret_second);
    rig_end(rig);
}

static void expect_sent_once(const struct reuse *how)
{
    struct rig rig = {0};
    struct delivery second;

    reuse(how, &rig, &second);
    rig_expect(&second, TASK_SENT_MAYBE, "connection closed before the answer");
    assert_int_equal(second.sends, 1);
    assert_int_equal(target_request_count(rig.target), 2); /* one of each delivery */
    delivery_done(&second);
    rig_close(&rig);
}

static void expect_sent_twice(const struct reuse *how)
{
    struct rig rig = {0};
    struct delivery second;

    reuse(how, &rig, &second);
    rig_expect(&second, TASK_SENT_YES, "");
    assert_int_equal(second.outcome.status, 200);
    assert_int_equal(second.sends, 2);
    assert_int_equal(target_request_count(rig.target), 3);
    assert_int_equal(target_connection_count(rig.target), 2);
    delivery_done(&second);
    rig_close(&rig);
}

static void what_is_not_repeatable_goes_out_once_on_a_kept_connection(void **state)
{
    (void)state;
    expect_sent_once(&(struct reuse){.body = SPAN("pay 100")});
}

static void without_a_body_too(void **state)
{
    (void)state;
    expect_sent_once(&(struct reuse){.body = SPAN("")});
}

static void over_tls_too(void **state)
{
    (void)state;
    expect_sent_once(&(struct reuse){.body = SPAN("pay 100"), .tls_name = "IP:127.0.0.1"});
}

static void what_is_repeatable_goes_out_again_and_is_counted(void **state)
{
    (void)state;
    expect_sent_twice(&(struct reuse){.body = SPAN("body"), .is_repeatable = true});
}

static void likewise_over_tls(void **state)
{
    (void)state;
    expect_sent_twice(
        &(struct reuse){.body = SPAN("body"), .is_repeatable = true, .tls_name = "IP:127.0.0.1"});
}

static void a_kept_connection_that_has_closed_meanwhile_is_not_used(void **state)
{
    (void)state;
    static const struct target_step steps[] = {TARGET_READS, TARGET_WRITES(OK_ANSWER)};
    struct rig rig = {0};
    RIG_OPEN(&rig, steps);

    for (size_t i = 1; i <= 3; i++) {
        struct delivery delivery = rig_delivery(&rig, "POST");
        rig_carry_out(&rig, &delivery);
        rig_expect(&delivery, TASK_SENT_YES, "");
        assert_int_equal(delivery.sends, 1);
        delivery_done(&delivery);
        target_wait_over(rig.target, i);
    }
    rig_end(&rig);
    assert_int_equal(target_request_count(rig.target), 3);
    rig_close(&rig);
}

static void a_connection_is_kept_and_used_again(void **state)
{
    (void)state;
    struct rig rig = {0};
    RIG_OPEN(&rig, answers);

    for (int i = 0; i < 20; i++) {
        struct delivery delivery = rig_delivery(&rig, i % 2 == 0 ? "POST" : "GET");
        delivery.repeatable = i % 3 == 0;
        rig_carry_out(&rig, &delivery);
        rig_expect(&delivery, TASK_SENT_YES, "");
        delivery_done(&delivery);
    }
    assert_int_equal(target_connection_count(rig.target), 1);
    rig_close(&rig);
}

/* -- the last gate -------------------------------------------------------------------------------
 * Engineering 1.9: a node that slept between lease and send must not send. */

static void past_its_moment_nothing_is_sent(void **state)
{
    (void)state;
    struct rig rig = {0};
    RIG_OPEN(&rig, answers);
    struct delivery late = rig_delivery(&rig, "POST"), just = late;

    late.send_until_ms = RIG_MONO_MS - 1;
    rig_carry_out(&rig, &late);
    rig_expect(&late, TASK_SENT_NO, "too late to send (sent: no)");
    just.send_until_ms = RIG_MONO_MS;
    rig_carry_out(&rig, &just);
    rig_expect(&just, TASK_SENT_YES, "");
    rig_end(&rig);
    assert_int_equal(target_request_count(rig.target), 1);
    delivery_done(&just);
    rig_close(&rig);
}

static void past_its_moment_nothing_is_sent_again_either(void **state)
{
    (void)state;
    struct rig rig = {0};
    rig_open(&rig, &(struct target_plan){.scripts = reuse_scripts, .count = 2});
    struct delivery first = rig_delivery(&rig, "POST"), second;

    first.repeatable = true;
    second = first;
    second.send_until_ms = RIG_MONO_MS + 2;
    rig.mono_step_ms =
        1; /* asked when each of them begins, and by the gate each time that it goes out */
    rig_carry_out(&rig, &first);
    rig_carry_out(&rig, &second);
    rig_expect(&second, TASK_SENT_MAYBE, "too late to send (sent: maybe)");
    rig_end(&rig);
    assert_int_equal(target_request_count(rig.target), 2);
    delivery_done(&first);
    rig_close(&rig);
}

static void without_the_right_to_send_nothing_is_sent_or_counted(void **state)
{
    (void)state;
    struct rig rig = {0};
    RIG_OPEN(&rig, answers);
    struct send_right right = {.epoch = 7, .until_ms = RIG_MONO_MS};
    struct delivery over = rig_delivery(&rig, "POST"), other = over, ours = over;

    over.right = other.right = ours.right = &right;
    over.right_epoch = ours.right_epoch = 7;
    other.right_epoch = 6;
    rig_carry_out(&rig, &over);
    rig_expect(&over, TASK_SENT_NO, "this node's lease is over (sent: no)");
    assert_true(over.is_uncounted);
    right.until_ms = RIG_MONO_MS + 1; /* renewed: that holds for what is under way too */
    rig_carry_out(&rig, &other);
    rig_expect(&other, TASK_SENT_NO, "this node's lease is over (sent: no)");
    assert_true(other.is_uncounted);
    rig_carry_out(&rig, &ours);
    rig_expect(&ours, TASK_SENT_YES, "");
    assert_false(ours.is_uncounted);
    rig_end(&rig);
    assert_int_equal(target_request_count(rig.target), 1);
    delivery_done(&ours);
    rig_close(&rig);
}

/* -- names ---------------------------------------------------------------------------------------- */

static sem_t may_resolve;

/* In place of libc's, for libcurl too: names take as long as a test says, and none exists. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    (void)service, (void)hints, (void)ret_found;
    if (strcmp(name, "slow.invalid") == 0) {
        (void)sem_wait(&may_resolve);
    }
    return EAI_NONAME;
}

static void a_name_that_does_not_exist_is_not_sent(void **state)
{
    (void)state;
    struct rig rig = {0};
    RIG_OPEN(&rig, answers);
    struct delivery delivery = rig_delivery(&rig, "POST");

    for (int i = 0; i < 3; i++) {
        delivery.url = SPAN("http://nowhere.invalid/");
        rig_carry_out(&rig, &delivery);
        rig_expect(&delivery, TASK_SENT_NO, "resolve: could not resolve host: nowhere.invalid");
    }
    delivery.url = span_of(rig.url); /* on a descriptor that a resolver thread had before */
    rig_carry_out(&rig, &delivery);
    rig_expect(&delivery, TASK_SENT_YES, "");
    delivery_done(&delivery);
    rig_close(&rig);
}

/* libcurl would wait for the resolver's thread, and the loop with it, for ever. */
static void a_slow_resolver_holds_up_nobody(void **state)
{
    (void)state;
    struct rig rig = {0};
    assert_int_equal(sem_init(&may_resolve, 0, 0), 0);
    RIG_OPEN(&rig, answers);
    struct delivery slow = rig_delivery(&rig, "POST"), given_up = slow, other = slow;

    slow.url = given_up.url = SPAN("http://slow.invalid/");
    slow.timeout_ms = RIG_SHORT_MS;
    rig_send(&rig, &slow);
    rig_send(&rig, &given_up);
    rig_send(&rig, &other);
    rig_wait(&rig, 2);
    rig_expect(&other, TASK_SENT_YES, "");
    rig_cancel(&rig, &given_up);
    rig_wait(&rig, 1);
    rig_expect(&slow, TASK_SENT_NO, "timeout after 40 ms (sent: no)");
    rig_expect(&given_up, TASK_SENT_NO, "cancelled (sent: no)");
    delivery_done(&other);
    rig_close(&rig);
    (void)sem_post(&may_resolve);
    (void)sem_post(&may_resolve);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_connection_closed_after_reading_is_maybe_sent),
        cmocka_unit_test(a_reset_after_reading_is_maybe_sent),
        cmocka_unit_test(a_reset_within_the_body_is_maybe_sent),
        cmocka_unit_test(silence_is_a_timeout_and_maybe_sent),
        cmocka_unit_test(a_header_that_does_not_end_is_a_timeout),
        cmocka_unit_test(a_body_that_does_not_end_is_a_timeout),
        cmocka_unit_test(a_body_shorter_than_its_length_is_cut_off),
        cmocka_unit_test(a_chunk_that_is_not_whole_is_cut_off),
        cmocka_unit_test(chunks_without_the_last_one_are_cut_off),
        cmocka_unit_test(half_a_status_line_is_no_answer),
        cmocka_unit_test(a_header_cut_off_after_its_status_is_no_answer),
        cmocka_unit_test(an_interim_answer_alone_is_no_answer),
        cmocka_unit_test(an_answer_that_is_not_http_is_maybe_sent),
        cmocka_unit_test(a_reset_before_reading_is_never_an_answer),
        cmocka_unit_test(a_refused_connection_is_not_sent),
        cmocka_unit_test(a_connection_that_never_stands_is_not_sent_and_leaves_its_descriptor_free),
        cmocka_unit_test(what_is_not_repeatable_goes_out_once_on_a_kept_connection),
        cmocka_unit_test(without_a_body_too),
        cmocka_unit_test(over_tls_too),
        cmocka_unit_test(what_is_repeatable_goes_out_again_and_is_counted),
        cmocka_unit_test(likewise_over_tls),
        cmocka_unit_test(a_kept_connection_that_has_closed_meanwhile_is_not_used),
        cmocka_unit_test(a_connection_is_kept_and_used_again),
        cmocka_unit_test(past_its_moment_nothing_is_sent),
        cmocka_unit_test(past_its_moment_nothing_is_sent_again_either),
        cmocka_unit_test(without_the_right_to_send_nothing_is_sent_or_counted),
        cmocka_unit_test(a_name_that_does_not_exist_is_not_sent),
        cmocka_unit_test(a_slow_resolver_holds_up_nobody),
    };

    return HARNESS_RUN(argc, argv, tests);
}
