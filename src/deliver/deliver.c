/* SPDX-License-Identifier: MIT
 *
 * deliver -- see deliver.h.
 */
#include "deliver/deliver.h"

#include <stdlib.h>

int deliver_send(struct deliver *deliver, struct delivery *delivery, struct error *err)
{
    return deliver->ops->send(deliver, delivery, err);
}

void deliver_cancel(struct deliver *deliver, struct delivery *delivery)
{
    deliver->ops->cancel(deliver, delivery);
}

void deliver_close(struct deliver *deliver)
{
    if (deliver != NULL) {
        deliver->ops->close(deliver);
    }
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
