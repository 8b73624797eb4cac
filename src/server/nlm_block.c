/* SPDX-License-Identifier: Apache-2.0 */
#include "server/nlm_block.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AGAIN_MS_MIN 5000
#define AGAIN_MS_MAX 60000
/* Less than the sender's first timeout: in this time a call was sent once. */
#define FIRST_COPY_MS 900

enum block_state { BLOCK_WAITING, BLOCK_GRANTING, BLOCK_DONE };

struct nlm_block {
    struct vfs_range_waiter waiter;
    struct nlm_service *service;
    struct nlm_block *next, **at; /* service->granting */
    uint32_t user_count;          /* a call under way, and whoever looks at it */
    enum block_state state;
    bool is_calling;
    uint32_t call_count;
    int64_t called_ms, due_ms, again_ms;
    uint64_t id; /* the cookie */
    uint64_t life;
    uint32_t vers;
    bool is_msg, is_tcp;
    uint8_t local[16];
    struct machine machine;
    struct vfs_handle handle;
    struct vfs_range range;
    struct vfs_range_owner owner;
    union {
        struct nlm_testargs narrow;
        struct nlm4_testargs wide;
    } args;
    uint8_t memory[]; /* client, owner, caller_name, fh, oh */
};

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* ---- the end; service->lock is held ---- */

/* Nobody needs to be told any more. To be let go of. */
static void done(struct nlm_block *block)
{
    *block->at = block->next;
    if (block->next != NULL) {
        block->next->at = block->at;
    }
    block->state = BLOCK_DONE;
}

static void let_go(struct nlm_block *block)
{
    if (block->state == BLOCK_DONE && block->user_count == 0) {
        free(block);
    }
}

/* ---- telling ---- */

static void call_client(struct nlm_block *block);

static bool wanted(void *owner)
{
    struct nlm_block *block = owner;
    pthread_mutex_lock(&block->service->lock);
    bool is_wanted = block->state == BLOCK_GRANTING;
    pthread_mutex_unlock(&block->service->lock);
    return is_wanted;
}

static void call_later(struct nlm_block *block)
{
    block->again_ms = block->again_ms == 0                 ? AGAIN_MS_MIN
                      : block->again_ms * 2 > AGAIN_MS_MAX ? AGAIN_MS_MAX
                                                           : block->again_ms * 2;
    block->due_ms = clock_ms() + block->again_ms;
}

/* The client says no. service->lock is held, and let go of for a while; the caller is a user. */
static void refused(struct nlm_block *block, bool is_first_copy)
{
    struct nlm_service *service = block->service;
    done(block);
    if (is_first_copy) {
        pthread_mutex_unlock(&service->lock);
        (void)vfs_range_take_back(service->vfs, &block->handle, &block->owner, &block->range,
                                  block->life);
        pthread_mutex_lock(&service->lock);
    }
}

/* What the client said; nlm_stats and nlm4_stats agree here. */
static void answered(struct nlm_block *block, uint32_t stat, bool is_first_copy)
{
    if (stat == NLM4_DENIED_GRACE_PERIOD) {
        call_later(block);
    } else if (stat == NLM4_GRANTED) {
        done(block);
    } else {
        refused(block, is_first_copy);
    }
}

static void called(void *owner, const struct rpc_outcall_end *end)
{
    struct nlm_block *block = owner;
    struct nlm_service *service = block->service;

    vfs_thread_begin();
    pthread_mutex_lock(&service->lock);
    block->is_calling = false;
    if (block->state == BLOCK_GRANTING) {
        if (end->error == -ECANCELED || end->error == -EAGAIN || block->is_msg) {
            call_later(block); /* of a _MSG the answer is another call */
        } else if (end->error != 0) {
            refused(block, true); /* it has no such procedure */
        } else {
            uint32_t stat = block->vers == NLM4_VERS
                                ? (uint32_t)((const struct nlm4_res *)end->res)->stat.stat
                                : (uint32_t)((const struct nlm_res *)end->res)->stat.stat;
            answered(block, stat, block->call_count == 1 && end->transmissions == 1);
        }
    }
    block->user_count--;
    let_go(block);
    pthread_mutex_unlock(&service->lock);
}

