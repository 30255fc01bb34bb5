/* SPDX-License-Identifier: MIT
 *
 * config -- see config.h. A reading has two arenas: one for the tree, gone at the end, and one for
 * what was read. JSON has only the caller's: it is small.
 */
#include "config/config.h"
#include "config/keys_internal.h"
#include "config/policies_internal.h"
#include "config/values_internal.h"

#include "task/task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define NODES_BYTES_MAX  (64 * 1048576) /* the tree of the largest file, and its text */
#define CONFIG_BYTES_MAX (64 * 1048576) /* what is read of it */

AUTO_POINTER(struct arena, arena_free)

/* --- the file -------------------------------------------------------------------------------- */

/* Built-in policies first: the file's own are added to them, and its queues name either. */
static int fill_config(struct reading *reading, struct span text, struct config *config)
{
    struct node *root = NULL;
    char found[FOUND_MAX];
    int failed = policies_start(reading, config);

    if (failed == 0) {
        failed = tree_read(reading, text, &root);
    }
    if (failed != 0) {
        return failed;
    }
    if (root == NULL || node_is_nothing(root)) {
        return schema_defaults(reading, &config_schema, config);
    }
    if (root->kind != NODE_OBJECT) {
        return complain(reading, root, "found %s, expected a mapping of settings",
                        found_text(root, found));
    }
    return schema_read(reading, &config_schema, root, config);
}

int config_parse(struct span text, const char *name, struct config **ret_config, struct error *err)
{
    AUTO(arena_free_p) struct arena *nodes = arena_new(NODES_BYTES_MAX);
    AUTO(config_free_p) struct config *config = calloc(1, sizeof *config);
    struct reading reading = {.file = name, .nodes = nodes, .config = config, .err = err};

    if (nodes == NULL || config == NULL) {
        return complain_memory(&reading);
    }
    config->arena = arena_new(CONFIG_BYTES_MAX);
    if (config->arena == NULL) {
        return complain_memory(&reading);
    }
    reading.arena = config->arena;
    if (text.len > CONFIG_FILE_BYTES_MAX) {
        return complain_at(&reading, 1, 1, "found more than %d bytes", CONFIG_FILE_BYTES_MAX);
    }
    int failed = fill_config(&reading, text, config);
    if (failed != 0) {
        return failed;
    }
    *ret_config = config;
    config = NULL; /* the caller's now */
    return 0;
}

static int read_file(const char *path, char *bytes, size_t size, size_t *ret_len, struct error *err)
{
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        return fail(err, FAULT_IO, "cannot read %s: %s", path, strerror(errno));
    }
    size_t len = fread(bytes, 1, size, file);
    int error = ferror(file) ? errno : 0;
    (void)fclose(file); /* only read */
    if (error != 0) {
        return fail(err, FAULT_IO, "cannot read %s: %s", path, strerror(error));
    }
    *ret_len = len;
    return 0;
}

static void free_bytes(char **bytes)
{
    free(*bytes);
}

int config_load(const char *path, struct config **ret_config, struct error *err)
{
    size_t size = CONFIG_FILE_BYTES_MAX + 1; /* one more, to see that it is too long */
    AUTO(free_bytes) char *bytes = malloc(size);
    size_t len = 0;

    if (bytes == NULL) {
        return fail(err, FAULT_MEMORY, "out of memory while reading the configuration");
    }
    int failed = read_file(path, bytes, size, &len, err);
    if (failed != 0) {
        return failed;
    }
    return config_parse((struct span){.at = bytes, .len = len}, path, ret_config, err);
}

/* Through a volatile pointer, or the compiler sees that nobody reads it again. */
static void wipe(struct span secret)
{
    for (volatile char *byte = (volatile char *)(uintptr_t)secret.at;
         secret.at != NULL && byte < secret.at + secret.len; byte++) {
        *byte = 0;
    }
}

extern char **environ; /* POSIX has it in no header */

/* Where it lies in the environment, others of the same user can read it for as long as the process lives
 * (/proc/PID/environ): by its value, since it may be there under several names. */
static void wipe_variables(struct span secret)
{
    for (char **variable = environ; secret.len > 0 && *variable != NULL; variable++) {
        const char *equals = strchr(*variable, '=');
        if (equals != NULL && span_equal(span_of(equals + 1), secret)) {
            wipe(span_of(equals + 1));
        }
    }
}

void config_wipe_secrets(struct config *config)
{
    for (size_t i = 0; i < config->api.token_count; i++) {
        wipe_variables(config->api.tokens[i].secret);
        wipe(config->api.tokens[i].secret);
        config->api.tokens[i].secret.len = 0;
    }
}

