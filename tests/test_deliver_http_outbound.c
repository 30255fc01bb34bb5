/* SPDX-License-Identifier: MIT
 *
 * Where deliveries may go, at real sockets: every address of every name, in every way of writing
 * it. test_outbound.c has the rules alone, test_deliver_http_redirect.c what redirects do.
 */
#include "names.h"
#include "rig.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX  512
#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static const struct target_step answers[] = {TARGET_READS, TARGET_WRITES(OK_ANSWER),
                                             TARGET_REPEATS};

static struct outbound_rule rule_of(const char *text)
{
    struct outbound_rule rule;

    assert_true(outbound_parse_rule(span_of(text), &rule));
    return rule;
}

/* HOST in place of the target's own. */
static struct delivery delivery_to(struct rig *rig, const char *host, char ret_url[TEXT_MAX])
{
    struct delivery delivery = rig_delivery(rig, "POST");

    (void)snprintf(ret_url, TEXT_MAX, "http://%s:%d/path", host, (int)target_port(rig->target));
    delivery.url = span_of(ret_url);
    delivery.body = SPAN("body");
    return delivery;
}

static void expect_refused(const struct delivery *delivery, const char *message)
{
    if (message != NULL) {
        assert_string_equal(delivery->message, message);
    }
    assert_true(strncmp(delivery->message, "outbound: ", 10) == 0);
    assert_int_equal(delivery->outcome.sent, TASK_SENT_NO);
    assert_int_equal(delivery->outcome.error_class, DARUMA_CLASS_INVALID);
    assert_int_equal(delivery->outcome.status, 0);
    assert_int_equal(delivery->sends, 0);
}

/* Each of the hosts is refused, and none of them is ever connected to. */
static void expect_hosts_refused(const struct outbound *outbound, const char *const *hosts,
                                 size_t count, const char *message)
{
    struct rig rig = {.options = {.outbound = outbound}};
    RIG_OPEN(&rig, answers);

    for (size_t i = 0; i < count; i++) {
        char url[TEXT_MAX];
        struct delivery delivery = delivery_to(&rig, hosts[i], url);
        rig_carry_out(&rig, &delivery);
        print_message("%s: %s\n", hosts[i], delivery.message);
        expect_refused(&delivery, message);
        delivery_done(&delivery);
    }
    rig_end(&rig);
    assert_int_equal(target_connection_count(rig.target), 0);
    rig_close(&rig);
}

#define EXPECT_HOSTS_REFUSED(outbound, hosts, message)                                             \
    expect_hosts_refused((outbound), (hosts), sizeof(hosts) / sizeof *(hosts), (message))

/* SSRF: 127.0.0.1, however it is written. */
static void loopback_is_refused_in_every_way_of_writing_it(void **state)
{
    static const char *const ipv4[] = {
        "127.0.0.1", "2130706433", "0x7f000001", "017700000001",    "0177.0.0.1", "0x7f.0.0.1",
        "127.1",     "127.0.1",    "0x7f.1",     "0177.0x0.000.01", "127.0.0.1."};
    static const char *const others[] = {"[::1]",
                                         "[::ffff:127.0.0.1]",
                                         "[::ffff:7f00:1]",
                                         "[64:ff9b::7f00:1]",
                                         "[2002:7f00:1::]",
                                         "[0:0:0:0:0:0:0:1]",
                                         "[::]",
                                         "0.0.0.0",
                                         "0",
                                         "%31%32%37.0.0.1",
                                         "\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1",
                                         "loc%61lhost",
                                         "localhost",
                                         "LOCALHOST.",
                                         "any.thing.localhost"};
    const struct outbound outbound = {.deny_private = true};

    (void)state;
    names_addresses[0] = "127.0.0.1"; /* of LOCALHOST. */
    EXPECT_HOSTS_REFUSED(&outbound, ipv4, NULL);
    EXPECT_HOSTS_REFUSED(&outbound, others, NULL);
}

static void a_name_is_what_it_resolves_to(void **state)
{
    static const char *const hosts[] = {"innocent.example", "www.example.org"};
    const struct outbound outbound = {.deny_private = true};

    (void)state;
    names_addresses[0] = "127.0.0.1";
    EXPECT_HOSTS_REFUSED(&outbound, hosts,
                         "outbound: 127.0.0.1 is in a loopback range (outbound.deny_private)");
    names_addresses[0] = "169.254.169.254";
    EXPECT_HOSTS_REFUSED(&outbound, hosts,
                         "outbound: 169.254.169.254 is in a link-local range "
                         "(outbound.deny_private)");
    names_addresses[0] = "10.0.0.8";
    names_addresses[1] = "192.168.0.8";
    EXPECT_HOSTS_REFUSED(&outbound, hosts,
                         "outbound: 10.0.0.8 is in a private range (outbound.deny_private)");
}

