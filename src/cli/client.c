/* SPDX-License-Identifier: MIT
 *
 * client -- see client.h.
 */
#include "cli/client.h"

#include "base/fault.h"
#include "base/json_value.h"
#include "cli/explain.h"
#include "cli/intake.h"
#include "cli/screen.h"

#include <daruma/env.h>
#include <daruma/retry.h>
#include <daruma/version.h>

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define URL_MAX    (CLIENT_PATH_MAX * 2 + 1)
#define HEADER_MAX 1200 /* with the longest token */

_Static_assert(CLIENT_FAILURE_MAX >= CURL_ERROR_SIZE, "libcurl fills it");

struct client {
    const struct flags_form *form;
    const struct flags *flags;
    struct span server; /* without slashes at its end */
    CURL *easy;
    struct curl_slist *headers; /* of every call */
};

/* --- opening and closing ------------------------------------------------------------------------ */

static bool add_header(struct client *client, const char *header)
{
    struct curl_slist *grown = curl_slist_append(client->headers, header);

    client->headers = grown != NULL ? grown : client->headers;
    return grown != NULL;
}

/* A bare "Expect:": libcurl would wait for a 100 before a large body. */
static bool add_headers(struct client *client)
{
    char bearer[HEADER_MAX];
    bool ok = add_header(client, "Accept: application/json, application/problem+json") &&
              add_header(client, "Content-Type: application/json") && add_header(client, "Expect:");

    if (client->flags->token != NULL) {
        (void)snprintf(bearer, sizeof bearer, "Authorization: Bearer %s",
                       client->flags->token); /* fits: see flags.c */
        ok = ok && add_header(client, bearer);
    }
    return ok;
}

static struct span without_slashes(struct span url)
{
    while (url.len > 0 && url.at[url.len - 1] == '/') {
        url.len--;
    }
    return url;
}

int client_open(const struct flags_form *form, const struct flags *flags,
                struct client **ret_client)
{
    AUTO(client_close_p) struct client *client = calloc(1, sizeof *client);

    if (client == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return explain_fault(form, FAULT_MEMORY);
    }
    client->form = form;
    client->flags = flags;
    client->server = without_slashes(span_of(flags->server));
    client->easy = curl_easy_init();
    if (client->easy == NULL || !add_headers(client)) {
        return explain_fault(form, FAULT_MEMORY);
    }
    *ret_client = client;
    client = NULL; /* the caller's now */
    return CLI_DONE;
}

void client_close(struct client *client)
{
    if (client != NULL) {
        curl_easy_cleanup(client->easy);
        curl_slist_free_all(client->headers);
        curl_global_cleanup();
        free(client);
    }
}

void client_answer_done(struct client_answer *answer)
{
    json_decref(answer->document);
    buf_done(&answer->text);
    *answer = (struct client_answer){0};
}

/* --- one call ----------------------------------------------------------------------------------- */

/* What the callbacks know. */
struct transfer {
    const struct client_request *request;
    struct client_answer *answer;
    struct intake intake;
    int fault; /* of keeping the answer */
};

static size_t take_bytes(char *bytes, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;

    intake_body(&transfer->intake, size * count);
    transfer->fault =
        buf_add(&transfer->answer->text, (struct span){.at = bytes, .len = size * count});
    return transfer->fault == 0 ? size * count : 0;
}

/* Nothing of it is kept; it is not to grow without end. */
static size_t count_line(char *bytes, size_t size, size_t count, void *user)
{
    struct transfer *transfer = user;

    (void)bytes;
    return intake_line(&transfer->intake, size * count) ? size * count : 0;
}

/* Right before the first byte goes out, and again when libcurl repeats a request whose connection
 * was closed without an answer: what changes something goes out once. */
static int before_send(void *user, char *remote, char *local, int remote_port, int local_port)
{
    struct transfer *transfer = user;
    bool is_again = transfer->answer->is_sent;

    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    transfer->answer->is_sent = true;
    return is_again && strcmp(transfer->request->method, "GET") != 0 ? CURL_PREREQFUNC_ABORT
                                                                     : CURL_PREREQFUNC_OK;
}

static bool set_transport(const struct client *client, struct transfer *transfer, const char *url)
{
    CURL *easy = client->easy;
    long time_ms = (long)(CLIENT_ANSWER_TIME_MS + transfer->request->wait_ms);

    if (client->flags->ca != NULL &&
        curl_easy_setopt(easy, CURLOPT_CAINFO, client->flags->ca) != CURLE_OK) {
        return false;
    }
    return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CLIENT_CONNECT_TIME_MS) ==
               CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, time_ms) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->answer->failure) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_bytes) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, count_line) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_send) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer) == CURLE_OK &&
           intake_watch(easy, &transfer->intake) == CURLE_OK;
}

