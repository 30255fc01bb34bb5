/* SPDX-License-Identifier: MIT
 *
 * memos -- see memos_internal.h.
 */
#include "engine/memos_internal.h"
#include "task/fields.h"

#include <inttypes.h>
#include <stdio.h>

struct span memos_name(const char *prefix, uint64_t id, char text[MEMO_NAME_BYTES])
{
    (void)snprintf(text, MEMO_NAME_BYTES, "%s:%" PRIu64, prefix, id); /* prefixes are short */
    return span_of(text);
}

bool memos_is(struct span name, const char *prefix, uint64_t *ret_id)
{
    struct span rest = name, first;
    int64_t id = 0;

    if (!span_cut(&rest, ':', &first) || !span_is(first, prefix) || !span_to_int(rest, &id)) {
        return false;
    }
    *ret_id = (uint64_t)id;
    return true;
}

int memos_add_number(struct buf *fields, const char *name, int64_t number)
{
    char digits[24];

    (void)snprintf(digits, sizeof digits, "%" PRId64, number); /* fits */
    return fields_add(fields, span_of(name), span_of(digits));
}

int64_t memos_number(struct span fields, const char *name)
{
    struct span value;
    int64_t number = 0;

    if (fields_find(fields, name, &value)) {
        (void)span_to_int(value, &number); /* we wrote it; else 0 stays */
    }
    return number;
}

struct errand *memos_errand(struct engine *engine, struct span name, struct span value)
{
    struct errand *errand = errand_new(engine, OP_MEMO);

    if (errand == NULL) {
        return NULL;
    }
    errand->op.memo.name = arena_copy(errand->arena, name);
    errand->op.memo.value = arena_copy(errand->arena, value);
    if (errand->op.memo.name.at == NULL || errand->op.memo.value.at == NULL) {
        errand_free(errand);
        return NULL;
    }
    return errand;
}

struct errand *memos_only_while(struct errand *errand, const struct memo_condition *condition)
{
    if (errand == NULL) {
        return NULL;
    }
    struct memo_condition *only = &errand->only_while;
    *only = *condition;
    only->name = arena_copy(errand->arena, condition->name);
    only->value = arena_copy(errand->arena, condition->value);
    if (only->name.at == NULL || only->value.at == NULL) {
        errand_free(errand);
        return NULL;
    }
    errand->op.only_while = only;
    return errand;
}

static void forgotten(struct engine *engine, struct errand *errand)
{
    (void)engine;
    errand_free(errand);
}

static void forget(struct engine *engine, struct errand *errand)
{
    if (errand != NULL) {
        errand->then = forgotten;
        errand->op.is_patient = true;
    }
    (void)errand_start(engine, errand); /* no room: it is forgotten once this node is dead */
}

void memos_forget(struct engine *engine, struct span name)
{
    forget(engine, memos_errand(engine, name, SPAN("")));
}

void memos_forget_as_is(struct engine *engine, const struct memo *memo)
{
    const struct memo_condition as_is = {.name = memo->name, .value = memo->value};

    forget(engine, memos_only_while(memos_errand(engine, memo->name, SPAN("")), &as_is));
}

bool memos_find(const struct read *read, const char *prefix, uint64_t id, struct span *ret_value)
{
    for (size_t i = 0; i < read->memo_count; i++) {
        uint64_t found;
        if (memos_is(read->memos[i].name, prefix, &found) && found == id) {
            *ret_value = read->memos[i].value;
            return true;
        }
    }
    return false;
}

/* The memos were read after the nodes were: a node with an epoch never seen before has joined in between. */
bool memos_is_live(const struct read *read, struct span value)
{
    uint64_t epoch = (uint64_t)memos_number(value, "epoch");

    for (size_t i = 0; i < read->live_count; i++) {
        if (read->live[i] == epoch) {
            return true;
        }
    }
    return epoch > read->live[read->live_count];
}
