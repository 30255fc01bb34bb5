/* SPDX-License-Identifier: MIT
 *
 * http_request -- what goes out: a delivery as libcurl's options, and the gate in front of the wire.
 * What is the same for every request is said once to a handle, everything else every time; after a
 * request that sets something that the next one could not take back, the handle is reset.
 */
#include "base/auto.h"
#include "deliver/http_internal.h"
#include "deliver/sign.h"
#include "task/fields.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/stat.h>

#define REQUEST_TEXT_MAX  (1024 * 1024) /* URL and header lines */
#define REQUEST_TEXT_KEPT 16384         /* more is given back after use */
#define SIGN_FIELDS_MAX   1024
#define BODY_UNASKED_MAX  1024 /* above 1 MiB libcurl asks before it sends; old ones, above this */

/* The header lines so far. */
struct lines {
    size_t count;
    bool has_accept, has_content_type; /* libcurl would add them unless they are there */
    bool is_personal;                  /* no other request may use the connection */
};

/* In any case of letters, and with _ for -, which some targets do not tell apart. */
static bool is_like(struct span name, const char *wanted)
{
    size_t at = 0;

    while (at < name.len && wanted[at] != '\0') {
        char letter = name.at[at] == '_' ? '-' : name.at[at];
        if ((letter | 0x20) != (wanted[at] | 0x20)) {
            return false;
        }
        at++;
    }
    return at == name.len && wanted[at] == '\0';
}

/* Fields of the connection and of the framing, which are not the sender's to say. */
static bool is_ours(struct span name)
{
    static const char *const names[] = {
        "Connection", "Content-Length", "Expect",           "HTTP2-Settings",    "Keep-Alive",
        "TE",         "Trailer",        "Proxy-Connection", "Transfer-Encoding", "Upgrade",
    };

    if (name.len == 0 || strchr("CcEeHhKkTtPpUu", name.at[0]) == NULL) {
        return false; /* as with most */
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (is_like(name, names[i])) {
            return true;
        }
    }
    return false;
}

/* What may go to another origin: it says what the request is, and was not given for the first one
 * alone. A list of what may, because any field may be a secret. */
static bool may_go_elsewhere(struct span name)
{
    static const char *const names[] = {
        "Accept",           "Accept-Encoding",  "Accept-Language", "Content-Type",
        "Content-Encoding", "Content-Language", "Idempotency-Key", "Traceparent",
        "User-Agent",       "X-Daruma-Attempt", "X-Daruma-Task",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (span_is_nocase(name, names[i])) {
            return true;
        }
    }
    return false;
}

static bool starts_nocase(struct span span, const char *text)
{
    return span_is_nocase(span_until(span, strlen(text)), text);
}

bool http_is_plain(const struct transfer *transfer)
{
    return starts_nocase(transfer->hop.url, "http:");
}

static bool is_signed(const struct transfer *transfer)
{
    return transfer->delivery->sign_count > 0 && !transfer->hop.is_elsewhere &&
           !transfer->hop.is_bare;
}

static bool stays_behind(const struct transfer *transfer, struct span name)
{
    const struct hop *hop = &transfer->hop;

    return is_ours(name) || (transfer->delivery->sign_count > 0 && sign_is_field(name)) ||
           (hop->is_bare && starts_nocase(name, "Content-")) ||
           (hop->is_elsewhere && !may_go_elsewhere(name));
}

static int check_request(const struct transfer *transfer, struct error *err)
{
    const struct delivery *delivery = transfer->delivery;
    struct span url = transfer->hop.url;

    if (!fields_name_is_token(delivery->method)) {
        return fail(err, FAULT_INPUT, "the method is not a token");
    }
    if (span_is(delivery->method, "CONNECT")) {
        return fail(err, FAULT_INPUT, "CONNECT opens a tunnel, not a request");
    }
    if (span_is(delivery->method, "HEAD") && delivery->body.len > 0) {
        return fail(err, FAULT_INPUT, "HEAD cannot have a body");
    }
    if (!starts_nocase(url, "http://") && !starts_nocase(url, "https://")) {
        return fail(err, FAULT_INPUT, "the URL begins with neither http:// nor https://");
    }
    if (!fields_value_is_clean(url) || !fields_value_is_clean(delivery->ca)) {
        return fail(err, FAULT_INPUT, "the URL or the path of the CA has control characters");
    }
    return 0;
}

