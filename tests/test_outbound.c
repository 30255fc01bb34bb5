/* SPDX-License-Identifier: MIT
 *
 * outbound: who may be sent to, as a table. test_deliver_http_outbound.c has the same at real
 * sockets.
 */
#include "harness.h"

#include "task/outbound.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define RULES_MAX 4

/* Rules as a configuration would have them, NULL at the end. */
struct rules {
    const char *allow[RULES_MAX], *deny[RULES_MAX];
    bool deny_private;
};

static size_t make(const char *const texts[RULES_MAX], struct outbound_rule *ret_rules)
{
    size_t count = 0;

    for (; count < RULES_MAX && texts[count] != NULL; count++) {
        assert_true(outbound_parse_rule(span_of(texts[count]), &ret_rules[count]));
    }
    return count;
}

/* The words of the refusal, or "" when it may go. NULL as address: only the host is asked. */
static const char *asked(const struct rules *rules, const char *host, const char *address)
{
    static struct error err;
    struct outbound_rule allow[RULES_MAX], deny[RULES_MAX];
    const struct outbound outbound = {.allow = allow,
                                      .allow_count = make(rules->allow, allow),
                                      .deny = deny,
                                      .deny_count = make(rules->deny, deny),
                                      .deny_private = rules->deny_private};
    struct outbound_address to = {.is_ipv6 = address != NULL && strchr(address, ':') != NULL};
    bool is_allowed = false;

    err = (struct error){0};
    assert_true(outbound_has_rules(&outbound));
    int failed = outbound_check_host(&outbound, span_of(host), &is_allowed, &err);
    if (failed == 0 && address != NULL) {
        assert_int_equal(inet_pton(to.is_ipv6 ? AF_INET6 : AF_INET, address, to.bytes), 1);
        failed = outbound_check_address(&outbound, &to, is_allowed, &err);
    }
    assert_true(failed == 0 || failed == FAULT_INPUT);
    return failed == 0 ? "" : err.text;
}

static void expect(const struct rules *rules, const char *host, const char *address,
                   const char *refusal)
{
    const char *found = asked(rules, host, address);

    if (strcmp(found, refusal) != 0) {
        fail_msg("%s at %s: \"%s\", not \"%s\"", host, address != NULL ? address : "-", found,
                 refusal);
    }
}

static void without_rules_nothing_is_asked(void **state)
{
    (void)state;
    assert_false(outbound_has_rules(NULL));
    assert_false(outbound_has_rules(&(struct outbound){.redirects_max = 5}));
    assert_true(outbound_has_rules(&(struct outbound){.deny_private = true}));
}

static void addresses_that_are_not_public_are_private(void **state)
{
    static const struct {
        const char *address, *kind;
    } rows[] = {
        {"0.0.0.0", "an unspecified"},
        {"0.1.2.3", "an unspecified"},
        {"10.0.0.8", "a private"},
        {"10.255.255.255", "a private"},
        {"100.64.0.1", "a private"},
        {"100.127.255.254", "a private"},
        {"127.0.0.1", "a loopback"},
        {"127.8.9.10", "a loopback"},
        {"169.254.169.254", "a link-local"},
        {"172.16.0.1", "a private"},
        {"172.31.255.255", "a private"},
        {"192.0.0.8", "a reserved"},
        {"192.0.2.1", "a reserved"},
        {"192.88.99.1", "a reserved"},
        {"192.168.1.1", "a private"},
        {"198.18.0.1", "a reserved"},
        {"198.19.255.255", "a reserved"},
        {"198.51.100.7", "a reserved"},
        {"203.0.113.7", "a reserved"},
        {"224.0.0.1", "a multicast"},
        {"239.255.255.250", "a multicast"},
        {"240.0.0.1", "a reserved"},
        {"255.255.255.255", "a reserved"},
        {"::", "an unspecified"},
        {"::1", "a loopback"},
        {"::7f00:1", "an unspecified"}, /* 127.0.0.1, as it was once written */
        {"::ffff:127.0.0.1", "a loopback"},
        {"::ffff:10.0.0.8", "a private"},
        {"::ffff:169.254.169.254", "a link-local"},
        {"::ffff:0.0.0.0", "an unspecified"},
        {"::ffff:0:127.0.0.1", "a loopback"},
        {"64:ff9b::127.0.0.1", "a loopback"},
        {"64:ff9b::10.0.0.8", "a private"},
        {"64:ff9b:1::1", "a private"},
        {"100::1", "a reserved"},
        {"2001:0:1:2:3:4:80ff:fffe", "a loopback"}, /* Teredo: 127.0.0.1 inverted */
        {"2001:db8::1", "a reserved"},
        {"2002:7f00:1::1", "a loopback"},
        {"2002:a00:8::1", "a private"},
        {"2002:c0a8:101::1", "a private"},
        {"3fff::1", "a reserved"},
        {"5f00::1", "a reserved"},
        {"fc00::1", "a private"},
        {"fdff:ffff::1", "a private"},
        {"fe80::1", "a link-local"},
        {"febf::1", "a link-local"},
        {"fec0::1", "a private"},
        {"ff02::1", "a multicast"},
    };
    const struct rules rules = {.deny_private = true};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char refusal[ERROR_TEXT_MAX], shown[INET6_ADDRSTRLEN];
        unsigned char bytes[16];
        int family = strchr(rows[i].address, ':') != NULL ? AF_INET6 : AF_INET;
        assert_int_equal(inet_pton(family, rows[i].address, bytes), 1);
        assert_non_null(inet_ntop(family, bytes, shown, sizeof shown));
        (void)snprintf(refusal, sizeof refusal,
                       "outbound: %s is in %s range (outbound.deny_private)", shown, rows[i].kind);
        expect(&rules, "example.org", rows[i].address, refusal); /* behind a name */
        expect(&rules, rows[i].address, NULL, refusal);          /* and as written in the URL */
    }
}

