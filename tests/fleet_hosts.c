/* SPDX-License-Identifier: MIT
 *
 * fleet_hosts -- the hosts that tasks go to, one of them slow or silent, how much may be under way at one
 * and over all queues, and nodes that are told to stop. What is checked: no node begins a request that
 * its share of a host or its places do not allow, and what waits leased goes back when it is not to be
 * sent any more. See fleet.h.
 */
#include "fleet.h"

#include "engine/engine_internal.h"

#include <string.h>

#define HOSTS     3
#define SLOW_URL  "http://slow.invalid/"
#define MADE_URL  "http://two.invalid/" /* of the queue that operators make */
#define SLOW_MS   30000
#define USUAL_MS  2500
#define CALM_MS   200 /* when there are no more faults: what takes long then is ours */
#define LIMITS    UINT64_C(0x6c696d697473) /* so that the limits have a dice of their own */
#define LEAVES_MS 40000 /* until a node that is told to stop is gone in any case */

static struct span url_of(uint32_t number)
{
    static const char *const urls[HOSTS] = {"http://own.invalid/", "http://second.invalid/",
                                            SLOW_URL};

    return span_of(urls[number % HOSTS]);
}

/* Half of the lives have them: in the others there is one host, and places for all. */
void fleet_hosts_set_up(struct fleet *fleet)
{
    static const uint32_t attempts[] = {0, 0, 1, 2, 3, 4, 6}, places[] = {6, 6, 2, 3, 4};
    struct daruma_dice dice = daruma_dice_seed(fleet->seed ^ LIMITS);
    struct queue_settings *settings = &fleet->settings[0];

    if (!fleet_options.many_hosts || daruma_dice_roll(&dice) % 2 == 0) {
        return;
    }
    fleet->limits.has_hosts = true;
    fleet->limits.is_silent = daruma_dice_roll(&dice) % 2 == 0;
    fleet->limits.attempts_max =
        attempts[daruma_dice_roll(&dice) % (sizeof attempts / sizeof *attempts)];
    settings->concurrency = places[daruma_dice_roll(&dice) % (sizeof places / sizeof *places)];
    settings->outage_after = daruma_dice_roll(&dice) % 4 == 0 ? 3 : 0;
    settings->outage_try_ms = 1500;
    uint64_t targets = daruma_dice_roll(&dice) % 2 == 0 ? 1 + daruma_dice_roll(&dice) % HOSTS : 0;
    for (uint32_t i = 0; i < targets; i++) {
        settings->targets[settings->target_count++] =
            (struct target){.name = span_until(SPAN("abc"), i + 1),
                            .url = url_of(i + (targets == 1 ? HOSTS - 1 : 0)),
                            .timeout_ms = QUEUE_TIMEOUT_MS,
                            .repeatable = daruma_dice_roll(&dice) % 2 == 0};
    }
}

struct span fleet_target_of(const struct fleet *fleet, uint32_t number)
{
    if (!fleet->limits.has_hosts) {
        return url_of(0);
    }
    return fleet->settings[0].target_count > 0 && number % 2 == 0 ? SPAN("") : url_of(number / 2);
}

static bool is_slow(const struct fleet *fleet, const struct delivery *delivery)
{
    return fleet->limits.has_hosts && !fleet->is_calm &&
           (span_is(delivery->url, SLOW_URL) || span_is(delivery->url, MADE_URL));
}

bool fleet_host_is_silent(const struct fleet *fleet, const struct delivery *delivery)
{
    return fleet->limits.is_silent && is_slow(fleet, delivery);
}

int64_t fleet_host_takes_ms(struct fleet *fleet, const struct delivery *delivery)
{
    uint64_t most_ms = fleet->is_calm ? CALM_MS : is_slow(fleet, delivery) ? SLOW_MS : USUAL_MS;

    return (int64_t)fleet_roll(fleet, most_ms);
}

/* --- limits ------------------------------------------------------------------------------------------ */

static bool is_attempt_of(const struct fleet_flight *flight, size_t node)
{
    return flight->delivery != NULL && flight->node == node &&
           flight->delivery->ticket == DELIVERY_ATTEMPT;
}

