/* SPDX-License-Identifier: MIT
 *
 * Where deliveries may go, at real sockets: every address of every name, in every way of writing it,
 * and at every redirect. test_outbound.c has the rules alone.
 */
#include "rig.h"
#include "harness.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>

#define TEXT_MAX  512
#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static const struct target_step answers[] = {TARGET_READS, TARGET_WRITES(OK_ANSWER),
                                             TARGET_REPEATS};

/* -- names ---------------------------------------------------------------------------------------- */

static const char *addresses[3]; /* what every name stands for, in this order */

/* In place of libc's, for libcurl too. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_found)
{
    struct addrinfo **link = ret_found;

    (void)name;
    *ret_found = NULL;
    for (size_t i = 0; i < 3 && addresses[i] != NULL; i++) {
        struct {
            struct addrinfo found;
            struct sockaddr_in address;
        } *made = calloc(1, sizeof *made);
        assert_non_null(made);
        made->address.sin_family = AF_INET;
        made->address.sin_port = htons((uint16_t)strtoul(service, NULL, 10));
        assert_int_equal(inet_pton(AF_INET, addresses[i], &made->address.sin_addr), 1);
        made->found = (struct addrinfo){.ai_family = AF_INET,
                                        .ai_socktype = hints != NULL ? hints->ai_socktype : 0,
                                        .ai_addrlen = sizeof made->address,
                                        .ai_addr = (struct sockaddr *)&made->address};
        *link = &made->found;
        link = &made->found.ai_next;
    }
    return *ret_found != NULL ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *found)
{
    while (found != NULL) {
        struct addrinfo *next = found->ai_next;
        free(found);
        found = next;
    }
}

/* -- one request ---------------------------------------------------------------------------------- */

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
    addresses[0] = "127.0.0.1"; /* of LOCALHOST. */
    EXPECT_HOSTS_REFUSED(&outbound, ipv4, NULL);
    EXPECT_HOSTS_REFUSED(&outbound, others, NULL);
}

