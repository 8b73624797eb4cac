/* SPDX-License-Identifier: Apache-2.0 */
#include "server/nfs.h"

#include "proto/nfs3.h"
#include "server/nfs2.h"
#include "server/nfs3.h"

void nfs_program_init(struct rpc_program *program, struct nfs_service *service)
{
    service->versions[0] = nfs2_version;
    service->versions[1] = nfs3_version;
    *program = (struct rpc_program){.prog = NFS_PROGRAM,
                                    .name = "nfs",
                                    .version_count = NFS_VERSION_COUNT,
                                    .versions = service->versions,
                                    .service = service};
}
