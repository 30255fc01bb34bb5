/* SPDX-License-Identifier: MIT
 *
 * client -- asks a server, on libcurl. One call, one answer, read whole; redirects are not followed
 * and proxies of the environment not used, since the token goes along; a call that changes something
 * is never sent twice.
 *
 * These functions speak: when one does not return CLI_DONE, what went wrong and what to do about it
 * has been said on stderr (explain.h), and what it returns is how the program ends: CLI_UNREACHABLE
 * when no answer came, CLI_FAILED else. The token is never shown.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "base/auto.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "cli/flags.h"

#include <jansson.h>

#define CLIENT_SERVER           "http://127.0.0.1:8700"
#define CLIENT_ANSWER_BYTES_MAX (128u << 20) /* twice what a server's largest answer has */
#define CLIENT_CONNECT_TIME_MS  5000
#define CLIENT_ANSWER_TIME_MS   30000
#define CLIENT_PATIENCE_MS      30000 /* no Retry-After is waited for that is longer */
#define CLIENT_PATH_MAX         4096
#define CLIENT_FAILURE_MAX      256
#define CLIENT_PACE_FIRST_MS    50 /* between two looks at something that is under way */
#define CLIENT_PACE_MAX_MS      1000

struct client; /* opaque */

struct client_request {
    const char *method; /* GET, POST, PUT or DELETE */
    struct span path;   /* begins with a slash; its query and escapes are in it */
    struct span body;   /* JSON; empty: none */
    int64_t wait_ms;    /* how long the server may take, beside CLIENT_ANSWER_TIME_MS */
    const char *unsure; /* what to do when it may have been carried out; NULL: nothing special */
    int64_t
        patience_ms; /* with a server that is away: client_ask_patiently; 0: CLIENT_PATIENCE_MS */
};

/* Why no answer came, as far as people can do something about it. */
enum client_silence {
    CLIENT_SILENCE_OTHER = 0,
    CLIENT_SILENCE_DISTRUST, /* the server's certificate */
    CLIENT_SILENCE_CA,       /* DARUMA_CA cannot be read */
    CLIENT_SILENCE_TLS,      /* it speaks no TLS, or none that we do */
    CLIENT_SILENCE_EMPTY,    /* it has closed the connection without a word */
};

/* Zeroed before its first use; each call replaces what is in it. */
struct client_answer {
    int status;       /* 0: none came */
    struct buf text;  /* as it came */
    json_t *document; /* NULL: not JSON */
    int64_t retry_after_ms;
    bool is_sent;                     /* the request may have arrived */
    char failure[CLIENT_FAILURE_MAX]; /* why no answer came, in libcurl's words */
    enum client_silence silence;
};

int client_open(const struct flags_form *form, const struct flags *flags,
                struct client **ret_client) __attribute__((warn_unused_result));
void client_close(struct client *client); /* NULL is fine */
void client_answer_done(struct client_answer *answer);

/* CLI_DONE: answer->document is the object that came with a 2xx. Otherwise see above; with --json a
 * problem that the server described has been printed on stdout as well. */
int client_ask(struct client *client, const struct client_request *request,
               struct client_answer *answer) __attribute__((warn_unused_result));

/* The same for a GET while something is waited for: a server that does not answer, or is too busy,
 * is asked again for CLIENT_PATIENCE_MS, with the library's default backoff, before that is said. */
int client_ask_patiently(struct client *client, const struct client_request *request,
                         struct client_answer *answer) __attribute__((warn_unused_result));

/* For what may well not be there: true when it is. Says nothing either way. */
bool client_look(struct client *client, const struct client_request *request,
                 struct client_answer *answer) __attribute__((warn_unused_result));

/* --- lists ------------------------------------------------------------------------------------ */

struct client_page {
    const json_t *rows; /* an array */
    struct span text;   /* the same as it came */
    const char *next;   /* the cursor; NULL: this is the last page */
};

enum client_walk { CLIENT_GO_ON = 0, CLIENT_ENOUGH, CLIENT_GIVE_UP };
typedef enum client_walk (*client_page_fn)(void *user, const struct client_page *page);

struct client_list {
    struct span path;   /* with its query, if there is one */
    const char *member; /* "tasks" */
    client_page_fn each;
    void *user;
};

/* Page by page, until `each` has had enough (CLI_DONE), gives up (CLI_FAILED: it has said why), or
 * there are no more. */
int client_walk(struct client *client, const struct client_list *list)
    __attribute__((warn_unused_result));

/* --- small things ----------------------------------------------------------------------------- */

/* Adds the text with everything escaped that means something in a path or a query. */
int client_escape(struct buf *path, struct span text) __attribute__((warn_unused_result));

/* A member of an object: the text of a string, "" without one. */
struct span client_text(const json_t *object, const char *name);
int64_t client_number(const json_t *object, const char *name); /* 0 without one */

/* Waits between two looks; *pace_ms begins at 0 and grows. */
void client_pace(int64_t *pace_ms);

AUTO_POINTER(struct client, client_close)

#endif