static int add_text(struct buf *text, struct span piece)
{
    int failed = buf_reserve(text, piece.len + 1);

    if (failed != 0) {
        return failed;
    }
    buf_put(text, piece);
    buf_put(text, SPAN("\0"));
    return 0;
}

/* "name: value"; one without a value is written "name;" for libcurl. */
static int add_line(struct buf *text, struct lines *lines, struct span name, struct span value)
{
    int failed = buf_reserve(text, name.len + value.len + 3);

    if (failed != 0) {
        return failed;
    }
    lines->count++;
    buf_put(text, name);
    buf_put(text, value.len > 0 ? SPAN(": ") : SPAN(";"));
    buf_put(text, value);
    buf_put(text, SPAN("\0"));
    return 0;
}

/* A name with a colon and nothing after it keeps libcurl from adding that field. */
static int add_without(struct buf *text, struct lines *lines, struct span name_and_colon)
{
    lines->count++;
    return add_text(text, name_and_colon);
}

/* With the time of this hop. */
static int add_signature_lines(struct transfer *transfer, struct lines *lines, struct error *err)
{
    AUTO(buf_done) struct buf fields;
    const struct sign_input input = {.keys = transfer->delivery->sign,
                                     .key_count = transfer->delivery->sign_count,
                                     .id = transfer->delivery->task_id_text,
                                     .at_ms = clock_wall_ms(transfer->http->options.clock),
                                     .body = transfer->hop.body};
    struct span rest, name, value;

    buf_init(&fields, SIGN_FIELDS_MAX);
    int failed = sign_add_fields(&input, &fields, err);
    rest = buf_span(&fields);
    while (failed == 0 && fields_next(&rest, &name, &value)) {
        failed = add_line(&transfer->text, lines, name, value);
    }
    return failed;
}

static int add_given_lines(struct transfer *transfer, struct lines *lines, struct error *err)
{
    struct span rest = transfer->delivery->headers, name, value;
    size_t count = 0, number = 0;

    while (fields_next(&rest, &name, &value)) {
        number++;
        if (!fields_name_is_token(name) || !fields_value_is_clean(value)) {
            return fail(err, FAULT_INPUT, "header field %zu is not valid", number);
        }
        lines->is_personal = lines->is_personal || http_connection_is_personal(name, value);
        if (stays_behind(transfer, name)) {
            continue;
        }
        lines->has_accept = lines->has_accept || span_is_nocase(name, "Accept");
        lines->has_content_type = lines->has_content_type || span_is_nocase(name, "Content-Type");
        if (++count > HTTP_REQUEST_FIELDS_MAX) {
            return fail(err, FAULT_INPUT, "more than %d header fields", HTTP_REQUEST_FIELDS_MAX);
        }
        int failed = add_line(&transfer->text, lines, name, span_trim(value));
        if (failed != 0) {
            return failed;
        }
    }
    return 0;
}

static int add_lines(struct transfer *transfer, struct lines *lines, struct error *err)
{
    struct buf *text = &transfer->text;
    int failed = add_given_lines(transfer, lines, err);

    if (failed == 0 && is_signed(transfer)) {
        failed = add_signature_lines(transfer, lines, err);
    }
    if (failed == 0 && transfer->hop.body.len > BODY_UNASKED_MAX) {
        failed = add_without(text, lines, SPAN("Expect:"));
    }
    if (failed == 0 && !lines->has_accept) {
        failed = add_without(text, lines, SPAN("Accept:"));
    }
    if (failed == 0 && !lines->has_content_type) {
        failed = add_without(text, lines, SPAN("Content-Type:"));
    }
    return failed;
}

