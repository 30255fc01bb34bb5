/* SPDX-License-Identifier: MIT
 *
 * addresses -- the values that name places in a network: addresses to listen on, hosts and ranges.
 * Only their form is looked at; no name is resolved here. URLs are task/url's.
 */
#include "config/values_internal.h"
#include "config/config.h"

#include "task/fields.h"
#include "task/url.h"

#include <arpa/inet.h>

static bool is_loopback(struct span host, bool is_ipv6)
{
    static const unsigned char mapped[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
    static const unsigned char one[16] = {[15] = 1};
    unsigned char address[16] = {0};

    if (is_ipv6) {
        return url_parse_address(AF_INET6, host, address) &&
               (memcmp(address, one, sizeof one) == 0 ||
                memcmp(address, mapped, sizeof mapped) == 0);
    }
    return url_parse_address(AF_INET, host, address) && address[0] == 127;
}

int listen_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                void *into)
{
    struct config_listen *listen = into;
    struct span host, port;
    bool is_bracketed, is_ipv6;
    uint16_t number;

    if (!schema_is_text(reading, node) ||
        !url_split_port(node->text, &host, &is_bracketed, &port) ||
        !url_parse_port(port, 0, &number)) {
        return schema_complain(reading, key, node);
    }
    if (!is_bracketed && span_is(host, "localhost")) {
        host = SPAN("127.0.0.1");
    }
    if (!url_is_address(host, &is_ipv6) || is_ipv6 != is_bracketed) {
        return schema_complain(reading, key, node);
    }
    *listen = (struct config_listen){
        .host = arena_copy(reading->arena, host),
        .port = number,
        .is_ipv6 = is_ipv6,
        .is_loopback = is_loopback(host, is_ipv6),
    };
    return listen->host.at != NULL ? 0 : complain_memory(reading);
}

static void clear_past(unsigned char address[16], unsigned bits)
{
    for (unsigned i = 0; i < 16; i++) {
        unsigned kept = bits >= (i + 1) * 8 ? 8 : bits > i * 8 ? bits - i * 8 : 0;
        address[i] = (unsigned char)(address[i] & (0xff00u >> kept));
    }
}

static bool parse_range(struct span text, struct config_host *ret_host)
{
    struct span rest = text, base;
    struct config_host host = {.name = SPAN("")};
    bool has_prefix = span_cut(&rest, '/', &base);
    int64_t bits;

    host.is_ipv6 = url_parse_address(AF_INET6, base, host.address);
    if (!host.is_ipv6 && !url_parse_address(AF_INET, base, host.address)) {
        return false;
    }
    bits = host.is_ipv6 ? 128 : 32;
    int64_t bits_max = bits;
    if (has_prefix && (!span_to_int(rest, &bits) || bits < 0 || bits > bits_max || rest.len > 3)) {
        return false;
    }
    host.prefix_bits = (uint8_t)bits;
    clear_past(host.address, (unsigned)bits);
    *ret_host = host;
    return true;
}

int host_read(struct reading *reading, const struct schema_key *key, const struct node *node,
              void *into)
{
    struct config_host *host = into;

    if (!schema_is_text(reading, node)) {
        return schema_complain(reading, key, node);
    }
    if (parse_range(node->text, host)) {
        return 0;
    }
    if (!url_is_host_name(node->text)) {
        return schema_complain(reading, key, node);
    }
    char *name = arena_alloc(reading->arena, node->text.len + 1);
    if (name == NULL) {
        return complain_memory(reading);
    }
    for (size_t i = 0; i < node->text.len; i++) {
        char byte = node->text.at[i];
        name[i] = byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
    }
    *host = (struct config_host){.name = {.at = name, .len = node->text.len}};
    return 0;
}
