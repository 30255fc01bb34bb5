/* SPDX-License-Identifier: MIT
 *
 * serve_providers -- see serve_providers.h.
 */
#include "cli/serve_providers.h"

#include <stdlib.h>

static void on_timer(void *user)
{
    providers_tick(((struct serve_providers *)user)->providers);
}

static void wake_at(void *user, int64_t at_ms)
{
    loop_timer_set(((struct serve_providers *)user)->timer, at_ms);
}

/* Which key it is, never the key itself (I10). */
static void log_key(const struct daruma_logger *log, const struct provider_alert *alert)
{
    const struct span name = alert->settings->name;

    DARUMA_LOG(log, DARUMA_LOG_WARN, "provider_key_dead",
               daruma_log_bytes("provider", name.at, name.len), daruma_log_uint("key", alert->key),
               daruma_log_text("fingerprint", alert->fingerprint),
               daruma_log_int("status", alert->status),
               daruma_log_text("reason", provider_trouble_text(alert->trouble)));
}

static void log_alert(void *user, const struct provider_alert *alert)
{
    const struct daruma_logger *log = ((struct serve_providers *)user)->log;
    const struct provider_settings *settings = alert->settings;

    if (alert->key > 0) {
        log_key(log, alert);
        return;
    }
    DARUMA_LOG(log, DARUMA_LOG_WARN, "provider_unusable",
               daruma_log_bytes("provider", settings->name.at, settings->name.len),
               daruma_log_text("reason", provider_trouble_text(alert->trouble)),
               daruma_log_int("status", alert->status),
               daruma_log_bytes("model", settings->model.at, settings->model.len),
               daruma_log_int("rest_ms", alert->rest_ms));
}

static int open_inner(struct serve_providers *own, struct error *err)
{
    struct deliver *inner = NULL;
    int failed = loop_timer_new(own->loop, on_timer, own, &own->timer, err);

    if (failed == 0) {
        failed = http_deliver_open(&own->http, own->loop, providers_delivered, own->providers,
                                   &inner, err);
    }
    if (failed == 0) {
        providers_set_inner(own->providers, inner);
    }
    return failed;
}

int serve_providers_open(struct serve_providers *own, struct deliver **ret_deliver,
                         struct error *err)
{
    const struct providers_options options = {.providers = own->config->providers,
                                              .provider_count = own->config->provider_count,
                                              .wake_at = wake_at,
                                              .alert = log_alert,
                                              .user = own};

    own->stats = calloc(options.provider_count + 1, sizeof *own->stats);
    if (own->stats == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for the providers");
    }
    int failed = providers_open(&options, own->done, own->user, &own->providers, err);
    if (failed == 0) {
        *ret_deliver = providers_deliver(own->providers);
        failed = open_inner(own, err);
    }
    return failed;
}

void serve_providers_close(struct serve_providers *own)
{
    loop_timer_free(own->timer);
    free(own->stats);
    *own = (struct serve_providers){0};
}

const struct provider_stats *serve_providers_stats(struct serve_providers *own, size_t *ret_count)
{
    size_t count = providers_count(own->providers);

    for (size_t i = 0; i < count; i++) {
        providers_stats(own->providers, i, &own->stats[i]);
    }
    *ret_count = count;
    return own->stats;
}