/* libcurl only reads the list, so it need not be of its making. */
static int link_lines(struct transfer *transfer, size_t lines_at, size_t count)
{
    char *line = transfer->text.at + lines_at;

    if (count > transfer->lines_room) {
        struct curl_slist *grown = realloc(transfer->lines, count * sizeof *grown);
        if (grown == NULL) {
            return FAULT_MEMORY;
        }
        transfer->lines = grown;
        transfer->lines_room = count;
    }
    for (size_t i = 0; i < count; i++) {
        struct curl_slist *next = i + 1 < count ? &transfer->lines[i + 1] : NULL;
        transfer->lines[i] = (struct curl_slist){.data = line, .next = next};
        line += strlen(line) + 1;
    }
    return 0;
}

/* The last gate before the wire, and the witness of what has passed it. libcurl calls it each time
 * it is about to write the request, when the connection stands. Once an answer is handed on, its request
 * is not repeated: its body may be gone. */
static int on_gate(void *user, char *remote_ip, char *local_ip, int remote_port, int local_port)
{
    struct transfer *transfer = user;
    struct delivery *delivery = transfer->delivery;
    const struct connection_ends ends = {.local_ip = local_ip,
                                         .remote_ip = remote_ip,
                                         .local_port = local_port,
                                         .remote_port = remote_port};

    http_lookup_leave(transfer);
    if (delivery->sends > 0 && (!delivery->repeatable || transfer->is_streaming)) {
        transfer->ending = ENDING_REPEAT;
        return CURL_PREREQFUNC_ABORT;
    }
    bool is_bound = delivery->right != NULL || delivery->send_until_ms != 0;
    int64_t now_ms = is_bound ? clock_mono_ms(transfer->http->options.clock) : 0;
    if (!delivery_has_right(delivery, now_ms)) {
        transfer->ending = ENDING_DISOWNED;
        return CURL_PREREQFUNC_ABORT;
    }
    if (delivery->send_until_ms != 0 && now_ms > delivery->send_until_ms) {
        transfer->ending = ENDING_LATE;
        return CURL_PREREQFUNC_ABORT;
    }
    if (!http_hop_may_use(transfer, remote_ip)) {
        /* A kept one, of a request with other rights. On a new one each address is judged. */
        transfer->ending = transfer->hop.is_fresh ? ENDING_REFUSED : ENDING_SPOILT;
        return CURL_PREREQFUNC_ABORT;
    }
    enum connection_state state = http_connection_take(transfer, &ends);
    if (state != CONNECTION_CLEAN) {
        transfer->ending = state == CONNECTION_EARLY ? ENDING_EARLY : ENDING_SPOILT;
        return CURL_PREREQFUNC_ABORT;
    }
    delivery->sends++;
    http_answer_begin(transfer);
    return CURL_PREREQFUNC_OK;
}

/* Sets one option after another until one fails. */
#define SET(option, value) (code = code != CURLE_OK ? code : HTTP_SET(transfer, option, value))

static CURLcode set_always(struct transfer *transfer)
{
    struct http *http = transfer->http;
    CURLcode code = CURLE_OK;

    SET(CURLOPT_PRIVATE, transfer);
    SET(CURLOPT_ERRORBUFFER, transfer->reason);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L); /* else closing waits for a resolver thread */
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_PROXY, "");    /* none from the environment either */
    SET(CURLOPT_NOPROXY, "*"); /* else the environment is asked for exceptions each time */
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_FOLLOWLOCATION, 0L); /* http_hop.c does */
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_OPENSOCKETFUNCTION, http_socket_open);
    SET(CURLOPT_OPENSOCKETDATA, transfer);
    SET(CURLOPT_CLOSESOCKETFUNCTION, http_socket_close);
    SET(CURLOPT_CLOSESOCKETDATA, http); /* connections outlive transfers */
    SET(CURLOPT_PREREQFUNCTION, on_gate);
    SET(CURLOPT_PREREQDATA, transfer);
    SET(CURLOPT_HEADERFUNCTION, http_answer_field);
    SET(CURLOPT_HEADERDATA, transfer);
    SET(CURLOPT_WRITEFUNCTION, http_answer_body);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_DEBUGFUNCTION, http_answer_log);
    SET(CURLOPT_DEBUGDATA, transfer);
    return code != CURLE_OK ? code : http_lookup_set(transfer);
}

