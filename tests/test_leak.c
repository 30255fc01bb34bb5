/* SPDX-License-Identifier: MIT
 *
 * leak: secrets in what a provider sends, however they are written (I10).
 */
#include "harness.h"

#include "deliver/leak.h"

#include <string.h>

static struct provider_settings settings_with_secrets(void)
{
    return (struct provider_settings){
        .keys = {SPAN("sk-proj-SECRET-0123456789"), SPAN("sk/with\"odd\\bytes-0123")},
        .key_count = 2,
        .headers = SPAN("OpenAI-Organization: org-not-a-secret-at-all\n"
                        "Proxy-Authorization: Basic dXNlcjpwYXNzd29yZA==\n")};
}

static void a_secret_is_found_however_it_is_written(void **state)
{
    static const char *const leaking[] = {
        "sk-proj-SECRET-0123456789",
        "your key is SK-PROJ-secret-0123456789.",
        "{\"a\":\"\\u0073k-proj-\\u0053ECRET-0123456789\"}",
        "\\\\u0073\\u0073k-proj-SECRET-0123456789",
        "ssk-proj-SECRET-01234",
        "{\"a\":\"sk\\/with\\\"odd\\\\bytes-0123\"}",
        "sk/with\\u0022odd\\u005Cbytes-01",
        "sk/with\"odd\\bytes-0123",
        "x-request-id: dXNlcjpwYXNzd29yZA==\n",
    };
    const struct provider_settings settings = settings_with_secrets();

    (void)state;
    for (size_t i = 0; i < sizeof leaking / sizeof *leaking; i++) {
        if (!leak_in(&settings, span_of(leaking[i]))) {
            fail_msg("not found: %s", leaking[i]);
        }
    }
}

static void what_is_no_secret_is_not_taken_for_one(void **state)
{
    static const char *const clean[] = {
        "",
        "\\",
        "\\u",
        "\\u00",
        "\\u007",
        "sk-proj-",
        "sk-proj-SECRET-0123", /* nineteen bytes of it */
        "org-not-a-secret-at-all",
        "Basic",
        "\\u0073k-proj-\\uZZZZ",
    };
    const struct provider_settings settings = settings_with_secrets();
    const struct provider_settings local = {
        .keys = {SPAN("not-needed")}, .key_count = 1, .headers = SPAN("X-Api-Key: x\n")};

    (void)state;
    for (size_t i = 0; i < sizeof clean / sizeof *clean; i++) {
        if (leak_in(&settings, span_of(clean[i]))) {
            fail_msg("taken for a secret: %s", clean[i]);
        }
    }
    assert_false(leak_in(&local, SPAN("a word such as not-needed, and an x")));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_is_found_however_it_is_written),
        cmocka_unit_test(what_is_no_secret_is_not_taken_for_one),
    };

    return HARNESS_RUN(argc, argv, tests);
}
