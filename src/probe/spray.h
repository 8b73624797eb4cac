/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sprays a host with packets and asks it how many arrived (program 100012; docs/spray.md).
 *
 * Works with every receiver since Sun's; with ours it also tells where packets were lost. Blocks.
 */
#ifndef PROBE_SPRAY_H
#define PROBE_SPRAY_H

#include "base/err.h"
#include "client/address.h"
#include "report/tree.h"

/* The classic rules: a length counts Ethernet, IP, UDP and RPC heads, as far as one frame goes. */
#define SPRAY_OVERHEAD_BYTES 86U
#define SPRAY_FRAME_BYTES_MAX 1514U
#define SPRAY_LENGTH_MAX 8845U
#define SPRAY_TOTAL_BYTES 100000U /* count times length, if one of them is not given */
#define SPRAY_COUNT_MAX 10000000U

enum spray_way {
    SPRAY_UDP,
    SPRAY_TCP,
    SPRAY_BOTH /* UDP there and back: every packet is to be echoed */
};

struct spray_options {
    struct client_address address; /* with its port */
    enum spray_way way;
    uint32_t count, length;    /* as spray_fill_options leaves them */
    uint32_t delay_us;         /* after each packet */
    double packets_per_second; /* at this pace instead of with a delay; 0: not */
};

/* Fills in what was not given (0): the default length is that of an empty packet, and count or
 * length is what makes SPRAY_TOTAL_BYTES. Rounds the length up to one that XDR can have. */
void spray_fill_options(struct spray_options *options);

/* Every packet is in exactly one of refused, far_dropped, lost and counted, if has_report; without,
 * far_dropped is 0 and part of lost. */
struct spray_result {
    uint64_t sent;    /* taken by our kernel */
    uint64_t refused; /* not taken, or dropped by our own interface's queue */
    uint64_t counted; /* by the receiver */
    uint64_t lost;    /* neither: on the way, or (no has_report) at the receiver's socket */
    uint64_t extra;   /* counted beyond what was sent: duplicated on the way, or other senders */
    bool has_report;  /* the receiver is one of ours */
    uint64_t far_dropped; /* found the receiver's socket full */
    uint64_t reordered;
    uint64_t echoed;  /* SPRAY_BOTH: came back; the rest of counted was lost on the way back */
    double clock_s;   /* the receiver's, from CLEAR until it had counted all */
    double send_s;    /* ours, first to last packet */
    double arrival_s; /* has_report: the receiver's, first to last packet */
};

/* -EOPNOTSUPP: SPRAY_BOTH, and the receiver is a classic one. */
int spray_run(const struct spray_options *options, struct spray_result *result,
              struct err *err) MUST_USE;

/* What the classic command divides by: never zero. */
double spray_packets_per_second(const struct spray_result *result);

void spray_report_result(struct report *object, const struct spray_options *options,
                         const struct spray_result *result);

/* Where a host has its receiver: the portmapper's word, or the port of NFS if none answers. */
int spray_find_port(const struct client_address *address, bool tcp, uint16_t *port,
                    struct err *err) MUST_USE;

/* ---- the knee: from which rate on packets are lost ---- */

#define SPRAY_STEP_COUNT_MAX 40U

struct spray_step {
    double wanted_per_second;
    double reached_per_second;
    double loss; /* part of the packets */
    struct spray_result result;
};

struct spray_ramp {
    uint32_t step_count;
    struct spray_step steps[SPRAY_STEP_COUNT_MAX];
    double lossy_per_second; /* the lowest rate with loss; 0: none was found */
    double clean_per_second; /* the highest without, below that; 0: there is none */
    double loss;             /* there: part of the packets */
};

/* Rates double until packets are lost, then the step between is halved. Calls `each` after every
 * step (may be NULL). */
int spray_ramp(const struct spray_options *options, struct spray_ramp *ramp,
               void (*each)(void *owner, const struct spray_step *step), void *owner,
               struct err *err) MUST_USE;

#endif
