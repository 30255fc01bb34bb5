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

static void note_heard(struct provider *provider)
{
    provider->silent_count = 0;
    provider->silent_rest_ms = 0;
    provider->stats.troubles &= ~(1u << PROVIDER_TROUBLE_SILENT);
}

void book_answered(struct flight *flight)
{
    struct provider *provider = flight->order[flight->now_provider];
    const struct fallback *fallback = flight->whole->fallback;

    provider->keys[flight->now_key].is_dead = false;
    provider->keys[flight->now_key].avoid_until_ms = 0;
    note_heard(provider);
    provider->stats.troubles = 0;
    provider->stats.succeeded++;
    for (size_t i = 0; fallback->order == FALLBACK_STICKY && i < fallback->provider_count; i++) {
        if (flight->rotation != NULL && fallback->providers[i] == provider->settings) {
            flight->rotation->first = i;
        }
    }
}

/* --- keys ----------------------------------------------------------------------------------------- */

bool book_is_avoided(const struct provider *provider, size_t key, int64_t now_ms)
{
    return provider->keys[key].avoid_until_ms > now_ms;
}

/* One that hangs is tried by one call, not by one for each key. */
static bool is_being_tried(const struct provider *provider)
{
    bool is_tried = false;

    for (size_t i = 0; i < provider->settings->key_count; i++) {
        is_tried = is_tried || provider->keys[i].gate.is_probing;
    }
    return is_tried && provider->silent_rest_ms > 0;
}

