/* SPDX-License-Identifier: MIT
 *
 * route_headers -- see route_headers.h.
 */
#include "task/route_headers.h"
#include "task/fields.h"

#define FORWARDED_FOR    "X-Forwarded-For"
#define FORWARDED_SCHEME "X-Forwarded-Proto"
#define FORWARDED_HOST   "X-Forwarded-Host"

#define HOPS_MAX       64
#define LOOK_ALIKE_MAX 256 /* a name is as long as any of ours then */
/* In small letters; with * at its end: and all that begin so. */
#define NAME(text)                                                                                 \
    {                                                                                              \
        .at = (text), .len = sizeof(text) - 1                                                      \
    }
#define LIST(names) (names), sizeof(names) / sizeof *(names)

/* Of one connection, or of how bytes are framed on it. */
static const struct span of_connection[] = {
    NAME("connection"),
    NAME("content-length"),
    NAME("keep-alive"),
    NAME("proxy-authenticate"),
    NAME("proxy-connection"),
    NAME("proxy-authorization"),
    NAME("te"),
    NAME("trailer"),
    NAME("transfer-encoding"),
    NAME("upgrade"),
    NAME("expect"),
    NAME("http2-settings"),
};

/* Meant for all who read a message, so that no Connection field takes them out (RFC 9110 7.6.1): the gateway
 * goes by them, and the upstream has to read the same. */
static const struct span of_message[] = {
    NAME("content-*"), NAME("authorization"), NAME("cookie"),
    NAME("forwarded"), NAME("x-forwarded-*"), NAME("idempotency-key"),
};

/* Of a request: said by us. */
static const struct span of_ours[] = {NAME("host"), NAME("x-daruma-*")};

/* Of an answer: said by us, of our own record. An upstream's word on it would be taken for ours. */
static const struct span of_record[] = {NAME("idempotent-replayed"), NAME("idempotency-replayed")};

/* Of an answer: true of one moment, one caller or one machine. */
static const struct span of_moment[] = {
    NAME("set-cookie"),
    NAME("set-cookie2"),
    NAME("www-authenticate"),
    NAME("date"),
    NAME("age"),
    NAME("server"),
    NAME("alt-svc"),
    NAME("x-ratelimit-*"),
    NAME("ratelimit*"),
    NAME("x-request-id"),
    NAME("request-id"),
    NAME("x-correlation-id"),
    NAME("x-amzn-requestid"),
    NAME("x-amz-id-2"),
    NAME("x-amz-request-id"),
    NAME("x-amzn-trace-id"),
    NAME("x-trace-id"),
    NAME("x-ms-request-id"),
    NAME("cf-ray"),
    NAME("x-cloud-trace-context"),
    NAME("x-b3-*"),
    NAME("traceparent"),
    NAME("tracestate"),
};

/* Most are told by their length, or by their first letter. */
static bool is_listed(struct span name, const struct span *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct span wanted = names[i];
        if (name.len + 1 < wanted.len || (name.at[0] | 0x20) != (wanted.at[0] | 0x20)) {
            continue;
        }
        bool is_prefix = wanted.at[wanted.len - 1] == '*';
        if (is_prefix || name.len == wanted.len) {
            size_t len = is_prefix ? wanted.len - 1 : wanted.len, at = 1;
            while (at < len && (char)(name.at[at] | 0x20) == (char)(wanted.at[at] | 0x20)) {
                at++;
            }
            if (at == len) {
                return true;
            }
        }
    }
    return false;
}

static bool is_same(struct span one, struct span other)
{
    for (size_t i = 0; i < one.len && one.len == other.len; i++) {
        char a = one.at[i], b = other.at[i];
        a = a >= 'A' && a <= 'Z' ? (char)(a | 0x20) : a;
        b = b >= 'A' && b <= 'Z' ? (char)(b | 0x20) : b;
        if (a != b) {
            return false;
        }
    }
    return one.len == other.len;
}

/* The names that Connection fields have, read once. Who names more than HOPS_MAX, or one over and over,
 * has the rest of them passed on: no more than if he had not named them. */
struct hops {
    struct span names[HOPS_MAX];
    size_t count;
};

