/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks an archive, or files that are made up, onto a server: so many files at a time, each by
 * the calls that tar(1) on a mount comes down to (LOOKUP, CREATE, WRITE, COMMIT, SETATTR), one
 * after the other.
 *
 * Directories, links, and files that are longer than UNPACK_AT_ONCE_BYTES are made while nothing
 * else is under way. What NFS clients do not make from an archive without being root (devices), and
 * names with "..", are skipped and counted. Directories keep the times they get. Blocks.
 */
#ifndef PROBE_UNPACK_H
#define PROBE_UNPACK_H

#include "client/nfs3.h"
#include "probe/samples.h"

#define UNPACK_FILES_MAX 256U /* at a time */
#define UNPACK_AT_ONCE_BYTES (1U << 20)
#define UNPACK_SAMPLES_MAX 200000U

enum unpack_op {
    UNPACK_LOOKUP,
    UNPACK_CREATE,
    UNPACK_WRITE,
    UNPACK_COMMIT,
    UNPACK_SETATTR,
    UNPACK_MKDIR,
    UNPACK_LINK, /* SYMLINK and LINK */
    UNPACK_OP_COUNT
};

struct unpack_options {
    struct client_mount *mount;
    struct client_fh dir;
    const char *archive; /* anything that libarchive reads; NULL: files are made up */
    uint32_t file_count; /* made up: how many, */
    uint32_t file_bytes; /* and how long each */
    uint32_t files_max;  /* at a time, 1 to UNPACK_FILES_MAX */
    bool (*stopping)(void *owner); /* asked often: true ends it, with -EINTR; may be NULL */
    void *owner;
};

struct unpack_result {
    uint32_t files_max;
    uint64_t files, directories, links, skipped;
    uint64_t bytes;
    int64_t elapsed_ns; /* reading the archive included */
    uint64_t calls[UNPACK_OP_COUNT];
    struct samples ops[UNPACK_OP_COUNT]; /* of the first UNPACK_SAMPLES_MAX calls of each */
};

/* 0, or -errno: it could not be unpacked whole. The caller closes the result in any case. */
int unpack_run(const struct unpack_options *options, struct unpack_result *result,
               struct err *err) MUST_USE;
void unpack_close(struct unpack_result *result);

const char *unpack_op_name(enum unpack_op op);
double unpack_rate(const struct unpack_result *result); /* files per second */

#endif
