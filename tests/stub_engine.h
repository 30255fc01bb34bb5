/* SPDX-License-Identifier: MIT
 *
 * stub_engine -- the few functions of the engine that the edge calls, and nothing behind them: each
 * call is noted down, and the test replies at once (from inside the call) or whenever it likes.
 */
#ifndef STUB_ENGINE_H
#define STUB_ENGINE_H

#include "engine/engine.h"

#define STUB_CALLS_MAX 4096

enum stub_kind { STUB_SUBMIT, STUB_ASK, STUB_MORE, STUB_LEAVE };

/* Spans live until the stub is freed. */
struct stub_call {
    enum stub_kind kind;
    uint64_t exchange;
    struct submission submission;
    struct ask ask;
};

/* Called for each call, from inside it. */
typedef void (*stub_script_fn)(void *user, const struct stub_call *call);

struct engine {
    struct stub_call calls[STUB_CALLS_MAX];
    size_t call_count;
    struct arena *arena; /* what asks point at */
    stub_script_fn script;
    void (*noted)(void *user); /* after each call; NULL: nobody is told */
    void *user;                /* of both */
};

struct engine *stub_engine_new(void); /* or the test fails */
void stub_engine_free(struct engine *engine);

/* The latest call; the test fails when there is none. */
const struct stub_call *stub_last(const struct engine *engine);
size_t stub_count(const struct engine *engine, enum stub_kind kind);

#endif
