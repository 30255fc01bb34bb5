/* SPDX-License-Identifier: MIT
 *
 * flush -- see flush.h.
 */
#include "cli/flush.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

const char *flush_result_text(enum flush_result result)
{
    static const char *const texts[] = {
        [FLUSH_SENT] = "sent",
        [FLUSH_WAITING] = "waiting",
        [FLUSH_FAILED] = "failed",
        [FLUSH_DAMAGED] = "damaged",
    };

    return texts[result];
}

/* One flush under way. */
struct run {
    const struct flush *flush;
    struct flush_tally *tally;
    struct error *err;
    struct spool_found found; /* the request at hand */
    struct buf places;        /* that are held up, a line each */
    struct buf place;         /* of the request at hand */
    struct sender_answer answer;
    size_t number, count;
};

/* --- places ----------------------------------------------------------------------------------------- */

static bool has_line(struct span lines, struct span wanted)
{
    struct span line;

    while (lines.len > 0) {
        (void)span_cut(&lines, '\n', &line); /* each ends with one */
        if (span_equal(line, wanted)) {
            return true;
        }
    }
    return false;
}

static int hold_up(struct run *run)
{
    int failed = 0;

    run->tally->is_held_up = true;
    if (!has_line(buf_span(&run->places), buf_span(&run->place))) {
        failed = buf_add(&run->places, buf_span(&run->place));
        failed = failed != 0 ? failed : buf_add(&run->places, SPAN("\n"));
    }
    return failed == 0 ? 0 : fail(run->err, FAULT_MEMORY, "no memory for a place");
}

static int find_place(struct span url, struct buf *place, struct error *err)
{
    buf_clear(place);
    return spooled_place(url, place) == 0 ? 0 : fail(err, FAULT_MEMORY, "no memory for a place");
}

/* --- telling ----------------------------------------------------------------------------------------- */

static void tell(const struct run *run, flush_step_fn told, struct flush_step step)
{
    step.number = run->number;
    step.count = run->count;
    if (told != NULL) {
        told(run->flush->user, &step);
    }
}

static void count(struct flush_tally *tally, enum flush_result result)
{
    tally->sent += result == FLUSH_SENT;
    tally->waiting += result == FLUSH_WAITING;
    tally->failed += result == FLUSH_FAILED;
    tally->damaged += result == FLUSH_DAMAGED;
}

static void end(const struct run *run, struct flush_step step)
{
    count(run->tally, step.result);
    tell(run, run->flush->each, step);
}

static int end_waiting(const struct run *run, const char *name, const struct spooled *request,
                       const char *why)
{
    end(run,
        (struct flush_step){.name = name, .result = FLUSH_WAITING, .request = request, .why = why});
    return 0;
}

/* --- one request -------------------------------------------------------------------------------------- */

static int end_taken(struct run *run, const char *name, const struct spooled *request)
{
    int failed = spool_remove(run->flush->spool, name, run->err);

    end(run, (struct flush_step){.name = name,
                                 .result = FLUSH_SENT,
                                 .request = request,
                                 .status = run->answer.status,
                                 .why = ""});
    return failed;
}

/* Counted, and failed when that was once too often. */
static void note_failure(const struct run *run, struct spooled *request, int64_t now_ms)
{
    const struct sender_answer *answer = &run->answer;
    int64_t hint_ms = answer->retry_after_ms;
    bool is_counted = run->flush->kind == FLUSH_COUNTING || answer->end == SENDER_REFUSED;

    request->attempts += is_counted && request->attempts < SPOOLED_ATTEMPTS_MAX;
    request->tried_at_ms = now_ms;
    request->last_error = span_of(answer->why);
    hint_ms = hint_ms > FLUSH_HINT_MAX_MS ? FLUSH_HINT_MAX_MS : hint_ms;
    request->not_before_ms = hint_ms > 0 ? now_ms + hint_ms : 0;
    if (answer->end == SENDER_REFUSED || request->attempts > FLUSH_FAILURES_MAX) {
        request->state = SPOOLED_FAILED;
    }
}

