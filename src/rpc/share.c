/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many threads the blocked calls of one client may hold.
 *
 * A procedure that blocks keeps its thread, and the loop goes on with another one; threads are
 * bounded. A client whose calls all wait for the same slow file would take them all, and everybody
 * would wait for that file. So a client has no more calls blocked than half of the threads that are
 * then left: the first takes a third of all, the second half of what remains, and there is always
 * one for who has none. Who has its share is not read until a call of its comes back; over UDP,
 * where nobody can be held back, its calls are dropped, and it will ask again.
 *
 * Clients are told apart by a hash of their address. Two with the same one share.
 */
#include "rpc/internal.h"

#include <xxhash.h>

static atomic_uint *slot_of(struct rpc_server *server, const struct rpc_peer *peer)
{
    XXH64_hash_t hash = peer->address.sa.sa_family == AF_INET6
                            ? XXH3_64bits(&peer->address.in6.sin6_addr, 16)
                            : XXH3_64bits(&peer->address.in.sin_addr, 4);
    return &server->blocked_by[hash % BLOCKED_SLOT_COUNT];
}

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
