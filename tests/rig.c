/* SPDX-License-Identifier: MIT
 *
 * rig -- see rig.h.
 */
#include "rig.h"
#include "harness.h"

#include <stdio.h>
#include <unistd.h>

#define GUARD_SECONDS 100 /* a test that hangs is killed */

static struct target_script the_script; /* a test has one process, and one target */

static int64_t rig_wall_ms(const struct clock *clock)
{
    return ((const struct rig *)clock)->wall_ms;
}

static int64_t rig_mono_ms(const struct clock *clock)
{
    struct rig *rig = (struct rig *)(void *)clock; /* the first thing in it */
    int64_t now_ms = rig->mono_ms;

    rig->mono_ms += rig->mono_step_ms;
    return now_ms;
}

static void on_done(void *user, struct delivery *delivery)
{
    struct rig *rig = user;

    assert_false(rig->is_inside);
    rig->last = delivery;
    rig->done_count++;
    if (rig->on_done != NULL) {
        rig->on_done(rig, delivery);
    }
    if (rig->done_count == rig->wanted_count) {
        loop_stop(rig->loop);
    }
}

void rig_open(struct rig *rig, const struct target_plan *plan)
{
    (void)alarm(GUARD_SECONDS);
    rig->clock = (struct clock){.wall_ms = rig_wall_ms, .mono_ms = rig_mono_ms};
    rig->wall_ms = RIG_WALL_MS;
    rig->mono_ms = RIG_MONO_MS;
    rig->options.clock = &rig->clock;
    assert_int_equal(loop_new(&rig->loop, NULL), 0);
    assert_int_equal(http_deliver_open(&rig->options, rig->loop, on_done, rig, &rig->deliver, NULL),
                     0);
    if (plan != NULL) {
        rig->target = target_start(plan);
        (void)snprintf(rig->url, sizeof rig->url, "%s://127.0.0.1:%d/path?query",
                       plan->tls_name != NULL ? "https" : "http", (int)target_port(rig->target));
    }
}

void rig_open_script(struct rig *rig, const struct target_step *steps, size_t count)
{
    the_script = (struct target_script){.steps = steps, .count = count};
    rig_open(rig, &(struct target_plan){.scripts = &the_script, .count = 1});
}

void rig_end(struct rig *rig)
{
    deliver_close(rig->deliver);
    rig->deliver = NULL;
    if (rig->target != NULL) {
        target_stop(rig->target);
    }
}

void rig_close(struct rig *rig)
{
    rig_end(rig);
    target_free(rig->target);
    loop_free(rig->loop);
}

struct delivery rig_delivery(struct rig *rig, const char *method)
{
    return (struct delivery){
        .method = span_of(method),
        .url = span_of(rig->url),
        .timeout_ms = RIG_TIMEOUT_MS,
        .response_max = RIG_BODY_MAX,
    };
}

void rig_send(struct rig *rig, struct delivery *delivery)
{
    struct error err = {0};

    rig->is_inside = true;
    assert_int_equal(deliver_send(rig->deliver, delivery, &err), 0);
    rig->is_inside = false;
}

void rig_cancel(struct rig *rig, struct delivery *delivery)
{
    rig->is_inside = true;
    deliver_cancel(rig->deliver, delivery);
    rig->is_inside = false;
}

void rig_wait(struct rig *rig, size_t count)
{
    rig->wanted_count = rig->done_count + count;
    loop_run(rig->loop);
    assert_int_equal(rig->done_count, rig->wanted_count);
}

void rig_carry_out(struct rig *rig, struct delivery *delivery)
{
    rig_send(rig, delivery);
    rig_wait(rig, 1);
    assert_ptr_equal(rig->last, delivery);
}

void rig_expect(const struct delivery *delivery, enum task_sent sent, const char *message)
{
    assert_string_equal(delivery->message, message);
    assert_int_equal(delivery->outcome.sent, sent);
    if (sent != TASK_SENT_YES) {
        assert_int_equal(delivery->outcome.status, 0);
        assert_int_equal(delivery->outcome.error_class, DARUMA_CLASS_TRANSIENT);
        assert_int_equal(delivery->response_headers.len + delivery->response_body.len, 0);
    }
    assert_int_equal(delivery->sends == 0, sent == TASK_SENT_NO);
    assert_int_equal(delivery->started_at_ms, RIG_WALL_MS);
    assert_int_equal(delivery->ended_at_ms, RIG_WALL_MS);
}
