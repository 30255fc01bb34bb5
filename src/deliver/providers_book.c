/* SPDX-License-Identifier: MIT
 *
 * providers_book -- what is remembered about providers between attempts: the gates of their keys,
 * which key's and which provider's turn it is, what was counted.
 */
#include "deliver/providers_internal.h"

#include <openssl/sha.h>

#include <stdio.h>
#include <stdlib.h>

struct provider *book_find(struct providers *providers, const struct provider_settings *settings)
{
    for (size_t i = 0; i < providers->options.provider_count; i++) {
        if (providers->providers[i].settings == settings) {
            return &providers->providers[i];
        }
    }
    return NULL;
}

/* --- turns ---------------------------------------------------------------------------------------- */

static bool is_rotation_of(const struct rotation *rotation, const struct fallback *fallback)
{
    return rotation->order == fallback->order &&
           rotation->provider_count == fallback->provider_count &&
           memcmp(rotation->providers, fallback->providers, sizeof rotation->providers) == 0;
}

/* NULL: no room; then the order is the one that is written. */
static struct rotation *find_rotation(struct providers *providers, const struct fallback *fallback)
{
    for (size_t i = 0; i < providers->rotation_count; i++) {
        if (is_rotation_of(&providers->rotations[i], fallback)) {
            return &providers->rotations[i];
        }
    }
    if (providers->rotations == NULL) { /* all at once: flights point into it */
        providers->rotations = calloc(PROVIDERS_ROTATIONS_MAX, sizeof *providers->rotations);
    }
    if (providers->rotations == NULL || providers->rotation_count == PROVIDERS_ROTATIONS_MAX) {
        return NULL;
    }
    struct rotation *rotation = &providers->rotations[providers->rotation_count++];
    rotation->order = fallback->order;
    rotation->provider_count = fallback->provider_count;
    memcpy(rotation->providers, fallback->providers, sizeof rotation->providers);
    return rotation;
}

/* Round robin: from the first one on, round the end. Sticky: that one in front of the others. */
void book_order(struct flight *flight)
{
    const struct fallback *fallback = flight->whole->fallback;
    size_t count = fallback->provider_count, first = 0;

    flight->rotation =
        fallback->order == FALLBACK_FIXED ? NULL : find_rotation(flight->owner, fallback);
    if (flight->rotation != NULL) {
        first = flight->rotation->first;
    }
    for (size_t i = 0; i < count; i++) {
        size_t from = fallback->order == FALLBACK_ROUND_ROBIN ? (first + i) % count
                      : i == 0                                ? first
                                                              : i - (i <= first);
        struct provider *provider = book_find(flight->owner, fallback->providers[from]);
        if (provider != NULL) {
            flight->order[flight->order_count++] = provider;
        }
    }
    if (flight->rotation != NULL && fallback->order == FALLBACK_ROUND_ROBIN) {
        flight->rotation->first = (first + 1) % count;
    }
}

void book_answered(struct flight *flight)
{
    struct provider *provider = flight->order[flight->now_provider];
    const struct fallback *fallback = flight->whole->fallback;

    provider->keys[flight->now_key].is_dead = false;
    provider->stats.succeeded++;
    for (size_t i = 0; fallback->order == FALLBACK_STICKY && i < fallback->provider_count; i++) {
        if (flight->rotation != NULL && fallback->providers[i] == provider->settings) {
            flight->rotation->first = i;
        }
    }
}

/* --- keys ----------------------------------------------------------------------------------------- */

int64_t book_pick_key(struct provider *provider, uint32_t tried, int64_t now_ms, size_t *ret_key)
{
    size_t count = provider->settings->key_count;
    int64_t least_ms = -1;

    for (size_t i = 0; i < count; i++) {
        size_t key = (provider->key_next + i) % count;
        if ((tried & 1u << key) != 0) {
            continue;
        }
        int64_t wait_ms = gate_wait_ms(&provider->keys[key].gate, now_ms);
        if (wait_ms == 0) {
            *ret_key = key;
            return 0;
        }
        least_ms = least_ms < 0 || wait_ms < least_ms ? wait_ms : least_ms;
    }
    return least_ms;
}

