/* SPDX-License-Identifier: MIT
 *
 * A request as it is kept on this machine (A9.1): what is written is read back byte by byte, and
 * nothing that is torn, changed or foreign is taken for one.
 */
#include "harness.h"

#include "base/auto.h"
#include "cli/spooled.h"
#include "task/fields.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)8 << 20)
#define FILE_BYTES  ((size_t)16 << 20)

static struct spooled usual(void)
{
    return (struct spooled){.url = SPAN("https://api.example.org/v1/bookmarks?a=%20b"),
                            .method = SPAN("POST"),
                            .key = SPAN("0198c0de-\"key\""),
                            .headers =
                                SPAN("Content-Type: application/json\nX-Name: 山田\nX-E: \n"),
                            .body = SPAN("{\"url\":\"https://e.org/\"}\n"),
                            .created_at_ms = INT64_C(1794738030123),
                            .timeout_ms = 30000};
}

static void write_file(const struct spooled *request, struct buf *file)
{
    struct error err = {0};

    buf_clear(file);
    assert_int_equal(spooled_write(request, file, &err), 0);
}

/* 0, or the fault, with why in *ret_err. */
static int parse(struct span file, struct error *ret_err)
{
    struct arena *arena = arena_new(ARENA_BYTES);
    struct spooled request;

    *ret_err = (struct error){0};
    int failed = spooled_parse(file, arena, &request, ret_err);
    arena_free(arena);
    return failed;
}

static void assert_spans_equal(struct span one, struct span other)
{
    assert_int_equal(one.len, other.len);
    assert_memory_equal(one.at, other.at, one.len);
}

static void assert_back_as_it_was(const struct spooled *request)
{
    struct arena *arena = arena_new(ARENA_BYTES);
    AUTO(buf_done) struct buf file;
    struct spooled read;
    struct error err = {0};

    buf_init(&file, FILE_BYTES);
    write_file(request, &file);
    assert_int_equal(spooled_parse(buf_span(&file), arena, &read, &err), 0);
    assert_spans_equal(read.url, request->url);
    assert_spans_equal(read.method, request->method);
    assert_spans_equal(read.key, request->key);
    assert_spans_equal(read.headers, request->headers);
    assert_spans_equal(read.body, request->body);
    assert_spans_equal(read.last_error, request->last_error);
    assert_int_equal(read.created_at_ms, request->created_at_ms);
    assert_int_equal(read.tried_at_ms, request->tried_at_ms);
    assert_int_equal(read.not_before_ms, request->not_before_ms);
    assert_int_equal(read.timeout_ms, request->timeout_ms);
    assert_int_equal(read.attempts, request->attempts);
    assert_int_equal(read.state, request->state);
    arena_free(arena);
}

static void url_key_time_and_attempts_are_kept(void **state) /* A9.1 */
{
    struct spooled request = usual();

    (void)state;
    assert_back_as_it_was(&request);
    request.attempts = 4;
    request.state = SPOOLED_FAILED;
    request.last_error = SPAN("HTTP 422");
    request.tried_at_ms = request.created_at_ms + 1;
    request.not_before_ms = request.created_at_ms + 2;
    assert_back_as_it_was(&request);
}

static void a_body_may_have_any_bytes(void **state)
{
    static const char *const beginnings[] = {"", " ", "\n", "\n\n{}", "}", "{\"a\":1}\n", ","};
    char bytes[1024];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)i; /* NUL among them */
    }
    struct spooled request = usual();
    request.body = (struct span){.at = bytes, .len = sizeof bytes};
    assert_back_as_it_was(&request);
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        request.body = span_of(beginnings[i]);
        assert_back_as_it_was(&request);
    }
}

static void a_file_cut_anywhere_is_torn(void **state)
{
    struct spooled request = usual();
    AUTO(buf_done) struct buf file;
    struct error err;

    (void)state;
    buf_init(&file, FILE_BYTES);
    write_file(&request, &file);
    for (size_t len = 0; len < file.len; len++) {
        char *exact = malloc(len + 1); /* so that reading past the end is seen */
        memcpy(exact, file.at, len);
        exact = realloc(exact, len > 0 ? len : 1);
        assert_int_equal(parse((struct span){.at = exact, .len = len}, &err), FAULT_CORRUPT);
        assert_true(err.text[0] != '\0');
        free(exact);
    }
    assert_int_equal(parse(buf_span(&file), &err), 0);
    assert_int_equal(buf_add(&file, SPAN("x")), 0);
    assert_int_equal(parse(buf_span(&file), &err), FAULT_CORRUPT);
}

/* Its digits and letters are what a person may change: then it is another request, or none. */
static void a_changed_byte_of_the_body_is_seen(void **state)
{
    struct spooled request = usual();
    AUTO(buf_done) struct buf file;
    struct error err;

    (void)state;
    buf_init(&file, FILE_BYTES);
    write_file(&request, &file);
    for (size_t i = file.len - request.body.len; i < file.len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            file.at[i] = (char)(file.at[i] ^ (1 << bit));
            assert_int_equal(parse(buf_span(&file), &err), FAULT_CORRUPT);
            file.at[i] = (char)(file.at[i] ^ (1 << bit));
        }
    }
}

