/* SPDX-License-Identifier: MIT
 *
 * guard -- see guard.h.
 *
 * What libmicrohttpd has swallowed on the way cannot be asked for, but it leaves a shape: it parses
 * in place, so that in its memory a line "name: value CR LF" becomes "name NUL blanks value NUL NUL"
 * and the next name follows at once. A folded line moves its name elsewhere; a bare line feed leaves
 * one NUL; a NUL inside a value leaves text behind it. Later versions can refuse these by themselves
 * and lay their memory out differently, so for them the shape is not looked at.
 */
#include "edge/guard.h"

#include "edge/edge.h"
#include "task/fields.h"

#include <microhttpd.h>

#define SHAPE_VERSION "0.9.75" /* the one that is known to parse so */
#define BAD_SHAPE     "a header is folded, or ends without CR LF, or holds a NUL"
#define ENTRY_BYTES   64 /* what libmicrohttpd needs to know one field or parameter by */
#define LINE_BYTES    4  /* of a field besides its name and value */

/* What there is to know of a request before its body; each takes ENTRY_BYTES. */
#define KINDS (MHD_HEADER_KIND | MHD_COOKIE_KIND | MHD_GET_ARGUMENT_KIND)

/* Ours among the fields: known by where it lies. It and the cookie without a name that libmicrohttpd finds
 * in it are not the caller's to pay: EDGE_OWN_BYTES has room for them. */
static const char no_cookies[] = "Cookie";
#define OWN_ENTRIES 2

struct guard {
    struct guard_view *view;
    const char *follows; /* where the next name has to begin; NULL: not looked at */
    const char *detail;  /* what is wrong; NULL: nothing so far */
    enum problem problem;
    int lengths, codings, hosts, authorizations;
    int others; /* parameters, and the cookie that guard_hide_cookies leads to */
};

static const char *refuse_length(struct guard *guard, struct span value)
{
    int64_t length;

    if (value.len == 0 || value.at[0] == '-' || !span_to_int(value, &length)) {
        return "Content-Length is not a number";
    }
    guard->view->content_length = (uint64_t)length;
    return ++guard->lengths > 1 ? "Content-Length is given twice" : NULL;
}

static const char *refuse_coding(struct guard *guard, struct span value)
{
    if (++guard->codings > 1 || !span_is_nocase(value, "chunked")) {
        return "the only Transfer-Encoding is chunked";
    }
    guard->view->is_chunked = true;
    return NULL;
}

/* What a browser says of the page that sends it. Two of a kind are told apart by the one who reads them. */
static bool note_page(struct guard *guard, struct span name, struct span value)
{
    struct guard_view *view = guard->view;
    struct span *into = span_is_nocase(name, "Origin")           ? &view->origin
                        : span_is_nocase(name, "Sec-Fetch-Site") ? &view->fetch_site
                        : span_is_nocase(name, "Sec-Fetch-Mode") ? &view->fetch_mode
                                                                 : NULL;

    if (into == NULL) {
        bool is_ahead = span_is_nocase(name, "Sec-Purpose") || span_is_nocase(name, "Purpose");
        view->is_ahead |= is_ahead;
        return is_ahead;
    }
    view->is_of_two_origins |= into->at != NULL;
    *into = value;
    return true;
}

/* What the gateway would look for otherwise. */
static bool note_other(struct guard *guard, struct span name, struct span value)
{
    struct guard_view *view = guard->view;

    if (span_is_nocase(name, "Content-Type")) {
        view->content_type = view->content_type.at == NULL ? value : view->content_type;
    } else if (span_is_nocase(name, "Prefer")) {
        view->has_preference = true;
    } else {
        return false;
    }
    return true;
}