static bool set_request(const struct client *client, const struct client_request *request)
{
    CURL *easy = client->easy;
    bool ok = curl_easy_setopt(easy, CURLOPT_USERAGENT, "daruma/" DARUMA_VERSION) == CURLE_OK &&
              curl_easy_setopt(easy, CURLOPT_HTTPHEADER, client->headers) == CURLE_OK;

    if (!ok || strcmp(request->method, "GET") == 0) {
        return ok && curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK;
    }
    return curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                            request->body.len > 0 ? request->body.at : "") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len) ==
               CURLE_OK &&
           (strcmp(request->method, "POST") == 0 ||
            curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK);
}

static enum client_silence silence_of(CURLcode code)
{
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        return CLIENT_SILENCE_DISTRUST;
    case CURLE_SSL_CACERT_BADFILE:
        return CLIENT_SILENCE_CA;
    case CURLE_SSL_CONNECT_ERROR:
        return CLIENT_SILENCE_TLS;
    case CURLE_GOT_NOTHING:
        return CLIENT_SILENCE_EMPTY;
    default:
        return CLIENT_SILENCE_OTHER;
    }
}

static void read_answer(const struct client *client, struct client_answer *answer)
{
    curl_off_t seconds = 0;
    long status = 0;

    if (curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK) {
        answer->status = (int)status;
    }
    if (curl_easy_getinfo(client->easy, CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK &&
        seconds > 0 && seconds < INT64_MAX / 1000) {
        answer->retry_after_ms = (int64_t)seconds * 1000;
    }
    answer->document = json_loadb(answer->text.len > 0 ? answer->text.at : "", answer->text.len,
                                  JSON_ALLOW_NUL, NULL);
}

/* 0: an answer came, whatever it says. FAULT_IO: none did. FAULT_LIMIT, FAULT_MEMORY. */
static int call(struct client *client, const struct client_request *request,
                struct client_answer *answer)
{
    struct transfer transfer = {.request = request, .answer = answer};
    char url[URL_MAX];

    client_answer_done(answer);
    buf_init(&answer->text, CLIENT_ANSWER_BYTES_MAX);
    int length =
        snprintf(url, sizeof url, "%.*s%.*s", SPAN_ARGS(client->server), SPAN_ARGS(request->path));
    if (length < 0 || (size_t)length >= sizeof url) {
        return FAULT_LIMIT;
    }
    curl_easy_reset(client->easy); /* connections stay */
    if (!set_transport(client, &transfer, url) || !set_request(client, request)) {
        return FAULT_MEMORY;
    }
    CURLcode code = curl_easy_perform(client->easy);
    if (transfer.fault != 0) {
        return transfer.fault;
    }
    if (code != CURLE_OK) {
        const char *excess = intake_excess_text(&transfer.intake);
        if (excess != NULL || answer->failure[0] == '\0') {
            (void)snprintf(answer->failure, sizeof answer->failure, "%s",
                           excess != NULL ? excess : curl_easy_strerror(code)); /* cut at worst */
        }
        answer->silence = silence_of(code);
        return FAULT_IO;
    }
    read_answer(client, answer);
    return 0;
}

/* --- asking ------------------------------------------------------------------------------------- */

static bool is_success(const struct client_answer *answer)
{
    bool is_whole = json_is_object(answer->document) || answer->status == 204;

    return answer->status >= 200 && answer->status < 300 && is_whole;
}

static int judge(const struct client *client, const struct client_request *request,
                 const struct client_answer *answer, int fault)
{
    if (fault == FAULT_IO) {
        return explain_silence(client->form, client->flags, request, answer);
    }
    if (fault != 0) {
        return explain_fault(client->form, fault);
    }
    if (is_success(answer)) {
        return CLI_DONE;
    }
    if (client->flags->is_json && answer->status >= 400 && json_is_object(answer->document)) {
        screen_put_json(buf_span(&answer->text));
    }
    return explain_answer(client->form, client->flags, request, answer);
}

int client_ask(struct client *client, const struct client_request *request,
               struct client_answer *answer)
{
    return judge(client, request, answer, call(client, request, answer));
}

bool client_look(struct client *client, const struct client_request *request,
                 struct client_answer *answer)
{
    return call(client, request, answer) == 0 && is_success(answer);
}

struct patience {
    struct client *client;
    const struct client_request *request;
    struct client_answer *answer;
    int fault;
    int64_t failed_at_ms; /* for the first time; 0: not yet */
};

static int try_once(void *user, const struct daruma_attempt *attempt,
                    struct daruma_error *ret_error)
{
    struct patience *patience = user;

    (void)attempt;
    patience->fault = call(patience->client, patience->request, patience->answer);
    int status = patience->answer->status;
    bool is_busy = status == 429 || status == 502 || status == 503 || status == 504;
    ret_error->retry_after_ms = is_busy ? patience->answer->retry_after_ms : 0;
    bool is_failed = patience->fault == FAULT_IO || is_busy;
    if (is_failed && patience->failed_at_ms == 0) {
        patience->failed_at_ms = daruma_now_ms();
    }
    return is_failed ? 1 : 0;
}

/* The time counts from the first failure: a long poll that was cut off has taken none of it. */
static bool is_worth_it(void *user, const struct daruma_error *error, uint32_t attempt)
{
    const struct patience *patience = user;
    int64_t most_ms = patience->request->patience_ms;

    (void)error;
    (void)attempt;
    return daruma_now_ms() - patience->failed_at_ms < (most_ms > 0 ? most_ms : CLIENT_PATIENCE_MS);
}

int client_ask_patiently(struct client *client, const struct client_request *request,
                         struct client_answer *answer)
{
    struct patience patience = {.client = client, .request = request, .answer = answer};
    const struct daruma_retry_options options = {
        .max_retries = DARUMA_RETRIES_MAX, /* the time ends it, and not a number of tries */
        .timeout_ms = CLIENT_PATIENCE_MS + request->wait_ms,
        .hint_cap_ms = CLIENT_PATIENCE_MS,
        .condition = is_worth_it,
        .user = &patience};

    (void)daruma_retry(try_once, &patience, &options, NULL); /* the last answer says how it went */
    return judge(client, request, answer, patience.fault);
}

/* --- small things ------------------------------------------------------------------------------- */

struct span client_text(const json_t *object, const char *name)
{
    const json_t *member = json_object_get(object, name);

    return (struct span){.at = json_is_string(member) ? json_string_value(member) : "",
                         .len = json_string_length(member)};
}

int64_t client_number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

void client_pace(int64_t *pace_ms)
{
    int64_t ms = *pace_ms == 0 ? CLIENT_PACE_FIRST_MS : *pace_ms * 2;

    *pace_ms = ms > CLIENT_PACE_MAX_MS ? CLIENT_PACE_MAX_MS : ms;
    struct timespec rest = {.tv_sec = (time_t)(*pace_ms / 1000),
                            .tv_nsec = (long)(*pace_ms % 1000) * 1000000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
}

int client_escape(struct buf *path, struct span text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    int failed = 0;

    for (size_t i = 0; failed == 0 && i < text.len; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        failed = byte != '\0' && strchr(plain, byte) != NULL
                     ? buf_add(path, span_until(span_from(text, i), 1))
                     : buf_addf(path, "%%%02X", byte);
    }
    return failed;
}

/* --- lists -------------------------------------------------------------------------------------- */

/* The array's bytes as they came. It is there: jansson has seen it. */
static struct span text_of(const struct client_answer *answer, const char *member)
{
    struct json_walk walk;
    struct span name, value;

    if (json_walk_begin(&walk, buf_span(&answer->text), '{')) {
        while (json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE) {
            if (span_is(name, member)) {
                return value;
            }
        }
    }
    return SPAN("[]");
}

static int walk_path(const struct client_list *list, const char *after, struct buf *path)
{
    char mark = span_find(list->path, '?') != NULL ? '&' : '?';

    buf_clear(path);
    int failed = buf_add(path, list->path);
    if (failed == 0 && after != NULL) {
        failed = buf_addf(path, "%cafter=", mark);
        failed = failed != 0 ? failed : client_escape(path, span_of(after));
    }
    return failed;
}

/* One page; *ret_next is its cursor, in the answer. */
static int walk_page(struct client *client, const struct client_list *list, struct span path,
                     struct client_answer *answer, enum client_walk *ret_step)
{
    int exit_code =
        client_ask(client, &(struct client_request){.method = "GET", .path = path}, answer);

    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    const json_t *rows = json_object_get(answer->document, list->member);
    if (!json_is_array(rows)) {
        return explain_stranger(client->form, client->flags, answer);
    }
    const struct client_page page = {
        .rows = rows,
        .text = text_of(answer, list->member),
        .next = json_string_value(json_object_get(answer->document, "next"))};
    *ret_step = list->each(list->user, &page);
    if (*ret_step == CLIENT_GO_ON && page.next == NULL) {
        *ret_step = CLIENT_ENOUGH;
    }
    return CLI_DONE;
}

int client_walk(struct client *client, const struct client_list *list)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    AUTO(buf_done) struct buf path;
    enum client_walk step = CLIENT_GO_ON;
    const char *after = NULL;

    buf_init(&path, CLIENT_PATH_MAX);
    while (step == CLIENT_GO_ON) {
        int failed = walk_path(list, after, &path);
        if (failed != 0) {
            return explain_fault(client->form, failed);
        }
        int exit_code = walk_page(client, list, buf_span(&path), &answer, &step);
        if (exit_code != CLI_DONE) {
            return exit_code;
        }
        after = json_string_value(json_object_get(answer.document, "next"));
    }
    return step == CLIENT_GIVE_UP ? CLI_FAILED : CLI_DONE;
}
