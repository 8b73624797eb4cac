/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each procedure is written once, for version 4 (serve_*); its forms differ in how wide the numbers
 * are and in how the result travels. The result of a _MSG is a call of its own, to where the
 * client's portmapper says; a client that misses it asks again, so these run every time.
 */
#include "server/nlm.h"

#include "base/log.h"
#include "server/nlm_block.h"
#include "server/nlm_lock.h"
#include "server/nlm_share.h"
#include "server/nlm_wide.h"
#include "server/nsm_hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STAT_BYTES_MAX (4U + MAXNETOBJ_SZ + 4U)                        /* cookie, stat */
#define TEST_BYTES_MAX (STAT_BYTES_MAX + 8U + 4U + MAXNETOBJ_SZ + 16U) /* and a holder */
#define SHARE_BYTES_MAX (STAT_BYTES_MAX + 4U)                          /* and a sequence */

static struct nlm_service *service_of(const struct rpc_call *call)
{
    return call->service;
}

/* ---- the procedures; XNFS §10.3, RFC 1813 §6.3 ---- */

static bool in_grace(const struct rpc_call *call)
{
    return nsm_hosts_in_grace(service_of(call)->hosts);
}

/* What is told to wait was not refused. */
static enum nlm4_stats told(struct rpc_call *call, enum nlm4_stats stat)
{
    call->failed = stat != NLM4_GRANTED && stat != NLM4_BLOCKED;
    return stat;
}

static void serve_test(struct rpc_call *call, const struct nlm4_testargs *args,
                       struct nlm4_testres *res)
{
    struct nlm_lock_asked asked;
    struct vfs_range_holder holder;

    res->cookie = args->cookie;
    if (in_grace(call)) {
        res->test_stat.stat = told(call, NLM4_DENIED_GRACE_PERIOD);
        return;
    }
    int err = nlm_lock_ask(call, service_of(call)->vfs, &args->alock, args->exclusive, 0, &asked);
    if (err == 0) {
        err = vfs_range_test(&asked.caller, &asked.node, &asked.owner, &asked.range, &holder);
    }
    res->test_stat.stat = told(call, nlm_lock_status(err));
    if (err == -EAGAIN) {
        nlm_lock_holder(call, &holder, &res->test_stat.holder);
    }
    vfs_put(&asked.node);
}

/* Whether this may be granted now: only what was held before, until all had the time to say so. */
static int judge_reclaim(const struct rpc_call *call, const struct machine *machine, bool reclaim,
                         bool *too_early)
{
    bool grace = in_grace(call);
    *too_early = grace != reclaim;
    if (!*too_early && reclaim && !nsm_hosts_may_reclaim(service_of(call)->hosts, machine)) {
        return -EAGAIN;
    }
    return 0;
}

static int lock(struct rpc_call *call, const struct nlm4_lockargs *args,
                struct nlm_lock_asked *asked, bool is_msg)
{
    struct nlm_service *service = service_of(call);
    struct nlm_block *block = NULL;

    if (args->block && !args->reclaim) {
        block = nlm_block_new(service, call, &args->alock, asked, is_msg);
        if (block == NULL) {
            return -ENOMEM;
        }
    }
    int err = vfs_range_set(&asked->caller, &asked->node, &asked->owner, &asked->range,
                            nlm_block_waiter(block));
    if (err != -EINPROGRESS) {
        nlm_block_free(block);
    }
    if (err == 0) {
        nlm_block_settle(service, asked);
    }
    return err;
}

/* monitored: the client is told of our restarts, and tells of its own. */
static void serve_lock(struct rpc_call *call, const struct nlm4_lockargs *args,
                       struct nlm4_res *res, bool monitored, bool is_msg)
{
    struct nlm_service *service = service_of(call);
    struct nlm_lock_asked asked;
    bool too_early = false;

