/* SPDX-License-Identifier: Apache-2.0 */
#include "server/nlm_wide.h"

static struct nlm4_lock wide_lock(const struct nlm_lock *lock)
{
    return (struct nlm4_lock){.caller_name = lock->caller_name,
                              .fh = lock->fh,
                              .oh = lock->oh,
                              .svid = lock->svid,
                              .l_offset = lock->l_offset,
                              .l_len = lock->l_len};
}

void nlm_wide_testargs(const struct nlm_testargs *args, struct nlm4_testargs *wide)
{
    *wide = (struct nlm4_testargs){
        .cookie = args->cookie, .exclusive = args->exclusive, .alock = wide_lock(&args->alock)};
}

void nlm_wide_lockargs(const struct nlm_lockargs *args, struct nlm4_lockargs *wide)
{
    *wide = (struct nlm4_lockargs){.cookie = args->cookie,
                                   .block = args->block,
                                   .exclusive = args->exclusive,
                                   .alock = wide_lock(&args->alock),
                                   .reclaim = args->reclaim,
                                   .state = args->state};
}

void nlm_wide_cancargs(const struct nlm_cancargs *args, struct nlm4_cancargs *wide)
{
    *wide = (struct nlm4_cancargs){.cookie = args->cookie,
                                   .block = args->block,
                                   .exclusive = args->exclusive,
                                   .alock = wide_lock(&args->alock)};
}

void nlm_wide_unlockargs(const struct nlm_unlockargs *args, struct nlm4_unlockargs *wide)
{
    *wide = (struct nlm4_unlockargs){.cookie = args->cookie, .alock = wide_lock(&args->alock)};
}

void nlm_wide_shareargs(const struct nlm_shareargs *args, struct nlm4_shareargs *wide)
{
    *wide = (struct nlm4_shareargs){.cookie = args->cookie,
                                    .share = {.caller_name = args->share.caller_name,
                                              .fh = args->share.fh,
                                              .oh = args->share.oh,
                                              .mode = args->share.mode,
                                              .access = args->share.access},
                                    .reclaim = args->reclaim};
}

enum nlm_stats nlm_narrow_stats(enum nlm4_stats stat)
{
    switch (stat) {
    case NLM4_GRANTED:
        return LCK_GRANTED;
    case NLM4_DENIED:
    case NLM4_DEADLCK:
        return LCK_DENIED;
    case NLM4_BLOCKED:
        return LCK_BLOCKED;
    case NLM4_DENIED_GRACE_PERIOD:
        return LCK_DENIED_GRACE_PERIOD;
    default:
        return LCK_DENIED_NOLOCKS;
    }
}

static uint32_t narrow(uint64_t offset)
{
    return offset > UINT32_MAX ? UINT32_MAX : (uint32_t)offset;
}

void nlm_narrow_testres(const struct nlm4_testres *wide, struct nlm_testres *res)
{
    const struct nlm4_holder *holder = &wide->test_stat.holder;

    *res = (struct nlm_testres){.cookie = wide->cookie};
    res->test_stat.stat = nlm_narrow_stats(wide->test_stat.stat);
    if (wide->test_stat.stat == NLM4_DENIED) {
        res->test_stat.holder = (struct nlm_holder){
            .exclusive = holder->exclusive,
            .svid = holder->svid,
            .oh = holder->oh,
            .l_offset = narrow(holder->l_offset),
            /* One that goes beyond what 32 bits can say goes to the end of the file. */
            .l_len = holder->l_len > UINT32_MAX ? 0 : (uint32_t)holder->l_len,
        };
    }
}

void nlm_narrow_res(const struct nlm4_res *wide, struct nlm_res *res)
{
    *res = (struct nlm_res){.cookie = wide->cookie, .stat = {nlm_narrow_stats(wide->stat.stat)}};
}

void nlm_narrow_shareres(const struct nlm4_shareres *wide, struct nlm_shareres *res)
{
    *res = (struct nlm_shareres){
        .cookie = wide->cookie, .stat = nlm_narrow_stats(wide->stat), .sequence = wide->sequence};
}
