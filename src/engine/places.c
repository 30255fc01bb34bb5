/* SPDX-License-Identifier: MIT
 *
 * places -- how many attempts are under way over all queues (limits.attempts). Each costs a descriptor
 * and memory, and queues are many: each within its own limit, they would together take what the api, the
 * health checks and the store need. While there is plenty a queue takes what it wants. Beyond that
 * queues wait in a ring and are served in turn, a few leases each, and the last quarter is for those that
 * have less than their share of it: queues whose targets hang cannot take it all.
 *
 * An attempt that could not begin because this machine had no descriptor, port or memory for it says
 * nothing of its target: it goes back untouched, sending rests, and then fewer are allowed at once. Where it was
 * only that too many names are looked up, it alone is due later.
 */
#include "engine/engine_internal.h"
#include "base/plant.h"

#define REST_FIRST_MS      50
#define REST_MAX_MS        1000
#define GROW_EVERY_MS      1000 /* after a shortage: so often an eighth more is tried */
#define SHORT_LOG_EVERY_MS 60000
#define SERVED_AT_ONCE     8  /* leases of a queue whose turn it is */
#define SERVED_QUEUES      32 /* that are looked at when places are free */
#define GATHERED_MAX       32 /* places that are free before they are given away, */
#define GATHERED_SHARE     32 /* and of all of them this part at most */

/* Who waits for a host has no place. */
static uint64_t taken(const struct engine *engine)
{
    return engine->stats.in_flight - engine->places.beside_count;
}

static uint64_t plenty(const struct engine *engine)
{
    uint32_t now = engine->places.now;

    return now - now / 4;
}

void places_open(struct engine *engine)
{
    engine->places.now = engine->options.attempts_max;
}

/* Of the last quarter, of those that are busy. A queue that is alone has it with what comes later. */
static uint32_t share(const struct engine *engine)
{
    uint32_t queues = engine->places.busy_queues > 0 ? engine->places.busy_queues : 1;
    uint32_t each = engine->places.now / 4 / queues;

    return each > 0 ? each : 1;
}

bool places_may_take(const struct engine *engine, const struct queue *queue)
{
    if (engine->options.attempts_max == 0) {
        return true;
    }
    if (engine->places.first != NULL && engine->places.served != queue) {
        return false; /* others wait */
    }
    return taken(engine) < plenty(engine) ||
           (taken(engine) < engine->places.now && dispatch_places_taken(queue) < share(engine));
}

/* For one that is leased and waits for its host: it goes before what is not. */
bool places_have_room(const struct engine *engine)
{
    PLANT(PLACES_IGNORED, return true)
    return engine->options.attempts_max == 0 || taken(engine) < engine->places.now;
}

/* It has something to send and no place for it. */
void places_want(struct engine *engine, struct queue *queue)
{
    if (queue->is_hungry) {
        return;
    }
    queue->is_hungry = true;
    engine->places.hungry_count++;
    queue->next_hungry = NULL;
    *(engine->places.last != NULL ? &engine->places.last->next_hungry : &engine->places.first) =
        queue;
    engine->places.last = queue;
}

static struct queue *next_in_turn(struct engine *engine)
{
    struct queue *queue = engine->places.first;

    if (queue != NULL) {
        engine->places.first = queue->next_hungry;
        engine->places.last = engine->places.first == NULL ? NULL : engine->places.last;
        queue->is_hungry = false;
        engine->places.hungry_count--;
    }
    return queue;
}

static void serve(struct engine *engine, struct queue *queue)
{
    engine->places.served = queue;
    dispatch_some(engine, queue, SERVED_AT_ONCE); /* it lines up again if it wants more */
    engine->places.served = NULL;
}

/* Once round, so that those that have their share keep their order. */
static void serve_poorest(struct engine *engine)
{
    uint32_t tries = engine->places.hungry_count;

    tries = tries < SERVED_QUEUES ? tries : SERVED_QUEUES;
    for (; tries > 0 && taken(engine) < engine->places.now && engine->places.first != NULL;
         tries--) {
        struct queue *queue = next_in_turn(engine);
        if (dispatch_places_taken(queue) < share(engine)) {
            serve(engine, queue);
        } else {
            places_want(engine, queue);
        }
    }
}

static bool may_serve(const struct engine *engine)
{
    return engine->places.served == NULL && engine->places.first != NULL && !places_rest(engine);
}

/* For those that wait for a place, in turn. */
static void serve_all(struct engine *engine)
{
    for (int i = 0;
         i < SERVED_QUEUES && taken(engine) < plenty(engine) && engine->places.first != NULL; i++) {
        serve(engine, next_in_turn(engine));
    }
    serve_poorest(engine);
    engine->has_more_to_do |= engine->places.first != NULL && taken(engine) < plenty(engine);
}

