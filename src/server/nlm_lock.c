/* SPDX-License-Identifier: Apache-2.0 */
#include "server/nlm_lock.h"

#include <errno.h>
#include <string.h>

#define SVID_BYTES 4U

_Static_assert(MACHINE_KEY_BYTES_MAX <= VFS_RANGE_NAME_BYTES_MAX, "a client fits");
_Static_assert(NLM_OWNER_BYTES_MAX <= VFS_RANGE_NAME_BYTES_MAX, "an owner fits");

/* XNFS §10.2: l_len 0 means to the end of the file. */
static int range_of(const struct nlm4_lock *lock, bool exclusive, struct vfs_range *range)
{
    *range = (struct vfs_range){exclusive, lock->l_offset, UINT64_MAX};
    if (lock->l_offset > INT64_MAX) {
        return -EFBIG;
    }
    if (lock->l_len > 0) {
        if (lock->l_len - 1 > INT64_MAX - lock->l_offset) {
            return -EFBIG;
        }
        range->end = lock->l_offset + (lock->l_len - 1);
    }
    return 0;
}

int nlm_lock_ask(struct rpc_call *call, struct vfs *vfs, const struct nlm4_lock *lock,
                 bool exclusive, uint32_t state, struct nlm_lock_asked *asked)
{
    asked->node = (struct vfs_node){0};
    machine_of_peer(call->peer, lock->caller_name, &asked->machine);
    asked->owner.client.data = asked->client;
    asked->owner.client.size = machine_key(&asked->machine, asked->client);
    memcpy(asked->name, &lock->svid, SVID_BYTES);
    if (lock->oh.size > 0) {
        memcpy(asked->name + SVID_BYTES, lock->oh.data, lock->oh.size);
    }
    asked->owner.name = (struct vfs_bytes){asked->name, SVID_BYTES + lock->oh.size};
    asked->owner.state = state;
    call_begin(call, vfs, &asked->caller);
    int err = vfs_get(&asked->caller, call_bytes(lock->fh), &asked->node);
    call->group = asked->caller.export_id;
    return err != 0 ? err : range_of(lock, exclusive, &asked->range);
}

enum nlm4_stats nlm_lock_status(int error)
{
    switch (-error) {
    case 0:
        return NLM4_GRANTED;
    case EAGAIN:
        return NLM4_DENIED;
    case EINPROGRESS:
    case EALREADY:
        return NLM4_BLOCKED;
    case EDEADLK:
        return NLM4_DEADLCK;
    case EROFS:
        return NLM4_ROFS;
    case ESTALE:
    case EBADF: /* no handle of ours */
        return NLM4_STALE_FH;
    case EFBIG:
        return NLM4_FBIG;
    case ENOLCK:
    case ENOMEM:
    case EMFILE:
    case ENOSPC:
        return NLM4_DENIED_NOLOCKS;
    default:
        return NLM4_FAILED;
    }
}

void nlm_lock_holder(struct rpc_call *call, const struct vfs_range_holder *holder,
                     struct nlm4_holder *res)
{
    const struct vfs_range *range = &holder->range;

    *res = (struct nlm4_holder){.exclusive = range->exclusive, .l_offset = range->start};
    res->l_len = range->end == UINT64_MAX ? 0 : range->end - range->start + 1;
    if (holder->is_local) {
        res->svid = holder->pid;
    } else if (holder->client_bytes > 0 && holder->client[0] == 'N' &&
               holder->name_bytes >= SVID_BYTES) {
        uint32_t size = holder->name_bytes - SVID_BYTES;
        uint8_t *oh = rpc_call_memory(call, size + 1);
        memcpy(&res->svid, holder->name, SVID_BYTES);
        memcpy(oh, holder->name + SVID_BYTES, size);
        res->oh = (struct xdr_bytes){oh, size};
    }
}
