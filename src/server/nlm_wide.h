/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions 1 and 3 of NLM in terms of version 4, which has the same procedures with wider numbers
 * and more reasons to refuse.
 */
#ifndef SERVER_NLM_WIDE_H
#define SERVER_NLM_WIDE_H

#include "proto/nlm.h"

void nlm_wide_testargs(const struct nlm_testargs *args, struct nlm4_testargs *wide);
void nlm_wide_lockargs(const struct nlm_lockargs *args, struct nlm4_lockargs *wide);
void nlm_wide_cancargs(const struct nlm_cancargs *args, struct nlm4_cancargs *wide);
void nlm_wide_unlockargs(const struct nlm_unlockargs *args, struct nlm4_unlockargs *wide);
void nlm_wide_shareargs(const struct nlm_shareargs *args, struct nlm4_shareargs *wide);

/* A status of version 4 that the others lack becomes the nearest one: a deadlock LCK_DENIED, all
 * other failures LCK_DENIED_NOLOCKS. */
enum nlm_stats nlm_narrow_stats(enum nlm4_stats stat);
void nlm_narrow_testres(const struct nlm4_testres *wide, struct nlm_testres *res);
void nlm_narrow_res(const struct nlm4_res *wide, struct nlm_res *res);
void nlm_narrow_shareres(const struct nlm4_shareres *wide, struct nlm_shareres *res);

#endif
