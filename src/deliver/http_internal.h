/* SPDX-License-Identifier: MIT
 *
 * http_internal -- shared only among deliver/http*.c: one transfer on its way through them.
 *
 *   send (http.c) -> http_request_prepare -> libcurl, driven by http_socket.c
 *        -> http_hop_may_connect for each address it tries
 *        -> the gate (http_request.c) each time the request goes out: http_connection.c says whether
 *           the connection is fit for it
 *        -> http_answer_* as the answer comes in
 *   libcurl is through: http_hop_next leads on to where a redirect points, from prepare again; else,
 *   or on cancel -> http_outcome_fill -> ended, and from the loop: done
 */
#ifndef DELIVER_HTTP_INTERNAL_H
#define DELIVER_HTTP_INTERNAL_H

#include "deliver/http.h"
#include "loop/loop.h"

#include <curl/curl.h>
#include <sys/socket.h>
#include <netinet/in.h>

#define HTTP_CONNECTION_BUCKETS 1024
#define HTTP_LINES_KEPT_MAX     16384 /* libcurl keeps lines with a handle: of more, none are kept */

/* Why we ended a transfer ourselves; the first reason stands. */
enum ending {
    ENDING_NONE,
    ENDING_LATE,     /* send_until_ms had passed at the gate */
    ENDING_DISOWNED, /* the right to send was over there */
    ENDING_REPEAT,   /* libcurl was about to send what must not be sent twice */
    ENDING_CANCELLED,
    ENDING_UNWATCHED, /* its socket could not be watched */
    ENDING_REFUSED,   /* the connection is to an address that it may not go to */
    ENDING_SPOILT,    /* the kept connection was not fit for it: it begins again on a new one */
    ENDING_LINES,     /* too many bytes of header lines */
    ENDING_MALFORMED, /* its length can be read in two ways, or it speaks another protocol */
    ENDING_FOLD,      /* it begins with a folded line */
    ENDING_FRAMING,   /* too many that are neither header nor body */
    ENDING_EARLY,     /* the target spoke on a new connection before it was asked */
    ENDING_UNNAMED,   /* its name could not be looked up: too many are */
};

/* What of an answer has come. 1xx answers go round: FIELDS -> STATUS. */
enum answer_part { ANSWER_STATUS, ANSWER_FIELDS, ANSWER_BODY };

struct answer_state {
    enum answer_part part;
    int status;
    size_t body_bytes;                     /* seen, kept or not */
    bool has_length, is_chunked, is_coded; /* the last: has a Transfer-Encoding */
    bool is_recoded; /* some coding in it is not the obsolete `identity`, which is none */
    bool is_counted; /* libcurl does not go by its length: we do */
    int64_t length;
    bool is_of_another;  /* version than its connection */
    bool is_misframed;   /* its lengths are no number, or not the same */
    bool is_last_kept;   /* the latest field was kept: what a folded line goes on with */
    bool is_fields_cut;  /* some did not fit */
    bool is_trailer_cut; /* trailers did not end: the answer before them is whole */
    uint32_t field_count;
    int body_fault; /* why the body is not kept; 0: it is */
};

/* What it took: http_cost.c. */
struct answer_cost {
    size_t line_bytes; /* of all headers and trailers of the delivery */
    uint32_t line_count;
    size_t trailer_bytes; /* of these, behind the body */
    size_t body_bytes;    /* as they came, with their framing and trailers */
    size_t run_bytes;     /* of these, in the latest run of libcurl */
    uint64_t run;         /* which one that was */
};

/* The request at hand: the delivery's own, or where a redirect has led to. */
struct hop {
    struct span url, method, body;
    uint32_t number;       /* 0: the delivery's own */
    uint32_t sends_before; /* of the delivery, when it began */
    bool is_elsewhere;     /* another origin than the delivery's: what may be secret stays behind */
    bool is_bare;          /* its body, and what spoke of it, were left behind */
    bool is_allowed;       /* outbound: by its name; else its address has to be */
    bool is_connecting;    /* to an address that it may go to */
    bool is_fresh;         /* it takes no connection that was kept */
};

/* The two ends of a connection, in libcurl's words. */
struct connection_ends {
    const char *local_ip, *remote_ip;
    int local_port, remote_port;
};

/* A connection's socket: http_socket.c watches it, http_connection.c knows what it is used for. */
struct socket_watch {
    struct http *http;
    struct loop_watch *watch;
    int fd;
    bool is_ours; /* made by http_socket_open */
    bool is_kept; /* until http_socket_close */
    /* http_connection.c */
    struct socket_watch *next, **at; /* in transfer->opened, later in http->connections */
    struct connection_ends ends;     /* once a request has gone out on it; points into ips */
    char ips[2][INET6_ADDRSTRLEN];
    struct transfer *users; /* whose requests are on it */
    bool is_multiplexed;    /* HTTP/2 */
    bool is_spoilt;         /* something has come that no request had asked for */
};

