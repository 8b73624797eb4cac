/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NFS program, version 2 (RFC 1094): every procedure.
 */
#ifndef SERVER_NFS2_H
#define SERVER_NFS2_H

#include "proto/nfs2.h"
#include "rpc/server.h"
#include "vfs/node.h"

/* Its calls' service is a struct nfs_service (server/nfs.h). */
extern const struct rpc_version nfs2_version;

/* ---- for what goes with it (nfsacl.c) ---- */

/* The end of a procedure: its status, and whether there is a reply at all. There is no word for
 * "not now" (status_passes): such a call gets none, and the client asks again, which is what it
 * would do after NFS3ERR_JUKEBOX. */
enum nfsstat nfs2_finish(struct rpc_call *call, const struct vfs_call *caller, int err) MUST_USE;
/* §2.2.2; NFS_ACL has it too. */
void nfs2_getattr(struct rpc_call *call, const struct fhandle *args, struct attrstat *res);
/* Attributes for a reply, also when the call on the node did not leave them. */
int nfs2_get_fattr(struct vfs_call *caller, struct vfs_node *node, struct fattr *fattr) MUST_USE;

#endif
