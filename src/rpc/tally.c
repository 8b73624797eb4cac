/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/tally.h"

#include "rpc/internal.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define FULL_MS 1000 /* how often a full tally looks for somebody quiet */
/* Rows of others, beyond which they are not told apart by group. */
#define OTHERS_ROW_COUNT_MAX 512U
#define UNSENT_COUNT_FIRST 64U

void tally_open(struct tally *tally, struct tally_room *room)
{
    tally->room = room;
    tally->others.is_others = true;
    pthread_mutex_init(&tally->lock, NULL);
}

void tally_close(struct tally *tally)
{
    for (uint32_t i = 0; i < tally->row_count; i++) {
        free(tally->rows[i]);
    }
    for (uint32_t i = 0; i < tally->client_count; i++) {
        free(tally->clients[i]);
    }
    free(tally->rows);
    free(tally->clients);
    pthread_mutex_destroy(&tally->lock);
}

/* ---- arrays that a reader walks; the lock is held ---- */

static bool make_room(void **items, uint32_t count, uint32_t *capacity)
{
    if (count < *capacity) {
        return true;
    }
    uint32_t more = *capacity == 0 ? 16 : *capacity * 2;
    void *grown = realloc(*items, more * sizeof(void *));
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = more;
    return true;
}

static bool add_row(struct tally *tally, struct tally_row *row)
{
    void *rows = tally->rows;
    bool added = make_room(&rows, tally->row_count, &tally->row_capacity);
    tally->rows = rows;
    if (added) {
        row->index = tally->row_count++;
        tally->rows[row->index] = row;
    }
    return added;
}

static void free_row(struct tally *tally, struct tally_row *row)
{
    struct tally_row *last = tally->rows[--tally->row_count];
    tally->rows[row->index] = last;
    last->index = row->index;
    free(row);
}

static bool add_client(struct tally *tally, struct tally_client *client)
{
    void *clients = tally->clients;
    bool added = make_room(&clients, tally->client_count, &tally->client_capacity);
    tally->clients = clients;
    if (added) {
        client->index = tally->client_count++;
        tally->clients[client->index] = client;
    }
    return added;
}

/* ---- rows ---- */

static bool is_row(const struct tally_row *row, const struct sample *sample, uint64_t group)
{
    return row->procedure == sample->procedure && row->group == group;
}

static struct tally_row **row_bucket(struct tally *tally, const struct tally_client *client,
                                     const struct rpc_procedure *procedure, uint64_t group)
{
    uint64_t words[] = {(uintptr_t)client, (uintptr_t)procedure, group};
    return &tally->row_buckets[XXH3_64bits(words, sizeof words) % TALLY_ROW_BUCKET_COUNT];
}

static struct tally_row *find_row(struct tally *tally, const struct tally_client *client,
                                  const struct sample *sample, uint64_t group)
{
    struct tally_row *row = *row_bucket(tally, client, sample->procedure, group);
    while (row != NULL && !(row->client == client && is_row(row, sample, group))) {
        row = row->bucket_next;
    }
    return row;
}

static bool take_room(atomic_uint *used, uint32_t most)
{
    if (atomic_fetch_add(used, 1) < most) {
        return true;
    }
    atomic_fetch_sub(used, 1);
    return false;
}

static void merge_row(struct tally_row *row, const struct tally_row *more)
{
    loop_count(&row->errors, counter_of(&more->errors));
    loop_count(&row->bytes_in, counter_of(&more->bytes_in));
    loop_count(&row->bytes_out, counter_of(&more->bytes_out));
    for (int phase = 0; phase < RPC_PHASE_COUNT; phase++) {
        loop_count(&row->ns[phase], counter_of(&more->ns[phase]));
        for (unsigned i = 0; i < HISTOGRAM_BUCKET_COUNT; i++) {
            loop_count(&row->latency[phase].counts[i], counter_of(&more->latency[phase].counts[i]));
        }
    }
}

static struct tally_row *new_row(struct tally *tally, struct tally_client *client,
                                 const struct sample *sample, uint64_t group)
{
    struct tally_row *row = calloc(1, sizeof *row);
    if (row == NULL) {
        return NULL;
    }
    row->client = client;
    row->procedure = sample->procedure;
    row->group = group;
    pthread_mutex_lock(&tally->lock);
    bool added = add_row(tally, row);
    pthread_mutex_unlock(&tally->lock);
    if (!added) {
        free(row);
        return NULL;
    }
    struct tally_row **bucket = row_bucket(tally, client, row->procedure, group);
    row->bucket_next = *bucket;
    *bucket = row;
    row->next = client->rows;
    client->rows = row;
    client->row_count++;
    return row;
}

/* Others have no limit but that of procedures. NULL: no memory. */
static struct tally_row *others_row(struct tally *tally, const struct sample *sample,
                                    uint64_t group)
{
    struct tally_client *others = &tally->others;
    struct tally_row *row = find_row(tally, others, sample, group);
    if (row == NULL && group != 0 && others->row_count >= OTHERS_ROW_COUNT_MAX) {
        return others_row(tally, sample, 0);
    }
    return row != NULL ? row : new_row(tally, others, sample, group);
}

