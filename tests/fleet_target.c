/* SPDX-License-Identifier: MIT
 *
 * fleet_target -- the deliverers of the nodes and the targets behind them. As the real deliverer it
 * connects first, and asks at its last gate whether the first byte may still go out
 * (delivery.send_until_ms); a node that is stopped in between asks when it goes on. See fleet.h.
 */
#include "fleet.h"

#include "engine/engine_internal.h"

#include <inttypes.h>

static struct fleet_flight *free_flight(struct fleet *fleet)
{
    for (size_t i = 0; i < FLEET_FLIGHTS_MAX; i++) {
        if (fleet->flights[i].delivery == NULL) {
            return &fleet->flights[i];
        }
    }
    return NULL;
}

const struct attempt *fleet_attempt_of(const struct delivery *delivery)
{
    return (const struct attempt *)((const char *)delivery - offsetof(struct attempt, delivery));
}

/* It was leased under a lease that the node knows to be lost. */
static bool is_renewed(const struct fleet_node *node, const struct delivery *delivery)
{
    const struct attempt *attempt = fleet_attempt_of(delivery);

    return delivery->ticket == DELIVERY_ATTEMPT && attempt->life.epoch != 0 &&
           attempt->life.epoch != node->face->base.epoch;
}

/* Connecting takes no time at all, or a while. */
static int64_t connect_ms(struct fleet *fleet)
{
    return !fleet->is_calm && fleet_roll(fleet, 4) == 0 ? (int64_t)fleet_roll(fleet, 3000) : 0;
}

int fleet_send(void *user, struct delivery *delivery, struct error *err)
{
    struct fleet_node *node = user;
    struct fleet *fleet = node->fleet;
    struct fleet_flight *flight = free_flight(fleet);
    struct span rest = delivery->body, text;
    int64_t number = -1;

    node->wishes++;
    node->attempts += delivery->ticket == DELIVERY_ATTEMPT;
    if (node->is_dead) {
        return 0;
    }
    if (flight == NULL) {
        return fail(err, FAULT_FULL, "simulated: too many connections");
    }
    bool is_callback = span_starts(delivery->url, "http://tell."),
         is_route = fleet_is_gateway(delivery);
    (void)span_cut(&rest, ' ', &text); /* "NUMBER SERIAL" */
    if (!is_callback && !is_route &&
        (!span_to_int(text, &number) || number < 0 || number >= fleet->task_count)) {
        fleet_fail(fleet, "a request without a submission");
        return 0;
    }
    *flight = (struct fleet_flight){
        .delivery = delivery,
        .node = node->index,
        .is_callback = is_callback,
        .is_renewed = is_renewed(node, delivery),
        .number = is_callback || is_route ? 0 : (uint32_t)number,
        .fence = delivery->ticket == DELIVERY_ATTEMPT ? fleet_attempt_of(delivery)->life.fence : 0,
        .at_ms = fleet->mono_ms + connect_ms(fleet)};
    if (delivery->ticket == DELIVERY_ATTEMPT) {
        fleet_check_room(fleet, flight);
    }
    if (!is_callback && !is_route && delivery->ticket == DELIVERY_ATTEMPT) {
        fleet_check_begun(fleet, node->index, delivery, flight->number);
    }
    if (is_route && !fleet_gateway_begin(flight)) {
        fleet_fail(fleet, "a request of the gateway without a key");
    }
    return 0;
}

static const struct fleet_answer late = {0, TASK_SENT_NO, 0, false};

static const struct fleet_answer answers[] = {
    {200, TASK_SENT_YES, 0, true},    {200, TASK_SENT_YES, 0, true},
    {200, TASK_SENT_YES, 0, true},    {500, TASK_SENT_YES, 0, true},
    {503, TASK_SENT_YES, 700, false}, {429, TASK_SENT_YES, 900, false},
    {400, TASK_SENT_YES, 0, false},   {0, TASK_SENT_NO, 0, false},
    {0, TASK_SENT_MAYBE, 0, true},    {0, TASK_SENT_MAYBE, 0, true},
};

static const struct fleet_answer silence = {0, TASK_SENT_MAYBE, 0, true};

static void come_back(struct fleet *fleet, struct fleet_flight *flight)
{
    const struct fleet_answer *answer = flight->answer;
    struct delivery *delivery = flight->delivery;
    struct fleet_task *task = &fleet->tasks[flight->number];

    if (!flight->is_callback && flight->is_on_wire) {
        task->successes += answer->status == 200;
        if (flight->is_once && task->fence_seen == flight->fence && !answer->leaves_doubt) {
            task->in_doubt = false; /* the target says that it did nothing */
        }
    }
    size_t node = flight->node;
    fleet_trace(fleet, "node %zu: task %u fence %" PRIu64 " comes back: %d, sent %d", node,
                flight->number, flight->fence, answer->status, (int)answer->sent);
    *flight = (struct fleet_flight){0};
    delivery->outcome = (struct outcome){.status = answer->status,
                                         .sent = answer->sent,
                                         .hint_ms = answer->hint_ms,
                                         .has_hint = answer->hint_ms > 0};
    delivery->sends = answer->sent != TASK_SENT_NO;
    delivery->ended_at_ms = fleet_server_ms(fleet);
    (void)daruma_class_of_status(answer->status, &delivery->outcome.error_class); /* 200: unused */
    engine_delivered(fleet->nodes[node].engine, delivery);
}

static void pass_gate(struct fleet *fleet, struct fleet_flight *flight)
{
    const struct delivery *delivery = flight->delivery;

    bool is_disowned = !delivery_has_right(delivery, fleet->mono_ms);
    if (is_disowned || (delivery->send_until_ms != 0 && fleet->mono_ms > delivery->send_until_ms) ||
        (flight->is_renewed && !fleet_options.renewed_leases)) {
        flight->delivery->is_uncounted = is_disowned;
        fleet->seen.late++;
        flight->answer = &late;
        flight->is_route ? fleet_gateway_back(fleet, flight) : come_back(fleet, flight);
        return;
    }
    flight->is_on_wire = true;
    if (flight->is_route) {
        fleet_gateway_sent(fleet, flight);
        return;
    }
    flight->is_once = !delivery->repeatable;
    flight->answer = fleet_host_is_silent(fleet, delivery)
                         ? &silence
                         : &answers[fleet_roll(fleet, sizeof answers / sizeof *answers)];
    flight->at_ms = fleet->mono_ms + fleet_host_takes_ms(fleet, delivery);
    fleet->seen.sent++;
    fleet_check_sent(fleet, flight);
}

void fleet_deliver(struct fleet *fleet, size_t node)
{
    for (size_t i = 0; i < FLEET_FLIGHTS_MAX; i++) {
        struct fleet_flight *flight = &fleet->flights[i];
        if (flight->delivery == NULL || flight->node != node || flight->at_ms > fleet->mono_ms) {
            continue;
        }
        if (flight->is_on_wire && flight->is_route) {
            fleet_gateway_back(fleet, flight);
        } else if (flight->is_on_wire) {
            come_back(fleet, flight);
        } else {
            pass_gate(fleet, flight);
        }
    }
}

/* The row of one that was purged may be used again. */
struct fleet_task *fleet_task_of(struct fleet *fleet, struct task_id id)
{
    struct fleet_task *found = NULL;

    for (uint32_t i = 0; i < fleet->task_count && id.row != 0; i++) {
        struct task_id own = fleet->tasks[i].id;
        bool is_same = own.row == id.row && (id.tail == ID_ANY_TAIL || own.tail == id.tail);
        found = is_same ? &fleet->tasks[i] : found;
    }
    return found;
}
