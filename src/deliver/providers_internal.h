/* SPDX-License-Identifier: MIT
 *
 * providers -- shared only among deliver/providers*.c: a provider as it runs, and one attempt on its
 * way through several.
 */
#ifndef DELIVER_PROVIDERS_INTERNAL_H
#define DELIVER_PROVIDERS_INTERNAL_H

#include "deliver/classify.h"
#include "deliver/gates.h"
#include "deliver/provider_format.h"
#include "deliver/providers.h"

struct provider_key {
    struct gate gate;
    bool is_dead;           /* was refused */
    enum daruma_class why;  /* its gate was shut */
    bool is_named;          /* the provider has said until when; else the rest is our own */
    int64_t avoid_until_ms; /* monotonic: used only when no other key of the list may be */
};

struct provider {
    const struct provider_settings *settings;
    struct provider_key keys[PROVIDER_KEYS_MAX];
    size_t key_next;        /* keys take turns */
    uint32_t silent_count;  /* calls in a row that ran out of time */
    int64_t silent_rest_ms; /* the last rest for that; 0: none */
    struct provider_stats stats;
};

/* Whose turn it is in a list; lists with the same providers in the same order share it. */
struct rotation {
    const struct provider_settings *providers[FALLBACK_PROVIDERS_MAX];
    size_t provider_count;
    enum fallback_order order;
    size_t first;
};

enum flight_step { FLIGHT_CALLING, FLIGHT_WAITING, FLIGHT_ENDED };

/* One attempt. */
struct flight {
    struct delivery leg; /* first: the call that is under way */
    struct delivery *whole;
    struct providers *owner;
    struct flight *next, **at;
    enum flight_step step;
    struct article article;
    struct rotation *rotation; /* NULL: the order is fixed */
    struct provider *order[FALLBACK_PROVIDERS_MAX];
    uint32_t tried[FALLBACK_PROVIDERS_MAX]; /* a bit for each key */
    size_t order_count;

    size_t now_provider, now_key; /* of the call under way */
    enum gate_pass pass;
    struct buf url, headers, body;

    int64_t wait_until_ms; /* monotonic: waiting for a gate is worth it until then; 0: not begun */
    int64_t end_by_ms;     /* monotonic: the task's own time for one attempt; 0: none */
    int64_t earliest_ms;   /* the smallest hint so far; 0: none */
    int rank;              /* of the failure that decides so far */
    bool is_cancelled;
};

struct providers {
    struct deliver base;
    struct providers_options options;
    struct deliver *inner;
    deliver_done_fn done;
    void *done_user;
    struct provider *providers;
    struct rotation *rotations;
    size_t rotation_count, rotation_room;
    struct flight *flights;
    struct flight **last;
    size_t
        resting_count; /* flights that wait or have ended: with none there is nothing to look for */
    bool has_ended;    /* some flight waits to be told */
    bool is_changed;   /* a gate has moved: who waits looks again */
};

/* providers_book.c: what is remembered about providers. */
struct provider *book_find(struct providers *providers, const struct provider_settings *settings);
void book_order(struct flight *flight);    /* fills in the order of this attempt */
void book_answered(struct flight *flight); /* the provider of the call has succeeded */
/* A key of the provider that may be used now and is not in `tried`, one that is not avoided first; else
 * how long until one may, or -1 when none is left. */
int64_t book_pick_key(struct provider *provider, uint32_t tried, int64_t now_ms, size_t *ret_key);
bool book_is_avoided(const struct provider *provider, size_t key, int64_t now_ms);
bool book_pick_any_key(const struct provider *provider, uint32_t tried, size_t *ret_key);
void book_failed(struct flight *flight, const struct verdict *verdict, int64_t now_ms);
int64_t book_shut_ms(struct provider *provider, int64_t now_ms); /* by its own word; 0: it is not */
/* Why it cannot be asked: the class that waiting for it is a case of. */
enum daruma_class book_held_class(const struct provider *provider);

/* providers_flight.c */
struct flight *flight_new(struct providers *providers, struct delivery *whole);
void flight_free(struct flight *flight);
void flight_begin(struct flight *flight);
void flight_step(struct flight *flight, int64_t now_ms);
void flight_leg_end(struct flight *flight);
void flight_cancel(struct flight *flight);
int64_t flight_wait_ms(struct flight *flight, int64_t now_ms); /* WAITING: until a look is due */

/* providers_result.c: what came of it, into the delivery. */
void result_invalid(struct flight *flight, const char *why);
void result_note_leg(struct flight *flight, const struct verdict *verdict);
void result_note_failure(struct flight *flight, const struct verdict *verdict);
void result_short(struct flight *flight);
void result_put_off(struct flight *flight, int64_t wait_ms);
void result_failed(struct flight *flight, int64_t now_ms);
/* False: it is no answer that can be used, *ret_verdict says why. */
bool result_succeeded(struct flight *flight, struct verdict *ret_verdict);

#endif
