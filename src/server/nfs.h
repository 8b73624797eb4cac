/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NFS program: version 2 (RFC 1094) and version 3 (RFC 1813), every procedure of both, over the
 * same objects. nfs2.c and nfs3.c have the procedures.
 */
#ifndef SERVER_NFS_H
#define SERVER_NFS_H

#include "rpc/server.h"

struct vfs;

#define NFS_VERSION_COUNT 2

struct nfs_service {
    struct vfs *vfs; /* set before the first call */
    struct rpc_version versions[NFS_VERSION_COUNT];
};

/* Fills *program and service->versions. The service must outlive the server that runs it. */
void nfs_program_init(struct rpc_program *program, struct nfs_service *service);

static inline struct vfs *nfs_vfs(const struct rpc_call *call)
{
    const struct nfs_service *service = call->service;
    return service->vfs;
}

#endif
