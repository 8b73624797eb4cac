/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NLM program: versions 1 and 3 (XNFS chapter 10) and 4 (RFC 1813 §6), every procedure, the
 * synchronous forms and the _MSG ones.
 *
 * 1. An owner is a machine (address and caller_name), an svid and an oh; all procedures of XNFS
 *    that name a lock ask for the same four.
 * 2. A lock that had to wait is held from the moment the client is first told (GRANTED), and stays
 *    so until the client says no. Where the client may have taken it already, a later "no" (it does
 *    not remember) does not count: see nlm_block.h.
 * 3. DOS shares bind those who share, and nobody else.
 * 4. Clients that ask again and again instead of waiting to be told get the same locks.
 *
 * Lock order: nothing of vfs is called with service->lock held; vfs calls us (granted, dropped)
 * with its own lock held.
 */
#ifndef SERVER_NLM_H
#define SERVER_NLM_H

#include "rpc/outcall.h"
#include "rpc/server.h"

#include <pthread.h>

struct machine;
struct nlm_block;
struct nlm_dos_share;
struct nsm_hosts;
struct vfs;

#define NLM_SHARE_BUCKET_COUNT 1024U

struct nlm_service {
    struct vfs *vfs; /* these are set by the owner, before the server runs */
    struct nsm_hosts *hosts;
    struct rpc_outcaller outcaller;
    pthread_mutex_t lock;
    uint64_t block_id;          /* of the last one */
    struct nlm_block *granting; /* those whose clients are being told */
    uint32_t share_count;
    struct nlm_dos_share *shares[NLM_SHARE_BUCKET_COUNT];
};

/* Fills *program and the rest of *service, which must outlive the server that runs it. */
void nlm_program_init(struct rpc_program *program, struct nlm_service *service);

/* After the server, the sender of outcaller and the vfs were closed. */
void nlm_service_fini(struct nlm_service *service);

/* All that a machine holds and waits for goes, except what it took in `state` (0: all). */
void nlm_release(struct nlm_service *service, const struct machine *machine, uint32_t state);
void nlm_release_all(struct nlm_service *service);
bool nlm_is_busy(struct nlm_service *service, const struct machine *machine);

/* To be called every few seconds. */
void nlm_tick(struct nlm_service *service);

#endif
