/* SPDX-License-Identifier: MIT
 *
 * serve_internal -- the parts of a running server, and who opens which. For src/cli/serve_*.c and
 * cli_serve.c only.
 */
#ifndef CLI_SERVE_INTERNAL_H
#define CLI_SERVE_INTERNAL_H

#include "base/log_writer.h"
#include "base/room.h"
#include "cli/serve_files.h"
#include "cli/serve_providers.h"
#include "cli/serve_watch.h"
#include "config/config.h"
#include "deliver/http.h"
#include "edge/edges.h"
#include "engine/engine.h"
#include "engine/pulse.h"
#include "engine/reader.h"
#include "loop/loop.h"
#include "store/committer.h"

struct serve {
    struct config *config;
    struct serve_files files;
    uint32_t lookups_now; /* of the deliverer */
    struct store *store;
    struct committer *committer;
    uint64_t unknowns; /* of the committer, as the engine was last told */
    struct reader *reader;
    struct reader *counter; /* of a store that others share; NULL: it need not be counted */
    struct pulse *pulse;    /* NULL: the store has one node */
    struct engine *engine;
    struct deliver *deliver;
    struct serve_providers providers;
    struct edges *edges;
    struct room room; /* for callers' bodies: limits.bodies */
    struct edge_renderer renderer;
    struct queue_settings callbacks;
    struct loop *loop;
    struct loop_timer *tick, *drain;
    struct loop_waker *waker;
    struct loop_hook *before_wait;
    struct loop_signal *terminate, *interrupt;
    struct daruma_logger log;
    struct log_writer *log_writer; /* its sink */
    int64_t drain_until_ms;
    int64_t started_at_ms; /* wall clock */
    struct serve_watch watch;
    bool is_draining;
};

/* serve_engine.c: the engine, with what it wants done and its queues. */
int serve_open_engine(struct serve *serve, struct error *err);
int serve_parse_policy(void *user, struct span json, struct arena *arena,
                       struct daruma_policy *ret_policy, struct error *err);

/* serve_edge.c: both listeners. */
int serve_open_edge(struct serve *serve, struct error *err);
int serve_is_ready(void *user, struct error *err); /* a struct serve; else why not */
bool serve_has_gateway(const struct config *config);

#endif