/* ---- making room ---- */

static void unlink_client(struct tally *tally, struct tally_client *client)
{
    struct tally_client **link =
        &tally->buckets[XXH3_64bits(client->address, 16) % TALLY_BUCKET_COUNT];
    while (*link != client) {
        link = &(*link)->bucket_next;
    }
    *link = client->bucket_next;
}

static void unlink_row(struct tally *tally, struct tally_row *row)
{
    struct tally_row **link = row_bucket(tally, row->client, row->procedure, row->group);
    while (*link != row) {
        link = &(*link)->bucket_next;
    }
    *link = row->bucket_next;
    row->client->rows = row->next;
}

/* What the client did is counted among the others from now on. */
static void fold(struct tally *tally, struct tally_client *client)
{
    while (client->rows != NULL) {
        struct tally_row *row = client->rows;
        struct sample like = {.procedure = row->procedure};
        struct tally_row *to = others_row(tally, &like, row->group);
        unlink_row(tally, row);
        pthread_mutex_lock(&tally->lock);
        if (to != NULL) {
            merge_row(to, row);
        }
        free_row(tally, row);
        pthread_mutex_unlock(&tally->lock);
        atomic_fetch_sub(&tally->room->row_count, 1);
    }
    unlink_client(tally, client);
    pthread_mutex_lock(&tally->lock);
    loop_count(&tally->others.copies, counter_of(&client->copies));
    loop_count(&tally->others.refused, counter_of(&client->refused));
    struct tally_client *last = tally->clients[--tally->client_count];
    tally->clients[client->index] = last;
    last->index = client->index;
    pthread_mutex_unlock(&tally->lock);
    free(client);
    atomic_fetch_sub(&tally->room->client_count, 1);
}

/* Lets go of who has been quiet longest. False: nobody has been quiet for long. */
static bool fold_one(struct tally *tally, int64_t now_ms)
{
    struct tally_client *oldest = NULL;
    int64_t oldest_ms = now_ms - STATS_QUIET_MS;

    if (now_ms < tally->full_until_ms) {
        return false;
    }
    for (uint32_t i = 0; i < tally->client_count; i++) {
        struct tally_client *client = tally->clients[i];
        int64_t used_ms = atomic_load_explicit(&client->used_ms, memory_order_relaxed);
        if (client->uses == 0 && used_ms <= oldest_ms) {
            oldest = client;
            oldest_ms = used_ms;
        }
    }
    if (oldest == NULL) {
        tally->full_until_ms = now_ms + FULL_MS;
        return false;
    }
    fold(tally, oldest);
    return true;
}

/* ---- clients ---- */

static void key_of(const struct rpc_peer *peer, uint8_t address[16])
{
    if (peer->address.sa.sa_family == AF_INET6) {
        memcpy(address, &peer->address.in6.sin6_addr, 16);
        return;
    }
    memset(address, 0, 10);
    memset(address + 10, 0xff, 2);
    memcpy(address + 12, &peer->address.in.sin_addr, 4);
}

static struct tally_client *new_client(struct tally *tally, const uint8_t address[16],
                                       struct tally_client **bucket, int64_t now_ms)
{
    atomic_uint *used = &tally->room->client_count;
    bool room = take_room(used, STATS_CLIENT_COUNT_MAX) ||
                (fold_one(tally, now_ms) && take_room(used, STATS_CLIENT_COUNT_MAX));
    if (!room) {
        return NULL;
    }
    struct tally_client *client = calloc(1, sizeof *client);
    bool added = false;
    if (client != NULL) {
        memcpy(client->address, address, 16);
        atomic_init(&client->used_ms, now_ms);
        pthread_mutex_lock(&tally->lock);
        added = add_client(tally, client);
        pthread_mutex_unlock(&tally->lock);
    }
    if (!added) {
        free(client);
        atomic_fetch_sub(used, 1);
        return NULL;
    }
    client->bucket_next = *bucket;
    *bucket = client;
    return client;
}

struct tally_client *tally_client_get(struct tally *tally, const struct rpc_peer *peer,
                                      int64_t now_ms)
{
    uint8_t address[16];

    key_of(peer, address);
    struct tally_client **bucket = &tally->buckets[XXH3_64bits(address, 16) % TALLY_BUCKET_COUNT];
    struct tally_client *client = *bucket;
    while (client != NULL && memcmp(client->address, address, 16) != 0) {
        client = client->bucket_next;
    }
    if (client == NULL) {
        client = new_client(tally, address, bucket, now_ms);
    }
    if (client == NULL) {
        client = &tally->others;
    }
    client->uses++;
    return client;
}

void tally_client_put(struct tally_client *client)
{
    client->uses--;
}

/* ---- calls ---- */

