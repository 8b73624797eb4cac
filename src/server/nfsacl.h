/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NFS_ACL program (spec/nfsacl.x): POSIX access control lists, versions 2 and 3, beside those
 * of NFS and on the same port, where clients look for it.
 */
#ifndef SERVER_NFSACL_H
#define SERVER_NFSACL_H

#include "rpc/server.h"

struct nfs_service;

/* Fills *program; service is the one of NFS. */
void nfsacl_program_init(struct rpc_program *program, struct nfs_service *service);

#endif
