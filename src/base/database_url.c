/* SPDX-License-Identifier: MIT
 *
 * database_url -- see database_url.h.
 */
#include "base/database_url.h"

static bool is_hex(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') ||
           (byte >= 'A' && byte <= 'F');
}

/* Each % begins an escape, and none stands for NUL. */
static bool is_encoded(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] != '%') {
            continue;
        }
        if (i + 2 >= text.len || !is_hex(text.at[i + 1]) || !is_hex(text.at[i + 2]) ||
            (text.at[i + 1] == '0' && text.at[i + 2] == '0')) {
            return false;
        }
    }
    return true;
}

/* Behind a user comes the first @ that no slash precedes, whatever else is before it. */
static struct span behind_user(struct span url)
{
    for (size_t i = 0; i < url.len && url.at[i] != '/'; i++) {
        if (url.at[i] == '@') {
            return span_from(url, i + 1);
        }
    }
    return url;
}

static bool is_port(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
    }
    return true;
}

/* One of host[:port], an address of IPv6 in brackets. */
static bool is_host(struct span text)
{
    const char *bracket = text.len > 0 && text.at[0] == '[' ? span_find(text, ']') : NULL;
    struct span rest = bracket == NULL ? text : span_from(text, (size_t)(bracket - text.at) + 1);
    struct span name;
    bool has_port = span_cut(&rest, ':', &name);

    if (bracket != NULL && name.len > 0) {
        return false;
    }
    return !has_port || is_port(rest);
}

static bool are_hosts(struct span text)
{
    struct span host;
    bool has_more = true;

    while (has_more) {
        has_more = span_cut(&text, ',', &host);
        if (!is_host(host)) {
            return false;
        }
    }
    return true;
}

/* name=value, with & between. */
static bool are_parameters(struct span text)
{
    struct span pair, name;
    bool has_more = text.len > 0;

    while (has_more) {
        has_more = span_cut(&text, '&', &pair);
        if (!span_cut(&pair, '=', &name) || span_find(pair, '=') != NULL) {
            return false;
        }
    }
    return true;
}

bool database_url_read(struct span url, struct span *ret_shown)
{
    if (!span_starts(url, "//") || !is_encoded(url)) {
        return false;
    }
    struct span rest = behind_user(span_from(url, 2)), place, hosts;

    if (span_find(rest, '@') != NULL) {
        return false;
    }
    (void)span_cut(&rest, '?', &place); /* all of it when there is none */
    struct span name = place;
    (void)span_cut(&name, '/', &hosts);
    if (!are_hosts(hosts) || !are_parameters(rest)) {
        return false;
    }
    *ret_shown = place;
    return true;
}