static void a_name_is_what_it_resolves_to(void **state)
{
    static const char *const hosts[] = {"innocent.example", "www.example.org"};
    const struct outbound outbound = {.deny_private = true};

    (void)state;
    addresses[0] = "127.0.0.1";
    EXPECT_HOSTS_REFUSED(&outbound, hosts,
                         "outbound: 127.0.0.1 is in a loopback range (outbound.deny_private)");
    addresses[0] = "169.254.169.254";
    EXPECT_HOSTS_REFUSED(&outbound, hosts,
                         "outbound: 169.254.169.254 is in a link-local range "
                         "(outbound.deny_private)");
    addresses[0] = "10.0.0.8";
    addresses[1] = "192.168.0.8";
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
        addresses[0] = turn == 0 ? "127.0.0.1" : "127.0.0.2";
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
        addresses[turn] = "127.0.0.2";
        addresses[1 - turn] = "127.0.0.1";
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
    addresses[0] = "127.0.0.2";
    addresses[1] = "127.0.0.1";
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
    addresses[0] = "127.0.0.1";
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
    addresses[0] = "127.0.0.1";
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

/* -- redirects ------------------------------------------------------------------------------------ */

#define REDIRECT(status, location)                                                                 \
    "HTTP/1.1 " status " Over there\r\nLocation: " location "\r\nContent-Length: 4\r\n\r\ngone"

/* A POST to a target that first redirects, then says ok. Its rules are `outbound`. */
static void follow(struct rig *rig, const char *redirect, bool is_repeatable,
                   struct delivery *ret_delivery)
{
    static struct target_step steps[] = {TARGET_READS,
                                         {.act = TARGET_WRITE},
                                         TARGET_READS,
                                         TARGET_WRITES(OK_ANSWER),
                                         TARGET_REPEATS};

    steps[1].bytes = redirect;
    steps[1].len = strlen(redirect);
    rig_open_script(rig, steps, sizeof steps / sizeof *steps);
    *ret_delivery = rig_delivery(rig, "POST");
    ret_delivery->body = SPAN("body");
    ret_delivery->headers = SPAN("Authorization: Bearer s3cret\nCookie: a=b\nX-Own: 1\n"
                                 "Content-Type: text/plain\nIdempotency-Key: k\n");
    ret_delivery->repeatable = is_repeatable;
    rig_carry_out(rig, ret_delivery);
    rig_end(rig);
}

static void expect_not_followed(const struct outbound *outbound, const char *redirect,
                                const char *message)
{
    struct rig rig = {.options = {.outbound = outbound}};
    struct delivery delivery;

    follow(&rig, redirect, true, &delivery);
    assert_string_equal(delivery.message, message);
    assert_int_equal(delivery.outcome.sent, TASK_SENT_YES);
    assert_int_equal(delivery.outcome.status, 302);
    assert_int_equal(delivery.outcome.error_class, DARUMA_CLASS_INVALID);
    assert_int_equal(delivery.sends, 1);
    assert_int_equal(target_request_count(rig.target), 1);
    assert_true(
        span_is(buf_span(&delivery.response_body), "gone")); /* the answer is the redirect */
    delivery_done(&delivery);
    rig_close(&rig);
}

static void a_redirect_to_where_nothing_may_go_is_not_followed(void **state)
{
    struct outbound_rule denied[] = {rule_of("127.0.0.2"), rule_of("10.0.0.0/8"),
                                     rule_of("evil.example")};
    const struct outbound outbound = {.deny = denied, .deny_count = 3, .redirects_max = 3};

    (void)state;
    addresses[0] = "127.0.0.2";
    expect_not_followed(&outbound, REDIRECT("302", "http://10.0.0.8/"),
                        "HTTP 302, not followed: outbound: 10.0.0.8 is denied (outbound.deny)");
    expect_not_followed(&outbound, REDIRECT("302", "http://evil.example/"),
                        "HTTP 302, not followed: outbound: evil.example is denied (outbound.deny)");
    expect_not_followed(&outbound, REDIRECT("302", "http://0x7f000002/"),
                        "HTTP 302, not followed: outbound: 127.0.0.2 is denied (outbound.deny)");
    expect_not_followed(&outbound, REDIRECT("302", "http://resolves.example/"),
                        "HTTP 302, not followed: outbound: 127.0.0.2 is denied (outbound.deny)");
    expect_not_followed(&outbound, REDIRECT("302", "//evil.example/x"),
                        "HTTP 302, not followed: outbound: evil.example is denied (outbound.deny)");
}

static void a_redirect_that_is_no_plain_url_is_not_followed(void **state)
{
    const struct outbound outbound = {.redirects_max = 3};

    (void)state;
    expect_not_followed(&outbound, REDIRECT("302", "http://u:p@127.0.0.1/"),
                        "HTTP 302, not followed: it leads to a URL with a user name or password in "
                        "it");
    expect_not_followed(&outbound, REDIRECT("302", "ftp://127.0.0.1/"),
                        "HTTP 302, not followed: it leads to a URL with another scheme");
    expect_not_followed(&outbound, REDIRECT("302", "file:///etc/passwd"),
                        "HTTP 302, not followed: the URL cannot be read: No host part in the URL");
    expect_not_followed(&outbound, REDIRECT("302", "http://h:99999/"),
                        "HTTP 302, not followed: the URL cannot be read: Port number was not a "
                        "decimal number between 0 and 65535");
    expect_not_followed(&outbound, REDIRECT("302", "http://\xef\xbd\x8c.example/"),
                        "HTTP 302, not followed: it leads to a URL with a character that has to be "
                        "escaped");
}

static void a_redirect_of_what_must_not_go_twice_is_not_followed(void **state)
{
    const struct outbound outbound = {.redirects_max = 3};
    struct rig rig = {.options = {.outbound = &outbound}};
    struct delivery delivery;

    (void)state;
    follow(&rig, REDIRECT("307", "/there"), false, &delivery);
    rig_expect(&delivery, TASK_SENT_YES, "HTTP 307, not followed: the target is not repeatable");
    assert_int_equal(target_request_count(rig.target), 1);
    delivery_done(&delivery);
    rig_close(&rig);
}

static void redirects_end_somewhere(void **state)
{
    static const struct target_step circle[] = {
        TARGET_READS, TARGET_WRITES(REDIRECT("308", "/again")), TARGET_REPEATS};
    const struct outbound outbound = {.redirects_max = 3};
    struct rig rig = {.options = {.outbound = &outbound}};

    (void)state;
    RIG_OPEN(&rig, circle);
    struct delivery delivery = rig_delivery(&rig, "GET");
    delivery.repeatable = true;
    rig_carry_out(&rig, &delivery);
    rig_expect(&delivery, TASK_SENT_YES, "HTTP 308, not followed: more than 3 redirects");
    assert_int_equal(delivery.sends, 4);
    delivery_done(&delivery);
    rig_close(&rig);
}

static bool has(struct span request, const char *text)
{
    while (request.len > 0 && !span_starts(request, text)) {
        request = span_from(request, 1);
    }
    return request.len > 0;
}

/* What the second request looks like after each kind of redirect, to the same origin. */
static void the_request_stays_the_same_but_for_303(void **state)
{
    static const struct {
        const char *redirect, *line, *body;
    } rows[] = {
        {REDIRECT("301", "/there"), "POST /there HTTP/1.1\r\n", "body"},
        {REDIRECT("302", "there?a=b#part"), "POST /there?a=b HTTP/1.1\r\n", "body"},
        {REDIRECT("303", "/x/../there"), "GET /there HTTP/1.1\r\n", ""},
        {REDIRECT("307", "?new"), "POST /path?new HTTP/1.1\r\n", "body"},
        {REDIRECT("308", "/a b"), "POST /a%20b HTTP/1.1\r\n", "body"},
    };
    const struct outbound outbound = {.redirects_max = 1};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rig rig = {.options = {.outbound = &outbound}};
        struct delivery delivery;
        follow(&rig, rows[i].redirect, true, &delivery);
        rig_expect(&delivery, TASK_SENT_YES, "");
        assert_int_equal(delivery.outcome.status, 200);
        assert_int_equal(delivery.sends, 2);
        assert_int_equal(target_request_count(rig.target), 2);
        struct span second = target_request(rig.target, 1);
        if (!span_starts(second, rows[i].line)) {
            fail_msg("%.*s", SPAN_ARGS(second));
        }
        assert_true(span_is(target_request_body(rig.target, 1), rows[i].body));
        assert_true(has(second, "Authorization: Bearer s3cret\r\n"));
        assert_int_equal(has(second, "Content-Type:"), rows[i].body[0] != '\0');
        assert_true(has(second, "X-Own: 1\r\n") && has(second, "Idempotency-Key: k\r\n"));
        delivery_done(&delivery);
        rig_close(&rig);
    }
}

