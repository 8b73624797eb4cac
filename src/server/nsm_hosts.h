/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machines that may hold locks: the list that outlives the server, the notices sent to those on
 * it after a start, and the grace period.
 *
 * 1. A machine is on the disk before its first lock is granted. It stays there until it has held
 *    nothing for NSM_IDLE_MS, or, when it comes from before a start, until it was told of the start
 *    (or could not be reached for NSM_NOTIFY_MS) and the grace period is over.
 * 2. The state number is odd and grows with every start.
 * 3. During the grace period locks are given back to those who are on the list from before, to
 *    nobody else. There is none when that list is empty, and it does not end early otherwise: NLM
 *    has no word for "I have all I had".
 * 4. The lock of the list is never held when others are called or the disk is waited for.
 */
#ifndef SERVER_NSM_HOSTS_H
#define SERVER_NSM_HOSTS_H

#include "base/err.h"
#include "rpc/outcall.h"
#include "server/machine.h"

#define NSM_HOST_COUNT_MAX 4096U
#define NSM_ADDRESS_HOST_COUNT_MAX 64U /* names of one address */
#define NSM_IDLE_MS 300000
#define NSM_NOTIFY_MS 900000
#define NSM_TICK_MS 5000

struct vfs;
struct nsm_hosts;

struct nsm_hosts_options {
    struct vfs *vfs;
    struct rpc_outcaller outcaller;
    uint32_t grace_ms;
    /* The machine has restarted: its locks go, except those that it took in `state` (0: all). */
    void (*restarted)(void *arg, const struct machine *machine, uint32_t state);
    /* Whether the machine holds or waits for anything. */
    bool (*is_busy)(void *arg, const struct machine *machine);
    void (*release_all)(void *arg);
    /* Every NSM_TICK_MS. */
    void (*tick)(void *arg);
    void *arg;
};

/* Reads the list and begins the grace period. */
int nsm_hosts_open(const struct nsm_hosts_options *options, struct nsm_hosts **hosts,
                   struct err *err) MUST_USE;
/* Begins to tell those who are on the list from before. They will ask for our ports at once. */
void nsm_hosts_notify(struct nsm_hosts *hosts);
/* When nobody calls any more; the sender of outcaller was closed before. NULL is allowed. */
void nsm_hosts_close(struct nsm_hosts *hosts);

/* The machine is about to hold something. durably: and is to be told of our restarts. local: our
 * address that it called (all zero: not known). -ENOLCK: a limit; -errno: it could not be saved. */
int nsm_hosts_add(struct nsm_hosts *hosts, const struct machine *machine, const uint8_t local[16],
                  bool durably) MUST_USE;

bool nsm_hosts_in_grace(const struct nsm_hosts *hosts);
/* Whether the machine may have held locks before the start. */
bool nsm_hosts_may_reclaim(struct nsm_hosts *hosts, const struct machine *machine);

/* Somebody at this address says that a machine of this name has restarted. It is the one of that
 * name and address, else those of that name, else the only one of that address. state 0: not known;
 * the same state twice is one restart. */
void nsm_hosts_restarted(struct nsm_hosts *hosts, const struct machine *machine, int32_t state);

/* Forgets all locks and tells everybody, as if the server had restarted. */
void nsm_hosts_crash(struct nsm_hosts *hosts);

int32_t nsm_hosts_state(struct nsm_hosts *hosts);

#endif
