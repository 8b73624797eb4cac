/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DOS shares (XNFS §10.3, NLM_SHARE): what an owner means to do with a file, and what others may
 * not meanwhile. They bind those who share: neither locks nor reads and writes look at them.
 */
#ifndef SERVER_NLM_SHARE_H
#define SERVER_NLM_SHARE_H

#include "server/nlm.h"
#include "server/nlm_lock.h"

#define NLM_SHARE_COUNT_MAX 16384U
#define NLM_SHARE_FILE_COUNT_MAX 1024U

/* mode and access replace what the owner had of the file. 0, -EAGAIN (another owner denies it, or
 * has what would be denied), -ENOLCK, -ENOMEM. */
int nlm_share_set(struct nlm_service *service, const struct nlm_lock_asked *asked,
                  enum fsh_mode mode, enum fsh_access access) MUST_USE;
void nlm_share_clear(struct nlm_service *service, const struct nlm_lock_asked *asked);

/* All of a client; an empty client: of everybody. */
void nlm_share_release(struct nlm_service *service, struct vfs_bytes client);
bool nlm_share_is_busy(struct nlm_service *service, struct vfs_bytes client);

#endif
