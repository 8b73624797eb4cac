/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the baseline share. */
#ifndef PROBE_BASELINE_INTERNAL_H
#define PROBE_BASELINE_INTERNAL_H

#include "client/nfs3.h"
#include "probe/baseline.h"

struct session {
    const struct baseline_options *options;
    struct baseline *baseline;
    struct client_mount *mounts[BASELINE_TRANSPORT_COUNT]; /* NULL: not to be had, or not wanted */
    struct client_mount *mount; /* one of them, for what is not measured */
    struct client_fh parent, dir;
    char dir_name[64];
    bool has_dir; /* made by us */
    struct client_fh file;
    uint64_t file_bytes;
};

/* 0, or -EINTR: the caller wants no more. */
int baseline_stopped(const struct session *session, struct err *err) MUST_USE;

/* baseline_small.c */
int baseline_measure_small(struct session *session, struct err *err) MUST_USE;

/* baseline_unpack.c */
int baseline_measure_unpacking(struct session *session, struct err *err) MUST_USE;

#endif
