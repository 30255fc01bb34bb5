/* SPDX-License-Identifier: MIT
 *
 * cli_send -- `daruma send URL`: sends a request by the client's policy (A5), and keeps it on this
 * machine when it cannot be sent (A9.1), for `daruma flush`.
 *
 *   what waits for the same place is sent first ---- it cannot be: kept behind it, 4
 *        |
 *   the first try -- taken: 0; refused for good: 1
 *        | no answer, 408, 429, 5xx
 *   kept, on the disk -- before the first wait: whatever happens from here on, it is not lost
 *        |
 *   the other tries -- taken: removed, 0; refused for good: removed, 1
 *        |
 *        4
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/json_value.h"
#include "cli/effect.h"
#include "cli/explain.h"
#include "cli/flush.h"
#include "cli/given.h"
#include "cli/header_flags.h"
#include "cli/own_name.h"
#include "cli/send_report.h"
#include "cli/spool_flags.h"
#include "task/fields.h"
#include "task/save_key.h"
#include "task/task.h"
#include "task/url.h"

#include <daruma/policy.h>
#include <daruma/retry.h>

#include <inttypes.h>
#include <stdio.h>

#define SEND_ATTEMPTS_MAX 100
#define SEND_PATIENCE_MS  30000 /* a server that wants to be left alone for longer is left alone */

struct send_flags {
    struct flags common;
    const char *url, *body, *json, *key, *method, *spool;
    struct header_flags headers;
    int64_t timeout_ms;
    int64_t attempts; /* 0: as the policy says */
};

/* --- flags ---------------------------------------------------------------------------------------- */

static bool take_url(void *user, const char *value)
{
    struct send_flags *flags = user;
    bool is_first = flags->url == NULL;

    flags->url = value;
    return is_first && url_refuse(span_of(value)) == NULL;
}

static bool take_data(void *user, const char *value)
{
    struct send_flags *flags = user;

    flags->body = value;
    return flags->json == NULL;
}

static bool take_json_data(void *user, const char *value)
{
    struct send_flags *flags = user;

    flags->json = value;
    return flags->body == NULL;
}

static bool may_give(struct span name)
{
    return !spooled_header_is_ours(name);
}

static bool take_header(void *user, const char *value)
{
    return header_flags_take(&((struct send_flags *)user)->headers, value);
}

static bool take_key(void *user, const char *value)
{
    ((struct send_flags *)user)->key = value;
    return task_key_is_valid(span_of(value));
}

static bool take_method(void *user, const char *value)
{
    ((struct send_flags *)user)->method = value;
    return fields_name_is_token(span_of(value)) && strlen(value) <= SAVE_METHOD_MAX &&
           strcmp(value, "CONNECT") != 0;
}

static bool take_spool(void *user, const char *value)
{
    ((struct send_flags *)user)->spool = value;
    return value[0] != '\0';
}

static bool take_timeout(void *user, const char *value)
{
    struct send_flags *flags = user;

    return flags_duration_above_zero(value, &flags->timeout_ms) &&
           flags->timeout_ms <= SPOOLED_TIMEOUT_MAX_MS;
}

static bool take_attempts(void *user, const char *value)
{
    struct send_flags *flags = user;

    return span_to_int(span_of(value), &flags->attempts) && flags->attempts > 0 &&
           flags->attempts <= SEND_ATTEMPTS_MAX;
}

#define EXPECT_DATA "TEXT, @FILE or - (standard input), and only one of --data and --json-data"

static const struct flag table[] = {
    {"--data", "DATA", take_data, EXPECT_DATA, "the body: TEXT, @FILE or - for standard input",
     NULL, true},
    {"--json-data", "DATA", take_json_data, EXPECT_DATA,
     "the same as JSON: checked, and sent as application/json", NULL, true},
    {"--header", HEADER_FLAGS_VALUE, take_header,
     HEADER_FLAGS_EXPECTED ", none of the framing; the key has --key",
     "a header of the request, or a file of them; may be repeated", NULL, true},
    {"--key", "K", take_key, "1 to 255 visible ASCII characters",
     "its Idempotency-Key (that of 'daruma key')", NULL, false},
    {"--method", "M", take_method, "a method such as PUT, up to 32 characters", "POST unless given",
     NULL, false},
    {"--spool", "DIR", take_spool, SPOOL_FLAG_EXPECTED, SPOOL_FLAG_HELP, NULL, false},
    {"--timeout", "D", take_timeout, FLAGS_DURATION ", above zero and up to 24h",
     "of one attempt (30s)", NULL, false},
    {"--attempts", "N", take_attempts, "a whole number from 1 to 100", "before it is kept (3)",
     NULL, false},
};

