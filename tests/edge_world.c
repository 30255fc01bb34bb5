/* SPDX-License-Identifier: MIT
 *
 * edge_world -- see edge_world.h.
 */
#define _GNU_SOURCE
#include "edge_world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES_MAX (64u << 20)

static int64_t fixed_wall_ms(const struct clock *clock)
{
    (void)clock;
    return WORLD_NOW_MS;
}

static int64_t real_mono_ms(const struct clock *clock)
{
    (void)clock;
    return clock_mono_ms(&clock_real);
}

static const struct clock fixed_clock = {.wall_ms = fixed_wall_ms, .mono_ms = real_mono_ms};

static void lose_patience(void *user)
{
    struct world *world = user;

    world->is_late = true;
    loop_stop(world->loop);
}

static void look(void *user)
{
    struct world *world = user;

    if (world->is_done != NULL && world->is_done(world->done_user)) {
        loop_stop(world->loop);
    }
}

static void run_last(void *user)
{
    struct world *world = user;

    if (world->before_wait != NULL) {
        world->before_wait(world->before_wait_user);
    }
}

static int is_ready(void *user, struct error *err)
{
    const struct world *world = user;

    return world->is_ready ? 0 : fail(err, FAULT_IO, "the disk at /secret/path is gone");
}

static int write_metrics(void *user, unsigned how, struct buf *out)
{
    (void)user, (void)how;
    return buf_addf(out, "daruma_up 1\n");
}

static int show_queue(const struct queue_settings *settings, struct buf *out)
{
    return buf_addf(out, "{\"concurrency\":%u}", settings->concurrency);
}

static int parse_policy(void *user, struct span json, struct arena *arena,
                        struct daruma_policy *ret_policy, struct error *err)
{
    (void)user, (void)arena;
    if (memmem(json.at, json.len, "bad", 3) != NULL) {
        return fail_field(err, FAULT_INPUT, "max_attempts", "found bad, expected a number");
    }
    *ret_policy = (struct daruma_policy){.attempts_max = 7};
    return 0;
}

static void open_world(struct world *world, const struct edge_options *options, uint32_t threads)
{
    static const struct span hosts[] = {{"x", 1}}; /* what clients ask for */
    struct edge_options wanted = options != NULL ? *options : (struct edge_options){0};
    struct error error = {0};

    *world = (struct world){.is_ready = true, .engine = stub_engine_new()};
    assert_int_equal(loop_new(&world->loop, &error), 0);
    assert_int_equal(loop_timer_new(world->loop, lose_patience, world, &world->patience, &error),
                     0);
    assert_int_equal(
        loop_hook_new(world->loop, LOOP_HOOK_BEFORE_WAIT, look, world, &world->look, &error), 0);
    assert_int_equal(
        loop_hook_new(world->loop, LOOP_HOOK_BEFORE_WAIT, run_last, world, &world->last, &error),
        0);
    loop_hook_on(world->last);
    wanted.loop = world->loop;
    wanted.engine = world->engine;
    wanted.host = wanted.host.at != NULL ? wanted.host : SPAN("127.0.0.1");
    if (wanted.host_count == 0 && wanted.token_count == 0) {
        wanted.hosts = hosts;
        wanted.host_count = 1;
    }
    wanted.clock = &fixed_clock;
    wanted.parse_policy = parse_policy;
    wanted.show_queue = show_queue;
    wanted.metrics = wanted.metrics != NULL ? wanted.metrics : write_metrics;
    wanted.ready = is_ready;
    wanted.user = world;
    wanted.openapi = SPAN("{\"openapi\":\"3.1.0\"}");
    int failed = threads == 0 ? edge_open(&wanted, &world->edge, &error)
                              : edges_open(&wanted, threads, &world->edges, &error);
    if (failed != 0) {
        fail_msg("edge_open: %s", error.text);
    }
    world->port = threads == 0 ? edge_port(world->edge) : edges_port(world->edges);
    world->engine->noted = look; /* the hook may have looked in this turn already */
    world->engine->user = world;
}

