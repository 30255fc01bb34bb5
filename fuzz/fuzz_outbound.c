/* SPDX-License-Identifier: MIT
 *
 * fuzz_outbound -- rules and hosts from outside: a rule, a newline, a host.
 *
 * What must hold for any input: a rule that was read has no bits past its prefix; a host that is an
 * address and may go with private ones denied is none that everybody knows to be; whoever is denied
 * by the very rule that was read is refused; an error is one line.
 */
#include "task/outbound.h"
#include "task/url.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

static void holds(bool claim, const char *text)
{
    if (!claim) {
        fprintf(stderr, "does not hold: %s\n", text);
        abort();
    }
}

static void check_rule(const struct outbound_rule *rule, struct span host)
{
    const struct outbound outbound = {.deny = (struct outbound_rule *)(uintptr_t)rule,
                                      .deny_count = 1};
    unsigned bits = rule->is_ipv6 ? 128 : 32;
    struct outbound_address address = {.is_ipv6 = rule->is_ipv6};
    bool is_allowed;
    struct error err = {0};

    holds(rule->name.len > 0 || rule->prefix_bits <= bits, "a prefix fits its address");
    for (unsigned i = rule->prefix_bits; rule->name.len == 0 && i < bits; i++) {
        holds((rule->address[i / 8] >> (7 - i % 8) & 1) == 0, "nothing is past the prefix");
    }
    if (rule->name.len == 0) {
        memcpy(address.bytes, rule->address, sizeof address.bytes);
        holds(outbound_check_address(&outbound, &address, true, &err) == FAULT_INPUT,
              "a range denies its first address");
    }
    if (outbound_check_host(&outbound, host, &is_allowed, &err) != 0) {
        holds(err.fault == FAULT_INPUT && strchr(err.text, '\n') == NULL, "an error is one line");
    }
}

static void check_host(struct span host)
{
    const struct outbound outbound = {.deny_private = true};
    unsigned char ipv4[16];
    bool is_allowed = true;
    struct error err = {0};

    if (outbound_check_host(&outbound, host, &is_allowed, &err) != 0) {
        holds(err.fault == FAULT_INPUT && err.text[0] != '\0', "a refusal says why");
        return;
    }
    holds(!is_allowed, "nothing is allowed by name without a rule");
    if (url_parse_address(AF_INET, host, ipv4)) {
        holds(ipv4[0] != 127 && ipv4[0] != 10 && ipv4[0] != 0 && ipv4[0] < 224 &&
                  !(ipv4[0] == 192 && ipv4[1] == 168) && !(ipv4[0] == 169 && ipv4[1] == 254),
              "it is not private");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    char *bytes = malloc(length + 1); /* of just its size, so that reading past the end is seen */
    struct span host = {.at = bytes, .len = length}, text;
    struct outbound_rule rule;

    holds(bytes != NULL, "there is memory");
    memcpy(bytes, input, length);
    (void)span_cut(&host, '\n', &text); /* without one the host is empty */
    if (outbound_parse_rule(text, &rule)) {
        check_rule(&rule, host);
    }
    check_host(host);
    free(bytes);
    return 0;
}
