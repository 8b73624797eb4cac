/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte-range locks of exported files at work: the table of vfs/range.h, the same locks taken from
 * the kernel, and waiters.
 *
 * 1. All protocols share one table. An owner is a client (opaque bytes, in which a protocol says
 *    who it is) and a name of that client's choice.
 * 2. What a client holds, the server holds in the kernel (fcntl(2), F_OFD_SETLK on one descriptor
 *    per file): programs on the server meet the locks of clients, and the other way round. Above
 *    2^63-1 there is only the table.
 * 3. A waiter that only a program on the server keeps waiting is tried again every so often, from
 *    RANGE_POLL_MS_MIN up to RANGE_POLL_MS_MAX: the kernel tells nobody that an open file
 *    description lock could be had, except a thread that sleeps in the call.
 * 4. At most half of the server's descriptors hold locks.
 * 5. A file stays open while it is locked, also when its last name goes.
 *
 * Functions may be called from any thread, as those of vfs/node.h.
 */
#ifndef VFS_RANGE_LOCK_H
#define VFS_RANGE_LOCK_H

#include "vfs/node.h"

#define RANGE_POLL_MS_MIN 20
#define RANGE_POLL_MS_MAX 1000
#define VFS_RANGE_NAME_BYTES_MAX 1100U /* of a client, and of an owner */

struct vfs_range_owner {
    struct vfs_bytes client;
    struct vfs_bytes name;
    /* Tells lives of a client apart that have no other sign; an owner whose state was another one
     * is a new owner, and the locks of the old one are gone. 0: not known. */
    uint32_t state;
};

struct vfs_range {
    bool exclusive;
    uint64_t start;
    uint64_t end; /* inclusive; UINT64_MAX: the end of the file, wherever that is */
};

/* Who is in the way. */
struct vfs_range_holder {
    struct vfs_range range;
    bool is_local;         /* a program on the server: */
    int32_t pid;           /* 0: not known */
    uint32_t client_bytes; /* or else an owner */
    uint32_t name_bytes;
    uint8_t client[VFS_RANGE_NAME_BYTES_MAX];
    uint8_t name[VFS_RANGE_NAME_BYTES_MAX];
};

/* Memory of the caller that waits. Exactly one of the two is called, once, on any thread and with
 * the table locked: neither may block, or call anything here. */
struct vfs_range_waiter {
    /* The owner has the lock. life is for vfs_range_take_back. */
    void (*granted)(struct vfs_range_waiter *waiter, uint64_t life);
    /* It waits no more: cancelled, asked again and granted, or its client's locks were released. */
    void (*dropped)(struct vfs_range_waiter *waiter);
};

/* Whether the lock could be had: 0, or -EAGAIN with the one in the way. Others: vfs_range_set. */
int vfs_range_test(struct vfs_call *call, struct vfs_node *node,
                   const struct vfs_range_owner *owner, const struct vfs_range *range,
                   struct vfs_range_holder *holder) MUST_USE;

/* Locks. waiter NULL: not to wait. Returns
 *   0             the owner has it;
 *   -EAGAIN       another has it, and there is nobody to wait;
 *   -EINPROGRESS  the waiter waits;
 *   -EALREADY     one for just this waits already: this waiter was not needed;
 *   -EDEADLK      the wait would be for the owner itself, round some corners;
 *   -ENOLCK       a limit, or the file system has no locks;
 *   -EROFS        an exclusive lock on what may not be written;
 *   -EACCES       the caller may not read the file (exports(5), secure_locks);
 *   -EISDIR, -EINVAL, -ESTALE, -ENOMEM, -EMFILE. */
int vfs_range_set(struct vfs_call *call, struct vfs_node *node, const struct vfs_range_owner *owner,
                  const struct vfs_range *range, struct vfs_range_waiter *waiter) MUST_USE;

/* Unlocks whatever of the range the owner holds, which may be nothing. 0 or -ENOMEM. */
int vfs_range_clear(struct vfs_call *call, struct vfs_node *node,
                    const struct vfs_range_owner *owner, const struct vfs_range *range) MUST_USE;

/* Ends the wait for just this. -ENOENT: nobody waits for it. */
int vfs_range_cancel(struct vfs_call *call, struct vfs_node *node,
                     const struct vfs_range_owner *owner, const struct vfs_range *range) MUST_USE;

/* Unlocks what a waiter was granted, unless its owner has locked or unlocked anything since.
 * Returns whether it did. */
bool vfs_range_take_back(struct vfs *vfs, const struct vfs_handle *handle,
                         const struct vfs_range_owner *owner, const struct vfs_range *range,
                         uint64_t life);

/* A client's locks and waiters go, except those of owners in this state (0: all go). */
void vfs_range_release(struct vfs *vfs, struct vfs_bytes client, uint32_t state);
void vfs_range_release_all(struct vfs *vfs);
/* Whether the client holds or waits for anything. */
bool vfs_range_client_is_busy(struct vfs *vfs, struct vfs_bytes client);

struct vfs_range_stats {
    uint32_t count;   /* locks and waiters */
    uint32_t waiting; /* waiters of them */
    uint32_t clients, files;
};
void vfs_range_stats(struct vfs *vfs, struct vfs_range_stats *stats);

#endif
