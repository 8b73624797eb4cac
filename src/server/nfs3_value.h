/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the values of vfs and those of RFC 1813 §2.5 and §2.6.
 */
#ifndef SERVER_NFS3_VALUE_H
#define SERVER_NFS3_VALUE_H

#include "proto/nfs3.h"
#include "rpc/server.h"
#include "vfs/node.h"

/* The handle's bytes live as long as the call. */
struct nfs_fh3 nfs3_fh(struct rpc_call *call, const struct vfs_node *node);

struct fattr3 nfs3_fattr(const struct vfs_attr *attr);

/*
 * Attributes for a reply. RFC 1813 §3.1 wants them with errors too, wherever that can be done: if
 * the object is known and the call on it did not leave its attributes, they are read now.
 */
struct post_op_attr nfs3_post_op_attr(struct vfs_call *caller, struct vfs_node *node);

/* Before and after a change; `before` is absent when nothing was tried. */
struct wcc_data nfs3_wcc(struct vfs_call *caller, struct vfs_node *node);

/* -EINVAL: a time of 10^9 nanoseconds or more, or an owner that the system cannot store. */
int nfs3_sattr(const struct sattr3 *from, struct vfs_sattr *to) MUST_USE;

/* The write verifier as its eight bytes. */
void nfs3_writeverf(const struct vfs_call *caller, writeverf3 verf);

#endif
