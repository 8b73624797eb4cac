/* SPDX-License-Identifier: Apache-2.0 */
/* A lock as NLM names it, in the words of vfs. */
#ifndef SERVER_NLM_LOCK_H
#define SERVER_NLM_LOCK_H

#include "proto/nlm.h"
#include "server/call.h"
#include "server/machine.h"
#include "vfs/range_lock.h"

#define NLM_OWNER_BYTES_MAX (4U + MAXNETOBJ_SZ) /* svid, oh */

struct nlm_lock_asked {
    struct vfs_call caller;
    struct vfs_node node; /* to be put */
    struct machine machine;
    struct vfs_range_owner owner; /* in the memory below */
    struct vfs_range range;
    uint8_t client[MACHINE_KEY_BYTES_MAX];
    uint8_t name[NLM_OWNER_BYTES_MAX];
};

/* Finds out who asks for what; asked->node is to be put, whatever is returned. state: of the
 * client's status monitor, 0: not said. 0, -EFBIG (the range ends beyond 2^63-1), or what vfs_get
 * says. */
int nlm_lock_ask(struct rpc_call *call, struct vfs *vfs, const struct nlm4_lock *lock,
                 bool exclusive, uint32_t state, struct nlm_lock_asked *asked) MUST_USE;

/* Of vfs_range_*. */
enum nlm4_stats nlm_lock_status(int error);

/* Who is in the way, as TEST tells it; oh is in call memory. */
void nlm_lock_holder(struct rpc_call *call, const struct vfs_range_holder *holder,
                     struct nlm4_holder *res);

#endif
