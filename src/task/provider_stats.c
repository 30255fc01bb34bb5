/* SPDX-License-Identifier: MIT
 *
 * provider_stats -- see provider_stats.h.
 */
#include "task/provider_stats.h"

const char *provider_trouble_text(enum provider_trouble trouble)
{
    static const char *const texts[PROVIDER_TROUBLE_COUNT] = {
        [PROVIDER_TROUBLE_NONE] = "none",       [PROVIDER_TROUBLE_KEY] = "key",
        [PROVIDER_TROUBLE_ACCOUNT] = "account", [PROVIDER_TROUBLE_MODEL] = "model",
        [PROVIDER_TROUBLE_ADDRESS] = "address", [PROVIDER_TROUBLE_SILENT] = "silent",
    };

    return texts[trouble];
}
