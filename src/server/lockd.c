/* SPDX-License-Identifier: Apache-2.0 */
#include "server/lockd.h"

#include "server/nsm_hosts.h"

static void restarted(void *arg, const struct machine *machine, uint32_t state)
{
    struct lockd *lockd = arg;
    nlm_release(&lockd->nlm, machine, state);
}

static bool is_busy(void *arg, const struct machine *machine)
{
    struct lockd *lockd = arg;
    return nlm_is_busy(&lockd->nlm, machine) || nsm_is_watched(&lockd->nsm, machine);
}

static void release_all(void *arg)
{
    struct lockd *lockd = arg;
    nlm_release_all(&lockd->nlm);
}

static void tick(void *arg)
{
    struct lockd *lockd = arg;
    nlm_tick(&lockd->nlm);
}

void lockd_init(struct lockd *lockd, struct rpc_program *nlm, struct rpc_program *nsm)
{
    nlm_program_init(nlm, &lockd->nlm);
    nsm_program_init(nsm, &lockd->nsm);
}

int lockd_open(struct lockd *lockd, struct vfs *vfs, const struct rpc_outcaller *outcaller,
               uint32_t grace_ms, struct err *err)
{
    const struct nsm_hosts_options options = {.vfs = vfs,
                                              .outcaller = *outcaller,
                                              .grace_ms = grace_ms,
                                              .restarted = restarted,
                                              .is_busy = is_busy,
                                              .release_all = release_all,
                                              .tick = tick,
                                              .arg = lockd};
    lockd->nlm.vfs = vfs;
    lockd->nlm.outcaller = *outcaller;
    lockd->nsm.outcaller = *outcaller;
    int error = nsm_hosts_open(&options, &lockd->hosts, err);
    lockd->nlm.hosts = lockd->hosts;
    lockd->nsm.hosts = lockd->hosts;
    return error;
}

void lockd_notify(struct lockd *lockd)
{
    nsm_hosts_notify(lockd->hosts);
}

void lockd_close(struct lockd *lockd)
{
    nsm_hosts_close(lockd->hosts);
    lockd->hosts = NULL;
    if (lockd->nlm.vfs != NULL) {
        nlm_release_all(&lockd->nlm);
    }
    nsm_service_fini(&lockd->nsm);
    nlm_service_fini(&lockd->nlm);
}
