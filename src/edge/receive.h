/* SPDX-License-Identifier: MIT
 *
 * receive -- what libmicrohttpd calls. Shared inside edge/ only; listener.c passes these to it,
 * each with the listener as `user`.
 */
#ifndef EDGE_RECEIVE_H
#define EDGE_RECEIVE_H

#include "edge/edge_internal.h"

#include <microhttpd.h>

/* A connection begins or is gone. */
void receive_connection(void *user, struct MHD_Connection *mhd, void **socket_context,
                        enum MHD_ConnectionNotificationCode code);

/* The target as it came; what is returned is what receive_request finds in its `context`. */
void *receive_target(void *user, const char *target, struct MHD_Connection *mhd);

enum MHD_Result receive_request(void *user, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_len, void **context);

/* Answered, or broken off. */
void receive_completed(void *user, struct MHD_Connection *mhd, void **context,
                       enum MHD_RequestTerminationCode code);

#endif
