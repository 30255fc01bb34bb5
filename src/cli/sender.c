/* SPDX-License-Identifier: MIT
 *
 * sender -- see sender.h.
 */
#include "cli/sender.h"

#include "base/clock.h"
#include "cli/intake.h"
#include "task/fields.h"
#include "task/url.h"

#include <daruma/retry_after.h>
#include <daruma/version.h>

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINE_BYTES_MAX (SPOOLED_HEAD_BYTES_MAX + 1024)
#define REASON_MAX     128

struct sender {
    CURL *easy;
    const char *ca;
};

/* What the callbacks know. */
struct transfer {
    CURL *easy;
    struct sender_answer *answer;
    struct daruma_hint hint;
    char failure[CURL_ERROR_SIZE];
    struct intake intake;
    unsigned sends;
    bool is_head_whole; /* libcurl takes an end within the header for an end */
    bool is_in_body;    /* a line that comes now is a trailer */
    bool is_cut_short;  /* within trailers without end: the answer before them is whole */
};

int sender_open(const char *ca, struct sender **ret_sender, struct error *err)
{
    AUTO(sender_close_p) struct sender *sender = calloc(1, sizeof *sender);

    if (sender == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return fail(err, FAULT_MEMORY, "libcurl could not be set up");
    }
    sender->easy = curl_easy_init();
    if (sender->easy == NULL) {
        return fail(err, FAULT_MEMORY, "libcurl could not be set up");
    }
    sender->ca = ca;
    *ret_sender = sender;
    sender = NULL; /* the caller's now */
    return 0;
}

void sender_close(struct sender *sender)
{
    if (sender != NULL) {
        curl_easy_cleanup(sender->easy);
        curl_global_cleanup();
        free(sender);
    }
}

void sender_answer_done(struct sender_answer *answer)
{
    buf_done(&answer->text);
    *answer = (struct sender_answer){0};
}

enum sender_end sender_end_of_status(int status)
{
    if (status >= 200 && status < 300) {
        return SENDER_TAKEN;
    }
    return status < 100 || status >= 500 || status == 408 || status == 429 ? SENDER_AGAIN
                                                                           : SENDER_REFUSED;
}

/* --- what comes back ------------------------------------------------------------------------------- */

/* What is too much is read and dropped: the other side has done its work, whatever it says. */
static size_t take_bytes(char *bytes, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    struct sender_answer *answer = transfer->answer;
    struct span piece = {.at = bytes, .len = size * count};

    intake_body(&transfer->intake, piece.len);
    if (!answer->is_cut) {
        struct span fitting = span_until(piece, SENDER_ANSWER_MAX - answer->text.len);
        answer->is_cut = buf_add(&answer->text, fitting) != 0 || fitting.len < piece.len;
    }
    return size * count;
}

static long status_of(CURL *easy)
{
    long status = 0;

    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status); /* it is known */
    return status;
}

static void note_field(struct daruma_hint *hint, struct span line)
{
    struct span name;

    if (span_cut(&line, ':', &name)) {
        while (line.len > 0 && (line.at[line.len - 1] == '\n' || line.at[line.len - 1] == '\r')) {
            line.len--;
        }
        daruma_hint_field(hint, name.at, name.len, line.at, line.len);
    }
}

static size_t take_field(char *bytes, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;
    struct span line = {.at = bytes, .len = size * count};

    if (!intake_line(&transfer->intake, line.len)) {
        transfer->is_cut_short = transfer->is_in_body;
        return 0; /* libcurl stops with a write error */
    }
    if (!transfer->is_in_body) {
        transfer->is_head_whole = line.len <= 2; /* the empty line; one behind an interim answer */
        transfer->is_in_body = transfer->is_head_whole && status_of(transfer->easy) >= 200;
        note_field(&transfer->hint, line);
    }
    return line.len;
}

/* Right before the first byte goes out, and again when libcurl repeats a request whose connection
 * was closed without an answer. */
