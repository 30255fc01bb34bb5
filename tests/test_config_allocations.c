/* SPDX-License-Identifier: MIT
 *
 * The configuration with its first, second, third … allocation failing: each time it says that
 * memory is out and leaves nothing behind. libyaml's own allocations are not among them: alloc_fail
 * sees only our objects'.
 */
#include "certificate.h"
#include "harness.h"
#include "alloc_fail.h"

#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>

#define RUNS_MAX 1000

static const char text[] =
    "store: json:${FOLDER}/x\n"
    "api: {listen: '0.0.0.0:1', tokens: [{name: a, role: admin, token: env:FOLDER},\n"
    "                                    {name: b, role: viewer, token: file:secret}]}\n"
    "outbound: {allow: [a.org], deny: [10.0.0.0/8]}\n"
    "policies: [{name: p, transient: {schedule: [1s, 2s]}}]\n"
    "queues: [{name: q, policy: p, targets: [{name: t, url: 'http://h', ca: f.pem,\n"
    "          headers: [{name: a, value: b}], sign: [env:KEY, env:WHSEC]}]}]\n";

static const char json[] =
    "{\"policy\":{\"transient\":{\"schedule\":[\"1s\"]}},\"targets\":[{\"name\":\"t\","
    "\"url\":\"http://h\\/\",\"headers\":[{\"name\":\"a\",\"value\":\"\\u0041\"}],"
    "\"sign\":[\"env:KEY\",\"env:WHSEC\"]}]}";

static int load(void *user)
{
    struct config *config = NULL;
    struct error err = {0};
    int failed = config_load("daruma.yaml", &config, &err);

    (void)user;
    assert_true(failed == 0 || (failed == FAULT_MEMORY && config == NULL));
    assert_int_equal(err.fault, failed);
    config_free(config);
    return failed;
}

static int read_and_render(void *user)
{
    struct arena *arena = arena_new(100000);
    struct queue_settings settings;
    struct error err = {0};
    struct buf rendered;

    (void)user;
    buf_init(&rendered, 100000);
    int failed = arena == NULL
                     ? FAULT_MEMORY
                     : config_parse_queue(SPAN(json), SPAN("q"), NULL, arena, &settings, &err);
    if (failed == 0) {
        failed = config_render_queue(&settings, &rendered);
        assert_true(failed == 0 || rendered.len == 0);
    }
    assert_true(failed == 0 || failed == FAULT_MEMORY);
    buf_done(&rendered);
    arena_free(arena);
    return failed;
}

static void write_file(const char *path, const char *bytes)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(bytes, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void loading_survives_each_failed_allocation(void **state)
{
    struct alloc_report report;

    (void)state;
    write_file("daruma.yaml", text);
    certificate_write("f.pem");
    write_file("secret", "hush\n");
    assert_int_equal(setenv("FOLDER", "folder", 1), 0);
    assert_true(alloc_fail_drive(load, NULL, RUNS_MAX, &report));
    assert_true(report.reported >= 8);
    assert_int_equal(report.survived, 0);
}

static void json_survives_each_failed_allocation(void **state)
{
    struct alloc_report report;

    (void)state;
    assert_true(alloc_fail_drive(read_and_render, NULL, RUNS_MAX, &report));
    assert_true(report.reported >= 4);
    assert_int_equal(report.survived, 0);
}

/* The arena is the other way to run out: every ceiling from nothing up. */
static void an_arena_of_any_size_is_enough_or_says_so(void **state)
{
    int failed = FAULT_MEMORY;

    (void)state;
    for (size_t max = 0; failed != 0; max++) {
        struct arena *arena = arena_new(max);
        struct queue_settings settings;
        failed = config_parse_queue(SPAN(json), SPAN("q"), NULL, arena, &settings, NULL);
        assert_true(failed == 0 || failed == FAULT_MEMORY);
        assert_true(max < 10000);
        arena_free(arena);
    }
}

int main(int argc, char **argv)
{
    (void)setenv("KEY", "twenty-four-letters-long", 1); /* else the tests say so */
    (void)setenv("WHSEC", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading_survives_each_failed_allocation),
        cmocka_unit_test(json_survives_each_failed_allocation),
        cmocka_unit_test(an_arena_of_any_size_is_enough_or_says_so),
    };

    return HARNESS_RUN(argc, argv, tests);
}
