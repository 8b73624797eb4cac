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
 *    change waits for the number it gets (attr_note_lsn). Who can tell that they have not seen it
 *    do not wait: a change may be stuck in the file system for long.
 * 4. On an export with a log all changes are journaled, on an async export without waiting: replay
 *    must not put what an earlier record says in the place of a later change.
 */
#include "vfs/internal.h"

#include <errno.h>
#include <string.h>

/* The descriptors that are needed with root's identity: any, and for fsync a real one. */
static int open_fds(struct change *change)
{
    for (uint32_t i = 0; i < change->count; i++) {
        struct vfs_object *object = change->nodes[i]->object;
        int err = object_fd(object, OBJECT_PATH, &change->fds[i]);
        if (err == 0 && change->journaled && !change->logged) {
            int fd;
            err = object_fd(object, OBJECT_READ, &fd);
            /* A device or a link, or, where a plain user serves, what its owner may not read:
             * item_of makes do. */
            err = err == -EINVAL || err == -EACCES ? 0 : err;
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

static struct journal *journal_of(const struct change *change)
{
    return change->nodes[0]->export->intent->journal;
}

/* A change that will never be durable is not begun. */
static int admit(struct change *change, const struct vfs_export *export)
{
    struct journal *journal = export->intent->journal;
    change->logged = change->op != JOURNAL_OP_NONE && export->logged;
    change->journaled =
        change->logged || (change->op != JOURNAL_OP_NONE && change->call->options->sync);
    if (change->logged) {
        journal_admit(journal);
    }
    return change->journaled ? journal_error(journal) : 0;
}

int change_begin(struct change *change, struct vfs_call *call, struct vfs_node *const *nodes,
                 uint32_t count, enum journal_op op)
{
    change->call = call;
    change->op = op;
    change->count = count;
    change->record_count = 0;
    change->made = NULL;
    change->sync_nodes = false;
    change->sync_made = false;
    change->locks.count = 0;
    int err = admit(change, nodes[0]->export);
    if (err != 0) {
        return err;
    }
    for (uint32_t i = 0; i < count; i++) {
        change->nodes[i] = nodes[i];
        change->has_state[i] = false;
        change->lsn_before[i] = 0;
        nodes[i]->has_before = false;
        nodes[i]->has_attr = false;
    }
    err = open_fds(change);
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
            change->lsn_before[i] = attr_begin_change(nodes[i]->object, &nodes[i]->before);
        }
    }
    return 0;
}

void change_made(struct change *change, struct vfs_object *object)
{
    object_ref(object);
    change->made = object;
}

/* ---- records ---- */

static struct journal_time time_of(const struct timespec *time)
{
    return (struct journal_time){time->tv_sec, (uint32_t)time->tv_nsec};
}

static struct journal_record *record_new(struct change *change, enum journal_type type,
                                         const uint8_t *handle)
{
    CHECK_OP(change->record_count, <, CHANGE_RECORDS_MAX);
    struct journal_record *record = &change->records[change->record_count++];
    *record = (struct journal_record){
        .type = (uint8_t)type,
        .op = (uint8_t)change->op,
        .export_id = change->nodes[0]->export->id,
    };
    intent_object(handle, &record->object);
    return record;
}

void change_entry(struct change *change, uint32_t dir, const char *name,
                  const struct vfs_handle *now, const struct vfs_handle *before)
{
    if (!change->logged) {
        return;
    }
    change->record_dir[change->record_count] = (uint8_t)dir;
    struct journal_record *record =
        record_new(change, JOURNAL_ENTRY, change->nodes[dir]->object->handle);
    record->entry.name = (const uint8_t *)name;
    record->entry.name_bytes = (uint32_t)strlen(name);
    if (now != NULL) {
        intent_object(now->bytes, &record->entry.now);
    }
    if (before != NULL) {
        intent_object(before->bytes, &record->entry.before);
    }
}

void change_state(struct change *change, const uint8_t *handle, const struct vfs_attr *attr,
                  uint32_t nlink)
{
    static const uint8_t kinds[] = {
        [VFS_REG] = S_IFREG >> 12,  [VFS_DIR] = S_IFDIR >> 12, [VFS_BLK] = S_IFBLK >> 12,
        [VFS_CHR] = S_IFCHR >> 12,  [VFS_LNK] = S_IFLNK >> 12, [VFS_SOCK] = S_IFSOCK >> 12,
        [VFS_FIFO] = S_IFIFO >> 12,
    };
    if (!change->logged) {
        return;
    }
    record_new(change, JOURNAL_STATE, handle)->state = (struct journal_state){
        .nlink = nlink,
        .kind = kinds[attr->type],
        .mode = (uint16_t)attr->mode,
        .uid = attr->uid,
        .gid = attr->gid,
        .atime = time_of(&attr->atime),
        .mtime = time_of(&attr->mtime),
    };
}

void change_data(struct change *change, uint32_t node, uint64_t offset, const uint8_t *bytes,
                 uint32_t size_bytes)
{
    if (change->logged) {
        struct journal_record *record =
            record_new(change, JOURNAL_WRITE, change->nodes[node]->object->handle);
        record->write.offset = offset;
        record->write.bytes = bytes;
        record->write.size = size_bytes;
    }
}

void change_size(struct change *change, const uint8_t *handle, uint64_t size_bytes)
{
    if (change->logged) {
        record_new(change, JOURNAL_SIZE, handle)->size = size_bytes;
    }
}

void change_sync_data(struct change *change, uint32_t node)
{
    if (change->logged) {
        change->sync_nodes = true;
        (void)record_new(change, JOURNAL_SYNCED, change->nodes[node]->object->handle);
    }
}

/* What is known only when the change has been made. */
static void finish_records(struct change *change)
{
    uint32_t count = change->record_count;
    for (uint32_t i = 0; i < count; i++) {
        if (change->records[i].type == JOURNAL_ENTRY) {
            const struct vfs_node *dir = change->nodes[change->record_dir[i]];
            change->records[i].entry.dir_mtime = time_of(&dir->attr.mtime);
        }
    }
    for (uint32_t i = 0; i < change->count; i++) {
        const struct vfs_node *node = change->nodes[i];
        if (change->has_state[i] && node->has_attr) {
            change_state(change, node->object->handle, &node->attr, node->attr.nlink);
        }
    }
}

/* fsync where a descriptor allows it, else the whole file system. Takes a reference. */
static struct journal_item item_of(struct vfs_object *object, enum journal_how how)
{
    struct journal_item item = {.fd = -1, .how = how, .release = object_release, .owner = object};
    object_ref(object);
    if (how == JOURNAL_NOTHING) {
        return item;
    }
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

static uint32_t items_of(const struct change *change, enum journal_how how,
                         struct journal_item items[CHANGE_NODES_MAX + 1])
{
    uint32_t count = 0;
    bool logged = change->logged;
    for (uint32_t i = 0; i < change->count; i++) {
        uint32_t first;
        if (!seen_before(change, i, &first)) {
            items[count++] = item_of(change->nodes[i]->object,
                                     logged && !change->sync_nodes ? JOURNAL_NOTHING : how);
        }
    }
    if (change->made != NULL) {
        items[count++] =
            item_of(change->made, logged && !change->sync_made ? JOURNAL_NOTHING : how);
    }
    return count;
}

static uint32_t window_of(const struct vfs_call *call)
{
    const struct export_options *options = call->options;
    return options->has_async_window ? options->async_window_ms
                                     : call->vfs->options.async_window_ms;
}

static int append(struct change *change, enum journal_how how)
{
    struct journal_item items[CHANGE_NODES_MAX + 1];
    struct vfs_call *call = change->call;
    struct journal_change appended = {
        .items = items,
        .item_count = items_of(change, how, items),
        .records = change->records,
        .record_count = change->record_count,
        .lazy = !call->options->sync,
        .window_ms = window_of(call),
        .holds = call->replies,
    };
    uint64_t lsn = journal_append(journal_of(change), &appended);
    for (uint32_t i = 0; i < change->count; i++) {
        atomic_store(&change->nodes[i]->object->lsn, lsn);
    }
    if (change->made != NULL) {
        atomic_store(&change->made->lsn, lsn);
    }
    return call->options->sync ? intent_depend(call, change->nodes[0]->export, lsn) : 0;
}

static void restore_lsn(struct change *change)
{
    for (uint32_t i = 0; i < change->count; i++) {
        uint32_t first;
        if (!seen_before(change, i, &first)) {
            struct vfs_object *object = change->nodes[i]->object;
            atomic_store(&object->lsn, change->lsn_before[i]);
            /* A failure tells of the state it met. */
            if (change->call->options->sync &&
                change->lsn_before[i] > journal_settled(journal_of(change))) {
                int err = intent_depend(change->call, object->export, change->lsn_before[i]);
                (void)err;
            }
        }
    }
}

int change_end(struct change *change, int err, enum journal_how how)
{
    struct vfs *vfs = change->call->vfs;
    if (change->made != NULL && change->journaled && (!change->logged || change->sync_made)) {
        int fd;
        int error = object_fd(change->made, OBJECT_READ, &fd);
        (void)error; /* without one, item_of makes do */
    }
    read_after(change, &err);
    if (change->journaled && err == 0) {
        finish_records(change);
        err = append(change, how);
    } else if (change->journaled) {
        restore_lsn(change);
    }
    lock_end(vfs, &change->locks);
    if (change->made != NULL) {
        object_put(change->made);
    }
    return err;
}