static void add_hops(struct hops *hops, struct span value)
{
    struct span token;
    bool has_more = true;

    while (has_more && hops->count < HOPS_MAX) {
        has_more = span_cut(&value, ',', &token);
        token = span_trim(token);
        if (token.len > 0) {
            hops->names[hops->count++] = token;
        }
    }
}

static void read_hops(struct span headers, struct hops *hops)
{
    struct span name, value;

    hops->count = 0;
    if (!fields_find(headers, "connection", &value)) {
        return; /* as with most */
    }
    while (hops->count < HOPS_MAX && fields_next(&headers, &name, &value)) {
        if (span_is_nocase(name, "connection")) {
            add_hops(hops, value);
        }
    }
}

static bool is_named(const struct hops *hops, struct span name)
{
    for (size_t i = 0; i < hops->count; i++) {
        if (is_same(hops->names[i], name)) {
            return !is_listed(name, LIST(of_message));
        }
    }
    return false;
}

static bool is_hop(const struct hops *hops, struct span name)
{
    return is_listed(name, LIST(of_connection)) || is_named(hops, name);
}

/* Prefer is ours when it says what we act on. */
static bool is_our_prefer(struct span name, struct span value)
{
    struct span preference;
    bool has_more = span_is_nocase(name, "prefer");

    while (has_more) {
        has_more = span_cut(&value, ',', &preference);
        preference = span_trim(preference);
        if (span_is_nocase(span_until(preference, 13), "respond-async") ||
            span_is_nocase(span_until(preference, 5), "wait=")) {
            return true;
        }
    }
    return false;
}

/* CGI, WSGI and their like cannot tell X_Forwarded_For from X-Forwarded-For: what they would take for
 * a field that the gateway says, reads or takes out does not pass. */
static bool is_look_alike(const struct route_forward *forward, struct span name)
{
    static const struct span more[] = {NAME(FORWARDED_FOR), NAME(FORWARDED_SCHEME),
                                       NAME(FORWARDED_HOST), NAME("content-type")};
    char room[LOOK_ALIKE_MAX];
    struct span folded = {.at = room, .len = name.len < sizeof room ? name.len : sizeof room};

    if (span_find(name, '_') == NULL) {
        return false;
    }
    for (size_t i = 0; i < folded.len; i++) {
        room[i] = name.at[i] == '_' ? '-' : name.at[i];
    }
    return is_listed(folded, LIST(of_connection)) || is_listed(folded, LIST(of_ours)) ||
           is_listed(folded, LIST(more)) || is_same(folded, forward->key_header) ||
           is_same(folded, forward->scope_header);
}

static bool is_dropped(const struct route_forward *forward, const struct hops *hops,
                       struct span name, struct span value)
{
    bool is_key = forward->key_header.len > 0 && is_same(name, forward->key_header);
    bool is_scope = forward->scope_header.len > 0 && is_same(name, forward->scope_header);

    return (is_hop(hops, name) && !is_scope) || is_listed(name, LIST(of_ours)) ||
           is_look_alike(forward, name) ||
           (forward->is_keyed &&
            (is_key || is_our_prefer(name, value) || span_is_nocase(name, "accept-encoding")));
}

/* "one, other", with every value that is there. */
static int add_address(struct buf *line, struct span address)
{
    int failed = line->len == 0 || address.len == 0 ? 0 : buf_add(line, SPAN(", "));

    return failed != 0 ? failed : buf_add(line, address);
}

/* What the request says of where it comes from. */
struct origin {
    struct span host;
    bool has_line, has_scheme, has_host; /* X-Forwarded-For, -Proto, -Host */
};

static void note_origin(struct origin *origin, struct span name, struct span value)
{
    origin->has_line = origin->has_line || span_is_nocase(name, FORWARDED_FOR);
    origin->has_scheme = origin->has_scheme || span_is_nocase(name, FORWARDED_SCHEME);
    origin->has_host = origin->has_host || span_is_nocase(name, FORWARDED_HOST);
    origin->host = span_is_nocase(name, "host") ? value : origin->host;
}

