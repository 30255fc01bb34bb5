/* SPDX-License-Identifier: MIT
 *
 * http -- deliveries over HTTP and HTTPS: libcurl's multi interface on the loop, connections kept
 * and used again. Everything here, `done` too, runs in the loop's thread.
 */
#ifndef DELIVER_HTTP_H
#define DELIVER_HTTP_H

#include "base/clock.h"
#include "base/room.h"
#include "deliver/deliver.h"
#include "task/outbound.h"

struct loop;

/* Where it may go is said by `outbound`, of which every URL, every redirect's URL and every address
 * that is about to be connected to is asked. What may not go comes back as class invalid, not sent;
 * `message` says by which rule. Proxies of the environment are not used.
 *
 * Redirects (301, 302, 303, 307, 308) are followed up to outbound->redirects_max, within the same
 * timeout, and only if the delivery is repeatable; each counts as a send. Method and body stay the
 * same, but 303 becomes a GET. To another origin go only header fields that say what the request is
 * (http_request.c has the list): no Authorization, no Cookie, nothing that was set up for the first.
 * A redirect that is not followed is the answer, and `message` says why.
 *
 * How far a request got is told by libcurl's prereq callback, which runs once before each time the
 * request is written (nothing else is exact; tests/test_deliver_http.c holds it):
 *
 *   sent no     it was not called: refused, not resolved, no TLS, too late, not a valid request
 *   sent maybe  it was, and no whole answer came: cut off, reset, timed out, cancelled
 *   sent yes    a whole final answer came, also one longer than response_max
 *
 * libcurl writes a request again when a connection that it had kept dies before the first byte of an
 * answer. That is refused at the same place unless the delivery is repeatable; there it is counted
 * in `sends`. No request goes out on a connection on which anything has come that no request had asked
 * for (http_connection.c): it is begun again on a new one, which is neither a send nor an attempt.
 * Connections idle for longer than HTTP_ONCE_IDLE_MAX_S are not used for deliveries that
 * are not repeatable, so that this stays rare.
 *
 * What goes out is the method, URL, header fields and body as given, and Host and Content-Length,
 * a User-Agent if there is none and nobody waits for the very answer, and the signature of a delivery
 * that is to be signed (sign.h). Fields that belong to the connection (Connection, Content-Length,
 * Transfer-Encoding, Expect, …) are left out: framing is ours. What is no request at
 * all (a method that is no token, a URL without http:// or https://, a field that is not clean,
 * HEAD with a body, CONNECT) comes back as class invalid, not sent.
 *
 * No more than lookups_max names are looked up at once, those that outlive their attempt included: libc
 * cannot be told to stop. Names that were not answered in the last minutes have half of these places, those
 * of one sender a quarter, of one domain an eighth, and so do those that take longer than two seconds; one sender has
 * no more than half of all, one domain a quarter. Who finds none waits for up to half of its time, two seconds at most, and then comes
 * back as is_unnamed: not sent, no attempt. Nor is it one where the file of `ca` cannot be read or has no
 * certificates: that is this machine's affair, and to be tried again after HTTP_AUTHORITY_AGAIN_MS.
 *
 * What comes back:
 * - the final answer's header fields (no 1xx, no trailers; invalid ones are dropped; folded lines
 *   are joined) up to HTTP_ANSWER_FIELDS_MAX bytes and HTTP_ANSWER_COUNT_MAX fields, what is past it
 *   dropped and said in `message`;
 * - the body as sent, undecoded, if it has at most response_max bytes. A longer one is not read on:
 *   status, fields and class stand, the body is empty, and `message` says "answer longer than N
 *   bytes, body not kept". The target has done its work; to call that a failure would only do it
 *   again. The same when there is no memory for it;
 * - an answer that ends with its connection, without length or chunks, is whole and is_unframed;
 * - for a delivery that is_proxied: an event stream, a body longer than response_max, or one that
 *   there is no room for beside all others, is handed on piece by piece (see deliver.h); its time-out
 *   is then one of silence;
 * - a header without end, or one interim answer after another, is no answer past
 *   HTTP_ANSWER_LINES_MAX ("answer_headers_too_large: …"), nor is a body that consists of chunk sizes
 *   and extensions past HTTP_ANSWER_FRAMING_MAX ("answer_framing_too_large: …"). Trailers without end
 *   are cut off: the answer before them is whole;
 * - without a whole answer: status 0, no fields, no body; a hint among its fields still counts.
 */

#define HTTP_TIMEOUT_MS         30000    /* of a delivery that says nothing */
#define HTTP_TIMEOUT_MAX_MS     86400000 /* a longer one is cut to this */
#define HTTP_AUTHORITY_AGAIN_MS 60000    /* what is to vouch for the target cannot be read */
#define HTTP_ONCE_IDLE_MAX_S    2
#define HTTP_NAME_KEPT_S        2   /* what a name stands for is asked again after this */
#define HTTP_LOOKUPS_MAX        128 /* names that are looked up at once; each has a thread */
#define HTTP_LOOKUP_FILES       4   /* and so many descriptors */
#define HTTP_IDLE_MAX_S         118 /* of any other: libcurl's own */
#define HTTP_ANSWER_FIELDS_MAX  65536
#define HTTP_ANSWER_COUNT_MAX   1024 /* header fields of an answer that are kept */
/* Status lines, header fields, also of interim answers, and trailers, kept or not, of one delivery. */
#define HTTP_ANSWER_LINES_MAX      (4 * HTTP_ANSWER_FIELDS_MAX)
#define HTTP_ANSWER_LINE_COUNT_MAX 4096
/* Chunk sizes and extensions of a body: this much, and so many times the body. */
#define HTTP_ANSWER_FRAMING_MAX   (256u << 10)
#define HTTP_ANSWER_FRAMING_TIMES 32
#define HTTP_REQUEST_FIELDS_MAX   256 /* header fields of a request; more is invalid */
/* What is kept at least for the next deliveries; more, where more were under way at once lately. */
#define HTTP_HANDLES_KEPT     256 /* libcurl handles */
#define HTTP_CONNECTIONS_KEPT 256 /* connections, to all targets together, those in use included */

/* Of the deliveries that have ended, so many are told in one turn of the loop; the others in the next. */
#define HTTP_TOLD_A_TURN 256

/* However fast a target sends, a transfer takes a small part of a turn of the loop (http_cost.c). */

/* Zeroed: the constants above. */
struct http_options {
    const struct clock *clock; /* NULL: clock_real. Must outlive the deliverer */
    const char *user_agent;    /* NULL: daruma/VERSION. Likewise */
    uint32_t handles_kept;
    uint32_t connections_kept;
    uint32_t lookups_max; /* names that are looked up at once: http_lookup.c */
    uint32_t *
        lookups_now; /* how many are, kept as it changes; NULL: not wanted. Must outlive the deliverer */
    uint32_t files_max; /* descriptors from this number on are not for connections; 0: all are */
    const struct outbound *outbound; /* NULL: anywhere, and no redirects. Likewise */
    deliver_stream_fn stream;        /* NULL: no answer is handed on as it comes */
    void *stream_user;
    struct room *room; /* NULL: for any number. Of answers that may be handed on. Likewise */
};

/* The first open makes libcurl ready and must not race with other users of libcurl. Closing it
 * drops what is still under way without calling `done`. */
int http_deliver_open(const struct http_options *options, struct loop *loop, deliver_done_fn done,
                      void *user, struct deliver **ret_deliver, struct error *err)
    __attribute__((warn_unused_result));

#endif