/* A name that was good when it was looked up first. */
static void a_second_dns_answer_does_not_get_around_it(void **state)
{
    struct outbound_rule denied = rule_of("127.0.0.2");
    const struct outbound outbound = {.deny = &denied, .deny_count = 1};
    char url[TEXT_MAX];

    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct rig rig = {.options = {.outbound = &outbound}};
        names_addresses[0] = turn == 0 ? "127.0.0.1" : "127.0.0.2";
        RIG_OPEN(&rig, answers);
        struct delivery delivery = delivery_to(&rig, "rebinds.example", url);
        rig_carry_out(&rig, &delivery);
        if (turn == 0) {
            assert_int_equal(delivery.outcome.status, 200);
        } else {
            expect_refused(&delivery, "outbound: 127.0.0.2 is denied (outbound.deny)");
        }
        delivery_done(&delivery);
        rig_close(&rig);
    }
}

/* One name, a good and a bad address: only the good one is ever connected to. */
static void each_address_of_a_name_is_judged(void **state)
{
    struct outbound_rule denied = rule_of("127.0.0.2");
    const struct outbound outbound = {.deny = &denied, .deny_count = 1};
    char url[TEXT_MAX];

    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct rig rig = {.options = {.outbound = &outbound}};
        names_addresses[turn] = "127.0.0.2";
        names_addresses[1 - turn] = "127.0.0.1";
        RIG_OPEN(&rig, answers);
        struct delivery delivery = delivery_to(&rig, "two.example", url);
        rig_carry_out(&rig, &delivery);
        assert_string_equal(delivery.message, "");
        assert_int_equal(delivery.outcome.status, 200);
        delivery_done(&delivery);
        rig_close(&rig);
    }
}

/* The good address does not answer: that is an outage and no refusal. */
static void an_address_that_may_be_tried_and_fails_is_transient(void **state)
{
    struct outbound_rule denied = rule_of("127.0.0.2");
    const struct outbound outbound = {.deny = &denied, .deny_count = 1};
    struct rig rig = {.options = {.outbound = &outbound}};
    char url[TEXT_MAX];

    (void)state;
    names_addresses[0] = "127.0.0.2";
    names_addresses[1] = "127.0.0.1";
    rig_open(&rig, NULL);
    struct delivery delivery = rig_delivery(&rig, "POST");
    (void)snprintf(url, sizeof url, "http://two.example:%d/", (int)target_free_port());
    delivery.url = span_of(url);
    rig_carry_out(&rig, &delivery);
    rig_expect(&delivery, TASK_SENT_NO, "connect: connection refused");
    rig_close(&rig);
}

static void allow_is_held_by_name_and_by_address(void **state)
{
    struct outbound_rule name = rule_of("good.example"), range = rule_of("127.0.0.0/30");
    const struct outbound by_name = {.allow = &name, .allow_count = 1},
                          by_range = {.allow = &range, .allow_count = 1};
    static const char *const other_names[] = {"evil.example", "good.example.evil", "127.0.0.1",
                                              "evil-good.example"};
    static const char *const elsewhere[] = {"127.0.0.4", "127.0.0.100"};
    static const char *const good[] = {"good.example", "GOOD.example."};
    char url[TEXT_MAX];

    (void)state;
    names_addresses[0] = "127.0.0.1";
    EXPECT_HOSTS_REFUSED(&by_name, other_names, NULL);
    EXPECT_HOSTS_REFUSED(&by_range, elsewhere, NULL);
    for (size_t i = 0; i < 4; i++) {
        struct rig rig = {.options = {.outbound = i < 2 ? &by_name : &by_range}};
        RIG_OPEN(&rig, answers);
        struct delivery delivery = delivery_to(&rig, good[i % 2], url);
        rig_carry_out(&rig, &delivery);
        assert_int_equal(delivery.outcome.status, 200);
        delivery_done(&delivery);
        rig_close(&rig);
    }
}

