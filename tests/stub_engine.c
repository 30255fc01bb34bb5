/* SPDX-License-Identifier: MIT
 *
 * stub_engine -- see stub_engine.h.
 */
#include "harness.h"
#include "stub_engine.h"

#include <stdlib.h>

#define ARENA_MAX (64u << 20)

struct engine *stub_engine_new(void)
{
    struct engine *engine = calloc(1, sizeof *engine);

    assert_non_null(engine);
    engine->arena = arena_new(ARENA_MAX);
    assert_non_null(engine->arena);
    return engine;
}

void stub_engine_free(struct engine *engine)
{
    for (size_t i = 0; i < engine->call_count; i++) {
        arena_free(engine->calls[i].submission.arena);
    }
    arena_free(engine->arena);
    free(engine);
}

static void note(struct engine *engine, const struct stub_call *call)
{
    assert_true(engine->call_count < STUB_CALLS_MAX);
    engine->calls[engine->call_count++] = *call;
    if (engine->script != NULL) {
        engine->script(engine->user, &engine->calls[engine->call_count - 1]);
    }
    if (engine->noted != NULL) {
        engine->noted(engine->user);
    }
}

void engine_submit(struct engine *engine, const struct submission *submission)
{
    note(engine, &(struct stub_call){.kind = STUB_SUBMIT,
                                     .exchange = submission->exchange,
                                     .submission = *submission});
}

bool engine_replay(struct engine *engine, const struct submission *submission)
{
    (void)engine, (void)submission;
    return false;
}

void engine_pass(struct engine *engine, const struct submission *submission)
{
    note(engine, &(struct stub_call){.kind = STUB_SUBMIT,
                                     .exchange = submission->exchange,
                                     .submission = *submission});
}

void engine_ask(struct engine *engine, const struct ask *ask)
{
    struct stub_call call = {.kind = STUB_ASK, .exchange = ask->exchange, .ask = *ask};

    call.ask.who = arena_copy(engine->arena, ask->who);
    call.ask.queue = arena_copy(engine->arena, ask->queue);
    call.ask.settings = arena_copy(engine->arena, ask->settings);
    call.ask.filter.label_name = arena_copy(engine->arena, ask->filter.label_name);
    call.ask.filter.label_value = arena_copy(engine->arena, ask->filter.label_value);
    note(engine, &call);
}

void engine_more(struct engine *engine, uint64_t exchange)
{
    note(engine, &(struct stub_call){.kind = STUB_MORE, .exchange = exchange});
}

void engine_leave(struct engine *engine, uint64_t exchange)
{
    note(engine, &(struct stub_call){.kind = STUB_LEAVE, .exchange = exchange});
}

void engine_dismiss(struct engine *engine, uint64_t exchange)
{
    note(engine, &(struct stub_call){.kind = STUB_LEAVE, .exchange = exchange});
}

const struct stub_call *stub_last(const struct engine *engine)
{
    assert_true(engine->call_count > 0);
    return &engine->calls[engine->call_count - 1];
}

size_t stub_count(const struct engine *engine, enum stub_kind kind)
{
    size_t count = 0;

    for (size_t i = 0; i < engine->call_count; i++) {
        count += engine->calls[i].kind == kind;
    }
    return count;
}

size_t engine_hosts(const struct engine *engine, const struct reach *reach, struct host_view *views,
                    size_t max)
{
    (void)engine, (void)reach, (void)views, (void)max;
    return 0;
}