static void public_addresses_are_not_private(void **state)
{
    static const char *const addresses[] = {
        "1.0.0.0",          "8.8.8.8",
        "9.255.255.255",    "11.0.0.0",
        "100.63.255.255",   "100.128.0.0",
        "126.255.255.255",  "128.0.0.0",
        "169.253.255.255",  "169.255.0.0",
        "172.15.255.255",   "172.32.0.0",
        "192.0.1.0",        "192.0.3.0",
        "192.167.255.255",  "192.169.0.0",
        "198.17.255.255",   "198.20.0.0",
        "223.255.255.255",  "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8", "2001:4860:4860::8888",
        "2002:808:808::1",  "2600::1",
        "2a00::1",          "fbff::1",
    };
    const struct rules rules = {.deny_private = true};

    (void)state;
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        expect(&rules, "example.org", addresses[i], "");
        expect(&rules, addresses[i], addresses[i], "");
    }
}

static void deny_wins_over_allow(void **state)
{
    const struct rules names = {.allow = {"example.org", "*.example.org"},
                                .deny = {"bad.example.org"}};
    const struct rules ranges = {.allow = {"10.0.0.0/8"}, .deny = {"10.9.0.0/16"}};
    const struct rules both = {.allow = {"example.org"}, .deny_private = true};

    (void)state;
    expect(&names, "example.org", "1.2.3.4", "");
    expect(&names, "bad.example.org", NULL, "outbound: bad.example.org is denied (outbound.deny)");
    expect(&ranges, "10.8.0.1", "10.8.0.1", "");
    expect(&ranges, "10.9.0.1", NULL, "outbound: 10.9.0.1 is denied (outbound.deny)");
    expect(&ranges, "h", "10.9.0.1", "outbound: 10.9.0.1 is denied (outbound.deny)");
    expect(&both, "example.org", "10.0.0.1",
           "outbound: 10.0.0.1 is in a private range (outbound.deny_private)");
}

static void a_name_matches_itself_in_any_case_and_with_a_dot(void **state)
{
    const struct rules rules = {.deny = {"Example.org", "*.internal", "localhost"}};
    static const char *const same[] = {"Example.org",   "Example.org.", "a.internal",
                                       "A.B.internal.", "localhost",    "localhost."};
    static const char *const others[] = {"example.org.evil", "notExample.org", "sub.Example.org",
                                         "internal",         "notinternal",    "localhost.evil"};
    char refusal[ERROR_TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        size_t len = strlen(same[i]);
        len -= same[i][len - 1] == '.';
        (void)snprintf(refusal, sizeof refusal, "outbound: %.*s is denied (outbound.deny)",
                       (int)len, same[i]);
        struct rules lower = rules; /* rules are in lower case once read: config/addresses.c */
        lower.deny[0] = "example.org";
        expect(&lower, same[i], NULL, refusal);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        expect(&rules, others[i], "1.2.3.4", "");
    }
}

