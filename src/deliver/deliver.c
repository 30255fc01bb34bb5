/* SPDX-License-Identifier: MIT
 *
 * deliver -- see deliver.h.
 */
#include "deliver/deliver.h"
#include "base/plant.h"

#include <stdlib.h>

int deliver_send(struct deliver *deliver, struct delivery *delivery, struct error *err)
{
    return deliver->ops->send(deliver, delivery, err);
}

void deliver_cancel(struct deliver *deliver, struct delivery *delivery)
{
    deliver->ops->cancel(deliver, delivery);
}

void deliver_pull(struct deliver *deliver, struct delivery *delivery)
{
    deliver->ops->pull(deliver, delivery);
}

void deliver_close(struct deliver *deliver)
{
    if (deliver != NULL) {
        deliver->ops->close(deliver);
    }
}

int delivery_sign(struct delivery *delivery, const struct target *target, struct arena *arena)
{
    struct signing_key *keys;

    if (target->sign_count == 0) {
        return 0;
    }
    arena_hold_secrets(arena);
    keys = arena_alloc(arena, target->sign_count * sizeof *keys);
    if (keys == NULL) {
        return FAULT_MEMORY;
    }
    for (size_t i = 0; i < target->sign_count; i++) {
        keys[i].key = arena_copy(arena, target->sign[i].key);
        if (keys[i].key.at == NULL) {
            return FAULT_MEMORY;
        }
    }
    delivery->sign = keys;
    delivery->sign_count = target->sign_count;
    return 0;
}

bool delivery_has_right(const struct delivery *delivery, int64_t mono_ms)
{
    const struct send_right *right = delivery->right;

    PLANT(RIGHT_RENEWED, return right == NULL || mono_ms < right->until_ms)

    return right == NULL || (right->epoch == delivery->right_epoch && mono_ms < right->until_ms);
}

void delivery_done(struct delivery *delivery)
{
    if (delivery != NULL) {
        buf_done(&delivery->response_headers);
        buf_done(&delivery->response_body);
        free(delivery->legs);
        delivery->legs = NULL;
    }
}
