/* SPDX-License-Identifier: MIT
 *
 * cli_check -- `daruma check -c FILE`: is this a configuration that `daruma serve` would take? Only
 * looks: opens no store, listens nowhere. What is wrong begins with file:line:column, as compilers
 * say it, so that editors find the place.
 */
#include "cli/cli.h"

#include "base/fault.h"
#include "cli/explain.h"
#include "cli/screen.h"
#include "cli/unbuilt.h"
#include "config/config.h"
#include "edge/writer.h"

#include <stdio.h>

#define DOCUMENT_BYTES_MAX 65536
#define ADDRESS_MAX        80

struct check_flags {
    struct flags common;
    const char *path;
};

static bool take_config(void *user, const char *value)
{
    struct check_flags *flags = user;

    flags->path = value;
    return value[0] != '\0';
}

static const struct flag table[] = {
    {.name = "-c",
     .value = "FILE",
     .take = take_config,
     .expected = "a file",
     .help = "the configuration (" CLI_CONFIG ")"},
    {.name = "--config",
     .value = "FILE",
     .take = take_config,
     .expected = "a file",
     .help = "the same"},
};

static const struct flags_form form = {
    .command = "check",
    .purpose = "Checks a configuration and does nothing else: 'FILE: ok' and what is in it, or\n"
               "what is wrong and where.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .is_local = true,
};

static const char *store_kind(const struct config *config)
{
    static const char *const kinds[] = {[CONFIG_STORE_MEMORY] = "memory",
                                        [CONFIG_STORE_JSON] = "json",
                                        [CONFIG_STORE_SQLITE] = "sqlite",
                                        [CONFIG_STORE_POSTGRES] = "postgres"};

    return kinds[config->store.kind];
}

static void address_text(const struct config_listen *listen, char ret_text[ADDRESS_MAX])
{
    (void)snprintf(ret_text, ADDRESS_MAX, listen->is_ipv6 ? "[%.*s]:%u" : "%.*s:%u",
                   SPAN_ARGS(listen->host), (unsigned)listen->port); /* an address is short */
}

static void print_count(const char *word, size_t count)
{
    printf(", %zu %s%s", count, word, count == 1 ? "" : "s");
}

static void print_summary(const char *path, const struct config *config)
{
    char address[ADDRESS_MAX];

    address_text(&config->api.listen, address);
    printf("%s: ok: store %s", path, store_kind(config));
    if (config->store.path.len > 0) {
        printf(":%.*s", SPAN_ARGS(config->store.shown));
    }
    printf(", api %s", address);
    print_count("queue", config->queue_count);
    print_count("token", config->api.token_count);
    printf("\n");
}

/* config NULL: it is not good, and err says why. */
static int print_document(const char *path, const struct config *config, const struct error *err)
{
    AUTO(buf_done) struct buf text;
    struct writer writer = {.out = &text};
    char address[ADDRESS_MAX];

    buf_init(&text, DOCUMENT_BYTES_MAX);
    write_open(&writer, '{');
    write_named_text(&writer, "file", span_of(path));
    write_name(&writer, "ok");
    write_bool(&writer, config != NULL);
    if (config != NULL) {
        address_text(&config->api.listen, address);
        write_named_text(&writer, "store", span_of(store_kind(config)));
        write_named_text(&writer, "path", config->store.shown);
        write_named_text(&writer, "api", span_of(address));
        write_named_uint(&writer, "queues", config->queue_count);
        write_named_uint(&writer, "tokens", config->api.token_count);
    } else {
        write_named_text(&writer, "error", span_of(err->text));
        write_named_text(&writer, "field", span_of(err->field));
    }
    write_close(&writer, '}');
    if (writer.failed != 0) {
        return explain_fault(&form, writer.failed);
    }
    screen_put_json(buf_span(&text));
    return CLI_DONE;
}

static int check(const struct check_flags *flags)
{
    AUTO(config_free_p) struct config *config = NULL;
    struct error err = {0};
    int failed = config_load(flags->path, &config, &err);

    failed = failed != 0 ? failed : unbuilt_refuse(config, &err);
    const struct config *good = failed == 0 ? config : NULL;
    if (flags->common.is_json && print_document(flags->path, good, &err) != CLI_DONE) {
        return CLI_FAILED;
    }
    if (failed == 0 && !flags->common.is_json) {
        print_summary(flags->path, config);
    }
    if (failed != 0) {
        const struct screen screen = screen_of(stderr);
        (void)screen_put(&screen, span_of(err.text), SCREEN_UNCUT);
        fprintf(stderr, "\n");
    }
    return failed == 0 ? CLI_DONE : CLI_FAILED;
}

int cli_check(int argc, char **argv)
{
    struct check_flags flags = {.path = CLI_CONFIG};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    return explain_finish(&form, check(&flags));
}
