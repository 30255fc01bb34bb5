/* SPDX-License-Identifier: MIT
 *
 * serve_store -- see serve_store.h.
 */
#include "cli/serve_store.h"

#include "base/process.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SPEC_MAX 4200

/* The folder of the store's file, when it is the default's kind: one level, made when missing. */
static void make_folder(const char *path)
{
    char folder[SPEC_MAX];
    const char *slash = strrchr(path, '/');

    if (slash != NULL && slash != path && (size_t)(slash - path) < sizeof folder) {
        memcpy(folder, path, (size_t)(slash - path));
        folder[slash - path] = '\0';
        (void)mkdir(folder, 0700); /* there already, or the store says what is wrong */
    }
}

static int touch(void *user, struct error *err)
{
    return store_touch(user, err);
}

/* Whoever lacks a connection should hear of it now and not from its first request. */
static int open_writers(struct store *store, struct error *err)
{
    int failed = 0;

    for (size_t i = 0; failed == 0 && i < store->writer_count; i++) {
        failed = store_in_turn(touch, store_writer(store, i), err);
    }
    return failed;
}

/* What the file says of a node among others. */
static int set_node(const struct config_limits *limits, struct store *store, struct error *err)
{
    _Static_assert(CONFIG_NODE_WRITERS_MAX == STORE_WRITERS_MAX, "all that may be asked for");

    if (store->nodes != NULL) {
        store->node_lease_ms = limits->node_lease_ms;
        store->writer_count = limits->node_writers;
    }
    return open_writers(store, err);
}

/* A volume that is not mounted looks like a store that was never there, and every key is free in a new
 * one: it is said that it was made. */
static bool has_file(const struct config_store *store)
{
    struct stat found;

    return stat(store->path.at, &found) == 0;
}

/* Who cannot be told from the process before it is not recovered from at once. */
static void tell_unnamed(const struct store *store, const struct daruma_logger *log)
{
    char name[PROCESS_NAME_MAX + 1];
    const char *missing = process_name(name);

    if (store->nodes != NULL && missing != NULL) {
        DARUMA_LOG(log, DARUMA_LOG_WARN, "node_unnamed", daruma_log_text("missing", missing),
                   daruma_log_int("recovered_after_ms", store->node_lease_ms));
    }
}

int serve_store_open(const struct config *config, const struct daruma_logger *log,
                     struct store **ret_store, struct error *err)
{
    static const char *const kinds[] = {"memory", "json", "sqlite", "postgres"};
    const struct config_store *store = &config->store;
    const struct config_keep *keep = &config->keep;
    const struct store_keep store_keep = {.succeeded_ms = keep->succeeded_ms,
                                          .failed_ms = keep->failed_ms,
                                          .cancelled_ms = keep->cancelled_ms,
                                          .tombstones_ms = keep->tombstones_ms};
    char spec[SPEC_MAX];

    int length = store->kind == CONFIG_STORE_MEMORY
                     ? snprintf(spec, sizeof spec, "memory")
                     : snprintf(spec, sizeof spec, "%s:%s", kinds[store->kind], store->path.at);
    if (length < 0 || (size_t)length >= sizeof spec) {
        return fail(err, FAULT_INPUT, "store: the path is too long");
    }
    bool is_file = store->kind == CONFIG_STORE_JSON || store->kind == CONFIG_STORE_SQLITE;
    bool is_new = is_file && !has_file(store);
    if (is_file) {
        make_folder(store->path.at);
    }
    int failed = store_open(span_of(spec), &store_keep, ret_store, err);
    if (failed == 0 && is_new) {
        DARUMA_LOG(log, DARUMA_LOG_WARN, "store_created",
                   daruma_log_bytes("path", store->shown.at, store->shown.len));
    }
    failed = failed != 0 ? failed : set_node(&config->limits, *ret_store, err);
    if (failed == 0) {
        tell_unnamed(*ret_store, log);
    }
    return failed;
}
