/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/drc.h"

#include <linux/sockios.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <xxhash.h>

#define SHARD_COUNT 16U
#define BUCKET_COUNT (DRC_ENTRY_COUNT_MAX / SHARD_COUNT)
#define SHARD_ENTRY_COUNT_MAX (DRC_ENTRY_COUNT_MAX / SHARD_COUNT)
/* Of longer messages (they are WRITEs) the head and the end are enough to tell two apart. */
#define CHECKSUM_WHOLE_BYTES_MAX 16384U

struct drc_origin {
    atomic_uint references;
    pthread_mutex_t lock;
    int fd;                /* -1: closed */
    uint64_t acknowledged; /* bytes the peer's TCP had when the connection was closed */
    _Atomic uint64_t sent;
};

struct drc_entry {
    struct drc_entry *bucket_next;
    struct drc_entry *older, *newer; /* the shard's list; running entries are in it too */
    uint64_t hash;
    uint64_t checksum;
    uint32_t shard;
    uint32_t xid, prog, vers, proc;
    uint32_t message_bytes;
    bool is_tcp;
    bool running;
    bool restored;
    uint8_t address[16];
    uint16_t port;
    int64_t made_ms;
    struct drc_origin *origin;
    uint64_t sent_end;
    uint32_t reply_bytes;
    uint8_t *reply;
};

struct shard {
    pthread_mutex_t lock;
    uint32_t count;
    struct drc_entry *oldest, *newest;
    struct drc_entry *buckets[BUCKET_COUNT];
};

struct drc {
    struct shard shards[SHARD_COUNT];
};

struct drc_origin *drc_origin_new(int fd)
{
    struct drc_origin *origin = calloc(1, sizeof *origin);
    if (origin != NULL) {
        atomic_init(&origin->references, 1);
        pthread_mutex_init(&origin->lock, NULL);
        origin->fd = fd;
    }
    return origin;
}

static void origin_get(struct drc_origin *origin)
{
    if (origin != NULL) {
        atomic_fetch_add(&origin->references, 1);
    }
}

void drc_origin_put(struct drc_origin *origin)
{
    if (origin != NULL && atomic_fetch_sub(&origin->references, 1) == 1) {
        pthread_mutex_destroy(&origin->lock);
        free(origin);
    }
}

void drc_origin_sent(struct drc_origin *origin, uint64_t total_bytes)
{
    atomic_store_explicit(&origin->sent, total_bytes, memory_order_relaxed);
}

/* Bytes the peer's TCP has acknowledged. The lock is held and fd is open. */
static uint64_t acknowledged_now(struct drc_origin *origin)
{
    int unacknowledged = 0;
    uint64_t sent = atomic_load(&origin->sent);
    if (ioctl(origin->fd, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged < 0) {
        return 0;
    }
    return sent > (uint64_t)unacknowledged ? sent - (uint64_t)unacknowledged : 0;
}

void drc_origin_closed(struct drc_origin *origin)
{
    if (origin == NULL) {
        return;
    }
    pthread_mutex_lock(&origin->lock);
    origin->acknowledged = acknowledged_now(origin);
    origin->fd = -1;
    pthread_mutex_unlock(&origin->lock);
}

/* Rule 3: whether the entry's client may still be waiting for its reply, on another connection. */
static bool origin_lost_reply(struct drc_origin *origin, bool running, uint64_t sent_end)
{
    pthread_mutex_lock(&origin->lock);
    bool closed = origin->fd < 0;
    uint64_t acknowledged = closed ? origin->acknowledged : acknowledged_now(origin);
    pthread_mutex_unlock(&origin->lock);
    return running ? closed : sent_end > acknowledged;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint64_t message_checksum(const uint8_t *message, uint32_t message_bytes)
{
    if (message_bytes <= CHECKSUM_WHOLE_BYTES_MAX) {
        return XXH3_64bits(message, message_bytes);
    }
    uint32_t half = CHECKSUM_WHOLE_BYTES_MAX / 2;
    uint64_t head = XXH3_64bits(message, half);
    return XXH3_64bits_withSeed(message + message_bytes - half, half, head);
}

static void peer_address(const struct rpc_peer *peer, uint8_t address[16], uint16_t *port)
{
    memset(address, 0, 16);
    if (peer->address.sa.sa_family == AF_INET6) {
        memcpy(address, &peer->address.in6.sin6_addr, 16);
        *port = peer->address.in6.sin6_port;
    } else {
        memcpy(address + 12, &peer->address.in.sin_addr, 4);
        *port = peer->address.in.sin_port;
    }
}

struct drc *drc_open(void)
{
    struct drc *drc = calloc(1, sizeof *drc);
    if (drc != NULL) {
        for (uint32_t i = 0; i < SHARD_COUNT; i++) {
            pthread_mutex_init(&drc->shards[i].lock, NULL);
        }
    }
    return drc;
}

static void entry_free(struct drc_entry *entry)
{
    drc_origin_put(entry->origin);
    free(entry->reply);
    free(entry);
}

/* The shard's lock is held, as for all of the next few. */
static void shard_remove(struct shard *shard, struct drc_entry *entry)
{
    struct drc_entry **link = &shard->buckets[entry->hash % BUCKET_COUNT];
    while (*link != entry) {
        link = &(*link)->bucket_next;
    }
    *link = entry->bucket_next;
    *(entry->older != NULL ? &entry->older->newer : &shard->oldest) = entry->newer;
    *(entry->newer != NULL ? &entry->newer->older : &shard->newest) = entry->older;
    shard->count--;
}

static void shard_insert(struct shard *shard, struct drc_entry *entry)
{
    struct drc_entry **bucket = &shard->buckets[entry->hash % BUCKET_COUNT];
    entry->bucket_next = *bucket;
    *bucket = entry;
    entry->older = shard->newest;
    entry->newer = NULL;
    *(shard->newest != NULL ? &shard->newest->newer : &shard->oldest) = entry;
    shard->newest = entry;
    shard->count++;
}

uint32_t drc_entry_count(struct drc *drc)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SHARD_COUNT; i++) {
        pthread_mutex_lock(&drc->shards[i].lock);
        count += drc->shards[i].count;
        pthread_mutex_unlock(&drc->shards[i].lock);
    }
    return count;
}