static struct tally_row *row_for(struct tally *tally, struct tally_client *client,
                                 const struct sample *sample, int64_t now_ms)
{
    atomic_uint *used = &tally->room->row_count;
    struct tally_row *row = NULL;

    if (client->is_others) {
        return others_row(tally, sample, sample->group);
    }
    row = find_row(tally, client, sample, sample->group);
    if (row != NULL) {
        return row;
    }
    bool room = take_room(used, STATS_ROW_COUNT_MAX) ||
                (fold_one(tally, now_ms) && take_room(used, STATS_ROW_COUNT_MAX));
    if (!room) {
        return others_row(tally, sample, sample->group);
    }
    row = new_row(tally, client, sample, sample->group);
    if (row == NULL) {
        atomic_fetch_sub(used, 1);
    }
    return row;
}

/* Sums of calls that follow each other in one row. */
struct sums {
    uint64_t errors, bytes_in, bytes_out;
    uint64_t ns[RPC_PHASE_COUNT];
};

static inline void add_phase(struct tally_row *row, struct sums *sums, enum rpc_phase phase,
                             uint64_t from, uint64_t to)
{
    uint64_t ns = ticks_ns(from, to);
    sums->ns[phase] += ns;
    histogram_add(&row->latency[phase], ns);
}

static inline void add_call(struct tally_row *row, struct sums *sums, const struct sample *sample,
                            uint64_t sent)
{
    uint64_t ready = sample->ended;

    sums->errors += sample->failed;
    sums->bytes_in += sample->bytes_in;
    sums->bytes_out += sample->bytes_out;
    add_phase(row, sums, RPC_PHASE_QUEUE, sample->arrived, sample->started);
    add_phase(row, sums, RPC_PHASE_RUN, sample->started, sample->ended);
    if (sample->durable != 0) {
        add_phase(row, sums, RPC_PHASE_STABLE, sample->ended, sample->durable);
        ready = sample->durable;
    }
    if (sent != 0) {
        add_phase(row, sums, RPC_PHASE_SEND, ready, sent);
        add_phase(row, sums, RPC_PHASE_ALL, sample->arrived, sent);
    }
}

static void add_sums(struct tally_row *row, const struct sums *sums)
{
    loop_count(&row->errors, sums->errors);
    loop_count(&row->bytes_in, sums->bytes_in);
    loop_count(&row->bytes_out, sums->bytes_out);
    for (int phase = 0; phase < RPC_PHASE_COUNT; phase++) {
        loop_count(&row->ns[phase], sums->ns[phase]);
    }
}

static struct tally_row *row_of_next(struct tally *tally, struct tally_client *client,
                                     const struct sample *sample, int64_t now_ms)
{
    struct tally_row *row = client->last;

    if (row == NULL || !is_row(row, sample, sample->group)) {
        row = row_for(tally, client, sample, now_ms);
        if (row != NULL && row->client == client) {
            client->last = row;
        }
    }
    return row;
}

void tally_add(struct tally *tally, struct tally_client *client, const struct sample *samples,
               uint32_t count, uint64_t sent, int64_t now_ms)
{
    uint32_t at = 0;

    atomic_store_explicit(&client->used_ms, now_ms, memory_order_relaxed);
    while (at < count) {
        struct tally_row *row = row_of_next(tally, client, &samples[at], now_ms);
        struct sums sums = {0};
        if (UNLIKELY(row == NULL)) {
            at++; /* no memory */
            continue;
        }
        do {
            add_call(row, &sums, &samples[at++], sent);
        } while (at < count && is_row(row, &samples[at], samples[at].group));
        add_sums(row, &sums);
    }
}

/* ---- replies that wait for room in a socket ---- */

bool tally_unsent_add(struct tally_unsent *unsent, const struct sample *sample)
{
    if (unsent->count == TALLY_UNSENT_COUNT_MAX) {
        return false;
    }
    bool full = unsent->first + unsent->count == unsent->capacity;
    if (full && unsent->first > unsent->count) {
        memmove(unsent->samples, unsent->samples + unsent->first,
                unsent->count * sizeof *unsent->samples);
        unsent->first = 0;
    } else if (full) {
        uint32_t capacity = unsent->capacity == 0 ? UNSENT_COUNT_FIRST : unsent->capacity * 2;
        struct sample *more = realloc(unsent->samples, capacity * sizeof *more);
        if (more == NULL) {
            return false;
        }
        unsent->samples = more;
        unsent->capacity = capacity;
    }
    unsent->samples[unsent->first + unsent->count++] = *sample;
    return true;
}

const struct sample *tally_unsent_take(struct tally_unsent *unsent, uint64_t sent_bytes)
{
    if (unsent->count == 0 || unsent->samples[unsent->first].stream_end > sent_bytes) {
        return NULL;
    }
    const struct sample *sample = &unsent->samples[unsent->first++];
    if (--unsent->count == 0) {
        unsent->first = 0;
    }
    return sample;
}
