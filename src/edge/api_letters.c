/* SPDX-License-Identifier: MIT
 *
 * api_letters -- what people do about tasks that did not work out: dead letters, one or many;
 * unsettled tasks; and the audit trail of it all.
 */
#include "edge/api.h"
#include "edge/moment.h"
#include "edge/parse_act.h"
#include "engine/acts.h"

#include <stdio.h>

#define ARENA_EXTRA 65536

/* Where what was said is kept until it is answered; NULL: refused. */
struct arena *api_arena(struct exchange *exchange)
{
    if (exchange->arena == NULL) {
        exchange->arena = arena_new(4 * exchange->body.len + ARENA_EXTRA);
    }
    if (exchange->arena == NULL) {
        exchange_refuse(exchange, PROBLEM_OVERLOADED, SPAN(""), SPAN(""));
    }
    return exchange->arena;
}

static bool refuse_value(struct exchange *exchange, const char *name, const char *detail)
{
    exchange_refuse(exchange, PROBLEM_INVALID, span_of(detail), span_of(name));
    return false;
}

/* --- lists ----------------------------------------------------------------------------------------- */

static bool read_moment(struct exchange *exchange, const char *name, int64_t *value)
{
    struct span text;

    if (!path_find(&exchange->path, name, &text) || moment_parse(text, value)) {
        return true;
    }
    return refuse_value(exchange, name, "a time such as 2026-11-15T10:20:30.000Z");
}

static bool read_class(struct exchange *exchange, uint32_t *value)
{
    enum daruma_class error_class;
    struct span word;

    if (!path_find(&exchange->path, "class", &word)) {
        return true;
    }
    if (!parse_class(word, &error_class)) {
        return refuse_value(exchange, "class",
                            "class is one of transient, rate_limited, quota, auth, invalid, gone, "
                            "expired");
    }
    *value = (uint32_t)error_class + 1;
    return true;
}

static bool read_status(struct exchange *exchange, unsigned *states)
{
    struct span word;

    if (!path_find(&exchange->path, "status", &word)) {
        return true;
    }
    *states = letter_status_states(word);
    return *states != 0 ||
           refuse_value(exchange, "status", "status is one of failed, retrying, resolved");
}

static bool read_page(struct exchange *exchange, struct store_filter *filter)
{
    int64_t limit = ENGINE_LIST_LIMIT;
    struct span queue;

    if (!api_number(exchange, "limit", 1, ENGINE_LIST_LIMIT_MAX, &limit) ||
        !api_number(exchange, "after", 0, INT64_MAX, &filter->after_row)) {
        return false;
    }
    filter->limit = (size_t)limit;
    if (path_find(&exchange->path, "queue", &queue)) {
        exchange->queue = queue;
        return api_has_queue(exchange);
    }
    return true;
}

void api_letter_list(struct exchange *exchange)
{
    struct ask ask = {
        .kind = ASK_LETTERS,
        .filter = {.states = STORE_ALL_STATES, .flags = LIFE_LETTER, .wants = READ_LATEST}};

    if (read_page(exchange, &ask.filter) && read_status(exchange, &ask.filter.states) &&
        read_class(exchange, &ask.filter.failed_class) &&
        read_moment(exchange, "since", &ask.filter.failed_from_ms) &&
        read_moment(exchange, "until", &ask.filter.failed_until_ms)) {
        api_ask(exchange, ask);
    }
}

void api_unsettled_list(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_UNSETTLED,
                      .filter = {.states = 1u << TASK_UNSETTLED, .wants = READ_LATEST}};

    if (read_page(exchange, &ask.filter)) {
        api_ask(exchange, ask);
    }
}

#define LISTED(name) name ", "

void api_audit_list(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_AUDIT};
    struct store_filter page = {0};
    struct task_id task;
    struct span text;

    if (!read_page(exchange, &page) || !read_moment(exchange, "since", &ask.audit.from_ms) ||
        !read_moment(exchange, "until", &ask.audit.until_ms)) {
        return;
    }
    if (path_find(&exchange->path, "task", &text)) {
        if (!id_parse(text, &task)) {
            (void)refuse_value(exchange, "task", "this is not the id of a task");
            return;
        }
        ask.audit.task_row = task.row;
    }
    (void)path_find(&exchange->path, "who", &ask.audit.who); /* else it stays empty: anybody */
    if (path_find(&exchange->path, "act", &ask.audit.act) && !acts_has(ask.audit.act)) {
        (void)refuse_value(exchange, "act", "act is one of " ACTS_MAP(LISTED) "or is left out");
        return;
    }
    ask.audit.subject = exchange->queue;
    ask.audit.after_number = page.after_row;
    ask.audit.limit = page.limit;
    api_ask(exchange, ask);
}

/* --- one letter -------------------------------------------------------------------------------------- */

void api_letter_get(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_LETTER};

    if (api_has_task(exchange, &ask.id)) {
        api_ask(exchange, ask);
    }
}

void api_letter_redrive(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_REDRIVE};
    struct error error = {0};
    struct arena *arena;

    if (!api_has_task(exchange, &ask.id) || (arena = api_arena(exchange)) == NULL) {
        return;
    }
    if (parse_edit(buf_span(&exchange->body), arena, &ask.edit, &error) != 0) {
        exchange_refuse_error(exchange, &error);
        return;
    }
    api_ask(exchange, ask);
}

