/* SPDX-License-Identifier: MIT
 *
 * demo -- the demonstration of the design document: a function that succeeds at its third try,
 * once in the ordinary style and once in the style that returns a result.
 *
 *     make run, or build/examples/retry-demo
 */
#include <daruma/retry.h>

#include <stdio.h>

#define WANTED_TRY 3

/* What a call needs lives behind `user`; so do the texts of its errors. */
struct flaky {
    unsigned tries;
    char error[64];
    char answer[64];
};

static const char *fail_once_more(struct flaky *flaky)
{
    snprintf(flaky->error, sizeof flaky->error, "一時的なエラー %u", flaky->tries);
    return flaky->error;
}

static const char *succeed(struct flaky *flaky)
{
    snprintf(flaky->answer, sizeof flaky->answer, "成功: %u回目", flaky->tries);
    return flaky->answer;
}

static int try_plain(void *user, const struct daruma_attempt *attempt,
                     struct daruma_error *ret_error)
{
    struct flaky *flaky = user;

    flaky->tries = attempt->number;
    printf("試行 %u\n", flaky->tries);
    if (flaky->tries < WANTED_TRY) {
        ret_error->message = fail_once_more(flaky);
        return 1;
    }
    (void)succeed(flaky); /* read back from flaky */
    return 0;
}

static struct daruma_result try_result(void *user, const struct daruma_attempt *attempt)
{
    struct flaky *flaky = user;

    flaky->tries = attempt->number;
    printf("試行 %u\n", flaky->tries);
    if (flaky->tries < WANTED_TRY) {
        struct daruma_error error = daruma_system_error(fail_once_more(flaky));
        error.recoverable = true;
        return daruma_failure(error);
    }
    (void)succeed(flaky);
    return daruma_success(flaky->answer);
}

static void tell(void *user, uint32_t attempt, const struct daruma_error *error, uint64_t delay_ms)
{
    (void)user;
    printf("リトライ %u: %s (%llu ms 待機)\n", attempt, error->message,
           (unsigned long long)delay_ms);
}

int main(void)
{
    const struct daruma_retry_options options = {.max_retries = 5, .on_retry = tell};
    struct flaky flaky = {0};
    struct daruma_error error;

    printf("--- 通常関数のリトライデモ ---\n");
    if (daruma_retry(try_plain, &flaky, &options, &error) != 0) {
        printf("最終エラー: %s\n", error.message);
        return 1;
    }
    printf("結果: %s\n", flaky.answer);

    printf("\n--- Result型のリトライデモ ---\n");
    struct daruma_result result = daruma_retry_result(try_result, &flaky, &options);
    if (daruma_is_failure(&result)) {
        printf("最終エラー: %s\n", result.error.message);
        return 1;
    }
    printf("結果: %s\n", (const char *)result.value);
    return 0;
}
