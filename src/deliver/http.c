/* SPDX-License-Identifier: MIT
 *
 * http -- the deliverer: begins transfers, collects the ones that are through, hands them back from
 * the loop. See http.h for what is promised, http_internal.h for the way of one transfer.
 *
 * `done` is called only from finish_all, which the loop runs: whoever is told may send and cancel
 * again at once without meeting a half-done libcurl further up the stack.
 */
#include "deliver/http_internal.h"

#include <daruma/version.h>

#include <assert.h>
#include <stdlib.h>

static void transfer_free(struct transfer *transfer)
{
    if (transfer == NULL) {
        return;
    }
    assert(!transfer->lookup.is_placed); /* http_lookup.c still points to it */
    http_stream_uncount(transfer);
    curl_easy_cleanup(transfer->easy); /* NULL is fine; before the URL, which it may point to */
    curl_url_cleanup(transfer->url);
    buf_done(&transfer->url_text);
    buf_done(&transfer->text);
    buf_done(&transfer->hop_url);
    free(transfer->lines);
    free(transfer);
}

static struct transfer *transfer_take(struct http *http)
{
    struct transfer *transfer = http->spare;

    if (transfer != NULL) {
        http->spare = transfer->next;
        http->spare_count--;
        return transfer;
    }
    transfer = calloc(1, sizeof *transfer);
    if (transfer == NULL) {
        return NULL;
    }
    transfer->http = http;
    return transfer;
}

static void transfer_give_back(struct transfer *transfer)
{
    struct http *http = transfer->http;

    http_stream_uncount(transfer);
    if (!http_kept_has_room(http) || http_cost_is_high(transfer)) {
        transfer_free(transfer);
        return;
    }
    http_option_give_back(transfer);
    transfer->delivery = NULL;
    transfer->at = NULL;
    transfer->next = http->spare;
    http->spare = transfer;
    http->spare_count++;
}

static void link_under_way(struct transfer *transfer)
{
    struct http *http = transfer->http;

    transfer->next = http->under_way;
    transfer->at = &http->under_way;
    if (transfer->next != NULL) {
        transfer->next->at = &transfer->next;
    }
    http->under_way = transfer;
    http->under_way_count++;
    http_kept_note(http, transfer->began_at_ms);
}

/* Takes it from libcurl, which closes the connection if the transfer is not through. Where its name is still
 * looked up libcurl keeps it until then. */
static void unlink_under_way(struct transfer *transfer)
{
    *transfer->at = transfer->next;
    if (transfer->next != NULL) {
        transfer->next->at = transfer->at;
    }
    transfer->at = NULL;
    transfer->http->under_way_count--;
    http_lookup_stop_waiting(transfer);
    if (transfer->lookup.is_running) {
        http_lookup_abandon(transfer);
    } else {
        http_lookup_leave(transfer);
        (void)curl_multi_remove_handle(transfer->http->multi,
                                       transfer->easy); /* or it is out already */
    }
    http_connection_release(transfer);
    http_cost_end(transfer);
}

static void push_ended(struct transfer *transfer)
{
    struct http *http = transfer->http;

    transfer->next = NULL;
    *http->ended_last = transfer;
    http->ended_last = &transfer->next;
    loop_hook_on(http->finishing);
}

/* On to where the answer has sent it, or once more over a new connection. False: it cannot. */
static bool begin_again(struct transfer *transfer)
{
    CURLM *multi = transfer->http->multi;

    (void)curl_multi_remove_handle(multi, transfer->easy); /* or it is out already */
    http_connection_release(transfer);
    http_cost_end(transfer);
    http_option_reset(transfer);
    transfer->reason[0] = '\0';
    transfer->has_field = false;
    return http_request_prepare(transfer, NULL) == 0 &&
           curl_multi_add_handle(multi, transfer->easy) == CURLM_OK;
}

