/* SPDX-License-Identifier: MIT
 *
 * storm -- what each kind of jitter does when many clients want the same thing at once. The model is
 * optimistic concurrency on one record, in virtual time:
 *
 *   client             trip             record             trips            record
 *   send read  ------------------> takes the version ---> client, back ---> write: wins when nobody
 *      ^                                                                    won since the read
 *      '--- backoff <-- trip: "lost" ----------------------------------------'--- "won" --> done
 *
 * Everybody starts at 0. A trip takes about TRIP_MEAN_US. The waits are the library's own
 * daruma_backoff_delay_ms with a seeded dice, so each line can be repeated bit for bit:
 *
 *     jitter  calls mean, deviation  ms until all are done mean, deviation
 */
#include "bench.h"

#include <daruma/backoff.h>
#include <daruma/dice.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CLIENTS_MAX       1000
#define CALLS_MAX         10000000 /* a storm that is not over by then never is */
#define TRIP_MEAN_US      10000
#define TRIP_DEVIATION_US 2000
#define TRIP_LEAST_US     1000
#define NEVER             UINT64_MAX

enum phase { READ_ARRIVES, WRITE_ARRIVES, ANSWER_ARRIVES };

struct client {
    uint64_t next_at_us; /* NEVER: it is done */
    uint64_t previous_ms;
    uint64_t version; /* what it read */
    uint32_t failures;
    enum phase phase;
    int has_won;
};

struct storm {
    struct client clients[CLIENTS_MAX];
    uint64_t client_count;
    struct daruma_backoff backoff;
    struct daruma_dice network, dice;
    uint64_t version; /* of the record: how many have won */
    uint64_t calls;   /* reads that were followed by a write */
    uint64_t now_us;
};

/* Twelve uniform draws less six are normal enough, and the same on every machine. */
static uint64_t trip_us(struct storm *storm)
{
    int64_t sum = 0;

    for (int i = 0; i < 12; i++) {
        sum += (int64_t)(daruma_dice_roll(&storm->network) % TRIP_DEVIATION_US);
    }
    sum += TRIP_MEAN_US - 6 * TRIP_DEVIATION_US;
    return sum < TRIP_LEAST_US ? TRIP_LEAST_US : (uint64_t)sum;
}

static void client_arrives(struct storm *storm, struct client *client, enum phase phase, int trips)
{
    client->phase = phase;
    client->next_at_us = storm->now_us;
    for (int i = 0; i < trips; i++) {
        client->next_at_us += trip_us(storm);
    }
}

static void client_moves(struct storm *storm, struct client *client)
{
    switch (client->phase) {
    case READ_ARRIVES:
        storm->calls++;
        client->version = storm->version;
        client_arrives(storm, client, WRITE_ARRIVES, 2);
        return;
    case WRITE_ARRIVES:
        client->has_won = client->version == storm->version;
        storm->version += (uint64_t)client->has_won;
        client_arrives(storm, client, ANSWER_ARRIVES, 1);
        return;
    case ANSWER_ARRIVES:
    default:
        if (client->has_won) {
            client->next_at_us = NEVER;
            return;
        }
        client->failures++;
        client->previous_ms = daruma_backoff_delay_ms(&storm->backoff, client->failures,
                                                      client->previous_ms, &storm->dice);
        client_arrives(storm, client, READ_ARRIVES, 1);
        client->next_at_us += client->previous_ms * 1000;
        return;
    }
}

static struct client *next_client(struct storm *storm)
{
    struct client *next = &storm->clients[0];

    for (uint64_t i = 1; i < storm->client_count; i++) {
        if (storm->clients[i].next_at_us < next->next_at_us) {
            next = &storm->clients[i];
        }
    }
    return next;
}

static void storm_run(struct storm *storm, uint64_t seed)
{
    storm->network = daruma_dice_seed(seed * 2);
    storm->dice = daruma_dice_seed(seed * 2 + 1);
    storm->version = storm->calls = storm->now_us = 0;
    for (uint64_t i = 0; i < storm->client_count; i++) {
        storm->clients[i] = (struct client){0};
        client_arrives(storm, &storm->clients[i], READ_ARRIVES, 1);
    }
    for (;;) {
        struct client *client = next_client(storm);
        if (client->next_at_us == NEVER) {
            return;
        }
        if (storm->calls > CALLS_MAX) {
            bench_give_up("a storm does not end");
        }
        storm->now_us = client->next_at_us;
        client_moves(storm, client);
    }
}

struct series {
    double sum, squares;
    uint64_t count;
};

static void series_add(struct series *series, double value)
{
    series->sum += value;
    series->squares += value * value;
    series->count++;
}

static double series_mean(const struct series *series)
{
    return series->sum / (double)series->count;
}

/* The standard deviation; Newton's root, so that no mathematics library is needed. */
static double series_deviation(const struct series *series)
{
    double mean = series_mean(series);
    double variance = series->squares / (double)series->count - mean * mean;
    double root = variance > 1 ? variance : 1;

    for (int i = 0; i < 60; i++) {
        root = (root + variance / root) / 2;
    }
    return variance > 0 ? root : 0;
}

static void measure_kind(struct storm *storm, const char *name, uint64_t seeds)
{
    struct series calls = {0}, done_ms = {0};

    for (uint64_t seed = 1; seed <= seeds; seed++) {
        storm_run(storm, seed);
        series_add(&calls, (double)storm->calls);
        series_add(&done_ms, (double)storm->now_us / 1000);
    }
    (void)printf("%-14s %10.1f %10.1f %10.1f %10.1f\n", name, series_mean(&calls),
                 series_deviation(&calls), series_mean(&done_ms), series_deviation(&done_ms));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        enum daruma_jitter jitter;
    } kinds[] = {{"none", DARUMA_JITTER_NONE},
                 {"factor", DARUMA_JITTER_FACTOR},
                 {"full", DARUMA_JITTER_FULL},
                 {"equal", DARUMA_JITTER_EQUAL},
                 {"decorrelated", DARUMA_JITTER_DECORRELATED}};
    static struct storm storm;
    uint64_t seeds = bench_number(argc, argv, "--seeds", 400);

    storm.client_count = bench_number(argc, argv, "--clients", 100);
    if (storm.client_count == 0 || storm.client_count > CLIENTS_MAX || seeds == 0) {
        bench_give_up("between 1 and 1000 clients, and at least one seed");
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        storm.backoff = (struct daruma_backoff){
            .jitter = kinds[i].jitter,
            .base_ms = bench_number(argc, argv, "--base-ms", DARUMA_BACKOFF_BASE_MS),
            .max_ms = bench_number(argc, argv, "--max-ms", DARUMA_BACKOFF_MAX_MS),
            .jitter_factor = DARUMA_BACKOFF_JITTER,
        };
        if (daruma_backoff_check(&storm.backoff, NULL) != 0) {
            bench_give_up("the backoff is not a valid one");
        }
        measure_kind(&storm, kinds[i].name, seeds);
    }
    return 0;
}