/* The same target under another name: nothing that was given for the first goes along. */
static void secrets_do_not_go_to_another_origin(void **state)
{
    static struct target_step steps[] = {TARGET_READS, {.act = TARGET_WRITE}};
    static const struct target_script scripts[] = {TARGET_SCRIPT(steps), TARGET_SCRIPT(answers)};
    const struct outbound outbound = {.redirects_max = 1};
    struct rig rig = {.options = {.outbound = &outbound}};
    char redirect[TEXT_MAX];

    (void)state;
    addresses[0] = "127.0.0.1";
    rig_open(&rig, &(struct target_plan){.scripts = scripts, .count = 2});
    steps[1].len = (size_t)snprintf(redirect, sizeof redirect,
                                    "HTTP/1.1 307 There\r\nContent-Length: 0\r\n"
                                    "Location: http://other.example:%d/x\r\n\r\n",
                                    (int)target_port(rig.target));
    steps[1].bytes = redirect;
    struct delivery delivery = rig_delivery(&rig, "POST");
    delivery.body = SPAN("body");
    delivery.repeatable = true;
    delivery.headers = SPAN("Authorization: Bearer s3cret\nCookie: a=b\nX-Own: s3cret\n"
                            "X-Api-Key: s3cret\nHost: mine\nContent-Type: text/plain\n"
                            "Idempotency-Key: k\nX-Daruma-Task: t\n");
    rig_carry_out(&rig, &delivery);
    rig_expect(&delivery, TASK_SENT_YES, "");
    rig_end(&rig);
    assert_int_equal(target_request_count(rig.target), 2);
    struct span second = target_request(rig.target, 1);
    assert_true(has(target_request(rig.target, 0), "s3cret"));
    assert_false(has(second, "s3cret") || has(second, "Cookie") || has(second, "Host: mine"));
    assert_true(has(second, "Host: other.example:") && has(second, "Content-Type: text/plain\r\n"));
    assert_true(has(second, "Idempotency-Key: k\r\n") && has(second, "X-Daruma-Task: t\r\n"));
    assert_true(span_is(target_request_body(rig.target, 1), "body"));
    delivery_done(&delivery);
    rig_close(&rig);
}

