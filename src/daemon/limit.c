/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/limit.h"

#include "callback/sender.h"
#include "server/mount.h"
#include "server/nlm_share.h"
#include "server/nsm_hosts.h"
#include "server/pmap.h"
#include "server/spray.h"
#include "vfs/node.h"
#include "vfs/range.h"
#include "vfs/range_lock.h"

#include <string.h>

uint32_t limit_list(struct rpc_server *server, struct vfs *vfs,
                     struct rpc_limit limits[LIMIT_COUNT_MAX])
{
    struct vfs_range_stats ranges;
    struct vfs_stats objects;
    uint32_t count = rpc_server_limits(server, limits);
    struct export_table *table = vfs_table_get(vfs);

    vfs_range_stats(vfs, &ranges);
    vfs_stats(vfs, &objects);
    const struct rpc_limit more[] = {
        {"open_files", objects.fds, objects.fd_count_max},
        {"exports", table->entry_count, EXPORT_ENTRY_COUNT_MAX},
        {"export_clients", RPC_LIMIT_NOT_COUNTED, EXPORT_CLIENT_COUNT_MAX},
        {"exports_file_bytes", RPC_LIMIT_NOT_COUNTED, EXPORT_FILE_BYTES_MAX},
        {"mount_list_entries", RPC_LIMIT_NOT_COUNTED, MOUNT_ENTRY_COUNT_MAX},
        {"locks_and_waiters", ranges.count, RANGE_COUNT_MAX},
        {"client_locks_and_waiters", RPC_LIMIT_NOT_COUNTED, RANGE_CLIENT_COUNT_MAX},
        {"file_lock_waiters", RPC_LIMIT_NOT_COUNTED, RANGE_FILE_WAIT_COUNT_MAX},
        {"shares", RPC_LIMIT_NOT_COUNTED, NLM_SHARE_COUNT_MAX},
        {"file_shares", RPC_LIMIT_NOT_COUNTED, NLM_SHARE_FILE_COUNT_MAX},
        {"lock_clients", ranges.clients, NSM_HOST_COUNT_MAX},
        {"address_lock_clients", RPC_LIMIT_NOT_COUNTED, NSM_ADDRESS_HOST_COUNT_MAX},
        {"calls_to_clients", RPC_LIMIT_NOT_COUNTED, SENDER_CALL_COUNT_MAX},
        {"called_clients", RPC_LIMIT_NOT_COUNTED, SENDER_HOST_COUNT_MAX},
        {"portmapper_entries", RPC_LIMIT_NOT_COUNTED, PMAP_ENTRY_COUNT_MAX},
        {"spray_senders", RPC_LIMIT_NOT_COUNTED, SPRAY_SENDER_COUNT_MAX},
    };
    _Static_assert(COUNT_OF(more) + RPC_LIMIT_COUNT_MAX <= LIMIT_COUNT_MAX, "they fit");
    memcpy(limits + count, more, sizeof more);
    export_table_free(table);
    return count + COUNT_OF(more);
}
