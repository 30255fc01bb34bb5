/* SPDX-License-Identifier: MIT
 *
 * cli_check -- `daruma check -c FILE`: is this a configuration that `daruma serve` would take? Only
 * looks: opens no store unless told to, but the certificates, changes nothing, listens nowhere. What is wrong begins with file:line:column, as compilers
 * say it, so that editors find the place.
 */
#include "cli/cli.h"

#include "base/fault.h"
#include "cli/against.h"
#include "cli/carrying.h"
#include "cli/explain.h"
#include "cli/screen.h"
#include "cli/serve_files.h"
#include "cli/serve_internal.h"
#include "cli/unbuilt.h"
#include "config/config.h"
#include "edge/edge.h"
#include "edge/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DOCUMENT_BYTES_MAX (8u << 20)
#define ADDRESS_MAX        80
#define PASSAGES_TEXT_MAX  80
#define ARENA_BYTES_MAX    (256u << 20)

struct check_flags {
    struct flags common;
    const char *path;
    const char *against; /* NULL: no store */
};

static bool take_config(void *user, const char *value)
{
    struct check_flags *flags = user;

    flags->path = value;
    return value[0] != '\0';
}

static bool take_against(void *user, const char *value)
{
    ((struct check_flags *)user)->against = value;
    return carrying_is_store(value);
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
    {.name = "--against",
     .value = "STORE",
     .take = take_against,
     .expected = CARRYING_STORE,
     .help = "tell what this configuration would leave behind in that store",
     .is_secret = true},
};

