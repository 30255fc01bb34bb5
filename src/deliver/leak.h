/* SPDX-License-Identifier: MIT
 *
 * leak -- whether bytes that a provider sent repeat a secret that was sent to it: an echo, a proxy
 * that explains too much, a wrong URL. Nothing of such an answer is kept or shown (I10).
 *
 * Looked for are the provider's keys and those of its header fields whose names say that they are
 * secret (task/secrets.h), in any case of letters, as they stand and behind the escapes of JSON. The
 * first LEAK_SHOWN_MAX bytes of a secret are enough: the beginnings of keys that every customer has are
 * shorter. What has fewer than LEAK_LEAST bytes is no secret but a word, which servers that want no key
 * are given, and which an article may well contain.
 *
 * Pure: any bytes, any length.
 */
#ifndef DELIVER_LEAK_H
#define DELIVER_LEAK_H

#include "task/fallback.h"

#define LEAK_SHOWN_MAX 20
#define LEAK_LEAST     12

bool leak_in(const struct provider_settings *settings, struct span bytes);

#endif
