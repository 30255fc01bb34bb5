/* SPDX-License-Identifier: MIT
 *
 * outbound -- see outbound.h.
 *
 * One machine has many addresses: 127.0.0.1 is also ::ffff:127.0.0.1, and 0.0.0.0 reaches it too; a
 * translator on the way turns 64:ff9b::7f00:1 into it. What is denied is denied under each of its
 * names; what is allowed is allowed only under the one that was written, but for ::ffff:0:0/96, which
 * the kernel itself takes for IPv4.
 */
#include "task/outbound.h"

#include "task/url.h"

#include <arpa/inet.h>

#define FACES_MAX   3 /* the address as it is, what is in it, and what the kernel makes of it */
#define HOST_SHOWN  120
#define MAPPED_BITS 96

struct range {
    unsigned char address[16];
    uint8_t prefix_bits;
    const char *kind;
};

#define SETTING     " range (outbound.deny_private)"
#define UNSPECIFIED "in an unspecified" SETTING
#define PRIVATE     "in a private" SETTING
#define LOOPBACK    "in a loopback" SETTING
#define LINK_LOCAL  "in a link-local" SETTING
#define RESERVED    "in a reserved" SETTING
#define MULTICAST   "in a multicast" SETTING

/* Not of the public internet: the special-purpose registries of the IANA. */
static const struct range private_ipv4[] = {
    {{0}, 8, UNSPECIFIED},         {{10}, 8, PRIVATE},           {{100, 64}, 10, PRIVATE},
    {{127}, 8, LOOPBACK},          {{169, 254}, 16, LINK_LOCAL}, {{172, 16}, 12, PRIVATE},
    {{192, 0, 0}, 24, RESERVED},   {{192, 0, 2}, 24, RESERVED},  {{192, 88, 99}, 24, RESERVED},
    {{192, 168}, 16, PRIVATE},     {{198, 18}, 15, RESERVED},    {{198, 51, 100}, 24, RESERVED},
    {{203, 0, 113}, 24, RESERVED}, {{224}, 4, MULTICAST},        {{240}, 4, RESERVED},
};

static const struct range private_ipv6[] = {
    {{[15] = 1}, 128, LOOPBACK},
    {{0}, 96, UNSPECIFIED}, /* ::, and IPv4 as it was once written in IPv6 */
    {{0x00, 0x64, 0xff, 0x9b, 0, 1}, 48, PRIVATE},
    {{0x01, 0x00}, 64, RESERVED},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, RESERVED},
    {{0x3f, 0xff}, 20, RESERVED},
    {{0x5f, 0x00}, 16, RESERVED},
    {{0xfc}, 7, PRIVATE},
    {{0xfe, 0x80}, 10, LINK_LOCAL},
    {{0xfe, 0xc0}, 10, PRIVATE},
    {{0xff}, 8, MULTICAST},
};

/* Where in an IPv6 address an IPv4 address stands. */
static const struct embedding {
    unsigned char prefix[16];
    uint8_t prefix_bits;
    uint8_t at;
    unsigned char mask; /* Teredo writes it inverted */
} embeddings[] = {
    {{[10] = 0xff, 0xff}, MAPPED_BITS, 12, 0}, /* mapped */
    {{[8] = 0xff, 0xff}, 96, 12, 0},           /* translated */
    {{0x00, 0x64, 0xff, 0x9b}, 96, 12, 0},     /* NAT64 */
    {{0x20, 0x02}, 16, 2, 0},                  /* 6to4 */
    {{0x20, 0x01, 0x00, 0x00}, 32, 12, 0xff},  /* Teredo */
};

static bool has_prefix(const unsigned char *address, const unsigned char *prefix, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(address, prefix, whole) == 0 &&
           (rest == 0 || ((address[whole] ^ prefix[whole]) & (0xff00u >> rest) & 0xff) == 0);
}

