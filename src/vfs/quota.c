/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Disk quotas, as quotactl(2) tells them of ext4, xfs and others.
 *
 * The kernel tells somebody's quota to that user (by the effective id, not by the one of the file
 * system), to members of that group, and to who may administer the machine, which we may not any
 * more. So the thread becomes the one it asks about, for the one call.
 */
#include "vfs/export_set.h"
#include "vfs/internal.h"

#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <linux/dqblk_xfs.h>
#include <linux/quota.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES 1024U /* of limits, QIF_DQBLKSIZE */

/* QCMD of <sys/quota.h> shifts an int until its sign changes. */
#define COMMAND(command, type) ((int)(((unsigned)(command) << SUBCMDSHIFT) | (unsigned)(type)))

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif

static int ask(const struct vfs_export *export, int command, uint32_t id, void *answer)
{
    return syscall(SYS_quotactl_fd, export->mount_fd, command, id, answer) == 0 ? 0 : -errno;
}

/* Limits are enforced, not only what is used counted. */
static bool is_enforced(const struct vfs_export *export, int type)
{
    struct fs_quota_stat stat = {.qs_version = FS_QSTAT_VERSION};
    uint16_t bit = type == USRQUOTA ? FS_QUOTA_UDQ_ENFD : FS_QUOTA_GDQ_ENFD;
    return ask(export, COMMAND(Q_XGETQSTAT, type), 0, &stat) == 0 && (stat.qs_flags & bit) != 0;
}

static int get_quota(const struct vfs_export *export, int type, uint32_t id,
                     struct vfs_quota *quota)
{
    struct if_dqblk block = {0};
    int err = cred_be(type == USRQUOTA ? id : 0, type == GRPQUOTA ? id : 0);
    if (err == 0) {
        err = ask(export, COMMAND(Q_GETQUOTA, type), id, &block);
    }
    cred_be_root();
    *quota = (struct vfs_quota){
        .is_enforced = err == 0 && is_enforced(export, type),
        .hard_bytes = block.dqb_bhardlimit * BLOCK_BYTES,
        .soft_bytes = block.dqb_bsoftlimit * BLOCK_BYTES,
        .used_bytes = block.dqb_curspace,
        .hard_files = block.dqb_ihardlimit,
        .soft_files = block.dqb_isoftlimit,
        .used_files = block.dqb_curinodes,
        .bytes_until = (time_t)block.dqb_btime,
        .files_until = (time_t)block.dqb_itime,
    };
    return err;
}

/* What the kernel says where there is no quota: none in this file system, none now, none of this
 * id; none in this kernel. */
static bool is_none(int err)
{
    return err == -ESRCH || err == -ENOENT || err == -ENOSYS || err == -EOPNOTSUPP ||
           err == -ENOTTY || err == -EINVAL;
}

int vfs_quota(struct vfs_call *call, struct vfs_bytes path, enum vfs_quota_kind kind, uint32_t id,
              struct vfs_quota *quota)
{
    static struct log_limit limit;
    struct vfs_export *export = NULL;
    struct vfs_object *object = NULL;
    char real[PATH_MAX];
    int missing = 0;
    int err = admit_path(call->vfs, path, call->peer, real, &missing, &export);
    if (err == 0) {
        call->export_id = export->id;
        err = missing != 0 ? missing : admit_walk(export, real, &object);
    }
    if (err == 0) {
        object_put(object); /* that it is there, on the export's file system, is all */
        err = get_quota(export, kind == VFS_QUOTA_USER ? USRQUOTA : GRPQUOTA, id, quota);
        if (err != 0 && !is_none(err)) {
            log_write_limited(&limit, LOG_WARNING, "%s: quota of %s %u: %s", export->path,
                              kind == VFS_QUOTA_USER ? "user" : "group", id, strerror(-err));
        }
        err = err != 0 ? -ENODATA : 0;
    }
    volume_put(export);
    return err;
}
