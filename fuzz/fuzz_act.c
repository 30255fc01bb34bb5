/* SPDX-License-Identifier: MIT
 *
 * fuzz_act -- the small objects that acts come with, as anybody may write them: edits of a letter,
 * answers that somebody vouches for, what workers say of their leases, a redrive of many. The first
 * byte says which. What must hold for any input: it is refused with a reason that renders as JSON, or
 * what comes out keeps to every rule that delivery, the engine and the stores rely on.
 */
#include "edge/parse_act.h"
#include "edge/parse_lease.h"
#include "edge/problem.h"
#include "task/fields.h"
#include "task/url.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define ARENA_EXTRA 65536

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

static void holds(bool claim, const char *text)
{
    if (!claim) {
        fprintf(stderr, "does not hold: %s\n", text);
        abort();
    }
}

#define HOLDS(claim) holds((claim), #claim)

static void check_fields(struct span fields)
{
    struct span name, value;

    while (fields_next(&fields, &name, &value)) {
        HOLDS(fields_name_is_token(name));
        HOLDS(fields_value_is_clean(value));
    }
}

static void check_refused(int failed, const struct error *error)
{
    struct buf out;
    struct writer writer = {.out = &out};

    HOLDS(failed == FAULT_INPUT && error->fault == failed && error->text[0] != '\0');
    buf_init(&out, 65536);
    problem_write(&writer, problem_of_fault(failed), problem_detail(error), span_of(error->field));
    HOLDS(writer.failed == 0);
    json_t *read = json_loadb(out.at, out.len, 0, NULL);
    HOLDS(read != NULL);
    json_decref(read);
    buf_done(&out);
}

static void check_edit(struct span text, struct arena *arena)
{
    struct edit edit = {0};
    struct error error = {0};
    int failed = parse_edit(text, arena, &edit, &error);

    if (failed != 0) {
        check_refused(failed, &error);
        return;
    }
    HOLDS((edit.parts & ~(unsigned)(EDIT_TARGET | EDIT_HEADERS | EDIT_BODY)) == 0);
    HOLDS((edit.parts & EDIT_TARGET) == 0 || url_refuse(edit.target) == NULL);
    HOLDS((edit.parts & EDIT_TARGET) != 0 || edit.target.len == 0);
    HOLDS((edit.parts & EDIT_BODY) != 0 || edit.body.len == 0);
    HOLDS((edit.parts & EDIT_HEADERS) != 0 || edit.headers.len == 0);
    check_fields(edit.headers);
}

static void check_answer_given(const struct answer *answer)
{
    HOLDS(answer->status >= 100 && answer->status <= 599);
    check_fields(answer->headers);
}

static void check_answer(struct span text, struct arena *arena)
{
    struct answer answer = {0};
    struct error error = {0};
    int failed = parse_answer(text, "response.", arena, &answer, &error);

    if (failed != 0) {
        check_refused(failed, &error);
    } else {
        check_answer_given(&answer);
    }
}

static void check_word(const struct lease_word *word)
{
    HOLDS(word->kind == LEASE_ACK || word->kind == LEASE_RETRY || word->kind == LEASE_EXTEND);
    HOLDS(word->lease.len > 0 && word->lease.len <= LEASE_TEXT_MAX);
    HOLDS(word->text.len <= TASK_MESSAGE_MAX);
    HOLDS(word->delay_ms >= -1 && word->delay_ms <= ENGINE_DUE_MAX_MS);
    HOLDS(word->lease_ms == 0 ||
          (word->lease_ms >= QUEUE_LEASE_MIN_MS && word->lease_ms <= QUEUE_LEASE_MAX_MS));
    HOLDS(word->kind == LEASE_ACK || word->answer == NULL);
    HOLDS((unsigned)word->error_class < DARUMA_CLASS_COUNT);
    if (word->answer != NULL) {
        check_answer_given(word->answer);
    }
}

static void check_words(struct span text)
{
    struct arena *arena = parse_lease_arena(text.len);
    const struct lease_word *words = NULL;
    struct error error = {0};
    size_t count = 0;
    int failed = parse_lease_words(text, arena, &words, &count, &error);

    if (failed != 0) {
        check_refused(failed, &error);
    }
    HOLDS(count <= ENGINE_LEASE_WORDS_MAX);
    for (size_t i = 0; i < count; i++) {
        check_word(&words[i]);
    }
    arena_free(arena);
}

/* Every kind of member. */
static void check_act(struct span text, struct arena *arena)
{
    struct span note = {0}, filter = {0};
    int64_t max = 1, since_ms = 0;
    double rate = 1;
    bool dry_run = false;
    const struct act_member members[] = {
        {"note", ACT_TEXT, &note, 0, 20},     {"max", ACT_INT, &max, 1, 1000},
        {"rate", ACT_NUMBER, &rate, 0, 5},    {"dry_run", ACT_BOOL, &dry_run, 0, 0},
        {"since", ACT_TIME, &since_ms, 0, 0}, {"filter", ACT_VALUE, &filter, 0, 0},
    };
    struct error error = {0};
    int failed = parse_act(text, "", members, sizeof members / sizeof *members, arena, &error);

    if (failed != 0) {
        check_refused(failed, &error);
        return;
    }
    HOLDS(note.len <= 20 && max >= 1 && max <= 1000 && rate > 0 && rate <= 5);
    if (filter.len > 0) {
        failed = parse_act(filter, "filter.", members, 1, arena, &error);
        if (failed != 0) {
            check_refused(failed, &error);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    struct span text = {.at = (const char *)input + 1, .len = length > 0 ? length - 1 : 0};
    struct arena *arena = arena_new(4 * length + ARENA_EXTRA);

    HOLDS(arena != NULL);
    switch (length > 0 ? input[0] % 4 : 0) {
    case 0:
        check_edit(text, arena);
        break;
    case 1:
        check_answer(text, arena);
        break;
    case 2:
        check_words(text);
        break;
    default:
        check_act(text, arena);
        break;
    }
    arena_free(arena);
    return 0;
}
