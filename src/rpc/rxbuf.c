/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receive buffers: small ones kept by each loop, large ones (a whole record) shared by all. A
 * connection holds one only while bytes are in it, so idle connections cost none.
 */
#include "rpc/internal.h"

#include <stdlib.h>

static struct rxbuf *rxbuf_new(uint32_t capacity)
{
    struct rxbuf *rx = malloc(sizeof *rx + capacity);
    if (rx != NULL) {
        rx->capacity = capacity;
        rx->next = NULL;
        atomic_init(&rx->references, 1);
    }
    return rx;
}

struct rxbuf *rxbuf_small(struct loop *loop)
{
    struct rxbuf *rx = loop->spare_small;
    if (rx == NULL) {
        return rxbuf_new(RX_SMALL_BYTES);
    }
    loop->spare_small = rx->next;
    loop->spare_small_count--;
    rx->next = NULL;
    atomic_store_explicit(&rx->references, 1, memory_order_relaxed);
    return rx;
}

struct rxbuf *rxbuf_large(struct rpc_server *server)
{
    pthread_mutex_lock(&server->large_lock);
    struct rxbuf *rx = server->spare_large;
    if (rx != NULL) {
        server->spare_large = rx->next;
        server->spare_large_count--;
    }
    pthread_mutex_unlock(&server->large_lock);
    if (rx == NULL) {
        return rxbuf_new(server->large_bytes);
    }
    rx->next = NULL;
    atomic_store_explicit(&rx->references, 1, memory_order_relaxed);
    return rx;
}

void rxbuf_get(struct rxbuf *rx)
{
    atomic_fetch_add_explicit(&rx->references, 1, memory_order_relaxed);
}

static bool keep_large(struct rpc_server *server, struct rxbuf *rx)
{
    pthread_mutex_lock(&server->large_lock);
    bool keep = server->spare_large_count < RX_SPARE_COUNT_MAX;
    if (keep) {
        rx->next = server->spare_large;
        server->spare_large = rx;
        server->spare_large_count++;
    }
    pthread_mutex_unlock(&server->large_lock);
    return keep;
}

void rxbuf_put(struct rpc_server *server, struct loop *loop, struct rxbuf *rx)
{
    if (rx == NULL || atomic_fetch_sub_explicit(&rx->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (rx->capacity > RX_SMALL_BYTES) {
        if (!keep_large(server, rx)) {
            free(rx);
        }
    } else if (loop != NULL && loop->spare_small_count < RX_SPARE_COUNT_MAX) {
        rx->next = loop->spare_small;
        loop->spare_small = rx;
        loop->spare_small_count++;
    } else {
        free(rx);
    }
}

static void free_list(struct rxbuf *rx)
{
    while (rx != NULL) {
        struct rxbuf *next = rx->next;
        free(rx);
        rx = next;
    }
}

void rxbuf_free_spares(struct rpc_server *server)
{
    for (uint32_t i = 0; i < server->loop_count; i++) {
        free_list(server->loops[i].spare_small);
        server->loops[i].spare_small = NULL;
    }
    free_list(server->spare_large);
    server->spare_large = NULL;
}
