/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls that have begun to arrive may hold in memory, all connections together
 * (rpc_server_options.half_bytes_max).
 *
 * A connection is charged for a small buffer while part of a call lies in it between turns, and for
 * a large one from the moment it gets it. Half of the room is for either kind, so that short calls
 * in two pieces do not wait behind large ones. When there is no room for one more:
 *
 * 1. a connection of lower rank is closed: hosts that no export names come first, then connections
 *    that never sent a whole call, then those that sent no large one;
 * 2. of the same rank, one whose call does not arrive: nothing for HALF_STALL_MS, or fewer than
 *    HALF_RATE_MIN bytes a second since it began;
 * 3. if there is none, who wants a large one waits: it is not read, TCP holds its client back, and
 *    those of higher rank go first when there is room again. HALF_STALL_MS later rule 2 holds for
 *    somebody. Who wants a small one is closed.
 *
 * Hosts that no export names share an eighth: they have nothing large to say.
 *
 * A loop can only close its own connections, so it asks the others (half_wanted).
 */
#include "rpc/internal.h"

#include "base/log.h"

#define HALF_STALL_MS 3000
#define HALF_RATE_MIN (32 * 1024)
#define KNOWN_MS 1000 /* how long an answer of options.is_known is believed */
#define KIND_SHARE 2
#define STRANGERS_SHARE 8

enum rank { RANK_STRANGER, RANK_SILENT, RANK_SPOKE, RANK_LARGE };

static bool is_known(struct loop *loop, struct conn *conn)
{
    const struct rpc_server_options *options = &loop->server->options;
    if (options->is_known == NULL || conn->peer.is_local) {
        return true;
    }
    if (conn->known_until_ms <= loop->now_ms) {
        conn->known = options->is_known(options->arg, &conn->peer.address.sa);
        conn->known_until_ms = loop->now_ms + KNOWN_MS;
    }
    return conn->known;
}

static enum rank rank_of(struct loop *loop, struct conn *conn)
{
    if (!is_known(loop, conn)) {
        return RANK_STRANGER;
    }
    return conn->large ? RANK_LARGE : conn->spoke ? RANK_SPOKE : RANK_SILENT;
}

static bool is_large(uint32_t bytes)
{
    return bytes > RX_SMALL_BYTES;
}

static bool has_room(const struct rpc_server *server, enum rank rank, uint32_t bytes)
{
    int64_t share = rank == RANK_STRANGER ? STRANGERS_SHARE : KIND_SHARE;
    int64_t held = atomic_load_explicit(&server->half_bytes[is_large(bytes)], memory_order_relaxed);
    return held + bytes <= (int64_t)server->options.half_bytes_max / share;
}

static bool does_not_arrive(const struct loop *loop, const struct conn *conn)
{
    int64_t since_ms = loop->now_ms - conn->half_since_ms;
    int64_t bytes = conn->rx_end - conn->rx_start;
    return loop->now_ms - conn->active_ms >= HALF_STALL_MS ||
           (since_ms >= HALF_STALL_MS && bytes * 1000 / since_ms < HALF_RATE_MIN);
}

/* Whether a is to be closed rather than b. */
static bool goes_before(struct loop *loop, struct conn *a, struct conn *b)
{
    enum rank rank_a = rank_of(loop, a);
    enum rank rank_b = rank_of(loop, b);
    if (rank_a != rank_b) {
        return rank_a < rank_b;
    }
    return a->half_since_ms < b->half_since_ms;
}

/* Closes the connection of this loop that has the least claim, if that is less than rank's, to a
 * buffer of this kind. */
