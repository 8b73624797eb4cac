/* SPDX-License-Identifier: Apache-2.0 */
#include "server/setattr.h"

/* A time that the file system could not store is replaced by the nearest one it can. */
static bool time_was_moved(enum vfs_time_how how, const struct timespec *asked,
                           const struct timespec *stored)
{
    return how == VFS_TIME_SET && (uint32_t)asked->tv_sec != (uint32_t)stored->tv_sec;
}

/*
 * Seconds are unsigned (RFC 1094 §2.3.4, RFC 1813 §2.5), so words of 2^31 and more are times after
 * 2038. Where inodes have only 32 signed bits (ext4 with inodes of 128 bytes, xfs without bigtime)
 * those cannot be kept; the same word is kept as a time before 1970 then, and the client reads back
 * what it set.
 */
static int set_far_times(struct vfs_call *caller, struct vfs_node *object,
                         const struct vfs_sattr *sattr)
{
    struct vfs_sattr times = {0};
    struct vfs_node first = *object;

    if (time_was_moved(sattr->atime_how, &sattr->atime, &object->attr.atime)) {
        times.atime_how = VFS_TIME_SET;
        times.atime = sattr->atime;
        times.atime.tv_sec = (int32_t)(uint32_t)sattr->atime.tv_sec;
    }
    if (time_was_moved(sattr->mtime_how, &sattr->mtime, &object->attr.mtime)) {
        times.mtime_how = VFS_TIME_SET;
        times.mtime = sattr->mtime;
        times.mtime.tv_sec = (int32_t)(uint32_t)sattr->mtime.tv_sec;
    }
    if (times.atime_how == VFS_TIME_KEEP && times.mtime_how == VFS_TIME_KEEP) {
        return 0;
    }
    int err = vfs_setattr(caller, object, &times, NULL);
    object->has_before = first.has_before;
    object->before = first.before;
    return err;
}

int setattr_apply(struct vfs_call *caller, struct vfs_node *object, const struct vfs_sattr *sattr,
                  const struct timespec *guard_ctime)
{
    int err = vfs_setattr(caller, object, sattr, guard_ctime);
    return err == 0 ? set_far_times(caller, object, sattr) : err;
}