/* One that was not refused, if there is one. */
bool book_pick_any_key(const struct provider *provider, uint32_t tried, size_t *ret_key)
{
    size_t count = provider->settings->key_count, found = count;

    for (size_t i = 0; i < count; i++) {
        size_t key = (provider->key_next + i) % count;
        if ((tried & 1u << key) == 0 &&
            (found == count || (provider->keys[found].is_dead && !provider->keys[key].is_dead))) {
            found = key;
        }
    }
    *ret_key = found;
    return found < count;
}

static void fill_fingerprint(struct span key, char ret_text[PROVIDERS_FINGERPRINT_LEN + 1])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];

    (void)SHA256((const unsigned char *)key.at, key.len, digest); /* returns digest */
    for (size_t i = 0; i < PROVIDERS_FINGERPRINT_LEN / 2; i++) {
        (void)snprintf(ret_text + 2 * i, 3, "%02x", digest[i]); /* two digits */
    }
}

static void bury_key(struct flight *flight, const struct verdict *verdict, int64_t now_ms)
{
    struct provider *provider = flight->order[flight->now_provider];
    struct provider_key *key = &provider->keys[flight->now_key];
    const struct providers_options *options = &flight->owner->options;
    struct provider_alert alert = {.provider = provider->settings->name,
                                   .key = flight->now_key + 1,
                                   .status = verdict->status};

    gate_hold(&key->gate, now_ms, PROVIDERS_KEY_REST_MS);
    key->is_dead = true;
    fill_fingerprint(provider->settings->keys[flight->now_key], alert.fingerprint);
    if (options->alert != NULL) {
        options->alert(options->user, &alert);
    }
}

/* A limit is the key's; an overload is everybody's. */
void book_failed(struct flight *flight, const struct verdict *verdict, int64_t now_ms)
{
    struct provider *provider = flight->order[flight->now_provider];
    uint32_t all = (uint32_t)(UINT64_C(1) << provider->settings->key_count) - 1;
    uint32_t *tried = &flight->tried[flight->now_provider];

    provider->stats.failures[verdict->error_class]++;
    switch (verdict->error_class) {
    case DARUMA_CLASS_AUTH:
        bury_key(flight, verdict, now_ms);
        break;
    case DARUMA_CLASS_RATE_LIMITED:
    case DARUMA_CLASS_QUOTA:
        gate_hold(&provider->keys[flight->now_key].gate, now_ms, verdict->hint_ms);
        break;
    case DARUMA_CLASS_TRANSIENT:
        for (size_t i = 0; i < provider->settings->key_count; i++) {
            gate_hold(&provider->keys[i].gate, now_ms, verdict->hint_ms);
        }
        *tried = all;
        break;
    case DARUMA_CLASS_INVALID:
    case DARUMA_CLASS_GONE:
    case DARUMA_CLASS_EXPIRED:
    case DARUMA_CLASS_COUNT:
    default:
        *tried = all;
        break;
    }
}

int64_t book_shut_ms(struct provider *provider, int64_t now_ms)
{
    int64_t least_ms = 0;

    for (size_t i = 0; i < provider->settings->key_count; i++) {
        const struct provider_key *key = &provider->keys[i];
        bool is_shut = key->gate.state == GATE_SHUT && key->gate.until_ms > now_ms && !key->is_dead;
        int64_t wait_ms = is_shut ? key->gate.until_ms - now_ms : 0;
        least_ms = wait_ms > 0 && (least_ms == 0 || wait_ms < least_ms) ? wait_ms : least_ms;
    }
    return least_ms;
}

void providers_stats(struct providers *providers, size_t index, struct provider_stats *ret_stats)
{
    struct provider *provider = &providers->providers[index];
    int64_t now_ms = clock_mono_ms(providers->options.clock);
    struct provider_stats stats = provider->stats;
    size_t key;

    stats.closed_ms = book_pick_key(provider, 0, now_ms, &key);
    stats.closed_ms = stats.closed_ms > 0 ? stats.closed_ms : 0;
    stats.keys = (uint32_t)provider->settings->key_count;
    for (size_t i = 0; i < provider->settings->key_count; i++) {
        const struct provider_key *one = &provider->keys[i];
        stats.keys_dead += one->is_dead;
        stats.keys_resting += !one->is_dead && one->gate.state == GATE_SHUT;
    }
    *ret_stats = stats;
}
