/* SPDX-License-Identifier: MIT
 *
 * fleet_check -- the invariants of several nodes on one store (fleet.h): what callers were told, what
 * targets have seen and what is committed, and that every task under way has a node that works on it.
 */
#include "fleet.h"

#include "engine/engine_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define UNOWNED_STEPS  150   /* … and so many steps, in which every node gets its turns */
#define PURGE_REACH_MS 30000 /* what is submitted within this time after a purge may go with it */
#define ROUNDS_MAX     31

void fleet_fail(struct fleet *fleet, const char *format, ...)
{
    va_list arguments;

    if (fleet->failure[0] != '\0') {
        return; /* the first one counts */
    }
    va_start(arguments, format);
    (void)vsnprintf(fleet->failure, sizeof fleet->failure, format, arguments);
    va_end(arguments);
}

void fleet_trace(const struct fleet *fleet, const char *format, ...)
{
    va_list arguments;

    if (!fleet->is_traced) {
        return;
    }
    va_start(arguments, format);
    printf("%" PRIu64 " %" PRId64 " ", fleet->steps, fleet->mono_ms);
    (void)vprintf(format, arguments); /* a line for people */
    printf("\n");
    va_end(arguments);
}

const struct version *fleet_version(const struct fleet *fleet, int64_t row)
{
    struct task_id id = {.row = row, .tail = ID_ANY_TAIL};

    return row == 0 ? NULL : rows_find(&fleet->inner->rows, id);
}

static int number_of(const struct fleet *fleet, const struct fleet_task *task)
{
    return (int)(task - fleet->tasks);
}

/* --- what is committed ------------------------------------------------------------------------------- */

/* "cb NUMBER ROUND" */
static void callback_applied(struct fleet *fleet, struct span body)
{
    struct span rest = span_from(body, 3), text;
    int64_t number = -1, round = -1;

    (void)span_cut(&rest, ' ', &text);
    if (!span_to_int(text, &number) || number < 0 || number >= fleet->task_count ||
        !span_to_int(rest, &round) || round > ROUNDS_MAX) {
        fleet_fail(fleet, "a callback about nothing: %.*s", SPAN_ARGS(body));
        return;
    }
    struct fleet_task *task = &fleet->tasks[number];
    if ((task->told_rounds >> round & 1) != 0) {
        fleet_fail(fleet, "round %d of task %d is told twice", (int)round, (int)number);
    }
    task->told_rounds |= UINT32_C(1) << round;
}

/* "NUMBER SERIAL" */
static void record_applied(struct fleet *fleet, const struct op *op)
{
    struct span rest = op->task.body, text;
    int64_t number = -1, serial = -1;

    if (span_starts(op->task.body, "k ")) {
        fleet_call_applied(fleet, op);
        return;
    }
    if (span_starts(op->task.body, "cb ")) {
        callback_applied(fleet, op->task.body);
        return;
    }
    (void)span_cut(&rest, ' ', &text);
    if (!span_to_int(text, &number) || number < 0 || number >= fleet->task_count ||
        !span_to_int(rest, &serial) || serial < 0 || serial >= fleet->sub_count) {
        fleet_fail(fleet, "a task without a submission");
        return;
    }
    struct fleet_task *task = &fleet->tasks[number];
    struct fleet_sub *sub = &fleet->subs[serial];
    if (task->id.row != 0) {
        fleet_fail(fleet, "I3: task %d is recorded twice", (int)number);
    } else if (sub->told == FLEET_REFUSED) {
        fleet_fail(fleet, "I7: submission %d of task %d was refused and is recorded", (int)serial,
                   (int)number);
    }
    fleet->seen.recorded++;
    sub->is_recorded = true;
    task->id = op->task.id;
    task->leased_at_ms = fleet->mono_ms;
    task->queue_number = op->task.queue;
}

