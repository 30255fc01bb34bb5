/* SPDX-License-Identifier: MIT
 *
 * bookmark -- one piece of work: a saved bookmark is to be summarised by a language model (document
 * A, section 4: BookmarkProcessingMessage and processBookmarkWithLLM).
 */
#ifndef EXAMPLE_BOOKMARK_H
#define EXAMPLE_BOOKMARK_H

#include "call.h"

/* The document's fields. Texts live as long as the JSON that they were read from. */
struct bookmark {
    const char *bookmark_id;
    uint32_t attempt; /* from 1 */
    uint32_t max_attempts;
    struct {
        const char *url;
        const char *idempotency_key;
    } original_request;
};

/* From a leased task. Attempts are counted by the server, whatever the body says: it was written once,
 * before the first of them. ret_body owns the texts. False: this is no such work. */
bool bookmark_read(const json_t *task, struct bookmark *ret_bookmark, json_t **ret_body);

/* Asks the model; one try: the queue is what tries again. The summary is the caller's. */
int bookmark_summarize(struct caller *caller, const char *model_url,
                       const struct bookmark *bookmark, json_t **ret_summary,
                       struct daruma_error *ret_error);

#endif
