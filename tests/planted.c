/* SPDX-License-Identifier: MIT
 *
 * Which mistake a planted simulation makes: the one that DARUMA_PLANT names. See base/plant.h.
 */
#include "base/plant.h"

#include <stdlib.h>
#include <string.h>

bool plant_is(const char *name)
{
    static const char *planted; /* asked for often: looked up once */

    if (planted == NULL) {
        planted = getenv("DARUMA_PLANT");
        planted = planted != NULL ? planted : "";
    }
    return strcmp(planted, name) == 0;
}