    res->cookie = args->cookie;
    int err = nlm_lock_ask(call, service->vfs, &args->alock, args->exclusive, (uint32_t)args->state,
                           &asked);
    if (err == 0) {
        err = judge_reclaim(call, &asked.machine, args->reclaim, &too_early);
    }
    if (err == 0 && !too_early) {
        err = nsm_hosts_add(service->hosts, &asked.machine, call->peer->local_address, monitored);
        err = err == 0 ? lock(call, args, &asked, is_msg) : -ENOLCK;
    }
    res->stat.stat = told(call, too_early ? NLM4_DENIED_GRACE_PERIOD : nlm_lock_status(err));
    vfs_put(&asked.node);
}

/* Asked for in the grace period as well: giving up is always allowed. */
static void serve_cancel(struct rpc_call *call, const struct nlm4_cancargs *args,
                         struct nlm4_res *res)
{
    struct nlm_service *service = service_of(call);
    struct nlm_lock_asked asked;

    res->cookie = args->cookie;
    int err = nlm_lock_ask(call, service->vfs, &args->alock, args->exclusive, 0, &asked);
    if (err == 0) {
        err = vfs_range_cancel(&asked.caller, &asked.node, &asked.owner, &asked.range);
        /* It may have been granted a moment ago; to nobody, then. */
        if (err == -ENOENT) {
            err = nlm_block_cancel(service, &asked) ? 0 : -EAGAIN;
        }
    }
    res->stat.stat = told(call, nlm_lock_status(err));
    vfs_put(&asked.node);
}

static void serve_unlock(struct rpc_call *call, const struct nlm4_unlockargs *args,
                         struct nlm4_res *res)
{
    struct nlm_service *service = service_of(call);
    struct nlm_lock_asked asked;

    res->cookie = args->cookie;
    int err = nlm_lock_ask(call, service->vfs, &args->alock, false, 0, &asked);
    if (err == 0) {
        nlm_block_forget(service, &asked);
        err = vfs_range_clear(&asked.caller, &asked.node, &asked.owner, &asked.range);
    }
    res->stat.stat = told(call, nlm_lock_status(err));
    vfs_put(&asked.node);
}

/* Somebody thinks that we wait for a lock of theirs. We never do. */
static void serve_granted(struct rpc_call *call, const struct nlm4_testargs *args,
                          struct nlm4_res *res)
{
    (void)call;
    res->cookie = args->cookie;
    res->stat.stat = NLM4_DENIED;
}

static int share(struct rpc_call *call, const struct nlm4_shareargs *args,
                 struct nlm_lock_asked *asked)
{
    struct nlm_service *service = service_of(call);
    int err = nsm_hosts_add(service->hosts, &asked->machine, call->peer->local_address, true);
    return err == 0 ? nlm_share_set(service, asked, args->share.mode, args->share.access) : -ENOLCK;
}

static void serve_share(struct rpc_call *call, const struct nlm4_shareargs *args,
                        struct nlm4_shareres *res, bool sets)
{
    const struct nlm4_lock lock = {
        .caller_name = args->share.caller_name, .fh = args->share.fh, .oh = args->share.oh};
    struct nlm_lock_asked asked;
    bool too_early = false;

    res->cookie = args->cookie;
    int err = nlm_lock_ask(call, service_of(call)->vfs, &lock, false, 0, &asked);
    if (err == 0 && sets) {
        err = judge_reclaim(call, &asked.machine, args->reclaim, &too_early);
    }
    if (err == 0 && !too_early && sets) {
        err = share(call, args, &asked);
    } else if (err == 0 && !sets) {
        nlm_share_clear(service_of(call), &asked);
    }
    res->stat = told(call, too_early ? NLM4_DENIED_GRACE_PERIOD : nlm_lock_status(err));
    vfs_put(&asked.node);
}

/* A client without a status monitor has restarted. It speaks for itself alone. */
static void serve_free_all(struct rpc_call *call, struct xdr_bytes name)
{
    struct machine machine;
    static struct log_limit limit;
    char text[MACHINE_TEXT_BYTES_MAX];
    machine_of_peer(call->peer, name, &machine);
    log_write_limited(&limit, LOG_INFO, "nlm: %s gives up all its locks",
                      machine_text(&machine, text));
    nlm_release(service_of(call), &machine, 0);
}

/* ---- results that travel as calls ---- */

