/* SPDX-License-Identifier: MIT
 *
 * openapi -- docs/openapi.json, built into the program by tools/embed.py.
 */
#ifndef CLI_OPENAPI_H
#define CLI_OPENAPI_H

#include <stddef.h>

extern const unsigned char openapi_json[];
extern const size_t openapi_json_len;

#endif