void http_end(struct transfer *transfer, CURLcode code)
{
    bool begins_again = transfer->ending == ENDING_SPOILT;

    if (transfer->ending == ENDING_UNNAMED && http_lookup_wait(transfer)) {
        return;
    }
    code = http_answer_code(transfer, code);
    if (begins_again) { /* nothing has gone out */
        transfer->ending = ENDING_NONE;
        transfer->hop.is_fresh = true;
    }
    if (begins_again || (http_outcome_is_whole(transfer, code) && http_hop_next(transfer))) {
        transfer->lookup.wait_until_ms = begins_again ? transfer->lookup.wait_until_ms : 0;
        if (begin_again(transfer)) {
            return;
        }
        code = CURLE_OUT_OF_MEMORY; /* all else about the hop was checked */
    }
    http_outcome_fill(transfer, code); /* asks the handle, so before it is taken out */
    unlink_under_way(transfer);
    http_stream_unbegin(transfer);
    if (transfer->is_streaming) { /* what is left of it is told first */
        transfer->has_ended = true;
        http_stream_note(transfer);
        return;
    }
    push_ended(transfer);
}

void http_go_on(struct transfer *transfer)
{
    transfer->ending = ENDING_NONE;
    if (!begin_again(transfer)) {
        http_end(transfer, CURLE_OUT_OF_MEMORY);
    }
}

void http_read_on(struct transfer *transfer)
{
    CURLcode code = curl_easy_pause(transfer->easy, CURLPAUSE_CONT);

    if (code != CURLE_OK) {
        http_end(transfer, code);
    }
}

/* The name of an attempt that is over has been looked up. What was told is of no more use. */
static void take_back(struct transfer *transfer)
{
    (void)http_lookup_end(transfer, CURLE_OK);
    (void)curl_multi_remove_handle(transfer->http->multi, transfer->easy); /* it is in there */
    if (transfer->delivery == NULL) { /* else it is still to be told, and then given back */
        transfer_give_back(transfer);
    }
}

/* Everything that libcurl is through with. All of its reports are read before the first transfer is taken
 * out: for each that is, libcurl walks through the reports that are left. */
static void collect(struct http *http)
{
    struct transfer *first = NULL, **last = &first;
    CURLMsg *report;
    int left;

    while ((report = curl_multi_info_read(http->multi, &left)) != NULL) {
        char *held = NULL;
        if (report->msg == CURLMSG_DONE &&
            curl_easy_getinfo(report->easy_handle, CURLINFO_PRIVATE, &held) == CURLE_OK) {
            struct transfer *transfer = (struct transfer *)(void *)held;
            transfer->report = report->data.result;
            transfer->report_next = NULL;
            *last = transfer;
            last = &transfer->report_next;
        }
    }
    for (struct transfer *transfer = first, *next; transfer != NULL; transfer = next) {
        next = transfer->report_next;
        if (transfer->lookup.is_abandoned) {
            take_back(transfer);
        } else {
            http_end(transfer, http_lookup_end(transfer, transfer->report));
        }
    }
}

/* Those that were found, from inside libcurl, to have to end. */
static void end_marked(struct http *http)
{
    struct transfer *next;

    http->has_marked = false;
    for (struct transfer *transfer = http->under_way; transfer != NULL; transfer = next) {
        next = transfer->next;
        if (transfer->ending == ENDING_UNWATCHED || transfer->ending == ENDING_FRAMING ||
            transfer->ending == ENDING_FOLD) {
            http_end(transfer, CURLE_ABORTED_BY_CALLBACK);
        }
    }
}

void http_after_run(struct http *http, int running)
{
    if (running < http->under_way_count + http_lookup_beside(http)) {
        loop_hook_on(http->finishing);
    }
}

/* The first of those that have ended, so many at most; the hook stays on for those that are left. */
static struct transfer *take_ended(struct http *http)
{
    struct transfer *first = http->ended, **end = &http->ended;

    for (int i = 0; i < HTTP_TOLD_A_TURN && *end != NULL; i++) {
        end = &(*end)->next;
    }
    http->ended = *end;
    if (http->ended == NULL) {
        http->ended_last = &http->ended;
    } else {
        loop_hook_on(http->finishing);
    }
    if (first != NULL) {
        *end = NULL; /* not http->ended: there was one at least */
    }
    return first;
}