/* Nodes change queues without knowing of each other's changes: each act changes what it is about. */
static void check_words(struct fleet *fleet, const struct op *op)
{
    struct fleet_queue *queue = &fleet->queues[op->queue.number];
    const struct queue_row *row = &fleet->inner->rows.queues[op->queue.number - 1]->row;
    struct span act = op->audit != NULL ? op->audit->act : SPAN("");

    if (span_is(act, "queue_pause") || span_is(act, "queue_resume")) {
        queue->said_paused = span_is(act, "queue_pause");
    } else if (span_is(act, "queue_put")) {
        (void)snprintf(queue->said_settings, sizeof queue->said_settings, "%.*s",
                       SPAN_ARGS(op->queue.settings)); /* short ones */
    }
    if (row->paused != queue->said_paused) {
        fleet_fail(fleet, "queue %u was %s and is not any more, which was not asked for",
                   row->number, queue->said_paused ? "paused" : "resumed");
    } else if (queue->said_settings[0] != '\0' && !span_is(row->settings, queue->said_settings)) {
        fleet_fail(fleet, "queue %u was given other settings than '%.*s'", row->number,
                   SPAN_ARGS(row->settings));
    }
}

static void queue_applied(struct fleet *fleet, size_t node, const struct op *op, bool is_forced)
{
    const struct queue_row *row = &op->queue;

    if (row->number >= FLEET_QUEUES_MAX) {
        fleet_fail(fleet, "too many queues");
        return;
    }
    if (!row->dropped) {
        check_words(fleet, op);
    }
    struct fleet_queue *queue = &fleet->queues[row->number];
    if (queue->is_dropped && !row->dropped) {
        fleet_fail(fleet, "queue %u was deleted and is there again", row->number);
    }
    if (row->dropped && !queue->is_dropped) {
        queue->dropped_at_ms = fleet->mono_ms;
        queue->was_forced = is_forced;
    }
    if (row->paused && !queue->is_paused) {
        queue->paused_at_ms = fleet->mono_ms;
    }
    queue->resumes += queue->is_paused && !row->paused;
    queue->is_dropped = row->dropped;
    queue->is_paused = row->paused;
    queue->is_told_paused = queue->is_told_paused && row->paused;
    queue->is_told_made = queue->is_told_made && !row->dropped;
    fleet->nodes[node].queues_seen += fleet->nodes[node].queues_seen == fleet->queues_version;
    fleet->queues_version++;
}

/* Of a queue that was deleted without force nothing goes but what has ended. */
static bool is_gone_with_queue(const struct fleet_queue *queue, const struct life *life)
{
    return queue->is_dropped && (queue->was_forced || task_is_settled(life->state));
}

static void purge_applied(struct fleet *fleet, struct fleet_task *task, const struct life *life)
{
    bool is_late =
        fleet->purge_asked_ms == 0 || fleet->purge_asked_ms < task->asked_at_ms - PURGE_REACH_MS;
    bool is_asked = strcmp(task->queue, FLEET_MADE) == 0 &&
                    (fleet->purge_pending > 0 || !is_late ||
                     is_gone_with_queue(&fleet->queues[task->queue_number], life));

    task->purged = true;
    if (task->acknowledged && !is_asked) {
        fleet_fail(fleet, "I1: task %d was acknowledged and is purged, which was not asked for",
                   number_of(fleet, task));
    }
}

static bool act_applied(struct fleet *fleet, const struct op *op)
{
    const struct audit_row *audit = op->audit;
    int64_t serial = -1;

    if (!span_to_int(audit->who, &serial) || serial < 0 || serial >= fleet->act_count) {
        fleet_fail(fleet, "an act that was not asked for");
        return false;
    }
    struct fleet_act *act = &fleet->acts[serial];
    if (act->told == FLEET_REFUSED && act->is_checked) {
        fleet_fail(fleet, "I7: act %d was refused and is committed", (int)serial);
    }
    act->is_committed = true;
    act->queue = op->kind == OP_QUEUE ? op->queue.number : 0;
    act->resumes = fleet->queues[act->queue % FLEET_QUEUES_MAX].resumes;
    return act->is_forced;
}

