/* SPDX-License-Identifier: Apache-2.0 */
#include "server/nlm_share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct nlm_dos_share {
    struct nlm_dos_share *next;
    struct vfs_handle handle;
    enum fsh_mode mode;
    enum fsh_access access;
    struct vfs_bytes client, owner;
    uint8_t memory[];
};

static bool same_bytes(struct vfs_bytes a, struct vfs_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Handles end in a MAC, which nobody can choose. */
static struct nlm_dos_share **bucket_of(struct nlm_service *service,
                                        const struct vfs_handle *handle)
{
    uint32_t hash;
    memcpy(&hash, handle->bytes + handle->size - sizeof hash, sizeof hash);
    return &service->shares[hash % NLM_SHARE_BUCKET_COUNT];
}

static bool is_of_file(const struct nlm_dos_share *share, const struct vfs_handle *handle)
{
    return share->handle.size == handle->size &&
           memcmp(share->handle.bytes, handle->bytes, handle->size) == 0;
}

static bool is_of_owner(const struct nlm_dos_share *share, const struct nlm_lock_asked *asked)
{
    return same_bytes(share->client, asked->owner.client) &&
           same_bytes(share->owner, asked->owner.name);
}

static struct nlm_dos_share *share_new(const struct nlm_lock_asked *asked,
                                       const struct vfs_handle *handle)
{
    const struct vfs_range_owner *owner = &asked->owner;
    struct nlm_dos_share *share = calloc(1, sizeof *share + owner->client.size + owner->name.size);
    if (share != NULL) {
        share->handle = *handle;
        memcpy(share->memory, owner->client.data, owner->client.size);
        memcpy(share->memory + owner->client.size, owner->name.data, owner->name.size);
        share->client = (struct vfs_bytes){share->memory, owner->client.size};
        share->owner = (struct vfs_bytes){share->memory + owner->client.size, owner->name.size};
    }
    return share;
}

/* The owner's own share, or NULL, in *mine. fsm_* and fsa_* have the same bits. */
static int look(struct nlm_dos_share *share, const struct nlm_lock_asked *asked,
                const struct vfs_handle *handle, enum fsh_mode mode, enum fsh_access access,
                struct nlm_dos_share **mine)
{
    uint32_t count = 0;
    *mine = NULL;
    for (; share != NULL; share = share->next) {
        if (!is_of_file(share, handle)) {
            continue;
        }
        count++;
        if (is_of_owner(share, asked)) {
            *mine = share;
        } else if (((unsigned)share->access & (unsigned)mode) != 0 ||
                   ((unsigned)share->mode & (unsigned)access) != 0) {
            return -EAGAIN;
        }
    }
    return *mine == NULL && count >= NLM_SHARE_FILE_COUNT_MAX ? -ENOLCK : 0;
}

int nlm_share_set(struct nlm_service *service, const struct nlm_lock_asked *asked,
                  enum fsh_mode mode, enum fsh_access access)
{
    struct vfs_handle handle;
    struct nlm_dos_share *share = NULL;
    vfs_node_handle(&asked->node, &handle);
    pthread_mutex_lock(&service->lock);
    struct nlm_dos_share **bucket = bucket_of(service, &handle);
    int err = look(*bucket, asked, &handle, mode, access, &share);
    if (err == 0 && share == NULL) {
        share = service->share_count < NLM_SHARE_COUNT_MAX ? share_new(asked, &handle) : NULL;
        if (share != NULL) {
            share->next = *bucket;
            *bucket = share;
            service->share_count++;
        } else {
            err = -ENOLCK;
        }
    }
    if (err == 0) {
        share->mode = mode;
        share->access = access;
    }
    pthread_mutex_unlock(&service->lock);
    return err;
}

static void remove_at(struct nlm_service *service, struct nlm_dos_share **at)
{
    struct nlm_dos_share *share = *at;
    *at = share->next;
    service->share_count--;
    free(share);
}

void nlm_share_clear(struct nlm_service *service, const struct nlm_lock_asked *asked)
{
    struct vfs_handle handle;
    vfs_node_handle(&asked->node, &handle);
    pthread_mutex_lock(&service->lock);
    struct nlm_dos_share **at = bucket_of(service, &handle);
    while (*at != NULL && !(is_of_file(*at, &handle) && is_of_owner(*at, asked))) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        remove_at(service, at);
    }
    pthread_mutex_unlock(&service->lock);
}

void nlm_share_release(struct nlm_service *service, struct vfs_bytes client)
{
    pthread_mutex_lock(&service->lock);
    for (uint32_t i = 0; i < NLM_SHARE_BUCKET_COUNT && service->share_count > 0; i++) {
        for (struct nlm_dos_share **at = &service->shares[i]; *at != NULL;) {
            if (client.size == 0 || same_bytes((*at)->client, client)) {
                remove_at(service, at);
            } else {
                at = &(*at)->next;
            }
        }
    }
    pthread_mutex_unlock(&service->lock);
}

bool nlm_share_is_busy(struct nlm_service *service, struct vfs_bytes client)
{
    bool found = false;
    pthread_mutex_lock(&service->lock);
    for (uint32_t i = 0; i < NLM_SHARE_BUCKET_COUNT && service->share_count > 0 && !found; i++) {
        const struct nlm_dos_share *share = service->shares[i];
        for (; share != NULL && !found; share = share->next) {
            found = same_bytes(share->client, client);
        }
    }
    pthread_mutex_unlock(&service->lock);
    return found;
}