static void with_allow_only_what_is_in_it_may_go(void **state)
{
    const struct rules names = {.allow = {"example.org"}};
    const struct rules ranges = {.allow = {"10.0.0.0/8", "2001:db8::/32"}};
    const struct rules mixed = {.allow = {"example.org", "10.0.0.0/8"}};

    (void)state;
    expect(&names, "example.org", "93.184.216.34", "");
    expect(&names, "example.com", NULL, "outbound: example.com is not allowed (outbound.allow)");
    expect(&names, "93.184.216.34", NULL,
           "outbound: 93.184.216.34 is not allowed (outbound.allow)");
    expect(&ranges, "any.name", "10.1.2.3", "");
    expect(&ranges, "any.name", "::ffff:10.1.2.3", ""); /* the kernel takes it for IPv4 */
    expect(&ranges, "any.name", "2001:db8::5", "");
    expect(&ranges, "any.name", "11.1.2.3", "outbound: 11.1.2.3 is not allowed (outbound.allow)");
    expect(&ranges, "any.name", "64:ff9b::a01:203", /* somebody else's translator */
           "outbound: 64:ff9b::a01:203 is not allowed (outbound.allow)");
    expect(&mixed, "example.org", "93.184.216.34", "");
    expect(&mixed, "example.com", "10.0.0.1", "");
    expect(&mixed, "example.com", "93.184.216.34",
           "outbound: 93.184.216.34 is not allowed (outbound.allow)");
}

/* One machine under another number. */
static void what_is_denied_is_denied_under_each_of_its_addresses(void **state)
{
    const struct rules loopback = {.deny = {"127.0.0.0/8", "::1"}};
    const struct rules one = {.deny = {"10.0.0.8"}};
    const struct rules mapped = {.deny = {"::ffff:10.0.0.0/104"}};
    static const char *const local[] = {
        "127.0.0.1",      "::1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "0.0.0.0",
        "::ffff:0.0.0.0", "::",  "2002:7f00:1::"};
    static const char *const ten[] = {"10.0.0.8", "::ffff:10.0.0.8", "64:ff9b::a00:8",
                                      "2002:a00:8::1"};

    (void)state;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        assert_string_not_equal(asked(&loopback, "h", local[i]), "");
    }
    for (size_t i = 0; i < sizeof ten / sizeof *ten; i++) {
        assert_string_not_equal(asked(&one, "h", ten[i]), "");
        assert_string_not_equal(asked(&mapped, "h", ten[i]), "");
    }
    expect(&one, "h", "10.0.0.9", "");
    expect(&loopback, "h", "::2", "");
}

static void prefixes_are_held_to_the_bit(void **state)
{
    const struct rules odd = {.deny = {"192.168.128.0/17", "fd00::/9"}};
    const struct rules all = {.deny = {"0.0.0.0/0"}};

    (void)state;
    expect(&odd, "h", "192.168.127.255", "");
    assert_string_not_equal(asked(&odd, "h", "192.168.128.0"), "");
    assert_string_not_equal(asked(&odd, "h", "fd7f::1"), "");
    expect(&odd, "h", "fd80::1", "");
    assert_string_not_equal(asked(&all, "h", "8.8.8.8"), "");
    expect(&all, "h", "2600::1", "");
}

static void a_host_that_another_reader_could_read_otherwise_is_refused(void **state)
{
    static const char *const hosts[] = {
        "",      "a b",  "%6cocalhost",          "1.2.3",  "0177.0.0.1", "2130706433",
        "127.1", "a..b", "\xe2\x93\x9bocalhost", "-a.org", "a/b",        "user@h",
        "h:80"};
    const struct rules rules = {.deny_private = true};

    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        expect(&rules, hosts[i], NULL, "outbound: the host is neither a plain name nor an address");
    }
}

static void what_is_no_rule_is_not_read(void **state)
{
    static const char *const texts[] = {"",         "*",          "*.",        ".a.org",
                                        "a.*.org",  "10.0.0/8",   "10.0.0.0/", "10.0.0.0/33",
                                        "::/129",   "::/-1",      "1.2.3.4/a", "http://a.org",
                                        "a.org:80", "*.10.0.0.1", "a_b/8",     "[::1]"};
    struct outbound_rule rule;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (outbound_parse_rule(span_of(texts[i]), &rule)) {
            fail_msg("%s was read", texts[i]);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_rules_nothing_is_asked),
        cmocka_unit_test(addresses_that_are_not_public_are_private),
        cmocka_unit_test(public_addresses_are_not_private),
        cmocka_unit_test(deny_wins_over_allow),
        cmocka_unit_test(a_name_matches_itself_in_any_case_and_with_a_dot),
        cmocka_unit_test(with_allow_only_what_is_in_it_may_go),
        cmocka_unit_test(what_is_denied_is_denied_under_each_of_its_addresses),
        cmocka_unit_test(prefixes_are_held_to_the_bit),
        cmocka_unit_test(a_host_that_another_reader_could_read_otherwise_is_refused),
        cmocka_unit_test(what_is_no_rule_is_not_read),
    };

    return HARNESS_RUN(argc, argv, tests);
}