static uint64_t gathered(const struct engine *engine)
{
    uint64_t some = plenty(engine) / GATHERED_SHARE;

    return some < GATHERED_MAX ? some : GATHERED_MAX;
}

/* A place may be free. Places become free one by one: were each given away at once, every lease would be
 * of another queue than the one before it. Tasks of a queue stand beside each other in the store, and
 * what is leased together is written together, so a few are gathered, or what there is by the next
 * tick. */
void places_serve(struct engine *engine)
{
    uint64_t most = plenty(engine), now = taken(engine);

    if (!may_serve(engine)) {
        return;
    }
    if (now < most && most - now < gathered(engine)) {
        engine->has_more_to_do = true;
        return;
    }
    serve_all(engine);
}

void places_take(struct engine *engine, struct queue *queue)
{
    engine->stats.in_flight++;
    engine->places.busy_queues += queue->in_flight++ == 0;
}

void places_free(struct engine *engine, struct queue *queue)
{
    engine->stats.in_flight--;
    engine->places.busy_queues -= --queue->in_flight == 0;
}

/* --- want of one's own -------------------------------------------------------------------------------- */

bool places_rest(const struct engine *engine)
{
    return engine->places.rest_until_ms != 0 && /* else no look at the clock: this is asked often */
           clock_mono_ms(engine->options.clock) < engine->places.rest_until_ms;
}

/* For how long nothing is sent; 0: it is not so. */
int64_t places_rest_ms(const struct engine *engine)
{
    if (!places_rest(engine)) {
        return 0;
    }
    int64_t left_ms = engine->places.rest_until_ms - clock_mono_ms(engine->options.clock);
    return left_ms > 0 ? left_ms : 0;
}

static void log_short(struct engine *engine, const struct attempt *attempt, int64_t now_ms)
{
    engine->stats.short_attempts++;
    engine->stats.unnamed_attempts += attempt->delivery.is_unnamed;
    engine->places.short_count++;
    if (engine->places.logged_ms != 0 && now_ms - engine->places.logged_ms < SHORT_LOG_EVERY_MS) {
        return;
    }
    DARUMA_LOG(engine->options.log, DARUMA_LOG_WARN, "sending_short",
               daruma_log_text("error", attempt->delivery.message),
               daruma_log_uint("under_way", taken(engine)),
               daruma_log_uint("count", engine->places.short_count));
    engine->places.logged_ms = now_ms;
    engine->places.short_count = 0;
}

/* This attempt did not begin, for a reason of this machine. It has left its place already. */
void places_short(struct engine *engine, const struct attempt *attempt)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);

    log_short(engine, attempt, now_ms);
    if (attempt->delivery.is_unnamed || attempt->delivery.is_unvouched) {
        return; /* what needs no look-up, or another file, lacks nothing */
    }
    if (now_ms < engine->places.rest_until_ms) {
        return; /* one of those that were under way when it was noticed */
    }
    bool is_again = now_ms - engine->places.rest_until_ms < engine->places.rest_ms;
    int64_t rest_ms = is_again ? 2 * engine->places.rest_ms : REST_FIRST_MS;
    engine->places.rest_ms = rest_ms < REST_MAX_MS ? rest_ms : REST_MAX_MS;
    engine->places.rest_until_ms = now_ms + engine->places.rest_ms;
    engine->places.grow_at_ms = engine->places.rest_until_ms + GROW_EVERY_MS;
    if (engine->options.attempts_max > 0) {
        uint64_t left = taken(engine) < engine->places.now ? taken(engine) : engine->places.now;
        engine->places.now = left > 0 ? (uint32_t)left : 1;
    }
}

/* Until more are tried, if a queue waits for that; INT64_MAX: none does. */
int64_t places_grow_wait_ms(const struct engine *engine)
{
    bool may_grow = engine->places.now < engine->options.attempts_max;

    if (!may_grow || engine->places.first == NULL) {
        return INT64_MAX;
    }
    return engine->places.grow_at_ms - clock_mono_ms(engine->options.clock);
}

/* What was too much once may not be so any more. */
void places_tick(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    uint32_t now = engine->places.now, most = engine->options.attempts_max;

    if (now < most && now_ms >= engine->places.grow_at_ms) {
        uint32_t more = now + now / 8 + 1;
        engine->places.now = more < most ? more : most;
        engine->places.grow_at_ms = now_ms + GROW_EVERY_MS;
    }
    if (may_serve(engine)) {
        serve_all(engine);
    }
}