/* A person's word is good for one attempt, and one that is given back has not begun. */
static void check_word(struct fleet *fleet, struct fleet_task *task, const struct op *op)
{
    bool is_given_back = op->kind == OP_SETTLE && op->is_unbegun && op->life.state == TASK_WAITING;

    if (is_given_back && task->has_word && (op->life.flags & LIFE_FORCED) == 0) {
        fleet_fail(fleet, "task %d is given back, and is not run any more as a person wanted",
                   number_of(fleet, task));
    }
    task->has_word = task->has_word && (is_given_back || op->kind == OP_LEASE);
}

void fleet_applied(struct fleet *fleet, size_t node, const struct op *op)
{
    struct fleet_task *task = fleet_task_of(fleet, op->task.id);

    fleet_trace(fleet, "n%zu op %d result %d task %d fence %" PRIu64 " epoch %" PRIu64 " -> %s",
                node, op->kind, op->result, task == NULL ? -1 : number_of(fleet, task),
                op->life.fence, op->life.epoch, task_state_text(op->life.state));
    if (op->result != RESULT_DONE) {
        return;
    }
    if (task != NULL) {
        check_word(fleet, task, op);
    }
    bool is_forced = op->audit != NULL && act_applied(fleet, op);
    if (op->kind == OP_REDRIVE && op->audit != NULL) {
        fleet_redrive_applied(fleet, task, op);
    }
    if (op->kind == OP_RECORD) {
        record_applied(fleet, op);
    } else if (op->kind == OP_QUEUE) {
        queue_applied(fleet, node, op, is_forced);
    } else if (task != NULL && op->kind == OP_LEASE) {
        task->leased_at_ms = fleet->mono_ms;
    } else if (task != NULL && op->kind == OP_CANCEL) {
        task->cancelled = true;
    } else if (task != NULL && op->kind == OP_RUN) {
        task->was_run = task->has_word = true;
    } else if (task == NULL && op->kind == OP_SETTLE && (op->life.flags & LIFE_OMITTED) != 0) {
        fleet_key_streamed(fleet, op->task.id.row);
    } else if (task == NULL && op->kind == OP_PURGE) {
        fleet_key_forgotten(fleet, op->task.id.row);
    } else if (task != NULL && op->kind == OP_PURGE) {
        purge_applied(fleet, task, &op->life);
    } else if (task != NULL && (op->kind == OP_REDRIVE ||
                                (op->kind == OP_SETTLE && op->uncounts && op->audit != NULL))) {
        task->in_doubt = false; /* a person has decided */
    }
    if (op->spawn != NULL && op->spawn->result == RESULT_DONE) {
        record_applied(fleet, op->spawn);
    }
}

/* --- what goes out ----------------------------------------------------------------------------------- */

static void check_lease(struct fleet *fleet, const struct fleet_flight *flight,
                        const struct life *life)
{
    const struct fleet_task *task = &fleet->tasks[flight->number];

    if (life->state != TASK_RUNNING || life->fence != flight->fence) {
        fleet_fail(
            fleet, "I2: node %zu sends task %u under fence %" PRIu64 ", which is %s under %" PRIu64,
            flight->node, flight->number, flight->fence, task_state_text(life->state), life->fence);
    } else if (!fleet_epoch_is_live(fleet, life->epoch)) {
        fleet_fail(fleet, "I2: node %zu sends task %u after its peers took it for dead",
                   flight->node, flight->number);
    } else if (life->attempts_all <= task->attempt_seen) {
        fleet_fail(fleet, "I5: task %u goes out as attempt %u, after attempt %u", flight->number,
                   life->attempts_all, task->attempt_seen);
    }
}

/* Its operator knows that it is so, at every node: unless another act came in between. */
void fleet_act_told(struct fleet *fleet, const struct fleet_act *act)
{
    struct fleet_queue *queue = &fleet->queues[act->queue];

    if (act->told != FLEET_DONE || act->queue == 0) {
        return;
    }
    queue->is_told_paused |= act->kind == ASK_QUEUE_PAUSE && queue->is_paused &&
                             queue->resumes == act->resumes; /* it is still that pause */
    queue->is_told_dropped |= act->kind == ASK_QUEUE_DELETE;
    queue->is_told_made |= act->kind == ASK_QUEUE_PUT && !queue->is_dropped;
}