static int end_not_taken(struct run *run, const char *name, struct spooled *request)
{
    const struct sender_answer *answer = &run->answer;
    int failed = 0;

    if (answer->end != SENDER_OFFLINE) {
        note_failure(run, request, clock_wall_ms(&clock_real));
        failed = spool_change(run->flush->spool, name, request, run->err);
    }
    bool is_silent = answer->end != SENDER_REFUSED && answer->status == 0;
    if (failed == 0 && (is_silent || answer->retry_after_ms > 0)) {
        failed = hold_up(run);
    }
    if (failed == 0) {
        end(run, (struct flush_step){.name = name,
                                     .result = request->state == SPOOLED_FAILED ? FLUSH_FAILED
                                                                                : FLUSH_WAITING,
                                     .request = request,
                                     .status = answer->status,
                                     .why = answer->why});
    }
    return failed;
}

/* A time that lies too far ahead was written by another clock, and does not count. */
static bool is_too_early(const struct spooled *request)
{
    int64_t left_ms = request->not_before_ms - clock_wall_ms(&clock_real);

    return request->not_before_ms != 0 && left_ms > 0 && left_ms <= FLUSH_HINT_MAX_MS;
}

static int send_one(struct run *run, const char *name, struct spooled *request)
{
    const struct flush *flush = run->flush;

    if (request->state == SPOOLED_FAILED) {
        run->tally->failed_before++;
        return 0;
    }
    int failed = find_place(request->url, &run->place, run->err);
    if (failed != 0 || (flush->place.len > 0 && !span_equal(flush->place, buf_span(&run->place)))) {
        return failed;
    }
    if (run->found.is_claimed) {
        return end_waiting(run, name, request, "another process is sending it");
    }
    if (has_line(buf_span(&run->places), buf_span(&run->place))) {
        return end_waiting(run, name, request, "it is behind one that has to wait");
    }
    if (is_too_early(request)) {
        failed = hold_up(run);
        return failed != 0 ? failed
                           : end_waiting(run, name, request, "the server asked to come back later");
    }
    tell(run, flush->before, (struct flush_step){.name = name, .request = request, .why = ""});
    failed = sender_send(flush->sender, request, &run->answer, run->err);
    if (failed != 0) {
        return failed;
    }
    return run->answer.end == SENDER_TAKEN ? end_taken(run, name, request)
                                           : end_not_taken(run, name, request);
}

/* What is torn or foreign is told and left alone. */
static int take_one(struct run *run, const char *name)
{
    struct error wrong = {0};
    int failed = spool_read(run->flush->spool, name, &run->found, &wrong);

    if (failed == FAULT_CORRUPT) {
        end(run, (struct flush_step){.name = name, .result = FLUSH_DAMAGED, .why = wrong.text});
        return 0;
    }
    if (failed != 0) {
        *run->err = wrong;
        return failed;
    }
    return run->found.is_there ? send_one(run, name, &run->found.request) : 0;
}

/* --- all of them ---------------------------------------------------------------------------------------- */

static int compare(const void *one, const void *other)
{
    return strcmp(((const struct spool_name *)one)->text, ((const struct spool_name *)other)->text);
}

static bool is_listed(const struct spool_list *list, const struct spool_name *name)
{
    return list->count > 0 &&
           bsearch(name, list->names, list->count, sizeof *name, compare) != NULL;
}

/* Each that is listed now and was not the last time. */
static int take_new(struct run *run, const struct spool_list *list, const struct spool_list *before,
                    bool *ret_is_any)
{
    int failed = 0;

    *ret_is_any = false;
    run->count = run->number;
    for (size_t i = 0; i < list->count; i++) {
        run->count += !is_listed(before, &list->names[i]);
    }
    for (size_t i = 0; failed == 0 && i < list->count; i++) {
        if (!is_listed(before, &list->names[i])) {
            *ret_is_any = true;
            run->number++;
            failed = take_one(run, list->names[i].text);
        }
    }
    return failed;
}

static int take_all(struct run *run)
{
    AUTO(spool_list_done) struct spool_list before = {0};
    bool is_any = true;
    int failed = 0;

    while (failed == 0 && is_any) {
        AUTO(spool_list_done) struct spool_list list = {0};
        failed = spool_list_read(run->flush->spool, &list, run->err);
        failed = failed != 0 ? failed : take_new(run, &list, &before, &is_any);
        struct spool_list held = before;
        before = list; /* the other one is let go of */
        list = held;
    }
    return failed;
}