/* What a transfer has to do with the look-up of its name: http_lookup.c. */
struct lookup {
    struct transfer *next, **at; /* among those that run, or those that wait; at NULL: in neither */
    bool is_placed;              /* it has a place: it runs, or is about to */
    bool is_running;             /* libcurl has a thread for it, */
    bool is_abandoned;           /* and its attempt is over */
    bool is_late;                /* it was found when there was no time left */
    bool is_waiting;             /* for a place */
    bool is_doubtful;            /* its name was not answered lately */
    uint64_t name, domain;       /* hashes */
    uint32_t sender;
    uint32_t place;  /* among those that have one */
    long timeout_ms; /* what was left when it began, */
    uint64_t run;    /* in which run of libcurl */
    /* The loop's time. */
    int64_t placed_at_ms, began_at_ms, due_at_ms;
    int64_t wait_until_ms; /* 0: it has not had to wait, at this hop */
    int64_t tried_at_ms;   /* which answer to others it was last to make use of */
};

struct transfer {
    struct http *http;
    struct delivery *delivery;
    struct hop hop;
    struct buf hop_url;  /* of a redirect */
    int64_t began_at_ms; /* monotonic */
    CURL *easy;          /* NULL between deliveries, where handles are not kept */
    /* http_option.c */
    bool is_set_up;       /* easy has what is the same for every delivery */
    bool is_altered;      /* and something that the next one would not set anew: a reset is due */
    uint32_t options_set; /* of those that every transfer sets */
    struct transfer *next, **at;  /* at: under way, in http->under_way */
    struct transfer *report_next; /* while libcurl's reports are read: see collect in http.c */
    CURLcode report;              /* likewise: how it ended */
    struct buf text;              /* URL, method and header lines, each with a NUL after it */
    CURLU *url;                   /* url_text, as libcurl reads it */
    struct buf url_text;          /* empty: url is not to be used */
    struct curl_slist *lines;     /* an array that points into text */
    size_t lines_room;
    char reason[CURL_ERROR_SIZE]; /* libcurl's words */
    char refusal[ERROR_TEXT_MAX]; /* ours: why it may not go there; empty: it may */
    enum ending ending;
    struct answer_state answer;
    bool has_field; /* libcurl has had one, in an interim answer perhaps, since it went out */

    /* http_shortage.c */
    int shortage;                    /* errno: what there was none of for it; 0: nothing */
    struct sockaddr_storage address; /* that was last connected to */
    socklen_t address_bytes;

    struct lookup lookup; /* http_lookup.c */

    /* http_cost.c */
    struct answer_cost cost;
    struct transfer *rest_next, **rest_at; /* in http->resting; at NULL: it is not */

    /* http_connection.c */
    struct socket_watch *opened;           /* made for it; on none of them a request has gone out */
    bool is_multiplexed;                   /* the connection that it has opened speaks HTTP/2 */
    struct socket_watch *socket;           /* that its request went out on; NULL: not known */
    struct transfer *user_next, **user_at; /* in socket->users */

    /* http_stream.c */
    struct transfer *stream_next, **stream_at; /* in http->streams */
    struct transfer *news_next, **news_at;     /* in http->news; at NULL: it is not */
    struct buf piece;                          /* waits to be pulled, but for: */
    size_t piece_told;                         /* bytes of it */
    size_t counted;                            /* bytes of the body so far, in options.room */
    bool is_streaming, is_head_told, is_pulled;
    bool is_paused; /* libcurl waits for us */
    bool has_ended; /* libcurl is through with it; what waits is still to be told */
};

struct http {
    struct deliver base;
    struct http_options options; /* with the defaults filled in */
    struct loop *loop;
    deliver_done_fn done;
    void *user;

    CURLM *multi;
    CURLSH *share;                 /* the TLS sessions of all handles, */
    CURLSH *share_addresses;       /* and of those to hosts that are addresses: http_names.c */
    bool keeps_handles;            /* they may be used for more than one transfer */
    struct loop_timer *timer;      /* libcurl's one */
    struct lookups *lookups;       /* http_lookup.c */
    struct loop_hook *finishing;   /* on while something has ended or must be */
    struct socket_watch **sockets; /* by file descriptor */
    size_t sockets_room;
    struct socket_watch *connections[HTTP_CONNECTION_BUCKETS]; /* by local port */