/* Of several X-Forwarded-For one is made, so that the last address is ours whoever reads it. */
static int add_line(const struct route_forward *forward, struct buf *out)
{
    struct span rest = forward->headers, name, value;
    struct buf line;
    int failed = 0;

    buf_init(&line, forward->headers.len + forward->peer.len + 2);
    while (failed == 0 && fields_next(&rest, &name, &value)) {
        if (span_is_nocase(name, FORWARDED_FOR)) {
            failed = add_address(&line, span_trim(value));
        }
    }
    failed = failed != 0 ? failed : add_address(&line, forward->peer);
    failed = failed != 0 ? failed : fields_add(out, SPAN(FORWARDED_FOR), buf_span(&line));
    buf_done(&line);
    return failed;
}

static int add_origin(const struct route_forward *forward, const struct origin *origin,
                      struct buf *out)
{
    int failed = origin->has_line ? add_line(forward, out)
                                  : fields_add(out, SPAN(FORWARDED_FOR), forward->peer);

    if (failed == 0 && !origin->has_scheme) {
        failed = fields_add(out, SPAN(FORWARDED_SCHEME), forward->scheme);
    }
    if (failed == 0 && !origin->has_host && origin->host.len > 0) {
        failed = fields_copy(out, SPAN(FORWARDED_HOST), origin->host);
    }
    return failed;
}

int route_headers_forward(const struct route_forward *forward, struct buf *out)
{
    struct span rest = forward->headers, name, value;
    struct hops hops;
    struct origin origin = {.host = {.at = "", .len = 0}};
    bool has_origin = forward->peer.len > 0;
    int failed = 0;

    read_hops(forward->headers, &hops);
    while (failed == 0 && fields_next(&rest, &name, &value)) {
        note_origin(&origin, name, value);
        if (!is_dropped(forward, &hops, name, value) &&
            !(has_origin && span_is_nocase(name, FORWARDED_FOR))) {
            failed = fields_copy(out, name, value);
        }
    }
    return failed != 0 || !has_origin ? failed : add_origin(forward, &origin, out);
}

static bool is_untold(const struct hops *hops, struct span name)
{
    return is_hop(hops, name) || is_listed(name, LIST(of_record));
}

int route_headers_pass(struct span headers, struct buf *out)
{
    struct span rest = headers, name, value;
    struct hops hops;
    int failed = 0;

    read_hops(headers, &hops);
    while (failed == 0 && fields_next(&rest, &name, &value)) {
        failed = is_untold(&hops, name) ? 0 : fields_copy(out, name, value);
    }
    return failed;
}

int route_headers_share(struct span headers, struct buf *out)
{
    struct span rest = headers, name, value;
    struct hops hops;
    int failed = 0;

    read_hops(headers, &hops);
    while (failed == 0 && fields_next(&rest, &name, &value)) {
        bool is_own = span_is_nocase(name, "set-cookie") || span_is_nocase(name, "set-cookie2");
        failed = is_own || is_untold(&hops, name) ? 0 : fields_copy(out, name, value);
    }
    return failed;
}

static bool is_allowed(const struct route_settings *route, struct span name)
{
    if (route->kept_header_count == 0) {
        return !is_listed(name, LIST(of_moment));
    }
    for (size_t i = 0; i < route->kept_header_count; i++) {
        if (is_same(name, route->kept_headers[i])) {
            return true;
        }
    }
    return span_is_nocase(name, "content-type");
}

int route_headers_keep(const struct route_settings *route, struct span headers, struct buf *out)
{
    struct span rest = headers, name, value;
    struct hops hops;
    int failed = 0;

    read_hops(headers, &hops);
    while (failed == 0 && fields_next(&rest, &name, &value)) {
        bool is_kept = !is_untold(&hops, name) && is_allowed(route, name);
        failed = is_kept ? fields_copy(out, name, value) : 0;
    }
    return failed;
}

bool route_headers_fit(struct span headers)
{
    size_t bytes = headers.len;
    struct span name, value;

    if (bytes <= ROUTE_TOLD_HEADER_MAX / 2) { /* there is no line without a byte */
        return true;
    }
    while (fields_next(&headers, &name, &value)) {
        bytes++; /* a line ends in two bytes there, and in one here */
    }
    return bytes <= ROUTE_TOLD_HEADER_MAX;
}
