/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sun's spray.x, and docs/spray.md for what is ours.
 *
 * Senders are kept in sets of a few, chosen by their address, so that finding one costs the same
 * however many there are.
 */
#include "server/spray.h"

#include "proto/spray.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NS_PER_SECOND 1000000000LL
#define NS_PER_US 1000
#define SET_SIZE 4U
#define SET_COUNT (SPRAY_SENDER_COUNT_MAX / SET_SIZE)

/* What may still be answered: refilled as time goes by. */
struct allowance {
    int64_t filled_ns;
    double left;
};

struct spray_sender {
    uint8_t address[16]; /* IPv4 mapped */
    bool used;
    int64_t clear_ns;
    int64_t seen_ns;
    int64_t first_ns, last_ns; /* packets */
    uint32_t counter;
    uint32_t reordered;
    uint32_t xid_max;
    uint64_t bytes;
    bool has_drops;
    uint64_t drops; /* of the socket, at CLEAR */
    struct allowance answers, echoes;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

/* ---- who may ---- */

static void address_of(const struct rpc_peer *peer, uint8_t address[16])
{
    memset(address, 0, 16);
    if (peer->address.sa.sa_family == AF_INET6) {
        memcpy(address, &peer->address.in6.sin6_addr, 16);
    } else {
        address[10] = address[11] = 0xff;
        memcpy(address + 12, &peer->address.in.sin_addr, 4);
    }
}

static bool is_loopback(const struct rpc_peer *peer)
{
    if (peer->address.sa.sa_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(&peer->address.in6.sin6_addr);
    }
    return (ntohl(peer->address.in.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
}

static bool is_allowed(const struct spray_service *service, const struct rpc_peer *peer)
{
    if (peer->is_local || is_loopback(peer)) {
        return true;
    }
    return vfs_names_host(service->vfs, &peer->address.sa);
}

static bool allowance_take(struct allowance *allowance, uint32_t per_second, int64_t now)
{
    double seconds = (double)(now - allowance->filled_ns) / NS_PER_SECOND;
    allowance->left += seconds * per_second;
    allowance->left = allowance->left > per_second ? per_second : allowance->left;
    allowance->filled_ns = now;
    if (allowance->left < 1) {
        return false;
    }
    allowance->left -= 1;
    return true;
}

/* ---- the senders ---- */

/* The sender of a call; with `make`, a place for one that is new. NULL: there is none. */
static struct spray_sender *sender_of(struct spray_service *service, const struct rpc_call *call,
                                      bool make, int64_t now)
{
    uint8_t address[16];
    uint32_t hash = 2166136261U; /* FNV-1a */
    struct spray_sender *quietest = NULL;

    address_of(call->peer, address);
    for (size_t i = 0; i < sizeof address; i++) {
        hash = (hash ^ address[i]) * 16777619U;
    }
    struct spray_sender *set = &service->senders[(hash >> 16) % SET_COUNT * SET_SIZE];
    for (uint32_t i = 0; i < SET_SIZE; i++) {
        if (set[i].used && memcmp(set[i].address, address, sizeof address) == 0) {
            return &set[i];
        }
        if (quietest == NULL || !set[i].used ||
            (quietest->used && set[i].seen_ns < quietest->seen_ns)) {
            quietest = &set[i];
        }
    }
    if (!make || (quietest->used &&
                  now - quietest->seen_ns < (int64_t)SPRAY_QUIET_SECONDS * NS_PER_SECOND)) {
        return NULL;
    }
    *quietest = (struct spray_sender){
        .used = true,
        .answers = {now, SPRAY_ANSWERS_PER_SECOND},
        .echoes = {now, SPRAY_ECHOES_PER_SECOND},
    };
    memcpy(quietest->address, address, sizeof address);
    return quietest;
}

/* Datagrams that found a UDP socket of this port full, over all of them; false: not known. The
 * last column of /proc/net/udp. */
static bool socket_drops(uint16_t port, uint64_t *drops)
{
    static const char *const files[] = {"/proc/net/udp", "/proc/net/udp6"};
    bool known = false;
    char line[512];

    *drops = 0;
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        FILE *file = fopen(files[i], "re");
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            unsigned local_port;
            char *last = strrchr(line, ' ');
            if (last != NULL && last[1] == '\n') { /* the kernel pads the line */
                while (last > line && *last == ' ') {
                    *last-- = '\0';
                }
                last = strrchr(line, ' ');
            }
            if (last != NULL && sscanf(line, " %*d: %*[0-9A-Fa-f]:%x ", &local_port) == 1 &&
                local_port == port) {
                *drops += strtoull(last, NULL, 10);
                known = true;
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    return known;
}

static void note_drops(const struct rpc_call *call, bool *known, uint64_t *drops)
{
    *known =
        !call->peer->is_tcp && !call->peer->is_local && socket_drops(call->peer->local_port, drops);
}

static void count(struct spray_sender *sender, const struct rpc_call *call, uint32_t size,
                  int64_t now)
{
    sender->seen_ns = now;
    if (sender->clear_ns == 0 ||
        now - sender->clear_ns > (int64_t)SPRAY_SESSION_SECONDS_MAX * NS_PER_SECOND) {
        return;
    }
    if (sender->counter++ == 0) {
        sender->first_ns = now;
        sender->xid_max = call->xid;
    } else if ((int32_t)(call->xid - sender->xid_max) < 0) {
        sender->reordered++;
    } else {
        sender->xid_max = call->xid;
    }
    sender->last_ns = now;
    sender->bytes += size;
}

static struct spraytimeval clock_of(const struct spray_sender *sender, int64_t now)
{
    int64_t since_ns = sender->clear_ns == 0 ? 0 : now - sender->clear_ns;
    return (struct spraytimeval){
        .sec = (uint32_t)(since_ns / NS_PER_SECOND),
        .usec = (uint32_t)(since_ns % NS_PER_SECOND / NS_PER_US),
    };
}

/* ---- procedures ---- */

static void spray_null(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    (void)args;
    (void)res;
    call->drop = !is_allowed(call->service, call->peer);
}
RPC_THUNK(spray_null, rpc_void, rpc_void)

/* Never answered. */
static void spray_spray(struct rpc_call *call, const struct sprayarr *args, struct rpc_void *res)
{
    struct spray_service *service = call->service;
    int64_t now = now_ns();

    (void)res;
    call->drop = true;
    pthread_mutex_lock(&service->lock);
    struct spray_sender *sender = sender_of(service, call, false, now);
    if (sender != NULL) {
        count(sender, call, args->data.size, now);
    }
    pthread_mutex_unlock(&service->lock);
}
RPC_THUNK(spray_spray, sprayarr, rpc_void)

/* The sender of a call that may be answered, with the lock held; else NULL, the call is dropped and
 * the lock is not held. */
static struct spray_sender *begin(struct rpc_call *call, bool make, int64_t now)
{
    struct spray_service *service = call->service;

    call->drop = true;
    if (!is_allowed(service, call->peer)) {
        return NULL;
    }
    pthread_mutex_lock(&service->lock);
    struct spray_sender *sender = sender_of(service, call, make, now);
    if (sender == NULL || !allowance_take(&sender->answers, SPRAY_ANSWERS_PER_SECOND, now)) {
        pthread_mutex_unlock(&service->lock);
        return NULL;
    }
    sender->seen_ns = now;
    call->drop = false;
    return sender;
}

/* A sender that never said CLEAR has sent nothing. */
static void spray_get(struct rpc_call *call, const struct rpc_void *args, struct spraycumul *res)
{
    struct spray_service *service = call->service;
    int64_t now = now_ns();

    (void)args;
    struct spray_sender *sender = begin(call, true, now);
    if (sender != NULL) {
        res->counter = sender->counter;
        res->clock = clock_of(sender, now);
        pthread_mutex_unlock(&service->lock);
    }
}
RPC_THUNK(spray_get, rpc_void, spraycumul)

static void spray_clear(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    struct spray_service *service = call->service;
    int64_t now = now_ns();

    (void)args;
    (void)res;
    struct spray_sender *sender = begin(call, true, now);
    if (sender != NULL) {
        struct spray_sender cleared = {
            .used = true,
            .clear_ns = now,
            .seen_ns = now,
            .answers = sender->answers,
            .echoes = sender->echoes,
        };
        memcpy(cleared.address, sender->address, sizeof cleared.address);
        note_drops(call, &cleared.has_drops, &cleared.drops);
        *sender = cleared;
        pthread_mutex_unlock(&service->lock);
    }
}
RPC_THUNK(spray_clear, rpc_void, rpc_void)

static void spray_report(struct rpc_call *call, const struct rpc_void *args,
                         struct sprayreport *res)
{
    struct spray_service *service = call->service;
    int64_t now = now_ns();
    uint64_t drops = 0;
    bool known = false;

    (void)args;
    struct spray_sender *sender = begin(call, true, now);
    if (sender == NULL) {
        return;
    }
    note_drops(call, &known, &drops);
    *res = (struct sprayreport){
        .counter = sender->counter,
        .clock = clock_of(sender, now),
        .bytes = sender->bytes,
        .reordered = sender->reordered,
        .has_drops = known && sender->has_drops,
        .drops = known && sender->has_drops && drops > sender->drops ? drops - sender->drops : 0,
        .arrival_ns = (uint64_t)(sender->last_ns - sender->first_ns),
    };
    pthread_mutex_unlock(&service->lock);
}
RPC_THUNK(spray_report, rpc_void, sprayreport)

/* Counted, and sent back: loss on the way there and on the way back can be told apart. */
static void spray_echo(struct rpc_call *call, const struct sprayarr *args, struct sprayarr *res)
{
    struct spray_service *service = call->service;
    int64_t now = now_ns();

    call->drop = true;
    pthread_mutex_lock(&service->lock);
    struct spray_sender *sender = sender_of(service, call, false, now);
    if (sender != NULL) {
        count(sender, call, args->data.size, now);
        call->drop = !allowance_take(&sender->echoes, SPRAY_ECHOES_PER_SECOND, now);
        res->data = args->data;
    }
    pthread_mutex_unlock(&service->lock);
}
RPC_THUNK(spray_echo, sprayarr, sprayarr)

static const struct rpc_procedure procedures[] = {
    [SPRAYPROC_NULL] =
        RPC_ROW("SPRAYPROC_NULL", spray_null, rpc_void, rpc_void, .reply_bytes_max = 4),
    [SPRAYPROC_SPRAY] =
        RPC_ROW("SPRAYPROC_SPRAY", spray_spray, sprayarr, rpc_void, .reply_bytes_max = 4),
    [SPRAYPROC_GET] =
        RPC_ROW("SPRAYPROC_GET", spray_get, rpc_void, spraycumul, .reply_bytes_max = 12),
    [SPRAYPROC_CLEAR] =
        RPC_ROW("SPRAYPROC_CLEAR", spray_clear, rpc_void, rpc_void, .reply_bytes_max = 4),
    [SPRAYPROC_REPORT] =
        RPC_ROW("SPRAYPROC_REPORT", spray_report, rpc_void, sprayreport, .reply_bytes_max = 64),
    [SPRAYPROC_ECHO] = RPC_ROW("SPRAYPROC_ECHO", spray_echo, sprayarr, sprayarr,
                               .reply_bytes_max = 4 + SPRAYMAX + 3),
};

static const struct rpc_version versions[] = {
    {.vers = SPRAYVERS, .procedure_count = COUNT_OF(procedures), .procedures = procedures},
};

int spray_program_init(struct rpc_program *program, struct spray_service *service)
{
    service->senders = calloc(SPRAY_SENDER_COUNT_MAX, sizeof *service->senders);
    if (service->senders == NULL) {
        return -ENOMEM;
    }
    pthread_mutex_init(&service->lock, NULL);
    *program = (struct rpc_program){
        .prog = SPRAYPROG,
        .name = "SPRAYPROG",
        .version_count = COUNT_OF(versions),
        .versions = versions,
        .service = service,
    };
    return 0;
}

void spray_service_fini(struct spray_service *service)
{
    if (service->senders != NULL) {
        pthread_mutex_destroy(&service->lock);
        free(service->senders);
        service->senders = NULL;
    }
}
