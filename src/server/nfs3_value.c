/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times (RFC 1813 §2.5, nfstime3): 32 unsigned bits of seconds since 1970, so 1970 to 2106. Files
 * may be older or younger. DEPARTS: like Linux, their seconds are sent modulo 2^32, since no error
 * fits "this file has a date", and the word that a client set is the word that it reads back.
 */
#include "server/nfs3_value.h"

#include <errno.h>

#define NSEC_PER_SEC 1000000000U
#define MODE_BITS 07777U

_Static_assert(sizeof(writeverf3) == sizeof(uint64_t), "vfs_writeverf fills a writeverf3");

struct nfs_fh3 nfs3_fh(struct rpc_call *call, const struct vfs_node *node)
{
    struct vfs_handle *handle = rpc_call_memory(call, sizeof *handle);
    vfs_node_handle(node, handle);
    return (struct nfs_fh3){.data = {.data = handle->bytes, .size = handle->size}};
}

static enum ftype3 ftype3_of(enum vfs_type type)
{
    switch (type) {
    case VFS_DIR:
        return NF3DIR;
    case VFS_BLK:
        return NF3BLK;
    case VFS_CHR:
        return NF3CHR;
    case VFS_LNK:
        return NF3LNK;
    case VFS_SOCK:
        return NF3SOCK;
    case VFS_FIFO:
        return NF3FIFO;
    case VFS_REG:
    case VFS_NONE:
        break;
    }
    return NF3REG;
}

static struct nfstime3 nfstime3_of(const struct timespec *time)
{
    return (struct nfstime3){.seconds = (uint32_t)time->tv_sec,
                             .nseconds = (uint32_t)time->tv_nsec};
}

struct fattr3 nfs3_fattr(const struct vfs_attr *attr)
{
    return (struct fattr3){
        .type = ftype3_of(attr->type),
        .mode = attr->mode,
        .nlink = attr->nlink,
        .uid = attr->uid,
        .gid = attr->gid,
        .size = attr->size,
        .used = attr->used,
        .rdev = {.specdata1 = attr->rdev_major, .specdata2 = attr->rdev_minor},
        .fsid = attr->fsid,
        .fileid = attr->fileid,
        .atime = nfstime3_of(&attr->atime),
        .mtime = nfstime3_of(&attr->mtime),
        .ctime = nfstime3_of(&attr->ctime),
    };
}

struct post_op_attr nfs3_post_op_attr(struct vfs_call *caller, struct vfs_node *node)
{
    struct post_op_attr after = {0};

    if (node->object != NULL && !node->has_attr && vfs_getattr(caller, node) != 0) {
        return after;
    }
    if (node->has_attr) {
        after.attributes_follow = true;
        after.attributes = nfs3_fattr(&node->attr);
    }
    return after;
}

struct wcc_data nfs3_wcc(struct vfs_call *caller, struct vfs_node *node)
{
    struct wcc_data wcc = {0};

    if (node->has_before) {
        wcc.before.attributes_follow = true;
        wcc.before.attributes.size = node->before.size;
        wcc.before.attributes.mtime = nfstime3_of(&node->before.mtime);
        wcc.before.attributes.ctime = nfstime3_of(&node->before.ctime);
    }
    wcc.after = nfs3_post_op_attr(caller, node);
    return wcc;
}

static bool time_is_valid(const struct nfstime3 *time)
{
    return time->nseconds < NSEC_PER_SEC;
}

static struct timespec timespec_of(const struct nfstime3 *time)
{
    return (struct timespec){.tv_sec = time->seconds, .tv_nsec = time->nseconds};
}

int nfs3_sattr(const struct sattr3 *from, struct vfs_sattr *to)
{
    *to = (struct vfs_sattr){
        .set_mode = from->mode.set_it,
        .set_uid = from->uid.set_it,
        .set_gid = from->gid.set_it,
        .set_size = from->size.set_it,
    };
    if (to->set_mode) {
        to->mode = from->mode.mode & MODE_BITS;
    }
    if (to->set_uid) {
        to->uid = from->uid.uid;
    }
    if (to->set_gid) {
        to->gid = from->gid.gid;
    }
    if (to->set_size) {
        to->size = from->size.size;
    }
    if (from->atime.set_it == SET_TO_SERVER_TIME) {
        to->atime_how = VFS_TIME_NOW;
    } else if (from->atime.set_it == SET_TO_CLIENT_TIME) {
        to->atime_how = VFS_TIME_SET;
        to->atime = timespec_of(&from->atime.atime);
    }
    if (from->mtime.set_it == SET_TO_SERVER_TIME) {
        to->mtime_how = VFS_TIME_NOW;
    } else if (from->mtime.set_it == SET_TO_CLIENT_TIME) {
        to->mtime_how = VFS_TIME_SET;
        to->mtime = timespec_of(&from->mtime.mtime);
    }
    /* chown(2) takes the owner of all ones for "leave it". */
    bool owner_ok =
        !(to->set_uid && to->uid == UINT32_MAX) && !(to->set_gid && to->gid == UINT32_MAX);
    bool times_ok = (to->atime_how != VFS_TIME_SET || time_is_valid(&from->atime.atime)) &&
                    (to->mtime_how != VFS_TIME_SET || time_is_valid(&from->mtime.mtime));
    return owner_ok && times_ok ? 0 : -EINVAL;
}

void nfs3_writeverf(const struct vfs_call *caller, writeverf3 verf)
{
    uint64_t word = vfs_writeverf(caller->vfs);
    memcpy(verf, &word, sizeof word);
}
