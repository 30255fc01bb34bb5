/* SPDX-License-Identifier: MIT
 *
 * sign: the published vector, and what the specification says around it. tests/e2e/test_webhooks.py
 * has the official library read real deliveries.
 */
#include "harness.h"

#include "deliver/deliver.h"
#include "deliver/sign.h"

#include <stdio.h>
#include <string.h>

#define FIELDS_MAX 1024
/* whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw */
#define KEY                                                                                        \
    "\x31\xf2\x90\xf6\xbf\x06\x29\x8a\xab\x4f\x08\xd4\x3c\x3f\x08\x2c\xf6\x48\xa3\x62\xda"         \
    "\x2d\xa4\xb0"
#define SIGNATURE "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

static const struct signing_key keys[] = {{.key = {KEY, sizeof KEY - 1}},
                                          {.key = {"another secret of 24 byt", 24}}};

/* The fields, as one text. */
static const char *sign_text(size_t key_count, int64_t at_ms, struct span body)
{
    static char text[FIELDS_MAX];
    struct buf fields;
    const struct sign_input input = {.keys = keys,
                                     .key_count = key_count,
                                     .id = SPAN("msg_p5jXN8AQM9LWM0D4loKWxJek"),
                                     .at_ms = at_ms,
                                     .body = body};

    buf_init(&fields, FIELDS_MAX);
    assert_int_equal(sign_add_fields(&input, &fields, NULL), 0);
    (void)snprintf(text, sizeof text, "%.*s", (int)fields.len, fields.at);
    buf_done(&fields);
    return text;
}

static void the_published_vector_comes_out(void **state)
{
    (void)state;
    assert_string_equal(sign_text(1, INT64_C(1614265330000), SPAN("{\"test\": 2432232314}")),
                        "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\n"
                        "webhook-timestamp: 1614265330\n"
                        "webhook-signature: " SIGNATURE "\n");
}

static void the_time_is_in_whole_seconds(void **state)
{
    (void)state;
    assert_non_null(strstr(sign_text(1, INT64_C(1614265330999), SPAN("{\"test\": 2432232314}")),
                           "webhook-timestamp: 1614265330\nwebhook-signature: " SIGNATURE "\n"));
}

static void each_secret_has_its_signature_in_order(void **state)
{
    (void)state;
    const char *text = sign_text(2, INT64_C(1614265330000), SPAN("{\"test\": 2432232314}"));
    const char *first = strstr(text, "webhook-signature: " SIGNATURE " v1,");

    assert_non_null(first);
    assert_int_equal(strlen(first), strlen("webhook-signature: \n") + 2 * strlen(SIGNATURE) + 1);
    assert_null(strstr(first + strlen("webhook-signature: v1,"), SIGNATURE));
}

/* Each byte of what is signed counts, also behind a NUL. */
static void other_bytes_have_another_signature(void **state)
{
    const struct span bodies[] = {SPAN(""), SPAN("\0"), SPAN("\0\0"), SPAN("a\0b"), SPAN("a\0c")};
    char seen[5][FIELDS_MAX];

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        (void)snprintf(seen[i], FIELDS_MAX, "%s", sign_text(1, 0, bodies[i]));
        for (size_t other = 0; other < i; other++) {
            assert_string_not_equal(seen[i], seen[other]);
        }
    }
}

static void its_fields_are_known_in_any_case_of_letters(void **state)
{
    (void)state;
    assert_true(sign_is_field(SPAN("webhook-id")) && sign_is_field(SPAN("Webhook-Timestamp")) &&
                sign_is_field(SPAN("WEBHOOK-SIGNATURE")));
    assert_false(sign_is_field(SPAN("webhook")) || sign_is_field(SPAN("webhook-ids")));
}

static void a_delivery_has_keys_of_its_own(void **state)
{
    struct arena *arena = arena_new(65536), *none = arena_new(1);
    struct signing_key own[] = {keys[0], keys[1]};
    const struct target target = {.sign = own, .sign_count = 2}, plain = {0};
    struct delivery delivery = {0};

    (void)state;
    assert_int_equal(delivery_sign(&delivery, &plain, arena), 0);
    assert_int_equal(delivery.sign_count, 0);
    assert_int_equal(delivery_sign(&delivery, &target, none), FAULT_MEMORY);
    assert_int_equal(delivery.sign_count, 0);
    assert_int_equal(delivery_sign(&delivery, &target, arena), 0);
    assert_int_equal(delivery.sign_count, 2);
    own[0].key = SPAN("");
    assert_true(span_equal(delivery.sign[0].key, keys[0].key)); /* the queue may change meanwhile */
    assert_true(span_equal(delivery.sign[1].key, keys[1].key));
    arena_free(arena);
    arena_free(none);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vector_comes_out),
        cmocka_unit_test(the_time_is_in_whole_seconds),
        cmocka_unit_test(each_secret_has_its_signature_in_order),
        cmocka_unit_test(other_bytes_have_another_signature),
        cmocka_unit_test(its_fields_are_known_in_any_case_of_letters),
        cmocka_unit_test(a_delivery_has_keys_of_its_own),
    };

    return HARNESS_RUN(argc, argv, tests);
}
