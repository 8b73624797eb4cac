/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RPC NULL to everything a host offers: is it there, and how fast does it answer?
 *
 * Calls go out by the clock, whether or not the last one was answered, and a response time runs
 * from when its call was due, not from when it got away: a stall that holds up ten calls shows as
 * ten slow calls and not as one (no coordinated omission). Nothing is sent again over UDP; what is
 * not answered in time is lost, and counts. Blocks.
 */
#ifndef PROBE_PING_H
#define PROBE_PING_H

#include "base/err.h"
#include "client/address.h"
#include "client/pmap.h"
#include "probe/samples.h"
#include "report/tree.h"

#define PING_TARGET_COUNT_MAX 256U
#define PING_COUNT_MAX 1000000U

struct ping_options {
    struct client_address address; /* its port does not matter */
    uint32_t count;                /* calls to each target */
    uint32_t interval_us;
    uint32_t timeout_ms;
};

enum ping_state {
    PING_ANSWERS,
    PING_UNAVAILABLE, /* PROG_UNAVAIL */
    PING_MISMATCH,    /* PROG_MISMATCH; low, high */
    PING_REFUSED,     /* nobody listens at the port */
    PING_SILENT,      /* no answer */
    PING_DENIED       /* another refusal, see text */
};

struct ping_target {
    uint32_t prog;
    uint32_t vers;
    bool tcp;
    uint16_t port;
    enum ping_state state;
    uint32_t low, high;
    char text[160];
    int64_t connect_ns; /* TCP: until the first answer, with the connection made; -1: none */
    struct samples samples;
    uint32_t late; /* answers after the timeout; also counted as lost */
};

struct ping_result {
    uint32_t target_count;
    struct ping_target targets[PING_TARGET_COUNT_MAX];
};

/* What the portmapper lists, in order of program, version, transport. -errno of the question. */
int ping_find_targets(const struct ping_options *options, struct ping_result *result,
                      struct err *err) MUST_USE;

/* The programs an NFS server may have, at one port, over UDP and TCP; those that are not there are
 * taken out of the list again by ping_run. */
void ping_guess_targets(uint16_t port, struct ping_result *result);

/* Asks each target once, and those that answer `count` times. drop_absent: see above. */
int ping_run(const struct ping_options *options, bool drop_absent, struct ping_result *result,
             struct err *err) MUST_USE;

void ping_result_close(struct ping_result *result);

/* "nfs", or NULL. */
const char *ping_program_name(uint32_t prog);
const char *ping_state_name(enum ping_state state);

void ping_report(struct report *report, struct ping_result *result);

#endif
