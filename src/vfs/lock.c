/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of objects, striped: an object's lock is one of a fixed table, chosen by file system and
 * kernel handle, so that an object reached through two exports has one lock.
 */
#include "vfs/internal.h"

#include <string.h>

uint16_t lock_index_of(const struct vfs *vfs, const struct vfs_export *export,
                       const struct vfs_handle *handle)
{
    uint8_t bytes[sizeof export->dev + HANDLE_KERNEL_BYTES_MAX];
    size_t size = handle->size - HANDLE_HEAD_BYTES - HANDLE_MAC_BYTES;
    memcpy(bytes, &export->dev, sizeof export->dev);
    memcpy(bytes + sizeof export->dev, handle->bytes + HANDLE_HEAD_BYTES, size);
    return (uint16_t)(siphash(vfs->state.key, bytes, sizeof export->dev + size) % LOCK_COUNT);
}

void lock_add(struct lock_set *set, const struct vfs_object *object)
{
    uint32_t at = set->count;
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->index[i] == object->lock_index) {
            return;
        }
    }
    CHECK_OP(set->count, <, LOCK_SET_MAX);
    while (at > 0 && set->index[at - 1] > object->lock_index) {
        set->index[at] = set->index[at - 1];
        at--;
    }
    set->index[at] = object->lock_index;
    set->count++;
}

void lock_begin(struct vfs *vfs, const struct lock_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        pthread_mutex_lock(&vfs->locks[set->index[i]]);
    }
}

void lock_end(struct vfs *vfs, const struct lock_set *set)
{
    for (uint32_t i = set->count; i > 0; i--) {
        pthread_mutex_unlock(&vfs->locks[set->index[i - 1]]);
    }
}
