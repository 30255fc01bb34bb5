/* SPDX-License-Identifier: MIT
 *
 * async -- wait for TCP servers to come up, all of them at once, on one libuv loop: each address is
 * an operation of its own with backoff, a limit for each attempt and one for the whole.
 *
 *     retry-async ADDRESS PORT [ADDRESS PORT]...
 */
#include <daruma/retry_uv.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define TARGETS_MAX        16
#define TOTAL_TIMEOUT_MS   30000
#define ATTEMPT_TIMEOUT_MS 2000

/* One connection attempt. It outlives its operation when the attempt is abandoned: libuv reports
 * the closed connection later, and the generation makes that report harmless. */
struct connection {
    uv_tcp_t tcp;
    uv_connect_t request;
    struct target *target;
    uint32_t generation;
};

struct target {
    struct daruma_retry_op op;
    struct sockaddr_in address;
    const char *name;
    struct connection *current;
    int *failures;
};

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void close_connection(struct connection *connection)
{
    if (!uv_is_closing((uv_handle_t *)&connection->tcp)) {
        uv_close((uv_handle_t *)&connection->tcp, on_closed);
    }
}

static void on_connect(uv_connect_t *request, int status)
{
    struct connection *connection = request->data;
    struct target *target = connection->target;
    struct daruma_error error = {
        .type = "uv", .message = status < 0 ? uv_strerror(status) : NULL, .recoverable = true};

    if (target->current == connection) {
        target->current = NULL;
    }
    /* False for an attempt that is no longer waited for: nothing more to do. */
    (void)daruma_retry_async_finish(&target->op, connection->generation, status, &error);
    close_connection(connection);
}

static void begin(void *user, struct daruma_retry_op *op, const struct daruma_attempt *attempt)
{
    struct target *target = user;
    struct daruma_uv *uv = op->options->loop->user;
    struct connection *connection = calloc(1, sizeof *connection);

    if (target->current != NULL) {
        close_connection(target->current); /* the attempt before took too long */
        target->current = NULL;
    }
    if (connection == NULL) {
        (void)daruma_retry_async_finish(op, attempt->generation, UV_ENOMEM, NULL);
        return;
    }
    connection->target = target;
    connection->generation = attempt->generation;
    connection->request.data = connection;
    (void)uv_tcp_init(uv->timer.loop, &connection->tcp); /* cannot fail without a socket */
    connection->tcp.data = connection;
    target->current = connection;
    int failed = uv_tcp_connect(&connection->request, &connection->tcp,
                                (const struct sockaddr *)&target->address, on_connect);
    if (failed != 0) {
        target->current = NULL;
        (void)daruma_retry_async_finish(op, attempt->generation, failed, NULL);
        close_connection(connection);
    }
}

static void on_done(void *user, struct daruma_retry_op *op, int code,
                    const struct daruma_error *error)
{
    struct target *target = user;

    if (target->current != NULL) {
        close_connection(target->current);
        target->current = NULL;
    }
    if (code == 0) {
        printf("%s: up after %" PRIu32 " attempts\n", target->name, op->attempts);
    } else {
        printf("%s: gave up: %s\n", target->name, error->message);
        (*target->failures)++;
    }
}

static void tell(void *user, uint32_t attempt, const struct daruma_error *error, uint64_t delay_ms)
{
    (void)user;
    fprintf(stderr, "attempt %" PRIu32 ": %s; next in %" PRIu64 " ms\n", attempt, error->message,
            delay_ms);
}

int main(int argc, char **argv)
{
    static struct target targets[TARGETS_MAX];
    struct daruma_uv uv;
    uv_loop_t *loop = uv_default_loop();
    struct daruma_retry_options options = {
        .max_retries = 100,
        .backoff = daruma_backoff_exponential_jitter(50, 1000, 0.2),
        .on_retry = tell,
        .timeout_ms = TOTAL_TIMEOUT_MS,
        .attempt_timeout_ms = ATTEMPT_TIMEOUT_MS,
        .loop = &uv.loop,
    };
    int failures = 0;
    int count = (argc - 1) / 2;

    if (argc < 3 || argc % 2 == 0 || count > TARGETS_MAX) {
        fprintf(stderr, "usage: retry-async ADDRESS PORT [ADDRESS PORT]...\n");
        return 2;
    }
    if (daruma_uv_init(&uv, loop) != 0) {
        fprintf(stderr, "no timer could be had\n");
        return 1;
    }
    for (int i = 0; i < count; i++) {
        struct target *target = &targets[i];
        target->name = argv[2 + 2 * i];
        target->failures = &failures;
        int port = (int)strtoul(target->name, NULL, 10);
        if (uv_ip4_addr(argv[1 + 2 * i], port, &target->address) != 0 ||
            daruma_retry_async_start(&target->op, begin, target, &options, on_done) != 0) {
            fprintf(stderr, "%s: not an address that can be tried\n", argv[1 + 2 * i]);
            return 2;
        }
    }
    uv_run(loop, UV_RUN_DEFAULT);
    daruma_uv_close(&uv, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    return failures > 0;
}
