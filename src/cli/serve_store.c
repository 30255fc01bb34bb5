/* SPDX-License-Identifier: MIT
 *
 * serve_store -- see serve_store.h.
 */
#include "cli/serve_store.h"

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

int serve_store_open(const struct config *config, struct store **ret_store, struct error *err)
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
    if (store->kind == CONFIG_STORE_JSON || store->kind == CONFIG_STORE_SQLITE) {
        make_folder(store->path.at);
    }
    return store_open(span_of(spec), &store_keep, ret_store, err);
}
