/* SPDX-License-Identifier: MIT
 *
 * route_judge -- see route_judge.h.
 */
#include "task/route_judge.h"
#include "base/plant.h"

/* The rows of the table. */
enum row {
    ROW_DONE,
    ROW_RELEASED,
    ROW_CLIENT_ERROR,
    ROW_REFUSED,
    ROW_SERVER_ERROR,
    ROW_IN_DOUBT,
    ROW_NOT_SENT,
};

static const enum route_verdict table[][3] = {
    /* by enum route_replay: all, settled, success */
    [ROW_DONE] = {ROUTE_KEEP_SUCCESS, ROUTE_KEEP_SUCCESS, ROUTE_KEEP_SUCCESS},
    [ROW_RELEASED] = {ROUTE_RELEASE, ROUTE_RELEASE, ROUTE_RELEASE},
    [ROW_CLIENT_ERROR] = {ROUTE_KEEP_FAILURE, ROUTE_KEEP_FAILURE, ROUTE_RELEASE},
    [ROW_REFUSED] = {ROUTE_KEEP_FAILURE, ROUTE_KEEP_FAILURE, ROUTE_RELEASE},
    [ROW_SERVER_ERROR] = {ROUTE_KEEP_FAILURE, ROUTE_UNSETTLED, ROUTE_UNSETTLED},
    [ROW_IN_DOUBT] = {ROUTE_UNSETTLED, ROUTE_UNSETTLED, ROUTE_UNSETTLED},
    [ROW_NOT_SENT] = {ROUTE_NOT_SENT, ROUTE_NOT_SENT, ROUTE_NOT_SENT},
};

static bool is_released(const struct route_settings *route, const struct outcome *outcome)
{
    for (size_t i = 0; i < route->release_count; i++) {
        if (route->release[i].status == outcome->status &&
            (!route->release[i].needs_hint || outcome->has_hint)) {
            return true;
        }
    }
    return false;
}

static enum row row_of(const struct route_settings *route, const struct outcome *outcome,
                       bool is_unframed)
{
    if (outcome->sent == TASK_SENT_NO) {
        return ROW_NOT_SENT;
    }
    if (outcome->sent == TASK_SENT_MAYBE || outcome->status < 200 ||
        (is_unframed && route->unframed == ROUTE_UNFRAMED_DOUBT)) {
        return ROW_IN_DOUBT;
    }
    if (outcome->status < 400) {
        return ROW_DONE;
    }
    if (is_released(route, outcome)) {
        return ROW_RELEASED;
    }
    if (outcome->status < 500) {
        return ROW_CLIENT_ERROR;
    }
    return outcome->status == 503 && outcome->has_hint ? ROW_REFUSED : ROW_SERVER_ERROR;
}

enum route_verdict route_verdict(const struct route_settings *route, const struct outcome *outcome,
                                 bool is_unframed)
{
    return table[row_of(route, outcome, is_unframed)][route->replay];
}

/* --- what is written ------------------------------------------------------------------------------- */

static void end(struct judgement *judgement, enum task_state state, int64_t now_ms)
{
    struct life *life = &judgement->life;

    life->state = state;
    life->settled_at_ms = now_ms;
    life->wait_ms = 0;
    life->probe_due_ms = 0;
    life->flags |= LIFE_ANSWERED;
    life->failed_class = state == TASK_SUCCEEDED ? 0 : (uint32_t)judgement->error_class + 1;
}

static void keep(const struct route_settings *route, struct judgement *judgement,
                 enum task_state state, int64_t now_ms)
{
    end(judgement, state, now_ms);
    judgement->life.keep_until_ms = now_ms + route->keep_ms;
}

static void leave_unsettled(const struct route_settings *route, struct judgement *judgement,
                            int64_t now_ms)
{
    struct life *life = &judgement->life;

    life->state = TASK_UNSETTLED;
    life->wait_ms = 0;
    life->failed_class = (uint32_t)judgement->error_class + 1;
    life->probe_count = 0;
    life->probe_due_ms =
        route->ambiguous == ROUTE_AMBIGUOUS_PROBE ? now_ms + route->probe.every_ms : 0;
    PLANT(PROBE_SKIPPED, life->state = life->probe_due_ms != 0 ? TASK_WAITING : life->state,
          life->due_at_ms = now_ms)
}

/* By the policy, as if it had not been sent: again later, or no more. */
static bool try_again(const struct route_judge_input *input, struct judgement *judgement)
{
    struct outcome outcome = *input->attempt.outcome;
    struct judge_input attempt = input->attempt;
    struct judgement again;

    outcome.sent = TASK_SENT_NO;
    attempt.outcome = &outcome;
    attempt.policy = &input->route->policy;
    attempt.repeatable = true;
    judge_attempt(&attempt, &again);
    if (again.life.state != TASK_WAITING) {
        return false;
    }
    again.life.flags |= judgement->life.flags & LIFE_SENT;
    *judgement = again;
    return true;
}