/* A node hands a request to its deliverer. */
void fleet_check_begun(struct fleet *fleet, size_t node, const struct delivery *delivery,
                       uint32_t number)
{
    const struct fleet_queue *queue = &fleet->queues[fleet->tasks[number].queue_number];

    if (queue->is_told_dropped ||
        (queue->is_told_paused && !fleet_attempt_of(delivery)->is_forced)) {
        fleet_fail(fleet, "node %zu begins to send task %u, whose queue was told as %s", node,
                   number, queue->is_told_dropped ? "deleted" : "paused");
    }
}

/* Every node has heard of the pause, and yet it was leased. */
static bool is_held(const struct fleet *fleet, const struct fleet_task *task)
{
    const struct fleet_queue *queue = &fleet->queues[task->queue_number];

    return fleet->is_calm && queue->is_paused && !task->was_run &&
           task->leased_at_ms - fleet->calm_at_ms > FLEET_BOUND_MS &&
           task->leased_at_ms - queue->paused_at_ms > FLEET_BOUND_MS;
}

/* The first byte of a request goes out. */
void fleet_check_sent(struct fleet *fleet, struct fleet_flight *flight)
{
    struct fleet_task *task = &fleet->tasks[flight->number];
    const struct version *version = fleet_version(fleet, task->id.row);

    if (flight->is_callback) {
        return;
    }
    if (version == NULL) {
        fleet_fail(fleet, "I5: task %u goes out and is not recorded", flight->number);
        return;
    }
    const struct life *life = &version->life;
    fleet_trace(fleet, "node %zu sends task %u, fence %" PRIu64 ", %s", flight->node,
                flight->number, flight->fence, flight->is_once ? "once" : "repeatable");
    if (task->cancelled) {
        fleet_fail(fleet, "I2: task %u was cancelled and is sent by node %zu", flight->number,
                   flight->node);
    } else if (task->in_doubt) {
        fleet_fail(fleet,
                   "I5: task %u is repeated by node %zu although its last request is in doubt",
                   flight->number, flight->node);
    }
    check_lease(fleet, flight, life);
    if (life->due_at_ms > fleet_server_ms(fleet)) {
        fleet_fail(fleet, "I6: task %u goes out early", flight->number);
    } else if (life->deadline_at_ms != 0 && fleet_server_ms(fleet) > life->deadline_at_ms) {
        fleet_fail(fleet, "I6: task %u goes out after its deadline", flight->number);
    } else if (is_held(fleet, task)) {
        fleet_fail(fleet, "task %u goes out although its queue is paused", flight->number);
    }
    task->attempt_seen = life->attempts_all;
    task->fence_seen = flight->fence;
    task->in_doubt = flight->is_once;
}

/* --- after each step --------------------------------------------------------------------------------- */

static bool was_done(const struct fleet_task *task)
{
    return task->successes > 0 || task->done_said || task->ack_said;
}

static void check_end(struct fleet *fleet, struct fleet_task *task, const struct life *life)
{
    int number = number_of(fleet, task);
    bool may_change =
        task->end_state == TASK_DEAD && (life->round > task->end_round ||
                                         (life->state == TASK_FAILED && life->resolved_at_ms != 0));

    if (task->ended && (life->state != task->end_state || life->round != task->end_round) &&
        !may_change) {
        fleet_fail(fleet, "I4: task %d was %s and is %s", number, task_state_text(task->end_state),
                   task_state_text(life->state));
    } else if (life->state == TASK_SUCCEEDED && !was_done(task)) {
        fleet_fail(fleet, "I4: task %d succeeded without anyone's word", number);
    } else if (life->state == TASK_UNSETTLED && task->says && !task->once) {
        fleet_fail(fleet, "task %d is unsettled and may be repeated", number);
    } else if (task->cancelled && life->state != TASK_CANCELLED) {
        fleet_fail(fleet, "I4: task %d was cancelled and is %s", number,
                   task_state_text(life->state));
    }
    task->ended = task_is_settled(life->state);
    task->end_state = life->state;
    task->end_round = life->round;
}

