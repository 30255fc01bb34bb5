/* SPDX-License-Identifier: MIT
 *
 * policies -- see policies_internal.h. What a rule means is the library's business; here it is only
 * written down for it, and what it refuses is said at the line that is to blame.
 */
#include "config/policies_internal.h"
#include "config/keys_internal.h"
#include "config/units_internal.h"

#include <daruma/retry_after.h>

#include <stdio.h>

#define NAMES_SHOWN_MAX 120
#define NAME_MAX_BYTES  128 /* more than any built-in name has */

/* --- rules ----------------------------------------------------------------------------------- */

int jitter_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                void *into)
{
    static const struct {
        const char *word;
        enum daruma_jitter jitter;
    } words[] = {{"none", DARUMA_JITTER_NONE},
                 {"full", DARUMA_JITTER_FULL},
                 {"equal", DARUMA_JITTER_EQUAL},
                 {"decorrelated", DARUMA_JITTER_DECORRELATED}};
    struct daruma_backoff_options *backoff = into;
    double factor;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (schema_is_text(reading, node) && span_is(node->text, words[i].word)) {
            backoff->jitter = words[i].jitter;
            return 0;
        }
    }
    if (node->kind != NODE_TEXT || node->is_quoted || !number_parse(node->text, &factor) ||
        !(factor >= 0 && factor <= 1)) {
        return schema_complain(reading, key, node);
    }
    /* To the library a factor of 0 is one that was not given. */
    backoff->jitter = factor > 0 ? DARUMA_JITTER_FACTOR : DARUMA_JITTER_NONE;
    backoff->jitter_factor = factor > 0 ? factor : 0;
    return 0;
}

int schedule_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                  void *into)
{
    struct daruma_backoff_options *backoff = into;
    char found[FOUND_MAX];

    if (node->kind != NODE_LIST || node->count == 0 || node->count > DARUMA_BACKOFF_SCHEDULE_MAX) {
        return node->kind != NODE_LIST
                   ? schema_complain(reading, key, node)
                   : complain(reading, node, "found %zu entries, expected 1 to %d", node->count,
                              DARUMA_BACKOFF_SCHEDULE_MAX);
    }
    uint64_t *waits_ms = arena_alloc(reading->arena, node->count * sizeof *waits_ms);
    if (waits_ms == NULL) {
        return complain_memory(reading);
    }
    for (const struct node *wait = node->first; wait != NULL; wait = wait->next) {
        int64_t ms;
        if (!schema_is_text(reading, wait) ||
            !daruma_duration_parse(wait->text.at, wait->text.len, &ms)) {
            return complain(reading, wait, "found %s, expected a duration such as 250ms, 10s or 5m",
                            found_text(wait, found));
        }
        waits_ms[wait->index] = (uint64_t)ms;
    }
    backoff->schedule_ms = waits_ms;
    backoff->schedule_count = (uint32_t)node->count;
    return 0;
}

/* `schedule` and `doublings` say the kind by themselves; a `backoff` beside them has to agree. */
static int settle_kind(const struct reading *reading, const struct node *node,
                       struct daruma_backoff_options *backoff)
{
    const struct node *schedule = node_child(node, "schedule");
    const struct node *doublings = node_child(node, "doublings");
    const struct node *kind = node_child(node, "backoff");
    char found[FOUND_MAX];

    if (schedule != NULL && doublings != NULL) {
        return complain_key(reading, doublings, "found beside a schedule, expected one of the two");
    }
    if (schedule != NULL && kind != NULL && backoff->kind != DARUMA_BACKOFF_SCHEDULE) {
        return complain(reading, kind, "found %s beside a schedule, expected schedule",
                        found_text(kind, found));
    }
    if (doublings != NULL && backoff->kind != DARUMA_BACKOFF_EXPONENTIAL &&
        backoff->kind != DARUMA_BACKOFF_DOUBLINGS) {
        return complain(reading, kind, "found %s beside doublings, expected exponential",
                        found_text(kind, found));
    }
    if (schedule == NULL && backoff->kind == DARUMA_BACKOFF_SCHEDULE) {
        return complain_missing(reading, node, "schedule", "a list of durations: [1s, 5s, 1m]");
    }
    if (doublings == NULL && backoff->kind == DARUMA_BACKOFF_DOUBLINGS) {
        return complain_missing(reading, node, "doublings", "a whole number");
    }
    backoff->kind = schedule != NULL    ? DARUMA_BACKOFF_SCHEDULE
                    : doublings != NULL ? DARUMA_BACKOFF_DOUBLINGS
                                        : backoff->kind;
    return 0;
}

static int check_cap(const struct reading *reading, const struct node *node,
                     const struct daruma_backoff_options *backoff)
{
    int64_t base_ms = backoff->base_ms != 0 ? backoff->base_ms : DARUMA_POLICY_BASE_MS;
    char base[UNITS_TEXT_MAX], found[FOUND_MAX];

    if (backoff->kind == DARUMA_BACKOFF_SCHEDULE || backoff->max_ms == 0 ||
        backoff->max_ms >= base_ms) {
        return 0;
    }
    const struct node *cap = node_child(node, "cap");
    return complain(reading, cap, "found %s, expected at least the base, %s",
                    found_text(cap, found), duration_format(base_ms, base));
}

/* The rule by itself, so that what the library refuses is said where it is written. */
static int check_with_library(const struct reading *reading, const struct node *node,
                              const struct daruma_rule_options *rule)
{
    struct daruma_policy_options options = {.rules = {[DARUMA_CLASS_TRANSIENT] = *rule}};
    struct daruma_policy policy;
    struct daruma_error error;

    if (daruma_policy_create(&options, &policy, &error) == 0) {
        return 0;
    }
    return complain(reading, node, "%s", error.message);
}

