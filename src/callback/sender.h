/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the calls of rpc/outcall.h with the client library, on one thread: to clients of NLM, to
 * status monitors, and to whom NFSv4.0 calls back.
 *
 * 1. No host waits for another: each has its own line, socket and timers.
 * 2. The port of a program is asked of the host's portmapper, kept while calls are answered, and
 *    asked again after a failure. A host that has the program over UDP only is called over UDP.
 * 3. A host that does not answer is tried again after SENDER_PAUSE_MS_MIN, twice that, and so on up
 *    to SENDER_PAUSE_MS_MAX.
 * 4. Memory is bounded by SENDER_CALL_COUNT_MAX and SENDER_HOST_COUNT_MAX.
 */
#ifndef CALLBACK_SENDER_H
#define CALLBACK_SENDER_H

#include "base/err.h"
#include "rpc/outcall.h"

#define SENDER_CALL_COUNT_MAX 16384U
#define SENDER_HOST_COUNT_MAX 256U
#define SENDER_PAUSE_MS_MIN 1000
#define SENDER_PAUSE_MS_MAX 60000
#define SENDER_IDLE_MS_MAX 60000 /* a socket that nobody needs is closed after that */

struct sender;

int sender_open(struct sender **sender, struct err *err) MUST_USE;

/* Valid as long as the sender. */
struct rpc_outcaller sender_outcaller(struct sender *sender);

/* Ends all calls with -ECANCELED and joins the thread. NULL is allowed. */
void sender_close(struct sender *sender);

#endif
