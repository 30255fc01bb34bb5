/* SPDX-License-Identifier: MIT
 *
 * Names that do not answer: how many are looked up at once, also for attempts that are over, what they
 * leave to other names, and what becomes of an attempt that finds no place. libc's resolver is a fake
 * here, for libcurl too.
 */
#include "rig.h"
#include "harness.h"

#include <errno.h>
#include <netdb.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define URL_MAX    64
#define KNOWN      "http://good.known.example:1/"
#define DOMAIN_MAX 24
#define MANY       6
#define UNNAMED    "this machine, not the target: too many names are looked up (not sent)"
#define OK_ANSWER  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

#define LATE_MS 2000 /* of one that is to be found, and sent, before */

static sem_t may_answer;
static atomic_int asked_count, asking_count;
static atomic_bool is_broken; /* what was good hangs from now on */

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static int find(const char *service, struct addrinfo **ret_found)
{
    struct made {
        struct addrinfo found;
        struct sockaddr_in address;
    } *made = calloc(1, sizeof *made);

    if (made == NULL) {
        return EAI_MEMORY;
    }
    made->address.sin_family = AF_INET;
    made->address.sin_port = htons((uint16_t)strtoul(service, NULL, 10));
    made->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    made->found = (struct addrinfo){.ai_family = AF_INET,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_addrlen = sizeof made->address,
                                    .ai_addr = (struct sockaddr *)&made->address};
    *ret_found = &made->found;
    return 0;
}

/* hang…: waits for the test, then there is no such name; late…: waits, and is found; good…: is found. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    (void)hints;
    asked_count++;
    asking_count++;
    if (begins(name, "hang") || begins(name, "late") || (is_broken && begins(name, "good.many"))) {
        while (sem_wait(&may_answer) != 0) {
            assert_int_equal(errno, EINTR);
        }
    }
    int failed =
        begins(name, "good") || begins(name, "late") ? find(service, ret_found) : EAI_NONAME;
    asking_count--;
    return failed;
}

void freeaddrinfo(struct addrinfo *found)
{
    free(found);
}

static const struct target_step answers[] = {TARGET_READS, TARGET_WRITES(OK_ANSWER),
                                             TARGET_REPEATS};

static void open_rig(struct rig *rig, uint32_t lookups_max)
{
    assert_int_equal(sem_init(&may_answer, 0, 0), 0);
    rig->options.lookups_max = lookups_max;
    RIG_OPEN(rig, answers);
}

struct asked {
    struct delivery delivery;
    char url[URL_MAX];
};

static uint32_t sender; /* of what is sent */

static void send_to(struct rig *rig, struct asked *asked, const char *host, int64_t timeout_ms)
{
    (void)snprintf(asked->url, sizeof asked->url, "http://%s:%d/", host,
                   (int)target_port(rig->target));
    asked->delivery = rig_delivery(rig, "POST");
    asked->delivery.url = span_of(asked->url);
    asked->delivery.timeout_ms = timeout_ms;
    asked->delivery.sender = sender;
    rig_send(rig, &asked->delivery);
}

static void send_many(struct rig *rig, struct asked many[MANY], const char *domain,
                      int64_t timeout_ms)
{
    char host[URL_MAX];

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(host, sizeof host, "hang%d.%s", i, domain);
        send_to(rig, &many[i], host, timeout_ms);
    }
}

static bool is_unnamed(const struct delivery *delivery)
{
    if (!delivery->is_unnamed) {
        assert_false(delivery->is_short || delivery->is_uncounted);
        return false;
    }
    rig_expect(delivery, TASK_SENT_NO, UNNAMED);
    assert_true(delivery->is_short && delivery->is_uncounted);
    assert_true(delivery->outcome.hint_ms >= 1000);
    assert_false(delivery->outcome.timed_out);
    return true;
}

static int count_unnamed(struct asked many[MANY])
{
    int count = 0;

    for (int i = 0; i < MANY; i++) {
        if (is_unnamed(&many[i].delivery)) {
            count++;
        } else {
            rig_expect(&many[i].delivery, TASK_SENT_NO, "timeout after 40 ms (sent: no)");
        }
    }
    return count;
}

static void answer(int count)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(sem_post(&may_answer), 0);
    }
}