static const struct flags_form form = {
    .command = "check",
    .purpose = "Checks a configuration and does nothing else: 'FILE: ok' and what is in it, or\n"
               "what is wrong and where, also in its certificates; how many attempts would be "
               "under way at once, and a\n"
               "warning if this machine has too few descriptors. With --against also which tasks "
               "of a store it has no\n"
               "place for any more; the store may be in use, and is only looked at.\n",
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

/* How many are sent at once, and whether this machine has the descriptors for it: a server may be
 * started where there are more or fewer. */
static void print_attempts(const struct config *config)
{
    static const char *const reasons[] = {[FILES_GIVEN] = "as the file says",
                                          [FILES_DEFAULT] = "the default",
                                          [FILES_DESCRIPTORS] = "what descriptors allow here",
                                          [FILES_MEMORY] = "what memory allows here"};
    const struct serve_files_plan plan = serve_files_plan(config);
    char passages[PASSAGES_TEXT_MAX] = "";

    printf("limits.attempts: %" PRIu32 ", %s\n", plan.attempts_max, reasons[plan.by]);
    if (!serve_files_are_few(&plan, config)) {
        return;
    }
    if (plan.passages > 0) { /* fits */
        (void)snprintf(passages, sizeof passages,
                       ", gateway requests that are not recorded (%" PRIu64 ")", plan.passages);
    }
    fflush(stdout);
    fprintf(stderr,
            "warning: this system allows %" PRIu64 " open files; the configuration can use %" PRIu64
            ": limits.connections (%" PRIu32 "), limits.attempts (%" PRIu32
            ")%s, 512 for names that are looked up, 256 for the store and others. Raise 'ulimit "
            "-Hn' or LimitNOFILE= of the unit, "
            "or lower limits.connections\n",
            plan.limit, plan.wanted, config->limits.connections_max, config->limits.attempts_max,
            passages);
}

/* What is there besides queues. */
static void print_gateway(const struct config *config)
{
    char address[ADDRESS_MAX];

    address_text(&config->gateway.listen, address);
    printf(", gateway %s", address);
    print_count("route", config->route_count);
    printf("%s", config->pass.len > 0 ? ", pass" : "");
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
    if (serve_has_gateway(config)) {
        print_gateway(config);
    }
    printf("\n");
    print_attempts(config);
    if (config->gateway.is_written && !serve_has_gateway(config)) {
        printf("gateway: is not opened: there are no routes and no pass\n");
    }
}

/* What becomes of it, and what to do. */
static const char *advice_of(const struct left *left)
{
    static const char *const advices[][2] = {
        {"missing", "put it back, or 'daruma queue adopt' or 'purge' it after the start"},
        {"route_keys", "a request with a key of before would be a new one, or a conflict"},
        {"settings", "put back what it needs, or change it by PUT after the start"},
        {"targets", "put its targets back: nothing says where these tasks go"},
    };

    if (left->is_route && strcmp(left->why, "missing") == 0) {
        return "its keys would be free again: if a route was edited, give it this name";
    }
    for (size_t i = 0; i < sizeof advices / sizeof *advices; i++) {
        if (strcmp(advices[i][0], left->why) == 0) {
            return advices[i][1];
        }
    }
    return "";
}

static uint64_t kept_of(const struct left *left)
{
    return left->counts[TASK_SUCCEEDED] + left->counts[TASK_FAILED] + left->counts[TASK_CANCELLED] +
           left->counts[TASK_GONE];
}

static void print_left(const struct left *left)
{
    const uint64_t *counts = left->counts;
    const struct screen screen = screen_of(stdout);

    printf("left behind: %s ", left->is_route ? "route" : "queue");
    (void)screen_put(&screen, left->name, SCREEN_UNCUT);
    printf(" (%s): %" PRIu64 " waiting, %" PRIu64 " running, %" PRIu64 " unsettled, %" PRIu64
           " letters, %" PRIu64 " kept: %s",
           left->why, counts[TASK_WAITING], counts[TASK_RUNNING], counts[TASK_UNSETTLED],
           counts[TASK_DEAD], kept_of(left), advice_of(left));
    if (left->detail.len > 0) {
        printf(": ");
        (void)screen_put(&screen, left->detail, SCREEN_UNCUT);
    }
    printf("\n");
}

static void write_left(struct writer *writer, const struct left_list *list)
{
    write_name(writer, "left_behind");
    write_open(writer, '[');
    for (size_t i = 0; i < list->count; i++) {
        const struct left *left = &list->at[i];
        write_open(writer, '{');
        write_named_text(writer, left->is_route ? "route" : "queue", left->name);
        write_named_text(writer, "why", span_of(left->why));
        write_named_uint(writer, "waiting", left->counts[TASK_WAITING]);
        write_named_uint(writer, "running", left->counts[TASK_RUNNING]);
        write_named_uint(writer, "unsettled", left->counts[TASK_UNSETTLED]);
        write_named_uint(writer, "letters", left->counts[TASK_DEAD]);
        write_named_uint(writer, "kept", kept_of(left));
        write_named_text(writer, "detail", left->detail);
        write_close(writer, '}');
    }
    write_close(writer, ']');
}

static void write_gateway(struct writer *writer, const struct config *config)
{
    char address[ADDRESS_MAX] = "";

    if (serve_has_gateway(config)) {
        address_text(&config->gateway.listen, address);
    }
    write_name(writer, "gateway");
    if (address[0] != '\0') {
        write_text(writer, span_of(address));
    } else {
        write_null(writer);
    }
    write_named_uint(writer, "routes", config->route_count);
    write_name(writer, "pass");
    write_bool(writer, config->pass.len > 0);
}

static void write_attempts(struct writer *writer, const struct config *config)
{
    const struct serve_files_plan plan = serve_files_plan(config);

    write_named_uint(writer, "attempts", plan.attempts_max);
    write_named_uint(writer, "files", plan.limit);
    write_named_uint(writer, "files_wanted", plan.wanted);
    write_name(writer, "files_few");
    write_bool(writer, serve_files_are_few(&plan, config));
}

/* config NULL: it is not good, and err says why. list NULL: no store was looked at. */
static int print_document(const char *path, const struct config *config,
                          const struct left_list *list, const struct error *err)
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
        write_gateway(&writer, config);
        write_attempts(&writer, config);
        if (list != NULL) {
            write_left(&writer, list);
        }
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

AUTO_POINTER(struct arena, arena_free)

/* The certificates, as the server would read them. */
static int check_files(const struct config *config, struct error *err)
{
    bool has_gateway = serve_has_gateway(config);
    const struct edge_options options = {
        .tls_cert = config->api.tls.cert,
        .tls_key = config->api.tls.key,
        .gateway_host = has_gateway ? config->gateway.listen.host : SPAN(""),
        .gateway_cert = config->gateway.tls.cert,
        .gateway_key = config->gateway.tls.key,
    };

    return edge_check_tls(&options, err);
}

static int check(const struct check_flags *flags)
{
    AUTO(config_free_p) struct config *config = NULL;
    AUTO(arena_free_p) struct arena *arena = arena_new(ARENA_BYTES_MAX);
    struct left_list left = {0};
    struct error err = {0};
    int failed = arena != NULL ? config_load(flags->path, &config, &err)
                               : fail(&err, FAULT_MEMORY, "no memory");

    failed = failed != 0 ? failed : unbuilt_refuse(config, &err);
    failed = failed != 0 ? failed : check_files(config, &err);
    if (failed == 0 && flags->against != NULL) {
        failed = against_look(config, span_of(flags->against), arena, &left, &err);
    }
    const struct config *good = failed == 0 ? config : NULL;
    const struct left_list *shown = flags->against != NULL ? &left : NULL;
    if (flags->common.is_json && print_document(flags->path, good, shown, &err) != CLI_DONE) {
        return CLI_FAILED;
    }
    if (failed == 0 && !flags->common.is_json) {
        print_summary(flags->path, config);
    }
    for (size_t i = 0; failed == 0 && !flags->common.is_json && i < left.count; i++) {
        print_left(&left.at[i]);
    }
    if (failed == 0 && left.count > 0) {
        return CLI_FAILED;
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