void world_open(struct world *world, const struct edge_options *options)
{
    open_world(world, options, 0);
}

void world_open_threads(struct world *world, const struct edge_options *options, uint32_t threads)
{
    open_world(world, options, threads);
}

void world_reply(struct world *world, const struct reply *reply)
{
    if (world->edges != NULL) {
        edges_reply(world->edges, reply);
    } else {
        edge_reply(world->edge, reply);
    }
}

void world_close(struct world *world)
{
    edge_close(world->edge);
    edges_close(world->edges);
    loop_hook_free(world->look);
    loop_hook_free(world->last);
    loop_timer_free(world->patience);
    loop_free(world->loop);
    stub_engine_free(world->engine);
}

void world_run(struct world *world, bool (*is_done)(void *user), void *user)
{
    world->is_done = is_done;
    world->done_user = user;
    world->is_late = false;
    loop_timer_set(world->patience, clock_mono_ms(&clock_real) + WORLD_PATIENCE_MS);
    loop_hook_on(world->look);
    if (!is_done(user)) {
        loop_run(world->loop);
    }
    loop_hook_off(world->look);
    loop_timer_cancel(world->patience);
    world->is_done = NULL;
    if (world->is_late) {
        fail_msg("what was waited for did not come");
    }
}

struct calls_wanted {
    const struct engine *engine;
    size_t count;
};

static bool has_calls(void *user)
{
    const struct calls_wanted *wanted = user;

    return wanted->engine->call_count >= wanted->count;
}

struct turner {
    struct loop *loop;
    struct loop_timer *timer;
};

static void turn(void *user)
{
    struct turner *turner = user;

    loop_timer_set(turner->timer, loop_now_ms(turner->loop) + 2);
}

void world_run_threads(struct world *world, bool (*is_done)(void *user))
{
    struct turner turner = {.loop = world->loop};
    struct error error;

    assert_int_equal(loop_timer_new(world->loop, turn, &turner, &turner.timer, &error), 0);
    turn(&turner);
    world_run(world, is_done, world);
    loop_timer_free(turner.timer);
}

void world_run_calls(struct world *world, size_t count)
{
    world_run(world, has_calls, &(struct calls_wanted){world->engine, count});
}

/* --- clients ------------------------------------------------------------------------------------ */

static void set_wishes(struct client *client)
{
    unsigned wishes = (client->is_deaf || client->is_closed ? 0 : LOOP_READABLE) |
                      (client->sent_len < client->sent.len ? LOOP_WRITABLE : 0);

    assert_int_equal(loop_watch_set(client->watch, wishes), 0);
}

static void read_some(struct client *client)
{
    static char bytes[65536];
    ssize_t len = recv(client->fd, bytes, sizeof bytes, MSG_DONTWAIT);

    if (len > 0) {
        struct span got = {.at = bytes, .len = (size_t)len};
        assert_int_equal(buf_add(&client->got, got), 0);
    } else if (len == 0 || errno != EAGAIN) {
        client->is_closed = true;
        client->is_reset = len < 0;
    }
}

static void write_some(struct client *client)
{
    struct span rest = span_from(buf_span(&client->sent), client->sent_len);
    ssize_t len = send(client->fd, rest.at, rest.len, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (len >= 0) {
        client->sent_len += (size_t)len;
    } else if (errno != EAGAIN) {
        client->sent_len = client->sent.len; /* nobody reads it any more */
    }
}

static void on_ready(void *user, unsigned events)
{
    struct client *client = user;

    if ((events & LOOP_READABLE) != 0) {
        read_some(client);
    }
    if ((events & LOOP_WRITABLE) != 0) {
        write_some(client);
    }
    set_wishes(client);
}

/* -1: nobody listens. */
static int dial(struct world *world)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(world->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        return fd;
    }
    close(fd);
    return -1;
}