/* A method that is expected to have a body says Content-Length: 0 without one. */
static bool has_content(const struct hop *hop)
{
    return hop->body.len > 0 || span_is(hop->method, "POST") || span_is(hop->method, "PUT") ||
           span_is(hop->method, "PATCH");
}

static CURLcode set_method(struct transfer *transfer, const char *method)
{
    const struct hop *hop = &transfer->hop;
    CURLcode code = CURLE_OK;

    /* It is not copied: it lives until the delivery is back. This makes it a POST; and without a
     * body too, so that none of an earlier delivery is left. */
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)hop->body.len);
    SET(CURLOPT_POSTFIELDS, hop->body.len > 0 ? hop->body.at : "");
    if (span_is(hop->method, "HEAD")) {
        return SET(CURLOPT_NOBODY, 1L);
    }
    if (!has_content(hop)) {
        SET(CURLOPT_HTTPGET, 1L);
    }
    if (!span_is(hop->method, has_content(hop) ? "POST" : "GET")) {
        SET(CURLOPT_CUSTOMREQUEST, method);
    }
    return code;
}

long http_timeout_ms(const struct delivery *delivery)
{
    int64_t timeout_ms = delivery->timeout_ms > 0 ? delivery->timeout_ms : HTTP_TIMEOUT_MS;

    return (long)(timeout_ms < HTTP_TIMEOUT_MAX_MS ? timeout_ms : HTTP_TIMEOUT_MAX_MS);
}

/* Of the timeout, after what earlier hops took, a connection that could not be used, or a wait for a look-up;
 * at least something, 0 would be for ever. */
long http_time_left_ms(const struct transfer *transfer)
{
    long timeout_ms = http_timeout_ms(transfer->delivery);

    if (transfer->hop.number == 0 && !transfer->hop.is_fresh &&
        transfer->lookup.wait_until_ms == 0) {
        return timeout_ms;
    }
    int64_t taken_ms = clock_mono_ms(transfer->http->options.clock) - transfer->began_at_ms;
    return taken_ms < timeout_ms ? timeout_ms - (long)taken_ms : 1;
}

static CURLcode set_limits(struct transfer *transfer)
{
    const struct delivery *delivery = transfer->delivery;
    CURLcode code = CURLE_OK;

    SET(CURLOPT_TIMEOUT_MS, http_time_left_ms(transfer));
    SET(CURLOPT_MAXAGE_CONN, (long)(delivery->repeatable ? HTTP_IDLE_MAX_S : HTTP_ONCE_IDLE_MAX_S));
    return code;
}

/* Whose caller has not said who he is, for him the gateway says nothing either. */
static const char *agent_of(const struct transfer *transfer)
{
    return transfer->delivery->is_proxied ? NULL : transfer->http->options.user_agent;
}

/* As libcurl would read it, but once for requests to the same URL that follow each other on a handle:
 * of its own accord it reads it, writes it out and copies it each time. NULL: libcurl is to read it
 * itself, and to say what is wrong with it. */
static CURLU *read_url(struct transfer *transfer, const char *text)
{
    const unsigned flags = CURLU_GUESS_SCHEME | CURLU_NON_SUPPORT_SCHEME | CURLU_PATH_AS_IS;
    struct span url = transfer->hop.url;

    if (span_find(url, '[') != NULL) {
        return NULL; /* libcurl 7.88 loses the zone of an address when it copies a URL */
    }
    if (span_equal(buf_span(&transfer->url_text), url)) {
        return transfer->url;
    }
    buf_clear(&transfer->url_text);
    transfer->url_text.max = REQUEST_TEXT_KEPT;
    transfer->url = transfer->url != NULL ? transfer->url : curl_url();
    if (transfer->url == NULL ||
        curl_url_set(transfer->url, CURLUPART_URL, text, flags) != CURLUE_OK ||
        buf_add(&transfer->url_text, url) != 0) {
        return NULL;
    }
    return transfer->url;
}

