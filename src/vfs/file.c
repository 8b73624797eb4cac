/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File data: READ, WRITE, COMMIT.
 *
 * A read is cut at the size that the attributes of the same reply tell, so that count, eof and size
 * never contradict each other. Large reads of what the page cache holds are not copied: the reply
 * names a part of the file, and the transport sends it from there.
 */
#include "vfs/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* From here on a copy into the reply costs more than naming the file. */
#define READ_COPY_BYTES_MAX (32U * 1024)
#define PAGE_BYTES 4096U
#define PROBE_STEP_BYTES (256U * 1024)

/* Where cachestat(2) is missing or not allowed (it wants write permission): reads that would wait
 * for the disk say so. A few bytes stand for the rest. */
static bool seems_cached(int fd, uint64_t offset, uint32_t size)
{
    uint8_t byte;
    struct iovec one = {.iov_base = &byte, .iov_len = 1};
    for (uint64_t at = 0; at < size; at += PROBE_STEP_BYTES) {
        if (preadv2(fd, &one, 1, (off_t)(offset + at), RWF_NOWAIT) != 1) {
            return false;
        }
    }
    return preadv2(fd, &one, 1, (off_t)(offset + size - 1), RWF_NOWAIT) == 1;
}

/* Whether sending the range from the page cache would wait for no disk. */
static bool is_cached(int fd, uint64_t offset, uint32_t size)
{
    struct cache_range range = {.offset = offset, .size = size};
    struct cache_state state;
    if (syscall(SYS_cachestat, fd, &range, &state, 0) != 0) {
        return seems_cached(fd, offset, size);
    }
    uint64_t pages = (offset + size - 1) / PAGE_BYTES - offset / PAGE_BYTES + 1;
    return state.cached >= pages;
}

static ssize_t read_all(int fd, uint8_t *bytes, size_t size, uint64_t offset)
{
    size_t got = 0;
    while (got < size) {
        ssize_t n = pread(fd, bytes + got, size - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return got > 0 ? (ssize_t)got : -errno;
        }
        if (n == 0) {
            break;
        }
        got += (size_t)n;
    }
    return (ssize_t)got;
}

/* Reads into buffer, or memory of its own where that is too small. */
static int read_bytes(int fd, uint64_t offset, uint32_t size, uint8_t *buffer,
                      uint32_t buffer_bytes, struct vfs_data *data)
{
    uint8_t *bytes = buffer;
    if (size > buffer_bytes) {
        bytes = malloc(size);
        if (bytes == NULL) {
            return -ENOMEM;
        }
        data->release = free;
        data->owner = bytes;
    }
    ssize_t got = read_all(fd, bytes, size, offset);
    if (got < 0) {
        if (data->release != NULL) {
            data->release(data->owner);
            data->release = NULL;
        }
        return (int)got;
    }
    data->bytes = bytes;
    data->size = (uint32_t)got;
    return 0;
}

/* RFC 1813 §3.3.6: only regular files are read. */
static int check_readable(struct vfs_call *call, struct vfs_node *node)
{
    int err = attr_of_node(call, node);
    if (err != 0) {
        return err;
    }
    if (node->attr.type != VFS_REG) {
        return node->attr.type == VFS_DIR ? -EISDIR : -EINVAL;
    }
    return access_data(call, node->object, &node->attr, VFS_MAY_READ);
}

int vfs_read(struct vfs_call *call, struct vfs_node *node, uint64_t offset, uint32_t count,
             uint8_t *buffer, uint32_t buffer_bytes, struct vfs_data *data)
{
    int fd;
    *data = (struct vfs_data){.fd = -1, .bytes = buffer};
    int err = check_readable(call, node);
    if (err == 0) {
        err = object_fd(node->object, OBJECT_READ, &fd);
    }
    if (err != 0) {
        return err;
    }
    uint64_t size = node->attr.size;
    uint64_t left = offset < size ? size - offset : 0;
    uint32_t want = count < left ? count : (uint32_t)left;
    data->eof = want == left;
    if (want == 0) {
        return 0;
    }
    if (want > READ_COPY_BYTES_MAX && is_cached(fd, offset, want)) {
        object_ref(node->object);
        data->bytes = NULL;
        data->fd = fd;
        data->offset = offset;
        data->size = want;
        data->release = object_release;
        data->owner = node->object;
        return 0;
    }
    err = read_bytes(fd, offset, want, buffer, buffer_bytes, data);
    if (err == 0 && data->size < want) {
        /* It was cut meanwhile. */
        err = attr_fresh(call, node->object, &node->attr);
        node->has_attr = err == 0;
        data->eof = true;
        err = 0;
    }
    attr_note_lsn(call, node->object);
    return err;
}

/* ---- writing ---- */

/* Only what the disk or a limit refuses is left out. */
static int write_all(int fd, const uint8_t *bytes, uint32_t size, uint64_t offset,
                     uint32_t *written)
{
    *written = 0;
    while (*written < size) {
        ssize_t n = pwrite(fd, bytes + *written, size - *written, (off_t)(offset + *written));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return *written > 0 ? 0 : -errno;
        }
        *written += (uint32_t)n;
    }
    return 0;
}