    struct transfer *under_way;
    int under_way_count;
    bool has_marked;                      /* some are to be ended by us: see http.c */
    uint64_t run;                         /* counts how often libcurl was run */
    struct transfer *resting;             /* they have had their part of a turn */
    struct transfer *ended, **ended_last; /* outcome known, to be told in the loop's own time */
    struct transfer *spare;
    uint32_t spare_count;
    struct {
        int64_t window;             /* of time; see http_kept.c */
        uint32_t most, most_before; /* under way at once, in it and in the one before */
        uint32_t connections;       /* what libcurl was told to keep */
    } kept;
    struct transfer *streams;           /* handed on as they come */
    struct transfer *news, **news_last; /* of these, the ones that there is something to tell of */
};

/* http_names.c. The last one for each transfer. */
int http_names_open(struct http *http, struct error *err) __attribute__((warn_unused_result));
void http_names_close(struct http *http);
CURLcode http_names_set(struct transfer *transfer) __attribute__((warn_unused_result));
/* The URL's host is an address, as URLs have it: in brackets, or with a last part that is a number. */
bool http_names_is_address(struct span url);

/* http_lookup.c. A handle's own options. */
CURLcode http_lookup_set(struct transfer *transfer) __attribute__((warn_unused_result));
int http_lookup_open(struct http *http, struct error *err) __attribute__((warn_unused_result));
void http_lookup_close(struct http *http);
/* It has an address to connect to. False: it goes no further; libcurl is to be told so. */
bool http_lookup_found(struct transfer *transfer);
void http_lookup_leave(struct transfer *transfer); /* it needs no look-up, or not any more */
/* libcurl is through with it; returns how it has ended. */
CURLcode http_lookup_end(struct transfer *transfer, CURLcode code);
/* Its attempt is over, and its look-up is not: the handle stays with libcurl. */
void http_lookup_abandon(struct transfer *transfer);
struct transfer *http_lookup_take_abandoned(struct http *http);
/* ENDING_UNNAMED. True: it waits for a place. False: it has waited for long enough. */
bool http_lookup_wait(struct transfer *transfer);
void http_lookup_stop_waiting(struct transfer *transfer); /* whether it does or not */
void http_lookup_serve(struct http *http);                /* those that wait; from the loop */
int64_t http_lookup_put_off_ms(struct transfer *transfer);
int http_lookup_beside(const struct http *http);

/* http_option.c. libcurl keeps an option until it is set again or the handle is reset. So that none
 * outlives the transfer that it was set for, every option is one of three kinds:
 *
 *   of the handle    set once, when the handle is set up, and never to another value
 *   of the transfer  set for every transfer before it begins; it may be changed while that one lasts
 *   any other        set for some transfers only, before they begin or later: the handle is reset
 *                    when it is given back
 *
 * The tables of the first two are in http_option.c; what is in neither is the third, and so is an
 * option of the handle that is set again. Options are set by HTTP_SET alone (`make lint` sees to it). */
#define HTTP_SET(transfer, option, value)                                                          \
    (http_option_note((transfer), (option)), curl_easy_setopt((transfer)->easy, (option), (value)))

/* False for a libcurl whose handles are safe only for one transfer: one with the mistake that stop_fold
 * in http_answer.c is about, and of which it is not known that this keeps it from harm. */
bool http_option_may_keep(void);

bool http_option_ready(struct transfer *transfer); /* there is a handle; false: no memory for one */
void http_option_note(struct transfer *transfer, CURLoption option);
void http_option_begin(struct transfer *transfer);         /* options of a transfer follow */
bool http_option_all_set(const struct transfer *transfer); /* every one of them was set */
void http_option_reset(struct transfer *transfer);         /* easy has no options */
void http_option_give_back(struct transfer *transfer);     /* none that its next use minds */

/* http_request.c: from delivery to libcurl's options. FAULT_INPUT: it is no request that could be
 * sent; err says why, without its values (I10). FAULT_IO: its `ca` is no file. */
int http_request_prepare(struct transfer *transfer, struct error *err)
    __attribute__((warn_unused_result));

bool http_is_plain(const struct transfer *transfer);     /* without TLS */
long http_timeout_ms(const struct delivery *delivery);   /* the one that holds */
long http_time_left_ms(const struct transfer *transfer); /* of it; 1 at least */

/* http_hop.c: may it go there, and where next? FAULT_INPUT: it may not. */
int http_hop_check(struct transfer *transfer, const char *url, struct error *err)
    __attribute__((warn_unused_result));
bool http_hop_may_connect(struct transfer *transfer, const struct curl_sockaddr *to);
/* The same of a connection that stands, perhaps opened for another delivery. */
bool http_hop_may_use(struct transfer *transfer, const char *remote_ip);
/* A whole answer has come. True: it leads on, and transfer->hop says where. False: it is the answer,
 * and transfer->refusal may say why it was not followed. */
