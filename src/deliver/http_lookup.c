/* SPDX-License-Identifier: MIT
 *
 * http_lookup -- how many names are being looked up at once. For each, libcurl has a thread and HTTP_LOOKUP_FILES
 * descriptors, until libc knows or gives up: that is up to the name's own servers, and may take far longer
 * than the attempt has. libcurl cannot stop such a thread. It would let go of it when the attempt ends,
 * and then it would be counted nowhere. So an attempt that is over leaves its handle with libcurl until the
 * look-up is over too:
 *
 *   on_lookup --> no place: http_lookup_wait --> http_lookup_serve, on from the beginning
 *       |                      '--> waited in vain: given back, it was no attempt (ENDING_UNNAMED)
 *       '--> running --> http_lookup_found: connect
 *               |------> libcurl reports: no such name
 *               '------> cancelled, or out of time: abandoned, told at once; goes no further when it is found
 *
 * Names that do not answer cannot take all places: one name has a few, names that have not been answered
 * lately have half of them together, a quarter those of one queue, an eighth those of one domain (the last
 * two labels). A look-up that takes longer than an answer should (QUICK_MS) counts as one of these, whatever was
 * answered before; and as nothing can be known of it until then, no queue has more than half of all
 * places and no domain more than a quarter.
 */
#include "deliver/http_internal.h"
#include "base/clock.h"
#include "base/entropy.h"
#include "base/siphash.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define A_NAME_MAX      4      /* look-ups of one name at once */
#define QUICK_MS        2000   /* a name that takes longer does not count as answered */
#define REMEMBERED_MS   600000 /* that it was */
#define CACHED_MS       1000   /* libcurl still has it: shorter than HTTP_NAME_KEPT_S */
#define WAIT_MAX_MS     2000   /* for a place; and half of the attempt's time at most */
#define PUT_OFF_MS      1000   /* what waited in vain is due again after this, */
#define PUT_OFF_STEP_MS 5      /* those of one queue one after the other, */
#define PUT_OFF_MAX_MS  60000
#define LATE_MS         2 /* before it is time: libcurl's own timer may have rung and be gone */

#define BUCKETS        1024
#define SETS           1024
#define WAYS           4
#define NAME_MAX_BYTES 256

struct answered {
    uint64_t name;
    int64_t at_ms; /* 0: none */
};

struct lookups {
    struct http *http;
    unsigned char secret[SIPHASH_SECRET_BYTES];
    struct loop_timer *timer;
    int64_t timer_at_ms; /* INT64_MAX: it is not set */
    struct transfer *running;
    struct transfer *waiting, **waiting_last; /* who came first, first */
    struct lookup *placed[HTTP_LOOKUPS_MAX];  /* in no order */
    uint32_t count;                           /* of them */
    int64_t put_off_until_ms[BUCKETS];        /* by queue */
    int waiting_count, abandoned_count;
    bool has_room; /* more than when those that wait were last looked at */
    struct answered answered[SETS][WAYS];
};

/* --- names ------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct lookups *lookups, struct span text)
{
    struct siphash hash;

    siphash_begin(&hash, lookups->secret);
    siphash_add(&hash, text);
    return siphash_end(&hash);
}

/* The last two labels. */
static struct span domain_of(struct span host)
{
    size_t at = host.len, dots = 0;

    while (at > 0 && dots < 2) {
        at--;
        dots += host.at[at] == '.' && at + 1 < host.len; /* a last dot is no label's */
    }
    return dots == 2 ? span_from(host, at + 1) : host;
}

/* With its port, as libcurl remembers it. */
static void read_name(const struct lookups *lookups, struct transfer *transfer)
{
    char text[NAME_MAX_BYTES];
    struct span rest = transfer->hop.url, scheme;
    size_t len = 0, host_len = 0;

    (void)span_cut(&rest, ':', &scheme); /* it was read as a URL before */
    rest = span_from(rest, rest.len < 2 ? rest.len : 2);
    while (len < rest.len && len < sizeof text && rest.at[len] != '/' && rest.at[len] != '?' &&
           rest.at[len] != '#') {
        char letter = rest.at[len];
        text[len] = letter >= 'A' && letter <= 'Z' ? (char)(letter | 0x20) : letter;
        len++;
        host_len = letter == ':' && host_len == 0 ? len - 1 : host_len;
    }
    struct span name = {.at = text, .len = len};
    struct span host = span_until(name, host_len > 0 ? host_len : len);
    transfer->lookup.name = hash_of(lookups, name);
    transfer->lookup.sender = transfer->delivery->sender;
    transfer->lookup.domain = hash_of(lookups, domain_of(host));
}

