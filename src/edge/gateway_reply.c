/* SPDX-License-Identifier: MIT
 *
 * gateway_reply -- what the engine says, as an answer to a caller of the gateway. A kept answer goes
 * out as it was kept, to the first caller too, so that all of them are the same bytes.
 */
#include "edge/gateway.h"

#include "task/fields.h"
#include "task/route_headers.h"

#define FIELDS_BYTES_MAX (256u << 10)

/* --- answers ----------------------------------------------------------------------------------------- */

static struct response *begin(struct exchange *exchange, int status, struct writer *ret_writer)
{
    struct response *response = exchange_begin(exchange, status, ret_writer);

    if (response != NULL) {
        response->content_type = NULL;
        buf_init(&response->fields, FIELDS_BYTES_MAX);
    }
    return response;
}

/* Which of the caller's preferences were honoured. */
static int add_applied(const struct exchange *exchange, struct buf *fields)
{
    char room[48];

    if (exchange->gateway == NULL || exchange->gateway->kind != GATEWAY_KEYED) {
        return 0;
    }
    struct span applied = prefer_applied(&exchange->gateway->prefer, room);
    return applied.len == 0 ? 0 : fields_add(fields, SPAN("Preference-Applied"), applied);
}

void gateway_refuse_as(struct exchange *exchange, const struct route_refusal *refusal)
{
    struct writer writer;
    int status = refusal->status != 0 ? refusal->status : route_problem_status(refusal->problem);
    struct response *response = begin(exchange, status, &writer);

    if (response == NULL) {
        return;
    }
    writer.failed = route_refusal_render(refusal, &response->fields, &response->body);
    writer.failed = writer.failed != 0 ? writer.failed : add_applied(exchange, &response->fields);
    exchange_finish(exchange, &writer);
}

void gateway_refuse(struct exchange *exchange, enum problem problem, struct span detail)
{
    struct route_refusal refusal = {.problem = ROUTE_PROBLEM_INVALID,
                                    .status = problem_status(problem),
                                    .detail = detail,
                                    .retry_after_ms = problem_retry_after_s(problem) * 1000};

    switch (problem) {
    case PROBLEM_TOO_LARGE:
    case PROBLEM_TARGET_TOO_LONG:
    case PROBLEM_HEADERS_TOO_LARGE:
        refusal.problem = ROUTE_PROBLEM_TOO_LARGE;
        break;
    case PROBLEM_OVERLOADED:
        refusal.problem = ROUTE_PROBLEM_OVERLOADED;
        break;
    case PROBLEM_STORE_UNAVAILABLE:
        refusal.problem = ROUTE_PROBLEM_STORE_UNAVAILABLE;
        break;
    case PROBLEM_KEY_IN_PROGRESS: /* another session has the key, and has not committed yet */
        refusal.problem = ROUTE_PROBLEM_KEY_IN_PROGRESS;
        break;
    case PROBLEM_STORE_UNKNOWN: /* with a key it is safe to ask again */
        refusal.problem = ROUTE_PROBLEM_STORE_UNKNOWN;
        refusal.retry_after_ms = ENGINE_RETRY_AFTER_MS;
        break;
    case PROBLEM_DRAINING:
        refusal.problem = ROUTE_PROBLEM_DRAINING;
        break;
    case PROBLEM_INTERNAL:
    case PROBLEM_CORRUPT:
        refusal.problem = ROUTE_PROBLEM_INTERNAL;
        break;
    default:
        break;
    }
    gateway_refuse_as(exchange, &refusal);
}

static int add_replayed(const struct route_reply *said, struct buf *fields)
{
    if (said->said != ROUTE_SAID_ANSWER || said->is_first) {
        return 0;
    }
    int failed = fields_add(fields, SPAN("Idempotent-Replayed"), SPAN("true"));
    return failed != 0 ? failed
                       : fields_add(fields, SPAN("Idempotency-Replayed"),
                                    said->is_omitted ? SPAN("omitted") : SPAN("true"));
}

/* What was kept was filtered when it was; anything else is filtered now. */
static int add_fields(const struct route_reply *said, struct buf *fields)
{
    if (said->said == ROUTE_SAID_ANSWER || (said->said == ROUTE_SAID_STREAM && said->id.row != 0)) {
        return buf_add(fields, said->answer->headers);
    }
    return said->is_first ? route_headers_pass(said->answer->headers, fields)
                          : route_headers_share(said->answer->headers, fields);
}

/* The length that a HEAD was told, since there is no body to tell it by. */
static void note_length(const struct exchange *exchange, const struct answer *answer,
                        struct response *response)
{
    struct span value;
    int64_t length;

    if (span_is(exchange->gateway->method, "HEAD") &&
        fields_find(answer->headers, "Content-Length", &value) && span_to_int(value, &length)) {
        response->head_length = (uint64_t)length;
    }
}

/* Callers of one request share a large answer. */
static int add_body(struct exchange *exchange, const struct route_reply *said,
                    struct response *response)
{
    struct span body = said->answer->body;

