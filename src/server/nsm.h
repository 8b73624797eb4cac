/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NSM program (status monitor), version 1: XNFS chapter 11. NLM's list of machines is
 * nsm_hosts.h; here are the procedures, and those programs of this machine that want to be told of
 * the restarts of others (SM_MON).
 *
 * Only programs of this machine may ask for that, and only they may feign a crash.
 */
#ifndef SERVER_NSM_H
#define SERVER_NSM_H

#include "rpc/outcall.h"
#include "rpc/server.h"

#include <pthread.h>

#define NSM_WATCH_COUNT_MAX 256U

struct machine;
struct nsm_hosts;
struct nsm_watch;

struct nsm_service {
    struct nsm_hosts *hosts; /* these two are set by the owner, before the server runs */
    struct rpc_outcaller outcaller;
    pthread_mutex_t lock;
    uint32_t watch_count;
    struct nsm_watch *watches;
};

/* Fills *program and the rest of *service, which must outlive the server that runs it. */
void nsm_program_init(struct rpc_program *program, struct nsm_service *service);

/* Whether a program of this machine wants to hear of that one. */
bool nsm_is_watched(struct nsm_service *service, const struct machine *machine);

/* After the server and the sender of outcaller were closed. */
void nsm_service_fini(struct nsm_service *service);

#endif