void config_free(struct config *config)
{
    if (config == NULL) {
        return;
    }
    arena_free(config->arena); /* which overwrites them */
    free(config);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static int check_queue_name(const struct reading *reading, const struct node *root,
                            struct span name, struct queue_settings *settings)
{
    if (settings->name.len == 0) {
        settings->name = arena_copy(reading->arena, name);
        return settings->name.at != NULL ? 0 : complain_memory(reading);
    }
    if (!span_equal(settings->name, name)) {
        char found[FOUND_MAX];
        const struct node *written = node_child(root, "name");
        return complain(reading, written, "found %s, expected the name of this queue, %.*s",
                        found_text(written, found), SPAN_ARGS(name));
    }
    return 0;
}

/* What is taken must be read back from the store, where it is longer by its defaults. Those are
 * fewer bytes than half of the limit, so that most need not be written to know. */
static int check_written(const struct reading *reading, struct span json,
                         const struct queue_settings *settings)
{
    AUTO(buf_done) struct buf written;

    buf_init(&written, CONFIG_JSON_BYTES_MAX);
    int failed = json.len > CONFIG_JSON_BYTES_MAX / 2 ? config_render_queue(settings, &written) : 0;
    if (failed == FAULT_MEMORY) {
        return complain_memory(reading);
    }
    return failed == 0 ? 0
                       : complain_at(reading, 1, 1, "with its defaults longer than %d bytes",
                                     CONFIG_JSON_BYTES_MAX);
}

/* {"like": NAME}: a queue that is worked as one of the file is, whatever that one's settings are and
 * become. What was left behind by a change of the file is carried out so. */
static int read_like(const struct reading *reading, const struct node *root, struct span name,
                     struct queue_settings *settings)
{
    const struct node *like = node_child(root, "like");
    char found[FOUND_MAX];

    if (root->count > 1) {
        return complain(reading, like, "expected alone: the settings are those of that queue");
    }
    for (size_t i = 0; schema_is_text(reading, like) && i < reading->config->queue_count; i++) {
        if (span_equal(reading->config->queues[i].name, like->text)) {
            *settings = reading->config->queues[i];
            settings->name = arena_copy(reading->arena, name);
            return settings->name.at != NULL ? 0 : complain_memory(reading);
        }
    }
    return complain(reading, like, "found %s, expected the name of a queue of the file",
                    found_text(like, found));
}

int config_parse_queue(struct span json, struct span name, const struct config *config,
                       struct arena *arena, struct queue_settings *ret_settings, struct error *err)
{
    struct reading reading = {.nodes = arena, .arena = arena, .config = config, .err = err};
    struct queue_settings settings = {.name = SPAN("")};
    struct node *root = NULL;
    char found[FOUND_MAX];

    if (queue_name_refuse(name) != NULL) {
        return fail_field(err, FAULT_INPUT, "name",
                          "expected a name of letters, digits, - _ and ., up to %d, not beginning "
                          "with _ or .",
                          TASK_QUEUE_NAME_MAX);
    }
    int failed = tree_read_json(&reading, json, &root);
    if (failed != 0) {
        return failed;
    }
    if (root->kind != NODE_OBJECT) {
        return complain(&reading, root, "found %s, expected an object", found_text(root, found));
    }
    if (node_child(root, "like") != NULL) {
        failed = read_like(&reading, root, name, &settings);
        if (failed == 0) {
            *ret_settings = settings;
        }
        return failed;
    }
    failed = schema_read(&reading, &queue_schema, root, &settings);
    if (failed == 0) {
        failed = check_queue_name(&reading, root, name, &settings);
    }
    if (failed == 0) {
        failed = check_written(&reading, json, &settings);
    }
    if (failed == 0) {
        *ret_settings = settings;
    }
    return failed;
}

int config_parse_policy(struct span json, const struct config *config, struct arena *arena,
                        struct daruma_policy *ret_policy, struct error *err)
{
    static const struct schema_key key = {.kind = KEY_OWN,
                                          .expected = "the name of a policy, or a policy"};
    struct reading reading = {.nodes = arena, .arena = arena, .config = config, .err = err};
    struct daruma_policy policy;
    struct node *root = NULL;
    int failed = tree_read_json(&reading, json, &root);

    if (failed == 0) {
        failed = policy_read(&reading, &key, root, &policy);
    }
    if (failed == 0) {
        *ret_policy = policy;
    }
    return failed;
}
