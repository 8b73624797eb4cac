/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies under RPC on the way to a host: route, interface, neighbour, echo at several sizes.
 * Works without root as far as the system allows; what could not be seen says so. Blocks.
 */
#ifndef PROBE_LINK_H
#define PROBE_LINK_H

#include "base/err.h"
#include "client/address.h"

#include <stdbool.h>

#define LINK_NAME_BYTES 32U

struct link_counters {
    uint64_t rx_packets, rx_errors, rx_dropped, tx_errors, tx_dropped, collisions;
};

struct link_state {
    char name[LINK_NAME_BYTES]; /* of the interface */
    uint32_t index;
    bool loopback, up;
    uint32_t mtu;
    int64_t speed_mbit; /* -1: the driver does not say */
    char duplex[16];    /* "full", "half", "": unknown */
    struct link_counters counters;
    bool has_gateway;
    struct client_address gateway;
    struct client_address source;
};

/* The interface that datagrams to the address leave by (rtnetlink(7)). -ENETUNREACH: no route. */
int link_find(const struct client_address *to, struct link_state *link, struct err *err) MUST_USE;
/* Reads the counters again. */
void link_count(const struct link_state *link, struct link_counters *counters);

enum link_neighbour { LINK_NEIGHBOUR_NONE, LINK_NEIGHBOUR_GOOD, LINK_NEIGHBOUR_FAILED };
/* Who is asked first on the way: the gateway, or the host itself. NONE: there is no entry, as on
 * loopback and point-to-point links. */
enum link_neighbour link_neighbour(const struct link_state *link, const struct client_address *to);

enum link_echo { LINK_ECHO_BACK, LINK_ECHO_LOST, LINK_ECHO_TOO_BIG, LINK_ECHO_NOT_ALLOWED };
/* One ICMP echo (RFC 792, RFC 4443) whose IP packet has so many bytes. whole: it may not be
 * fragmented; TOO_BIG: somebody on the way said so. *rtt_ms when it came back. */
enum link_echo link_echo(const struct client_address *to, uint32_t packet_bytes, bool whole,
                         uint32_t timeout_ms, double *rtt_ms);

#endif