    if (body.len <= BODIES_SMALL_BYTES || span_is(exchange->gateway->method, "HEAD")) {
        return buf_add(&response->body, body);
    }
    response->shared = bodies_share(exchange->edge->bodies, said->id, body);
    return response->shared != NULL ? 0 : FAULT_MEMORY;
}

static void send_answer(struct exchange *exchange, const struct route_reply *said)
{
    struct writer writer;
    struct response *response = begin(exchange, said->answer->status, &writer);

    if (response == NULL) {
        return;
    }
    response->is_relayed = true;
    writer.failed = add_fields(said, &response->fields);
    writer.failed = writer.failed != 0 ? writer.failed : add_replayed(said, &response->fields);
    writer.failed = writer.failed != 0 ? writer.failed : add_applied(exchange, &response->fields);
    writer.failed = writer.failed != 0 ? writer.failed : add_body(exchange, said, response);
    note_length(exchange, said->answer, response);
    exchange_finish(exchange, &writer);
}

/* The pieces come later. */
static void send_head(struct exchange *exchange, const struct route_reply *said)
{
    struct writer writer;
    struct response *response = begin(exchange, said->answer->status, &writer);

    if (response == NULL) {
        return;
    }
    response->is_relayed = response->stream.is_on = true;
    response->stream.length = said->length > 0 ? (uint64_t)said->length : 0;
    writer.failed = add_fields(said, &response->fields);
    writer.failed = writer.failed != 0 ? writer.failed : add_applied(exchange, &response->fields);
    exchange_finish(exchange, &writer);
}

static void send_progress(struct exchange *exchange, const struct route_reply *said)
{
    struct writer writer;
    struct response *response = begin(exchange, 202, &writer);
    char id[ID_TEXT_LEN + 1];

    if (response == NULL) {
        return;
    }
    id_format(said->id, id);
    writer.failed = route_progress_render(
        &(struct route_progress){
            .id_text = span_of(id),
            .retry_after_ms = said->route->retry_after_ms,
            .is_unknown = said->is_unknown,
            .state = exchange->gateway->kind == GATEWAY_POLL ? task_state_text(said->state) : NULL},
        &response->fields, &response->body);
    writer.failed = writer.failed != 0 ? writer.failed : add_applied(exchange, &response->fields);
    exchange_finish(exchange, &writer);
}

/* Refusals about a request that goes on name it, and say when to ask again. */
static void send_refusal(struct exchange *exchange, const struct route_reply *said)
{
    struct route_refusal refusal = {.problem = said->problem,
                                    .status = said->status,
                                    .detail = said->detail,
                                    .is_replay = said->is_omitted && !said->is_first};
    char id[ID_TEXT_LEN + 1];

    switch (said->problem) {
    case ROUTE_PROBLEM_KEY_IN_PROGRESS:
    case ROUTE_PROBLEM_OUTCOME_UNKNOWN:
        id_format(said->id, id);
        refusal.id_text = span_of(id);
        refusal.retry_after_ms = said->route->retry_after_ms;
        break;
    case ROUTE_PROBLEM_STORE_UNAVAILABLE:
    case ROUTE_PROBLEM_OVERLOADED:
    case ROUTE_PROBLEM_DRAINING:
        refusal.retry_after_ms = ENGINE_RETRY_AFTER_MS;
        break;
    default:
        break;
    }
    gateway_refuse_as(exchange, &refusal);
}

/* A poll shows an answer only to its caller: else any id would give an answer away. Another caller, or
 * one that does not say who it is, learns no more than of an id that no request has. */
static bool may_see(struct exchange *exchange, const struct route_reply *said)
{
    if (exchange->gateway->kind != GATEWAY_POLL || said->route == NULL) {
        return true;
    }
    struct error error = {0};
    bool is_found = false;
    if (gateway_read_scope(exchange->gateway, said->route, &is_found, &error) != 0) {
        exchange_refuse_error(exchange, &error);
        return false;
    }
    if (is_found && span_is(said->scope, exchange->gateway->scope)) {
        return true;
    }
    gateway_refuse_as(exchange, &(struct route_refusal){.problem = ROUTE_PROBLEM_REQUEST_UNKNOWN});
    return false;
}

void gateway_reply(struct exchange *exchange, const struct reply *reply)
{
    const struct route_reply *said = reply->route;

    if (reply->kind == REPLY_FAULT) {
        exchange_refuse_error(exchange, &reply->error);
        return;
    }
    if (reply->kind != REPLY_ROUTE) {
        exchange_refuse(exchange, PROBLEM_INTERNAL, SPAN(""), SPAN(""));
        return;
    }
    if (!may_see(exchange, said)) {
        return;
    }
    switch (said->said) {
    case ROUTE_SAID_ANSWER:
    case ROUTE_SAID_UNKEPT:
        send_answer(exchange, said);
        break;
    case ROUTE_SAID_STREAM:
        send_head(exchange, said);
        break;
    case ROUTE_SAID_PIECE:
    case ROUTE_SAID_END:
    case ROUTE_SAID_CUT:
        break; /* gateway_stream_take has had them */
    case ROUTE_SAID_PROGRESS:
        send_progress(exchange, said);
        break;
    case ROUTE_SAID_REFUSAL:
        send_refusal(exchange, said);
        break;
    }
}
