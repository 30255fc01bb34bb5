/* SPDX-License-Identifier: MIT
 *
 * leases -- see leases.h. Calls that fail are retried; what is not settled in the end comes back by
 * itself when its lease is over, and is done again: a queue that is pulled from gives each task at
 * least once, and a worker has to bear a second time.
 */
#include "leases.h"

#include <daruma/policy.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALL_TIMEOUT_MS  10000
#define TAKE_RETRIES     4  /* then the caller hears of it, and asks again */
#define SETTLE_RETRIES   10 /* some 50 seconds: the server may be restarting */
#define BEATS_IN_A_LEASE 3
#define URL_BYTES_MAX    1024

/* --- calling ----------------------------------------------------------------------------------------- */

/* Takes the body. */
static int post(const struct leases_options *options, struct caller *caller, struct call call,
                const char *path, json_t *body, json_t **ret_answer, struct daruma_error *ret_error)
{
    char url[URL_BYTES_MAX];
    char *text = json_dumps(body, JSON_COMPACT);
    int failed = DARUMA_CLASS_TRANSIENT + 1;

    (void)snprintf(url, sizeof url, "%s%s", options->server, path); /* a URL that is cut fails */
    call.url = url;
    call.body = text;
    if (text == NULL) {
        *ret_error =
            (struct daruma_error){.type = "memory", .message = "no memory", .code = failed};
    } else {
        failed = caller_post(caller, &call, ret_answer, ret_error);
    }
    free(text);
    json_decref(body);
    return failed;
}

static void drop(struct leases *leases, const char *lease)
{
    for (size_t i = 0; i < leases->held_count; i++) {
        if (strcmp(leases->held[i], lease) == 0) {
            free(leases->held[i]);
            leases->held[i] = leases->held[--leases->held_count];
            return;
        }
    }
}

/* --- the heart --------------------------------------------------------------------------------------- */

/* One word for each lease that is held; NULL: none is. */
static json_t *make_beat(struct leases *leases)
{
    json_t *extend = json_array();

    (void)pthread_mutex_lock(&leases->lock); /* cannot fail: it is ours and not recursive */
    for (size_t i = 0; i < leases->held_count; i++) {
        json_array_append_new(extend, json_pack("{s:s, s:I}", "lease", leases->held[i], "lease_ms",
                                                (json_int_t)leases->options.lease_ms));
    }
    (void)pthread_mutex_unlock(&leases->lock);
    if (json_array_size(extend) == 0) {
        json_decref(extend);
        return NULL;
    }
    return json_pack("{s:o}", "extend", extend);
}

static void beat(struct leases *leases)
{
    struct daruma_error error = {0};
    json_t *answer = NULL, *body = make_beat(leases), *word;
    size_t i, extended = 0;

    if (body == NULL) {
        return;
    }
    if (post(&leases->options, &leases->heart, (struct call){.timeout_ms = CALL_TIMEOUT_MS},
             "/v1/leases:settle", body, &answer, &error) != 0) {
        DARUMA_LOG(leases->options.log, DARUMA_LOG_WARN, "heartbeat_failed",
                   daruma_log_text("error", error.message));
        return; /* the next beat comes before the lease is over */
    }
    json_array_foreach(json_object_get(answer, "results"), i, word)
    {
        const char *result = json_string_value(json_object_get(word, "result"));
        extended += result != NULL && strcmp(result, "extended") == 0;
    }
    DARUMA_LOG(leases->options.log, DARUMA_LOG_INFO, "heartbeat",
               daruma_log_uint("extended", extended));
    json_decref(answer);
}

/* Until the next beat, or the end. */
static bool wait_for_beat(struct leases *leases)
{
    int64_t pause_ms = leases->options.lease_ms / BEATS_IN_A_LEASE;
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += pause_ms / 1000;
    until.tv_nsec += pause_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_mutex_lock(&leases->lock);
    while (!leases->is_over && pthread_cond_timedwait(&leases->wake, &leases->lock, &until) == 0) {
        continue;
    }
    bool is_over = leases->is_over;
    (void)pthread_mutex_unlock(&leases->lock);
    return !is_over;
}

static void *run_heart(void *user)
{
    while (wait_for_beat(user)) {
        beat(user);
    }
    return NULL;
}

/* --- taking and settling ------------------------------------------------------------------------------- */