/* Nothing listens there: the target remembers only so many requests. */
static void ask_nothing(struct rig *rig, const char *url)
{
    struct delivery other = rig_delivery(rig, "GET");

    other.url = span_of(url);
    rig_carry_out(rig, &other);
    rig_expect(&other, TASK_SENT_NO, "connect: connection refused");
}

/* Turns of the loop, until so many names are being looked up. */
static void wait_asking(struct rig *rig, int count)
{
    while (asking_count != count) {
        ask_nothing(rig, "http://127.0.0.1:1/");
    }
}

static void a_look_up_has_its_place_until_it_is_over_however_its_attempt_ended(void **state)
{
    (void)state;
    struct rig rig = {0};
    struct asked many[MANY], other;
    open_rig(&rig, 4);

    send_many(&rig, many, "evil.example", RIG_SHORT_MS);
    rig_wait(&rig, MANY);
    assert_int_equal(count_unnamed(many), MANY - 1); /* of a domain an eighth */
    wait_asking(&rig, 1);                            /* it goes on */
    send_to(&rig, &other, "nowhere.evil.example", RIG_SHORT_MS);
    rig_wait(&rig, 1);
    assert_true(is_unnamed(&other.delivery));
    send_to(&rig, &other, "nowhere.evil.example", RIG_TIMEOUT_MS);
    answer(1);
    rig_wait(&rig, 1);
    rig_expect(&other.delivery, TASK_SENT_NO,
               "resolve: could not resolve host: nowhere.evil.example");
    assert_false(other.delivery.is_uncounted);
    assert_int_equal(asked_count, 2);
    rig_close(&rig);
}

static void what_waits_in_vain_does_not_come_back_all_at_once(void **state)
{
    (void)state;
    struct rig rig = {0};
    struct asked many[MANY];
    open_rig(&rig, 4);
    int64_t least_ms = INT64_MAX, most_ms = 0;

    send_many(&rig, many, "evil.example", RIG_SHORT_MS);
    rig_wait(&rig, MANY);
    for (int i = 0; i < MANY; i++) {
        int64_t hint_ms = many[i].delivery.outcome.hint_ms;
        if (many[i].delivery.is_unnamed) {
            least_ms = hint_ms < least_ms ? hint_ms : least_ms;
            most_ms = hint_ms > most_ms ? hint_ms : most_ms;
        }
    }
    assert_true(most_ms > least_ms);
    answer(1);
    rig_close(&rig);
}

static void expect_answered(struct rig *rig, const char *host)
{
    struct asked good;

    send_to(rig, &good, host, RIG_TIMEOUT_MS);
    rig_wait(rig, 1);
    rig_expect(&good.delivery, TASK_SENT_YES, "");
    delivery_done(&good.delivery);
}

static void names_that_hang_leave_places_to_other_domains_and_to_names_that_answer(void **state)
{
    (void)state;
    struct rig rig = {0};
    struct asked many[MANY], other;
    char domain[DOMAIN_MAX];
    open_rig(&rig, 16);

    ask_nothing(&rig, KNOWN);
    for (sender = 1; sender <= 4; sender++) {
        (void)snprintf(domain, sizeof domain, "evil%u.example", (unsigned)sender);
        send_many(&rig, many, domain, RIG_SHORT_MS);
        rig_wait(&rig, MANY);
        assert_int_equal(count_unnamed(many), MANY - 2); /* an eighth */
        if (sender == 1) {
            expect_answered(&rig, "good.other.example"); /* for the first time */
        }
    }
    wait_asking(&rig, 8); /* half */
    send_to(&rig, &other, "nowhere.third.example", RIG_SHORT_MS);
    rig_wait(&rig, 1);
    assert_true(is_unnamed(&other.delivery));
    for (int asked = asked_count; asked_count == asked;) { /* until libcurl has forgotten it */
        ask_nothing(&rig, KNOWN);
    }
    answer(8);
    rig_close(&rig);
}

