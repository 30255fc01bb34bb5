/* SPDX-License-Identifier: MIT
 *
 * url -- see url.h.
 */
#include "task/url.h"

#include "task/secrets.h"

#include <arpa/inet.h>

#define HOST_MAX    253
#define LABEL_MAX   63
#define ADDRESS_MAX 48 /* an IPv6 address and its NUL */
#define PORT_MAX    65535

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static bool is_label(struct span label)
{
    for (size_t i = 0; i < label.len; i++) {
        if (!is_letter(label.at[i]) && !is_digit(label.at[i]) && label.at[i] != '-' &&
            label.at[i] != '_') {
            return false;
        }
    }
    return label.len > 0 && label.len <= LABEL_MAX && label.at[0] != '-';
}

/* A last label of digits makes it an IPv4 address, and then a wrong one. */
bool url_is_host_name(struct span host)
{
    struct span rest = host, label = {0};
    bool has_more = host.len > 0 && host.len <= HOST_MAX;

    if (!has_more) {
        return false;
    }
    while (has_more) {
        has_more = span_cut(&rest, '.', &label);
        if (has_more && rest.len == 0) { /* the dot of the root */
            has_more = false;
        }
        if (!is_label(label)) {
            return false;
        }
    }
    for (size_t i = 0; i < label.len; i++) {
        if (!is_digit(label.at[i])) {
            return true;
        }
    }
    return false;
}

bool url_parse_address(int family, struct span text, unsigned char ret_address[16])
{
    char copy[ADDRESS_MAX];

    if (text.len >= sizeof copy || span_find(text, '\0') != NULL) {
        return false;
    }
    span_copy(copy, text);
    copy[text.len] = '\0';
    return inet_pton(family, copy, ret_address) == 1;
}

bool url_is_address(struct span text, bool *ret_ipv6)
{
    unsigned char address[16];

    *ret_ipv6 = url_parse_address(AF_INET6, text, address);
    return *ret_ipv6 || url_parse_address(AF_INET, text, address);
}

/* HOST:PORT, [IPV6]:PORT or HOST alone; ret_port has no colon. */
bool url_split_port(struct span text, struct span *ret_host, bool *ret_bracketed,
                    struct span *ret_port)
{
    struct span rest = text;

    *ret_bracketed = span_starts(text, "[");
    *ret_port = (struct span){.at = "", .len = 0};
    if (*ret_bracketed) {
        rest = span_from(text, 1);
        if (!span_cut(&rest, ']', ret_host)) {
            *ret_host = text; /* with its bracket, so that it is no host */
            return false;
        }
        *ret_port = span_from(rest, 1);
        return rest.len == 0 || (rest.at[0] == ':' && rest.len > 1);
    }
    bool has_port = span_cut(&rest, ':', ret_host);
    *ret_port = rest;
    return !has_port || rest.len > 0;
}

bool url_parse_port(struct span text, int64_t least, uint16_t *ret_port)
{
    int64_t port;

    if (!span_to_int(text, &port) || port < least || port > PORT_MAX || text.len > 5) {
        return false;
    }
    *ret_port = (uint16_t)port;
    return true;
}

static bool is_url_host(struct span host, bool is_bracketed)
{
    unsigned char address[16];

    if (is_bracketed) {
        return url_parse_address(AF_INET6, host, address);
    }
    return url_is_host_name(host) || url_parse_address(AF_INET, host, address);
}

static const char *refuse_authority(struct span authority)
{
    struct span host, port;
    bool is_bracketed;
    uint16_t number;

    if (span_find(authority, '@') != NULL) {
        return "a user name or password in it";
    }
    bool is_split = url_split_port(authority, &host, &is_bracketed, &port);
    if (host.len == 0) {
        return "no host";
    }
    if (!is_url_host(host, is_bracketed)) {
        return "a host that cannot be one";
    }
    return is_split && (port.len == 0 || url_parse_port(port, 1, &number)) ? NULL
                                                                           : "a port that is none";
}

/* What is found is described, not shown: people put passwords into URLs. */
const char *url_refuse(struct span text)
{
    struct span rest = text, scheme;
    size_t end = 0;

    if (text.len > URL_BYTES_MAX) {
        return "too many bytes";
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] <= ' ' || text.at[i] == 0x7f || (unsigned char)text.at[i] > 0x7f ||
            text.at[i] == '\\') {
            return "a character that has to be escaped";
        }
        if (text.at[i] == '(' && span_starts(span_from(text, i), SECRETS_HIDDEN)) {
            return SECRETS_HIDDEN ", which stands for what was not shown";
        }
    }
    if (!span_cut(&rest, ':', &scheme) || !span_starts(rest, "//")) {
        return "no scheme";
    }
    if (!span_is_nocase(scheme, "http") && !span_is_nocase(scheme, "https")) {
        return "another scheme";
    }
    if (span_find(rest, '#') != NULL) {
        return "a fragment";
    }
    rest = span_from(rest, 2);
    while (end < rest.len && rest.at[end] != '/' && rest.at[end] != '?') {
        end++;
    }
    return refuse_authority(span_until(rest, end));
}

/* --- origins ------------------------------------------------------------------------------------- */

#define PORT_HTTP  80
#define PORT_HTTPS 443

struct origin {
    bool is_https;
    struct span host;
    uint16_t port;
};

/* Only what url_refuse takes: nothing in it can be read in two ways. */
static bool origin_of(struct span url, struct origin *ret_origin)
{
    struct span rest = url, scheme, port;
    bool is_bracketed;
    size_t end = 0;

    if (url_refuse(url) != NULL) {
        return false;
    }
    (void)span_cut(&rest, ':', &scheme); /* it is there */
    rest = span_from(rest, 2);
    while (end < rest.len && rest.at[end] != '/' && rest.at[end] != '?') {
        end++;
    }
    ret_origin->is_https = span_is_nocase(scheme, "https");
    ret_origin->port = ret_origin->is_https ? PORT_HTTPS : PORT_HTTP;
    return url_split_port(span_until(rest, end), &ret_origin->host, &is_bracketed, &port) &&
           (port.len == 0 || url_parse_port(port, 1, &ret_origin->port));
}

bool url_is_same_origin(struct span one, struct span other)
{
    struct origin first, second;

    return origin_of(one, &first) && origin_of(other, &second) &&
           first.is_https == second.is_https && first.port == second.port &&
           span_equal_nocase(first.host, second.host);
}

bool url_is_exposed(struct span url)
{
    static const unsigned char six[16] = {[15] = 1};
    static const unsigned char mapped[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
    unsigned char address[16];
    struct origin origin;

    if (!origin_of(url, &origin) || origin.is_https) {
        return false;
    }
    if (url_parse_address(AF_INET, origin.host, address)) {
        return address[0] != 127;
    }
    if (url_parse_address(AF_INET6, origin.host, address)) {
        return memcmp(address, six, sizeof six) != 0 && memcmp(address, mapped, sizeof mapped) != 0;
    }
    return !span_is_nocase(origin.host, "localhost");
}
