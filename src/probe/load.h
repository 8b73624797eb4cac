/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A closed loop of READs or WRITEs on one file: so many in flight, of one size, for a while.
 *
 * Each point has a connection, timers and a congestion window of its own, so that one point's
 * losses do not slow the next. A READ whose answer is short is counted with what it brought;
 * nothing is read again, except what the RPC layer sends again because no reply came: that is what
 * is measured. A response time runs from the first transmission to the reply. Blocks.
 */
#ifndef PROBE_LOAD_H
#define PROBE_LOAD_H

#include "client/mount.h"
#include "probe/samples.h"

#define LOAD_BLOCK_BYTES_MAX (1U << 20)
/* A READ of more than this, with its RPC header, may not fit a datagram. */
#define LOAD_UDP_BLOCK_BYTES_MAX (56U * 1024)
#define LOAD_IN_FLIGHT_MAX 1024U

enum load_kind { LOAD_READ, LOAD_WRITE };

struct load_options {
    const struct client_mount *mount; /* its server, root and identity */
    struct client_fh file;
    uint64_t file_bytes; /* at least one block */
    enum load_kind kind;
    bool tcp;
    bool random;
    uint32_t block_bytes;
    uint32_t in_flight;
    uint32_t delay_us;             /* between a reply and the request that takes its place */
    uint32_t timeo_ms;             /* 0: that of the mount's transport; else also the least */
    uint32_t receive_buffer_bytes; /* 0: large */
    uint32_t duration_ms;
    uint32_t duration_ms_max; /* where losses left few answers */
    bool (*stopping)(void *owner); /* true ends it early; may be NULL */
    void *owner;
};

struct load_result {
    int status; /* 0, a nfsstat3, or -errno: the point could not be measured, or ended early */
    uint64_t bytes;
    uint64_t calls; /* answered */
    uint64_t retransmitted, timeouts, late_duplicates, refused;
    int64_t elapsed_ns;
    int64_t waited_ns;       /* in which nothing was answered because a timer had to run out */
    uint32_t answer_bytes;   /* most that one call moved; less than the block: the server's limit */
    uint32_t datagram_bytes; /* UDP: of the longest message, with the UDP header */
    uint32_t mtu;            /* UDP: of the way there; 0: not known */
    uint32_t fragments;      /* UDP: IP fragments of that message */
    struct samples samples;
};

/* Returns 0 also when the point failed (result->status); -errno: it could not be tried. */
int load_run(const struct load_options *options, struct load_result *result,
             struct err *err) MUST_USE;
void load_result_close(struct load_result *result);

/* IP fragments of a datagram whose UDP header and data are so many bytes. RFC 791 §3.2, RFC 8200
 * §4.5: all but the last carry a multiple of 8 bytes. */
uint32_t load_fragments(uint32_t datagram_bytes, uint32_t mtu, bool ipv6);

#endif