static const struct flags_form form = {
    .command = "send",
    .operands = "URL",
    .purpose = "Sends a request; when it cannot be sent, keeps it on this machine for 'daruma\n"
               "flush'. Exit status 0: sent; 4: kept; 1: refused for good.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .take_operand = take_url,
    .operand_expected = "one http or https URL, without user or fragment",
    .is_local = true,
};

/* --- the tries -------------------------------------------------------------------------------------- */

/* One `daruma send` under way. */
struct sending {
    const struct send_flags *flags;
    struct spooled *request;
    struct spool *spool;
    struct sender *sender;
    struct sender_answer answer;
    struct spool_name name; /* that it is kept as; empty: it is not */
    bool is_promised;       /* and it outlives a power cut */
    int64_t attempts;
    int64_t attempts_max;
    struct error err; /* of keeping it, or of memory */
};

/* What is known of it by now. */
static void note_answer(struct sending *sending)
{
    struct spooled *request = sending->request;
    int64_t hint_ms = sending->answer.retry_after_ms, now_ms = clock_wall_ms(&clock_real);

    hint_ms = hint_ms > FLUSH_HINT_MAX_MS ? FLUSH_HINT_MAX_MS : hint_ms;
    request->last_error = span_of(sending->answer.why);
    request->tried_at_ms = sending->attempts > 0 ? now_ms : 0;
    request->not_before_ms = hint_ms > 0 ? now_ms + hint_ms : 0;
}

/* Puts it into the spool, or what is known now in place of what was. Once it is promised it stays so:
 * a change that fails leaves what was there. */
static void keep(struct sending *sending)
{
    bool is_there = sending->name.text[0] != '\0';
    struct error err = {0};

    note_answer(sending);
    int failed = is_there ? spool_change(sending->spool, sending->name.text, sending->request, &err)
                          : spool_add(sending->spool, sending->request,
                                      sending->request->created_at_ms, &sending->name, &err);
    sending->is_promised = sending->is_promised || failed == 0;
    sending->err = err;
}

static int try_once(void *user, const struct daruma_attempt *attempt,
                    struct daruma_error *ret_error)
{
    struct sending *sending = user;

    sending->attempts = attempt->number;
    if (sender_send(sending->sender, sending->request, &sending->answer, &sending->err) != 0) {
        return FAULT_MEMORY;
    }
    *ret_error = (struct daruma_error){.type = "http",
                                       .message = sending->answer.why,
                                       .retry_after_ms = sending->answer.retry_after_ms,
                                       .recoverable = sending->answer.end >= SENDER_AGAIN};
    return sending->answer.end == SENDER_TAKEN ? 0 : 1;
}

static bool is_worth_it(void *user, const struct daruma_error *error, uint32_t attempt)
{
    (void)user;
    (void)attempt;
    return error->recoverable && error->retry_after_ms <= SEND_PATIENCE_MS;
}

/* It is on the disk before the first wait, and claimed: no flush sends it meanwhile. */
static void before_wait(void *user, uint32_t attempt, const struct daruma_error *error,
                        uint64_t delay_ms)
{
    struct sending *sending = user;

    if (sending->name.text[0] == '\0') {
        keep(sending);
    }
    fprintf(stderr,
            "daruma send: %s: retrying in %" PRIu64 " ms (attempt %" PRIu32 "/%" PRId64 ")\n",
            error->message, delay_ms, attempt + 1, sending->attempts_max);
}

