/* SPDX-License-Identifier: MIT
 *
 * api_leases -- for workers that pull: taking tasks, and saying what came of them. A lease is told
 * as TASK.FENCE.EPOCH; what does not look like that is stale, like one that is lost: a word about it
 * must not be an error for the others.
 */
#include "edge/api.h"
#include "edge/crossing.h"
#include "edge/parse_act.h"

#include "base/json_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LEASE_DELAY_MAX_MS ENGINE_DUE_MAX_MS
#define PREFIX_MAX         32 /* "retries[999]." */
#define INNER_PREFIX_MAX   48 /* "retries[999].response." */

void lease_format(const struct record *record, char ret_text[LEASE_TEXT_MAX])
{
    char id[ID_TEXT_LEN + 1];

    id_format(record->task.id, id);
    (void)snprintf(ret_text, LEASE_TEXT_MAX, "%s.%" PRIu64 ".%" PRIu64, id, record->life.fence,
                   record->life.epoch); /* fits */
}

static void lease_parse(struct span text, struct lease_word *word)
{
    struct span rest = text, id, fence;
    int64_t fence_number, epoch_number;

    if (span_cut(&rest, '.', &id) && span_cut(&rest, '.', &fence) && id_parse(id, &word->id) &&
        span_to_int(fence, &fence_number) && span_to_int(rest, &epoch_number)) {
        word->fence = (uint64_t)fence_number;
        word->epoch = (uint64_t)epoch_number;
        return;
    }
    word->id = (struct task_id){0};
}

/* --- taking ------------------------------------------------------------------------------------------ */

void api_lease_take(struct exchange *exchange)
{
    int64_t max = 1, wait_ms = 0;
    struct ask ask = {.kind = ASK_LEASE};
    const struct act_member members[] = {
        {"max", ACT_INT, &max, 1, ENGINE_LEASES_MAX},
        {"lease_ms", ACT_INT, &ask.lease_ms, QUEUE_LEASE_MIN_MS, QUEUE_LEASE_MAX_MS},
        {"wait_ms", ACT_INT, &wait_ms, 0, ENGINE_WAIT_MAX_MS},
    };
    struct error error = {0};
    struct arena *arena;

    if (!api_has_queue(exchange) || (arena = api_arena(exchange)) == NULL) {
        return;
    }
    if (parse_act(buf_span(&exchange->body), "", members, sizeof members / sizeof *members, arena,
                  &error) != 0) {
        exchange_refuse_error(exchange, &error);
        return;
    }
    ask.lease_max = (size_t)max;
    ask.wait_ms = exchange->edge->is_draining ? 0 : wait_ms;
    if (ask.wait_ms > 0 && !edge_start_waiting(exchange, (struct task_id){0})) {
        exchange_refuse(exchange, PROBLEM_OVERLOADED, SPAN("too many callers wait for tasks"),
                        SPAN(""));
        return;
    }
    api_ask(exchange, ask);
}

/* --- settling ---------------------------------------------------------------------------------------- */

/* The words so far. */
struct words {
    struct lease_word *words;
    size_t count;
    struct arena *arena;
    struct error *err;
};

static int refuse_class(struct words *words, const char *prefix)
{
    char field[ERROR_FIELD_MAX];

    (void)snprintf(field, sizeof field, "%sclass", prefix); /* fits */
    return fail_field(words->err, FAULT_INPUT, field,
                      "%s must be one of transient, rate_limited, quota, auth, invalid, gone, "
                      "expired",
                      field);
}

static int read_error(struct words *words, struct span json, const char *of,
                      struct lease_word *word)
{
    char prefix[INNER_PREFIX_MAX];
    struct span name = {0};
    const struct act_member members[] = {
        {"class", ACT_TEXT, &name, 0, TASK_LABEL_BYTES_MAX},
        {"message", ACT_TEXT, &word->text, 0, INT64_MAX},
    };

    (void)snprintf(prefix, sizeof prefix, "%serror.", of); /* fits */
    int failed = parse_act(json, prefix, members, sizeof members / sizeof *members, words->arena,
                           words->err);
    word->text = span_until(word->text, TASK_MESSAGE_MAX);
    if (failed == 0 && name.at != NULL && !parse_class(name, &word->error_class)) {
        return refuse_class(words, prefix);
    }
    return failed;
}

static int read_response(struct words *words, struct span json, const char *of,
                         struct lease_word *word)
{
    struct answer *answer = arena_alloc(words->arena, sizeof *answer);
    char prefix[INNER_PREFIX_MAX];

    (void)snprintf(prefix, sizeof prefix, "%sresponse.", of); /* fits */
    word->answer = answer;
    return answer == NULL ? fail(words->err, FAULT_MEMORY, "no memory for it now")
                          : parse_answer(json, prefix, words->arena, answer, words->err);
}

