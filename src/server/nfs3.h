/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NFS program, version 3 (RFC 1813): every procedure.
 */
#ifndef SERVER_NFS3_H
#define SERVER_NFS3_H

#include "rpc/server.h"

struct vfs;

struct nfs_service {
    struct vfs *vfs;
};

/* Fills *program. The service must outlive the server that runs it. */
void nfs3_program_init(struct rpc_program *program, struct nfs_service *service);

#endif
