/* SPDX-License-Identifier: MIT
 *
 * render -- a queue as JSON that reads back to the same settings (config.h). A class whose rule is
 * what it would be anyway is left out, so that what is shown is what matters.
 */
#include "config/config.h"
#include "config/providers_internal.h"
#include "config/units_internal.h"

#include "base/auto.h"
#include "task/fields.h"
#include "task/secrets.h"

#include <inttypes.h>

#define URL_SHOWN_MAX (4 * CONFIG_URL_MAX)

enum shown { SHOW_VALUES, HIDE_VALUES };

/* The first failure is kept; what comes after it does nothing. */
struct render {
    struct buf *json;
    int failed;
};

static void put(struct render *render, const char *text)
{
    if (render->failed == 0) {
        render->failed = buf_add(render->json, span_of(text));
    }
}

static void put_span(struct render *render, struct span text)
{
    if (render->failed == 0) {
        render->failed = buf_add(render->json, text);
    }
}

/* Settings hold no control characters: schema.c. */
static bool needs_escape(char byte)
{
    return byte == '"' || byte == '\\';
}

static void put_string(struct render *render, struct span text)
{
    put(render, "\"");
    for (size_t start = 0; start < text.len && render->failed == 0;) {
        size_t end = start;
        while (end < text.len && !needs_escape(text.at[end])) {
            end++;
        }
        put_span(render, (struct span){.at = text.at + start, .len = end - start});
        if (end < text.len && render->failed == 0) {
            render->failed = buf_addf(render->json, "\\%c", text.at[end]);
        }
        start = end + 1;
    }
    put(render, "\"");
}

/* `key` has its comma or bracket before it. */
static void put_text(struct render *render, const char *key, struct span text)
{
    put(render, key);
    put_string(render, text);
}

static void put_duration(struct render *render, const char *key, uint64_t ms)
{
    char text[UNITS_TEXT_MAX];

    put_text(render, key, span_of(duration_format((int64_t)ms, text)));
}

static void put_number(struct render *render, const char *key, double number)
{
    char text[UNITS_TEXT_MAX];

    put(render, key);
    put(render, number_format(number, text));
}

static void put_count(struct render *render, const char *key, uint32_t count)
{
    if (render->failed == 0) {
        render->failed = buf_addf(render->json, "%s%" PRIu32, key, count);
    }
}

/* --- policies -------------------------------------------------------------------------------- */

static bool is_same_backoff(const struct daruma_backoff *one, const struct daruma_backoff *other)
{
    if (one->kind != other->kind || one->jitter != other->jitter ||
        one->base_ms != other->base_ms || one->max_ms != other->max_ms ||
        one->jitter_factor != other->jitter_factor || one->doublings != other->doublings ||
        one->schedule_count != other->schedule_count) {
        return false;
    }
    return one->schedule_count == 0 || memcmp(one->schedule_ms, other->schedule_ms,
                                              one->schedule_count * sizeof *one->schedule_ms) == 0;
}

static bool is_same_rule(const struct daruma_rule *one, const struct daruma_rule *other)
{
    return one->hint_cap_ms == other->hint_cap_ms && one->attempts_max == other->attempts_max &&
           is_same_backoff(&one->backoff, &other->backoff);
}

static void put_jitter(struct render *render, const struct daruma_backoff *backoff)
{
    static const char *const words[] = {
        [DARUMA_JITTER_NONE] = "none",
        [DARUMA_JITTER_FULL] = "full",
        [DARUMA_JITTER_EQUAL] = "equal",
        [DARUMA_JITTER_DECORRELATED] = "decorrelated",
    };

    if (backoff->jitter == DARUMA_JITTER_FACTOR) {
        put_number(render, ",\"jitter\":", backoff->jitter_factor);
    } else if (backoff->jitter != DARUMA_JITTER_DEFAULT) { /* a checked policy has no default */
        put_text(render, ",\"jitter\":", span_of(words[backoff->jitter]));
    }
}

static void put_kind(struct render *render, const struct daruma_backoff *backoff)
{
    static const char *const words[] = {
        [DARUMA_BACKOFF_EXPONENTIAL] = "exponential", [DARUMA_BACKOFF_FIXED] = "fixed",
        [DARUMA_BACKOFF_LINEAR] = "linear",           [DARUMA_BACKOFF_SCHEDULE] = "schedule",
        [DARUMA_BACKOFF_DOUBLINGS] = "doublings",
    };

    put_text(render, "\"backoff\":", span_of(words[backoff->kind]));
    if (backoff->kind == DARUMA_BACKOFF_DOUBLINGS) {
        put_count(render, ",\"doublings\":", backoff->doublings);
    }
    if (backoff->kind == DARUMA_BACKOFF_SCHEDULE) {
        for (uint32_t i = 0; i < backoff->schedule_count; i++) {
            put_duration(render, i == 0 ? ",\"schedule\":[" : ",", backoff->schedule_ms[i]);
        }
        put(render, "]");
    }
}

static void put_rule(struct render *render, const char *word, const struct daruma_rule *rule)
{
    const struct daruma_backoff *backoff = &rule->backoff;
    bool is_schedule = backoff->kind == DARUMA_BACKOFF_SCHEDULE;

    put(render, ",\"");
    put(render, word);
    put(render, "\":{");
    put_kind(render, backoff);
    if (!is_schedule || backoff->base_ms != DARUMA_POLICY_BASE_MS) {
        put_duration(render, ",\"base\":", backoff->base_ms);
    }
    if (backoff->max_ms != 0) {
        put_duration(render, ",\"cap\":", backoff->max_ms);
    }
    put_jitter(render, backoff);
    if (rule->attempts_max != 0) {
        put_count(render, ",\"max_attempts\":", rule->attempts_max);
    }
    if (rule->hint_cap_ms != DARUMA_HINT_CAP_MS) {
        put_duration(render, ",\"hint_cap\":", rule->hint_cap_ms);
    }
    put(render, "}");
}

