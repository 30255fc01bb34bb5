/* SPDX-License-Identifier: MIT
 *
 * http_hop -- where a request goes: the delivery's own URL, then wherever redirects lead, each judged
 * by the same rules (task/outbound.h). Redirects are followed here and not by libcurl, which would
 * not show where to; the URL is read by libcurl's own reader, so that what is judged is what is
 * connected to. The address has the last word: at each socket that is opened, and again when the
 * request is about to be written, because libcurl keeps connections by the name of their host, and one
 * that was opened under other rules (to an upstream of the gateway) may be to an address that this
 * request must not reach.
 *
 * A redirect is not followed for a delivery that must not go out twice: whether the first target did
 * its work before it pointed elsewhere is not for us to guess. Nor from https to http, to a URL with
 * a password in it, or past outbound.redirects. Then the 3xx itself is the answer.
 */
#include "deliver/http_internal.h"
#include "task/fields.h"
#include "task/url.h"

#include <arpa/inet.h>
#include <stdio.h>

/* A URL in libcurl's reading. */
struct place {
    CURLU *url;
    char *scheme, *host, *port; /* libcurl's */
};

static void place_done(struct place *place)
{
    curl_free(place->scheme);
    curl_free(place->host);
    curl_free(place->port);
    curl_url_cleanup(place->url);
}

static int place_fail(CURLUcode code, struct error *err)
{
    return code == CURLUE_OUT_OF_MEMORY
               ? fail(err, FAULT_MEMORY, "no memory for a URL")
               : fail(err, FAULT_INPUT, "the URL cannot be read: %s", curl_url_strerror(code));
}

/* `base`: what a URL is relative to; NULL: nothing. Both end in NUL. To be done with in any case. */
static int place_read(struct place *place, const char *base, const char *url, struct error *err)
{
    unsigned flags = base != NULL ? CURLU_URLENCODE : CURLU_PATH_AS_IS;
    CURLUcode code = CURLUE_OK;

    *place = (struct place){.url = curl_url()};
    if (place->url == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a URL");
    }
    if (base != NULL) {
        code = curl_url_set(place->url, CURLUPART_URL, base, CURLU_PATH_AS_IS);
    }
    code = code != CURLUE_OK ? code : curl_url_set(place->url, CURLUPART_URL, url, flags);
    code = code != CURLUE_OK ? code : curl_url_set(place->url, CURLUPART_FRAGMENT, NULL, 0);
    code = code != CURLUE_OK ? code : curl_url_get(place->url, CURLUPART_SCHEME, &place->scheme, 0);
    code = code != CURLUE_OK ? code : curl_url_get(place->url, CURLUPART_HOST, &place->host, 0);
    code = code != CURLUE_OK
               ? code
               : curl_url_get(place->url, CURLUPART_PORT, &place->port, CURLU_DEFAULT_PORT);
    return code == CURLUE_OK ? 0 : place_fail(code, err);
}

static bool is_same_origin(const struct place *one, const struct place *other)
{
    return span_is_nocase(span_of(one->scheme), other->scheme) &&
           span_is_nocase(span_of(one->host), other->host) && strcmp(one->port, other->port) == 0;
}

/* The rules for this request, none of them if *ret_rules has none. What the operator has written down
 * as a route's upstream may be on a private address; where its redirects lead to may not. */
static void find_rules(const struct transfer *transfer, struct outbound *ret_rules)
{
    const struct outbound *outbound = transfer->http->options.outbound;

    *ret_rules = outbound != NULL ? *outbound : (struct outbound){0};
    if (transfer->delivery->is_upstream && transfer->hop.number == 0) {
        ret_rules->deny_private = false;
    }
}

static int check_place(const struct transfer *transfer, const struct place *place,
                       bool *ret_is_allowed, struct error *err)
{
    struct span host = span_of(place->host);
    struct outbound rules;

    find_rules(transfer, &rules);
    *ret_is_allowed = false;
    if (!outbound_has_rules(&rules)) {
        return 0;
    }
    if (span_starts(host, "[") && host.at[host.len - 1] == ']') {
        host = (struct span){.at = host.at + 1, .len = host.len - 2};
    }
    return outbound_check_host(&rules, host, ret_is_allowed, err);
}

int http_hop_check(struct transfer *transfer, const char *url, struct error *err)
{
    struct place place = {0};

    if (!outbound_has_rules(transfer->http->options.outbound)) {
        return 0;
    }
    int failed = place_read(&place, NULL, url, err);
    failed = failed != 0 ? failed : check_place(transfer, &place, &transfer->hop.is_allowed, err);
    place_done(&place);
    return failed;
}

/* --- redirects ----------------------------------------------------------------------------------- */

static bool is_redirect(const struct transfer *transfer, struct span *ret_location)
{
    int status = transfer->answer.status;

    return (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) &&
           fields_find(buf_span(&transfer->delivery->response_headers), "Location", ret_location) &&
           ret_location->len > 0;
}

static int check_step(const struct place *from, const struct place *to, struct span url,
                      struct error *err)
{
    const char *found = url_refuse(url);

    if (found != NULL) {
        return fail(err, FAULT_INPUT, "it leads to a URL with %s", found);
    }
    if (span_is(span_of(from->scheme), "https") && !span_is(span_of(to->scheme), "https")) {
        return fail(err, FAULT_INPUT, "it leads from https to http");
    }
    return 0;
}

/* 303 says that the answer is to be fetched elsewhere. All others ask for the same request, which is
 * what they get: a POST that became a GET on its way would be answered 200 and never have been
 * delivered. */
static void turn(struct hop *hop, int status)
{
    if (status != 303) {
        return;
    }
    hop->method = span_is(hop->method, "HEAD") ? hop->method : SPAN("GET");
    hop->body = SPAN("");
    hop->is_bare = true;
}