static bool is_zero(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/* --- an address and what else it is ------------------------------------------------------------ */

static bool take_embedded(const struct outbound_address *address, size_t embedding_count,
                          struct outbound_address *ret_ipv4)
{
    for (size_t i = 0; address->is_ipv6 && i < embedding_count; i++) {
        const struct embedding *embedding = &embeddings[i];
        if (has_prefix(address->bytes, embedding->prefix, embedding->prefix_bits)) {
            *ret_ipv4 = (struct outbound_address){0};
            for (size_t n = 0; n < 4; n++) {
                ret_ipv4->bytes[n] = address->bytes[embedding->at + n] ^ embedding->mask;
            }
            return true;
        }
    }
    return false;
}

/* Every address that connecting to this one may come to. */
static size_t faces_of(const struct outbound_address *address,
                       struct outbound_address ret_faces[FACES_MAX])
{
    size_t count = 1;

    ret_faces[0] = *address;
    count += take_embedded(address, sizeof embeddings / sizeof *embeddings, &ret_faces[1]);
    const struct outbound_address last = ret_faces[count - 1];
    if (is_zero(last.bytes, last.is_ipv6 ? 16 : 4)) { /* the kernel connects to this machine */
        ret_faces[count] = (struct outbound_address){.is_ipv6 = last.is_ipv6};
        ret_faces[count].bytes[last.is_ipv6 ? 15 : 3] = 1;
        ret_faces[count].bytes[0] = last.is_ipv6 ? 0 : 127;
        count++;
    }
    return count;
}

static const char *private_kind(const struct outbound_address *address)
{
    const struct range *ranges = address->is_ipv6 ? private_ipv6 : private_ipv4;
    size_t count = address->is_ipv6 ? sizeof private_ipv6 / sizeof *private_ipv6
                                    : sizeof private_ipv4 / sizeof *private_ipv4;

    for (size_t i = 0; i < count; i++) {
        if (has_prefix(address->bytes, ranges[i].address, ranges[i].prefix_bits)) {
            return ranges[i].kind;
        }
    }
    return NULL;
}

/* --- rules --------------------------------------------------------------------------------------- */

static bool has_address(const struct outbound_rule *rules, size_t count,
                        const struct outbound_address *address)
{
    for (size_t i = 0; i < count; i++) {
        if (rules[i].name.len == 0 && rules[i].is_ipv6 == address->is_ipv6 &&
            has_prefix(address->bytes, rules[i].address, rules[i].prefix_bits)) {
            return true;
        }
    }
    return false;
}

/* `name` is lower case already. */
static bool ends_nocase(struct span host, struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char byte = host.at[host.len - name.len + i];
        byte = byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
        if (byte != name.at[i]) {
            return false;
        }
    }
    return true;
}

static bool has_name(const struct outbound_rule *rules, size_t count, struct span host)
{
    for (size_t i = 0; i < count; i++) {
        struct span name = rules[i].name;
        bool is_length_right = rules[i].is_below ? host.len > name.len + 1 : host.len == name.len;
        if (name.len > 0 && is_length_right && ends_nocase(host, name) &&
            (!rules[i].is_below || host.at[host.len - name.len - 1] == '.')) {
            return true;
        }
    }
    return false;
}

static bool has_ranges(const struct outbound_rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rules[i].name.len == 0) {
            return true;
        }
    }
    return false;
}

bool outbound_has_rules(const struct outbound *outbound)
{
    return outbound != NULL &&
           (outbound->allow_count > 0 || outbound->deny_count > 0 || outbound->deny_private);
}

static void clear_past(unsigned char address[16], unsigned bits)
{
    for (unsigned i = 0; i < 16; i++) {
        unsigned kept = bits >= (i + 1) * 8 ? 8 : bits > i * 8 ? bits - i * 8 : 0;
        address[i] = (unsigned char)(address[i] & (0xff00u >> kept));
    }
}

static bool parse_range(struct span text, struct outbound_rule *ret_rule)
{
    struct span rest = text, base;
    struct outbound_rule rule = {.name = SPAN("")};
    bool has_bits = span_cut(&rest, '/', &base);
    int64_t bits;

    rule.is_ipv6 = url_parse_address(AF_INET6, base, rule.address);
    if (!rule.is_ipv6 && !url_parse_address(AF_INET, base, rule.address)) {
        return false;
    }
    bits = rule.is_ipv6 ? 128 : 32;
    int64_t bits_max = bits;
    if (has_bits && (!span_to_int(rest, &bits) || bits < 0 || bits > bits_max || rest.len > 3)) {
        return false;
    }
    if (rule.is_ipv6 && bits >= MAPPED_BITS &&
        has_prefix(rule.address, embeddings[0].prefix, MAPPED_BITS)) {
        memmove(rule.address, rule.address + embeddings[0].at, 4);
        rule.is_ipv6 = false;
        bits -= MAPPED_BITS;
    }
    rule.prefix_bits = (uint8_t)bits;
    clear_past(rule.address, (unsigned)bits);
    *ret_rule = rule;
    return true;
}