/* Takes out what is too old, and the oldest when there is no room. False: all of them run. */
static bool shard_make_room(struct shard *shard, int64_t now)
{
    struct drc_entry *entry = shard->oldest;
    for (int tries = 0; entry != NULL && tries < 4; tries++) {
        struct drc_entry *newer = entry->newer;
        bool full = shard->count >= SHARD_ENTRY_COUNT_MAX;
        if (!full && now - entry->made_ms < DRC_AGE_MS) {
            break;
        }
        if (!entry->running) {
            shard_remove(shard, entry);
            entry_free(entry);
        }
        entry = newer;
    }
    return shard->count < SHARD_ENTRY_COUNT_MAX;
}

static bool entry_is(const struct drc_entry *entry, const struct drc_entry *wanted)
{
    return entry->hash == wanted->hash && entry->xid == wanted->xid &&
           entry->checksum == wanted->checksum && entry->message_bytes == wanted->message_bytes &&
           entry->prog == wanted->prog && entry->vers == wanted->vers &&
           entry->proc == wanted->proc && entry->is_tcp == wanted->is_tcp &&
           memcmp(entry->address, wanted->address, 16) == 0;
}

/* Rules 3 and 4. */
static bool same_client(struct drc_entry *entry, const struct drc_entry *wanted)
{
    if (entry->port == wanted->port || (entry->restored && entry->is_tcp)) {
        return true;
    }
    return entry->origin != NULL && entry->origin != wanted->origin &&
           origin_lost_reply(entry->origin, entry->running, entry->sent_end);
}

static struct drc_entry *shard_find(struct shard *shard, const struct drc_entry *wanted,
                                    int64_t now)
{
    struct drc_entry *entry = shard->buckets[wanted->hash % BUCKET_COUNT];
    for (; entry != NULL; entry = entry->bucket_next) {
        bool young = entry->running || now - entry->made_ms < DRC_AGE_MS;
        if (young && entry_is(entry, wanted) && same_client(entry, wanted)) {
            return entry;
        }
    }
    return NULL;
}

/* The checksum covers the xid already, and the address must not decide the bucket alone. */
static void set_hash(struct drc_entry *entry)
{
    entry->hash = XXH3_64bits_withSeed(entry->address, 16, entry->checksum);
    entry->shard = (uint32_t)(entry->hash >> 60);
}

static void key_to_entry(const struct drc_key *key, struct drc_entry *entry)
{
    *entry = (struct drc_entry){
        .xid = key->xid,
        .prog = key->prog,
        .vers = key->vers,
        .proc = key->proc,
        .message_bytes = key->message_bytes,
        .is_tcp = key->peer->is_tcp,
        .running = true,
        .origin = key->origin,
        .checksum = message_checksum(key->message, key->message_bytes),
    };
    peer_address(key->peer, entry->address, &entry->port);
    set_hash(entry);
}

