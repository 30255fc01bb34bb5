/* SPDX-License-Identifier: MIT
 *
 * origin -- see origin.h.
 */
#include "edge/origin.h"

#include "task/url.h"

#include <sys/socket.h>

#define PORT_HTTP  80
#define PORT_HTTPS 443

/* A host and its port, the scheme's own where none is written. */
struct place {
    struct span host; /* without brackets */
    bool is_bracketed;
    uint16_t port;
};

static bool place_parse(struct span text, bool is_tls, struct place *ret_place)
{
    struct span port;

    *ret_place = (struct place){.port = is_tls ? PORT_HTTPS : PORT_HTTP};
    if (!url_split_port(text, &ret_place->host, &ret_place->is_bracketed, &port) ||
        ret_place->host.len == 0) {
        return false;
    }
    return port.len == 0 || url_parse_port(port, 0, &ret_place->port);
}

/* --- whose name was asked for -------------------------------------------------------------------- */

static bool is_loopback(const struct place *place)
{
    static const unsigned char one[16] = {[15] = 1};
    unsigned char address[16] = {0};

    if (place->is_bracketed) {
        return url_parse_address(AF_INET6, place->host, address) &&
               memcmp(address, one, sizeof one) == 0;
    }
    return span_is_nocase(place->host, "localhost") ||
           (url_parse_address(AF_INET, place->host, address) && address[0] == 127);
}

/* `host` is a name or an address of either kind, without brackets. */
static bool is_host(const struct place *place, struct span host)
{
    unsigned char theirs[16] = {0}, ours[16] = {0};

    if (!place->is_bracketed) {
        return span_equal_nocase(place->host, host);
    }
    return url_parse_address(AF_INET6, place->host, theirs) &&
           url_parse_address(AF_INET6, host, ours) && memcmp(theirs, ours, sizeof ours) == 0;
}

/* Without a Host it is no browser: HTTP/1.1 has one always. */
static bool is_ours(const struct origin_rule *rule, struct span host)
{
    struct place place;

    if (host.at == NULL) {
        return true;
    }
    if (!place_parse(host, rule->is_tls, &place)) {
        return false;
    }
    bool is_known = is_loopback(&place) || is_host(&place, rule->listen);
    for (size_t i = 0; !is_known && i < rule->host_count; i++) {
        is_known = is_host(&place, rule->hosts[i]);
    }
    return is_known;
}

/* --- where the page is from ------------------------------------------------------------------------ */

/* The origin of a page that this very host has served. */
static bool is_same(const struct origin_rule *rule, struct span host, struct span origin)
{
    const char *scheme = rule->is_tls ? "https://" : "http://";
    struct place theirs, ours;

    return span_is_nocase(span_until(origin, strlen(scheme)), scheme) &&
           place_parse(span_from(origin, strlen(scheme)), rule->is_tls, &theirs) &&
           place_parse(host, rule->is_tls, &ours) && theirs.port == ours.port &&
           theirs.is_bracketed == ours.is_bracketed && span_equal_nocase(theirs.host, ours.host);
}

/* The target in two: *ret_host is at NULL when it names none. */
static struct span split_target(struct span target, struct span *ret_host)
{
    size_t scheme = span_is_nocase(span_until(target, 7), "http://")    ? 7
                    : span_is_nocase(span_until(target, 8), "https://") ? 8
                                                                        : 0;
    struct span rest = span_from(target, scheme);
    size_t len = 0;

    *ret_host = (struct span){0};
    if (scheme == 0) {
        return target;
    }
    while (len < rest.len && rest.at[len] != '/' && rest.at[len] != '?') {
        len++;
    }
    *ret_host = span_until(rest, len);
    return span_from(rest, len);
}

static struct span path_of(struct span target)
{
    struct span host, rest = split_target(target, &host), path;
    struct span whole = rest;

    return span_cut(&rest, '?', &path) ? path : whole;
}

/* RFC 9112 3.2.2: what the target says goes before the Host field. */
static struct span host_of(const struct origin_view *view)
{
    struct span host;

    (void)split_target(view->target, &host);
    return host.at != NULL ? host : view->host;
}

/* A link of another site that leads here is no harm: what is opened holds no secret. */
static bool is_visit(const struct origin_view *view)
{
    struct span path = path_of(view->target);

    return span_is(view->method, "GET") && span_is(view->mode, "navigate") &&
           (span_is(path, "/") || span_is(path, "/console") || span_starts(path, "/console/"));
}

static bool is_foreign(const struct origin_rule *rule, const struct origin_view *view)
{
    if (view->site.at != NULL) {
        return !span_is(view->site, "same-origin") && !span_is(view->site, "none");
    }
    return view->origin.at != NULL && !is_same(rule, host_of(view), view->origin);
}

/* Health checks may know the server by any name. */
static bool is_health_check(const struct origin_view *view)
{
    struct span path = path_of(view->target);

    return span_is(path, "/healthz") || span_is(path, "/readyz");
}

enum problem origin_check(const struct origin_rule *rule, const struct origin_view *view)
{
    if (rule->knows_hosts && !is_health_check(view) && !is_ours(rule, host_of(view))) {
        return PROBLEM_HOST_UNKNOWN;
    }
    return view->is_ahead || (is_foreign(rule, view) && !is_visit(view)) ? PROBLEM_CROSS_SITE
                                                                         : PROBLEM_NONE;
}
