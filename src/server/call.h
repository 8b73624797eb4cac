/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who calls, in vfs's words. The one place where an RPC caller becomes a file system user.
 */
#ifndef SERVER_CALL_H
#define SERVER_CALL_H

#include "rpc/server.h"
#include "vfs/node.h"

/* *caller is valid while *call is. */
void call_begin(const struct rpc_call *call, struct vfs *vfs, struct vfs_call *caller);

/* At the end of the procedure: what its reply depends on, and what it is counted as. status: what
 * the reply says; 0 is success in every protocol here. */
static inline void call_end(struct rpc_call *call, const struct vfs_call *caller, uint32_t status)
{
    call->lsn = caller->lsn;
    call->group = caller->export_id;
    call->failed = status != 0;
}

/* Over UDP results and the reply's head must fit one IPv4 datagram (RFC 768: 65,535 bytes with the
 * IP and UDP headers). */
#define CALL_UDP_RESULTS_BYTES_MAX (65507U - 24U)

/* Hands what vfs read over to the reply, whose last field it must be: copied from call memory, or
 * sent from where it is. */
struct xdr_bytes call_data(struct rpc_call *call, const struct vfs_data *data);

static inline struct vfs_bytes call_bytes(struct xdr_bytes bytes)
{
    return (struct vfs_bytes){.data = bytes.data, .size = bytes.size};
}

#endif
