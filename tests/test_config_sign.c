/* SPDX-License-Identifier: MIT
 *
 * Tests of targets[].sign: secrets are named, decoded, and never written nor shown (I10).
 */
#include "harness.h"

#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define ARENA_BYTES 1000000
#define TEXT_MAX    1024
#define SECRET      "hush-hush-hush-hush-hush-hush"

static void set_up(void)
{
    FILE *file = fopen("secret", "w");

    assert_non_null(file);
    assert_true(fputs("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(setenv("GOOD", SECRET, 1), 0);
    assert_int_equal(setenv("PLAIN", "twenty-four-letters-long", 1), 0);
    assert_int_equal(setenv("WHSEC", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1), 0);
    assert_int_equal(setenv("SHORT_KEY", "twenty-three-letters-ok", 1), 0);
    assert_int_equal(setenv("SHORT_WHSEC", "whsec_c2hvcnQ=", 1), 0);
    assert_int_equal(setenv("BROKEN_WHSEC", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", 1), 0);
    assert_int_equal(setenv("PAIR", "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1), 0);
}

static int read_file(const char *sign, struct config **ret_config, struct error *err)
{
    char text[TEXT_MAX];

    (void)snprintf(text, sizeof text,
                   "queues:\n  - name: q\n    targets:\n"
                   "      - {name: t, url: 'http://h', sign: %s}\n",
                   sign);
    return config_parse(span_of(text), "t.yaml", ret_config, err);
}

static int read_json(const char *sign, struct arena *arena, struct queue_settings *ret_settings,
                     struct error *err)
{
    char text[TEXT_MAX];

    (void)snprintf(text, sizeof text,
                   "{\"targets\":[{\"name\":\"t\",\"url\":\"http://h\",\"sign\":%s}]}", sign);
    return config_parse_queue(span_of(text), SPAN("q"), NULL, arena, ret_settings, err);
}

static void what_signs_is_decoded_and_its_reference_kept(void **state)
{
    struct config *config = NULL;

    (void)state;
    set_up();
    assert_int_equal(read_file("[file:secret, 'env:PLAIN']", &config, NULL), 0);
    const struct target *target = &config->queues[0].targets[0];
    assert_int_equal(target->sign_count, 2);
    assert_true(span_is(target->sign[0].reference, "file:secret"));
    assert_int_equal(target->sign[0].key.len, 24);
    assert_memory_equal(target->sign[0].key.at, "\x31\xf2\x90\xf6", 4);
    assert_true(span_is(target->sign[1].reference, "env:PLAIN"));
    assert_true(span_is(target->sign[1].key, "twenty-four-letters-long"));
    config_free(config);
    assert_int_equal(read_file("[]", &config, NULL), 0);
    assert_int_equal(config->queues[0].targets[0].sign_count, 0);
    config_free(config);
}

static void what_cannot_sign_is_refused_without_being_shown(void **state) /* I10 */
{
    static const struct {
        const char *sign, *error;
    } rows[] = {
        {"[" SECRET "]", "sign[0]: expected env:NAME or file:PATH, not the secret itself"},
        {SECRET, "sign: expected a list"},
        {"[[" SECRET "]]", "sign[0]: found a list, expected env:NAME or file:PATH"},
        {"[env:GOOD, env:NOT_SET]", "sign[1]: the environment variable NOT_SET is not set"},
        {"[env:SHORT_KEY]", "sign[0]: the secret has 23 bytes, expected at least 24"},
        {"[env:SHORT_WHSEC]", "sign[0]: the secret has 5 bytes, expected at least 24"},
        {"[env:BROKEN_WHSEC]", "sign[0]: the secret has something else than base64 after whsec_"},
        {"[env:PAIR]", "sign[0]: found a key of an asymmetric pair, expected a secret "
                       "(whsec_BASE64)"},
        {"[env:GOOD, env:GOOD, env:GOOD, env:GOOD, env:GOOD, env:GOOD, env:GOOD, env:GOOD, "
         "env:GOOD]",
         "sign: found 9 entries, expected at most 8"},
    };

    (void)state;
    set_up();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct config *config = NULL;
        struct error err = {0};
        assert_int_equal(read_file(rows[i].sign, &config, &err), FAULT_INPUT);
        const char *text = strstr(err.text, "queues[0].targets[0].");
        assert_non_null(text);
        assert_string_equal(text + strlen("queues[0].targets[0]."), rows[i].error);
    }
}

/* JSON is read in the loop, where nothing may wait; a server or a check that waits says nothing. */
static void a_file_of_a_secret_is_a_regular_one(void **state)
{
    static const char *const signs[] = {"[\"file:pipe\"]", "[\"file:.\"]", "[\"file:/dev/zero\"]",
                                        "[\"file:nowhere\"]"};
    struct arena *arena = arena_new(ARENA_BYTES);
    struct queue_settings settings;

    (void)state;
    set_up();
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        struct error err = {0};
        assert_int_equal(read_json(signs[i], arena, &settings, &err), FAULT_INPUT);
        assert_string_equal(err.field, "targets[0].sign[0]");
        assert_non_null(strstr(err.text, "the file of the secret cannot be read: "));
        err = (struct error){0};
        assert_int_equal(read_file(signs[i], NULL, &err), FAULT_INPUT);
        assert_non_null(strstr(err.text, "the file of the secret cannot be read: "));
    }
    assert_int_equal(read_json("[\"file:secret\"]", arena, &settings, NULL), 0);
    assert_int_equal(settings.targets[0].sign[0].key.len, 24);
    arena_free(arena);
}

/* What is stored and shown names the secret; the secret itself is nowhere. */
static void what_signs_is_written_as_its_reference(void **state) /* I10 */
{
    struct arena *arena = arena_new(ARENA_BYTES);
    struct queue_settings settings, back;
    struct buf written[2];

    (void)state;
    set_up();
    assert_int_equal(read_json("[\"env:PLAIN\",\"env:WHSEC\"]", arena, &settings, NULL), 0);
    for (int i = 0; i < 2; i++) {
        buf_init(&written[i], ARENA_BYTES);
        assert_int_equal((i == 0 ? config_render_queue : config_show_queue)(&settings, &written[i]),
                         0);
        assert_int_equal(buf_add(&written[i], (struct span){"", 1}), 0);
        assert_non_null(strstr(written[i].at, "\"sign\":[\"env:PLAIN\",\"env:WHSEC\"]"));
        assert_null(strstr(written[i].at, "twenty-four"));
        assert_null(strstr(written[i].at, "MfKQ9r8"));
    }
    struct span json = span_of(written[0].at);
    assert_int_equal(config_parse_queue(json, SPAN("q"), NULL, arena, &back, NULL), 0);
    assert_int_equal(back.targets[0].sign_count, 2);
    assert_true(span_equal(back.targets[0].sign[1].key, settings.targets[0].sign[1].key));
    buf_done(&written[0]);
    buf_done(&written[1]);
    arena_free(arena);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_signs_is_decoded_and_its_reference_kept),
        cmocka_unit_test(what_cannot_sign_is_refused_without_being_shown),
        cmocka_unit_test(a_file_of_a_secret_is_a_regular_one),
        cmocka_unit_test(what_signs_is_written_as_its_reference),
    };

    return HARNESS_RUN(argc, argv, tests);
}
