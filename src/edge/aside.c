/* SPDX-License-Identifier: MIT
 *
 * aside -- see aside.h. Parsing touches nothing but the task's own memory and what never changes (the
 * policies of the configuration), so the thread needs no lock.
 */
#include "edge/aside.h"

#include "base/handover.h"
#include "task/fingerprint.h"
#include "task/route_key.h"
#include "task/route_rename.h"

#include <pthread.h>
#include <stdlib.h>

struct aside {
    struct handover *incoming, *done;
    struct loop_waker *waker;
    aside_read_fn read;
    void *user;
    pthread_t thread;
    bool has_thread;
};

void aside_task_free(struct aside_task *task)
{
    if (task != NULL) {
        parsed_batch_free(task->batch);
        arena_free(task->submission.arena);
        buf_done(&task->body);
        free(task);
    }
}

static int make_fingerprint(struct submission *submission, struct error *err)
{
    struct task task = {.method = submission->method,
                        .target = submission->target,
                        .headers = submission->headers,
                        .body = submission->body};
    int failed = fingerprint_task(&task, err);

    if (failed == 0) {
        memcpy(submission->fingerprint, task.fingerprint, sizeof submission->fingerprint);
        submission->has_fingerprint = true;
    }
    return failed;
}

static void read_one(struct aside_task *task)
{
    struct submission *submission = &task->submission;

    task->failed = parse_task(&task->options, buf_span(&task->body), submission, &task->error);
    if (task->failed == 0 && submission->key.len > 0) {
        task->failed = make_fingerprint(submission, &task->error);
    }
}

static void read_batch(struct aside_task *task)
{
    task->failed = parse_batch(&task->options, &task->submission, buf_span(&task->body),
                               &task->batch, &task->error);
    for (size_t i = 0; task->failed == 0 && i < task->batch->count; i++) {
        struct parsed_task *each = &task->batch->tasks[i];
        if (each->failed == 0 && each->submission.key.len > 0) {
            each->failed = make_fingerprint(&each->submission, &each->error);
        }
    }
}

static void make_print(struct aside_task *task)
{
    struct submission *submission = &task->submission;
    const struct route_request request = {.method = submission->method,
                                          .target = submission->target,
                                          .content_type = task->content_type,
                                          .body = buf_span(&task->body)};

    task->failed =
        route_fingerprint(submission->route, &request, submission->fingerprint, &task->error);
}

static void read_kind(struct aside_task *task)
{
    switch (task->kind) {
    case ASIDE_ONE:
        read_one(task);
        break;
    case ASIDE_BATCH:
        read_batch(task);
        break;
    case ASIDE_PRINT:
        make_print(task);
        break;
    case ASIDE_FORM:
        task->renames = route_form_renames_method(task->submission.headers, buf_span(&task->body));
        break;
    }
}

static void *run(void *argument)
{
    struct aside *aside = argument;
    struct handover_link *link;

    while ((link = handover_take(aside->incoming, 1, -1)) != NULL) {
        read_kind((struct aside_task *)link);
        (void)handover_give(aside->done, link); /* has room for all */
        loop_wake(aside->waker);
    }
    return NULL;
}

static void take_done(void *user)
{
    struct aside *aside = user;

    for (struct handover_link *link = handover_take(aside->done, SIZE_MAX, 0); link != NULL;) {
        struct handover_link *next = link->next;
        struct aside_task *task = (struct aside_task *)link;
        aside->read(aside->user, task);
        aside_task_free(task);
        link = next;
    }
}

int aside_open(struct loop *loop, aside_read_fn read, void *user, struct aside **ret_aside,
               struct error *err)
{
    struct aside *aside = calloc(1, sizeof *aside);

    if (aside == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for reading large tasks");
    }
    aside->read = read;
    aside->user = user;
    aside->incoming = handover_new(ASIDE_WAITING_MAX);
    aside->done = handover_new(SIZE_MAX);
    int failed = aside->incoming == NULL || aside->done == NULL
                     ? fail(err, FAULT_MEMORY, "no memory for reading large tasks")
                     : loop_waker_new(loop, take_done, aside, &aside->waker, err);
    if (failed == 0 && pthread_create(&aside->thread, NULL, run, aside) != 0) {
        failed = fail(err, FAULT_SYSTEM, "no thread for reading large tasks");
    }
    aside->has_thread = failed == 0;
    if (failed != 0) {
        aside_close(aside);
        return failed;
    }
    *ret_aside = aside;
    return 0;
}

static void drop_all(struct handover *handover)
{
    struct handover_link *link = handover == NULL ? NULL : handover_take(handover, SIZE_MAX, 0);

    while (link != NULL) {
        struct handover_link *next = link->next;
        aside_task_free((struct aside_task *)link);
        link = next;
    }
}

void aside_close(struct aside *aside)
{
    if (aside == NULL) {
        return;
    }
    drop_all(aside->incoming);
    if (aside->has_thread) {
        handover_close(aside->incoming);
        (void)pthread_join(aside->thread, NULL); /* fails only for a thread that is not there */
    }
    drop_all(aside->done);
    loop_waker_free(aside->waker);
    handover_free(aside->incoming);
    handover_free(aside->done);
    free(aside);
}

bool aside_give(struct aside *aside, struct aside_task *task)
{
    return handover_give(aside->incoming, &task->link);
}
