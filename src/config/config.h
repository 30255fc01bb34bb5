/* SPDX-License-Identifier: MIT
 *
 * config -- the configuration file as one checked struct. YAML is read, held against one table of
 * keys (keys.c), and what comes out needs no further checking; what is wrong is said with file,
 * line, column, the whole key, what was found and what was expected. The same table reads queues
 * and policies that arrive as JSON.
 *
 * Refused: what the table does not know, anchors and aliases (a small file must not become a large
 * one), tags, a second document. ${ENV} is replaced in values of the file ($$ is a dollar sign),
 * never in JSON. Secrets are given as env:NAME or file:PATH and are in no error text.
 *
 * Paths are as written: relative ones start at the working directory. Nothing is opened but the
 * file itself, file: secrets and, to see that they are there, files of authorities (`ca`): regular files, for a
 * pipe would be waited for. Plain values once made: any thread may read them.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/fault.h"
#include "task/fallback.h"
#include "task/outbound.h"
#include "task/queue.h"
#include "task/route.h"
#include "task/secrets.h"

#include <daruma/log.h>

/* --- limits of what is read ------------------------------------------------------------------ */

#define CONFIG_FILE_BYTES_MAX   1048576
#define CONFIG_JSON_BYTES_MAX   65536 /* of a queue or policy, as given and as written back */
#define CONFIG_NESTING_MAX      16
#define CONFIG_NODES_MAX        100000 /* values, lists and mappings of one file */
#define CONFIG_JSON_NODES_MAX   4096   /* likewise of JSON: more than the largest queue has */
#define CONFIG_QUEUES_MAX       1000
#define CONFIG_ROUTES_MAX       200
#define CONFIG_POLICIES_MAX     256
#define CONFIG_TOKENS_MAX       256
#define CONFIG_TOKEN_QUEUES_MAX 256 /* of one token */
#define CONFIG_ROLES_MAX        8
#define CONFIG_API_HOSTS_MAX    64
#define CONFIG_PROVIDERS_MAX    64
#define CONFIG_HOSTS_MAX        1000 /* of outbound.allow and of outbound.deny */
#define CONFIG_HEADERS_MAX      64   /* of one target */
#define CONFIG_TEXT_MAX         4096 /* bytes of a value: path, header value */
#define CONFIG_URL_MAX          2048
#define CONFIG_SECRET_BYTES_MAX 1024

/* --- defaults: what is not written ----------------------------------------------------------- */

#define CONFIG_STORE              "sqlite:var/daruma.db"
#define CONFIG_API_LISTEN         "127.0.0.1:8700"
#define CONFIG_GATEWAY_LISTEN     "127.0.0.1:8701"
#define CONFIG_THREADS            1
#define CONFIG_BODY_BYTES         1048576
#define CONFIG_BODIES_BYTES       (256 << 20)
#define CONFIG_RESPONSE_BYTES     1048576
#define CONFIG_CONNECTIONS        10000
#define CONFIG_ATTEMPTS           2048 /* or what descriptors and memory allow */
#define CONFIG_BACKLOG            10000000
#define CONFIG_HEADER_TIME_MS     10000
#define CONFIG_IDLE_TIME_MS       60000
#define CONFIG_NODE_LEASE_MS      10000
#define CONFIG_NODE_WRITERS       2
#define CONFIG_NODE_WRITERS_MAX   8
#define CONFIG_LISTS              64
#define CONFIG_WAITERS            1000 /* or half of the connections, where that is less */
#define CONFIG_KEEP_SUCCEEDED_MS  INT64_C(259200000)
#define CONFIG_KEEP_FAILED_MS     INT64_C(2592000000)
#define CONFIG_KEEP_CANCELLED_MS  INT64_C(86400000)
#define CONFIG_KEEP_TOMBSTONES_MS INT64_C(2592000000)
#define CONFIG_REDIRECTS          0
#define CONFIG_POLICY             "default" /* of a queue; queue.h has its other defaults */

/* What a header value is shown as. Refused as a value, so that what was shown cannot be put back by
 * mistake. */
#define CONFIG_HIDDEN SECRETS_HIDDEN

/* --- what is read: every span is followed by a NUL that does not count ------------------------ */

enum config_store_kind {
    CONFIG_STORE_MEMORY = 0,
    CONFIG_STORE_JSON,
    CONFIG_STORE_SQLITE,
    CONFIG_STORE_POSTGRES
};

struct config_store {
    enum config_store_kind kind;
    struct span path;  /* what stands behind the colon; empty for memory */
    struct span shown; /* the same for people: no user, password or parameters */
};

struct config_listen {
    struct span host; /* an IPv4 or IPv6 address, without brackets */
    uint16_t port;    /* 0: any free one */
    bool is_ipv6;
    bool is_loopback; /* no other machine can reach it */
};

enum config_role {
    CONFIG_ROLE_ADMIN = 0, /* all */
    CONFIG_ROLE_PRODUCER,  /* create, read own queues */
    CONFIG_ROLE_WORKER,    /* leases */
    CONFIG_ROLE_VIEWER,    /* read */
    CONFIG_ROLE_OPERATOR   /* read, and mend */
};

struct config_token {
    struct span name;
    enum config_role role;   /* as written; one of roles */
    enum config_role *roles; /* at least one */
    size_t role_count;
    struct span *queues; /* names and patterns (task/reach.h) that it is limited to */
    size_t queue_count;  /* 0: it is not */
    struct span secret;  /* see config_wipe_secrets */
};

