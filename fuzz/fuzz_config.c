/* SPDX-License-Identifier: MIT
 *
 * fuzz_config -- configurations from outside. The input begins with one character: y for a file, q
 * for a queue as JSON, p for a policy as JSON; the rest is the text.
 *
 * What must hold for any input: an error is one line without control characters that says what is
 * wrong and shows nothing from the environment; queues that were read are written as JSON that reads
 * back and is then written the same.
 */
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>

#define ARENA_BYTES (16 * 1048576)
#define SECRET      "a-secret-of-the-environment"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

static void holds(bool claim, const char *text)
{
    if (!claim) {
        fprintf(stderr, "does not hold: %s\n", text);
        abort();
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    holds(setenv("SECRET", SECRET, 1) == 0, "the environment can be set");
    return 0;
}

static bool has_control(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            return true;
        }
    }
    return false;
}

static void check_error(int failed, const struct error *err, struct span text)
{
    bool is_written = false; /* the input itself says the word */

    for (; text.len > 0 && !is_written; text = span_from(text, 1)) {
        is_written = span_starts(text, SECRET);
    }
    holds(failed == FAULT_INPUT || failed == FAULT_MEMORY, "only the input or memory is at fault");
    holds(err->fault == failed, "the error says which");
    holds(err->text[0] != '\0', "the error says something");
    holds(!has_control(err->text) && !has_control(err->field), "an error is one line");
    holds(is_written || strstr(err->text, SECRET) == NULL, "secrets are not shown");
}

static void check_queue(const struct queue_settings *settings)
{
    struct arena *arena = arena_new(ARENA_BYTES);
    struct queue_settings back;
    struct error err = {0};
    struct buf first, second;

    buf_init(&first, ARENA_BYTES);
    buf_init(&second, ARENA_BYTES);
    holds(arena != NULL && config_render_queue(settings, &first) == 0, "a queue can be written");
    if (first.len <= CONFIG_JSON_BYTES_MAX) {
        int failed = config_parse_queue(buf_span(&first), settings->name, NULL, arena, &back, &err);
        if (failed != 0) {
            fprintf(stderr, "%s: %s\n", err.field, err.text);
        }
        holds(failed == 0, "what was written can be read");
        holds(config_render_queue(&back, &second) == 0, "and written again");
        holds(span_equal(buf_span(&first), buf_span(&second)), "and is the same");
    }
    buf_done(&first);
    buf_done(&second);
    arena_free(arena);
}

static void try_file(struct span text)
{
    struct config *config = NULL;
    struct error err = {0};
    int failed = config_parse(text, "f", &config, &err);

    if (failed != 0) {
        check_error(failed, &err, text);
        return;
    }
    for (size_t i = 0; i < config->queue_count; i++) {
        check_queue(&config->queues[i]);
    }
    config_free(config);
}

static void try_json(struct span text, char kind)
{
    struct arena *arena = arena_new(ARENA_BYTES);
    struct queue_settings settings;
    struct error err = {0};

    holds(arena != NULL, "there is memory");
    int failed = kind == 'q' ? config_parse_queue(text, SPAN("q"), NULL, arena, &settings, &err)
                             : config_parse_policy(text, NULL, arena, &settings.policy, &err);
    if (failed != 0) {
        check_error(failed, &err, text);
    } else if (kind == 'q') {
        check_queue(&settings);
    }
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    if (length == 0) {
        return 0;
    }
    /* A copy of just its size, so that reading past the end is seen. */
    char *bytes = malloc(length > 1 ? length - 1 : 1);
    holds(bytes != NULL, "there is memory");
    struct span text = {.at = bytes, .len = length - 1};
    memcpy(bytes, input + 1, text.len);
    if (input[0] == 'y') {
        try_file(text);
    } else if (input[0] == 'q' || input[0] == 'p') {
        try_json(text, (char)input[0]);
    }
    free(bytes);
    return 0;
}
