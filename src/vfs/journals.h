/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journals of a server, for status: one without a log (groups of fsync), which is always there,
 * and those with one.
 */
#ifndef VFS_JOURNALS_H
#define VFS_JOURNALS_H

#include "journal/stats.h"
#include "vfs/node.h"

#define VFS_JOURNAL_COUNT_MAX 64U
#define VFS_JOURNAL_PATH_BYTES_MAX 4096U

struct vfs_journal_info {
    char path[VFS_JOURNAL_PATH_BYTES_MAX]; /* of the log; "": there is none */
    uint32_t export_count;                 /* whose changes go into the log */
    /* Measured when the log was opened: stable data up to here goes into the log, of more the file
     * is synced; a durable write of a block, and an fsync of so much. */
    uint32_t write_bytes_max;
    uint64_t measured_write_ns, measured_sync_ns;
    uint32_t pool_files, pool_dirs; /* made ahead and ready, now */
    struct journal_stats stats;
};

/* index: 0 (the one without a log) to VFS_JOURNAL_COUNT_MAX - 1. False: there is none of that
 * index, but perhaps of a higher one. Any thread; waits for no device. */
bool vfs_journal_info(struct vfs *vfs, uint32_t index, struct vfs_journal_info *info);

#endif