/* What a class without a rule of its own gets: transient's, or one attempt. */
static bool is_implied(const struct daruma_policy *policy, const struct daruma_policy *plain, int i)
{
    const struct daruma_rule *implied = plain->rules[i].attempts_max == 1
                                            ? &plain->rules[i]
                                            : &policy->rules[DARUMA_CLASS_TRANSIENT];

    return i != DARUMA_CLASS_TRANSIENT && is_same_rule(&policy->rules[i], implied);
}

static void put_policy(struct render *render, const struct daruma_policy *policy)
{
    struct daruma_policy plain;

    (void)daruma_policy_create(NULL, &plain, NULL); /* the defaults are always valid */
    put_count(render, "{\"max_attempts\":", policy->attempts_max);
    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        if (!is_implied(policy, &plain, i)) {
            put_rule(render, daruma_class_text((enum daruma_class)i), &policy->rules[i]);
        }
    }
    put(render, "}");
}

/* --- queues ---------------------------------------------------------------------------------- */

static void put_headers(struct render *render, struct span headers, enum shown shown)
{
    struct span name, value;
    bool is_first = true;

    put(render, ",\"headers\":[");
    while (fields_next(&headers, &name, &value)) {
        put_text(render, is_first ? "{\"name\":" : ",{\"name\":", name);
        put_text(render, ",\"value\":", shown == SHOW_VALUES ? value : SPAN(CONFIG_HIDDEN));
        put(render, "}");
        is_first = false;
    }
    put(render, "]");
}

static void put_url(struct render *render, struct span url, enum shown shown)
{
    AUTO(buf_done) struct buf hidden;

    buf_init(&hidden, URL_SHOWN_MAX);
    if (shown == HIDE_VALUES && render->failed == 0) {
        render->failed = secrets_add_url(&hidden, url);
    }
    put_text(render, ",\"url\":", shown == HIDE_VALUES ? buf_span(&hidden) : url);
}

static void put_target(struct render *render, const struct target *target, enum shown shown)
{
    put_text(render, "{\"name\":", target->name);
    put_url(render, target->url, shown);
    if (target->method.len > 0) {
        put_text(render, ",\"method\":", target->method);
    }
    if (target->headers.len > 0) {
        put_headers(render, target->headers, shown);
    }
    put_duration(render, ",\"timeout\":", (uint64_t)target->timeout_ms);
    put(render, target->repeatable ? ",\"repeatable\":true" : ",\"repeatable\":false");
    if (target->ca.len > 0) {
        put_text(render, ",\"ca\":", target->ca);
    }
    for (size_t i = 0; i < target->sign_count; i++) {
        put_text(render, i == 0 ? ",\"sign\":[" : ",", target->sign[i].reference);
    }
    put(render, target->sign_count > 0 ? "]" : "");
    put(render, "}");
}

static void put_fallback(struct render *render, const struct fallback *fallback)
{
    for (size_t i = 0; i < fallback->provider_count; i++) {
        put_text(render, i == 0 ? ",\"fallback\":[" : ",", fallback->providers[i]->name);
    }
    put_text(render, "],\"order\":", span_of(fallback_order_text((int)fallback->order)));
    put_duration(render, ",\"wait_under\":", (uint64_t)fallback->wait_under_ms);
}

static int render_queue(const struct queue_settings *settings, struct buf *json, enum shown shown)
{
    struct render render = {.json = json};
    size_t before = json->len;

    put_text(&render, "{\"name\":", settings->name);
    put(&render, ",\"policy\":");
    put_policy(&render, &settings->policy);
    put(&render, ",\"targets\":[");
    for (size_t i = 0; i < settings->target_count; i++) {
        put(&render, i > 0 ? "," : "");
        put_target(&render, &settings->targets[i], shown);
    }
    put(&render, "]");
    if (settings->fallback != NULL) {
        put_fallback(&render, settings->fallback);
    }
    if (settings->rate_per_second > 0) {
        put_number(&render, ",\"rate\":{\"per_second\":", settings->rate_per_second);
        put_number(&render, ",\"burst\":", settings->rate_burst);
        put(&render, "}");
    }
    if (settings->outage_after > 0) {
        put_count(&render, ",\"outage\":{\"after_failures\":", settings->outage_after);
        put_duration(&render, ",\"try_every\":", (uint64_t)settings->outage_try_ms);
        put(&render, "}");
    }
    put_count(&render, ",\"concurrency\":", settings->concurrency);
    put_count(&render, ",\"host_concurrency\":", settings->host_concurrency);
    put_duration(&render, ",\"lease\":", (uint64_t)settings->lease_ms);
    put(&render, "}");
    if (render.failed != 0) {
        json->len = before;
    }
    return render.failed;
}

int config_render_queue(const struct queue_settings *settings, struct buf *json)
{
    return render_queue(settings, json, SHOW_VALUES);
}

int config_show_queue(const struct queue_settings *settings, struct buf *json)
{
    return render_queue(settings, json, HIDE_VALUES);
}
