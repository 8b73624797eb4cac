/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the values of vfs and those of RFC 1094 §2.3. Version 2 has 32 bits for everything: what
 * does not fit is told as the largest that does, never as what is left of it.
 */
#ifndef SERVER_NFS2_VALUE_H
#define SERVER_NFS2_VALUE_H

#include "proto/nfs2.h"
#include "vfs/node.h"

/* The node's handle with zeros behind it (vfs/node.h, vfs_get). -EOVERFLOW: it is longer than 32
 * bytes; such a file system is for later versions only. */
int nfs2_fh(const struct vfs_node *node, struct fhandle *fh) MUST_USE;

static inline struct vfs_bytes nfs2_fh_bytes(const struct fhandle *fh)
{
    return (struct vfs_bytes){.data = fh->data, .size = sizeof fh->data};
}

struct fattr nfs2_fattr(const struct vfs_attr *attr);

/* Of inode numbers of 64 bits both halves count, so that two objects that have the same here are
 * rare; never 0, which programs take for an empty entry of a directory. */
uint32_t nfs2_fileid(uint64_t fileid);

/* -EINVAL: a time of more than 10^6 microseconds. The type that is in a mode does not count. */
int nfs2_sattr(const struct sattr *from, struct vfs_sattr *to) MUST_USE;

/* What CREATE is to make. */
struct nfs2_creation {
    enum vfs_type type; /* VFS_NONE: nothing that CREATE makes */
    uint32_t rdev_major, rdev_minor;
};
struct nfs2_creation nfs2_creation(const struct sattr *attributes);

/* Blocks of a size that leaves all counts below 2^31, since many clients read them as signed. */
struct statfsok nfs2_statfsok(const struct vfs_fsstat *stat);

/* ---- cookies of READDIR: four bytes for positions of 64 bits; nfs2_value.c has the rules ---- */

/* What one is worth on the wire. */
void nfs2_cookie_put(uint64_t position, uint8_t cookie[NFS_COOKIESIZE]);
/* The position to go on from: at or before the one that it was made of. */
uint64_t nfs2_cookie_get(const uint8_t cookie[NFS_COOKIESIZE]);
/* Whether that is the very one. */
bool nfs2_cookie_is_exact(uint64_t position);

#endif