int64_t book_pick_key(struct provider *provider, uint32_t tried, int64_t now_ms, size_t *ret_key)
{
    size_t count = provider->settings->key_count, avoided = count;
    int64_t least_ms = -1, tried_ms = is_being_tried(provider) ? GATE_PROBE_WAIT_MS : 0;

    for (size_t i = 0; i < count; i++) {
        size_t key = (provider->key_next + i) % count;
        if ((tried & 1u << key) != 0) {
            continue;
        }
        int64_t wait_ms = gate_wait_ms(&provider->keys[key].gate, now_ms);
        wait_ms = wait_ms > tried_ms ? wait_ms : tried_ms;
        if (wait_ms == 0 && !book_is_avoided(provider, key, now_ms)) {
            *ret_key = key;
            return 0;
        }
        if (wait_ms == 0) {
            avoided = avoided < count ? avoided : key;
            continue;
        }
        least_ms = least_ms < 0 || wait_ms < least_ms ? wait_ms : least_ms;
    }
    if (avoided < count) {
        *ret_key = avoided;
        return 0;
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

/* Until the moment that the provider has named. */
static void hold_named(struct provider_key *key, enum daruma_class why, int64_t now_ms,
                       int64_t hold_ms)
{
    if (hold_ms > 0) {
        key->why = why;
        key->is_named = true;
        gate_hold(&key->gate, now_ms, hold_ms);
    }
}

/* A rest of our own; what the provider has named stays named. */
static void hold_own(struct provider_key *key, enum daruma_class why, int64_t now_ms,
                     int64_t hold_ms)
{
    bool is_shut = key->gate.state == GATE_SHUT && key->gate.until_ms > now_ms;

    key->why = why;
    key->is_named = key->is_named && is_shut;
    gate_hold(&key->gate, now_ms, hold_ms);
}

static void tell(const struct flight *flight, const struct provider_alert *alert)
{
    const struct providers_options *options = &flight->owner->options;

    if (options->alert != NULL) {
        options->alert(options->user, alert);
    }
}

static void bury_key(struct flight *flight, const struct verdict *verdict, int64_t now_ms)
{
    struct provider *provider = flight->order[flight->now_provider];
    struct provider_key *key = &provider->keys[flight->now_key];
    struct provider_alert alert = {.trouble = verdict->trouble,
                                   .settings = provider->settings,
                                   .key = flight->now_key + 1,
                                   .status = verdict->status,
                                   .rest_ms = PROVIDERS_KEY_REST_MS};
    bool is_known = key->is_dead;

    hold_own(key, DARUMA_CLASS_AUTH, now_ms, PROVIDERS_KEY_REST_MS);
    key->is_dead = true;
    if (!is_known) {
        fill_fingerprint(provider->settings->keys[flight->now_key], alert.fingerprint);
        tell(flight, &alert);
    }
}

/* A limit is the key's. A key that is limited is a key that is known. */
static void rest_key(struct flight *flight, const struct verdict *verdict, int64_t now_ms)
{
    struct provider_key *key = &flight->order[flight->now_provider]->keys[flight->now_key];

    key->is_dead = false;
    hold_named(key, verdict->error_class, now_ms, verdict->hint_ms);
    if (verdict->error_class == DARUMA_CLASS_QUOTA && verdict->hint_ms == 0) {
        key->avoid_until_ms = now_ms + PROVIDERS_QUOTA_AVOID_MS;
    }
}

static void rest_all(struct provider *provider, const struct verdict *verdict, int64_t now_ms)
{
    for (size_t i = 0; i < provider->settings->key_count; i++) {
        hold_named(&provider->keys[i], DARUMA_CLASS_TRANSIENT, now_ms, verdict->hint_ms);
    }
}

static void note_trouble(struct flight *flight, enum provider_trouble trouble, int status,
                         int64_t rest_ms)
{
    struct provider *provider = flight->order[flight->now_provider];
    const struct provider_alert alert = {
        .trouble = trouble, .settings = provider->settings, .status = status, .rest_ms = rest_ms};
    bool is_known = (provider->stats.troubles & 1u << trouble) != 0;

    provider->stats.troubles |= 1u << trouble;
    if (!is_known) {
        tell(flight, &alert);
    }
}

/* It had all the time that it is configured to have, and did not use it: a task that has less for
 * itself says nothing about the provider. */
static bool is_silent(const struct flight *flight)
{
    const struct delivery *leg = &flight->leg;
    const struct provider_settings *settings = flight->order[flight->now_provider]->settings;

    return (leg->outcome.timed_out && leg->timeout_ms >= settings->timeout_ms) ||
           leg->outcome.status == 504 || leg->outcome.status == 522 || leg->outcome.status == 524;
}

/* Only the call that finds the gate open, or tries it, shuts it: those that were under way with it
 * have nothing to add. */
static void note_silence(struct flight *flight, int64_t now_ms)
{
    struct provider *provider = flight->order[flight->now_provider];
    const struct gate *gate = &provider->keys[flight->now_key].gate;
    int64_t rest_ms = provider->silent_rest_ms * 2;

    provider->silent_count++;
    if (provider->silent_count < PROVIDERS_SILENT_AFTER ||
        (gate->state == GATE_SHUT && gate->until_ms > now_ms)) {
        return;
    }
    rest_ms = rest_ms == 0                             ? PROVIDERS_SILENT_REST_MS
              : rest_ms > PROVIDERS_SILENT_REST_MAX_MS ? PROVIDERS_SILENT_REST_MAX_MS
                                                       : rest_ms;
    provider->silent_rest_ms = rest_ms;
    for (size_t i = 0; i < provider->settings->key_count; i++) {
        hold_own(&provider->keys[i], DARUMA_CLASS_TRANSIENT, now_ms, rest_ms);
    }
    note_trouble(flight, PROVIDER_TROUBLE_SILENT, flight->leg.outcome.status, rest_ms);
}

static void note_refusal(struct flight *flight, const struct verdict *verdict)
{
    if (verdict->trouble != PROVIDER_TROUBLE_NONE) {
        note_trouble(flight, verdict->trouble, verdict->status, 0);
    }
}

/* Another key may be of a project that has the model. */
static bool is_of_key(const struct verdict *verdict)
{
    return verdict->trouble == PROVIDER_TROUBLE_MODEL && verdict->status == 403;
}

/* A limit is the key's, an overload is everybody's, a refusal is the article's. */
void book_failed(struct flight *flight, const struct verdict *verdict, int64_t now_ms)
{
    struct provider *provider = flight->order[flight->now_provider];
    uint32_t all = (uint32_t)(UINT64_C(1) << provider->settings->key_count) - 1;
    uint32_t *tried = &flight->tried[flight->now_provider];

    provider->stats.failures[verdict->error_class]++;
    if (is_silent(flight)) {
        note_silence(flight, now_ms);
    } else if (flight->leg.outcome.status != 0) {
        note_heard(provider);
    }
    switch (verdict->error_class) {
    case DARUMA_CLASS_AUTH:
        bury_key(flight, verdict, now_ms);
        break;
    case DARUMA_CLASS_RATE_LIMITED:
    case DARUMA_CLASS_QUOTA:
        rest_key(flight, verdict, now_ms);
        break;
    case DARUMA_CLASS_TRANSIENT:
        rest_all(provider, verdict, now_ms);
        *tried = all;
        break;
    case DARUMA_CLASS_INVALID:
    case DARUMA_CLASS_GONE:
    case DARUMA_CLASS_EXPIRED:
    case DARUMA_CLASS_COUNT:
    default:
        note_refusal(flight, verdict);
        if (!is_of_key(verdict)) {
            *tried = all;
        }
        break;
    }
}

int64_t book_shut_ms(struct provider *provider, int64_t now_ms)
{
    int64_t least_ms = 0;

    for (size_t i = 0; i < provider->settings->key_count; i++) {
        const struct provider_key *key = &provider->keys[i];
        bool is_shut = key->gate.state == GATE_SHUT && key->gate.until_ms > now_ms && key->is_named;
        int64_t wait_ms = is_shut ? key->gate.until_ms - now_ms : 0;
        least_ms = wait_ms > 0 && (least_ms == 0 || wait_ms < least_ms) ? wait_ms : least_ms;
    }
    return least_ms;
}

/* Of several keys, one that is not refused: that is what it waits for. */
enum daruma_class book_held_class(const struct provider *provider)
{
    for (size_t i = 0; i < provider->settings->key_count; i++) {
        const struct provider_key *key = &provider->keys[i];
        if (!key->is_dead) {
            return key->gate.state == GATE_SHUT ? key->why : DARUMA_CLASS_TRANSIENT;
        }
    }
    return DARUMA_CLASS_AUTH;
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
        stats.keys_resting +=
            !one->is_dead && (one->gate.state == GATE_SHUT || book_is_avoided(provider, i, now_ms));
    }
    *ret_stats = stats;
}
