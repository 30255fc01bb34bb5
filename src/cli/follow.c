/* SPDX-License-Identifier: MIT
 *
 * follow -- see follow.h.
 */
#include "cli/follow.h"

#include "base/clock.h"
#include "cli/destination.h"
#include "cli/screen.h"
#include "cli/why.h"
#include "engine/engine.h"

#include <inttypes.h>
#include <stdio.h>

#define PATH_MAX_BYTES    128
#define PATIENCE_LEAST_MS 1000
#define STILL_MS          3000 /* without an attempt: what is waited for is said */

static bool is_under_way(const json_t *task)
{
    struct span state = client_text(task, "state");

    return span_is(state, "waiting") || span_is(state, "running");
}

/* A server that is away is asked again for no longer than the caller wants to wait, and a moment. */
static int64_t patience_for(int64_t left_ms)
{
    return left_ms < PATIENCE_LEAST_MS    ? PATIENCE_LEAST_MS
           : left_ms < CLIENT_PATIENCE_MS ? left_ms
                                          : CLIENT_PATIENCE_MS;
}

/* wait_ms 0: as it is now. */
static int read_task(struct client *client, const char *id, int64_t wait_ms, int64_t patience_ms,
                     struct client_answer *answer)
{
    char path[PATH_MAX_BYTES];

    (void)snprintf(path, sizeof path, "/v1/tasks/%s?wait_ms=%" PRId64, id, wait_ms); /* fits */
    return client_ask_patiently(
        client,
        &(struct client_request){
            .method = "GET", .path = span_of(path), .wait_ms = wait_ms, .patience_ms = patience_ms},
        answer);
}

int follow_until_settled(struct client *client, const char *id, int64_t wait_ms,
                         struct client_answer *answer)
{
    int64_t until_ms = clock_mono_ms(&clock_real) + wait_ms;
    int64_t pace_ms = 0;

    for (;;) {
        int64_t begun_ms = clock_mono_ms(&clock_real);
        int64_t left_ms = until_ms > begun_ms ? until_ms - begun_ms : 0;
        int64_t asked_ms = left_ms < ENGINE_WAIT_MAX_MS ? left_ms : ENGINE_WAIT_MAX_MS;
        int exit_code = read_task(client, id, asked_ms, patience_for(left_ms), answer);
        if (exit_code != CLI_DONE || left_ms == 0 || !is_under_way(answer->document)) {
            return exit_code;
        }
        if (clock_mono_ms(&clock_real) < begun_ms + asked_ms) {
            client_pace(&pace_ms); /* a server that is stopping answers long polls at once */
        }
    }
}

/* One that waits although it is due: mostly no worker asks for it. */
static void tell_still(struct client *client, const json_t *task)
{
    bool is_workers = destination_otherwise(client, task) == DESTINATION_WORKERS;

    fprintf(stderr, is_workers
                        ? "  it waits for a worker: neither it nor its queue has a target\n"
                        : "  no attempt of it has begun yet: 'daruma queues' tells what holds its "
                          "queue, if anything does\n");
}

int follow_attempt(struct client *client, const char *id, struct client_answer *answer)
{
    int64_t attempts = client_number(answer->document, "attempts");
    int64_t before =
        span_is(client_text(answer->document, "state"), "running") ? attempts - 1 : attempts;
    int64_t began_ms = clock_mono_ms(&clock_real), pace_ms = 0;
    bool is_told = false;

    for (;;) {
        struct span state = client_text(answer->document, "state");
        bool is_tried = client_number(answer->document, "attempts") > before;
        if (!is_under_way(answer->document) || (is_tried && span_is(state, "waiting"))) {
            return CLI_DONE;
        }
        bool is_still = !is_tried && clock_mono_ms(&clock_real) - began_ms >= STILL_MS;
        if (is_still && !is_told) {
            tell_still(client, answer->document);
            is_told = true;
        }
        client_pace(&pace_ms);
        int exit_code = read_task(client, id, 0, CLIENT_PATIENCE_MS, answer);
        if (exit_code != CLI_DONE) {
            return exit_code;
        }
    }
}

/* --- saying how it is --------------------------------------------------------------------------- */

static void say(const struct screen *screen, struct span text)
{
    (void)screen_put(screen, text, SCREEN_UNCUT);
}

static void say_attempts(const struct screen *screen, const json_t *task)
{
    int64_t most = client_number(task, "max_attempts");

    fprintf(screen->out, "%" PRId64, client_number(task, "attempts"));
    if (most > 0) {
        fprintf(screen->out, " of %" PRId64, most);
    }
}

static void say_why(const struct screen *screen, const json_t *task)
{
    struct span state = client_text(task, "state");
    char wait[SCREEN_DURATION_MAX];

    if (span_is(state, "unsettled")) {
        fprintf(screen->out, "  it may have been carried out: nobody knows until it is settled");
    } else if (span_is(state, "cancelled")) {
        fprintf(screen->out, "  it was cancelled");
    } else if (client_number(task, "attempts") == 0) {
        fprintf(screen->out, "  it has not been tried yet");
    } else {
        fprintf(screen->out, "  attempt ");
        say_attempts(screen, task);
    }
    if (json_is_object(json_object_get(task, "error"))) {
        say(screen, SPAN(": "));
        why_put(screen, task);
    }
    if (json_is_integer(json_object_get(task, "next_wait_ms"))) {
        screen_duration(client_number(task, "next_wait_ms"), wait);
        fprintf(screen->out, "; the next try %s later", wait);
    }
    fprintf(screen->out, "\n");
}

int follow_report(const struct flags *flags, const struct client_answer *answer)
{
    const struct screen out = screen_of(stdout), errors = screen_of(stderr);
    struct span state = client_text(answer->document, "state");

    if (flags->is_json) {
        screen_put_json(buf_span(&answer->text));
    } else {
        say(&out, client_text(answer->document, "id"));
        say(&out, SPAN(" "));
        (void)screen_put_coloured(&out, screen_state_colour(state), state, SCREEN_UNCUT);
        fprintf(out.out, "\n");
    }
    if (span_is(state, "succeeded")) {
        return CLI_DONE;
    }
    (void)fflush(stdout); /* so that the two do not mix */
    say_why(&errors, answer->document);
    return CLI_FAILED;
}