static bool has_attempt(const struct engine *engine, int64_t row)
{
    for (const struct attempt *each = engine->attempts; each != NULL; each = each->next) {
        if (each->task.id.row == row || each->op.task.id.row == row) {
            return true;
        }
    }
    return false;
}

/* A claim whose answer was lost has no row yet: its operation is told by its mark. */
static bool has_marked(const struct engine *engine)
{
    for (const struct attempt *each = engine->attempts; each != NULL; each = each->next) {
        if (each->op.mark != 0 && each->op.result == RESULT_NONE) {
            return true;
        }
    }
    return false;
}

/* Is there a node that will do something about a task that runs? */
static bool is_owned(const struct fleet *fleet, const struct life *life, int64_t row)
{
    for (size_t i = 0; i < fleet->node_count; i++) {
        const struct fleet_node *node = &fleet->nodes[i];
        if (node->face == NULL || node->face->epoch != life->epoch ||
            !fleet_epoch_is_live(fleet, life->epoch)) {
            continue;
        }
        return !fleet_is_running(fleet, i) || !fleet_is_up(fleet, i) ||
               has_attempt(node->engine, row) || has_marked(node->engine) ||
               fleet_face_awaits(node->face, row);
    }
    return !fleet->is_calm || fleet_epoch_is_live(fleet, life->epoch); /* peers will recover it */
}

static void check_owner(struct fleet *fleet, struct fleet_task *task, const struct life *life)
{
    bool is_sent = life->state == TASK_RUNNING && (life->flags & LIFE_PULL) == 0;

    if (!is_sent || is_owned(fleet, life, task->id.row)) {
        task->unowned_ms = 0;
        return;
    }
    if (task->unowned_ms == 0) {
        task->unowned_ms = fleet->mono_ms;
        task->unowned_step = fleet->steps;
    }
    if (fleet->mono_ms - task->unowned_ms > FLEET_BOUND_MS + fleet->node_lease_ms &&
        (fleet->is_calm || fleet->steps - task->unowned_step > UNOWNED_STEPS)) {
        fleet_fail(fleet, "task %d is running for %" PRId64 " ms and no node works on it",
                   number_of(fleet, task), fleet->mono_ms - task->unowned_ms);
    }
}

/* What all who may send allow themselves is no more than the queue allows, whatever each of them knows of
 * the others at this moment, unless a node has not taken yet what its own pulse has seen. (An engine that
 * misses it is behind by more than its lease, in the real program, and sends nothing.) */
static void check_limits(struct fleet *fleet)
{
    const struct queue_settings *settings = &fleet->settings[0];
    uint32_t all = 0, host = 0;

    for (size_t i = 0; i < fleet->node_count; i++) {
        const struct engine *engine = fleet->nodes[i].engine;
        bool may_send = engine != NULL && engine->nodes.right.until_ms > fleet->mono_ms &&
                        fleet_epoch_is_live(fleet, engine->nodes.right.epoch);
        const struct queue *queue = may_send ? engine_find_queue(engine, SPAN(FLEET_PUSHED)) : NULL;
        all += queue != NULL ? queue->concurrency : 0;
        host += queue != NULL ? queue->host_concurrency : 0;
        if (queue != NULL && (fleet->nodes[i].beats != NULL || fleet->nodes[i].has_missed)) {
            return;
        }
    }
    if (all > settings->concurrency || host > settings->host_concurrency) {
        fleet_fail(fleet, "nodes allow themselves %u requests at once, and %u at one host", all,
                   host);
    }
}

void fleet_check(struct fleet *fleet)
{
    check_limits(fleet);
    fleet_check_ends(fleet);
    for (uint32_t i = 0; i < fleet->task_count && fleet->failure[0] == '\0'; i++) {
        struct fleet_task *task = &fleet->tasks[i];
        const struct version *version = fleet_version(fleet, task->id.row);
        if (version != NULL) {
            check_end(fleet, task, &version->life);
            check_owner(fleet, task, &version->life);
        } else if (task->acknowledged && !task->purged) {
            fleet_fail(fleet, "I1: task %u was acknowledged and is gone", i);
        }
    }
}

/* --- at the end -------------------------------------------------------------------------------------- */