static void a_redirect_from_https_to_http_is_not_followed(void **state)
{
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES(REDIRECT("307", "http://127.0.0.1:1/"))};
    static const struct target_script scripts[] = {TARGET_SCRIPT(steps)};
    const struct outbound outbound = {.redirects_max = 1};
    struct rig rig = {.options = {.outbound = &outbound}};

    (void)state;
    rig_open(&rig,
             &(struct target_plan){.scripts = scripts, .count = 1, .tls_name = "IP:127.0.0.1"});
    struct delivery delivery = rig_delivery(&rig, "POST");
    delivery.ca = span_of(target_certificate(rig.target));
    delivery.repeatable = true;
    rig_carry_out(&rig, &delivery);
    rig_expect(&delivery, TASK_SENT_YES, "HTTP 307, not followed: it leads from https to http");
    delivery_done(&delivery);
    rig_close(&rig);
}

/* Nothing of the second request went out, but something of the first did. */
static void a_redirect_to_where_nobody_answers_is_maybe_sent(void **state)
{
    const struct outbound outbound = {.redirects_max = 1};
    struct rig rig = {.options = {.outbound = &outbound}};
    struct delivery delivery;
    char redirect[TEXT_MAX];

    (void)state;
    (void)snprintf(redirect, sizeof redirect, REDIRECT("307", "http://127.0.0.1:%d/"),
                   (int)target_free_port());
    follow(&rig, redirect, true, &delivery);
    rig_expect(&delivery, TASK_SENT_MAYBE, "connect: connection refused");
    delivery_done(&delivery);
    rig_close(&rig);
}

static void a_redirect_has_only_what_is_left_of_the_time(void **state)
{
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES(REDIRECT("307", "/there")), TARGET_READS, TARGET_HOLDS};
    const struct outbound outbound = {.redirects_max = 1};
    struct rig rig = {.options = {.outbound = &outbound}, .mono_step_ms = RIG_TIMEOUT_MS};

    (void)state;
    RIG_OPEN(&rig, steps);
    struct delivery delivery = rig_delivery(&rig, "POST");
    delivery.repeatable = true;
    rig_carry_out(&rig, &delivery); /* by this clock the first hop took all of it */
    rig_expect(&delivery, TASK_SENT_MAYBE, "timeout after 20000 ms (sent: maybe)");
    delivery_done(&delivery);
    rig_close(&rig);
}

static void cancelled_between_two_hops_it_ends(void **state)
{
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES(REDIRECT("307", "/there")), TARGET_READS, TARGET_HOLDS};
    static const struct target_script scripts[] = {TARGET_SCRIPT(steps)};
    const struct outbound outbound = {.redirects_max = 1};
    struct rig rig = {.options = {.outbound = &outbound}};

    (void)state;
    rig_open(&rig, &(struct target_plan){.scripts = scripts, .count = 1});
    struct delivery delivery = rig_delivery(&rig, "POST"), quick = delivery;
    delivery.repeatable = true;
    delivery.timeout_ms = RIG_TIMEOUT_MS;
    quick.url = SPAN("http://127.0.0.1:99999/"); /* comes back at once: the loop has turned */
    rig_send(&rig, &delivery);
    while (delivery.sends < 2) {
        rig_carry_out(&rig, &quick);
    }
    rig_cancel(&rig, &delivery);
    rig_wait(&rig, 1);
    rig_expect(&delivery, TASK_SENT_MAYBE, "cancelled (sent: maybe)");
    delivery_done(&delivery);
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
        cmocka_unit_test(a_redirect_to_where_nothing_may_go_is_not_followed),
        cmocka_unit_test(a_redirect_that_is_no_plain_url_is_not_followed),
        cmocka_unit_test(a_redirect_of_what_must_not_go_twice_is_not_followed),
        cmocka_unit_test(redirects_end_somewhere),
        cmocka_unit_test(the_request_stays_the_same_but_for_303),
        cmocka_unit_test(secrets_do_not_go_to_another_origin),
        cmocka_unit_test(a_redirect_from_https_to_http_is_not_followed),
        cmocka_unit_test(a_redirect_to_where_nobody_answers_is_maybe_sent),
        cmocka_unit_test(a_redirect_has_only_what_is_left_of_the_time),
        cmocka_unit_test(cancelled_between_two_hops_it_ends),
    };

    return HARNESS_RUN(argc, argv, tests);
}