static int64_t answered_at_ms(const struct lookups *lookups, uint64_t name)
{
    const struct answered *set = lookups->answered[name % SETS];

    for (int i = 0; i < WAYS; i++) {
        if (set[i].name == name) {
            return set[i].at_ms;
        }
    }
    return 0;
}

/* at_ms 0: it was not answered. */
static void note(struct lookups *lookups, uint64_t name, int64_t at_ms)
{
    struct answered *set = lookups->answered[name % SETS], *place = &set[0];

    for (int i = 0; i < WAYS; i++) {
        if (set[i].name == name) {
            set[i].at_ms = at_ms;
            return;
        }
        place = set[i].at_ms < place->at_ms ? &set[i] : place;
    }
    if (at_ms != 0) {
        *place = (struct answered){.name = name, .at_ms = at_ms};
    }
}

/* --- places ------------------------------------------------------------------------------------------ */

struct tally {
    uint32_t all, slow; /* slow: not quickly answered though it was lately */
    uint32_t doubtful;  /* not answered lately, and the slow ones */
};

static void count_in(struct tally *tally, const struct lookup *lookup, int64_t now_ms)
{
    bool is_slow = !lookup->is_doubtful && now_ms - lookup->placed_at_ms > QUICK_MS;

    tally->all++;
    tally->slow += is_slow;
    tally->doubtful += is_slow || lookup->is_doubtful;
}

/* One that was answered lately is not held up by names that never were. */
static bool is_within(const struct tally *tally, const struct lookup *lookup, uint32_t most)
{
    return (lookup->is_doubtful ? tally->doubtful : tally->slow) < most;
}

/* Counted exactly: a domain that shared its count with one that hangs would wait for that one's servers. */
static bool has_share(const struct lookups *lookups, const struct lookup *lookup, int64_t now_ms)
{
    uint32_t most = lookups->http->options.lookups_max, of_name = 0;
    struct tally all = {0}, of_domain = {0}, of_sender = {0};

    for (uint32_t i = 0; i < lookups->count; i++) {
        const struct lookup *other = lookups->placed[i];
        of_name += other->name == lookup->name;
        count_in(&all, other, now_ms);
        if (other->domain == lookup->domain) {
            count_in(&of_domain, other, now_ms);
        }
        if (other->sender == lookup->sender) {
            count_in(&of_sender, other, now_ms);
        }
    }
    return of_name < A_NAME_MAX && of_domain.all < (most + 3) / 4 &&
           of_sender.all < (most + 1) / 2 && is_within(&of_domain, lookup, (most + 7) / 8) &&
           is_within(&of_sender, lookup, (most + 3) / 4) &&
           (!lookup->is_doubtful || all.doubtful < (most + 1) / 2);
}

static bool has_place_for(struct lookups *lookups, struct transfer *transfer, int64_t now_ms)
{
    struct lookup *lookup = &transfer->lookup;
    uint32_t most = lookups->http->options.lookups_max;
    int64_t at_ms = answered_at_ms(lookups, lookup->name);

    lookup->is_doubtful = at_ms == 0 || now_ms - at_ms > REMEMBERED_MS;
    return lookups->count < most && has_share(lookups, lookup, now_ms);
}

static void tell_count(const struct lookups *lookups)
{
    if (lookups->http->options.lookups_now != NULL) {
        *lookups->http->options.lookups_now = lookups->count;
    }
}

static void take_place(struct lookups *lookups, struct lookup *lookup)
{
    assert(!lookup->is_placed && lookups->count < HTTP_LOOKUPS_MAX);
    lookup->is_placed = true;
    lookup->place = lookups->count;
    lookups->placed[lookups->count++] = lookup;
    lookup->placed_at_ms = loop_now_ms(lookups->http->loop);
    tell_count(lookups);
}