static int step(struct transfer *transfer, const struct place *from, const struct place *to,
                const char *url, struct error *err)
{
    struct hop hop = transfer->hop;
    int failed = check_step(from, to, span_of(url), err);

    failed = failed != 0 ? failed : check_place(transfer, to, &hop.is_allowed, err);
    if (failed != 0) {
        return failed;
    }
    buf_clear(&transfer->hop_url);
    transfer->hop_url.max = URL_BYTES_MAX;
    failed = buf_add(&transfer->hop_url, span_of(url));
    if (failed != 0) {
        return fail(err, failed, "no memory for a URL"); /* it is shorter than the limit */
    }
    hop.url = buf_span(&transfer->hop_url);
    hop.number++;
    hop.sends_before = transfer->delivery->sends;
    hop.is_connecting = hop.is_fresh = false;
    hop.is_elsewhere = hop.is_elsewhere || !is_same_origin(from, to);
    turn(&hop, transfer->answer.status);
    transfer->hop = hop;
    return 0;
}

/* `location` as it came: a copy ends in NUL. */
static int follow(struct transfer *transfer, struct span location, struct error *err)
{
    struct place from = {0}, to = {0};
    char *url = NULL;
    const char *base = transfer->text.at; /* the URL is the first of its texts */
    char copy[URL_BYTES_MAX + 1];

    if (location.len >= sizeof copy) {
        return fail(err, FAULT_INPUT, "it leads to a URL with too many bytes");
    }
    span_copy(copy, location);
    copy[location.len] = '\0';
    int failed = place_read(&from, NULL, base, err);
    failed = failed != 0 ? failed : place_read(&to, base, copy, err);
    if (failed == 0 && curl_url_get(to.url, CURLUPART_URL, &url, 0) != CURLUE_OK) {
        failed = fail(err, FAULT_MEMORY, "no memory for a URL");
    }
    failed = failed != 0 ? failed : step(transfer, &from, &to, url, err);
    curl_free(url);
    place_done(&from);
    place_done(&to);
    return failed;
}

bool http_hop_next(struct transfer *transfer)
{
    const struct outbound *outbound = transfer->http->options.outbound;
    struct span location;
    struct error err = {0};

    if (outbound == NULL || outbound->redirects_max == 0 || transfer->delivery->is_proxied ||
        !is_redirect(transfer, &location)) {
        return false;
    }
    if (!transfer->delivery->repeatable) {
        (void)fail(&err, FAULT_INPUT, "the target is not repeatable");
    } else if (transfer->hop.number == outbound->redirects_max) {
        (void)fail(&err, FAULT_INPUT, "more than %u redirects", (unsigned)outbound->redirects_max);
    } else if (follow(transfer, location, &err) == 0) {
        return true;
    }
    (void)snprintf(transfer->refusal, sizeof transfer->refusal, "%s", err.text); /* as long */
    return false;
}

/* --- at the socket, and at the gate --------------------------------------------------------------- */

static bool take_address(const struct curl_sockaddr *from, struct outbound_address *ret_address)
{
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;

    *ret_address = (struct outbound_address){.is_ipv6 = from->family == AF_INET6};
    if (from->family == AF_INET) {
        memcpy(&ipv4, &from->addr, sizeof ipv4); /* may be aligned for less */
        memcpy(ret_address->bytes, &ipv4.sin_addr, 4);
    } else if (from->family == AF_INET6) {
        memcpy(&ipv6, (const char *)from + offsetof(struct curl_sockaddr, addr), sizeof ipv6);
        memcpy(ret_address->bytes, &ipv6.sin6_addr, 16);
    }
    return from->family == AF_INET || from->family == AF_INET6;
}

/* NULL: it could not be read. */
static int check_address(const struct transfer *transfer, const struct outbound *rules,
                         const struct outbound_address *address, struct error *err)
{
    return address != NULL ? outbound_check_address(rules, address, transfer->hop.is_allowed, err)
                           : fail(err, FAULT_INPUT, "outbound: an address of no known kind");
}

bool http_hop_may_connect(struct transfer *transfer, const struct curl_sockaddr *to)
{
    struct outbound rules;
    struct outbound_address address;
    struct error err = {0};

    find_rules(transfer, &rules);
    if (!outbound_has_rules(&rules)) {
        return true;
    }
    int failed =
        check_address(transfer, &rules, take_address(to, &address) ? &address : NULL, &err);
    if (failed != 0 && !transfer->hop.is_connecting && transfer->refusal[0] == '\0') {
        (void)snprintf(transfer->refusal, sizeof transfer->refusal, "%s", err.text); /* as long */
    }
    if (failed == 0) {
        transfer->hop.is_connecting = true; /* whatever else its name stands for */
        transfer->refusal[0] = '\0';
    }
    return failed == 0;
}

static bool read_address(const char *text, struct outbound_address *ret_address)
{
    *ret_address = (struct outbound_address){.is_ipv6 = strchr(text, ':') != NULL};
    return inet_pton(ret_address->is_ipv6 ? AF_INET6 : AF_INET, text, ret_address->bytes) == 1;
}

bool http_hop_may_use(struct transfer *transfer, const char *remote_ip)
{
    struct outbound rules;
    struct outbound_address address;
    struct error err = {0};

    find_rules(transfer, &rules);
    if (!outbound_has_rules(&rules)) {
        return true;
    }
    int failed =
        check_address(transfer, &rules, read_address(remote_ip, &address) ? &address : NULL, &err);
    if (failed != 0) {
        (void)snprintf(transfer->refusal, sizeof transfer->refusal, "%s", err.text); /* as long */
    }
    return failed == 0;
}
