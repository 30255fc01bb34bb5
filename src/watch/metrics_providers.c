/* SPDX-License-Identifier: MIT
 *
 * metrics_providers -- what is counted about AI providers, as Prometheus text. Names of providers are
 * the configuration's: letters, digits, - _ and . only.
 */
#include "watch/metrics_internal.h"

#include <inttypes.h>

static void add_failures(struct sheet *sheet, const struct provider_stats *stats, size_t count)
{
    sheet_head(sheet, "daruma_provider_failures_total", "counter",
               "Calls of a provider that failed, by class.");

    for (size_t i = 0; i < count; i++) {
        for (int error = 0; error < DARUMA_CLASS_COUNT; error++) {
            sheet_add(sheet,
                      "daruma_provider_failures_total{provider=\"%.*s\",class=\"%s\"} %" PRIu64
                      "\n",
                      SPAN_ARGS(stats[i].name), daruma_class_text((enum daruma_class)error),
                      stats[i].failures[error]);
        }
    }
}

static void add_tokens(struct sheet *sheet, const struct provider_stats *stats, size_t count)
{
    sheet_head(sheet, "daruma_provider_tokens_total", "counter",
               "Tokens, by what the provider says it has used.");

    for (size_t i = 0; i < count; i++) {
        sheet_add(sheet,
                  "daruma_provider_tokens_total{provider=\"%.*s\",direction=\"in\"} %" PRIu64 "\n"
                  "daruma_provider_tokens_total{provider=\"%.*s\",direction=\"out\"} %" PRIu64 "\n",
                  SPAN_ARGS(stats[i].name), stats[i].tokens_in, SPAN_ARGS(stats[i].name),
                  stats[i].tokens_out);
    }
}

static void add_keys(struct sheet *sheet, const struct provider_stats *stats, size_t count)
{
    sheet_head(sheet, "daruma_provider_keys", "gauge",
               "Keys of a provider: usable, resting after a limit, refused.");

    for (size_t i = 0; i < count; i++) {
        const struct {
            const char *state;
            uint32_t count;
        } rows[] = {{"usable", stats[i].keys - stats[i].keys_dead - stats[i].keys_resting},
                    {"resting", stats[i].keys_resting},
                    {"dead", stats[i].keys_dead}};
        for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
            sheet_add(sheet, "daruma_provider_keys{provider=\"%.*s\",state=\"%s\"} %" PRIu32 "\n",
                      SPAN_ARGS(stats[i].name), rows[row].state, rows[row].count);
        }
    }
}

static void add_troubles(struct sheet *sheet, const struct provider_stats *stats, size_t count)
{
    sheet_head(sheet, "daruma_provider_unusable", "gauge",
               "1: calls of a provider fail for a reason that retries do not mend.");
    for (size_t i = 0; i < count; i++) {
        for (int trouble = PROVIDER_TROUBLE_MODEL; trouble < PROVIDER_TROUBLE_COUNT; trouble++) {
            sheet_add(sheet, "daruma_provider_unusable{provider=\"%.*s\",reason=\"%s\"} %u\n",
                      SPAN_ARGS(stats[i].name),
                      provider_trouble_text((enum provider_trouble)trouble),
                      stats[i].troubles >> trouble & 1u);
        }
    }
}

/* One number for each provider. */
enum number { CALLS, SUCCEEDED, UNDER_WAY, COST, CLOSED };

static double number_of(const struct provider_stats *stats, enum number number)
{
    switch (number) {
    case CALLS:
        return (double)stats->calls;
    case SUCCEEDED:
        return (double)stats->succeeded;
    case UNDER_WAY:
        return (double)stats->calls_under_way;
    case COST:
        return stats->cost;
    case CLOSED:
    default:
        return (double)stats->closed_ms / 1000;
    }
}

void metrics_add_providers(struct sheet *sheet, const struct provider_stats *stats, size_t count)
{
    static const struct {
        const char *name, *kind, *help;
        enum number number;
    } rows[] = {
        {"daruma_provider_calls_total", "counter", "Calls of a provider begun.", CALLS},
        {"daruma_provider_succeeded_total", "counter", "Of them, those with a summary.", SUCCEEDED},
        {"daruma_provider_calls_under_way", "gauge", "Calls under way.", UNDER_WAY},
        {"daruma_provider_cost_total", "counter",
         "What the tokens cost by the configured price, in its currency.", COST},
        {"daruma_provider_closed_seconds", "gauge",
         "Until the provider may be called again; 0: it may.", CLOSED},
    };
    if (count == 0) {
        return;
    }
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        sheet_head(sheet, rows[row].name, rows[row].kind, rows[row].help);
        for (size_t i = 0; i < count; i++) {
            sheet_add(sheet, "%s{provider=\"%.*s\"} %.15g\n", rows[row].name,
                      SPAN_ARGS(stats[i].name), number_of(&stats[i], rows[row].number));
        }
    }
    add_failures(sheet, stats, count);
    add_tokens(sheet, stats, count);
    add_keys(sheet, stats, count);
    add_troubles(sheet, stats, count);
}
