/* SPDX-License-Identifier: MIT
 *
 * Tests of `ca`: the file that is to vouch for a target is read where it is named, and what is wrong
 * with it is said in the exact words that a person gets to read.
 */
#include "certificate.h"
#include "config_mistakes.h"
#include "harness.h"

#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARENA_BYTES 1048576
#define TARGET      "queues:\n  - name: q\n    targets: [{name: t, url: 'http://h/', "

static void write_bytes(const char *path, const char *bytes, size_t times)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    for (size_t i = 0; i < times; i++) {
        assert_true(fputs(bytes, file) >= 0);
    }
    assert_int_equal(fclose(file), 0);
}

#define LONG "a/path/that/is/too/long/to/be/shown/from/its/beginning/"

static void what_is_to_vouch_for_a_target_is_read(void **state)
{
    static const struct mistake mistakes[] = {
        {TARGET "ca: no.pem}]\n", "t.yaml:3:47: queues[0].targets[0].ca: found no.pem (No such "
                                  "file or directory), expected a "
                                  "PEM file with certificates"},
        {TARGET "ca: '" LONG "no.pem'}]\n",
         "t.yaml:3:47: queues[0].targets[0].ca: found "
         ".../path/that/is/too/long/to/be/shown/from/its/"
         "beginning/no.pem (No such file or directory), expected a PEM file with certificates"},
        {TARGET "ca: .}]\n",
         "t.yaml:3:47: queues[0].targets[0].ca: found . (it is no regular file), "
         "expected a PEM file with certificates"},
        {TARGET "ca: text.pem}]\n", "t.yaml:3:47: queues[0].targets[0].ca: found text.pem (it is "
                                    "none), expected a PEM file with "
                                    "certificates"},
        {TARGET "ca: empty.pem}]\n",
         "t.yaml:3:47: queues[0].targets[0].ca: found empty.pem (it is none), expected a PEM file "
         "with certificates"},
        {TARGET "ca: cut.pem}]\n", "t.yaml:3:47: queues[0].targets[0].ca: found cut.pem (it is "
                                   "none), expected a PEM file with "
                                   "certificates"},
        {TARGET "ca: large.pem}]\n", "t.yaml:3:47: queues[0].targets[0].ca: found large.pem (it is "
                                     "larger than 1 MiB), expected "
                                     "a PEM file with certificates"},
        {TARGET "ca: good.pem}, {name: u, url: 'http://h/', ca: text.pem}]\n",
         "t.yaml:3:90: queues[0].targets[1].ca: found text.pem (it is none), expected a PEM file "
         "with "
         "certificates"},
        {"routes: [{match: POST /a, upstream: 'http://h', scope: global, ca: no.pem}]\n",
         "t.yaml:1:68: routes[0].ca: found no.pem (No such file or directory), expected a PEM file "
         "with certificates"},
        {"providers: [{name: p, kind: openai, model: m, keys: [env:CA_KEY], ca: no.pem}]\n",
         "t.yaml:1:71: providers[0].ca: found no.pem (No such file or directory), expected a PEM "
         "file with certificates"},
    };
    static const char good[] =
        TARGET "ca: good.pem}, {name: u, url: 'http://h/', ca: good.pem}]\n"
               "routes: [{match: POST /a, upstream: 'http://h', scope: global, ca: good.pem}]\n";
    struct config *config;
    struct error err = {0};

    (void)state;
    assert_int_equal(setenv("CA_KEY", "k", 1), 0);
    certificate_write("good.pem");
    write_bytes("text.pem", "not a certificate\n", 1);
    write_bytes("empty.pem", "", 1);
    write_bytes("cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", 1);
    write_bytes("large.pem", "0123456789abcdef", (1 << 16) + 1);
    REFUSES(mistakes);
    assert_int_equal(config_parse(SPAN(good), "t.yaml", &config, &err), 0);
    config_free(config);
}

static void a_ca_of_json_is_read_and_what_is_none_is_refused(void **state)
{
    static const char text[] =
        "{\"targets\":[{\"name\":\"t\",\"url\":\"http://h\",\"ca\":\"c.pem\"}]}";
    struct arena *arena = arena_new(ARENA_BYTES);
    struct queue_settings settings;
    struct error err = {0};

    (void)state;
    assert_int_equal(config_parse_queue(SPAN(text), SPAN("q"), NULL, arena, &settings, &err),
                     FAULT_INPUT);
    assert_string_equal(err.field, "targets[0].ca");
    assert_string_equal(err.text,
                        "found c.pem (No such file or directory), expected a PEM file with "
                        "certificates");
    assert_int_equal(mkfifo("c.pem", 0600), 0); /* nobody writes to it */
    assert_int_equal(config_parse_queue(SPAN(text), SPAN("q"), NULL, arena, &settings, &err),
                     FAULT_INPUT);
    assert_string_equal(
        err.text, "found c.pem (it is no regular file), expected a PEM file with certificates");
    assert_int_equal(unlink("c.pem"), 0);
    certificate_write("c.pem");
    assert_int_equal(config_parse_queue(SPAN(text), SPAN("q"), NULL, arena, &settings, &err), 0);
    arena_free(arena);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_to_vouch_for_a_target_is_read),
        cmocka_unit_test(a_ca_of_json_is_read_and_what_is_none_is_refused),
    };

    return HARNESS_RUN(argc, argv, tests);
}
