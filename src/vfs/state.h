/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files in the state directory, for what a protocol must remember over restarts. Each lies in
 * a folder of its kind. Any thread; they take root's identity, and wait for the disk.
 */
#ifndef VFS_STATE_H
#define VFS_STATE_H

#include "base/check.h"

#include <stddef.h>

#define VFS_STATE_BYTES_MAX 4096U

struct vfs;

/* Makes or replaces a file. When it returns 0 that is durable. -errno. */
int vfs_state_put(struct vfs *vfs, const char *folder, const char *name, const void *bytes,
                  size_t size_bytes) MUST_USE;
/* Removes it; it may be back after a power cut. -errno. */
int vfs_state_drop(struct vfs *vfs, const char *folder, const char *name) MUST_USE;
/* Calls take for each file of a folder, in no order. Files that are too long are left out. -errno.
 */
int vfs_state_each(struct vfs *vfs, const char *folder,
                   void (*take)(void *arg, const char *name, const void *bytes, size_t size_bytes),
                   void *arg) MUST_USE;

/* How often a server has started with this state directory, this time included. */
uint64_t vfs_state_starts(const struct vfs *vfs);
/* Counts a start that only looks like one to others. Not from two threads at once. -errno. */
int vfs_state_restart(struct vfs *vfs) MUST_USE;

#endif