/* service->lock is held. */
static void call_client(struct nlm_block *block)
{
    const struct rpc_outcaller *outcaller = &block->service->outcaller;
    struct rpc_outcall call = {.is_tcp = block->is_tcp,
                               .prog = NLM_PROG,
                               .vers = block->vers,
                               .proc = block->is_msg ? NLMPROC4_GRANTED_MSG : NLMPROC4_GRANTED,
                               .args = &block->args,
                               .once = block->is_msg,
                               .wanted = wanted,
                               .ended = called,
                               .owner = block};
    machine_sockaddr(block->machine.address, block->machine.scope, &call.to);
    machine_sockaddr(block->local, block->machine.scope, &call.from);
    block->called_ms = clock_ms();
    if (outcaller->submit(outcaller->arg, &call) != 0) {
        call_later(block);
        return;
    }
    block->call_count++;
    block->is_calling = true;
    block->user_count++;
}

/* ---- what becomes of a waiter; vfs's lock is held ---- */

static void granted(struct vfs_range_waiter *waiter, uint64_t life)
{
    struct nlm_block *block = CONTAINER_OF(waiter, struct nlm_block, waiter);
    struct nlm_service *service = block->service;

    pthread_mutex_lock(&service->lock);
    block->life = life;
    block->state = BLOCK_GRANTING;
    block->next = service->granting;
    block->at = &service->granting;
    if (block->next != NULL) {
        block->next->at = &block->next;
    }
    service->granting = block;
    call_client(block);
    pthread_mutex_unlock(&service->lock);
}

static void dropped(struct vfs_range_waiter *waiter)
{
    nlm_block_free(CONTAINER_OF(waiter, struct nlm_block, waiter));
}

/* ---- the contract ---- */

static void *append(uint8_t **memory, const void *bytes, uint32_t size)
{
    void *copy = *memory;
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    *memory += size;
    return copy;
}

static struct xdr_bytes append_bytes(uint8_t **memory, struct xdr_bytes bytes)
{
    return (struct xdr_bytes){append(memory, bytes.data, bytes.size), bytes.size};
}

/* The arguments of GRANTED: those of the LOCK, with a cookie of ours. */
static void fill_args(struct nlm_block *block, const struct nlm4_lock *lock, uint8_t **memory)
{
    struct nlm4_lock copy = *lock;
    copy.caller_name = append_bytes(memory, lock->caller_name);
    copy.fh = append_bytes(memory, lock->fh);
    copy.oh = append_bytes(memory, lock->oh);
    block->machine.name = copy.caller_name;
    struct xdr_bytes cookie = {(const uint8_t *)&block->id, sizeof block->id};
    if (block->vers == NLM4_VERS) {
        block->args.wide = (struct nlm4_testargs){
            .cookie = cookie, .exclusive = block->range.exclusive, .alock = copy};
        return;
    }
    block->args.narrow = (struct nlm_testargs){.cookie = cookie,
                                               .exclusive = block->range.exclusive,
                                               .alock = {.caller_name = copy.caller_name,
                                                         .fh = copy.fh,
                                                         .oh = copy.oh,
                                                         .svid = copy.svid,
                                                         .l_offset = (uint32_t)copy.l_offset,
                                                         .l_len = (uint32_t)copy.l_len}};
}

struct nlm_block *nlm_block_new(struct nlm_service *service, const struct rpc_call *call,
                                const struct nlm4_lock *lock, const struct nlm_lock_asked *asked,
                                bool is_msg)
{
    const struct vfs_range_owner *owner = &asked->owner;
    size_t size = owner->client.size + owner->name.size + lock->caller_name.size + lock->fh.size +
                  lock->oh.size;
    struct nlm_block *block = calloc(1, sizeof *block + size);
    if (block == NULL) {
        return NULL;
    }
    uint8_t *memory = block->memory;
    block->waiter = (struct vfs_range_waiter){granted, dropped};
    block->service = service;
    block->vers = call->vers;
    block->is_msg = is_msg;
    block->is_tcp = call->peer->is_tcp;
    memcpy(block->local, call->peer->local_address, sizeof block->local);
    block->machine = asked->machine;
    block->range = asked->range;
    vfs_node_handle(&asked->node, &block->handle);
    block->owner = *owner;
    block->owner.client.data = append(&memory, owner->client.data, owner->client.size);
    block->owner.name.data = append(&memory, owner->name.data, owner->name.size);
    pthread_mutex_lock(&service->lock);
    block->id = ++service->block_id;
    pthread_mutex_unlock(&service->lock);
    fill_args(block, lock, &memory);
    return block;
}

struct vfs_range_waiter *nlm_block_waiter(struct nlm_block *block)
{
    return block != NULL ? &block->waiter : NULL;
}