/* Those that end while this runs come in the next turn, and those above HTTP_TOLD_A_TURN. Nothing is touched after the last `done`,
 * so that it may close the deliverer. */
static void finish_all(void *user)
{
    struct http *http = user;
    struct transfer *next;

    collect(http);
    if (http->has_marked) {
        end_marked(http);
    }
    http_lookup_serve(http);
    loop_hook_off(http->finishing);
    http_cost_resume(http);
    for (struct transfer *told = http_stream_tell(http); told != NULL; told = next) {
        next = told->next;
        push_ended(told);
    }
    for (struct transfer *transfer = take_ended(http); transfer != NULL; transfer = next) {
        struct delivery *delivery = transfer->delivery;
        next = transfer->next;
        delivery->carrier = NULL;
        if (transfer->lookup.is_running) {
            transfer->delivery = NULL; /* see take_back */
        } else {
            transfer_give_back(transfer);
        }
        http->done(http->user, delivery);
    }
}

static void begin(struct transfer *transfer, struct delivery *delivery)
{
    transfer->delivery = delivery;
    delivery->carrier = transfer;
    transfer->ending = ENDING_NONE;
    transfer->reason[0] = '\0';
    transfer->refusal[0] = '\0';
    transfer->answer = (struct answer_state){0};
    transfer->has_field = false;
    transfer->shortage = 0;
    transfer->address_bytes = 0;
    assert(!transfer->lookup.is_placed);
    transfer->lookup = (struct lookup){0};
    http_cost_begin(transfer);
    transfer->hop =
        (struct hop){.url = delivery->url, .method = delivery->method, .body = delivery->body};
    transfer->began_at_ms = clock_mono_ms(transfer->http->options.clock);
    delivery->outcome = (struct outcome){.sent = TASK_SENT_NO};
    delivery->message[0] = '\0';
    delivery->sends = 0;
    delivery->is_unframed = delivery->is_omitted = delivery->is_header_cut = false;
    delivery->is_uncounted = delivery->is_short = false;
    delivery->is_unnamed = delivery->is_unvouched = false;
    delivery->is_body_spent = false;
    delivery->started_at_ms = clock_wall_ms(transfer->http->options.clock);
    delivery->ended_at_ms = 0;
    buf_init(&delivery->response_headers, HTTP_ANSWER_FIELDS_MAX);
    buf_init(&delivery->response_body, delivery->response_max);
}

static int http_send(struct deliver *deliver, struct delivery *delivery, struct error *err)
{
    struct http *http = (struct http *)deliver;
    struct transfer *transfer = transfer_take(http);
    struct error why = {0};

    if (transfer == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a delivery");
    }
    begin(transfer, delivery);
    int failed = http_request_prepare(transfer, &why);
    if (failed == FAULT_INPUT) {
        http_outcome_invalid(transfer, why.text);
        push_ended(transfer);
        return 0;
    }
    if (failed == FAULT_IO) {
        http_outcome_fill(transfer, CURLE_SSL_CACERT_BADFILE);
        push_ended(transfer);
        return 0;
    }
    if (failed == 0 && curl_multi_add_handle(http->multi, transfer->easy) != CURLM_OK) {
        failed = fail(&why, FAULT_SYSTEM, "libcurl takes no more transfers");
    }
    if (failed != 0) {
        delivery->carrier = NULL;
        transfer_give_back(transfer);
        return fail(err, failed, "%s", why.text);
    }
    link_under_way(transfer);
    return 0;
}

static void http_cancel(struct deliver *deliver, struct delivery *delivery)
{
    struct transfer *transfer = delivery->carrier;

    if (transfer == NULL) {
        return; /* it is back */
    }
    collect((struct http *)deliver); /* what is through by now is not cancelled */
    if (transfer->at != NULL) {
        transfer->ending = ENDING_CANCELLED;
        http_end(transfer, CURLE_ABORTED_BY_CALLBACK);
    }
    http_stream_drop(transfer);
}