struct answer {
    union {
        struct nlm_res res;
        struct nlm_testres testres;
        struct nlm4_res res4;
        struct nlm4_testres testres4;
    };
    uint8_t memory[];
};

static void sent(void *owner, const struct rpc_outcall_end *end)
{
    (void)end; /* many clients never answer these */
    free(owner);
}

/* Any address can be written on a datagram; only those who may use an export are called. */
static bool is_client(const struct rpc_call *call)
{
    return vfs_names_host(service_of(call)->vfs, &call->peer->address.sa);
}

static struct xdr_bytes keep(uint8_t **memory, struct xdr_bytes bytes)
{
    struct xdr_bytes kept = {*memory, bytes.size};
    if (bytes.size > 0) {
        memcpy(*memory, bytes.data, bytes.size);
    }
    *memory += bytes.size;
    return kept;
}

static void send_answer(struct rpc_call *call, uint32_t proc, struct answer *answer)
{
    struct nlm_service *service = service_of(call);
    struct machine machine;
    struct rpc_outcall outcall = {.is_tcp = call->peer->is_tcp,
                                  .prog = NLM_PROG,
                                  .vers = call->vers,
                                  .proc = proc,
                                  .args = answer,
                                  .once = true,
                                  .ended = sent,
                                  .owner = answer};
    machine_of_peer(call->peer, (struct xdr_bytes){0}, &machine);
    machine_sockaddr(machine.address, machine.scope, &outcall.to);
    machine_sockaddr(call->peer->local_address, machine.scope, &outcall.from);
    if (!is_client(call) || service->outcaller.submit(service->outcaller.arg, &outcall) != 0) {
        free(answer);
    }
}

static void answer_test(struct rpc_call *call, const struct nlm4_testres *res)
{
    const struct nlm4_holder *holder = &res->test_stat.holder;
    struct answer *answer = calloc(1, sizeof *answer + res->cookie.size + holder->oh.size);
    if (answer == NULL) {
        return;
    }
    uint8_t *memory = answer->memory;
    struct nlm4_testres copy = *res;
    copy.cookie = keep(&memory, res->cookie);
    if (res->test_stat.stat == NLM4_DENIED) {
        copy.test_stat.holder.oh = keep(&memory, holder->oh);
    }
    if (call->vers == NLM4_VERS) {
        answer->testres4 = copy;
    } else {
        nlm_narrow_testres(&copy, &answer->testres);
    }
    send_answer(call, NLMPROC4_TEST_RES, answer);
}

static void answer(struct rpc_call *call, uint32_t proc, const struct nlm4_res *res)
{
    struct answer *answer = calloc(1, sizeof *answer + res->cookie.size);
    if (answer == NULL) {
        return;
    }
    uint8_t *memory = answer->memory;
    struct nlm4_res copy = *res;
    copy.cookie = keep(&memory, res->cookie);
    if (call->vers == NLM4_VERS) {
        answer->res4 = copy;
    } else {
        nlm_narrow_res(&copy, &answer->res);
    }
    send_answer(call, proc, answer);
}

/* ---- version 4 ---- */

static void nlm_null(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    (void)call;
    (void)args;
    (void)res;
}
RPC_THUNK(nlm_null, rpc_void, rpc_void)

static void nlm4_test(struct rpc_call *call, const struct nlm4_testargs *args,
                      struct nlm4_testres *res)
{
    serve_test(call, args, res);
}
RPC_THUNK(nlm4_test, nlm4_testargs, nlm4_testres)

static void nlm4_lock(struct rpc_call *call, const struct nlm4_lockargs *args, struct nlm4_res *res)
{
    serve_lock(call, args, res, true, false);
}
RPC_THUNK(nlm4_lock, nlm4_lockargs, nlm4_res)

static void nlm4_nm_lock(struct rpc_call *call, const struct nlm4_lockargs *args,
                         struct nlm4_res *res)
{
    serve_lock(call, args, res, false, false);
}
RPC_THUNK(nlm4_nm_lock, nlm4_lockargs, nlm4_res)