bool world_lets_in(struct world *world)
{
    int fd = dial(world);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

void client_open(struct client *client, struct world *world)
{
    struct error error = {0};

    *client = (struct client){.world = world};
    buf_init(&client->sent, BYTES_MAX);
    buf_init(&client->got, BYTES_MAX);
    client->fd = dial(world);
    assert_true(client->fd >= 0);
    assert_int_equal(
        loop_watch_new(world->loop, client->fd, on_ready, client, &client->watch, &error), 0);
    set_wishes(client);
}

void client_close(struct client *client)
{
    loop_watch_free(client->watch);
    close(client->fd);
    buf_done(&client->sent);
    buf_done(&client->got);
}

void client_send(struct client *client, struct span bytes)
{
    assert_int_equal(buf_add(&client->sent, bytes), 0);
    set_wishes(client);
}

void client_sendf(struct client *client, const char *format, ...)
{
    va_list arguments;
    char *text = NULL;

    va_start(arguments, format);
    assert_true(vasprintf(&text, format, arguments) >= 0);
    va_end(arguments);
    client_send(client, span_of(text));
    free(text);
}

void client_request(struct client *client, const char *method, const char *target, const char *body)
{
    client_sendf(client, "%s %s HTTP/1.1\r\nHost: x\r\n", method, target);
    if (body[0] != '\0') {
        client_sendf(client, "Content-Length: %zu\r\n", strlen(body));
    }
    client_sendf(client, "\r\n%s", body);
}

static bool find_end(struct span text, size_t *ret_end)
{
    const char *found = text.len > 0 ? memmem(text.at, text.len, "\r\n\r\n", 4) : NULL;

    if (found == NULL) {
        return false;
    }
    *ret_end = (size_t)(found - text.at) + 4;
    return true;
}

bool answer_header(const struct answer_view *answer, const char *name, struct span *ret_value)
{
    struct span rest = answer->headers, line, found;

    while (span_cut(&rest, '\n', &line)) {
        line.len -= line.len > 0 && line.at[line.len - 1] == '\r';
        if (span_cut(&line, ':', &found) && span_is_nocase(found, name)) {
            *ret_value = span_trim(line);
            return true;
        }
    }
    return false;
}

/* An answer whose headers are there; its body is as long as they say. */
static bool parse_answer(struct span got, bool has_body, struct answer_view *ret_answer)
{
    struct span value;
    int64_t status, length = 0;
    size_t end;

    if (!find_end(got, &end) || !span_to_int(span_until(span_from(got, 9), 3), &status)) {
        return false;
    }
    ret_answer->status = (int)status;
    ret_answer->headers = span_until(got, end);
    if (has_body && answer_header(ret_answer, "Content-Length", &value)) {
        assert_true(span_to_int(value, &length));
    }
    ret_answer->body = span_until(span_from(got, end), (size_t)length);
    return ret_answer->body.len == (size_t)length;
}

static bool has_answer(void *user)
{
    struct client *client = user;
    struct answer_view answer;

    return client->is_closed || parse_answer(buf_span(&client->got), true, &answer);
}

static bool has_head(void *user)
{
    struct client *client = user;
    struct answer_view answer;

    return client->is_closed || parse_answer(buf_span(&client->got), false, &answer);
}

/* Drops the answer that was looked at last. */
static void drop(struct client *client)
{
    size_t len = client->wanted_len;

    memmove(client->got.at, client->got.at + len, client->got.len - len);
    client->got.len -= len;
    client->wanted_len = 0;
}

static void await(struct client *client, bool has_body, struct answer_view *ret_answer)
{
    if (client->wanted_len > 0) {
        drop(client);
    }
    world_run(client->world, has_body ? has_answer : has_head, client);
    if (!parse_answer(buf_span(&client->got), has_body, ret_answer)) {
        fail_msg("the connection was closed without an answer: %.*s", (int)client->got.len,
                 client->got.at);
    }
    client->wanted_len = ret_answer->headers.len + ret_answer->body.len;
    if (ret_answer->status == 100) {
        await(client, has_body, ret_answer);
    }
}

void client_await(struct client *client, struct answer_view *ret_answer)
{
    await(client, true, ret_answer);
}

void client_await_head(struct client *client, struct answer_view *ret_answer)
{
    await(client, false, ret_answer);
}

static bool is_closed(void *user)
{
    return ((struct client *)user)->is_closed;
}

void client_await_close(struct client *client)
{
    world_run(client->world, is_closed, client);
}

void fetch(struct world *world, const char *method, const char *target, const char *body,
           struct fetched *ret_fetched)
{
    struct answer_view answer;
    struct client client;

    client_open(&client, world);
    client_request(&client, method, target, body);
    client_await(&client, &answer);
    assert_true(answer.body.len < FETCH_BODY_MAX);
    ret_fetched->status = answer.status;
    snprintf(ret_fetched->headers, sizeof ret_fetched->headers, "%.*s", SPAN_ARGS(answer.headers));
    memcpy(ret_fetched->body, answer.body.at, answer.body.len);
    ret_fetched->body[answer.body.len] = '\0';
    client_close(&client);
}

void assert_cut_off(struct world *world, struct span bytes, const char *what)
{
    struct client client;

    client_open(&client, world);
    client_send(&client, bytes);
    client_await_close(&client);
    struct span got = buf_span(&client.got);
    if (got.len > 0 && !span_starts(got, "HTTP/1.1 4") && !span_starts(got, "HTTP/1.1 505")) {
        fail_msg("%s: %.*s", what, (int)client.got.len, client.got.at);
    }
    if (world->engine->call_count > 0) {
        fail_msg("%s: it was taken", what);
    }
    client_close(&client);
}

static void drip_on(void *user)
{
    struct drip *drip = user;

    if (*drip->rest != '\0' && !drip->client->is_closed) {
        client_sendf(drip->client, "%c", *drip->rest++);
        loop_timer_set(drip->timer, clock_mono_ms(&clock_real) + 1);
    }
}

void drip_start(struct drip *drip, struct client *client, const char *text)
{
    struct error error;

    *drip = (struct drip){.client = client, .rest = text};
    assert_int_equal(loop_timer_new(client->world->loop, drip_on, drip, &drip->timer, &error), 0);
    drip_on(drip);
}

void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, text);
    }
}

void assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("\"%s\" is in \"%s\"", part, text);
    }
}

void assert_problem(const struct fetched *fetched, int status, const char *code)
{
    char wanted[128];

    snprintf(wanted, sizeof wanted, "\"code\":\"%s\"", code);
    assert_contains(fetched->body, wanted);
    assert_int_equal(fetched->status, status);
    assert_contains(fetched->headers, "Content-Type: application/problem+json\r\n");
}

/* --- what the engine would say ------------------------------------------------------------------ */

struct record world_record(enum task_state state)
{
    return (struct record){
        .task = {.id = {.row = id_row_at(WORLD_NOW_MS) | 1, .tail = 42},
                 .key = SPAN("order-1"),
                 .method = SPAN("PUT"),
                 .target = SPAN("http://127.0.0.1:9/x"),
                 .headers = SPAN("content-type: text/plain\nAuthorization: Bearer s3cret\n"),
                 .labels = SPAN("kind: a \"b\"\n"),
                 .body = SPAN("hello")},
        .life = {.state = state, .due_at_ms = WORLD_NOW_MS + 1500},
    };
}

static void reply(struct world *world, const struct stub_call *call, enum reply_kind kind,
                  enum task_state state)
{
    static const struct queue_settings settings = {.concurrency = 64};
    const struct queue_view queue = {
        .name = SPAN("sync"), .settings = &settings, .attempts_max = 10};
    struct record record = world_record(state);

    world_reply(world, &(struct reply){.kind = kind,
                                       .exchange = call->exchange,
                                       .index = call->submission.index,
                                       .records = &record,
                                       .record_count = 1,
                                       .queues = &queue,
                                       .queue_count = 1,
                                       .is_new = kind == REPLY_CREATED});
}

void script_created(void *user, const struct stub_call *call)
{
    reply(user, call, REPLY_CREATED, TASK_WAITING);
}

void script_task(void *user, const struct stub_call *call)
{
    reply(user, call, REPLY_TASK, TASK_SUCCEEDED);
}
