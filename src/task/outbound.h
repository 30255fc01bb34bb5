/* SPDX-License-Identifier: MIT
 *
 * outbound -- where requests may go: the rules of the configuration's `outbound`, and the one place
 * that decides by them. Pure: no name is resolved here. It is asked twice for each request, and once
 * more for every redirect: with the host that the URL names, before anything happens, and with each
 * address that is about to be connected to. Only the second is proof; a name can mean any address,
 * and another one tomorrow.
 *
 *   deny          wins: a name, or an address in a range
 *   deny_private  likewise, for every address that is not of the public internet
 *   allow         if there is any: the name, or else the address, has to be in it
 */
#ifndef TASK_OUTBOUND_H
#define TASK_OUTBOUND_H

#include "base/fault.h"
#include "base/span.h"

/* A host, the hosts below a name, or a range of addresses. */
struct outbound_rule {
    struct span name;          /* in lower case, without a dot at its end; empty: a range */
    bool is_below;             /* written *.name: every name that ends so, but not name itself */
    unsigned char address[16]; /* network order; bits past the prefix are 0; IPv4: 4 bytes */
    uint8_t prefix_bits;
    bool is_ipv6;
};

struct outbound {
    struct outbound_rule *allow; /* none: every host */
    size_t allow_count;
    struct outbound_rule *deny; /* wins over allow */
    size_t deny_count;
    bool deny_private;
    uint32_t redirects_max;
};

/* An address, as sockets have it. */
struct outbound_address {
    unsigned char bytes[16]; /* network order; IPv4: 4 bytes */
    bool is_ipv6;
};

bool outbound_has_rules(const struct outbound *outbound); /* NULL: none */

/* HOST, or a range BASE/BITS, or an address. What stands for IPv4 in IPv6 (::ffff:10.0.0.0/104) is
 * that IPv4 range. ret_rule->name is a part of `text`, as written. False: it is none of them. */
bool outbound_parse_rule(struct span text, struct outbound_rule *ret_rule);

/* The host of a URL, without brackets. An address is judged as far as it can be, and again when it is
 * connected to. FAULT_INPUT: it may not be sent to, and err says by which rule.
 * *ret_is_allowed: by its name; else each of its addresses has to be in `allow`. */
int outbound_check_host(const struct outbound *outbound, struct span host, bool *ret_is_allowed,
                        struct error *err) __attribute__((warn_unused_result));

/* An address that is about to be connected to. FAULT_INPUT likewise. */
int outbound_check_address(const struct outbound *outbound, const struct outbound_address *address,
                           bool is_allowed, struct error *err) __attribute__((warn_unused_result));

#endif