static void nlm4_cancel(struct rpc_call *call, const struct nlm4_cancargs *args,
                        struct nlm4_res *res)
{
    serve_cancel(call, args, res);
}
RPC_THUNK(nlm4_cancel, nlm4_cancargs, nlm4_res)

static void nlm4_unlock(struct rpc_call *call, const struct nlm4_unlockargs *args,
                        struct nlm4_res *res)
{
    serve_unlock(call, args, res);
}
RPC_THUNK(nlm4_unlock, nlm4_unlockargs, nlm4_res)

static void nlm4_granted(struct rpc_call *call, const struct nlm4_testargs *args,
                         struct nlm4_res *res)
{
    serve_granted(call, args, res);
}
RPC_THUNK(nlm4_granted, nlm4_testargs, nlm4_res)

static void nlm4_share(struct rpc_call *call, const struct nlm4_shareargs *args,
                       struct nlm4_shareres *res)
{
    serve_share(call, args, res, true);
}
RPC_THUNK(nlm4_share, nlm4_shareargs, nlm4_shareres)

static void nlm4_unshare(struct rpc_call *call, const struct nlm4_shareargs *args,
                         struct nlm4_shareres *res)
{
    serve_share(call, args, res, false);
}
RPC_THUNK(nlm4_unshare, nlm4_shareargs, nlm4_shareres)

static void nlm4_free_all(struct rpc_call *call, const struct nlm4_notify *args,
                          struct rpc_void *res)
{
    (void)res;
    serve_free_all(call, args->name);
}
RPC_THUNK(nlm4_free_all, nlm4_notify, rpc_void)

static void nlm4_test_msg(struct rpc_call *call, const struct nlm4_testargs *args,
                          struct rpc_void *none)
{
    struct nlm4_testres res = {0};
    (void)none;
    serve_test(call, args, &res);
    answer_test(call, &res);
}
RPC_THUNK(nlm4_test_msg, nlm4_testargs, rpc_void)

static void nlm4_lock_msg(struct rpc_call *call, const struct nlm4_lockargs *args,
                          struct rpc_void *none)
{
    struct nlm4_res res = {0};
    (void)none;
    serve_lock(call, args, &res, true, true);
    answer(call, NLMPROC4_LOCK_RES, &res);
}
RPC_THUNK(nlm4_lock_msg, nlm4_lockargs, rpc_void)

static void nlm4_cancel_msg(struct rpc_call *call, const struct nlm4_cancargs *args,
                            struct rpc_void *none)
{
    struct nlm4_res res = {0};
    (void)none;
    serve_cancel(call, args, &res);
    answer(call, NLMPROC4_CANCEL_RES, &res);
}
RPC_THUNK(nlm4_cancel_msg, nlm4_cancargs, rpc_void)

static void nlm4_unlock_msg(struct rpc_call *call, const struct nlm4_unlockargs *args,
                            struct rpc_void *none)
{
    struct nlm4_res res = {0};
    (void)none;
    serve_unlock(call, args, &res);
    answer(call, NLMPROC4_UNLOCK_RES, &res);
}
RPC_THUNK(nlm4_unlock_msg, nlm4_unlockargs, rpc_void)

static void nlm4_granted_msg(struct rpc_call *call, const struct nlm4_testargs *args,
                             struct rpc_void *none)
{
    struct nlm4_res res = {0};
    (void)none;
    serve_granted(call, args, &res);
    answer(call, NLMPROC4_GRANTED_RES, &res);
}
RPC_THUNK(nlm4_granted_msg, nlm4_testargs, rpc_void)

/* Results of calls that we never make. */
static void nlm4_test_res(struct rpc_call *call, const struct nlm4_testres *args,
                          struct rpc_void *res)
{
    (void)call;
    (void)args;
    (void)res;
}
RPC_THUNK(nlm4_test_res, nlm4_testres, rpc_void)

static void nlm4_other_res(struct rpc_call *call, const struct nlm4_res *args, struct rpc_void *res)
{
    (void)call;
    (void)args;
    (void)res;
}
RPC_THUNK(nlm4_other_res, nlm4_res, rpc_void)