bool outbound_parse_rule(struct span text, struct outbound_rule *ret_rule)
{
    struct outbound_rule rule = {.is_below = span_starts(text, "*.")};
    struct span name = span_from(text, rule.is_below ? 2 : 0);

    if (parse_range(text, ret_rule)) {
        return true;
    }
    if (!url_is_host_name(name)) {
        return false;
    }
    rule.name = span_until(name, name.len - (name.at[name.len - 1] == '.'));
    *ret_rule = rule;
    return true;
}

/* --- decisions ----------------------------------------------------------------------------------- */

/* `why` ends the sentence. */
static int refuse_address(const struct outbound_address *address, const char *why,
                          struct error *err)
{
    char text[INET6_ADDRSTRLEN] = "?";

    (void)inet_ntop(address->is_ipv6 ? AF_INET6 : AF_INET, address->bytes, text,
                    sizeof text); /* there is room */
    return fail(err, FAULT_INPUT, "outbound: %s is %s", text, why);
}

/* The kernel takes ::ffff:a.b.c.d for IPv4; so do the rules of `allow`. */
static bool is_in_allow(const struct outbound *outbound, const struct outbound_address *address)
{
    struct outbound_address ipv4;

    return has_address(outbound->allow, outbound->allow_count, address) ||
           (take_embedded(address, 1, &ipv4) &&
            has_address(outbound->allow, outbound->allow_count, &ipv4));
}

int outbound_check_address(const struct outbound *outbound, const struct outbound_address *address,
                           bool is_allowed, struct error *err)
{
    struct outbound_address faces[FACES_MAX];
    size_t count = faces_of(address, faces);

    for (size_t i = 0; i < count; i++) {
        if (has_address(outbound->deny, outbound->deny_count, &faces[i])) {
            return refuse_address(address, "denied (outbound.deny)", err);
        }
        const char *kind = outbound->deny_private ? private_kind(&faces[i]) : NULL;
        if (kind != NULL) {
            return refuse_address(address, kind, err);
        }
    }
    if (outbound->allow_count > 0 && !is_allowed && !is_in_allow(outbound, address)) {
        return refuse_address(address, "not allowed (outbound.allow)", err);
    }
    return 0;
}

static int check_name(const struct outbound *outbound, struct span host, bool *ret_is_allowed,
                      struct error *err)
{
    struct span name = span_until(host, host.len - (host.at[host.len - 1] == '.'));
    struct span shown = span_until(name, HOST_SHOWN);

    if (has_name(outbound->deny, outbound->deny_count, name)) {
        return fail(err, FAULT_INPUT, "outbound: %.*s is denied (outbound.deny)", SPAN_ARGS(shown));
    }
    *ret_is_allowed = has_name(outbound->allow, outbound->allow_count, name);
    if (outbound->allow_count > 0 && !*ret_is_allowed &&
        !has_ranges(outbound->allow, outbound->allow_count)) {
        return fail(err, FAULT_INPUT, "outbound: %.*s is not allowed (outbound.allow)",
                    SPAN_ARGS(shown));
    }
    return 0;
}

int outbound_check_host(const struct outbound *outbound, struct span host, bool *ret_is_allowed,
                        struct error *err)
{
    struct outbound_address address = {0};

    *ret_is_allowed = false;
    address.is_ipv6 = url_parse_address(AF_INET6, host, address.bytes);
    if (address.is_ipv6 || url_parse_address(AF_INET, host, address.bytes)) {
        return outbound_check_address(outbound, &address, false, err);
    }
    if (!url_is_host_name(host)) { /* escapes, other alphabets: another reader's name for it */
        return fail(err, FAULT_INPUT, "outbound: the host is neither a plain name nor an address");
    }
    return check_name(outbound, host, ret_is_allowed, err);
}
