/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call.h"

#define FLAVOR_AUTH_SYS 1U /* RFC 5531 §8.2 */
#define NOBODY 65534U

_Static_assert(RPC_GIDS_MAX <= VFS_GIDS_MAX, "every group of an AUTH_SYS credential has a place");

void call_begin(const struct rpc_call *call, struct vfs *vfs, struct vfs_call *caller)
{
    const struct rpc_cred *cred = &call->cred;

    caller->vfs = vfs;
    caller->peer = &call->peer->address.sa;
    caller->batch = call->batch;
    caller->anonymous = cred->flavor != FLAVOR_AUTH_SYS;
    caller->uid = cred->uid;
    caller->gid = cred->gid;
    caller->gid_count = cred->gid_count;
    for (uint32_t i = 0; i < cred->gid_count; i++) {
        caller->gids[i] = cred->gids[i];
    }
    caller->options = NULL; /* nobody, with no rights, until vfs knows the export's rules */
    caller->fsuid = NOBODY;
    caller->fsgid = NOBODY;
    caller->fsgid_count = 0;
    caller->fsgids = caller->squashed_gids;
    caller->fsgids_number = 0;
    caller->export_id = 0;
    caller->lsn = 0;
    caller->replies = true; /* the daemon hears of each reply (rpc_server_options.replied) */
}

struct xdr_bytes call_data(struct rpc_call *call, const struct vfs_data *data)
{
    if (data->size == 0) {
        if (data->release != NULL) {
            data->release(data->owner);
        }
        return (struct xdr_bytes){0};
    }
    if (data->bytes == NULL) {
        call->file = (struct rpc_file){.fd = data->fd,
                                       .offset = data->offset,
                                       .size = data->size,
                                       .release = data->release,
                                       .owner = data->owner};
    } else {
        call->memory = (struct rpc_memory){.release = data->release, .owner = data->owner};
    }
    return (struct xdr_bytes){.data = data->bytes, .size = data->size};
}