static const char *refuse_known(struct guard *guard, struct span name, struct span value)
{
    if (span_is_nocase(name, "Content-Length")) {
        return refuse_length(guard, value);
    }
    if (span_is_nocase(name, "Transfer-Encoding")) {
        return refuse_coding(guard, value);
    }
    if (note_page(guard, name, value) || note_other(guard, name, value)) {
        return NULL;
    }
    if (span_is_nocase(name, "Host")) {
        guard->view->host = value;
        return ++guard->hosts > 1 ? "Host is given twice" : NULL;
    }
    if (span_is_nocase(name, "Idempotency-Key")) {
        guard->view->key = value;
        guard->view->key_count++; /* whose door it is decides what two of them are */
        return NULL;
    }
    if (span_is_nocase(name, "Accept")) {
        guard->view->accept = value;
        return NULL;
    }
    if (span_is_nocase(name, "Authorization")) {
        guard->view->authorization = value;
        return ++guard->authorizations > 1 ? "Authorization is given twice" : NULL;
    }
    if (span_is_nocase(name, "Expect")) {
        guard->view->expects_continue = span_is_nocase(value, "100-continue");
        guard->problem = guard->view->expects_continue ? PROBLEM_INVALID : PROBLEM_EXPECTATION;
        return guard->view->expects_continue ? NULL : "only 100-continue can be expected";
    }
    return NULL;
}

/* Does the line lie in memory as one that was well formed? */
static bool has_shape(struct guard *guard, struct span name, struct span value)
{
    const char *between = name.at + name.len + 1;

    if (guard->follows == NULL) {
        return true;
    }
    if (name.at != guard->follows || value.at < between) {
        return false;
    }
    while (between < value.at && (*between == ' ' || *between == '\t')) {
        between++;
    }
    if (between != value.at || value.at[value.len + 1] != '\0') {
        return false;
    }
    guard->follows = value.at + value.len + 2;
    return true;
}

static enum MHD_Result visit(void *user, enum MHD_ValueKind kind, const char *name, size_t name_len,
                             const char *value, size_t value_len)
{
    struct guard *guard = user;

    if (kind != MHD_HEADER_KIND) {
        guard->others++;
        return MHD_YES;
    }
    guard->view->header_count++;
    if (name == no_cookies) {
        return MHD_YES;
    }
    struct span header = {.at = name, .len = name_len};
    struct span content = {.at = value != NULL ? value : "", .len = value != NULL ? value_len : 0};

    if (!fields_name_is_token(header)) {
        guard->detail = "a header's name is not a token";
    } else if (value == NULL || !has_shape(guard, header, content)) {
        guard->detail = BAD_SHAPE;
    } else if (!fields_value_is_clean(content)) {
        guard->detail = "a header holds a control character";
    } else {
        guard->detail = refuse_known(guard, header, content);
    }
    return guard->detail == NULL ? MHD_YES : MHD_NO;
}

/* The request line's shape: "method NUL target NUL version NUL NUL", then the first header. */
static bool line_has_shape(const struct guard_line *line)
{
    return line->method + strlen(line->method) + 1 == line->url &&
           line->url + line->raw.len + 1 == line->version &&
           line->version[strlen(line->version) + 1] == '\0';
}

/* Behind the last header: an empty line, CR LF, and no byte besides (NULs would look like it). */
static bool end_has_shape(const struct guard *guard, size_t header_size,
                          const struct guard_line *line)
{
    if (guard->follows == NULL) {
        return true;
    }
    return guard->follows[0] == '\0' && guard->follows[1] == '\0' &&
           (size_t)(guard->follows + 2 - line->method) == header_size;
}

/* 0: not known, which no header has. */
static size_t header_size(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *known =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    return known != NULL ? known->header_size : 0;
}

static bool fits(size_t bytes, int entries)
{
    size_t paid = entries > OWN_ENTRIES ? (size_t)entries - OWN_ENTRIES : 0;

    return bytes + paid * ENTRY_BYTES <= EDGE_REQUEST_BYTES;
}

