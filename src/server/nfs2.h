/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NFS program, version 2 (RFC 1094): every procedure.
 */
#ifndef SERVER_NFS2_H
#define SERVER_NFS2_H

#include "rpc/server.h"

/* Its calls' service is a struct nfs_service (server/nfs.h). */
extern const struct rpc_version nfs2_version;

#endif