/* The policy that has this name: A5.2. */
static int client_policy(struct sending *sending, struct daruma_retry_options *ret_options)
{
    struct daruma_policy policy;
    struct daruma_error error;

    if (daruma_policy_create(daruma_policy_named("client"), &policy, &error) != 0) {
        flags_complain(&form, "%s", error.message);
        return CLI_FAILED;
    }
    sending->attempts_max =
        sending->flags->attempts > 0 ? sending->flags->attempts : policy.attempts_max;
    *ret_options = (struct daruma_retry_options){
        .max_retries =
            sending->attempts_max > 1 ? (uint32_t)sending->attempts_max - 1 : DARUMA_NO_RETRIES,
        .backoff = policy.rules[DARUMA_CLASS_TRANSIENT].backoff,
        .condition = is_worth_it,
        .on_retry = before_wait,
        .user = sending};
    return CLI_DONE;
}

/* --- the flow --------------------------------------------------------------------------------------- */

/* What became of it is told by the exit status, also when there is no memory for more words. */
static void report(const struct sending *sending, const char *result, const char *why)
{
    const struct send_report told = {.request = sending->request,
                                     .answer = &sending->answer,
                                     .name = sending->name.text,
                                     .result = result,
                                     .why = why,
                                     .attempts = sending->attempts};
    int failed = send_report_print(&form, &sending->flags->common, &told);

    if (failed != 0) {
        (void)explain_fault(&form, failed);
    }
}

static int end_kept(struct sending *sending, const char *why)
{
    keep(sending);
    if (!sending->is_promised) {
        flags_complain(&form, "not sent (%s), and not kept", why);
        return spool_flags_complain(&form, &sending->err);
    }
    report(sending, "spooled", why);
    return CLI_SPOOLED;
}

/* A request that was taken, or never will be, has no business in the spool. */
static int end_answered(struct sending *sending)
{
    bool is_taken = sending->answer.end == SENDER_TAKEN;
    int failed = 0;

    if (sending->name.text[0] != '\0') {
        failed = spool_remove(sending->spool, sending->name.text, &sending->err);
        sending->name.text[0] = '\0';
    }
    report(sending, is_taken ? "sent" : "refused", sending->answer.why);
    if (failed != 0) {
        (void)spool_flags_complain(&form, &sending->err); /* it was answered all the same */
        flags_complain(&form, "the next flush may send it again, under the same key");
    }
    return is_taken ? CLI_DONE : CLI_FAILED;
}

/* It was not tried, or its outcome is not known, for a reason of this machine's own (sending->err).
 * It is kept if that can still be done. */
static int end_untried(struct sending *sending)
{
    char why[ERROR_TEXT_MAX];

    (void)snprintf(why, sizeof why, "%s", sending->err.text); /* fits: the same size */
    return end_kept(sending, why);
}

static int try_all(struct sending *sending)
{
    struct daruma_retry_options options;
    int exit_code = client_policy(sending, &options);

    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    int code = daruma_retry(try_once, sending, &options, NULL);
    if (code == FAULT_MEMORY) {
        return end_untried(sending);
    }
    return sending->answer.end < SENDER_AGAIN ? end_answered(sending)
                                              : end_kept(sending, sending->answer.why);
}

/* Sends what waits for the same place, if something does. *ret_why: it goes on waiting. What another
 * send is at has no place in the line before this one: the two are sent at the same time. */
static int clear_place(struct sending *sending, struct span place, const char **ret_why)
{
    struct flush_tally tally = {0};
    bool is_waiting = false, is_ours = false;
    int64_t holder = 0;
    int failed = flush_is_waiting(sending->spool, place, &is_waiting, &sending->err);

    if (failed != 0 || !is_waiting) {
        return failed;
    }
    failed = spool_hold(sending->spool, &is_ours, &holder, &sending->err);
    if (failed == 0 && is_ours) {
        failed = flush_run(&(struct flush){.spool = sending->spool,
                                           .sender = sending->sender,
                                           .kind = FLUSH_UNCOUNTED,
                                           .place = place},
                           &tally, &sending->err);
        spool_let_go(sending->spool);
    }
    if (failed == 0 && (!is_ours || tally.is_held_up)) {
        *ret_why = is_ours ? "others wait before it" : "others before it are being sent";
    }
    return failed;
}

/* *ret_why is NULL when the way is free. */
static int clear_the_way(struct sending *sending, const char **ret_why)
{
    AUTO(buf_done) struct buf place;

    buf_init(&place, 2 * URL_BYTES_MAX);
    *ret_why = NULL;
    return spooled_place(sending->request->url, &place) != 0
               ? fail(&sending->err, FAULT_MEMORY, "no memory for a place")
               : clear_place(sending, buf_span(&place), ret_why);
}

