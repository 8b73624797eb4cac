/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What replay of a log would do to file systems, without doing any of it: the same code, with eyes
 * only. For a command, not for a server: needs root, and that no server uses the log.
 */
#ifndef VFS_REHEARSE_H
#define VFS_REHEARSE_H

#include "base/err.h"
#include "journal/log.h"

enum vfs_step {
    VFS_STEP_STAGE,      /* a name goes: it leads to what it led to earlier */
    VFS_STEP_PLACE,      /* a name comes: the object was still in the pool, or is staged */
    VFS_STEP_LINK,       /* a name comes: one more of an object that has others */
    VFS_STEP_DATA,       /* bytes are written, the size is set */
    VFS_STEP_ATTRIBUTES, /* owner, mode, times */
    VFS_STEP_COUNT
};

/* path is where the object is now, or the name is or comes; good during the call. */
typedef void vfs_step_tell(void *arg, enum vfs_step step, const char *path, uint64_t bytes);

struct vfs_rehearsal {
    /* Directories of the exports whose changes are in the log; those that the log names are looked
     * for besides. */
    const char *const *dirs;
    uint32_t dir_count;
    vfs_step_tell *tell;
    void *arg;
    uint64_t record_count; /* result: what replay starts from */
};

/* 0: replay would succeed. -EUCLEAN, -EPROTONOSUPPORT, -EXDEV (of an export that was not found),
 * and others: it would be refused, with that text. */
int vfs_rehearse(struct journal_log *log, struct vfs_rehearsal *rehearsal,
                 struct err *err) MUST_USE;

#endif