static int before_send(void *user, char *remote, char *local, int remote_port, int local_port)
{
    struct transfer *transfer = user;

    (void)remote, (void)local, (void)remote_port, (void)local_port;
    return transfer->sends++ == 0 ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/* --- what goes out ---------------------------------------------------------------------------------- */

static bool add_line(struct curl_slist **lines, const char *line)
{
    struct curl_slist *grown = curl_slist_append(*lines, line);

    *lines = grown != NULL ? grown : *lines;
    return grown != NULL;
}

/* One without a value is written "name;" for libcurl. */
static bool add_field(struct curl_slist **lines, struct span name, struct span value)
{
    AUTO(buf_done) struct buf line;

    buf_init(&line, LINE_BYTES_MAX);
    int failed = value.len > 0 ? buf_addf(&line, "%.*s: %.*s", SPAN_ARGS(name), SPAN_ARGS(value))
                               : buf_addf(&line, "%.*s;", SPAN_ARGS(name));
    failed = failed != 0 ? failed : buf_add(&line, (struct span){.at = "", .len = 1});
    return failed == 0 && add_line(lines, line.at);
}

/* A name with a colon and nothing behind it keeps libcurl from adding that field. */
static bool add_fields(struct curl_slist **lines, const struct spooled *request)
{
    struct span rest = request->headers, name, value;
    bool ok = add_line(lines, "Expect:") && add_field(lines, SPAN("Idempotency-Key"), request->key);

    while (ok && fields_next(&rest, &name, &value)) {
        ok = add_field(lines, name, value);
    }
    if (ok && !fields_find(request->headers, "Content-Type", &value)) {
        ok = add_line(lines, "Content-Type:");
    }
    if (ok && !fields_find(request->headers, "Accept", &value)) {
        ok = add_line(lines, "Accept: */*");
    }
    return ok;
}

#define SET(option, value) (code = code != CURLE_OK ? code : curl_easy_setopt(easy, option, value))

static CURLcode set_transport(CURL *easy, struct transfer *transfer, int64_t timeout_ms)
{
    CURLcode code = CURLE_OK;
    long connect_ms =
        timeout_ms < SENDER_CONNECT_TIME_MS ? (long)timeout_ms : SENDER_CONNECT_TIME_MS;

    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_HTTP09_ALLOWED, 0L);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
    SET(CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    SET(CURLOPT_ERRORBUFFER, transfer->failure);
    SET(CURLOPT_WRITEFUNCTION, take_bytes);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_HEADERFUNCTION, take_field);
    SET(CURLOPT_HEADERDATA, transfer);
    SET(CURLOPT_PREREQFUNCTION, before_send);
    SET(CURLOPT_PREREQDATA, transfer);
    SET(CURLOPT_USERAGENT, "daruma/" DARUMA_VERSION);
    return code != CURLE_OK ? code : intake_watch(easy, &transfer->intake);
}

/* A method that is expected to have a body says Content-Length: 0 without one. */
static bool has_content(const struct spooled *request)
{
    return request->body.len > 0 || span_is(request->method, "POST") ||
           span_is(request->method, "PUT") || span_is(request->method, "PATCH");
}

/* libcurl copies the texts but not the body, which lives longer than the transfer. */
static CURLcode set_request(CURL *easy, const struct spooled *request, struct buf *text)
{
    CURLcode code = CURLE_OK;
    int failed = buf_add(text, request->url);

    failed = failed != 0 ? failed : buf_add(text, (struct span){.at = "", .len = 1});
    failed = failed != 0 ? failed : buf_add(text, request->method);
    failed = failed != 0 ? failed : buf_add(text, (struct span){.at = "", .len = 1});
    if (failed != 0) {
        return CURLE_OUT_OF_MEMORY;
    }
    SET(CURLOPT_URL, text->at);
    if (span_is(request->method, "HEAD")) {
        return SET(CURLOPT_NOBODY, 1L);
    }
    if (has_content(request)) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        SET(CURLOPT_POSTFIELDS, request->body.len > 0 ? request->body.at : "");
    } else {
        SET(CURLOPT_HTTPGET, 1L);
    }
    SET(CURLOPT_CUSTOMREQUEST, text->at + request->url.len + 1);
    return code;
}

/* --- what it means ----------------------------------------------------------------------------------- */

static void __attribute__((format(printf, 2, 3)))
say(struct sender_answer *answer, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(answer->why, sizeof answer->why, format, arguments); /* or cut */
    va_end(arguments);
    for (char *at = answer->why; *at != '\0'; at++) { /* some of it came from outside */
        if (*at < ' ' || *at > '~') {
            *at = '?';
        }
    }
}

/* Is there a way out of this machine? Addresses for documentation, and nothing is sent: connecting
 * only looks for a route. */