static int send_request(const struct send_flags *flags, struct spooled *request)
{
    AUTO(spool_close_p) struct spool *spool = NULL;
    AUTO(sender_close_p) struct sender *sender = NULL;
    struct error err = {0};
    int failed = spool_flags_open(flags->spool, &spool, &err);

    failed = failed != 0 ? failed : sender_open(flags->common.ca, &sender, &err);
    if (failed != 0) {
        flags_complain(&form, "neither sent nor kept");
        return spool_flags_complain(&form, &err);
    }
    struct sending sending = {.flags = flags, .request = request, .spool = spool, .sender = sender};
    const char *why = NULL;
    failed = clear_the_way(&sending, &why);
    int exit_code = failed != 0   ? end_untried(&sending)
                    : why != NULL ? end_kept(&sending, why)
                                  : try_all(&sending);
    sender_answer_done(&sending.answer);
    return exit_code;
}

/* --- the request -------------------------------------------------------------------------------------- */

static int read_body(struct send_flags *flags, struct buf *body, struct error *err)
{
    struct span rest, value;

    if (flags->body != NULL) {
        return given_read(flags->body, "--data", body, err);
    }
    if (flags->json == NULL) {
        return 0;
    }
    int failed = given_read(flags->json, "--json-data", body, err);
    if (failed != 0) {
        return failed;
    }
    rest = buf_span(body);
    if (!span_is_utf8(rest) || !json_value_take(&rest, &value) || rest.len > 0) {
        return fail_field(err, FAULT_INPUT, "--json-data", "what is given is not JSON");
    }
    if (header_flags_has(&flags->headers, SPAN("Content-Type"))) {
        return 0;
    }
    failed = fields_add(&flags->headers.fields, SPAN("Content-Type"), SPAN("application/json"));
    return failed == 0 ? 0 : fail(err, FAULT_MEMORY, "no memory for the request");
}

static int make_key(const struct spooled *request, char ret_key[SAVE_KEY_TEXT_LEN + 1],
                    struct error *err)
{
    char client[SAVE_CLIENT_MAX + 1];
    int failed = own_name(client, err);

    if (failed != 0) {
        return failed;
    }
    const struct save save = {.url = request->url,
                              .client = span_of(client),
                              .at_ms = request->created_at_ms,
                              .window_ms = SAVE_WINDOW_MS,
                              .method = request->method,
                              .body = request->body};
    return save_key_make(&save, ret_key, err);
}

static int run_send(struct send_flags *flags)
{
    char key[SAVE_KEY_TEXT_LEN + 1];
    AUTO(buf_done) struct buf body;
    struct error err = {0};

    buf_init(&body, SPOOLED_BODY_BYTES_MAX);
    int failed = header_flags_read(&flags->headers, &err);
    failed = failed != 0 ? failed : read_body(flags, &body, &err);
    struct spooled request = {
        .url = span_of(flags->url),
        .method = span_of(flags->method != NULL ? flags->method : "POST"),
        .key = span_of(flags->key),
        .headers = buf_span(&flags->headers.fields),
        .body = buf_span(&body),
        .created_at_ms = clock_wall_ms(&clock_real),
        .timeout_ms = flags->timeout_ms,
    };
    if (failed == 0 && flags->key == NULL) {
        failed = make_key(&request, key, &err);
        request.key = span_of(key);
    }
    return failed == 0 ? send_request(flags, &request) : spool_flags_complain(&form, &err);
}

int cli_send(int argc, char **argv)
{
    struct send_flags flags = {.timeout_ms = SENDER_TIMEOUT_MS};
    int exit_code;

    header_flags_init(&flags.headers, may_give);
    if (flags_read(&form, argc, argv, &flags, &exit_code)) {
        if (flags.url == NULL) {
            flags_complain(&form, "no URL given, expected one");
            exit_code = CLI_USAGE;
        } else {
            effect_begin();
            exit_code = effect_finish(&form, run_send(&flags));
        }
    }
    header_flags_done(&flags.headers);
    return exit_code;
}
