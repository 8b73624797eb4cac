/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NFS program, version 3 (RFC 1813): every procedure.
 */
#ifndef SERVER_NFS3_H
#define SERVER_NFS3_H

#include "rpc/server.h"

/* Its calls' service is a struct nfs_service (server/nfs.h). */
extern const struct rpc_version nfs3_version;

#endif
