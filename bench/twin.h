/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What client.c and client_libnfs.c have in common, so that only the library under them differs:
 * the command line, when to begin and end, what is printed.
 *
 *     client PORT null|getattr|read HANDLE IN-FLIGHT SIZE SECONDS [as-is|gathered]
 *
 * HANDLE is the file's, in hexadecimal; SIZE the bytes of a READ. The last word is libnfs' own.
 */
#ifndef BENCH_TWIN_H
#define BENCH_TWIN_H

#include <stdbool.h>
#include <stdint.h>

#define TWIN_SPAN_BYTES (64ULL << 20) /* the offsets of READs stay below */

struct twin {
    uint16_t port;
    enum { TWIN_NULL, TWIN_GETATTR, TWIN_READ } op;
    uint8_t handle[64];
    uint32_t handle_bytes;
    uint32_t in_flight;
    uint32_t size_bytes;
    uint64_t calls; /* answered since the warm-up; counted by the program */
    uint64_t next_offset;
    bool gathered;
    bool is_warm;
    uint64_t seconds_ns, begin_ns, end_ns, cpu_ns;
};

void twin_open(struct twin *twin, int argc, char **argv);

/* Once a turn of the program's loop. False: it is over, and has been printed. */
bool twin_goes_on(struct twin *twin);

uint64_t twin_next_offset(struct twin *twin);

_Noreturn void twin_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
