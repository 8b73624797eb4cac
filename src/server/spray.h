/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SPRAY program: counts packets that are not answered, for each sender by itself.
 *
 * 1. It is there for loopback and for addresses that some export names; others are not answered.
 * 2. Nothing is larger than what was asked with, so that a forged sender gains nothing: ECHO gives
 *    back what came, the other replies are as small as calls. Each sender is answered at most
 *    SPRAY_ANSWERS_PER_SECOND times a second, and ECHO has its own, larger share.
 * 3. A packet counts only after a CLEAR of its sender, for SPRAY_SESSION_SECONDS_MAX. The table of
 *    senders is bounded; a sender that was quiet for SPRAY_QUIET_SECONDS makes room for another,
 *    and if there is none, CLEAR is not answered.
 */
#ifndef SERVER_SPRAY_H
#define SERVER_SPRAY_H

#include "rpc/server.h"
#include "vfs/node.h"

#include <pthread.h>

#define SPRAY_SENDER_COUNT_MAX 256U
#define SPRAY_SESSION_SECONDS_MAX 3600U
#define SPRAY_QUIET_SECONDS 30U
#define SPRAY_ANSWERS_PER_SECOND 100U
#define SPRAY_ECHOES_PER_SECOND 50000U

struct spray_sender;

struct spray_service {
    struct vfs *vfs; /* set by the owner; the rest by spray_program_init */
    pthread_mutex_t lock;
    struct spray_sender *senders;
};

/* Fills *program and *service, which must outlive the server that runs it. -ENOMEM. */
int spray_program_init(struct rpc_program *program, struct spray_service *service) MUST_USE;

/* After the server was closed. */
void spray_service_fini(struct spray_service *service);

#endif
