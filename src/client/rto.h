/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long to wait for a reply over UDP before asking again: one estimator per class of procedures.
 *
 * Jacobson's mean and deviation, fed by Karn's rule only with calls that were sent once. After a
 * timeout the estimate stays doubled until a call is answered without one. Classes are those of the
 * Linux client: a READ takes longer than a GETATTR, and a COMMIT longer still. Pure: no clock.
 */
#ifndef CLIENT_RTO_H
#define CLIENT_RTO_H

#include "base/check.h"

#define RTO_CLASS_COUNT 6U
#define RTO_CLASS_NONE 0U /* rare procedures: no estimate, `timeo` */

struct rto {
    int64_t mean_ns; /* 0: no reply was timed yet */
    int64_t deviation_ns;
    uint32_t backoff; /* the next first timeout is doubled so many times */
};

/* The class of a procedure, below RTO_CLASS_COUNT. */
uint32_t client_rto_class(uint32_t prog, uint32_t vers, uint32_t proc);

/* The first timeout of a new call. */
int64_t client_rto_timeout_ns(const struct rto *rto, int64_t timeo_ns, int64_t min_ns,
                              int64_t max_ns);

/* A call was answered after wait_ns; `sent` transmissions. */
void client_rto_replied(struct rto *rto, int64_t wait_ns, uint32_t sent);

/* A call of this class ran out of its timeout for the count'th time. */
void client_rto_timed_out(struct rto *rto, uint32_t count);

#endif
