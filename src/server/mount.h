/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MOUNT program, versions 1 (RFC 1094 appendix A), 2 and 3 (RFC 1813 appendix I): where clients
 * get the handle of an export by its path.
 *
 * The list of mounts is what DUMP shows to people. It decides nothing: clients that crash stay in
 * it, so it is kept in memory only, and the oldest entry goes when it is full.
 */
#ifndef SERVER_MOUNT_H
#define SERVER_MOUNT_H

#include "rpc/server.h"

#include <pthread.h>

#define MOUNT_ENTRY_COUNT_MAX 1024U

struct vfs;
struct mount_entry;

struct mount_service {
    struct vfs *vfs; /* set by the owner; the rest by mount_program_init */
    pthread_mutex_t lock;
    uint32_t entry_count;
    struct mount_entry *entries[MOUNT_ENTRY_COUNT_MAX]; /* oldest first */
};

/* Fills *program and the list of *service, which must outlive the server that runs it. */
void mount_program_init(struct rpc_program *program, struct mount_service *service);

/* After the server was closed. */
void mount_service_fini(struct mount_service *service);

#endif
