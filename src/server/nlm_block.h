/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that wait (LCK_BLOCKED), and the telling of clients that they have their lock.
 *
 *     WAITING --granted--> GRANTING --client says yes, or asks again, or unlocks--> gone
 *        |                    |------client says no--> gone, and its lock with it
 *        +--dropped--> gone   +------no answer, grace period--> told again, later
 *
 * A client that was told twice may have taken the lock the first time and then not know what the
 * second call is about: it says no, though it has the lock. So a "no" counts only if it can be the
 * answer to the first copy sent, and if the owner has changed nothing since (vfs_range_take_back).
 */
#ifndef SERVER_NLM_BLOCK_H
#define SERVER_NLM_BLOCK_H

#include "server/nlm.h"
#include "server/nlm_lock.h"

/* For a request that may wait; is_msg: it came as LOCK_MSG. NULL: no memory. */
struct nlm_block *nlm_block_new(struct nlm_service *service, const struct rpc_call *call,
                                const struct nlm4_lock *lock, const struct nlm_lock_asked *asked,
                                bool is_msg);
/* For vfs_range_set, which takes it over with -EINPROGRESS. */
struct vfs_range_waiter *nlm_block_waiter(struct nlm_block *block);
/* One that was not taken over. NULL is allowed. */
void nlm_block_free(struct nlm_block *block);

/* The client has this lock and knows: it need not be told. */
void nlm_block_settle(struct nlm_service *service, const struct nlm_lock_asked *asked);
/* The owner unlocks what of this it has: nor that. */
void nlm_block_forget(struct nlm_service *service, const struct nlm_lock_asked *asked);
/* The client does not want this lock, of which it may not have been told yet. Returns whether there
 * was one. */
bool nlm_block_cancel(struct nlm_service *service, const struct nlm_lock_asked *asked);
/* All that a client is being told (an empty client: that anybody is). */
void nlm_block_forget_client(struct nlm_service *service, struct vfs_bytes client, uint32_t state);

/* GRANTED_RES. */
void nlm_block_answered(struct nlm_service *service, const struct rpc_peer *peer,
                        struct xdr_bytes cookie, uint32_t stat);
/* Tells those again who did not answer. */
void nlm_block_tick(struct nlm_service *service);

#endif
