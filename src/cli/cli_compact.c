/* SPDX-License-Identifier: MIT
 *
 * cli_compact -- `daruma compact`: an SQLite file that was large once, made small again. No server may
 * have it open. Needs as much room on the disk as the small file takes.
 */
#include "cli/cli.h"

#include "cli/carrying.h"
#include "cli/effect.h"
#include "cli/explain.h"
#include "store/store.h"

#include <inttypes.h>

#define KIB 1024.0

struct compact_flags {
    struct flags common;
    const char *store;
};

static bool take_store(void *user, const char *value)
{
    ((struct compact_flags *)user)->store = value;
    return carrying_is_store(value);
}

static const struct flag table[] = {
    {"--store", "STORE", take_store, "sqlite:PATH", "the store to make small", NULL, true},
};

static const struct flags_form form = {
    .command = "compact",
    .purpose = "Writes an SQLite store anew, as small as it can be, while no server has it open.\n"
               "Deleted tasks leave room that is used again, but not given back to the disk.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .is_local = true,
};

static int compact(const struct compact_flags *flags)
{
    struct store_sizes sizes = {0};
    struct error err = {0};

    if (store_compact(span_of(flags->store), &sizes, &err) != 0) {
        return carrying_complain(&form, &err);
    }
    if (flags->common.is_json) {
        printf("{\"before_bytes\":%" PRId64 ",\"after_bytes\":%" PRId64 "}\n", sizes.before,
               sizes.after);
    } else {
        printf("from %.1f to %.1f MiB\n", (double)sizes.before / KIB / KIB,
               (double)sizes.after / KIB / KIB);
    }
    return CLI_DONE;
}

int cli_compact(int argc, char **argv)
{
    struct compact_flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.store == NULL) {
        flags_complain(&form, "--store is missing: sqlite:PATH is expected");
        return CLI_USAGE;
    }
    effect_begin();
    return effect_finish(&form, compact(&flags));
}
