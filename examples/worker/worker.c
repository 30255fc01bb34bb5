/* SPDX-License-Identifier: MIT
 *
 * worker -- the queue consumer of docs/requirements.md, part A: takes batches, acks what was done,
 * gives back what failed with a wait of 2^attempt x 60 s (attempts count from 1: 120, 240, 480 s ...); at the limit of
 * the queue's policy the server makes a dead letter of it.
 *
 *     worker --model URL [--server URL] [--queue NAME] [--batch N] [--lease-ms N] [--wait-ms N]
 *            [--unit-ms N]
 *
 * The token, if the server wants one, is in DARUMA_TOKEN. SIGTERM and SIGINT: takes no more, finishes
 * what it holds, and ends. Killed, it leaves its leases to run out: others get the work then.
 */
#include "bookmark.h"
#include "leases.h"

#include <daruma/policy.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNIT_MS      60000 /* x 2^attempt */
#define DOUBLING_MAX 20

static struct daruma_cancel stop; /* the one global: a signal handler has no other way */

struct worker {
    struct leases leases;
    struct caller model;
    const char *model_url;
    int64_t unit_ms;
    const struct daruma_logger *log;
    uint64_t acked, retried, dead, lost;
};

static void on_signal(int number)
{
    (void)number;
    daruma_cancel_now(&stop);
}

/* --- one task ---------------------------------------------------------------------------------------- */

static int64_t delay_ms(const struct worker *worker, uint32_t attempt)
{
    return worker->unit_ms << (attempt < DOUBLING_MAX ? attempt : DOUBLING_MAX);
}

static void tell(struct worker *worker, const char *event, const struct bookmark *bookmark,
                 const char *result, const char *error)
{
    DARUMA_LOG(worker->log, DARUMA_LOG_INFO, event,
               daruma_log_text("bookmark_id", bookmark->bookmark_id),
               daruma_log_uint("attempt", bookmark->attempt),
               daruma_log_uint("max_attempts", bookmark->max_attempts),
               daruma_log_text("result", result), daruma_log_text("error", error));
}

/* What could not be said is as good as not done: the lease runs out, and it is done again. */
static void lose(struct worker *worker, const struct bookmark *bookmark,
                 const struct daruma_error *error)
{
    worker->lost++;
    tell(worker, "not_settled", bookmark, "lost", error->message);
}

static void acknowledge(struct worker *worker, const char *lease, const struct bookmark *bookmark,
                        const json_t *summary)
{
    char *text = json_dumps(summary, JSON_COMPACT | JSON_ENCODE_ANY);
    json_t *response = json_pack("{s:i, s:{s:s}, s:s}", "status", 200, "headers", "content-type",
                                 "application/json", "body", text != NULL ? text : "");
    struct daruma_error error = {0};
    char result[16];

    free(text);
    if (leases_ack(&worker->leases, lease, response, result, &error) != 0) {
        lose(worker, bookmark, &error);
        return;
    }
    worker->acked += strcmp(result, "settled") == 0;
    worker->lost += strcmp(result, "stale") == 0;
    tell(worker, "done", bookmark, result, "");
}

/* The server answers `waiting` when there is another try, `settled` when this was the last. */
static void give_back(struct worker *worker, const char *lease, const struct bookmark *bookmark,
                      const struct daruma_error *why)
{
    struct daruma_error error = {0};
    char result[16];

    if (leases_retry(&worker->leases, lease, delay_ms(worker, bookmark->attempt), why, result,
                     &error) != 0) {
        lose(worker, bookmark, &error);
        return;
    }
    worker->retried += strcmp(result, "waiting") == 0;
    worker->dead += strcmp(result, "settled") == 0;
    worker->lost += strcmp(result, "stale") == 0;
    tell(worker, strcmp(result, "settled") == 0 ? "dead_letter" : "failed", bookmark, result,
         why->message);
}

static void handle(struct worker *worker, const json_t *leased)
{
    const char *lease = json_string_value(json_object_get(leased, "lease"));
    struct bookmark bookmark = {.bookmark_id = ""};
    struct daruma_error error = {.message = "this is no bookmark to be summarised",
                                 .code = DARUMA_CLASS_INVALID + 1};
    json_t *body = NULL, *summary = NULL;

    if (lease == NULL) {
        return;
    }
    if (bookmark_read(json_object_get(leased, "task"), &bookmark, &body) &&
        bookmark_summarize(&worker->model, worker->model_url, &bookmark, &summary, &error) == 0) {
        acknowledge(worker, lease, &bookmark, summary);
    } else {
        give_back(worker, lease, &bookmark, &error);
    }
    json_decref(summary);
    json_decref(body);
}

/* --- the loop ---------------------------------------------------------------------------------------- */