void api_letter_resolve(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_RESOLVE};
    const struct act_member members[] = {{"note", ACT_TEXT, &ask.note, 0, PARSE_NOTE_BYTES_MAX}};
    struct error error = {0};
    struct arena *arena;

    if (!api_has_task(exchange, &ask.id) || (arena = api_arena(exchange)) == NULL) {
        return;
    }
    if (parse_act(buf_span(&exchange->body), "", members, 1, arena, &error) != 0) {
        exchange_refuse_error(exchange, &error);
        return;
    }
    api_ask(exchange, ask);
}

/* --- many letters ------------------------------------------------------------------------------------ */

static int read_filter(struct span json, struct arena *arena, struct ask *ask,
                       struct span *ret_queue, struct error *err)
{
    struct span word = {0};
    enum daruma_class error_class;
    const struct act_member members[] = {
        {"queue", ACT_TEXT, ret_queue, 0, TASK_QUEUE_NAME_MAX},
        {"class", ACT_TEXT, &word, 0, TASK_LABEL_BYTES_MAX},
        {"since", ACT_TIME, &ask->filter.failed_from_ms, 0, 0},
        {"until", ACT_TIME, &ask->filter.failed_until_ms, 0, 0},
    };
    int failed = parse_act(json, "filter.", members, sizeof members / sizeof *members, arena, err);

    if (failed != 0 || word.len == 0) {
        return failed;
    }
    if (!parse_class(word, &error_class)) {
        return fail_field(err, FAULT_INPUT, "filter.class",
                          "filter.class must be one of transient, rate_limited, quota, auth, "
                          "invalid, gone, expired");
    }
    ask->filter.failed_class = (uint32_t)error_class + 1;
    return 0;
}

void api_letters_redrive(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_REDRIVE_MANY};
    struct span filter = {0}, queue = {0};
    const struct act_member members[] = {
        {"filter", ACT_VALUE, &filter, 0, 0},
        {"rate_per_second", ACT_NUMBER, &ask.rate_per_second, 0, ENGINE_REDRIVE_RATE_MAX},
        {"dry_run", ACT_BOOL, &ask.dry_run, 0, 0},
    };
    struct error error = {0};
    struct arena *arena = api_arena(exchange);

    if (arena == NULL) {
        return;
    }
    int failed = parse_act(buf_span(&exchange->body), "", members, sizeof members / sizeof *members,
                           arena, &error);
    failed = failed != 0 ? failed : read_filter(filter, arena, &ask, &queue, &error);
    if (failed != 0) {
        exchange_refuse_error(exchange, &error);
        return;
    }
    if (ask.rate_per_second > 0 && ask.rate_per_second < ENGINE_REDRIVE_RATE_MIN) {
        (void)refuse_value(exchange, "rate_per_second", "rate_per_second must be at least 0.001");
        return;
    }
    if (queue.len == 0 && !reach_is_whole(&exchange->reach)) {
        exchange_refuse(exchange, PROBLEM_FORBIDDEN,
                        SPAN("the token is limited to queues: filter.queue has to name one"),
                        SPAN("filter.queue"));
        return;
    }
    exchange->queue = queue;
    api_ask(exchange, ask);
}

/* {id} as the number of a redrive; else refuses. */
static bool has_redrive(struct exchange *exchange, struct task_id *ret_id)
{
    if (span_to_int(exchange->name, &ret_id->row) && ret_id->row > 0) {
        return true;
    }
    exchange_refuse(exchange, PROBLEM_REDRIVE_UNKNOWN, SPAN(""), SPAN(""));
    return false;
}

void api_redrive_get(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_REDRIVE_STATE};

    if (has_redrive(exchange, &ask.id)) {
        api_ask(exchange, ask);
    }
}

void api_redrive_cancel(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_REDRIVE_CANCEL};

    if (has_redrive(exchange, &ask.id)) {
        api_ask(exchange, ask);
    }
}

/* --- unsettled --------------------------------------------------------------------------------------- */

static int read_settlement(struct span word, enum settlement *ret_settlement, struct error *err)
{
    static const char *const words[] = {"succeeded", "failed", "not_done"};

    for (int i = 0; i < 3; i++) {
        if (span_is(word, words[i])) {
            *ret_settlement = (enum settlement)i;
            return 0;
        }
    }
    return fail_field(err, FAULT_INPUT, "outcome",
                      "outcome must be one of succeeded, failed, not_done");
}

void api_task_settle(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_SETTLE};
    struct span outcome = {0}, response = {0};
    const struct act_member members[] = {
        {"outcome", ACT_TEXT, &outcome, 0, TASK_LABEL_BYTES_MAX},
        {"response", ACT_VALUE, &response, 0, 0},
        {"note", ACT_TEXT, &ask.note, 0, PARSE_NOTE_BYTES_MAX},
    };
    struct error error = {0};
    struct arena *arena;

    if (!api_has_task(exchange, &ask.id) || (arena = api_arena(exchange)) == NULL) {
        return;
    }
    struct answer *answer = arena_alloc(arena, sizeof *answer);
    int failed = answer == NULL ? fail(&error, FAULT_MEMORY, "no memory for it now")
                                : parse_act(buf_span(&exchange->body), "", members,
                                            sizeof members / sizeof *members, arena, &error);
    failed = failed != 0 ? failed : read_settlement(outcome, &ask.settlement, &error);
    if (failed == 0 && response.len > 0) {
        failed = ask.settlement == SETTLEMENT_NOT_DONE
                     ? fail_field(&error, FAULT_INPUT, "response", "what is not done has none")
                     : parse_answer(response, "response.", arena, answer, &error);
        ask.answer = answer;
    }
    if (failed != 0) {
        exchange_refuse_error(exchange, &error);
        return;
    }
    api_ask(exchange, ask);
}
