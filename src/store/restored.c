/* SPDX-License-Identifier: MIT
 *
 * restored -- see restored.h. Three numbers with a blank between them.
 */
#include "store/restored.h"

#include <inttypes.h>
#include <stdio.h>

void restored_render(const struct restored *restored, char ret_text[RESTORED_TEXT_MAX])
{
    (void)snprintf(ret_text, RESTORED_TEXT_MAX, "%" PRId64 " %" PRId64 " %" PRId64, restored->at_ms,
                   restored->backup_ms, restored->unknown_ms); /* fits */
}

bool restored_parse(struct span text, struct restored *ret_restored)
{
    struct restored restored;
    struct span rest = text, at, backup;

    if (!span_cut(&rest, ' ', &at) || !span_cut(&rest, ' ', &backup) ||
        !span_to_int(at, &restored.at_ms) || !span_to_int(backup, &restored.backup_ms) ||
        !span_to_int(rest, &restored.unknown_ms) || restored.at_ms <= 0) {
        return false;
    }
    *ret_restored = restored;
    return true;
}
