/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RQUOTA program (spec/rquota.x), versions 1 and 2: what quota(1) on a client asks.
 */
#ifndef SERVER_RQUOTA_H
#define SERVER_RQUOTA_H

#include "rpc/server.h"

struct nfs_service;

/* Fills *program; service is the one of NFS. */
void rquota_program_init(struct rpc_program *program, struct nfs_service *service);

#endif
