/* SPDX-License-Identifier: MIT
 *
 * sim_target -- where requests go: a target that answers, refuses, fails, hangs and is cut off, and
 * whose ledger says what it has seen. See sim.h.
 */
#include "sim.h"

#include "engine/engine_internal.h"
#include "task/fields.h"

#define TARGETS  3
#define SLOW_URL "http://slow.invalid/"

static struct span url_of(uint32_t number)
{
    static const char *const urls[TARGETS] = {"http://target.invalid/", "http://second.invalid/",
                                              SLOW_URL};

    return span_of(urls[number % TARGETS]);
}

void sim_target_set_up(struct sim *sim)
{
    struct queue_settings *settings = &sim->settings[0];

    sim->attempts_max = sim->seed / 8 % 4 == 1 ? 6 : 0;
    settings->host_concurrency = (uint32_t)(sim->seed / 4 % 3);
    settings->concurrency = settings->host_concurrency == 1 ? 2 + sim->seed % 3 : 8;
    for (uint32_t i = 0; sim->seed / 2 % 2 == 0 && i < TARGETS; i++) {
        settings->targets[settings->target_count++] = (struct target){
            .name = span_until(SPAN("abc"), i + 1), .url = url_of(i), .timeout_ms = 60000};
    }
}

struct span sim_target_of(const struct sim *sim, uint32_t number)
{
    return sim->settings[0].target_count > 0 && number % 2 == 0 ? SPAN("") : url_of(number / 2);
}

static struct sim_flight *free_flight(struct sim *sim)
{
    for (size_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        if (sim->flights[i].delivery == NULL) {
            return &sim->flights[i];
        }
    }
    return NULL;
}

/* What is under way, and of that what is at the same host: limits do not change here. */
static void check_room(struct sim *sim, const struct sim_flight *flight)
{
    uint32_t all = 0, at_host = 0, host_max = sim->settings[0].host_concurrency;

    for (size_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        const struct sim_flight *other = &sim->flights[i];
        if (other->delivery != NULL && other->delivery->ticket == DELIVERY_ATTEMPT) {
            all++;
            at_host += other->kind == SIM_FLIGHT_TASK &&
                       span_equal(other->delivery->url, flight->delivery->url);
        }
    }
    if (sim->attempts_max != 0 && all > sim->attempts_max) {
        sim_fail(sim, "%u requests are under way, and there are %u places", all, sim->attempts_max);
    } else if (host_max != 0 && flight->kind == SIM_FLIGHT_TASK && at_host > host_max) {
        sim_fail(sim, "%u requests are at one host, and %u may be", at_host, host_max);
    }
}

int sim_send(void *user, struct delivery *delivery, struct error *err)
{
    struct sim *sim = user;
    struct sim_flight *flight = free_flight(sim);
    struct span text;
    int64_t number = 0;

    sim->wishes++;
    sim->attempts += delivery->ticket == DELIVERY_ATTEMPT;
    if (sim_is_dead(sim)) {
        return 0;
    }
    if (flight == NULL) {
        return fail(err, FAULT_FULL, "simulated: too many connections");
    }
    if (span_is(delivery->url, SIM_TELL_URL)) {
        *flight = (struct sim_flight){.delivery = delivery,
                                      .kind = SIM_FLIGHT_CALLBACK,
                                      .back_at_ms = sim->mono_ms + (int64_t)sim_roll(sim, 500)};
        check_room(sim, flight);
        return 0;
    }
    if (span_starts(delivery->url, SIM_UPSTREAM_URL)) {
        sim_upstream_send(sim, flight, delivery);
        return 0;
    }
    if (!span_to_int(delivery->body, &number) || number < 0 || number >= sim->task_count ||
        !fields_find(delivery->headers, "X-Daruma-Task", &text)) {
        sim_fail(sim, "a request that nobody asked for");
        return 0;
    }
    struct sim_task *task = &sim->tasks[number];
    (void)id_parse(text, &task->id); /* a caller that crashed with us has not been told it */
    sim_check_sent(sim, (uint32_t)number);
    *flight = (struct sim_flight){
        .delivery = delivery,
        .number = (uint32_t)number,
        .back_at_ms =
            sim->mono_ms + (int64_t)sim_roll(sim, span_is(delivery->url, SLOW_URL) ? 30000 : 3000)};
    check_room(sim, flight);
    task->in_flight = true;
    task->in_doubt = true;
    return 0;
}

static const struct sim_answer answers[] = {
    {200, TASK_SENT_YES, 0, true},     {200, TASK_SENT_YES, 0, true},
    {500, TASK_SENT_YES, 0, true},     {503, TASK_SENT_YES, 700, false},
    {429, TASK_SENT_YES, 1500, false}, {401, TASK_SENT_YES, 0, false},
    {400, TASK_SENT_YES, 0, false},    {0, TASK_SENT_NO, 0, false},
    {0, TASK_SENT_NO, 0, false},       {0, TASK_SENT_MAYBE, 0, true},
    {410, TASK_SENT_YES, 0, false},
};

static void come_back(struct sim *sim, struct sim_flight *flight)
{
    const struct sim_answer *answer = &answers[sim_roll(sim, sizeof answers / sizeof *answers)];
    struct sim_task *task = &sim->tasks[flight->number];
    struct delivery *delivery = flight->delivery;

    flight->delivery = NULL;
    if (flight->kind == SIM_FLIGHT_TASK) {
        task->in_flight = false;
        task->in_doubt = answer->leaves_doubt;
        task->sends += answer->sent != TASK_SENT_NO;
        task->successes += answer->status == 200;
    }
    delivery->outcome = (struct outcome){.status = answer->status,
                                         .sent = answer->sent,
                                         .hint_ms = answer->hint_ms,
                                         .has_hint = answer->hint_ms > 0};
    delivery->sends = answer->sent != TASK_SENT_NO;
    delivery->ended_at_ms = sim->wall_ms;
    (void)daruma_class_of_status(answer->status, &delivery->outcome.error_class); /* 200: unused */
    engine_delivered(sim->engine, delivery);
}

void sim_deliver(struct sim *sim)
{
    for (size_t i = 0; i < SIM_FLIGHTS_MAX && !sim->is_crashing; i++) {
        struct sim_flight *flight = &sim->flights[i];
        if (flight->delivery == NULL || flight->back_at_ms > sim->mono_ms) {
            continue;
        }
        if (flight->kind == SIM_FLIGHT_ROUTE || flight->kind == SIM_FLIGHT_PROBE) {
            sim_upstream_back(sim, flight);
        } else {
            come_back(sim, flight);
        }
    }
}