enum drc_verdict drc_begin(struct drc *drc, const struct drc_key *key, struct drc_entry **entry,
                           uint8_t *reply, uint32_t *reply_bytes)
{
    struct drc_entry wanted;
    enum drc_verdict verdict = DRC_NEW;
    int64_t now = key->now_ms;

    *entry = NULL;
    key_to_entry(key, &wanted);
    struct shard *shard = &drc->shards[wanted.shard];
    pthread_mutex_lock(&shard->lock);
    struct drc_entry *found = shard_find(shard, &wanted, now);
    if (found != NULL && found->running) {
        verdict = DRC_DROP;
    } else if (found != NULL) {
        verdict = DRC_REPLY;
        memcpy(reply, found->reply, found->reply_bytes);
        *reply_bytes = found->reply_bytes;
    } else if (shard_make_room(shard, now)) {
        struct drc_entry *made = malloc(sizeof *made);
        if (made != NULL) {
            *made = wanted;
            made->made_ms = now;
            origin_get(made->origin);
            shard_insert(shard, made);
            *entry = made;
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return verdict;
}

void drc_done(struct drc *drc, struct drc_entry *entry, const uint8_t *reply, uint32_t reply_bytes,
              uint64_t sent_end)
{
    uint8_t *copy =
        entry != NULL && reply_bytes <= DRC_REPLY_BYTES_MAX ? malloc(reply_bytes) : NULL;
    if (copy == NULL) {
        drc_forget(drc, entry);
        return;
    }
    memcpy(copy, reply, reply_bytes);
    struct shard *shard = &drc->shards[entry->shard];
    pthread_mutex_lock(&shard->lock);
    entry->reply = copy;
    entry->reply_bytes = reply_bytes;
    entry->sent_end = sent_end;
    entry->running = false;
    pthread_mutex_unlock(&shard->lock);
}

void drc_identify(const struct drc_entry *entry, struct rpc_kept_reply *reply)
{
    *reply = (struct rpc_kept_reply){
        .port = entry->port,
        .is_tcp = entry->is_tcp,
        .xid = entry->xid,
        .prog = entry->prog,
        .vers = entry->vers,
        .proc = entry->proc,
        .call_bytes = entry->message_bytes,
        .call_checksum = entry->checksum,
    };
    memcpy(reply->address, entry->address, sizeof reply->address);
}

void drc_restore(struct drc *drc, const struct rpc_kept_reply *reply)
{
    int64_t now = now_ms();
    struct drc_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL || reply->size > DRC_REPLY_BYTES_MAX) {
        free(entry);
        return;
    }
    *entry = (struct drc_entry){
        .port = reply->port,
        .is_tcp = reply->is_tcp,
        .restored = true,
        .xid = reply->xid,
        .prog = reply->prog,
        .vers = reply->vers,
        .proc = reply->proc,
        .message_bytes = reply->call_bytes,
        .checksum = reply->call_checksum,
        .made_ms = now,
        .reply_bytes = reply->size,
        .reply = malloc(reply->size + 1U),
    };
    memcpy(entry->address, reply->address, sizeof entry->address);
    set_hash(entry);
    struct shard *shard = &drc->shards[entry->shard];
    pthread_mutex_lock(&shard->lock);
    bool room = entry->reply != NULL && shard_make_room(shard, now);
    if (room) {
        memcpy(entry->reply, reply->bytes, reply->size);
        shard_insert(shard, entry);
    }
    pthread_mutex_unlock(&shard->lock);
    if (!room) {
        entry_free(entry);
    }
}

void drc_forget(struct drc *drc, struct drc_entry *entry)
{
    if (entry == NULL) {
        return;
    }
    struct shard *shard = &drc->shards[entry->shard];
    pthread_mutex_lock(&shard->lock);
    shard_remove(shard, entry);
    pthread_mutex_unlock(&shard->lock);
    entry_free(entry);
}

void drc_close(struct drc *drc)
{
    if (drc == NULL) {
        return;
    }
    for (uint32_t i = 0; i < SHARD_COUNT; i++) {
        struct shard *shard = &drc->shards[i];
        while (shard->oldest != NULL) {
            struct drc_entry *entry = shard->oldest;
            shard_remove(shard, entry);
            entry_free(entry);
        }
        pthread_mutex_destroy(&shard->lock);
    }
    free(drc);
}