void nlm_block_free(struct nlm_block *block)
{
    if (block != NULL) {
        struct nlm_service *service = block->service;
        pthread_mutex_lock(&service->lock);
        block->state = BLOCK_DONE;
        let_go(block);
        pthread_mutex_unlock(&service->lock);
    }
}

static bool same_bytes(struct vfs_bytes a, struct vfs_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static bool same_owner(const struct nlm_block *block, const struct nlm_lock_asked *asked,
                       const struct vfs_handle *handle)
{
    return block->handle.size == handle->size &&
           memcmp(block->handle.bytes, handle->bytes, handle->size) == 0 &&
           same_bytes(block->owner.client, asked->owner.client) &&
           same_bytes(block->owner.name, asked->owner.name);
}

static bool same_range(const struct vfs_range *a, const struct vfs_range *b)
{
    return a->exclusive == b->exclusive && a->start == b->start && a->end == b->end;
}

/* The lock that an owner is being told of; service->lock is held. */
static struct nlm_block *find(struct nlm_service *service, const struct nlm_lock_asked *asked)
{
    struct vfs_handle handle;
    vfs_node_handle(&asked->node, &handle);
    struct nlm_block *block = service->granting;
    while (block != NULL &&
           !(same_owner(block, asked, &handle) && same_range(&block->range, &asked->range))) {
        block = block->next;
    }
    return block;
}

void nlm_block_settle(struct nlm_service *service, const struct nlm_lock_asked *asked)
{
    pthread_mutex_lock(&service->lock);
    struct nlm_block *block = find(service, asked);
    if (block != NULL) {
        done(block);
        let_go(block);
    }
    pthread_mutex_unlock(&service->lock);
}

void nlm_block_forget(struct nlm_service *service, const struct nlm_lock_asked *asked)
{
    struct vfs_handle handle;
    vfs_node_handle(&asked->node, &handle);
    pthread_mutex_lock(&service->lock);
    for (struct nlm_block *block = service->granting; block != NULL;) {
        struct nlm_block *next = block->next;
        if (block->range.start <= asked->range.end && asked->range.start <= block->range.end &&
            same_owner(block, asked, &handle)) {
            done(block);
            let_go(block);
        }
        block = next;
    }
    pthread_mutex_unlock(&service->lock);
}

bool nlm_block_cancel(struct nlm_service *service, const struct nlm_lock_asked *asked)
{
    pthread_mutex_lock(&service->lock);
    struct nlm_block *block = find(service, asked);
    bool found = block != NULL;
    if (found) {
        block->user_count++;
        refused(block, true); /* the client says so itself, and not in answer to anything */
        block->user_count--;
        let_go(block);
    }
    pthread_mutex_unlock(&service->lock);
    return found;
}

void nlm_block_forget_client(struct nlm_service *service, struct vfs_bytes client, uint32_t state)
{
    pthread_mutex_lock(&service->lock);
    for (struct nlm_block *block = service->granting; block != NULL;) {
        struct nlm_block *next = block->next;
        bool is_meant = client.size == 0 || same_bytes(block->owner.client, client);
        if (is_meant && (state == 0 || block->owner.state != state)) {
            done(block);
            let_go(block);
        }
        block = next;
    }
    pthread_mutex_unlock(&service->lock);
}

void nlm_block_answered(struct nlm_service *service, const struct rpc_peer *peer,
                        struct xdr_bytes cookie, uint32_t stat)
{
    struct machine machine;
    uint64_t id = 0;

    if (cookie.size != sizeof id) {
        return;
    }
    memcpy(&id, cookie.data, sizeof id);
    machine_of_peer(peer, (struct xdr_bytes){0}, &machine);
    pthread_mutex_lock(&service->lock);
    struct nlm_block *block = service->granting;
    while (block != NULL && (block->id != id || memcmp(block->machine.address, machine.address,
                                                       sizeof machine.address) != 0)) {
        block = block->next;
    }
    if (block != NULL) {
        block->user_count++;
        answered(block, stat,
                 block->call_count == 1 && clock_ms() - block->called_ms < FIRST_COPY_MS);
        block->user_count--;
        let_go(block);
    }
    pthread_mutex_unlock(&service->lock);
}

void nlm_block_tick(struct nlm_service *service)
{
    int64_t now_ms = clock_ms();
    pthread_mutex_lock(&service->lock);
    for (struct nlm_block *block = service->granting; block != NULL; block = block->next) {
        if (!block->is_calling && now_ms >= block->due_ms) {
            call_client(block);
        }
    }
    pthread_mutex_unlock(&service->lock);
}