/* What may stay as it is: what waits in a queue that is paused. */
static bool may_stay(const struct fleet *fleet, const struct version *version)
{
    const struct fleet_queue *queue = &fleet->queues[version->task->task.queue];
    const struct life *life = &version->life;
    bool is_waiting = life->state == TASK_WAITING;
    bool is_expired =
        life->deadline_at_ms != 0 && fleet_server_ms(fleet) > life->deadline_at_ms + FLEET_BOUND_MS;

    return is_waiting && queue->is_paused && (life->flags & LIFE_FORCED) == 0 && !is_expired;
}

/* Of a queue that was deleted nothing is left but what is in doubt. */
static bool is_open(const struct fleet *fleet, const struct version *version)
{
    bool is_probed = version->life.state == TASK_UNSETTLED && version->life.probe_due_ms != 0;

    if (fleet->queues[version->task->task.queue].is_dropped) {
        return version->life.state != TASK_UNSETTLED && fleet_options.leftovers;
    }
    return (version->life.state == TASK_WAITING || version->life.state == TASK_RUNNING ||
            is_probed) &&
           !may_stay(fleet, version);
}

static bool has_pending(const struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->sub_count; i++) {
        if (fleet->subs[i].told == FLEET_PENDING) {
            return true;
        }
    }
    for (uint32_t i = 0; i < fleet->act_count; i++) {
        if (fleet->acts[i].told == FLEET_PENDING) {
            return true;
        }
    }
    return false;
}

bool fleet_is_over(struct fleet *fleet)
{
    const struct rows *rows = &fleet->inner->rows;

    for (size_t i = 0; i < rows->task_count; i++) {
        if (is_open(fleet, rows->tasks[i])) {
            return false;
        }
    }
    return !has_pending(fleet) && !fleet_has_callers(fleet) && !fleet_has_redrives(fleet);
}

static void check_callbacks(struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->task_count; i++) {
        const struct fleet_task *task = &fleet->tasks[i];
        const struct version *version = fleet_version(fleet, task->id.row);
        if (version == NULL) {
            continue;
        }
        const struct life *life = &version->life;
        bool is_over = task_is_settled(life->state) && life->state != TASK_CANCELLED;
        uint32_t ended =
            (UINT32_C(1) << life->round) - 1 + (is_over ? UINT32_C(1) << life->round : 0);
        if (task->told_rounds != (task->called ? ended : 0)) {
            fleet_fail(fleet, "task %u: rounds %x have ended, %x were told", i, ended,
                       task->told_rounds);
        }
    }
}

/* Every node has seen all others by now. */
static void check_shares(struct fleet *fleet)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < fleet->node_count; i++) {
        const struct engine *engine = fleet->nodes[i].engine;
        sum += engine != NULL ? engine_find_queue(engine, SPAN(FLEET_PUSHED))->concurrency : 0;
    }
    if (sum != fleet->settings[0].concurrency) {
        fleet_fail(fleet, "the nodes' shares of %u are %u", fleet->settings[0].concurrency, sum);
    }
}

void fleet_check_calm(struct fleet *fleet)
{
    const struct rows *rows = &fleet->inner->rows;

    for (size_t i = 0; i < rows->task_count && fleet->failure[0] == '\0'; i++) {
        const struct version *version = rows->tasks[i];
        const struct fleet_task *task = fleet_task_of(fleet, version->task->task.id);
        if (is_open(fleet, version)) {
            fleet_fail(fleet, "task %d (%s) is still %s when all is calm, due in %" PRId64 " ms%s",
                       task == NULL ? -1 : number_of(fleet, task),
                       task == NULL ? "callback or key" : task->queue,
                       task_state_text(version->life.state),
                       version->life.due_at_ms - fleet_server_ms(fleet),
                       fleet->queues[version->task->task.queue].is_dropped ? ", queue deleted"
                                                                           : "");
        }
    }
    if (has_pending(fleet) || fleet_has_callers(fleet)) {
        fleet_fail(fleet, "a caller was never answered");
    }
    check_callbacks(fleet);
    check_shares(fleet);
    fleet_check_redrives(fleet);
}