static void nlm4_granted_res(struct rpc_call *call, const struct nlm4_res *args,
                             struct rpc_void *res)
{
    (void)res;
    nlm_block_answered(service_of(call), call->peer, args->cookie, args->stat.stat);
}
RPC_THUNK(nlm4_granted_res, nlm4_res, rpc_void)

/* ---- versions 1 and 3: the same, narrower ---- */

static void nlm1_test(struct rpc_call *call, const struct nlm_testargs *args,
                      struct nlm_testres *res)
{
    struct nlm4_testargs wide;
    struct nlm4_testres wide_res = {0};
    nlm_wide_testargs(args, &wide);
    serve_test(call, &wide, &wide_res);
    nlm_narrow_testres(&wide_res, res);
}
RPC_THUNK(nlm1_test, nlm_testargs, nlm_testres)

static void nlm1_lock(struct rpc_call *call, const struct nlm_lockargs *args, struct nlm_res *res)
{
    struct nlm4_lockargs wide;
    struct nlm4_res wide_res = {0};
    nlm_wide_lockargs(args, &wide);
    serve_lock(call, &wide, &wide_res, true, false);
    nlm_narrow_res(&wide_res, res);
}
RPC_THUNK(nlm1_lock, nlm_lockargs, nlm_res)

static void nlm3_nm_lock(struct rpc_call *call, const struct nlm_lockargs *args,
                         struct nlm_res *res)
{
    struct nlm4_lockargs wide;
    struct nlm4_res wide_res = {0};
    nlm_wide_lockargs(args, &wide);
    serve_lock(call, &wide, &wide_res, false, false);
    nlm_narrow_res(&wide_res, res);
}
RPC_THUNK(nlm3_nm_lock, nlm_lockargs, nlm_res)

static void nlm1_cancel(struct rpc_call *call, const struct nlm_cancargs *args, struct nlm_res *res)
{
    struct nlm4_cancargs wide;
    struct nlm4_res wide_res = {0};
    nlm_wide_cancargs(args, &wide);
    serve_cancel(call, &wide, &wide_res);
    nlm_narrow_res(&wide_res, res);
}
RPC_THUNK(nlm1_cancel, nlm_cancargs, nlm_res)

static void nlm1_unlock(struct rpc_call *call, const struct nlm_unlockargs *args,
                        struct nlm_res *res)
{
    struct nlm4_unlockargs wide;
    struct nlm4_res wide_res = {0};
    nlm_wide_unlockargs(args, &wide);
    serve_unlock(call, &wide, &wide_res);
    nlm_narrow_res(&wide_res, res);
}
RPC_THUNK(nlm1_unlock, nlm_unlockargs, nlm_res)

static void nlm1_granted(struct rpc_call *call, const struct nlm_testargs *args,
                         struct nlm_res *res)
{
    struct nlm4_testargs wide;
    struct nlm4_res wide_res = {0};
    nlm_wide_testargs(args, &wide);
    serve_granted(call, &wide, &wide_res);
    nlm_narrow_res(&wide_res, res);
}
RPC_THUNK(nlm1_granted, nlm_testargs, nlm_res)

static void nlm3_share(struct rpc_call *call, const struct nlm_shareargs *args,
                       struct nlm_shareres *res)
{
    struct nlm4_shareargs wide;
    struct nlm4_shareres wide_res = {0};
    nlm_wide_shareargs(args, &wide);
    serve_share(call, &wide, &wide_res, true);
    nlm_narrow_shareres(&wide_res, res);
}
RPC_THUNK(nlm3_share, nlm_shareargs, nlm_shareres)

static void nlm3_unshare(struct rpc_call *call, const struct nlm_shareargs *args,
                         struct nlm_shareres *res)
{
    struct nlm4_shareargs wide;
    struct nlm4_shareres wide_res = {0};
    nlm_wide_shareargs(args, &wide);
    serve_share(call, &wide, &wide_res, false);
    nlm_narrow_shareres(&wide_res, res);
}
RPC_THUNK(nlm3_unshare, nlm_shareargs, nlm_shareres)

