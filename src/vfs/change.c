/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame around every change: descriptors, identity, locks, attributes before and after,
 * journal.
 *
 * 1. before and after are read under the locks of all objects of the change, so between them lies
 *    this change and no other of this server's. Local processes take no part in our locks.
 * 2. A change that is to be durable is appended to the journal under the same locks, so journal
 * order is the order of changes that conflict.
 * 3. While a journaled change is under way its objects say LSN_PENDING, so that whoever sees the
 *    change waits for the number it gets (attr_note_lsn).
 */
#include "vfs/internal.h"

#include <errno.h>

/* The descriptors that are needed with root's identity: any, and for fsync a real one. */
static int open_fds(struct change *change)
{
    for (uint32_t i = 0; i < change->count; i++) {
        struct vfs_object *object = change->nodes[i]->object;
        int err = object_fd(object, OBJECT_PATH, &change->fds[i]);
        if (err == 0 && change->journaled) {
            int fd;
            err = object_fd(object, OBJECT_READ, &fd);
            err = err == -EINVAL ? 0 : err; /* a device or a link: item_of makes do */
        }
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

static bool seen_before(const struct change *change, uint32_t index, uint32_t *first)
{
    for (uint32_t i = 0; i < index; i++) {
        if (change->nodes[i]->object == change->nodes[index]->object) {
            *first = i;
            return true;
        }
    }
    return false;
}

static int read_before(struct change *change)
{
    for (uint32_t i = 0; i < change->count; i++) {
        struct vfs_node *node = change->nodes[i];
        uint32_t first;
        if (seen_before(change, i, &first)) {
            node->before = change->nodes[first]->before;
        } else {
            int err = attr_recent(change->call, node->object, &node->before);
            if (err != 0) {
                return err;
            }
        }
        node->has_before = true;
        /* Also what a caller learns if it fails later on. */
        node->attr = node->before;
        node->has_attr = true;
    }
    return 0;
}

static void read_after(struct change *change, int *err)
{
    for (uint32_t i = 0; i < change->count; i++) {
        struct vfs_node *node = change->nodes[i];
        uint32_t first;
        int error = 0;
        if (seen_before(change, i, &first)) {
            node->attr = change->nodes[first]->attr;
            node->has_attr = change->nodes[first]->has_attr;
        } else {
            error = attr_fresh(change->call, node->object, &node->attr);
            node->has_attr = error == 0;
        }
        if (error == -ESTALE && *err == -ENOENT) {
            *err = -ESTALE; /* the name is not there because its directory is gone */
        }
    }
}

int change_begin(struct change *change, struct vfs_call *call, struct vfs_node *const *nodes,
                 uint32_t count, bool journaled)
{
    *change = (struct change){.call = call, .count = count};
    change->journaled = journaled && call->options->sync;
    for (uint32_t i = 0; i < count; i++) {
        change->nodes[i] = nodes[i];
        nodes[i]->has_before = false;
        nodes[i]->has_attr = false;
    }
    int err = open_fds(change);
    if (err != 0) {
        return err;
    }
    cred_take(call);
    for (uint32_t i = 0; i < count; i++) {
        lock_add(&change->locks, nodes[i]->object);
    }
    lock_begin(call->vfs, &change->locks);
    err = read_before(change);
    if (err != 0) {
        lock_end(call->vfs, &change->locks);
        return err;
    }
    for (uint32_t i = 0; change->journaled && i < count; i++) {
        uint32_t first;
        if (!seen_before(change, i, &first)) {
            change->lsn_before[i] = atomic_exchange(&nodes[i]->object->lsn, LSN_PENDING);
        }
    }
    return 0;
}

void change_made(struct change *change, struct vfs_object *object)
{
    object_ref(object);
    change->made = object;
}

/* fsync where a descriptor allows it, else the whole file system. Takes a reference. */
static struct journal_item item_of(struct vfs_object *object, enum journal_how how)
{
    struct journal_item item = {.how = how, .release = object_release, .owner = object};
    object_ref(object);
    item.fd = atomic_load(&object->fds[OBJECT_WRITE]);
    if (item.fd < 0) {
        item.fd = atomic_load(&object->fds[OBJECT_READ]);
    }
    if (item.fd < 0) {
        item.fd = object->export->mount_fd;
        item.how = JOURNAL_SYNCFS;
    }
    return item;
}

static void append(struct change *change, enum journal_how how)
{
    struct journal_item items[CHANGE_NODES_MAX + 1];
    uint32_t count = 0;
    for (uint32_t i = 0; i < change->count; i++) {
        uint32_t first;
        if (!seen_before(change, i, &first)) {
            items[count++] = item_of(change->nodes[i]->object, how);
        }
    }
    if (change->made != NULL) {
        items[count++] = item_of(change->made, how);
    }
    uint64_t lsn = journal_append(change->call->vfs->journal, items, count);
    for (uint32_t i = 0; i < change->count; i++) {
        atomic_store(&change->nodes[i]->object->lsn, lsn);
    }
    if (change->made != NULL) {
        atomic_store(&change->made->lsn, lsn);
    }
    change->call->lsn = lsn;
}

static void restore_lsn(struct change *change)
{
    for (uint32_t i = 0; i < change->count; i++) {
        uint32_t first;
        if (!seen_before(change, i, &first)) {
            struct vfs_object *object = change->nodes[i]->object;
            atomic_store(&object->lsn, change->lsn_before[i]);
            /* A failure tells of the state it met. */
            if (change->lsn_before[i] > change->call->lsn &&
                change->lsn_before[i] > journal_settled(change->call->vfs->journal)) {
                change->call->lsn = change->lsn_before[i];
            }
        }
    }
}

int change_end(struct change *change, int err, enum journal_how how)
{
    struct vfs *vfs = change->call->vfs;
    if (change->made != NULL && change->journaled) {
        int fd;
        int error = object_fd(change->made, OBJECT_READ, &fd);
        (void)error; /* without one, item_of makes do */
    }
    read_after(change, &err);
    if (change->journaled && err == 0) {
        append(change, how);
    } else if (change->journaled) {
        restore_lsn(change);
    }
    lock_end(vfs, &change->locks);
    if (change->made != NULL) {
        object_put(change->made);
    }
    return err;
}
