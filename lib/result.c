/* SPDX-License-Identifier: MIT
 *
 * result -- success and failure as values. See daruma/result.h.
 */
#include <daruma/result.h>

#include <stddef.h>

struct daruma_result daruma_success(void *value)
{
    return (struct daruma_result){.value = value};
}

struct daruma_result daruma_failure(struct daruma_error error)
{
    return (struct daruma_result){.error = error, .failed = true};
}

bool daruma_is_failure(const struct daruma_result *result)
{
    return result == NULL || result->failed;
}

bool daruma_is_success(const struct daruma_result *result)
{
    return !daruma_is_failure(result);
}

struct daruma_error daruma_system_error(const char *message)
{
    return daruma_error_of(DARUMA_SYSTEM, message);
}

struct daruma_error daruma_error_of(enum daruma_code code, const char *message)
{
    struct daruma_error error = {.code = code, .type = "call"};

    switch (code) {
#define CASE(name, value, kind, text)                                                              \
    case DARUMA_##name:                                                                            \
        error.type = kind;                                                                         \
        break;
        DARUMA_CODE_MAP(CASE)
#undef CASE
    case DARUMA_OK:
        break;
    }
    error.message = message != NULL ? message : daruma_code_text((int)code);
    return error;
}

const char *daruma_code_text(int code)
{
    switch (code) {
    case DARUMA_OK:
        return "ok";
#define CASE(name, value, kind, text)                                                              \
    case DARUMA_##name:                                                                            \
        return text;
        DARUMA_CODE_MAP(CASE)
#undef CASE
    default:
        return "an error of the call";
    }
}
