/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations a load is made of: how each request is built, and what a right answer looks like.
 */
#ifndef BENCH_OPS_H
#define BENCH_OPS_H

#include "wire.h"

#include <stddef.h>
#include <sys/time.h>

/* In this order: each uses words of the one before and includes nothing itself. */
#include <nfsc/libnfs.h>

#include <nfsc/libnfs-zdr.h>

#include <nfsc/libnfs-raw.h>

#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>

struct handle {
    uint32_t size;
    char bytes[NFS3_FHSIZE];
};

/* What requests are about. */
struct work {
    struct handle dir;
    uint32_t file_count;  /* 1: always the same file */
    struct handle *files; /* file_count, where the operation needs them */
    uint32_t size_bytes;  /* of a READ or WRITE; READDIRPLUS: maxcount */
    uint64_t span_bytes;  /* offsets stay below this */
    uint64_t next;        /* number of the next request */
    char *data;           /* size_bytes to WRITE */
};

/* A place for one request in flight. */
struct slot {
    struct conn *conn;
    struct work *work;
    uint64_t sent_ns;
    char name[32];
    uint64_t cookie; /* READDIRPLUS: where to go on */
    cookieverf3 cookieverf;
};

struct op {
    const char *name;
    enum { OP_NEEDS_NOTHING, OP_NEEDS_DIR, OP_NEEDS_FILES } needs;
    /* Queues request number `number`; 0, or less when libnfs would not. */
    int (*issue)(struct rpc_context *rpc, struct slot *slot, uint64_t number, rpc_cb done);
    /* Units of work in an answer with status 0 (entries; otherwise 1), -1: the answer is wrong. */
    int64_t (*check)(struct slot *slot, const void *result);
};

/* NULL: there is none of that name. */
const struct op *op_find(const char *name);
void op_list(void);

/* The name of file number n in a directory made by run.py. */
void op_file_name(char name[32], uint64_t number);

#endif
