/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies wait, workers don't: replies that depend on a journal sequence number are parked here, in
 * the order of that number, a line for each lane, until the journal has come so far.
 *
 * Invariant: a reply leaves only when everything up to its lsn has been reported durable. If the
 * report was a failure, the reply is turned into one. Between the run of a procedure and the
 * parking of its reply the journal may already have reported, so recent failures are remembered.
 */
#include "rpc/internal.h"

static uint32_t lane_of(uint64_t lsn)
{
    uint32_t lane = (uint32_t)(lsn >> RPC_LANE_SHIFT);
    CHECK_OP(lane, <, RPC_LANE_COUNT);
    return lane;
}

void park_init(struct rpc_server *server)
{
    pthread_mutex_init(&server->settled_lock, NULL);
    for (uint64_t lane = 0; lane < RPC_LANE_COUNT; lane++) {
        atomic_init(&server->settled[lane], lane << RPC_LANE_SHIFT);
    }
}

bool park_waits(const struct rpc_server *server, uint64_t lsn)
{
    return lsn > atomic_load_explicit(&server->settled[lane_of(lsn)], memory_order_acquire);
}

int park_error(struct rpc_server *server, uint64_t lsn)
{
    int error = 0;
    pthread_mutex_lock(&server->settled_lock);
    for (uint32_t i = 0; i < SETTLED_FAILURE_COUNT; i++) {
        const struct failure *failure = &server->failures[i];
        if (lsn > failure->from && lsn <= failure->to) {
            error = failure->error;
        }
    }
    pthread_mutex_unlock(&server->settled_lock);
    return error;
}

static void insert(struct pending_line *line, struct pending *pending)
{
    struct pending *tail = line->tail;
    if (tail == NULL || tail->lsn <= pending->lsn) {
        *(tail != NULL ? &tail->next : &line->head) = pending;
        line->tail = pending;
        pending->next = NULL;
        return;
    }
    struct pending **link = &line->head;
    while ((*link)->lsn <= pending->lsn) {
        link = &(*link)->next;
    }
    pending->next = *link;
    *link = pending;
}

bool park(struct loop *loop, struct pending *pending, int *error)
{
    struct rpc_server *server = loop->server;
    bool parked = false;

    pthread_mutex_lock(&loop->park_lock);
    if (park_waits(server, pending->lsn)) {
        pending->was_parked = true;
        insert(&loop->parked[lane_of(pending->lsn)], pending);
        atomic_fetch_add(&loop->parked_count, 1);
        parked = true;
    }
    pthread_mutex_unlock(&loop->park_lock);
    if (!parked) {
        *error = park_error(server, pending->lsn);
    }
    return parked;
}

static struct pending *take_up_to(struct loop *loop, uint64_t lsn)
{
    struct pending_line *line = &loop->parked[lane_of(lsn)];
    pthread_mutex_lock(&loop->park_lock);
    struct pending *first = line->head;
    struct pending **link = &line->head;
    struct pending *last = NULL;
    while (*link != NULL && (*link)->lsn <= lsn) {
        last = *link;
        link = &(*link)->next;
        atomic_fetch_sub(&loop->parked_count, 1);
    }
    line->head = *link;
    if (line->head == NULL) {
        line->tail = NULL;
    }
    pthread_mutex_unlock(&loop->park_lock);
    if (last == NULL) {
        return NULL;
    }
    last->next = NULL;
    return first;
}

void rpc_server_release(struct rpc_server *server, uint64_t lsn, int error)
{
    pthread_mutex_lock(&server->settled_lock);
    _Atomic uint64_t *settled = &server->settled[lane_of(lsn)];
    uint64_t from = atomic_load(settled);
    if (error != 0 && lsn > from) {
        server->failures[server->failure_next++ % SETTLED_FAILURE_COUNT] =
            (struct failure){.from = from, .to = lsn, .error = error};
    }
    if (lsn > from) {
        atomic_store(settled, lsn);
    }
    pthread_mutex_unlock(&server->settled_lock);
    for (uint32_t i = 0; i < server->loop_count; i++) {
        struct loop *loop = &server->loops[i];
        struct pending *pending = take_up_to(loop, lsn);
        while (pending != NULL) {
            struct pending *next = pending->next;
            pending->error = pending->lsn > from ? error : 0;
            pending->lsn = 0;
            loop_post(loop, pending);
            pending = next;
        }
    }
}