/* One lease and what is said of it; `prefix` is where it stands: "acks[3].". */
static int read_word(struct words *words, struct span json, const char *prefix,
                     enum lease_word_kind kind)
{
    struct lease_word word = {.kind = kind, .delay_ms = -1};
    struct span response = {0}, error = {0};
    const struct act_member lease = {"lease", ACT_TEXT, &word.lease, 0, LEASE_TEXT_MAX};
    const struct act_member members[][3] = {
        [LEASE_ACK] = {lease, {"response", ACT_VALUE, &response, 0, 0}},
        [LEASE_RETRY] = {lease,
                         {"delay_ms", ACT_INT, &word.delay_ms, 0, LEASE_DELAY_MAX_MS},
                         {"error", ACT_VALUE, &error, 0, 0}},
        [LEASE_EXTEND] = {lease,
                          {"lease_ms", ACT_INT, &word.lease_ms, QUEUE_LEASE_MIN_MS,
                           QUEUE_LEASE_MAX_MS}},
    };
    int failed = parse_act(json, prefix, members[kind], kind == LEASE_RETRY ? 3 : 2, words->arena,
                           words->err);

    if (failed == 0 && word.lease.len == 0) {
        char field[ERROR_FIELD_MAX];
        (void)snprintf(field, sizeof field, "%slease", prefix); /* fits */
        failed = fail_field(words->err, FAULT_INPUT, field, "%s must be given", field);
    }
    if (failed == 0 && error.len > 0) {
        failed = read_error(words, error, prefix, &word);
    }
    if (failed == 0 && response.len > 0) {
        failed = read_response(words, response, prefix, &word);
    }
    lease_parse(word.lease, &word);
    words->words[words->count++] = word;
    return failed;
}

static int read_words(struct words *words, struct span json, const char *field,
                      enum lease_word_kind kind)
{
    struct json_walk walk;
    struct span name, value;
    int failed = 0;

    if (json.len == 0) {
        return 0;
    }
    if (!json_walk_begin(&walk, json, '[')) {
        return fail_field(words->err, FAULT_INPUT, field, "%s must be a list", field);
    }
    for (size_t i = 0; failed == 0 && json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE;
         i++) {
        char prefix[PREFIX_MAX];
        (void)snprintf(prefix, sizeof prefix, "%s[%zu].", field, i); /* fits */
        if (words->count == ENGINE_LEASE_WORDS_MAX) {
            return fail_field(words->err, FAULT_INPUT, field, "at most %d leases in one call",
                              ENGINE_LEASE_WORDS_MAX);
        }
        failed = read_word(words, value, prefix, kind);
    }
    return failed;
}

void api_lease_settle(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_LEASE_SETTLE};
    struct span acks = {0}, retries = {0}, extend = {0};
    const struct act_member members[] = {
        {"acks", ACT_VALUE, &acks, 0, 0},
        {"retries", ACT_VALUE, &retries, 0, 0},
        {"extend", ACT_VALUE, &extend, 0, 0},
    };
    struct error error = {0};
    struct arena *arena;

    exchange->arena =
        arena_new(4 * exchange->body.len + 2 * ENGINE_LEASE_WORDS_MAX * sizeof(struct lease_word));
    if ((arena = api_arena(exchange)) == NULL) {
        return;
    }
    struct words words = {
        .words = arena_alloc(arena, ENGINE_LEASE_WORDS_MAX * sizeof(struct lease_word)),
        .arena = arena,
        .err = &error};
    int failed = words.words == NULL ? fail(&error, FAULT_MEMORY, "no memory for it now")
                                     : parse_act(buf_span(&exchange->body), "", members,
                                                 sizeof members / sizeof *members, arena, &error);
    failed = failed != 0 ? failed : read_words(&words, acks, "acks", LEASE_ACK);
    failed = failed != 0 ? failed : read_words(&words, retries, "retries", LEASE_RETRY);
    failed = failed != 0 ? failed : read_words(&words, extend, "extend", LEASE_EXTEND);
    if (failed != 0) {
        exchange_refuse_error(exchange, &error);
        return;
    }
    ask.words = words.words;
    ask.word_count = words.count;
    api_ask(exchange, ask);
}

/* --- nobody is there ------------------------------------------------------------------------------------ */

/* Leases whose worker has gone before they could be told: they go back, in the next turn. */
void lease_returns_note(struct lease_return **returns, const struct record *records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct lease_return *back = malloc(sizeof *back);
        if (back == NULL) {
            return; /* they come back when they are over */
        }
        *back = (struct lease_return){.next = *returns,
                                      .word = {.kind = LEASE_RETURN,
                                               .id = records[i].task.id,
                                               .fence = records[i].life.fence,
                                               .epoch = records[i].life.epoch,
                                               .delay_ms = -1}};
        *returns = back;
    }
}

void leases_return(struct edge *edge, const struct record *records, size_t count)
{
    if (edge->crossing == NULL) {
        lease_returns_note(&edge->returns, records, count);
    } else {
        crossing_return(edge->crossing, records, count);
    }
}

void leases_flush_returns(struct lease_return **returns, struct engine *engine)
{
    while (*returns != NULL) {
        struct lease_return *back = *returns;
        *returns = back->next;
        engine_ask(engine,
                   &(struct ask){.kind = ASK_LEASE_SETTLE, .words = &back->word, .word_count = 1});
        free(back);
    }
}