static bool has_route(void)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(9)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
    const struct {
        int family;
        const struct sockaddr *address;
        socklen_t len;
    } ways[] = {{AF_INET, (const struct sockaddr *)&four, sizeof four},
                {AF_INET6, (const struct sockaddr *)&six, sizeof six}};
    bool is_found = false;

    (void)inet_pton(AF_INET, "192.0.2.1", &four.sin_addr);    /* it is one */
    (void)inet_pton(AF_INET6, "2001:db8::1", &six.sin6_addr); /* likewise */
    for (size_t i = 0; !is_found && i < sizeof ways / sizeof *ways; i++) {
        int way = socket(ways[i].family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        is_found = way >= 0 && connect(way, ways[i].address, ways[i].len) == 0;
        if (way >= 0) {
            (void)close(way); /* nothing was written */
        }
    }
    return is_found;
}

static bool is_offline(CURLcode code, long number)
{
    bool is_unreached =
        code == CURLE_COULDNT_RESOLVE_HOST || number == ENETUNREACH || number == ENETDOWN;

    return is_unreached && !has_route();
}

static void judge_silence(const struct sender *sender, const struct transfer *transfer,
                          CURLcode code)
{
    struct sender_answer *answer = transfer->answer;
    char words[REASON_MAX];
    long number = 0;

    answer->status = 0; /* of half an answer says nothing */
    answer->end = SENDER_AGAIN;
    (void)curl_easy_getinfo(sender->easy, CURLINFO_OS_ERRNO, &number); /* 0: not known */
    if (transfer->sends == 0 && is_offline(code, number)) {
        answer->end = SENDER_OFFLINE;
        say(answer, "there is no network");
    } else if (intake_excess_text(&transfer->intake) != NULL) {
        say(answer, "%s", intake_excess_text(&transfer->intake));
    } else if (code == CURLE_ABORTED_BY_CALLBACK) {
        say(answer, "connection closed before the answer");
    } else if (code == CURLE_OK) {
        say(answer, "answer cut off within its header");
    } else if (code == CURLE_COULDNT_CONNECT && number != 0 &&
               strerror_r((int)number, words, sizeof words) == 0) {
        say(answer, "connect: %s", words);
    } else {
        say(answer, "%s",
            transfer->failure[0] != '\0' ? transfer->failure : curl_easy_strerror(code));
    }
}

static void judge_answer(const struct sender *sender, struct transfer *transfer)
{
    struct sender_answer *answer = transfer->answer;
    answer->status = (int)status_of(sender->easy);
    answer->end = sender_end_of_status(answer->status);
    if (answer->end == SENDER_AGAIN) {
        answer->retry_after_ms = daruma_hint_ms(&transfer->hint);
    }
    if (answer->end != SENDER_TAKEN) {
        say(answer, "HTTP %d", answer->status);
    }
}

int sender_send(struct sender *sender, const struct spooled *request, struct sender_answer *answer,
                struct error *err)
{
    struct transfer transfer = {.easy = sender->easy, .answer = answer};
    struct curl_slist *lines = NULL;
    AUTO(buf_done) struct buf text;

    buf_init(&text, URL_BYTES_MAX + 1024);
    sender_answer_done(answer);
    buf_init(&answer->text, SENDER_ANSWER_MAX);
    daruma_hint_init(&transfer.hint, clock_wall_ms(&clock_real));
    curl_easy_reset(sender->easy); /* connections stay */
    CURLcode code = add_fields(&lines, request) ? CURLE_OK : CURLE_OUT_OF_MEMORY;
    code = code != CURLE_OK ? code : set_transport(sender->easy, &transfer, request->timeout_ms);
    code = code != CURLE_OK ? code : set_request(sender->easy, request, &text);
    code = code != CURLE_OK ? code : curl_easy_setopt(sender->easy, CURLOPT_HTTPHEADER, lines);
    if (code == CURLE_OK && sender->ca != NULL) {
        code = curl_easy_setopt(sender->easy, CURLOPT_CAINFO, sender->ca);
    }
    if (code != CURLE_OK) {
        curl_slist_free_all(lines);
        return fail(err, FAULT_MEMORY, "libcurl: %s", curl_easy_strerror(code));
    }
    code = curl_easy_perform(sender->easy);
    curl_slist_free_all(lines);
    if ((code == CURLE_OK && transfer.is_head_whole) || transfer.is_cut_short) {
        judge_answer(sender, &transfer);
    } else {
        judge_silence(sender, &transfer, code);
    }
    return 0;
}
