/* SPDX-License-Identifier: MIT
 *
 * judge -- see judge.h. The policy itself is the library's: the server schedules with the same code
 * as daruma_retry.
 */
#include "task/judge.h"
#include "base/plant.h"

static bool is_success(const struct outcome *outcome)
{
    return outcome->sent == TASK_SENT_YES && outcome->status >= 200 && outcome->status < 300;
}

/* Answers that say "I did not do it", so that trying again cannot do it twice. */
static bool is_refusal(const struct outcome *outcome)
{
    switch (outcome->status) {
    case 401:
    case 403:
    case 407:
    case 408:
    case 425:
    case 429:
        return true;
    case 503:
        return outcome->has_hint;
    default:
        return outcome->status >= 300 && outcome->status < 500;
    }
}

static bool is_in_doubt(const struct judge_input *input)
{
    const struct outcome *outcome = input->outcome;

    if (input->repeatable || outcome->sent == TASK_SENT_NO) {
        return false;
    }
    PLANT(ONCE_RETRIED, return outcome->sent == TASK_SENT_MAYBE)
    return outcome->sent == TASK_SENT_MAYBE || !is_refusal(outcome);
}

static void end(struct judgement *judgement, enum task_state state, int64_t now_ms)
{
    struct life *life = &judgement->life;

    life->state = state;
    life->settled_at_ms = now_ms;
    life->wait_ms = 0;
    if (state == TASK_DEAD) {
        life->flags |= LIFE_LETTER;
        life->failed_at_ms = now_ms;
        life->failed_class = (uint32_t)judgement->error_class + 1;
    } else if ((life->flags & LIFE_LETTER) != 0) {
        life->resolved_at_ms = now_ms;
    }
}

/* What the library's core remembers is kept in the life. The lease has counted this attempt, and
 * the core is about to count it again. */
static struct daruma_policy_state state_of(const struct life *life)
{
    struct daruma_policy_state state = {
        .previous_ms = life->previous_ms,
        .deadline_ms = life->deadline_at_ms,
        .attempts = life->attempts > 0 ? life->attempts - 1 : 0,
    };

    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        state.class_attempts[i] = life->class_attempts[i];
    }
    return state;
}

static struct daruma_decision decide(const struct judge_input *input, enum daruma_class error_class,
                                     struct daruma_policy_state *ret_state)
{
    struct daruma_outcome failure = {.error_class = error_class,
                                     .hint_ms = input->outcome->hint_ms};

    *ret_state = state_of(input->life);
    return daruma_policy_next(input->policy, ret_state, &failure, input->now_ms, input->random);
}

static bool decides(struct daruma_decision one, struct daruma_decision other)
{
    bool goes_on = one.stop == DARUMA_STOP_NONE, other_goes_on = other.stop == DARUMA_STOP_NONE;

    return goes_on != other_goes_on ? goes_on : goes_on && one.wait_ms > other.wait_ms;
}

static void follow_policy(const struct judge_input *input, struct judgement *judgement)
{
    struct daruma_policy_state state, other_state;
    struct daruma_decision decision = decide(input, input->outcome->error_class, &state);
    struct life *life = &judgement->life;

    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        if ((input->outcome->also_classes & 1u << i) == 0) {
            continue;
        }
        struct daruma_decision other = decide(input, (enum daruma_class)i, &other_state);
        if (decides(other, decision)) {
            decision = other;
            state = other_state;
            judgement->error_class = (enum daruma_class)i;
        }
    }
    life->previous_ms = state.previous_ms;
    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        life->class_attempts[i] = state.class_attempts[i];
    }
    judgement->stop = decision.stop;
    if (decision.stop != DARUMA_STOP_NONE) {
        if (decision.stop == DARUMA_STOP_DEADLINE) {
            judgement->error_class = DARUMA_CLASS_EXPIRED; /* told now, not when it is over */
        }
        end(judgement, TASK_DEAD, input->now_ms);
        return;
    }
    life->state = TASK_WAITING;
    life->failed_class = (uint32_t)judgement->error_class + 1;
    life->wait_ms = (int64_t)decision.wait_ms;
    life->due_at_ms = input->now_ms + life->wait_ms;
}

void judge_attempt(const struct judge_input *input, struct judgement *ret_judgement)
{
    struct judgement judgement = {.life = *input->life, .error_class = input->outcome->error_class};

    judgement.life.flags &= ~(uint32_t)LIFE_FORCED;
    judgement.life.flags |= input->outcome->sent != TASK_SENT_NO ? LIFE_SENT : 0;
    if (is_success(input->outcome)) {
        judgement.succeeded = true;
        judgement.stop = DARUMA_STOP_SUCCESS;
        end(&judgement, TASK_SUCCEEDED, input->now_ms);
    } else if (is_in_doubt(input)) {
        judgement.life.state = TASK_UNSETTLED;
        judgement.life.wait_ms = 0;
        judgement.life.failed_class = (uint32_t)judgement.error_class + 1;
    } else {
        follow_policy(input, &judgement);
    }
    *ret_judgement = judgement;
}

void judge_put_off(const struct judge_input *input, struct judgement *ret_judgement)
{
    struct judgement judgement = {.life = *input->life, .error_class = input->outcome->error_class};
    struct life *life = &judgement.life;
    int64_t wait_ms = input->outcome->hint_ms;

    life->flags &= ~(uint32_t)LIFE_FORCED;
    if (life->deadline_at_ms != 0 && input->now_ms + wait_ms >= life->deadline_at_ms) {
        judge_expire(life, input->now_ms, ret_judgement);
        return;
    }
    life->state = TASK_WAITING;
    life->wait_ms = wait_ms;
    life->due_at_ms = input->now_ms + wait_ms;
    *ret_judgement = judgement;
}

bool judge_is_expired(const struct life *life, int64_t now_ms)
{
    return life->deadline_at_ms != 0 && now_ms >= life->deadline_at_ms;
}

void judge_expire(const struct life *life, int64_t now_ms, struct judgement *ret_judgement)
{
    struct judgement judgement = {
        .life = *life, .error_class = DARUMA_CLASS_EXPIRED, .stop = DARUMA_STOP_DEADLINE};

    end(&judgement, TASK_DEAD, now_ms);
    *ret_judgement = judgement;
}
