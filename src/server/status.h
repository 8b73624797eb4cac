/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What -errno is called on the wire: one table, the protocols side by side.
 */
#ifndef SERVER_STATUS_H
#define SERVER_STATUS_H

#include "proto/mount.h"
#include "proto/nfs2.h"
#include "proto/nfs3.h"

/* error is 0 or -errno. One that is not in the table is NFSERR_IO or NFS3ERR_SERVERFAULT, and is
 * logged. */
enum nfsstat nfs2_status(int error);
enum nfsstat3 nfs3_status(int error);
enum mountstat3 mount3_status(int error);

/* The error is nobody's fault and passes by itself: NFS3ERR_JUKEBOX, for which version 2 of NFS has
 * no word. */
bool status_passes(int error);

/* MOUNT v1 and v2 speak the error numbers of NFSv2 (RFC 1094 §A.5, §2.3.1). */
uint32_t mount1_status(int error);

#endif
