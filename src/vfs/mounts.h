/* SPDX-License-Identifier: Apache-2.0 */
/* What is mounted where, as the process sees it. A snapshot; the caller's memory. */
#ifndef VFS_MOUNTS_H
#define VFS_MOUNTS_H

#include "base/check.h"

#include <stdbool.h>

struct mount {
    uint64_t id; /* as statx(2) has it, STATX_MNT_ID */
    uint64_t parent_id;
    char *path;
    bool is_autofs; /* a place where something may be mounted */
};

struct mounts {
    uint32_t count;
    struct mount *items;
};

/* fd: from mounts_watch; one thread at a time. 0 or -errno. */
int mounts_read(int fd, struct mounts *mounts) MUST_USE;
void mounts_free(struct mounts *mounts);
const struct mount *mounts_find(const struct mounts *mounts, uint64_t id);

/* A descriptor for the others, or -errno. It goes on telling what is mounted where it was opened,
 * whatever the process can see later. */
int mounts_watch(void) MUST_USE;
/* Whether anything was mounted or unmounted since this was last asked. */
bool mounts_changed(int fd);

#endif
