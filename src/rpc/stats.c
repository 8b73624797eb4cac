/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: the tallies of all loops, read a few rows at a time and put together.
 */
#include "rpc/stats.h"

#include "rpc/internal.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_COUNT 32U /* rows or clients that are copied under the lock at once */

/* A row with what tells its client. */
struct entry {
    struct rpc_client_stats client;
    const struct rpc_procedure *procedure;
    uint32_t prog;
    struct rpc_row_stats row;
};

struct collection {
    struct rpc_client_stats *clients;
    uint32_t client_count, client_capacity;
    struct entry *entries;
    uint32_t entry_count, entry_capacity;
    bool no_memory;
};

static bool make_room(void **items, uint32_t wanted, uint32_t *capacity, size_t item_bytes)
{
    uint32_t more = *capacity == 0 ? CHUNK_COUNT : *capacity;
    while (more < wanted) {
        more *= 2;
    }
    if (more == *capacity) {
        return true;
    }
    void *grown = realloc(*items, more * item_bytes);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *capacity = more;
    return true;
}

/* ---- reading one tally ---- */

static void copy_client(const struct tally_client *from, int64_t now_ms,
                        struct rpc_client_stats *to)
{
    int64_t idle_ms = now_ms - atomic_load_explicit(&from->used_ms, memory_order_relaxed);
    *to = (struct rpc_client_stats){.is_others = from->is_others,
                                    .connections = (uint32_t)counter_of(&from->connections),
                                    .idle_ms = idle_ms > 0 ? (uint64_t)idle_ms : 0,
                                    .copies = counter_of(&from->copies),
                                    .refused = counter_of(&from->refused)};
    memcpy(to->address, from->address, sizeof to->address);
}

static void copy_row(const struct tally_row *from, struct entry *to)
{
    *to = (struct entry){.client.is_others = from->client->is_others,
                         .procedure = from->procedure,
                         .row = {.group = from->group,
                                 .name = from->procedure->name,
                                 .errors = counter_of(&from->errors),
                                 .bytes_in = counter_of(&from->bytes_in),
                                 .bytes_out = counter_of(&from->bytes_out)}};
    memcpy(to->client.address, from->client->address, sizeof to->client.address);
    to->client.idle_ms = UINT64_MAX;
    for (int phase = 0; phase < RPC_PHASE_COUNT; phase++) {
        to->row.ns[phase] = counter_of(&from->ns[phase]);
        histogram_read(&from->latency[phase], &to->row.latency[phase]);
    }
    to->row.calls = histogram_count(&to->row.latency[RPC_PHASE_RUN]);
}

static bool room_for_entries(struct collection *all)
{
    void *entries = all->entries;
    bool has = make_room(&entries, all->entry_count + CHUNK_COUNT, &all->entry_capacity,
                         sizeof *all->entries);
    all->entries = entries;
    all->no_memory = all->no_memory || !has;
    return has;
}

static bool room_for_clients(struct collection *all, uint32_t more)
{
    void *clients = all->clients;
    bool has = make_room(&clients, all->client_count + more, &all->client_capacity,
                         sizeof *all->clients);
    all->clients = clients;
    all->no_memory = all->no_memory || !has;
    return has;
}

static void collect_rows(struct tally *tally, struct collection *all)
{
    uint32_t at = 0;
    for (bool more = true; more && room_for_entries(all);) {
        pthread_mutex_lock(&tally->lock);
        for (uint32_t i = 0; i < CHUNK_COUNT && at < tally->row_count; i++) {
            copy_row(tally->rows[at++], &all->entries[all->entry_count++]);
        }
        more = at < tally->row_count;
        pthread_mutex_unlock(&tally->lock);
    }
}

static void collect_clients(struct tally *tally, struct collection *all)
{
    int64_t now_ms = loop_clock_ms();
    uint32_t at = 0;
    for (bool more = true; more && room_for_clients(all, CHUNK_COUNT + 1);) {
        pthread_mutex_lock(&tally->lock);
        for (uint32_t i = 0; i < CHUNK_COUNT && at < tally->client_count; i++) {
            copy_client(tally->clients[at++], now_ms, &all->clients[all->client_count++]);
        }
        more = at < tally->client_count;
        if (!more) {
            copy_client(&tally->others, now_ms, &all->clients[all->client_count++]);
        }
        pthread_mutex_unlock(&tally->lock);
    }
}