int flush_run(const struct flush *flush, struct flush_tally *ret_tally, struct error *err)
{
    struct error unheard;
    struct run run = {.flush = flush, .tally = ret_tally, .err = err != NULL ? err : &unheard};

    *ret_tally = (struct flush_tally){0};
    spool_found_init(&run.found);
    buf_init(&run.places, FLUSH_PLACES_BYTES_MAX);
    buf_init(&run.place, FLUSH_PLACES_BYTES_MAX);
    int failed = take_all(&run);
    spool_found_done(&run.found);
    buf_done(&run.places);
    buf_done(&run.place);
    sender_answer_done(&run.answer);
    return failed;
}

/* --- looking, reviving ------------------------------------------------------------------------------------ */

typedef int (*visit_fn)(void *user, const char *name, struct spool_found *found, struct error *err);

/* A walk over what can be read, until *is_enough. */
static int visit_all(const struct spool *spool, visit_fn visit, void *user, const bool *is_enough,
                     struct error *err)
{
    AUTO(spool_list_done) struct spool_list list = {0};
    AUTO(spool_found_done) struct spool_found found;
    int failed = spool_list_read(spool, &list, err);

    spool_found_init(&found);
    for (size_t i = 0; failed == 0 && i < list.count && !*is_enough; i++) {
        failed = spool_read(spool, list.names[i].text, &found, err);
        if (failed == 0 && found.is_there && !found.is_claimed) {
            failed = visit(user, list.names[i].text, &found, err);
        } else if (failed == FAULT_CORRUPT) {
            failed = 0; /* a flush tells of it */
        }
    }
    return failed;
}

struct revival {
    struct spool *spool;
    size_t count;
    bool is_enough; /* never */
};

static int revive_one(void *user, const char *name, struct spool_found *found, struct error *err)
{
    struct revival *revival = user;
    struct spooled *request = &found->request;

    if (request->state != SPOOLED_FAILED) {
        return 0;
    }
    request->state = SPOOLED_WAITING;
    request->attempts = 0;
    request->not_before_ms = 0;
    int failed = spool_change(revival->spool, name, request, err);
    revival->count += failed == 0;
    return failed;
}

int flush_revive(struct spool *spool, size_t *ret_count, struct error *err)
{
    struct revival revival = {.spool = spool};
    int failed = visit_all(spool, revive_one, &revival, &revival.is_enough, err);

    *ret_count = revival.count;
    return failed;
}

int flush_recount(const struct spool *spool, struct flush_tally *tally, struct error *err)
{
    AUTO(spool_list_done) struct spool_list list = {0};
    AUTO(spool_found_done) struct spool_found found;
    struct flush_tally now = {.sent = tally->sent, .is_held_up = tally->is_held_up};
    int failed = spool_list_read(spool, &list, err);

    spool_found_init(&found);
    for (size_t i = 0; failed == 0 && i < list.count; i++) {
        failed = spool_read(spool, list.names[i].text, &found, err);
        if (failed == FAULT_CORRUPT) {
            now.damaged++;
            failed = 0;
        } else if (failed == 0 && found.is_there) {
            bool is_failed = found.request.state == SPOOLED_FAILED;
            now.failed += is_failed;
            now.waiting += !is_failed;
        }
    }
    if (failed == 0) {
        now.failed_before = now.failed > tally->failed ? now.failed - tally->failed : 0;
        now.failed -= now.failed_before;
        *tally = now;
    }
    return failed;
}

struct sight {
    struct span wanted;
    bool is_found;
};

static int look_at(void *user, const char *name, struct spool_found *found, struct error *err)
{
    struct sight *sight = user;
    AUTO(buf_done) struct buf place;

    (void)name;
    buf_init(&place, FLUSH_PLACES_BYTES_MAX);
    if (found->request.state == SPOOLED_FAILED) {
        return 0;
    }
    int failed = find_place(found->request.url, &place, err);
    sight->is_found = failed == 0 && span_equal(buf_span(&place), sight->wanted);
    return failed;
}

int flush_is_waiting(const struct spool *spool, struct span place, bool *ret_is_waiting,
                     struct error *err)
{
    struct sight sight = {.wanted = place};
    int failed = visit_all(spool, look_at, &sight, &sight.is_found, err);

    *ret_is_waiting = sight.is_found;
    return failed;
}