static void nlm3_free_all(struct rpc_call *call, const struct nlm_notify *args,
                          struct rpc_void *res)
{
    (void)res;
    serve_free_all(call, args->name);
}
RPC_THUNK(nlm3_free_all, nlm_notify, rpc_void)

static void nlm1_test_msg(struct rpc_call *call, const struct nlm_testargs *args,
                          struct rpc_void *none)
{
    struct nlm4_testargs wide;
    nlm_wide_testargs(args, &wide);
    nlm4_test_msg(call, &wide, none);
}
RPC_THUNK(nlm1_test_msg, nlm_testargs, rpc_void)

static void nlm1_lock_msg(struct rpc_call *call, const struct nlm_lockargs *args,
                          struct rpc_void *none)
{
    struct nlm4_lockargs wide;
    nlm_wide_lockargs(args, &wide);
    nlm4_lock_msg(call, &wide, none);
}
RPC_THUNK(nlm1_lock_msg, nlm_lockargs, rpc_void)

static void nlm1_cancel_msg(struct rpc_call *call, const struct nlm_cancargs *args,
                            struct rpc_void *none)
{
    struct nlm4_cancargs wide;
    nlm_wide_cancargs(args, &wide);
    nlm4_cancel_msg(call, &wide, none);
}
RPC_THUNK(nlm1_cancel_msg, nlm_cancargs, rpc_void)

static void nlm1_unlock_msg(struct rpc_call *call, const struct nlm_unlockargs *args,
                            struct rpc_void *none)
{
    struct nlm4_unlockargs wide;
    nlm_wide_unlockargs(args, &wide);
    nlm4_unlock_msg(call, &wide, none);
}
RPC_THUNK(nlm1_unlock_msg, nlm_unlockargs, rpc_void)

static void nlm1_granted_msg(struct rpc_call *call, const struct nlm_testargs *args,
                             struct rpc_void *none)
{
    struct nlm4_testargs wide;
    nlm_wide_testargs(args, &wide);
    nlm4_granted_msg(call, &wide, none);
}
RPC_THUNK(nlm1_granted_msg, nlm_testargs, rpc_void)

static void nlm1_test_res(struct rpc_call *call, const struct nlm_testres *args,
                          struct rpc_void *res)
{
    (void)call;
    (void)args;
    (void)res;
}
RPC_THUNK(nlm1_test_res, nlm_testres, rpc_void)

static void nlm1_other_res(struct rpc_call *call, const struct nlm_res *args, struct rpc_void *res)
{
    (void)call;
    (void)args;
    (void)res;
}
RPC_THUNK(nlm1_other_res, nlm_res, rpc_void)

static void nlm1_granted_res(struct rpc_call *call, const struct nlm_res *args,
                             struct rpc_void *res)
{
    (void)res;
    nlm_block_answered(service_of(call), call->peer, args->cookie, args->stat.stat);
}
RPC_THUNK(nlm1_granted_res, nlm_res, rpc_void)

/* ---- tables ---- */

#define STAT_ROW(NAME, function, ARGS, RES)                                                        \
    RPC_ROW(NAME, function, ARGS, RES, .reply_bytes_max = STAT_BYTES_MAX, .cached = true)
#define VOID_ROW(NAME, function, ARGS) RPC_ROW(NAME, function, ARGS, rpc_void, .reply_bytes_max = 4)