bool http_hop_next(struct transfer *transfer);

/* http_answer.c: libcurl's callbacks; `user` is the transfer. */
void http_answer_begin(struct transfer *transfer);
size_t http_answer_field(char *bytes, size_t one, size_t len, void *user);
size_t http_answer_body(char *bytes, size_t one, size_t len, void *user);
/* How it has ended, where we go by its length. */
CURLcode http_answer_code(const struct transfer *transfer, CURLcode code);
int http_answer_log(CURL *easy, curl_infotype kind, char *bytes, size_t len, void *user);

/* http_cost.c: what an answer may cost. */
void http_cost_begin(struct transfer *transfer);
bool http_cost_line(struct transfer *transfer, size_t bytes); /* false: they are too many */
bool http_cost_is_high(const struct transfer *transfer); /* its handle has grown: not to be kept */
void http_cost_resume(struct http *http);                /* those that rest */
void http_cost_end(struct transfer *transfer);           /* it has ended, resting or not */
void http_cost_read(struct transfer *transfer, size_t bytes); /* of a body, framing and all */

/* http_outcome.c: what came of it, into the delivery. */
bool http_outcome_is_whole(const struct transfer *transfer, CURLcode code); /* an answer is */
void http_outcome_fill(struct transfer *transfer, CURLcode code);
void http_outcome_invalid(struct transfer *transfer, const char *why);

/* http_stream.c: answers that are handed on as they come. */
void http_stream_look(struct transfer *transfer);
void http_stream_note(struct transfer *transfer); /* there may be something to tell of it */
bool http_stream_take(struct transfer *transfer, struct span bytes, size_t *ret_taken);
struct transfer *http_stream_tell(struct http *http);
void http_stream_forget(struct transfer *transfer);
void http_stream_unbegin(struct transfer *transfer); /* it has ended before it was told of */
void http_stream_pull(struct deliver *deliver, struct delivery *delivery);
void http_stream_drop(struct transfer *transfer);
void http_stream_uncount(struct transfer *transfer); /* its body is no longer here */

/* http_socket.c: libcurl's sockets and its timer on the loop. */
int http_sockets_open(struct http *http, struct error *err) __attribute__((warn_unused_result));
void http_sockets_quiet(
    struct http *http); /* libcurl no longer reaches the loop, which may be gone */
void http_sockets_close(struct http *http); /* after the multi handle is gone */
curl_socket_t http_socket_open(void *user, curlsocktype purpose, struct curl_sockaddr *address);
int http_socket_close(void *user, curl_socket_t fd);

/* http_connection.c: is the connection that a request is about to go out on fit for it? */
enum connection_state {
    CONNECTION_CLEAN,
    CONNECTION_SPOILT, /* something waits on it that was not asked for, or it has ended */
    CONNECTION_EARLY,  /* the same on a new one */
};
enum connection_state http_connection_take(struct transfer *transfer,
                                           const struct connection_ends *ends);
void http_connection_release(struct transfer *transfer); /* libcurl is through with it */
void http_connection_opened(struct transfer *transfer, struct socket_watch *socket);
void http_connection_forget(struct socket_watch *socket);   /* it is about to be closed */
bool http_connection_is_stray(struct socket_watch *socket); /* what has come; it is dealt with */
/* Is the answer of HTTP/2 or later, and its connection is not? */
bool http_connection_is_other(const struct transfer *transfer, struct span status_line);
/* Of a request or an answer: does the field tell of a user whom the target knows the connection by (NTLM,
 * Negotiate)? Then no other request goes over it. */
bool http_connection_is_personal(struct span name, struct span value);
void http_connection_note(struct transfer *transfer, struct span text); /* libcurl's log */

/* http.c: libcurl is through with it, or is to be. Not from inside libcurl. */
void http_end(struct transfer *transfer, CURLcode code);
/* Begins it again, with libcurl, or ends it. Likewise. */
void http_go_on(struct transfer *transfer);
/* Lets libcurl read on. What it has put by is handed over at once, and if that fails it tells only who
 * asked it to go on: then the transfer is ended. */
void http_read_on(struct transfer *transfer);
/* Called after libcurl has run; `running` is what it says is still going on. */
void http_after_run(struct http *http, int running);

/* http_kept.c: what outlives its transfer. */
int http_kept_begin(struct http *http) __attribute__((warn_unused_result));
void http_kept_note(struct http *http, int64_t now_ms); /* one more is under way */
bool http_kept_has_room(const struct http *http);       /* for one more handle */

/* http_shortage.c */
void http_shortage_note(struct transfer *transfer, int number);
int http_shortage_of(struct transfer *transfer, CURLcode code);

#endif
