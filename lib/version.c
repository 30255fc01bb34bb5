/* SPDX-License-Identifier: MIT */
#include <daruma/version.h>

const char *daruma_version(void)
{
    return DARUMA_VERSION;
}
