/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server gives now, so that it can be compared with what it gives later, and with itself at
 * other block sizes: the data baseline (throughput over transports, block sizes and requests in
 * flight) and the small-file baseline (what each operation costs, and what of it is the network,
 * the server, and the wait for stable storage), and how fast archives are unpacked, one file at a
 * time and several.
 *
 * Works in a directory of its own, which it removes again, or on a file that is there, which it
 * only reads. Blocks.
 */
#ifndef PROBE_BASELINE_H
#define PROBE_BASELINE_H

#include "client/url.h"
#include "probe/load.h"
#include "probe/text.h"
#include "probe/unpack.h"
#include "report/tree.h"

#define BASELINE_BLOCK_COUNT_MAX 16U
#define BASELINE_IN_FLIGHT_COUNT_MAX 8U
#define BASELINE_POINT_COUNT_MAX 1024U
#define BASELINE_ADVICE_COUNT_MAX 16U

enum baseline_transport { BASELINE_TCP, BASELINE_UDP, BASELINE_TRANSPORT_COUNT };

struct baseline_options {
    struct client_url url; /* of a directory, or of a file */
    bool transports[BASELINE_TRANSPORT_COUNT];
    bool kinds[2]; /* by enum load_kind */
    bool sequential, random;
    uint32_t blocks[BASELINE_BLOCK_COUNT_MAX], block_count; /* bytes, ascending */
    uint32_t in_flight[BASELINE_IN_FLIGHT_COUNT_MAX], in_flight_count;
    uint32_t delay_us;
    uint32_t duration_ms; /* of a point; those with losses take up to ten times as long */
    uint32_t receive_buffer_bytes;
    uint64_t file_bytes;
    uint32_t fill_ms_max;      /* of writing it; then it is as long as it is; 0: no limit */
    uint32_t small_file_count; /* 0: no small-file baseline */
    const char *archive;       /* what is unpacked; NULL: */
    uint32_t unpack_count;     /* so many made-up files; 0: none */
    /* Told before each point; may be NULL. */
    void (*progress)(void *owner, uint32_t done, uint32_t all, const char *what);
    /* Told the name of the directory before it is made; may be NULL. */
    void (*making)(void *owner, const char *dir_name);
    /* Asked often: true ends it early, with -EINTR, and the directory is removed. May be NULL. */
    bool (*stopping)(void *owner);
    void *owner;
};

struct baseline_point {
    enum baseline_transport transport;
    enum load_kind kind;
    bool random;
    uint32_t block_bytes;
    uint32_t in_flight;
    struct load_result result;
};

/* Of the small files, in the order of the work on one file. */
enum baseline_op {
    BASELINE_NULL,
    BASELINE_LOOKUP, /* of a name that is not there */
    BASELINE_CREATE,
    BASELINE_WRITE_UNSTABLE,
    BASELINE_COMMIT,
    BASELINE_WRITE_FILE_SYNC,
    BASELINE_SETATTR,
    BASELINE_GETATTR,
    BASELINE_READ,
    BASELINE_REMOVE,
    BASELINE_OP_COUNT
};

#define BASELINE_SMALL_FILE_BYTES 8192U

struct baseline_small {
    uint32_t file_count;
    struct samples ops[BASELINE_OP_COUNT];
    bool waits;         /* for stable storage, as far as can be seen from outside */
    double network_ms;  /* median of NULL */
    double per_file_ms; /* LOOKUP CREATE WRITE COMMIT SETATTR: what unpacking a file takes */
    double storage_ms;  /* what of that is waiting for stable storage */
};

/* What follows from it. */
struct baseline_advice {
    char finding[PROBE_TEXT_BYTES];
    char evidence[PROBE_TEXT_BYTES];
    char change[PROBE_TEXT_BYTES]; /* "": nothing */
    double gain; /* how many times faster that would be; 0: nothing is wrong, or it is not known */
};

struct baseline {
    char host[CLIENT_HOST_BYTES_MAX];
    char path[CLIENT_PATH_BYTES_MAX];
    char problems[BASELINE_TRANSPORT_COUNT][PROBE_TEXT_BYTES]; /* "": none */
    char left_behind[PROBE_TEXT_BYTES]; /* what could not be removed again; "": nothing */
    uint32_t rtmax, wtmax;              /* of the server, bytes */
    struct baseline_point *points;
    uint32_t point_count;
    struct baseline_small small; /* file_count 0: not measured */
    /* With so many files at a time as requests are in flight. */
    struct unpack_result unpacked[BASELINE_IN_FLIGHT_COUNT_MAX];
    uint32_t unpacked_count;
    /* By kind and transport: the point to choose, or NULL. */
    const struct baseline_point *best[2][BASELINE_TRANSPORT_COUNT];
    struct baseline_advice advice[BASELINE_ADVICE_COUNT_MAX];
    uint32_t advice_count;
};

/* Measures. Returns 0 when there is something to tell, or -errno. The caller closes. */
int baseline_run(const struct baseline_options *options, struct baseline *baseline,
                 struct err *err) MUST_USE;
void baseline_close(struct baseline *baseline);

/* Chooses the best points and writes the advice, from points and small. */
void baseline_judge(struct baseline *baseline);

double baseline_rate(const struct baseline_point *point);        /* bytes a second */
double baseline_resent_part(const struct baseline_point *point); /* of the calls, 0 to 1 and more */
/* Milliseconds; 0: there are none. */
double baseline_median_ms(struct baseline_small *small, enum baseline_op op);
const char *baseline_op_name(enum baseline_op op);
const char *baseline_transport_name(enum baseline_transport transport);
/* "8 KiB". */
const char *baseline_size_text(uint64_t bytes, char text[32]);
/* "160 KB/s". */
const char *baseline_rate_text(double rate, char text[32]);

void baseline_report(struct report *report, struct baseline *baseline);

#endif