/* A bare CR is the end of a line to some; no other control character is part of a target either. */
static bool target_is_clean(struct span raw)
{
    for (size_t i = 0; i < raw.len; i++) {
        unsigned char byte = (unsigned char)raw.at[i];
        if (byte <= ' ' || byte == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_known_version(const char *version)
{
    return strcmp(version, "HTTP/1.1") == 0 || strcmp(version, "HTTP/1.0") == 0;
}

enum problem guard_check(struct MHD_Connection *mhd, const struct guard_line *line,
                         struct guard_view *ret_view, const char **ret_detail)
{
    struct guard guard = {.view = ret_view, .problem = PROBLEM_INVALID};
    bool is_known = strcmp(MHD_get_version(), SHAPE_VERSION) == 0;

    *ret_view = (struct guard_view){0};
    if (!is_known_version(line->version) || !fields_name_is_token(span_of(line->method)) ||
        !target_is_clean(line->raw) || (is_known && !line_has_shape(line))) {
        *ret_detail = "the request line is malformed";
        return PROBLEM_INVALID;
    }
    if (is_known) {
        guard.follows = line->version + strlen(line->version) + 2;
    }
    (void)MHD_get_connection_values_n(mhd, KINDS, visit, &guard); /* the count */
    size_t bytes = header_size(mhd);
    ret_view->leaves_room = fits(bytes, ret_view->header_count + guard.others);
    if (guard.detail == NULL && !end_has_shape(&guard, bytes, line)) {
        guard.detail = BAD_SHAPE;
    }
    if (guard.detail == NULL && ret_view->is_chunked && guard.lengths > 0) {
        guard.detail = "Content-Length and Transfer-Encoding are both given";
    }
    if (guard.detail == NULL && ret_view->is_chunked && strcmp(line->version, "HTTP/1.1") != 0) {
        guard.detail = "Transfer-Encoding is not part of HTTP/1.0";
    }
    *ret_detail = guard.detail;
    return guard.detail == NULL ? PROBLEM_NONE : guard.problem;
}

static enum MHD_Result add_bytes(void *user, enum MHD_ValueKind kind, const char *name,
                                 size_t name_len, const char *value, size_t value_len)
{
    size_t *bytes = user;

    (void)kind, (void)name;
    *bytes += name_len + (value != NULL ? value_len : 0) + LINE_BYTES;
    return MHD_YES;
}

bool guard_leaves_room(struct MHD_Connection *mhd)
{
    int entries = MHD_get_connection_values_n(mhd, KINDS, NULL, NULL);
    size_t bytes = header_size(mhd);

    entries += MHD_get_connection_values_n(mhd, MHD_FOOTER_KIND, add_bytes, &bytes);
    return fits(bytes, entries);
}

bool guard_has_many_parameters(const char *target)
{
    const char *at = strchr(target, '?');
    int count = 1;

    while (at != NULL && count <= EDGE_PARAMETERS_MAX) {
        at = strchr(at + 1, '&');
        count += at != NULL;
    }
    return count > EDGE_PARAMETERS_MAX;
}

/* It lies in libmicrohttpd's own buffer, which is written to by the next thing that it does: there the
 * parameters begin behind the first question mark, and end with a NUL. Only where that is known to be so. */
void guard_hide_parameters(const char *target)
{
    char *mark = strchr((char *)(uintptr_t)target, '?');

    if (mark != NULL && strcmp(MHD_get_version(), SHAPE_VERSION) == 0) {
        mark[1] = '\0';
    }
}

/* libmicrohttpd looks for the first field of that name, once it has them all. */
void guard_hide_cookies(struct MHD_Connection *mhd)
{
    (void)MHD_set_connection_value_n(mhd, MHD_HEADER_KIND, no_cookies, sizeof no_cookies - 1, "",
                                     0); /* no memory: then it is refused soon enough */
}

bool guard_is_own_field(const char *name)
{
    return name == no_cookies;
}