static void a_queue_with_names_of_many_domains_leaves_places_to_the_others(void **state)
{
    (void)state;
    struct rig rig = {0};
    struct asked many[MANY];
    char host[URL_MAX];
    open_rig(&rig, 16);

    sender = 1;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(host, sizeof host, "hang.bad%d.example", i);
        send_to(&rig, &many[i], host, RIG_SHORT_MS);
    }
    rig_wait(&rig, MANY);
    assert_int_equal(count_unnamed(many), MANY - 4); /* a quarter */
    sender = 2;
    expect_answered(&rig, "good.other.example"); /* for the first time */
    answer(4);
    rig_close(&rig);
}

/* They are answered, and libcurl forgets them again. */
static void have_answered(struct rig *rig, int count, const char *format)
{
    char url[URL_MAX];

    is_broken = false;
    for (int i = 0; i < count; i++) {
        (void)snprintf(url, sizeof url, format, i);
        ask_nothing(rig, url);
    }
    for (int asked = asked_count; asked_count == asked;) { /* the last one */
        ask_nothing(rig, url);
    }
    is_broken = true;
}

/* One of these after the other. */
static void ask_again(struct rig *rig, int first, int count, const char *format)
{
    struct asked asked[20];

    for (int i = 0; i < count; i++) {
        (void)snprintf(asked[i].url, sizeof asked[i].url, format, first + i);
        asked[i].delivery = rig_delivery(rig, "POST");
        asked[i].delivery.url = span_of(asked[i].url);
        asked[i].delivery.timeout_ms = RIG_SHORT_MS;
        asked[i].delivery.sender = sender;
        rig_send(rig, &asked[i].delivery);
    }
    rig_wait(rig, (size_t)count);
}

static void names_that_were_answered_and_then_hang_leave_places_too(void **state)
{
    (void)state;
    struct rig rig = {0};
    uint32_t now = 0;
    rig.options.lookups_now = &now;
    open_rig(&rig, 16);

    have_answered(&rig, 20, "http://good.many%d.example:1/"); /* of as many domains */
    sender = 1;
    ask_again(&rig, 0, 19, "http://good.many%d.example:1/");
    wait_asking(&rig, 8); /* half: one queue's */
    assert_int_equal(now, 8);
    sender = 2;
    expect_answered(&rig, "good.other.example");
    answer(8);
    wait_asking(&rig, 0);
    have_answered(&rig, 20, "http://good.many%d.one.example:1/");
    ask_again(&rig, 0, 19, "http://good.many%d.one.example:1/");
    wait_asking(&rig, 4); /* a quarter: one domain's */
    sender = 3;
    expect_answered(&rig, "good.new.example");
    assert_int_equal(now, 4);
    answer(4);
    wait_asking(&rig, 0);
    rig_close(&rig);
}

static void a_look_up_that_takes_long_counts_whatever_was_answered_before(void **state)
{
    (void)state;
    struct rig rig = {0};
    open_rig(&rig, 16);

    have_answered(&rig, 10, "http://good.many%d.example:1/");
    sender = 1;
    ask_again(&rig, 0, 5, "http://good.many%d.example:1/");
    wait_asking(&rig, 5);
    for (int64_t until_ms = loop_now_ms(rig.loop) + 2100; loop_now_ms(rig.loop) < until_ms;) {
        ask_nothing(&rig, "http://127.0.0.1:1/");
    }
    ask_again(&rig, 5, 3, "http://good.many%d.example:1/"); /* a queue has a quarter of these */
    assert_int_equal(asking_count, 5);
    sender = 2;
    ask_again(&rig, 5, 3, "http://good.many%d.example:1/");
    wait_asking(&rig, 8);
    answer(8);
    wait_asking(&rig, 0);
    rig_close(&rig);
}

static void a_name_is_looked_up_a_few_times_at_once_and_its_answer_is_for_all(void **state)
{
    (void)state;
    struct rig rig = {0};
    struct asked many[2 * MANY];
    open_rig(&rig, 128);

    for (int i = 0; i < 2 * MANY; i++) {
        send_to(&rig, &many[i], "late.example.org", RIG_TIMEOUT_MS);
    }
    wait_asking(&rig, 4);
    expect_answered(&rig, "good.example.org"); /* the others wait */
    assert_int_equal(asking_count, 4);
    answer(4);
    rig_wait(&rig, 2 * MANY);
    for (int i = 0; i < 2 * MANY; i++) {
        rig_expect(&many[i].delivery, TASK_SENT_YES, "");
        delivery_done(&many[i].delivery);
    }
    assert_int_equal(asked_count, 5);
    rig_close(&rig);
}

