/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NLM and NSM together, as the daemon starts them: programs that serve, and the list of machines
 * between them.
 */
#ifndef SERVER_LOCKD_H
#define SERVER_LOCKD_H

#include "server/nlm.h"
#include "server/nsm.h"

#define LOCKD_GRACE_SECONDS 90U /* as long as knfsd's */

struct lockd {
    struct nlm_service nlm;
    struct nsm_service nsm;
    struct nsm_hosts *hosts;
};

/* *lockd starts as {0}. The programs are filled; they may be called after lockd_open. */
void lockd_init(struct lockd *lockd, struct rpc_program *nlm, struct rpc_program *nsm);

/* Reads who held locks before, and begins the grace period. */
int lockd_open(struct lockd *lockd, struct vfs *vfs, const struct rpc_outcaller *outcaller,
               uint32_t grace_ms, struct err *err) MUST_USE;

/* Tells those who held locks before, when they can find us. */
void lockd_notify(struct lockd *lockd);

/* When no call is under way any more and the sender of outcaller was closed. The vfs is still
 * there, and its waiters are dropped. */
void lockd_close(struct lockd *lockd);

#endif