int leases_take(struct leases *leases, json_t **ret_list, struct daruma_error *ret_error)
{
    const struct leases_options *options = &leases->options;
    char path[URL_BYTES_MAX];
    json_t *answer = NULL, *each;
    size_t i;

    (void)snprintf(path, sizeof path, "/v1/queues/%s/leases", options->queue);
    json_t *body =
        json_pack("{s:i, s:I, s:I}", "max", options->max, "lease_ms", (json_int_t)options->lease_ms,
                  "wait_ms", (json_int_t)options->wait_ms);
    int failed = post(options, &leases->caller,
                      (struct call){.timeout_ms = options->wait_ms + CALL_TIMEOUT_MS,
                                    .retries = TAKE_RETRIES,
                                    .cancel = options->cancel},
                      path, body, &answer, ret_error);
    if (failed != 0) {
        return failed;
    }
    (void)pthread_mutex_lock(&leases->lock);
    json_array_foreach(json_object_get(answer, "leases"), i, each)
    {
        const char *lease = json_string_value(json_object_get(each, "lease"));
        char *kept = lease != NULL && leases->held_count < LEASES_MAX ? strdup(lease) : NULL;
        if (kept != NULL) { /* else it has no heartbeat, and that is all */
            leases->held[leases->held_count++] = kept;
        }
    }
    (void)pthread_mutex_unlock(&leases->lock);
    *ret_list = json_incref(json_object_get(answer, "leases"));
    json_decref(answer);
    return 0;
}

/* Takes the words. SIGTERM does not stop this: what was done is to be said. Meanwhile the heart goes
 * on beating for it; a beat that comes after the end is `stale`, and does no harm. */
static int settle(struct leases *leases, const char *lease, json_t *words, char ret_result[16],
                  struct daruma_error *ret_error)
{
    json_t *answer = NULL;
    int failed = post(&leases->options, &leases->caller,
                      (struct call){.timeout_ms = CALL_TIMEOUT_MS, .retries = SETTLE_RETRIES},
                      "/v1/leases:settle", words, &answer, ret_error);

    (void)pthread_mutex_lock(&leases->lock);
    drop(leases, lease);
    (void)pthread_mutex_unlock(&leases->lock);
    if (failed == 0) {
        const json_t *first = json_array_get(json_object_get(answer, "results"), 0);
        const char *result = json_string_value(json_object_get(first, "result"));
        (void)snprintf(ret_result, 16, "%s", result != NULL ? result : "unknown"); /* fits */
        json_decref(answer);
    }
    return failed;
}

int leases_ack(struct leases *leases, const char *lease, json_t *response, char ret_result[16],
               struct daruma_error *ret_error)
{
    json_t *words = json_pack("{s:[{s:s, s:o}]}", "acks", "lease", lease, "response", response);

    return settle(leases, lease, words, ret_result, ret_error);
}

int leases_retry(struct leases *leases, const char *lease, int64_t delay_ms,
                 const struct daruma_error *why, char ret_result[16],
                 struct daruma_error *ret_error)
{
    const char *class = daruma_class_text((enum daruma_class)(why->code - 1));
    json_t *words =
        json_pack("{s:[{s:s, s:I, s:{s:s, s:s}}]}", "retries", "lease", lease, "delay_ms",
                  (json_int_t)delay_ms, "error", "class", class, "message", why->message);

    return settle(leases, lease, words, ret_result, ret_error);
}

/* --- lifetime ------------------------------------------------------------------------------------------ */

int leases_open(struct leases *leases, const struct leases_options *options)
{
    *leases = (struct leases){.options = *options};
    (void)pthread_mutex_init(&leases->lock, NULL); /* neither fails on Linux */
    (void)pthread_cond_init(&leases->wake, NULL);
    if (caller_open(&leases->caller, options->token, options->log) != 0 ||
        caller_open(&leases->heart, options->token, options->log) != 0 ||
        pthread_create(&leases->thread, NULL, run_heart, leases) != 0) {
        leases_close(leases);
        return -1;
    }
    leases->has_thread = true;
    return 0;
}

void leases_close(struct leases *leases)
{
    (void)pthread_mutex_lock(&leases->lock);
    leases->is_over = true;
    (void)pthread_cond_signal(&leases->wake);
    (void)pthread_mutex_unlock(&leases->lock);
    if (leases->has_thread) {
        (void)pthread_join(leases->thread, NULL);
    }
    while (leases->held_count > 0) {
        free(leases->held[--leases->held_count]);
    }
    caller_close(&leases->caller);
    caller_close(&leases->heart);
    (void)pthread_cond_destroy(&leases->wake);
    (void)pthread_mutex_destroy(&leases->lock);
}
