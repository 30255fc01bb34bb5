/* SPDX-License-Identifier: MIT
 *
 * Tests of result: success and failure as plain values, and the one table of codes.
 */
#include "harness.h"

#include <daruma/result.h>

#include <string.h>

struct code_row {
    enum daruma_code code;
    const char *type;
    const char *text;
};

static const struct code_row code_rows[] = {
#define ROW(name, value, type, text) {DARUMA_##name, type, text},
    DARUMA_CODE_MAP(ROW)
#undef ROW
};

#define CODE_COUNT (sizeof code_rows / sizeof *code_rows)

static void a_success_carries_its_value(void **state) /* B7 */
{
    int value = 7;
    struct daruma_result result = daruma_success(&value);

    (void)state;
    assert_true(daruma_is_success(&result));
    assert_false(daruma_is_failure(&result));
    assert_ptr_equal(result.value, &value);
}

static void a_success_needs_no_value(void **state) /* B7 */
{
    struct daruma_result result = daruma_success(NULL);

    (void)state;
    assert_true(daruma_is_success(&result));
    assert_null(result.value);
}

static void a_failure_carries_its_error_as_it_is(void **state) /* B7 */
{
    int source = 0;
    struct daruma_error error = {.type = "http",
                                 .message = "503",
                                 .source = &source,
                                 .retry_after_ms = 1500,
                                 .code = 42,
                                 .recoverable = true};
    struct daruma_result result = daruma_failure(error);

    (void)state;
    assert_true(daruma_is_failure(&result));
    assert_false(daruma_is_success(&result));
    assert_null(result.value);
    assert_ptr_equal(result.error.type, error.type);
    assert_ptr_equal(result.error.message, error.message);
    assert_ptr_equal(result.error.source, &source);
    assert_int_equal(result.error.retry_after_ms, 1500);
    assert_int_equal(result.error.code, 42);
    assert_true(result.error.recoverable);
}

static void a_zeroed_failure_is_still_a_failure(void **state)
{
    struct daruma_result result = daruma_failure((struct daruma_error){0});

    (void)state;
    assert_true(daruma_is_failure(&result));
}

static void a_zeroed_result_is_a_success(void **state)
{
    struct daruma_result result = {0};

    (void)state;
    assert_true(daruma_is_success(&result));
}

static void no_result_at_all_is_a_failure(void **state)
{
    (void)state;
    assert_true(daruma_is_failure(NULL));
    assert_false(daruma_is_success(NULL));
}

static void a_system_error_is_not_recoverable_until_the_caller_says_so(void **state) /* B7, B8 */
{
    struct daruma_error error = daruma_system_error("disk full");

    (void)state;
    assert_string_equal(error.type, "system");
    assert_string_equal(error.message, "disk full");
    assert_int_equal(error.code, DARUMA_SYSTEM);
    assert_int_equal(error.retry_after_ms, 0);
    assert_null(error.source);
    assert_false(error.recoverable);

    error.recoverable = true;
    struct daruma_result result = daruma_failure(error);
    assert_true(result.error.recoverable);
}

static void a_system_error_without_a_message_has_the_text_of_its_code(void **state)
{
    (void)state;
    assert_string_equal(daruma_system_error(NULL).message, daruma_code_text(DARUMA_SYSTEM));
}

static void every_code_has_a_value_a_type_and_a_text_of_its_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODE_COUNT; i++) {
        struct daruma_error error = daruma_error_of(code_rows[i].code, NULL);
        assert_true(code_rows[i].code < 0);
        assert_int_equal(error.code, code_rows[i].code);
        assert_string_equal(error.type, code_rows[i].type);
        assert_string_equal(error.message, code_rows[i].text);
        assert_string_equal(daruma_code_text(code_rows[i].code), code_rows[i].text);
        assert_false(error.recoverable);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(code_rows[i].code, code_rows[j].code);
            assert_string_not_equal(code_rows[i].text, code_rows[j].text);
        }
    }
}

static void an_error_of_a_code_keeps_the_message_it_is_given(void **state)
{
    static const char message[] = "nobody answered";

    (void)state;
    assert_ptr_equal(daruma_error_of(DARUMA_TIMED_OUT, message).message, message);
    assert_string_equal(daruma_error_of(DARUMA_TIMED_OUT, message).type, "timeout");
}

static void a_code_of_the_call_has_a_text_too(void **state)
{
    (void)state;
    assert_string_equal(daruma_code_text(DARUMA_OK), "ok");
    assert_string_equal(daruma_code_text(1), "an error of the call");
    assert_string_equal(daruma_code_text(-1), "an error of the call");
    assert_string_equal(daruma_code_text(INT32_MIN), "an error of the call");
    assert_string_equal(daruma_error_of((enum daruma_code)17, NULL).type, "call");
    assert_int_equal(daruma_error_of((enum daruma_code)17, NULL).code, 17);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_success_carries_its_value),
        cmocka_unit_test(a_success_needs_no_value),
        cmocka_unit_test(a_failure_carries_its_error_as_it_is),
        cmocka_unit_test(a_zeroed_failure_is_still_a_failure),
        cmocka_unit_test(a_zeroed_result_is_a_success),
        cmocka_unit_test(no_result_at_all_is_a_failure),
        cmocka_unit_test(a_system_error_is_not_recoverable_until_the_caller_says_so),
        cmocka_unit_test(a_system_error_without_a_message_has_the_text_of_its_code),
        cmocka_unit_test(every_code_has_a_value_a_type_and_a_text_of_its_own),
        cmocka_unit_test(an_error_of_a_code_keeps_the_message_it_is_given),
        cmocka_unit_test(a_code_of_the_call_has_a_text_too),
    };
    return HARNESS_RUN(argc, argv, tests);
}
