/* SPDX-License-Identifier: MIT
 *
 * parse_lease -- see parse_lease.h.
 */
#include "edge/parse_lease.h"

#include "base/json_value.h"
#include "edge/parse_act.h"

#include <stdio.h>

#define ARENA_EXTRA      65536
#define PREFIX_MAX       32 /* "retries[999]." */
#define INNER_PREFIX_MAX 48 /* "retries[999].response." */

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
                         {"delay_ms", ACT_INT, &word.delay_ms, 0, ENGINE_DUE_MAX_MS},
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
    if (failed == 0) {
        lease_parse(word.lease, &word);
        words->words[words->count++] = word;
    }
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

struct arena *parse_lease_arena(size_t json_bytes)
{
    return arena_new(4 * json_bytes + ENGINE_LEASE_WORDS_MAX * sizeof(struct lease_word) +
                     ARENA_EXTRA);
}

int parse_lease_words(struct span json, struct arena *arena, const struct lease_word **ret_words,
                      size_t *ret_count, struct error *err)
{
    struct span acks = {0}, retries = {0}, extend = {0};
    const struct act_member members[] = {
        {"acks", ACT_VALUE, &acks, 0, 0},
        {"retries", ACT_VALUE, &retries, 0, 0},
        {"extend", ACT_VALUE, &extend, 0, 0},
    };
    struct words words = {
        .words = arena_alloc(arena, ENGINE_LEASE_WORDS_MAX * sizeof(struct lease_word)),
        .arena = arena,
        .err = err};
    int failed = words.words == NULL
                     ? fail(err, FAULT_MEMORY, "no memory for it now")
                     : parse_act(json, "", members, sizeof members / sizeof *members, arena, err);

    failed = failed != 0 ? failed : read_words(&words, acks, "acks", LEASE_ACK);
    failed = failed != 0 ? failed : read_words(&words, retries, "retries", LEASE_RETRY);
    failed = failed != 0 ? failed : read_words(&words, extend, "extend", LEASE_EXTEND);
    if (failed == 0) {
        *ret_words = words.words;
        *ret_count = words.count;
    }
    return failed;
}