static void leave_place(struct lookups *lookups, struct lookup *lookup)
{
    if (!lookup->is_placed) {
        return;
    }
    lookup->is_placed = false;
    lookups->count--;
    lookups->placed[lookup->place] = lookups->placed[lookups->count];
    lookups->placed[lookup->place]->place = lookup->place;
    tell_count(lookups);
    lookups->has_room = true;
    if (lookups->waiting != NULL) {
        loop_hook_on(lookups->http->finishing);
    }
}

static void link_at(struct transfer **at, struct transfer *transfer)
{
    transfer->lookup.next = *at;
    transfer->lookup.at = at;
    if (*at != NULL) {
        (*at)->lookup.at = &transfer->lookup.next;
    }
    *at = transfer;
}

static void unlink_from(struct transfer *transfer)
{
    struct lookup *lookup = &transfer->lookup;

    *lookup->at = lookup->next;
    if (lookup->next != NULL) {
        lookup->next->lookup.at = lookup->at;
    }
    lookup->at = NULL;
    lookup->next = NULL;
}

static void ring_at(struct lookups *lookups, int64_t at_ms)
{
    if (at_ms < lookups->timer_at_ms) {
        lookups->timer_at_ms = at_ms;
        loop_timer_set(lookups->timer, at_ms);
    }
}

/* --- one that runs ----------------------------------------------------------------------------------- */

/* libcurl is about to look a name up, of which it does not know what it stands for. From here on the
 * attempt's time is ours to watch. Not 0: it does not. */
static int on_lookup(void *resolver, void *reserved, void *user)
{
    struct transfer *transfer = user;
    struct lookup *lookup = &transfer->lookup;
    struct lookups *lookups = transfer->http->lookups;
    int64_t now_ms = loop_now_ms(transfer->http->loop);

    (void)resolver, (void)reserved;
    if (lookup->is_abandoned) {
        return 1; /* the URL is gone; libcurl looks no name up twice */
    }
    if (http_names_is_address(transfer->hop.url)) {
        return 0; /* that takes no thread */
    }
    read_name(lookups, transfer);
    if (!lookup->is_placed) {
        if (!has_place_for(lookups, transfer, now_ms)) {
            transfer->ending = ENDING_UNNAMED;
            return 1;
        }
        take_place(lookups, lookup);
    }
    lookup->is_running = true;
    lookup->timeout_ms = http_time_left_ms(transfer);
    lookup->began_at_ms = now_ms;
    lookup->run = transfer->http->run;
    lookup->due_at_ms = clock_mono_ms(&clock_real) + lookup->timeout_ms;
    link_at(&lookups->running, transfer);
    ring_at(lookups, lookup->due_at_ms);
    (void)HTTP_SET(transfer, CURLOPT_TIMEOUT_MS, 0L); /* neither can fail */
    (void)HTTP_SET(transfer, CURLOPT_CONNECTTIMEOUT_MS, (long)HTTP_TIMEOUT_MAX_MS);
    return 0;
}

CURLcode http_lookup_set(struct transfer *transfer)
{
    CURLcode code = HTTP_SET(transfer, CURLOPT_RESOLVER_START_FUNCTION, on_lookup);

    return code != CURLE_OK ? code : HTTP_SET(transfer, CURLOPT_RESOLVER_START_DATA, transfer);
}

static void stop_running(struct transfer *transfer)
{
    struct lookups *lookups = transfer->http->lookups;

    if (transfer->lookup.is_running) {
        transfer->lookup.is_running = false;
        lookups->abandoned_count -= transfer->lookup.is_abandoned;
        unlink_from(transfer);
    }
    leave_place(lookups, &transfer->lookup);
}

/* Is its time over, or so nearly that libcurl's timer for it may have rung while it had no time-out? Then
 * libcurl would not ring again. The loop's time is that of the turn: when the look-up began it was not later
 * than libcurl's. */
static bool is_late(const struct transfer *transfer)
{
    const struct lookup *lookup = &transfer->lookup;

    return lookup->run != transfer->http->run && /* libcurl's timers do not ring within a run */
           clock_mono_ms(&clock_real) + LATE_MS >= lookup->began_at_ms + lookup->timeout_ms;
}