struct config_tls {
    struct span cert; /* paths of PEM files; both empty: no TLS */
    struct span key;
};

struct config_api {
    struct config_listen listen;
    struct config_token *tokens; /* names and secrets differ; none only on a loopback address */
    size_t token_count;
    struct span *hosts; /* names and addresses, without brackets, that it is asked for by */
    size_t host_count;
    struct config_tls tls;
};

/* Opened only when there are routes, or pass. Any address: whose a request is, its route asks. */
struct config_gateway {
    struct config_listen listen;
    struct config_tls tls;
    bool is_written; /* in the file, whether anything needs it or not */
};

enum config_log_format {
    CONFIG_LOG_AUTO = 0, /* text on a terminal, else key=value */
    CONFIG_LOG_TEXT,
    CONFIG_LOG_KV,
    CONFIG_LOG_JSON
};

struct config_log {
    enum config_log_format format;
    enum daruma_log_level level;
    size_t buffer_bytes; /* of lines that are not written yet; then lines are lost */
};

struct config_limits {
    size_t body_bytes_max;     /* of a request that comes in */
    size_t response_bytes_max; /* of an answer that is kept */
    size_t bodies_bytes_max;   /* of all requests that are being read and answers being sent */
    uint32_t connections_max;
    uint32_t attempts_max;  /* at once, over all queues */
    bool is_attempts_given; /* in the file; else fewer where descriptors or memory are few */
    uint32_t backlog_max;   /* tasks that are not settled */
    int64_t header_time_ms;
    int64_t idle_time_ms;
    int64_t node_lease_ms; /* a node that is silent for so long is dead to its peers */
    uint32_t node_writers; /* connections of a node that write */
    uint32_t lists_max;    /* that are read at the same time, and as many bulk commands */
    uint32_t waiters_max;  /* below connections_max: long polls must not lock out health checks */
};

struct config_keep {
    int64_t succeeded_ms;
    int64_t failed_ms;
    int64_t cancelled_ms;
    int64_t tombstones_ms;
};

struct config_policy {
    struct span name;
    struct daruma_policy policy;
};

struct config {
    struct config_store store;
    struct config_api api;
    uint32_t threads;
    struct config_log log;
    struct config_limits limits;
    struct config_keep keep;
    struct outbound outbound;
    struct config_policy *policies; /* the built-in ones as well; names differ */
    size_t policy_count;
    struct provider_settings *providers; /* names differ; their keys stay until config_free */
    size_t provider_count;
    struct queue_settings *queues; /* names differ */
    size_t queue_count;
    struct config_gateway gateway;
    struct route_settings *routes; /* names differ; the first that matches counts */
    size_t route_count;
    struct span pass;    /* URL; empty: what matches no route is 404 */
    struct arena *arena; /* holds all of the above; private */
};

/* --- functions ------------------------------------------------------------------------------- */

/* Reads and checks a file. FAULT_INPUT: it is wrong; err->text is one line for people that begins
 * with file:line:column, err->field the key. FAULT_IO: it cannot be read. FAULT_MEMORY. */
int config_load(const char *path, struct config **ret_config, struct error *err)
    __attribute__((warn_unused_result));

/* The same with the text in hand; `name` stands for the file in errors. */
int config_parse(struct span text, const char *name, struct config **ret_config, struct error *err)
    __attribute__((warn_unused_result));

void config_free(struct config *config); /* NULL is fine; secrets are overwritten */

/* Overwrites the secrets of tokens, for the one who has hashed them; they are empty afterwards, and so are the
 * environment variables that hold one, which nothing else may be reading. */
void config_wipe_secrets(struct config *config);

/* A policy by name; NULL when there is none. config may be NULL: then a built-in one has to be made
 * with daruma_policy_named. */
const struct daruma_policy *config_policy_find(const struct config *config, struct span name);

/* A queue as JSON, in the shape of the file: what PUT /v1/queues/{name} gets and the store keeps. A
 * "name" in it is optional and has to be `name`. Policies may be named as in `config` (NULL: only
 * the built-in ones). What the settings point at is in `arena`, some 3 KiB for a small one, a
 * megabyte for the largest. FAULT_INPUT: err->field is the key
 * (targets[0].timeout), err->text what was found and what was expected. */
int config_parse_queue(struct span json, struct span name, const struct config *config,
                       struct arena *arena, struct queue_settings *ret_settings, struct error *err)
    __attribute__((warn_unused_result));

/* A policy as JSON, or its name as a JSON string: a task's `retry`. As above. */
int config_parse_policy(struct span json, const struct config *config, struct arena *arena,
                        struct daruma_policy *ret_policy, struct error *err)
    __attribute__((warn_unused_result));

/* The settings as JSON that config_parse_queue reads back to the same settings. The policy is
 * written out, so that it means the same wherever it is read. (A queue of the file may be larger
 * than CONFIG_JSON_BYTES_MAX, and then is not read back.) 0, or what buf_add says; the buf is then as
 * it was. */
int config_render_queue(const struct queue_settings *settings, struct buf *json)
    __attribute__((warn_unused_result));

/* The same for people: header values, and what secrets_add_url hides, are CONFIG_HIDDEN. Secrets are written as
 * env:NAME or file:PATH by both. */
int config_show_queue(const struct queue_settings *settings, struct buf *json)
    __attribute__((warn_unused_result));

AUTO_POINTER(struct config, config_free)

#endif