/* A whole file with one text in it replaced by another. */
static int parse_with(const char *old, const char *new, struct error *ret_err)
{
    struct spooled request = usual();
    AUTO(buf_done) struct buf file, changed;

    buf_init(&file, FILE_BYTES);
    buf_init(&changed, FILE_BYTES);
    write_file(&request, &file);
    assert_int_equal(buf_add(&file, (struct span){.at = "", .len = 1}), 0);
    const char *at = strstr(file.at, old);
    assert_non_null(at);
    struct span before = {.at = file.at, .len = (size_t)(at - file.at)};
    struct span behind = span_from(buf_span(&file), before.len + strlen(old));
    behind.len--; /* the NUL */
    assert_int_equal(buf_add(&changed, before), 0);
    assert_int_equal(buf_add(&changed, span_of(new)), 0);
    assert_int_equal(buf_add(&changed, behind), 0);
    return parse(buf_span(&changed), ret_err);
}

static void a_person_may_mend_an_address(void **state)
{
    struct error err;

    (void)state;
    assert_int_equal(parse_with("api.example.org", "api2.example.org", &err), 0);
    assert_int_equal(parse_with("  \"attempts\": 0", "\"attempts\":3", &err), 0);
}

static void what_makes_no_sense_is_named(void **state)
{
    static const struct {
        const char *old, *new, *named;
    } rows[] = {
        {"daruma-spool 1", "daruma-spool 2", "begin"},
        {"daruma-spool 1\n", "\n", "begin"},
        {"https://api", "ftp://api", "url"},
        {"https://api", "https://me:secret@api", "url"},
        {"\"POST\"", "\"P ST\"", "method"},
        {"\"POST\"", "\"CONNECT\"", "method"},
        {"\"POST\"", "7", "method"},
        {"\"0198c0de-", "\"\\u0007", "key"},
        {"\"0198c0de-", "\"\\u3042", "key"},
        {"\"2026-11", "\"2026-13", "created_at"},
        {"\"2026-11-15T", "\"1969-11-15T", "created_at"},
        {"\"attempts\": 0", "\"attempts\": -1", "attempts"},
        {"\"attempts\": 0", "\"attempts\": 0.5", "attempts"},
        {"\"attempts\": 0", "\"attempts\": \"0\"", "attempts"},
        {"\"waiting\"", "\"lost\"", "state"},
        {"\"last_error\": null", "\"last_error\": \"a\\nb\"", "last_error"},
        {"30000", "0", "timeout_ms"},
        {"30000", "86400001", "timeout_ms"},
        {"\"X-E\": \"\"", "\"X-E\": \"a\\r\\nHost: b\"", "headers"},
        {"\"X-E\": \"\"", "\"X E\": \"\"", "headers"},
        {"\"X-E\": \"\"", "\"content-length\": \"5\"", "headers"},
        {"\"X-E\": \"\"", "\"Idempotency-Key\": \"5\"", "headers"},
        {"\"X-E\": \"\"", "\"X-E\": 5", "headers"},
        {"\"attempts\": 0,", "\"attempts\": 0, \"more\": 1,", "not known"},
        {"\"attempts\": 0,", "\"attempts\": 0, \"attempts\": 0,", "cannot be read"},
        {"\"attempts\": 0,", "", "attempts"},
        {"\"attempts\": 0,", "\"attempts\": 0,,", "torn"},
        {"}\n{", "} {", "torn"}, /* the body begins behind a line's end, and only there */
    };
    struct error err;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (parse_with(rows[i].old, rows[i].new, &err) != FAULT_CORRUPT ||
            strstr(err.text, rows[i].named) == NULL || strstr(err.text, "secret") != NULL) {
            fail_msg("%s -> %s: %s", rows[i].old, rows[i].new, err.text);
        }
    }
}

static void what_is_no_text_cannot_be_a_header_that_is_kept(void **state)
{
    struct spooled request = usual();
    AUTO(buf_done) struct buf file;
    struct error err = {0};

    (void)state;
    buf_init(&file, FILE_BYTES);
    request.headers = SPAN("X-A: \xff\n");
    assert_int_equal(spooled_write(&request, &file, &err), FAULT_INPUT);
    assert_int_equal(file.len, 0);
}

static void a_place_is_scheme_host_and_port(void **state)
{
    static const char *const rows[][2] = {
        {"http://E.org/a/b?c", "http://e.org"},
        {"http://e.org:80", "http://e.org"},
        {"https://e.org:8443?x=/y/", "https://e.org:8443"},
        {"http://[::1]:9/", "http://[::1]:9"},
    };
    AUTO(buf_done) struct buf place;

    (void)state;
    buf_init(&place, FILE_BYTES);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf_clear(&place);
        assert_int_equal(spooled_place(span_of(rows[i][0]), &place), 0);
        assert_true(span_is(buf_span(&place), rows[i][1]));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(url_key_time_and_attempts_are_kept),
        cmocka_unit_test(a_body_may_have_any_bytes),
        cmocka_unit_test(a_file_cut_anywhere_is_torn),
        cmocka_unit_test(a_changed_byte_of_the_body_is_seen),
        cmocka_unit_test(a_person_may_mend_an_address),
        cmocka_unit_test(what_makes_no_sense_is_named),
        cmocka_unit_test(what_is_no_text_cannot_be_a_header_that_is_kept),
        cmocka_unit_test(a_place_is_scheme_host_and_port),
    };

    return HARNESS_RUN(argc, argv, tests);
}