static bool make_room(struct loop *loop, const struct conn *not_this, enum rank rank, bool large)
{
    static struct log_limit limit;
    struct conn *victim = NULL;
    char peer[64];

    for (struct conn *conn = loop->oldest; conn != NULL; conn = conn->newer) {
        bool owed = conn->pending_count > 0 || conn->held || loop->turn == &conn->source;
        if (conn->half_charge == 0 || is_large(conn->half_charge) != large || owed ||
            conn == not_this) {
            continue;
        }
        enum rank theirs = rank_of(loop, conn);
        bool late = conn->half_waits_for == 0 && does_not_arrive(loop, conn);
        if ((theirs < rank || (theirs == rank && late)) &&
            (victim == NULL || goes_before(loop, conn, victim))) {
            victim = conn;
        }
    }
    if (victim == NULL) {
        return false;
    }
    log_write_limited(&limit, LOG_WARNING,
                      "%s: closed: calls that have not arrived whole take %u MiB, and others wait",
                      peer_text(&victim->peer, peer), loop->server->options.half_bytes_max >> 20);
    conn_close(loop, victim);
    rxbuf_put(loop->server, loop, victim->rx);
    victim->rx = NULL;
    victim->rx_start = victim->rx_end = 0;
    return true;
}

static void ask_others(struct loop *loop, enum rank rank)
{
    struct rpc_server *server = loop->server;
    atomic_store(&server->half_wanted, (int)rank + 1);
    for (uint32_t i = 0; i < server->loop_count; i++) {
        if (&server->loops[i] != loop) {
            loop_wake(&server->loops[i]);
        }
    }
}

bool budget_take(struct loop *loop, struct conn *conn, uint32_t bytes)
{
    struct rpc_server *server = loop->server;
    enum rank rank = RANK_LARGE;

    if (bytes <= conn->half_charge) {
        return true;
    }
    if (!has_room(server, RANK_STRANGER, bytes)) {
        rank = rank_of(loop, conn); /* not asked while there is room for everybody */
    }
    while (!has_room(server, rank, bytes)) {
        if (make_room(loop, conn, rank, is_large(bytes))) {
            continue;
        }
        if (is_large(bytes)) {
            ask_others(loop, rank);
        }
        return false;
    }
    budget_give(loop, conn);
    conn->half_since_ms = loop->now_ms;
    conn->half_charge = bytes;
    atomic_fetch_add(&server->half_bytes[is_large(bytes)], bytes);
    return true;
}

void budget_give(struct loop *loop, struct conn *conn)
{
    if (conn->half_charge > 0) {
        atomic_fetch_sub(&loop->server->half_bytes[is_large(conn->half_charge)],
                         (int64_t)conn->half_charge);
        conn->half_charge = 0;
    }
}

void budget_wait(struct loop *loop, struct conn *conn, uint32_t bytes)
{
    conn->half_waits_for = bytes;
    conn->wait_next = NULL;
    *(loop->waiting_tail != NULL ? &loop->waiting_tail->wait_next : &loop->waiting_head) = conn;
    loop->waiting_tail = conn;
}

void budget_forget(struct loop *loop, struct conn *conn)
{
    struct conn *before = NULL;

    if (conn->half_waits_for == 0) {
        return;
    }
    for (struct conn **link = &loop->waiting_head; *link != conn; link = &before->wait_next) {
        before = *link;
    }
    *(before != NULL ? &before->wait_next : &loop->waiting_head) = conn->wait_next;
    if (loop->waiting_tail == conn) {
        loop->waiting_tail = before;
    }
    conn->half_waits_for = 0;
}

/* The first of the highest rank. */
static struct conn *first_waiting(struct loop *loop)
{
    struct conn *best = loop->waiting_head;
    for (struct conn *conn = best; conn != NULL; conn = conn->wait_next) {
        if (rank_of(loop, conn) > rank_of(loop, best)) {
            best = conn;
        }
    }
    return best;
}

void budget_retry(struct loop *loop)
{
    int wanted = atomic_exchange(&loop->server->half_wanted, 0);
    if (wanted > 0) {
        (void)make_room(loop, NULL, (enum rank)(wanted - 1), true);
    }
    for (struct conn *conn; (conn = first_waiting(loop)) != NULL;) {
        if (!budget_take(loop, conn, conn->half_waits_for)) {
            return;
        }
        budget_forget(loop, conn);
        conn_resume(loop, conn);
    }
}