static bool is_regular(const char *path)
{
    struct stat found;

    return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}

/* `text` begins with the URL, the method and the path of the CA. */
static CURLcode set_options(struct transfer *transfer, const struct lines *lines)
{
    const char *url = transfer->text.at;
    const char *method = url + transfer->hop.url.len + 1;
    const char *ca = method + transfer->hop.method.len + 1;
    CURLcode code = transfer->is_set_up ? CURLE_OK : set_always(transfer);

    transfer->is_set_up = code == CURLE_OK;
    http_option_begin(transfer);
    code = code != CURLE_OK ? code : http_names_set(transfer);
    SET(CURLOPT_USERAGENT, agent_of(transfer));
    SET(CURLOPT_URL, url); /* what is sent again over a new connection goes by this one */
    SET(CURLOPT_CURLU, read_url(transfer, url));
    SET(CURLOPT_HTTPHEADER, transfer->lines);
    SET(CURLOPT_VERBOSE, http_is_plain(transfer) ? 0L : 1L); /* for http_connection_note */
    if (transfer->hop.is_fresh) {
        SET(CURLOPT_FRESH_CONNECT, 1L);
    }
    if (lines->is_personal) {
        SET(CURLOPT_FORBID_REUSE, 1L);
    }
    if (*ca != '\0' && !is_regular(ca)) { /* a pipe or a terminal would hold up the loop for ever */
        (void)snprintf(transfer->reason, sizeof transfer->reason,
                       "error setting certificate file: %s", ca); /* libcurl's words; cut if long */
        return CURLE_SSL_CACERT_BADFILE;
    }
    if (*ca != '\0') {
        SET(CURLOPT_CAINFO, ca);
        SET(CURLOPT_CAPATH, NULL); /* that one instead of the system's, not besides */
    }
    code = code != CURLE_OK ? code : set_limits(transfer);
    code = code != CURLE_OK ? code : set_method(transfer, method);
    assert(code != CURLE_OK || http_option_all_set(transfer));
    return code;
}

int http_request_prepare(struct transfer *transfer, struct error *err)
{
    const struct delivery *delivery = transfer->delivery;
    const struct hop *hop = &transfer->hop;
    struct buf *text = &transfer->text;
    struct lines lines = {0};
    int failed = check_request(transfer, err);

    if (failed != 0) {
        return failed;
    }
    if (!http_option_ready(transfer)) {
        return fail(err, FAULT_MEMORY, "no memory for a request");
    }
    if (text->room > REQUEST_TEXT_KEPT) {
        buf_done(text);
    }
    buf_clear(text);
    text->max = REQUEST_TEXT_MAX;
    failed = add_text(text, hop->url);
    failed = failed != 0 || hop->number > 0 ? failed : http_hop_check(transfer, text->at, err);
    failed = failed != 0 ? failed : add_text(text, hop->method);
    failed = failed != 0 ? failed : add_text(text, delivery->ca);
    size_t lines_at = text->len;
    failed = failed != 0 ? failed : add_lines(transfer, &lines, err);
    failed = failed != 0 ? failed : link_lines(transfer, lines_at, lines.count);
    if (failed == FAULT_LIMIT) {
        return fail(err, FAULT_INPUT, "URL and header fields have more than %d bytes",
                    REQUEST_TEXT_MAX);
    }
    if (failed != 0) {
        return failed == FAULT_INPUT ? failed : fail(err, failed, "no memory for a request");
    }
    CURLcode code = set_options(transfer, &lines);
    enum fault fault = code == CURLE_OUT_OF_MEMORY        ? FAULT_MEMORY
                       : code == CURLE_SSL_CACERT_BADFILE ? FAULT_IO
                                                          : FAULT_SYSTEM;
    return code == CURLE_OK ? 0 : fail(err, fault, "libcurl: %s", curl_easy_strerror(code));
}