bool http_lookup_found(struct transfer *transfer)
{
    struct lookup *lookup = &transfer->lookup;
    int64_t now_ms = loop_now_ms(transfer->http->loop);

    if (!lookup->is_running) {
        leave_place(transfer->http->lookups, lookup); /* libcurl knew it */
        return !lookup->is_abandoned && !lookup->is_late;
    }
    note(transfer->http->lookups, lookup->name,
         now_ms - lookup->began_at_ms <= QUICK_MS ? now_ms : 0);
    if (lookup->is_abandoned) {
        return false; /* libcurl will report it */
    }
    stop_running(transfer);
    (void)HTTP_SET(transfer, CURLOPT_TIMEOUT_MS, lookup->timeout_ms); /* neither can fail */
    (void)HTTP_SET(transfer, CURLOPT_CONNECTTIMEOUT_MS, 0L);
    lookup->is_late = is_late(transfer);
    return !lookup->is_late;
}

void http_lookup_leave(struct transfer *transfer)
{
    leave_place(transfer->http->lookups, &transfer->lookup);
}

/* That there is no such name, or that this machine cannot ask, is told at once: that takes no place from others. */
static void forget_slow(struct transfer *transfer)
{
    const struct lookup *lookup = &transfer->lookup;

    if (loop_now_ms(transfer->http->loop) - lookup->began_at_ms > QUICK_MS) {
        note(transfer->http->lookups, lookup->name, 0);
    }
}

CURLcode http_lookup_end(struct transfer *transfer, CURLcode code)
{
    if (transfer->lookup.is_running) { /* else it was found */
        forget_slow(transfer);
    }
    stop_running(transfer);
    return transfer->lookup.is_late ? CURLE_OPERATION_TIMEDOUT : code;
}

/* What the handle still points to and the delivery takes with it is not used any more. */
void http_lookup_abandon(struct transfer *transfer)
{
    struct lookup *lookup = &transfer->lookup;
    struct lookups *lookups = transfer->http->lookups;

    assert(lookup->is_running && !lookup->is_abandoned);
    lookup->is_abandoned = true;
    lookups->abandoned_count++;
    forget_slow(transfer);
    (void)HTTP_SET(transfer, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0); /* neither can fail */
    (void)HTTP_SET(transfer, CURLOPT_POSTFIELDS, "");
}

/* --- those that wait --------------------------------------------------------------------------------- */

bool http_lookup_wait(struct transfer *transfer)
{
    struct lookup *lookup = &transfer->lookup;
    struct lookups *lookups = transfer->http->lookups;
    int64_t now_ms = loop_now_ms(transfer->http->loop);

    if (lookup->wait_until_ms == 0) {
        int64_t half_ms = http_time_left_ms(transfer) / 2;
        lookup->wait_until_ms = now_ms + (half_ms < WAIT_MAX_MS ? half_ms : WAIT_MAX_MS);
    }
    if (now_ms >= lookup->wait_until_ms) {
        return false;
    }
    (void)curl_multi_remove_handle(transfer->http->multi, transfer->easy); /* it is in there */
    lookup->is_waiting = true;
    link_at(lookups->waiting_last, transfer);
    lookups->waiting_last = &lookup->next;
    lookups->waiting_count++;
    ring_at(lookups, lookup->wait_until_ms);
    return true;
}

void http_lookup_stop_waiting(struct transfer *transfer)
{
    struct lookups *lookups = transfer->http->lookups;

    if (!transfer->lookup.is_waiting) {
        return;
    }
    transfer->lookup.is_waiting = false;
    if (lookups->waiting_last == &transfer->lookup.next) {
        lookups->waiting_last = transfer->lookup.at;
    }
    unlink_from(transfer);
    lookups->waiting_count--;
}

/* It was answered since: libcurl has it, if it is asked at once. Each answer is tried once. */
static bool is_answered(const struct lookups *lookups, struct lookup *lookup, int64_t now_ms)
{
    int64_t at_ms = answered_at_ms(lookups, lookup->name);
    bool is_new = at_ms != 0 && at_ms != lookup->tried_at_ms && now_ms - at_ms < CACHED_MS;

    lookup->tried_at_ms = is_new ? at_ms : lookup->tried_at_ms;
    return is_new;
}