/* ---- which procedure a row is of ---- */

static bool describe_in(const struct service *service, struct entry *entry)
{
    for (size_t i = 0; i < service->program_count; i++) {
        const struct rpc_program *program = service->programs[i];
        for (uint32_t j = 0; j < program->version_count; j++) {
            const struct rpc_version *version = &program->versions[j];
            if (entry->procedure < version->procedures ||
                entry->procedure >= version->procedures + version->procedure_count) {
                continue;
            }
            entry->prog = program->prog;
            entry->row.program = program->name;
            entry->row.vers = version->vers;
            entry->row.proc = (uint32_t)(entry->procedure - version->procedures);
            return true;
        }
    }
    return false;
}

static void describe(const struct rpc_server *server, struct entry *entry)
{
    bool found = false;
    for (const struct listener *at = server->listeners; at != NULL && !found; at = at->next) {
        found = describe_in(&at->service, entry);
    }
    for (const struct udp *at = server->udps; at != NULL && !found; at = at->next) {
        found = describe_in(&at->service, entry);
    }
    CHECK(found);
}

/* ---- putting them together ---- */

static int order_clients(const void *a, const void *b)
{
    const struct rpc_client_stats *one = a;
    const struct rpc_client_stats *other = b;
    if (one->is_others != other->is_others) {
        return one->is_others ? 1 : -1;
    }
    return memcmp(one->address, other->address, sizeof one->address);
}

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static int order_entries(const void *a, const void *b)
{
    const struct entry *one = a;
    const struct entry *other = b;
    int order = order_clients(&one->client, &other->client);
    order = order != 0 ? order : ORDER(one->row.group, other->row.group);
    order = order != 0 ? order : ORDER(one->prog, other->prog);
    order = order != 0 ? order : ORDER(one->row.vers, other->row.vers);
    return order != 0 ? order : ORDER(one->row.proc, other->row.proc);
}

static void merge_clients(struct rpc_client_stats *to, const struct rpc_client_stats *more)
{
    to->connections += more->connections;
    to->copies += more->copies;
    to->refused += more->refused;
    to->idle_ms = more->idle_ms < to->idle_ms ? more->idle_ms : to->idle_ms;
}

static void merge_rows(struct rpc_row_stats *to, const struct rpc_row_stats *more)
{
    to->calls += more->calls;
    to->errors += more->errors;
    to->bytes_in += more->bytes_in;
    to->bytes_out += more->bytes_out;
    for (int phase = 0; phase < RPC_PHASE_COUNT; phase++) {
        to->ns[phase] += more->ns[phase];
        histogram_merge(&to->latency[phase], &more->latency[phase]);
    }
}

static void merge(struct collection *all)
{
    uint32_t count = 0;
    qsort(all->clients, all->client_count, sizeof *all->clients, order_clients);
    for (uint32_t i = 0; i < all->client_count; i++) {
        if (count > 0 && order_clients(&all->clients[count - 1], &all->clients[i]) == 0) {
            merge_clients(&all->clients[count - 1], &all->clients[i]);
        } else {
            all->clients[count++] = all->clients[i];
        }
    }
    all->client_count = count;
    count = 0;
    qsort(all->entries, all->entry_count, sizeof *all->entries, order_entries);
    for (uint32_t i = 0; i < all->entry_count; i++) {
        if (count > 0 && order_entries(&all->entries[count - 1], &all->entries[i]) == 0) {
            merge_rows(&all->entries[count - 1].row, &all->entries[i].row);
        } else {
            all->entries[count++] = all->entries[i];
        }
    }
    all->entry_count = count;
}

