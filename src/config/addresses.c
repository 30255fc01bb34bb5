/* SPDX-License-Identifier: MIT
 *
 * addresses -- the values that name places in a network: addresses to listen on, hosts and ranges.
 * Only their form is looked at; no name is resolved here. URLs are task/url's.
 */
#include "config/values_internal.h"
#include "config/config.h"

#include "task/outbound.h"
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

int api_host_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                  void *into)
{
    struct span *host = into, port;
    unsigned char address[16];
    bool is_bracketed;

    if (!schema_is_text(reading, node) || !url_split_port(node->text, host, &is_bracketed, &port) ||
        port.len > 0) {
        return schema_complain(reading, key, node);
    }
    bool is_host = is_bracketed
                       ? url_parse_address(AF_INET6, *host, address)
                       : url_is_host_name(*host) || url_parse_address(AF_INET, *host, address);
    if (!is_host) {
        return schema_complain(reading, key, node);
    }
    *host = arena_copy(reading->arena, *host);
    return host->at != NULL ? 0 : complain_memory(reading);
}

int host_read(struct reading *reading, const struct schema_key *key, const struct node *node,
              void *into)
{
    struct outbound_rule *rule = into;

    if (!schema_is_text(reading, node) || !outbound_parse_rule(node->text, rule)) {
        return schema_complain(reading, key, node);
    }
    if (rule->name.len == 0) {
        return 0;
    }
    char *name = arena_alloc(reading->arena, rule->name.len + 1);
    if (name == NULL) {
        return complain_memory(reading);
    }
    for (size_t i = 0; i < rule->name.len; i++) {
        char byte = rule->name.at[i];
        name[i] = byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
    }
    rule->name.at = name;
    return 0;
}
