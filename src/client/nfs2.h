/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NFS version 2 (RFC 1094) for callers of version 3: each call is put into the older words, and the
 * reply back into those of RFC 1813. So walking, copying and removing know one protocol.
 *
 * 1. What version 2 does not have (ACCESS, READDIRPLUS, PATHCONF, exclusive CREATE) is -EOPNOTSUPP
 *    at once.
 * 2. What it cannot say is an error and never cut: offsets and sizes of 2^32 - 1 and more are
 *    -EFBIG, names over 255 bytes and link texts over 1,024 -ENAMETOOLONG.
 * 3. WRITE is told as FILE_SYNC, since every server must have it stable (RFC 1094 §1.4.1). COMMIT
 *    is a GETATTR; the write verifier is always zero.
 * 4. A file of 2^32 - 1 bytes may be a larger one, of which the server has no way to tell more: a
 *    READ that would have to go on behind that is -EFBIG.
 */
#ifndef CLIENT_NFS2_H
#define CLIENT_NFS2_H

#include "client/rpc.h"

/* For client_rpc_options.speak of a client of NFS_PROGRAM, version 2. */
int client_nfs2_call(struct client_rpc *rpc, uint32_t proc, const void *args,
                     client_reply_fn *replied, void *owner) MUST_USE;

#endif