/* What stands before @ is no host. */
static void a_user_name_is_not_taken_for_a_host(void **state)
{
    struct outbound_rule name = rule_of("good.example");
    const struct outbound outbound = {.allow = &name, .allow_count = 1};
    static const char *const hosts[] = {"good.example@127.0.0.1", "good.example:x@evil.example",
                                        "good.example%2f@evil.example"};

    (void)state;
    names_addresses[0] = "127.0.0.1";
    EXPECT_HOSTS_REFUSED(&outbound, hosts, NULL);
}

static void a_proxy_in_the_environment_does_not_get_around_it(void **state)
{
    static const char *const hosts[] = {"127.0.0.1"};
    const struct outbound outbound = {.deny_private = true};

    (void)state;
    assert_int_equal(setenv("http_proxy", "http://8.8.8.8:3128", 1), 0);
    assert_int_equal(setenv("ALL_PROXY", "http://8.8.8.8:3128", 1), 0);
    EXPECT_HOSTS_REFUSED(&outbound, hosts,
                         "outbound: 127.0.0.1 is in a loopback range (outbound.deny_private)");
}

/* libcurl keeps connections by the name of their host; the rules are about whose request it is. */
static void a_kept_connection_is_held_to_the_rules_of_the_next_request(void **state)
{
    static const char *const addresses[] = {"127.0.0.1", "::ffff:127.0.0.1"};
    static const char *const words[] = {
        "outbound: 127.0.0.1 is in a loopback range (outbound.deny_private)",
        "outbound: ::ffff:127.0.0.1 is in a loopback range (outbound.deny_private)"};
    const struct outbound outbound = {.deny_private = true};
    char url[TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rig rig = {.options = {.outbound = &outbound}};
        names_addresses[0] = addresses[i];
        names_addresses[1] = NULL;
        RIG_OPEN(&rig, answers);
        for (int turn = 0; turn < 4; turn++) { /* the upstream's own, then another's */
            struct delivery delivery = delivery_to(&rig, "upstream.example", url);
            delivery.is_upstream = turn % 2 == 0;
            delivery.repeatable = turn < 2;
            rig_carry_out(&rig, &delivery);
            if (delivery.is_upstream) {
                assert_int_equal(delivery.outcome.status, 200);
            } else {
                expect_refused(&delivery, words[i]);
            }
            delivery_done(&delivery);
        }
        rig_end(&rig);
        assert_int_equal(target_request_count(rig.target), 2);
        rig_close(&rig);
    }
}

/* Where a redirect leads to is not what the configuration names, also on the same connection. */
static void a_redirect_does_not_get_to_a_kept_connection(void **state)
{
    static const struct target_step redirects[] = {
        TARGET_READS,
        TARGET_WRITES("HTTP/1.1 307 There\r\nLocation: /there\r\nContent-Length: 4\r\n\r\ngone"),
        TARGET_REPEATS};
    const struct outbound outbound = {.deny_private = true, .redirects_max = 3};
    struct rig rig = {.options = {.outbound = &outbound}};
    char url[TEXT_MAX];

    (void)state;
    names_addresses[0] = "127.0.0.1";
    names_addresses[1] = NULL;
    RIG_OPEN(&rig, redirects);
    struct delivery delivery = delivery_to(&rig, "upstream.example", url);
    delivery.is_upstream = delivery.repeatable = true;
    rig_carry_out(&rig, &delivery);
    assert_string_equal(delivery.message,
                        "HTTP 307, not followed: outbound: 127.0.0.1 is in a loopback range "
                        "(outbound.deny_private)");
    assert_int_equal(delivery.outcome.status, 307);
    assert_int_equal(delivery.sends, 1);
    assert_true(span_is(buf_span(&delivery.response_body), "gone"));
    delivery_done(&delivery);
    rig_end(&rig);
    assert_int_equal(target_request_count(rig.target), 1);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_is_refused_in_every_way_of_writing_it),
        cmocka_unit_test(a_name_is_what_it_resolves_to),
        cmocka_unit_test(a_second_dns_answer_does_not_get_around_it),
        cmocka_unit_test(each_address_of_a_name_is_judged),
        cmocka_unit_test(an_address_that_may_be_tried_and_fails_is_transient),
        cmocka_unit_test(allow_is_held_by_name_and_by_address),
        cmocka_unit_test(a_user_name_is_not_taken_for_a_host),
        cmocka_unit_test(a_proxy_in_the_environment_does_not_get_around_it),
        cmocka_unit_test(a_kept_connection_is_held_to_the_rules_of_the_next_request),
        cmocka_unit_test(a_redirect_does_not_get_to_a_kept_connection),
    };

    return HARNESS_RUN(argc, argv, tests);
}
