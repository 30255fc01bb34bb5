/* SPDX-License-Identifier: MIT
 *
 * cli_key -- `daruma key URL`: the key of a save (A3), the same one for a double send of it. Asks
 * nobody and keeps nothing; what the key depends on is in task/save_key.h, and --json tells it.
 */
#include "cli/cli.h"

#include "base/auto.h"
#include "base/clock.h"
#include "cli/explain.h"
#include "cli/given.h"
#include "cli/own_name.h"
#include "cli/screen.h"
#include "edge/writer.h"
#include "task/fields.h"
#include "task/save_key.h"

#include <daruma/retry_after.h>

#include <stdio.h>

#define JSON_BYTES_MAX 65536

struct key_flags {
    struct flags common;
    const char *url, *client, *data, *method;
    int64_t window_ms;
    int64_t at_ms;
    bool has_at;
};

/* --- flags -------------------------------------------------------------------------------------- */

static bool take_url(void *user, const char *value)
{
    struct key_flags *flags = user;
    bool is_first = flags->url == NULL;

    flags->url = value;
    return is_first;
}

static bool take_client(void *user, const char *value)
{
    ((struct key_flags *)user)->client = value;
    return save_client_is_valid(span_of(value));
}

static bool take_window(void *user, const char *value)
{
    struct key_flags *flags = user;

    return flags_duration_above_zero(value, &flags->window_ms) &&
           flags->window_ms <= SAVE_WINDOW_MAX_MS;
}

static bool take_at(void *user, const char *value)
{
    struct key_flags *flags = user;

    flags->has_at = true;
    return daruma_rfc3339_parse(value, strlen(value), &flags->at_ms);
}

static bool take_data(void *user, const char *value)
{
    ((struct key_flags *)user)->data = value;
    return true;
}

static bool take_method(void *user, const char *value)
{
    ((struct key_flags *)user)->method = value;
    return fields_name_is_token(span_of(value)) && strlen(value) <= SAVE_METHOD_MAX;
}

static const struct flag table[] = {
    {"--client", "NAME", take_client, "1 to 255 bytes without control characters",
     "who saves (DARUMA_CLIENT, or user@host)", "client", false},
    {"--window", "D", take_window, FLAGS_DURATION ", above zero and up to 366d",
     "saves within one window have one key (5m)", NULL, false},
    {"--at", "TIME", take_at, "a time such as 2026-11-15T10:20:30Z",
     "when it was saved (now); give it with every send of a save", NULL, false},
    {"--data", "DATA", take_data, "TEXT, @FILE or - (standard input)",
     "the key that 'daruma send' gives this body", NULL, true},
    {"--method", "M", take_method, "a method such as PUT, up to 32 characters",
     "the same for a request that is not a POST", NULL, false},
};

static const struct flags_form form = {
    .command = "key",
    .operands = "URL",
    .purpose =
        "Prints the Idempotency-Key of a save: a UUID made from the URL, the client and the\n"
        "time, so that a double send carries one key.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .take_operand = take_url,
    .operand_expected = "one URL",
    .is_local = true,
};

/* --- the flow ----------------------------------------------------------------------------------- */

static int say(const struct error *err)
{
    bool is_usage = err->fault == FAULT_INPUT;

    if (err->field[0] != '\0') {
        flags_complain(&form, "%s: %s", err->field, err->text);
    } else {
        flags_complain(&form, "%s", err->text);
    }
    return is_usage ? CLI_USAGE : CLI_FAILED;
}

static int print_json(const struct save *save, const char *key)
{
    AUTO(buf_done) struct buf text, url;
    struct writer writer = {.out = &text};
    struct error err = {0};
    int64_t from_ms = save_window_from_ms(save);

    buf_init(&text, JSON_BYTES_MAX);
    buf_init(&url, JSON_BYTES_MAX);
    if (save_url_normalise(save->url, &url, &err) != 0) {
        return say(&err);
    }
    write_open(&writer, '{');
    write_named_text(&writer, "key", span_of(key));
    write_named_text(&writer, "url", buf_span(&url));
    write_named_text(&writer, "client", save->client);
    write_named_int(&writer, "window_ms", save->window_ms);
    write_named_time(&writer, "window_from", from_ms);
    write_named_time(&writer, "window_until", from_ms + save->window_ms);
    write_close(&writer, '}');
    if (writer.failed != 0) {
        return explain_fault(&form, writer.failed);
    }
    screen_put_json(buf_span(&text));
    return CLI_DONE;
}

static int make_key(const struct key_flags *flags, struct save *save)
{
    char own[SAVE_CLIENT_MAX + 1], key[SAVE_KEY_TEXT_LEN + 1];
    AUTO(buf_done) struct buf body;
    struct error err = {0};

    buf_init(&body, GIVEN_BYTES_MAX);
    if (flags->client == NULL) {
        if (own_name(own, &err) != 0) {
            return say(&err);
        }
        save->client = span_of(own);
    }
    if (flags->data != NULL && given_read(flags->data, "--data", &body, &err) != 0) {
        return say(&err);
    }
    save->body = buf_span(&body);
    if (save_key_make(save, key, &err) != 0) {
        return say(&err);
    }
    if (flags->common.is_json) {
        return print_json(save, key);
    }
    printf("%s\n", key);
    return CLI_DONE;
}

int cli_key(int argc, char **argv)
{
    struct key_flags flags = {.window_ms = SAVE_WINDOW_MS};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.url == NULL) {
        flags_complain(&form, "no URL given, expected one");
        return CLI_USAGE;
    }
    const char *usual = flags.data != NULL ? "POST" : NULL;
    struct save save = {
        .url = span_of(flags.url),
        .client = span_of(flags.client),
        .at_ms = flags.has_at ? flags.at_ms : clock_wall_ms(&clock_real),
        .window_ms = flags.window_ms,
        .method = span_of(flags.method != NULL ? flags.method : usual),
    };
    return explain_finish(&form, make_key(&flags, &save));
}