static void work(struct worker *worker)
{
    struct daruma_error error;
    json_t *batch, *leased;
    size_t i;

    while (!daruma_cancel_is_set(&stop)) {
        batch = NULL;
        if (leases_take(&worker->leases, &batch, &error) != 0) {
            if (!daruma_cancel_is_set(&stop)) {
                DARUMA_LOG(worker->log, DARUMA_LOG_ERROR, "no_leases",
                           daruma_log_text("error", error.message));
            }
            if (!error.recoverable) {
                return; /* no such queue, no right to it: asking again will not help */
            }
            continue;
        }
        json_array_foreach(batch, i, leased)
        {
            handle(worker, leased); /* all of them, also when told to stop */
        }
        json_decref(batch);
    }
}

/* --- flags ------------------------------------------------------------------------------------------- */

static bool read_number(const char *text, int64_t max, int64_t *ret_number)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || number < 1 || number > (uint64_t)max) {
        return false;
    }
    *ret_number = (int64_t)number;
    return true;
}

struct flags {
    const char *model, *server, *queue;
    int64_t batch, lease_ms, wait_ms, unit_ms;
};

static bool read_flag(struct flags *flags, const char *name, const char *value)
{
    const struct {
        const char *name;
        const char **text;
        int64_t *number;
        int64_t max;
    } table[] = {
        {"--model", &flags->model, NULL, 0},
        {"--server", &flags->server, NULL, 0},
        {"--queue", &flags->queue, NULL, 0},
        {"--batch", NULL, &flags->batch, LEASES_MAX},
        {"--lease-ms", NULL, &flags->lease_ms, 43200000},
        {"--wait-ms", NULL, &flags->wait_ms, 60000},
        {"--unit-ms", NULL, &flags->unit_ms, UNIT_MS},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(name, table[i].name) != 0) {
            continue;
        }
        if (table[i].text != NULL) {
            *table[i].text = value;
            return true;
        }
        return read_number(value, table[i].max, table[i].number);
    }
    return false;
}

static bool read_flags(int argc, char **argv, struct flags *flags)
{
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc || !read_flag(flags, argv[i], argv[i + 1])) {
            fprintf(stderr, "worker: %s is not understood\n", argv[i]);
            return false;
        }
    }
    if (flags->model == NULL) {
        fprintf(stderr, "usage: worker --model URL [--server URL] [--queue NAME] [--batch N] "
                        "[--lease-ms N] [--wait-ms N] [--unit-ms N]\n");
    }
    return flags->model != NULL;
}

static int run(const struct flags *flags, const struct daruma_logger *log)
{
    struct worker worker = {.model_url = flags->model, .unit_ms = flags->unit_ms, .log = log};
    const struct leases_options options = {
        .server = flags->server,
        .queue = flags->queue,
        .token = getenv("DARUMA_TOKEN"),
        .cancel = &stop,
        .log = log,
        .lease_ms = flags->lease_ms,
        .wait_ms = flags->wait_ms,
        .max = (int)flags->batch,
    };

    if (caller_open(&worker.model, NULL, log) != 0) {
        fprintf(stderr, "worker: libcurl could not be set up\n");
        return 1;
    }
    if (leases_open(&worker.leases, &options) != 0) {
        fprintf(stderr, "worker: no memory, or no thread\n");
        caller_close(&worker.model);
        return 1;
    }
    work(&worker);
    leases_close(&worker.leases);
    caller_close(&worker.model);
    DARUMA_LOG(log, DARUMA_LOG_INFO, "stopped", daruma_log_uint("acked", worker.acked),
               daruma_log_uint("retried", worker.retried),
               daruma_log_uint("dead_letters", worker.dead), daruma_log_uint("lost", worker.lost));
    return !daruma_cancel_is_set(&stop);
}

int main(int argc, char **argv)
{
    struct flags flags = {.server = "http://127.0.0.1:8700",
                          .queue = "bookmarks",
                          .batch = 10,
                          .lease_ms = 30000,
                          .wait_ms = 20000,
                          .unit_ms = UNIT_MS};
    struct daruma_logger log = {.level = DARUMA_LOG_INFO,
                                .sink = daruma_log_to_fd,
                                .sink_user = (void *)(intptr_t)STDERR_FILENO};
    struct sigaction action = {.sa_handler = on_signal};

    if (!read_flags(argc, argv, &flags)) {
        return 2;
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || daruma_cancel_open(&stop) != 0) {
        fprintf(stderr, "worker: it could not be set up\n");
        return 1;
    }
    (void)sigaction(SIGTERM, &action, NULL); /* fails only for what is no signal */
    (void)sigaction(SIGINT, &action, NULL);
    int failed = run(&flags, &log);
    daruma_cancel_close(&stop);
    curl_global_cleanup();
    return failed;
}