static int write_locked(struct vfs_call *call, struct vfs_node *node, int fd, uint64_t offset,
                        struct vfs_bytes bytes, uint32_t *written)
{
    int err = access_data(call, node->object, &node->before, VFS_MAY_WRITE);
    if (err == 0) {
        err = write_all(fd, bytes.data, bytes.size, offset, written);
    }
    if (err == -EIO) {
        vfs_lost(call->vfs);
    }
    return err;
}

/* What was written unstable is remembered as one range. */
static void note_unstable(struct vfs_object *object, uint64_t offset, uint32_t size)
{
    struct object_dirty *unstable = &object->unstable;
    uint64_t end = offset + size;
    unstable->begin = unstable->end == 0 || offset < unstable->begin ? offset : unstable->begin;
    unstable->end = end > unstable->end ? end : unstable->end;
    if (!atomic_load_explicit(&object->dirty, memory_order_relaxed)) {
        atomic_store(&object->dirty, true);
    }
}

/* Small data goes into the log; of much the file is synced, and the log says so. */
static void note_stable(struct change *change, uint64_t offset, const uint8_t *bytes, uint32_t size)
{
    struct vfs_node *node = change->nodes[0];
    if (size <= node->export->intent->speed.write_bytes_max) {
        change_data(change, 0, offset, bytes, size);
    } else {
        change_sync_data(change, 0);
        node->object->unstable = (struct object_dirty){.known = true};
    }
    change->has_state[0] = true;
}

int vfs_write(struct vfs_call *call, struct vfs_node *node, uint64_t offset, const uint8_t *bytes,
              uint32_t size_bytes, enum vfs_stable stable, uint32_t *written,
              enum vfs_stable *committed)
{
    struct change change;
    int fd;
    *written = 0;
    *committed = stable;
    if (!call->options->rw) {
        return -EROFS;
    }
    if (offset > INT64_MAX || size_bytes > INT64_MAX - offset) {
        return -EFBIG;
    }
    bool is_stable = stable != VFS_UNSTABLE && size_bytes > 0;
    int err = object_fd(node->object, OBJECT_WRITE, &fd);
    if (err == 0) {
        err = change_begin(&change, call, &node, 1, is_stable ? JOURNAL_OP_WRITE : JOURNAL_OP_NONE);
    }
    if (err != 0) {
        return err;
    }
    /* What a sync export has journaled is not dirty, but an earlier write may be. */
    if (!change.journaled) {
        note_unstable(node->object, offset, size_bytes);
    }
    err = write_locked(call, node, fd, offset, (struct vfs_bytes){bytes, size_bytes}, written);
    if (err == 0 && change.logged) {
        note_stable(&change, offset, bytes, *written);
    }
    return change_end(&change, err, stable == VFS_DATA_SYNC ? JOURNAL_FDATASYNC : JOURNAL_FSYNC);
}

/* Little data is copied from the page cache into the log; the kernel writes it back in its own
 * time. True: done, or there was nothing to do. */
static bool commit_little(struct change *change, int fd, uint8_t *buffer)
{
    const struct vfs_node *node = change->nodes[0];
    struct object_dirty *unstable = &node->object->unstable;
    uint64_t end = unstable->end < node->before.size ? unstable->end : node->before.size;
    if (!unstable->known) {
        return false;
    }
    if (end > unstable->begin) {
        uint64_t size = end - unstable->begin;
        if (size > node->export->intent->speed.write_bytes_max ||
            read_all(fd, buffer, (size_t)size, unstable->begin) != (ssize_t)size) {
            return false;
        }
        change_data(change, 0, unstable->begin, buffer, (uint32_t)size);
    }
    *unstable = (struct object_dirty){.known = true};
    return true;
}

static void note_commit(struct change *change, int fd, uint8_t *buffer)
{
    struct vfs_object *object = change->nodes[0]->object;
    atomic_store(&object->dirty, false);
    change->has_state[0] = true;
    if (change->logged && !commit_little(change, fd, buffer)) {
        change_sync_data(change, 0);
        object->unstable = (struct object_dirty){.known = true};
    }
}

/* RFC 1813 §3.3.21. The range is a hint: the whole file is made durable, with its attributes, since
 * a client that keeps old data under an old mtime would not notice the change after a crash. */
int vfs_commit(struct vfs_call *call, struct vfs_node *node, uint64_t offset, uint32_t count)
{
    static _Thread_local uint8_t buffer[JOURNAL_DATA_BYTES_MAX];
    struct change change;
    int fd;
    (void)offset;
    (void)count;
    int err = object_fd(node->object, OBJECT_READ, &fd);
    if (err == 0 && atomic_load(&node->object->type) != VFS_REG) {
        err = -EINVAL;
    }
    if (err == 0) {
        err = change_begin(&change, call, &node, 1, JOURNAL_OP_COMMIT);
    }
    if (err != 0) {
        return err;
    }
    if (change.journaled) {
        note_commit(&change, fd, buffer);
    }
    return change_end(&change, 0, JOURNAL_FSYNC);
}