void http_lookup_serve(struct http *http)
{
    struct lookups *lookups = http->lookups;
    int64_t now_ms = loop_now_ms(http->loop);

    if (!lookups->has_room) {
        return;
    }
    lookups->has_room = false;
    for (struct transfer *transfer = lookups->waiting, *next; transfer != NULL; transfer = next) {
        bool is_known = is_answered(lookups, &transfer->lookup, now_ms);
        next = transfer->lookup.next;
        if (is_known || has_place_for(lookups, transfer, now_ms)) {
            http_lookup_stop_waiting(transfer);
            if (!is_known) {
                take_place(lookups, &transfer->lookup);
            }
            http_go_on(transfer);
        }
    }
}

/* How long after this one that has waited in vain is due: those of a queue whose names do not answer do
 * not come back all at once. */
int64_t http_lookup_put_off_ms(struct transfer *transfer)
{
    int64_t now_ms = loop_now_ms(transfer->http->loop);
    int64_t *until_ms =
        &transfer->http->lookups->put_off_until_ms[transfer->lookup.sender % BUCKETS];
    int64_t first_ms = now_ms + PUT_OFF_MS, last_ms = now_ms + PUT_OFF_MAX_MS;

    *until_ms += PUT_OFF_STEP_MS;
    *until_ms = *until_ms < first_ms ? first_ms : *until_ms > last_ms ? last_ms : *until_ms;
    return *until_ms - now_ms;
}

/* --- time -------------------------------------------------------------------------------------------- */

/* Of those in a list that are too late; returns when the next one is. */
static int64_t end_late(struct transfer *transfer, int64_t now_ms)
{
    int64_t next_at_ms = INT64_MAX;

    for (struct transfer *next; transfer != NULL; transfer = next) {
        const struct lookup *lookup = &transfer->lookup;
        int64_t at_ms = lookup->is_waiting ? lookup->wait_until_ms : lookup->due_at_ms;
        next = lookup->next;
        if (lookup->is_abandoned) {
            continue;
        }
        if (at_ms <= now_ms) {
            http_end(transfer, CURLE_OPERATION_TIMEDOUT);
        } else if (at_ms < next_at_ms) {
            next_at_ms = at_ms;
        }
    }
    return next_at_ms;
}

static void on_timer(void *user)
{
    struct lookups *lookups = user;
    int64_t now_ms = loop_now_ms(lookups->http->loop);

    lookups->timer_at_ms = INT64_MAX;
    ring_at(lookups, end_late(lookups->running, now_ms));
    ring_at(lookups, end_late(lookups->waiting, now_ms));
}

/* How many more libcurl has than are under way: those that are abandoned, less those that wait. */
int http_lookup_beside(const struct http *http)
{
    return http->lookups->abandoned_count - http->lookups->waiting_count;
}

int http_lookup_open(struct http *http, struct error *err)
{
    struct lookups *lookups = calloc(1, sizeof *lookups);

    if (lookups == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a deliverer");
    }
    http->lookups = lookups;
    lookups->http = http;
    lookups->timer_at_ms = INT64_MAX;
    lookups->waiting_last = &lookups->waiting;
    entropy_fill(lookups->secret, sizeof lookups->secret);
    return loop_timer_new(http->loop, on_timer, lookups, &lookups->timer, err);
}

/* The next one that runs for an attempt that is over and told; NULL: none is left. Others are in lists of
 * their own. */
struct transfer *http_lookup_take_abandoned(struct http *http)
{
    struct transfer *transfer = http->lookups != NULL ? http->lookups->running : NULL;

    while (transfer != NULL && transfer->delivery != NULL) {
        transfer = transfer->lookup.next;
    }
    if (transfer != NULL) {
        stop_running(transfer);
    }
    return transfer;
}

void http_lookup_close(struct http *http)
{
    if (http->lookups != NULL) {
        loop_timer_free(http->lookups->timer);
        free(http->lookups);
        http->lookups = NULL;
    }
}