/* The collected arrays become those of the snapshot. False: no memory. */
static bool finish(struct collection *all, struct rpc_snapshot *snapshot)
{
    snapshot->rows = calloc(all->entry_count + 1, sizeof *snapshot->rows);
    if (snapshot->rows == NULL) {
        return false;
    }
    snapshot->clients = all->clients;
    snapshot->client_count = all->client_count;
    all->clients = NULL;
    const struct rpc_client_stats *client = snapshot->clients;
    for (uint32_t i = 0; i < all->entry_count; i++) {
        while (order_clients(client, &all->entries[i].client) < 0) {
            client++; /* every row's client is there */
        }
        snapshot->rows[i] = all->entries[i].row;
        snapshot->rows[i].client = client;
    }
    snapshot->row_count = all->entry_count;
    return true;
}

struct rpc_snapshot *rpc_snapshot_take(struct rpc_server *server)
{
    struct collection all = {0};
    struct rpc_snapshot *snapshot = calloc(1, sizeof *snapshot);

    for (uint32_t i = 0; i < server->loop_count; i++) {
        collect_rows(&server->loops[i].tally, &all);
        collect_clients(&server->loops[i].tally, &all);
    }
    for (uint32_t i = 0; i < all.entry_count; i++) {
        describe(server, &all.entries[i]);
    }
    /* A client may have gone between the two. */
    if (room_for_clients(&all, all.entry_count)) {
        for (uint32_t i = 0; i < all.entry_count; i++) {
            all.clients[all.client_count++] = all.entries[i].client;
        }
    }
    if (snapshot != NULL && !all.no_memory) {
        merge(&all);
        all.no_memory = !finish(&all, snapshot);
    }
    if (all.no_memory) {
        free(snapshot);
        snapshot = NULL;
    }
    free(all.entries);
    free(all.clients);
    return snapshot;
}

void rpc_snapshot_free(struct rpc_snapshot *snapshot)
{
    if (snapshot != NULL) {
        free(snapshot->rows);
        free(snapshot->clients);
        free(snapshot);
    }
}

/* ---- limits ---- */

/* What the first client gets of what share.c shares out. */
static uint32_t third_of(uint32_t most)
{
    return most >= 3 ? most / 3 : 1;
}

uint32_t rpc_server_limits(struct rpc_server *server, struct rpc_limit limits[RPC_LIMIT_COUNT_MAX])
{
    const struct rpc_server_options *options = &server->options;

    pthread_mutex_lock(&server->worker_lock);
    uint32_t threads = server->worker_count;
    pthread_mutex_unlock(&server->worker_lock);
    const struct rpc_limit all[] = {
        {"connections", atomic_load(&server->conn_count), options->connection_count_max},
        {"threads", threads, options->thread_count_max},
        {"incomplete_call_bytes",
         (uint64_t)(atomic_load(&server->half_bytes[0]) + atomic_load(&server->half_bytes[1])),
         options->half_bytes_max},
        {"unsent_reply_bytes", (uint64_t)atomic_load(&server->queued_bytes), ALL_QUEUES_BYTES_MAX},
        {"cached_replies", drc_entry_count(server->drc), DRC_ENTRY_COUNT_MAX},
        {"client_connections", RPC_LIMIT_NOT_COUNTED, third_of(options->connection_count_max)},
        {"client_blocked_calls", RPC_LIMIT_NOT_COUNTED,
         third_of(options->thread_count_max - server->loop_count)},
        {"call_bytes", RPC_LIMIT_NOT_COUNTED, options->record_bytes_max},
        {"connection_unsent_reply_bytes", RPC_LIMIT_NOT_COUNTED, CONN_QUEUE_BYTES_MAX},
        {"connection_idle_seconds", RPC_LIMIT_NOT_COUNTED, options->idle_ms / 1000},
        {"counted_clients", atomic_load(&server->tally_room.client_count), STATS_CLIENT_COUNT_MAX},
        {"counted_rows", atomic_load(&server->tally_room.row_count), STATS_ROW_COUNT_MAX},
    };
    _Static_assert(COUNT_OF(all) <= RPC_LIMIT_COUNT_MAX, "they fit");
    memcpy(limits, all, sizeof all);
    return COUNT_OF(all);
}
