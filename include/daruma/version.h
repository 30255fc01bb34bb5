/* SPDX-License-Identifier: MIT */
#ifndef DARUMA_VERSION_H
#define DARUMA_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

#define DARUMA_VERSION "0.1.0" /* tools/lint holds it equal to meson.build */

const char *daruma_version(void); /* of the library that runs */

#ifdef __cplusplus
}
#endif
#endif