static void a_time_out_holds_after_the_look_up_too(void **state)
{
    (void)state;
    static const struct target_step silent[] = {TARGET_READS, TARGET_HOLDS};
    struct rig rig = {0};
    struct asked one;
    assert_int_equal(sem_init(&may_answer, 0, 0), 0);
    RIG_OPEN(&rig, silent);

    send_to(&rig, &one, "late.example.org", LATE_MS);
    wait_asking(&rig, 1);
    answer(1);
    rig_wait(&rig, 1);
    rig_expect(&one.delivery, TASK_SENT_MAYBE, "timeout after 2000 ms (sent: maybe)");
    rig_close(&rig);
}

static void no_descriptors_for_a_look_up_are_this_machines_want(void **state)
{
    (void)state;
    struct rig rig = {0};
    struct asked one;
    struct rlimit limit, none;
    open_rig(&rig, 4);

    expect_answered(&rig, "good.example.org"); /* what is opened once is open */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int next = dup(0);
    (void)close(next);
    none = limit;
    none.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    send_to(&rig, &one, "good.example.net", RIG_TIMEOUT_MS);
    rig_wait(&rig, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    rig_expect(&one.delivery, TASK_SENT_NO,
               "this machine, not the target: too many open files (not sent)");
    assert_true(one.delivery.is_short && one.delivery.is_uncounted);
    assert_false(one.delivery.is_unnamed);
    expect_answered(&rig, "good.example.net"); /* its place is free again */
    rig_close(&rig);
}

static void one_that_waits_for_a_place_can_be_cancelled(void **state)
{
    (void)state;
    struct rig rig = {0};
    struct asked many[MANY];
    open_rig(&rig, 4);

    send_many(&rig, many, "evil.example", RIG_TIMEOUT_MS);
    wait_asking(&rig, 1);
    for (int i = 0; i < MANY; i++) {
        rig_cancel(&rig, &many[i].delivery);
    }
    rig_wait(&rig, MANY);
    for (int i = 0; i < MANY; i++) {
        rig_expect(&many[i].delivery, TASK_SENT_NO, "cancelled (sent: no)");
    }
    answer(1);
    rig_close(&rig);
}

/* One that is told, one that is not yet, one that runs, and those that wait. */
static void a_deliverer_closes_whatever_is_being_looked_up(void **state)
{
    (void)state;
    struct rig rig = {0};
    struct asked many[MANY], told, untold;
    open_rig(&rig, 16);

    send_to(&rig, &told, "hang.first.example", RIG_SHORT_MS);
    send_to(&rig, &untold, "hang.second.example", RIG_TIMEOUT_MS);
    send_many(&rig, many, "evil.example", RIG_TIMEOUT_MS);
    rig_wait(&rig, 1);
    rig_expect(&told.delivery, TASK_SENT_NO, "timeout after 40 ms (sent: no)");
    rig_cancel(&rig, &untold.delivery);
    rig_end(&rig);
    answer(MANY + 2);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_up_has_its_place_until_it_is_over_however_its_attempt_ended),
        cmocka_unit_test(what_waits_in_vain_does_not_come_back_all_at_once),
        cmocka_unit_test(names_that_hang_leave_places_to_other_domains_and_to_names_that_answer),
        cmocka_unit_test(a_queue_with_names_of_many_domains_leaves_places_to_the_others),
        cmocka_unit_test(names_that_were_answered_and_then_hang_leave_places_too),
        cmocka_unit_test(a_look_up_that_takes_long_counts_whatever_was_answered_before),
        cmocka_unit_test(a_name_is_looked_up_a_few_times_at_once_and_its_answer_is_for_all),
        cmocka_unit_test(a_time_out_holds_after_the_look_up_too),
        cmocka_unit_test(no_descriptors_for_a_look_up_are_this_machines_want),
        cmocka_unit_test(one_that_waits_for_a_place_can_be_cancelled),
        cmocka_unit_test(a_deliverer_closes_whatever_is_being_looked_up),
    };

    return HARNESS_RUN(argc, argv, tests);
}