int rule_finish(struct reading *reading, const struct node *node, void *into)
{
    struct daruma_rule_options *rule = into;

    rule->given = true;
    int failed = settle_kind(reading, node, &rule->backoff);
    if (failed == 0) {
        failed = check_cap(reading, node, &rule->backoff);
    }
    return failed != 0 ? failed : check_with_library(reading, node, rule);
}

/* --- policies -------------------------------------------------------------------------------- */

const struct daruma_policy *config_policy_find(const struct config *config, struct span name)
{
    for (size_t i = 0; config != NULL && i < config->policy_count; i++) {
        if (span_equal(config->policies[i].name, name)) {
            return &config->policies[i].policy;
        }
    }
    return NULL;
}

static bool find_policy(const struct config *config, struct span name,
                        struct daruma_policy *ret_policy)
{
    const struct daruma_policy *found = config_policy_find(config, name);
    char text[NAME_MAX_BYTES];

    if (config != NULL) {
        if (found != NULL) {
            *ret_policy = *found;
        }
        return found != NULL;
    }
    if (name.len >= sizeof text) {
        return false;
    }
    (void)snprintf(text, sizeof text, "%.*s", SPAN_ARGS(name)); /* fits */
    const struct daruma_policy_options *options = daruma_policy_named(text);
    return options != NULL && daruma_policy_create(options, ret_policy, NULL) == 0;
}

static int complain_policy(const struct reading *reading, const struct node *node)
{
    const struct config *config = reading->config;
    char names[NAMES_SHOWN_MAX] = "", found[FOUND_MAX];
    size_t len = 0;

    for (uint32_t i = 0; len < sizeof names; i++) {
        const char *name = config == NULL             ? daruma_policy_name(i)
                           : i < config->policy_count ? config->policies[i].name.at
                                                      : NULL;
        if (name == NULL) {
            break;
        }
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", i > 0 ? ", " : "",
                                name); /* cut when too long */
    }
    return complain(reading, node, "found %s, expected a policy: %s", found_text(node, found),
                    names);
}

static int make_policy(struct reading *reading, const struct schema *schema,
                       const struct node *node, struct config_policy *ret_policy)
{
    struct policy_written written = {.name = SPAN("")};
    struct daruma_error error;
    int failed = schema_read(reading, schema, node, &written);

    if (failed != 0) {
        return failed;
    }
    if (daruma_policy_create(&written.options, &ret_policy->policy, &error) != 0) {
        return complain(reading, node, "%s", error.message);
    }
    ret_policy->name = written.name;
    return 0;
}

int policy_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                void *into)
{
    struct daruma_policy *policy = into;
    struct config_policy made;

    if (node->kind == NODE_OBJECT) {
        int failed = make_policy(reading, &policy_schema, node, &made);
        if (failed == 0) {
            *policy = made.policy;
        }
        return failed;
    }
    if (!schema_is_text(reading, node)) {
        return schema_complain(reading, key, node);
    }
    return find_policy(reading->config, node->text, policy) ? 0 : complain_policy(reading, node);
}

int policies_start(struct reading *reading, struct config *config)
{
    uint32_t count = 0;

    while (daruma_policy_name(count) != NULL) {
        count++;
    }
    config->policies = arena_alloc(reading->arena, count * sizeof *config->policies);
    if (config->policies == NULL) {
        return complain_memory(reading);
    }
    for (uint32_t i = 0; i < count; i++) {
        config->policies[i].name = span_of(daruma_policy_name(i));
        (void)find_policy(NULL, config->policies[i].name,
                          &config->policies[i].policy); /* built in, so it is there */
    }
    config->policy_count = count;
    return 0;
}

static int check_name(const struct reading *reading, const struct node *item)
{
    const struct node *name = node_child(item, "name");
    char found[FOUND_MAX];

    for (const struct node *other = item->up->first; other != item; other = other->next) {
        if (span_equal(node_child(other, "name")->text, name->text)) {
            return complain(reading, name, "found %s a second time, expected each name once",
                            found_text(name, found));
        }
    }
    return 0;
}

static void put_policy(struct config *config, const struct config_policy *policy)
{
    size_t i = 0;

    while (i < config->policy_count && !span_equal(config->policies[i].name, policy->name)) {
        i++;
    }
    config->policies[i] = *policy;
    config->policy_count += i == config->policy_count;
}

int policies_read(struct reading *reading, const struct schema_key *key, const struct node *node,
                  void *into)
{
    static const struct schema_key item_key = {.kind = KEY_OBJECT};
    struct config *config = into;
    struct config_policy *all, policy;

    if (node->kind != NODE_LIST) {
        return schema_complain(reading, key, node);
    }
    if (node->count > CONFIG_POLICIES_MAX) {
        return complain(reading, node, "found %zu entries, expected at most %d", node->count,
                        CONFIG_POLICIES_MAX);
    }
    all = arena_alloc(reading->arena, (config->policy_count + node->count) * sizeof *all);
    if (all == NULL) {
        return complain_memory(reading);
    }
    if (config->policy_count > 0) {
        memcpy(all, config->policies, config->policy_count * sizeof *all);
    }
    config->policies = all;
    for (const struct node *item = node->first; item != NULL; item = item->next) {
        int failed = item->kind == NODE_OBJECT
                         ? make_policy(reading, &named_policy_schema, item, &policy)
                         : schema_complain(reading, &item_key, item);
        if (failed == 0) {
            failed = check_name(reading, item);
        }
        if (failed != 0) {
            return failed;
        }
        put_policy(config, &policy);
    }
    return 0;
}