static void judge_not_sent(const struct route_judge_input *input, struct judgement *judgement,
                           bool *ret_releases)
{
    const struct route_settings *route = input->route;
    int64_t now_ms = input->attempt.now_ms;

    if (route->not_sent == ROUTE_NOT_SENT_RETRY && try_again(input, judgement)) {
        return;
    }
    if (route->not_sent == ROUTE_NOT_SENT_FAIL) {
        keep(route, judgement, TASK_FAILED, now_ms);
        return;
    }
    end(judgement, TASK_FAILED, now_ms);
    *ret_releases = true;
}

/* Both have to agree: the route as it is now, and the word under which the attempt was sent. A route
 * that was changed while the process was away says nothing about what was under way then. */
static bool may_be_repeated(const struct route_judge_input *input)
{
    return input->route->ambiguous == ROUTE_AMBIGUOUS_RETRY &&
           (input->attempt.life->flags & LIFE_ONCE) == 0;
}

enum route_verdict route_judge(const struct route_judge_input *input,
                               struct judgement *ret_judgement, bool *ret_releases)
{
    const struct route_settings *route = input->route;
    const struct outcome *outcome = input->attempt.outcome;
    int64_t now_ms = input->attempt.now_ms;
    struct judgement judgement = {.life = *input->attempt.life,
                                  .error_class = outcome->error_class};
    enum route_verdict verdict = route_verdict(route, outcome, input->is_unframed);

    judgement.life.flags &= ~(uint32_t)LIFE_FORCED;
    judgement.life.flags |= outcome->sent != TASK_SENT_NO ? LIFE_SENT : 0;
    *ret_releases = verdict == ROUTE_RELEASE;
    switch (verdict) {
    case ROUTE_KEEP_SUCCESS:
        judgement.succeeded = true;
        judgement.stop = DARUMA_STOP_SUCCESS;
        keep(route, &judgement, TASK_SUCCEEDED, now_ms);
        break;
    case ROUTE_KEEP_FAILURE:
        keep(route, &judgement, TASK_FAILED, now_ms);
        break;
    case ROUTE_RELEASE:
        end(&judgement, TASK_FAILED, now_ms);
        break;
    case ROUTE_UNSETTLED:
        if (!may_be_repeated(input) || !try_again(input, &judgement)) {
            leave_unsettled(route, &judgement, now_ms);
        }
        break;
    case ROUTE_NOT_SENT:
        judge_not_sent(input, &judgement, ret_releases);
        break;
    }
    *ret_judgement = judgement;
    return verdict;
}

void route_judge_expire(const struct life *life, int64_t now_ms, struct judgement *ret_judgement)
{
    struct judgement judgement = {
        .life = *life, .error_class = DARUMA_CLASS_EXPIRED, .stop = DARUMA_STOP_DEADLINE};

    end(&judgement, TASK_FAILED, now_ms);
    *ret_judgement = judgement;
}

/* --- probes ---------------------------------------------------------------------------------------- */

/* Nobody has it by now, and nobody will: what follows is the route's word, as often as its policy
 * allows (I6). */
static void not_done(const struct route_settings *route, struct life *life, int64_t now_ms)
{
    bool has_attempts = life->attempts < route->policy.attempts_max;

    life->probe_due_ms = 0;
    if (route->probe.on_missing == ROUTE_MISSING_SEND && has_attempts) {
        life->state = TASK_WAITING;
        life->due_at_ms = now_ms;
        life->deadline_at_ms = now_ms + route->deadline_ms;
        life->probe_count = 0;
        return;
    }
    life->state = TASK_FAILED;
    life->settled_at_ms = now_ms;
    life->flags |= LIFE_ANSWERED;
}

enum route_probed route_judge_probe(const struct route_settings *route,
                                    const struct outcome *outcome, const struct life *life,
                                    int64_t since_ms, int64_t now_ms, struct life *ret_life)
{
    const struct route_probe *probe = &route->probe;
    bool is_whole = outcome->sent == TASK_SENT_YES;
    int64_t due_from_ms =
        since_ms + probe->settle_after_ms * (life->probe_count + 1) / probe->misses;

    *ret_life = *life;
    if (is_whole && outcome->status >= 200 && outcome->status < 300) {
        struct judgement judgement = {.life = *life};
        keep(route, &judgement, TASK_SUCCEEDED, now_ms);
        *ret_life = judgement.life;
        return ROUTE_PROBE_FOUND;
    }
    ret_life->probe_due_ms = now_ms + probe->every_ms;
    if (!is_whole || outcome->status != 404 || now_ms < due_from_ms) {
        return ROUTE_PROBE_AGAIN; /* it cannot say, or it is too early to say no */
    }
    ret_life->probe_count++;
    PLANT(MISSES_IGNORED, ret_life->probe_count = probe->misses)
    if (ret_life->probe_count < probe->misses) {
        return ROUTE_PROBE_AGAIN;
    }
    not_done(route, ret_life, now_ms);
    return ROUTE_PROBE_NOT_DONE;
}