/* Those of its node that are under way, and of them those of its queue at its host. A limit that has
 * become smaller is reached by those that end, so what begins has to be within it. */
void fleet_check_room(struct fleet *fleet, const struct fleet_flight *flight)
{
    const struct queue *queue = fleet_attempt_of(flight->delivery)->queue;
    uint32_t all = 0, at_host = 0, most = fleet->limits.attempts_max;

    for (size_t i = 0; i < FLEET_FLIGHTS_MAX; i++) {
        const struct fleet_flight *other = &fleet->flights[i];
        if (is_attempt_of(other, flight->node)) {
            all++;
            at_host += fleet_attempt_of(other->delivery)->queue == queue &&
                       span_equal(other->delivery->url, flight->delivery->url);
        }
    }
    if (most != 0 && all > most) {
        fleet_fail(fleet, "node %zu has %u requests under way, and %u places", flight->node, all,
                   most);
    } else if (queue->settings.host_concurrency != 0 && at_host > queue->host_concurrency) {
        fleet_fail(fleet, "node %zu has %u requests of one queue at a host, and a share of %u",
                   flight->node, at_host, queue->host_concurrency);
    }
}

/* --- what waits leased ------------------------------------------------------------------------------- */

static bool is_in_line(const struct attempt *attempt)
{
    const struct attempt *ready = attempt->queue->ready;

    while (ready != NULL && ready != attempt) {
        ready = ready->next_ready;
    }
    return ready != NULL ||
           (attempt->host != NULL && !attempt->holds_host && attempt->life.state == TASK_RUNNING);
}

/* After a tick: what waits for a turn or for its host may still be sent. */
void fleet_check_lines(struct fleet *fleet, size_t node)
{
    const struct engine *engine = fleet->nodes[node].engine;

    if (engine->stats.attempts != fleet->nodes[node].attempts) {
        fleet_fail(fleet, "node %zu has counted an attempt that was not made", node);
    }
    for (const struct attempt *each = engine->attempts; each != NULL; each = each->next) {
        const struct queue *queue = each->queue;
        bool is_off = queue->dropped || (queue->paused && !each->is_forced);
        if (!is_in_line(each)) {
            continue;
        }
        if (each->waits_beside && (each->life.flags & LIFE_ONCE) != 0) {
            fleet_fail(fleet, "node %zu has a task in line that must not be sent twice", node);
        }
        if (engine->is_draining || is_off) {
            fleet_fail(fleet, "node %zu has a task in line that it does not send: %s", node,
                       engine->is_draining ? "it stops"
                       : queue->dropped    ? "its queue is deleted"
                                           : "its queue is paused");
        } else if (queue->concurrency == 0) {
            fleet_fail(fleet, "node %zu has a task in line and no share of its queue", node);
        }
    }
}

/* --- nodes that are told to stop --------------------------------------------------------------------- */

void fleet_stop_node(struct fleet_node *node)
{
    struct fleet *fleet = node->fleet;

    if (!fleet->limits.has_hosts || node->is_leaving) {
        return;
    }
    fleet_trace(fleet, "node %zu is told to stop", node->index);
    fleet->seen.leaving++;
    node->is_leaving = true;
    node->leave_until_ms = fleet->mono_ms + LEAVES_MS;
    engine_drain(node->engine);
    fleet_check_lines(fleet, node->index);
}

/* Is it gone? What it leased under its epoch is not left behind running, unless it took too long. */
bool fleet_has_left(struct fleet_node *node)
{
    struct fleet *fleet = node->fleet;
    const struct rows *rows = &fleet->inner->rows;
    bool is_drained = engine_is_drained(node->engine);

    if (!node->is_leaving || (!is_drained && fleet->mono_ms < node->leave_until_ms)) {
        return false;
    }
    for (size_t i = 0; is_drained && i < rows->task_count; i++) {
        const struct life *life = &rows->tasks[i]->life;
        if (life->state == TASK_RUNNING && (life->flags & LIFE_PULL) == 0 &&
            life->epoch == node->face->epoch) {
            fleet_fail(fleet, "node %zu has stopped and left a task running", node->index);
        }
    }
    return true;
}