#define NLM1_ROWS                                                                                  \
    [NLM_NULL] = VOID_ROW("NLM_NULL", nlm_null, rpc_void),                                         \
    [NLM_TEST] = RPC_ROW("NLM_TEST", nlm1_test, nlm_testargs, nlm_testres,                         \
                         .reply_bytes_max = TEST_BYTES_MAX),                                       \
    [NLM_LOCK] = STAT_ROW("NLM_LOCK", nlm1_lock, nlm_lockargs, nlm_res),                           \
    [NLM_CANCEL] = STAT_ROW("NLM_CANCEL", nlm1_cancel, nlm_cancargs, nlm_res),                     \
    [NLM_UNLOCK] = STAT_ROW("NLM_UNLOCK", nlm1_unlock, nlm_unlockargs, nlm_res),                   \
    [NLM_GRANTED] = STAT_ROW("NLM_GRANTED", nlm1_granted, nlm_testargs, nlm_res),                  \
    [NLM_TEST_MSG] = VOID_ROW("NLM_TEST_MSG", nlm1_test_msg, nlm_testargs),                        \
    [NLM_LOCK_MSG] = VOID_ROW("NLM_LOCK_MSG", nlm1_lock_msg, nlm_lockargs),                        \
    [NLM_CANCEL_MSG] = VOID_ROW("NLM_CANCEL_MSG", nlm1_cancel_msg, nlm_cancargs),                  \
    [NLM_UNLOCK_MSG] = VOID_ROW("NLM_UNLOCK_MSG", nlm1_unlock_msg, nlm_unlockargs),                \
    [NLM_GRANTED_MSG] = VOID_ROW("NLM_GRANTED_MSG", nlm1_granted_msg, nlm_testargs),               \
    [NLM_TEST_RES] = VOID_ROW("NLM_TEST_RES", nlm1_test_res, nlm_testres),                         \
    [NLM_LOCK_RES] = VOID_ROW("NLM_LOCK_RES", nlm1_other_res, nlm_res),                            \
    [NLM_CANCEL_RES] = VOID_ROW("NLM_CANCEL_RES", nlm1_other_res, nlm_res),                        \
    [NLM_UNLOCK_RES] = VOID_ROW("NLM_UNLOCK_RES", nlm1_other_res, nlm_res),                        \
    [NLM_GRANTED_RES] = VOID_ROW("NLM_GRANTED_RES", nlm1_granted_res, nlm_res)

static const struct rpc_procedure nlm1_procedures[] = {NLM1_ROWS};

static const struct rpc_procedure nlm3_procedures[] = {
    NLM1_ROWS,
    [NLM_SHARE] = RPC_ROW("NLM_SHARE", nlm3_share, nlm_shareargs, nlm_shareres,
                          .reply_bytes_max = SHARE_BYTES_MAX, .cached = true),
    [NLM_UNSHARE] = RPC_ROW("NLM_UNSHARE", nlm3_unshare, nlm_shareargs, nlm_shareres,
                            .reply_bytes_max = SHARE_BYTES_MAX, .cached = true),
    [NLM_NM_LOCK] = STAT_ROW("NLM_NM_LOCK", nlm3_nm_lock, nlm_lockargs, nlm_res),
    [NLM_FREE_ALL] = VOID_ROW("NLM_FREE_ALL", nlm3_free_all, nlm_notify),
};

