/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many threads the blocked calls of one client may hold, and how many connections it may have.
 *
 * A procedure that blocks keeps its thread, and the loop goes on with another one; threads are
 * bounded. A client whose calls all wait for the same slow file would take them all, and everybody
 * would wait for that file. So a client has no more calls blocked than half of the threads that are
 * then left: the first takes a third of all, the second half of what remains, and there is always
 * one for who has none. Who has its share is not read until a call of its comes back; over UDP,
 * where nobody can be held back, its calls are dropped, and it will ask again.
 *
 * Clients are told apart by a hash of their address, an IPv6 one's first half. Two with the same
 * hash share; its key is secret, so that nobody can choose an address to share with a victim.
 *
 * Connections are shared out in the same way: a client has no more than half of those that are then
 * left, a third of all at most. One more is closed at once, and its oldest quiet one makes room, if
 * it has one.
 */
#include "rpc/internal.h"

#include <xxhash.h>

#define LOOK_PAUSE_MS 100
#define LOOK_FOR_MS 2000

/* Who has one IPv6 address mostly has the 2^64 of its network. */
static uint64_t hash_of(const struct rpc_server *server, const struct rpc_peer *peer)
{
    return peer->address.sa.sa_family == AF_INET6
               ? XXH3_64bits_withSeed(&peer->address.in6.sin6_addr, 8, server->share_key)
               : XXH3_64bits_withSeed(&peer->address.in.sin_addr, 4, server->share_key);
}

static atomic_uint *slot_of(struct rpc_server *server, const struct rpc_peer *peer)
{
    return &server->blocked_by[hash_of(server, peer) % BLOCKED_SLOT_COUNT];
}

/* ---- connections ---- */

static uint32_t conn_slot_of(const struct rpc_server *server,
                             const struct sockaddr_storage *address)
{
    struct rpc_peer peer = {0};
    peer_set(&peer, address, true);
    return hash_of(server, &peer) % CONN_SLOT_COUNT;
}

uint32_t share_of(const struct rpc_server *server, const struct sockaddr_storage *address)
{
    return atomic_load(&server->conns_by[conn_slot_of(server, address)]);
}

bool share_has_room(struct rpc_server *server, const struct sockaddr_storage *address)
{
    uint32_t slot = conn_slot_of(server, address);
    uint32_t all = atomic_load(&server->conn_count);
    uint32_t most = server->options.connection_count_max;
    uint32_t theirs = atomic_load(&server->conns_by[slot]);
    bool has_room = theirs == 0 || theirs < (all < most ? most - all : 0) / 2;
    if (!has_room) {
        atomic_store(&server->reap_slot, slot + 1);
        atomic_store(&server->reap_slot_ms, loop_clock_ms());
    }
    return has_room;
}

bool share_looks(struct loop *loop)
{
    const struct rpc_server *server = loop->server;
    if (LIKELY(atomic_load_explicit(&server->reap_slot, memory_order_relaxed) == 0)) {
        return false;
    }
    bool looks = loop->now_ms >= loop->share_ms &&
                 loop->now_ms < atomic_load(&server->reap_slot_ms) + LOOK_FOR_MS;
    if (looks) {
        loop->share_ms = loop->now_ms + LOOK_PAUSE_MS;
    }
    return looks;
}

void share_count(struct rpc_server *server, struct conn *conn)
{
    conn->conn_slot = hash_of(server, &conn->peer) % CONN_SLOT_COUNT;
    atomic_fetch_add(&server->conns_by[conn->conn_slot], 1);
}

bool share_wants(const struct rpc_server *server, const struct conn *conn)
{
    return atomic_load(&server->reap_slot) == conn->conn_slot + 1;
}

void share_gave(struct rpc_server *server, const struct conn *conn)
{
    uint32_t wanted = conn->conn_slot + 1;
    atomic_compare_exchange_strong(&server->reap_slot, &wanted, 0);
}

/* ---- threads ---- */

void share_take(struct rpc_server *server, const struct rpc_peer *peer)
{
    atomic_fetch_add(slot_of(server, peer), 1);
    atomic_fetch_add(&server->blocked_count, 1);
}

void share_give(struct rpc_server *server, const struct rpc_peer *peer)
{
    atomic_fetch_sub(&server->blocked_count, 1);
    atomic_fetch_sub(slot_of(server, peer), 1);
}

bool share_is_used_up(struct rpc_server *server, const struct rpc_peer *peer)
{
    uint32_t blocked = atomic_load_explicit(&server->blocked_count, memory_order_relaxed);
    if (LIKELY(blocked == 0)) {
        return false;
    }
    uint32_t most = server->options.thread_count_max - server->loop_count;
    uint32_t left = blocked < most ? most - blocked : 0;
    uint32_t theirs = atomic_load_explicit(slot_of(server, peer), memory_order_relaxed);
    return theirs > 0 && theirs >= left / 2;
}

bool share_hold(struct loop *loop, struct conn *conn)
{
    if (LIKELY(!share_is_used_up(loop->server, &conn->peer))) {
        return false;
    }
    if (!conn->held) {
        conn->held = true;
        loop->held_count++;
    }
    return true;
}

void share_forget(struct loop *loop, struct conn *conn)
{
    if (conn->held) {
        conn->held = false;
        loop->held_count--;
    }
}

void share_retry(struct loop *loop)
{
    for (struct conn *conn = loop->oldest; conn != NULL && loop->held_count > 0;
         conn = conn->newer) {
        if (conn->held && !share_is_used_up(loop->server, &conn->peer)) {
            share_forget(loop, conn);
            conn_resume(loop, conn);
        }
    }
}