static void http_close(struct deliver *deliver)
{
    struct http *http = (struct http *)deliver;

    if (http->multi != NULL) {
        http_sockets_quiet(http);
    }
    for (struct transfer *transfer = http->streams, *next; transfer != NULL; transfer = next) {
        bool is_ended = transfer->has_ended;
        next = transfer->stream_next;
        http_stream_forget(transfer);
        if (is_ended) { /* in no other list */
            transfer_free(transfer);
        }
    }
    while (http->under_way != NULL) {
        struct transfer *transfer = http->under_way;
        (void)http_lookup_end(transfer, CURLE_OK);
        unlink_under_way(transfer);
        transfer_free(transfer);
    }
    for (struct transfer *transfer;
         (transfer = http_lookup_take_abandoned(http)) != NULL;) { /* in no other list */
        transfer_free(transfer);
    }
    for (struct transfer *next; http->ended != NULL; http->ended = next) {
        next = http->ended->next;
        (void)http_lookup_end(http->ended, CURLE_OK);
        transfer_free(http->ended);
    }
    for (struct transfer *next; http->spare != NULL; http->spare = next) {
        next = http->spare->next;
        transfer_free(http->spare);
    }
    (void)curl_multi_cleanup(http->multi); /* closes the connections; NULL is fine */
    http_names_close(http);
    http_lookup_close(http);
    http_sockets_close(http);
    loop_hook_free(http->finishing);
    free(http);
    curl_global_cleanup();
}

static const struct deliver_ops ops = {
    .send = http_send, .cancel = http_cancel, .close = http_close, .pull = http_stream_pull};

static struct http_options with_defaults(const struct http_options *options)
{
    struct http_options filled = options != NULL ? *options : (struct http_options){0};

    filled.clock = filled.clock != NULL ? filled.clock : &clock_real;
    filled.user_agent = filled.user_agent != NULL ? filled.user_agent : "daruma/" DARUMA_VERSION;
    filled.handles_kept = filled.handles_kept > 0 ? filled.handles_kept : HTTP_HANDLES_KEPT;
    filled.lookups_max = filled.lookups_max > 0 && filled.lookups_max < HTTP_LOOKUPS_MAX
                             ? filled.lookups_max
                             : HTTP_LOOKUPS_MAX;
    filled.connections_kept =
        filled.connections_kept > 0 ? filled.connections_kept : HTTP_CONNECTIONS_KEPT;
    return filled;
}

static int open_parts(struct http *http, struct error *err)
{
    http->multi = curl_multi_init();
    if (http->multi == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for libcurl");
    }
    /* One request at a time on a connection, with HTTP/2 too: libcurl takes any target that says it
     * speaks it at its word, and would put several requests on a connection of HTTP/1. */
    if (http_kept_begin(http) != 0 ||
        curl_multi_setopt(http->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING) != CURLM_OK) {
        return fail(err, FAULT_SYSTEM, "libcurl refuses its number of connections");
    }
    int failed = http_names_open(http, err);
    failed = failed != 0 ? failed : http_lookup_open(http, err);
    if (failed != 0) {
        return failed;
    }
    http->keeps_handles = http_option_may_keep();
    failed = loop_hook_new(http->loop, LOOP_HOOK_IDLE, finish_all, http, &http->finishing, err);
    return failed != 0 ? failed : http_sockets_open(http, err);
}

int http_deliver_open(const struct http_options *options, struct loop *loop, deliver_done_fn done,
                      void *user, struct deliver **ret_deliver, struct error *err)
{
    struct http *http = calloc(1, sizeof *http);

    if (http == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a deliverer");
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(http);
        return fail(err, FAULT_SYSTEM, "libcurl does not start");
    }
    http->base.ops = &ops;
    http->options = with_defaults(options);
    http->loop = loop;
    http->done = done;
    http->user = user;
    http->ended_last = &http->ended;
    http->news_last = &http->news;
    int failed = open_parts(http, err);
    if (failed != 0) {
        http_close(&http->base);
        return failed;
    }
    *ret_deliver = &http->base;
    return 0;
}
