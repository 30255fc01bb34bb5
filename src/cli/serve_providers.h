/* SPDX-License-Identifier: MIT
 *
 * serve_providers -- the part of `daruma serve` that puts the AI providers in front of the HTTP
 * deliverer: their timer on the loop, their alerts in the log, their counts for the metrics.
 */
#ifndef CLI_SERVE_PROVIDERS_H
#define CLI_SERVE_PROVIDERS_H

#include "config/config.h"
#include "deliver/http.h"
#include "deliver/providers.h"
#include "loop/loop.h"

struct serve_providers {
    /* Filled in by the caller. */
    const struct config *config;
    struct http_options http;
    struct loop *loop;
    const struct daruma_logger *log;
    deliver_done_fn done;
    void *user;
    /* Its own. */
    struct providers *providers;
    struct loop_timer *timer;
    struct provider_stats *stats; /* one for each, filled in by serve_providers_stats */
};

/* Opens both deliverers; *ret_deliver is what the engine sends with, and closing it closes both. It
 * may be set when this fails, and then is to be closed as well. */
int serve_providers_open(struct serve_providers *own, struct deliver **ret_deliver,
                         struct error *err) __attribute__((warn_unused_result));
/* After the deliverer was closed. */
void serve_providers_close(struct serve_providers *own);

const struct provider_stats *serve_providers_stats(struct serve_providers *own, size_t *ret_count);

#endif