static const struct rpc_procedure nlm4_procedures[] = {
    [NLMPROC4_NULL] = VOID_ROW("NLMPROC4_NULL", nlm_null, rpc_void),
    [NLMPROC4_TEST] = RPC_ROW("NLMPROC4_TEST", nlm4_test, nlm4_testargs, nlm4_testres,
                              .reply_bytes_max = TEST_BYTES_MAX),
    [NLMPROC4_LOCK] = STAT_ROW("NLMPROC4_LOCK", nlm4_lock, nlm4_lockargs, nlm4_res),
    [NLMPROC4_CANCEL] = STAT_ROW("NLMPROC4_CANCEL", nlm4_cancel, nlm4_cancargs, nlm4_res),
    [NLMPROC4_UNLOCK] = STAT_ROW("NLMPROC4_UNLOCK", nlm4_unlock, nlm4_unlockargs, nlm4_res),
    [NLMPROC4_GRANTED] = STAT_ROW("NLMPROC4_GRANTED", nlm4_granted, nlm4_testargs, nlm4_res),
    [NLMPROC4_TEST_MSG] = VOID_ROW("NLMPROC4_TEST_MSG", nlm4_test_msg, nlm4_testargs),
    [NLMPROC4_LOCK_MSG] = VOID_ROW("NLMPROC4_LOCK_MSG", nlm4_lock_msg, nlm4_lockargs),
    [NLMPROC4_CANCEL_MSG] = VOID_ROW("NLMPROC4_CANCEL_MSG", nlm4_cancel_msg, nlm4_cancargs),
    [NLMPROC4_UNLOCK_MSG] = VOID_ROW("NLMPROC4_UNLOCK_MSG", nlm4_unlock_msg, nlm4_unlockargs),
    [NLMPROC4_GRANTED_MSG] = VOID_ROW("NLMPROC4_GRANTED_MSG", nlm4_granted_msg, nlm4_testargs),
    [NLMPROC4_TEST_RES] = VOID_ROW("NLMPROC4_TEST_RES", nlm4_test_res, nlm4_testres),
    [NLMPROC4_LOCK_RES] = VOID_ROW("NLMPROC4_LOCK_RES", nlm4_other_res, nlm4_res),
    [NLMPROC4_CANCEL_RES] = VOID_ROW("NLMPROC4_CANCEL_RES", nlm4_other_res, nlm4_res),
    [NLMPROC4_UNLOCK_RES] = VOID_ROW("NLMPROC4_UNLOCK_RES", nlm4_other_res, nlm4_res),
    [NLMPROC4_GRANTED_RES] = VOID_ROW("NLMPROC4_GRANTED_RES", nlm4_granted_res, nlm4_res),
    [NLMPROC4_SHARE] = RPC_ROW("NLMPROC4_SHARE", nlm4_share, nlm4_shareargs, nlm4_shareres,
                               .reply_bytes_max = SHARE_BYTES_MAX, .cached = true),
    [NLMPROC4_UNSHARE] = RPC_ROW("NLMPROC4_UNSHARE", nlm4_unshare, nlm4_shareargs, nlm4_shareres,
                                 .reply_bytes_max = SHARE_BYTES_MAX, .cached = true),
    [NLMPROC4_NM_LOCK] = STAT_ROW("NLMPROC4_NM_LOCK", nlm4_nm_lock, nlm4_lockargs, nlm4_res),
    [NLMPROC4_FREE_ALL] = VOID_ROW("NLMPROC4_FREE_ALL", nlm4_free_all, nlm4_notify),
};

static const struct rpc_version nlm_versions[] = {
    {NLM_VERS, COUNT_OF(nlm1_procedures), nlm1_procedures},
    {NLM_VERSX, COUNT_OF(nlm3_procedures), nlm3_procedures},
    {NLM4_VERS, COUNT_OF(nlm4_procedures), nlm4_procedures},
};

void nlm_program_init(struct rpc_program *program, struct nlm_service *service)
{
    pthread_mutex_init(&service->lock, NULL);
    service->block_id = 0;
    service->granting = NULL;
    service->share_count = 0;
    *program = (struct rpc_program){.prog = NLM_PROG,
                                    .name = "nlm",
                                    .version_count = COUNT_OF(nlm_versions),
                                    .versions = nlm_versions,
                                    .service = service};
}

void nlm_service_fini(struct nlm_service *service)
{
    nlm_block_forget_client(service, (struct vfs_bytes){0}, 0);
    nlm_share_release(service, (struct vfs_bytes){0});
    pthread_mutex_destroy(&service->lock);
}

/* ---- clients ---- */

void nlm_release(struct nlm_service *service, const struct machine *machine, uint32_t state)
{
    uint8_t key[MACHINE_KEY_BYTES_MAX];
    const struct vfs_bytes client = {key, machine_key(machine, key)};
    nlm_block_forget_client(service, client, state);
    nlm_share_release(service, client);
    vfs_range_release(service->vfs, client, state);
}

void nlm_release_all(struct nlm_service *service)
{
    nlm_block_forget_client(service, (struct vfs_bytes){0}, 0);
    nlm_share_release(service, (struct vfs_bytes){0});
    vfs_range_release_all(service->vfs);
}

bool nlm_is_busy(struct nlm_service *service, const struct machine *machine)
{
    uint8_t key[MACHINE_KEY_BYTES_MAX];
    const struct vfs_bytes client = {key, machine_key(machine, key)};
    return vfs_range_client_is_busy(service->vfs, client) || nlm_share_is_busy(service, client);
}

void nlm_tick(struct nlm_service *service)
{
    nlm_block_tick(service);
}
