/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files put onto a server durably, as tar does it through a client that waits for each:
 * CREATE, WRITE of 8 KiB FILE_SYNC, SETATTR of the time, and then the next file; several such
 * sequences may go on at a time. And the least that it can cost: three durable writes for each file
 * to a preallocated file past the page cache, and three round trips of NULL.
 *
 *     untar files PORT EXPORT DIR COUNT SEQUENCES PID    makes COUNT files; PID of the server, or 0
 *     untar null PORT COUNT                              three NULLs for each of COUNT files
 *     untar device FILE COUNT                            three durable writes of 4 KiB for each
 *
 * Prints one JSON line: microseconds per file, and the server's CPU time per operation.
 */
#include "meter.h"
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES 8192U
#define BLOCK_BYTES 4096U
#define STEPS 3U
#define SEQUENCES_MAX 256U
#define SILENCE_S 60

enum step { STEP_CREATE, STEP_WRITE, STEP_SETATTR };

struct untar;

struct sequence {
    struct untar *untar;
    enum step step;
    struct handle file;
    char name[32];
};

struct untar {
    struct rpc_context *rpc;
    bool nulls; /* NULL instead of each step */
    struct handle dir;
    uint64_t next, count, under_way;
    char data[FILE_BYTES];
    struct sequence sequences[SEQUENCES_MAX];
};

_Noreturn static void __attribute__((format(printf, 1, 2))) die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("untar: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(3);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void turn(struct rpc_context *rpc)
{
    struct pollfd poll_fd = {.fd = rpc_get_fd(rpc), .events = (short)rpc_which_events(rpc)};
    if (poll(&poll_fd, 1, SILENCE_S * 1000) <= 0 || rpc_service(rpc, poll_fd.revents) != 0) {
        die("connection broken, or no answer for %d s: %s", SILENCE_S, rpc_get_error(rpc));
    }
}

/* ---- connecting ---- */

struct answer {
    bool is_here;
    struct handle *handle;
};

static void connected(struct rpc_context *rpc, int status, void *data, void *arg)
{
    (void)data;
    if (status != RPC_STATUS_SUCCESS) {
        die("cannot connect: %s", rpc_get_error(rpc));
    }
    ((struct answer *)arg)->is_here = true;
}

static void keep(struct handle *handle, u_int size, const char *bytes)
{
    if (size == 0 || size > sizeof handle->bytes) {
        die("a handle of %u bytes", size);
    }
    handle->size = size;
    memcpy(handle->bytes, bytes, size);
}

static void mounted(struct rpc_context *rpc, int status, void *data, void *arg)
{
    struct answer *answer = arg;
    const mountres3 *res = data;
    if (status != RPC_STATUS_SUCCESS || res->fhs_status != MNT3_OK) {
        die("MNT: %s", rpc_get_error(rpc));
    }
    const fhandle3 *fh = &res->mountres3_u.mountinfo.fhandle;
    keep(answer->handle, fh->fhandle3_len, fh->fhandle3_val);
    answer->is_here = true;
}

static void looked_up(struct rpc_context *rpc, int status, void *data, void *arg)
{
    struct answer *answer = arg;
    const LOOKUP3res *res = data;
    if (status != RPC_STATUS_SUCCESS || res->status != NFS3_OK) {
        die("LOOKUP: %s", rpc_get_error(rpc));
    }
    const nfs_fh3 *fh = &res->LOOKUP3res_u.resok.object;
    keep(answer->handle, fh->data.data_len, fh->data.data_val);
    answer->is_here = true;
}

static void await(struct rpc_context *rpc, int queued, const struct answer *answer)
{
    if (queued != 0) {
        die("libnfs: %s", rpc_get_error(rpc));
    }
    while (!answer->is_here) {
        turn(rpc);
    }
}

static void connect_to(struct untar *untar, const char *port)
{
    struct answer answer = {0};
    untar->rpc = rpc_init_context();
    if (untar->rpc == NULL) {
        die("no memory");
    }
    await(untar->rpc, rpc_connect_async(untar->rpc, "127.0.0.1", atoi(port), connected, &answer),
          &answer);
    rpc_set_uid(untar->rpc, 0);
    rpc_set_gid(untar->rpc, 0);
}

static nfs_fh3 fh_of(const struct handle *handle)
{
    return (nfs_fh3){.data = {.data_len = handle->size, .data_val = (char *)handle->bytes}};
}

static void find_dir(struct untar *untar, char *export_path, char *name)
{
    struct handle root;
    struct answer answer = {.handle = &root};
    await(untar->rpc, rpc_mount3_mnt_async(untar->rpc, mounted, export_path, &answer), &answer);
    LOOKUP3args args = {.what = {.dir = fh_of(&root), .name = name}};
    struct answer found = {.handle = &untar->dir};
    await(untar->rpc, rpc_nfs3_lookup_async(untar->rpc, looked_up, &args, &found), &found);
}

/* ---- the sequence ---- */

static void go_on(struct sequence *sequence);

static void answered(struct rpc_context *rpc, int status, void *data, void *arg)
{
    struct sequence *sequence = arg;
    struct untar *untar = sequence->untar;
    if (status != RPC_STATUS_SUCCESS) {
        die("step %d: %s", (int)sequence->step, rpc_get_error(rpc));
    }
    if (!untar->nulls && *(nfsstat3 *)data != NFS3_OK) {
        die("step %d: status %d", (int)sequence->step, (int)*(nfsstat3 *)data);
    }
    if (!untar->nulls && sequence->step == STEP_CREATE) {
        const CREATE3resok *resok = &((const CREATE3res *)data)->CREATE3res_u.resok;
        const nfs_fh3 *fh = &resok->obj.post_op_fh3_u.handle;
        keep(&sequence->file, fh->data.data_len, fh->data.data_val);
    }
    if (!untar->nulls && sequence->step == STEP_WRITE &&
        ((const WRITE3res *)data)->WRITE3res_u.resok.committed != FILE_SYNC) {
        die("a WRITE was not as stable as was asked");
    }
    if (sequence->step == STEP_SETATTR) {
        untar->under_way--;
        sequence->step = STEP_CREATE;
        if (untar->next < untar->count) {
            untar->under_way++;
            op_file_name(sequence->name, untar->next++);
            go_on(sequence);
        }
        return;
    }
    sequence->step++;
    go_on(sequence);
}

static int issue(struct sequence *sequence)
{
    struct untar *untar = sequence->untar;
    if (untar->nulls) {
        return rpc_nfs3_null_async(untar->rpc, answered, sequence);
    }
    if (sequence->step == STEP_CREATE) {
        CREATE3args args = {.where = {.dir = fh_of(&untar->dir), .name = sequence->name}};
        args.how.mode = GUARDED;
        args.how.createhow3_u.g_obj_attributes.mode.set_it = 1;
        args.how.createhow3_u.g_obj_attributes.mode.set_mode3_u.mode = 0644;
        return rpc_nfs3_create_async(untar->rpc, answered, &args, sequence);
    }
    if (sequence->step == STEP_WRITE) {
        WRITE3args args = {.file = fh_of(&sequence->file),
                           .count = FILE_BYTES,
                           .stable = FILE_SYNC,
                           .data = {.data_len = FILE_BYTES, .data_val = untar->data}};
        return rpc_nfs3_write_async(untar->rpc, answered, &args, sequence);
    }
    SETATTR3args args = {.object = fh_of(&sequence->file)};
    args.new_attributes.mtime.set_it = SET_TO_CLIENT_TIME;
    args.new_attributes.mtime.set_mtime_u.mtime.seconds = 1000000000;
    return rpc_nfs3_setattr_async(untar->rpc, answered, &args, sequence);
}

static void go_on(struct sequence *sequence)
{
    if (issue(sequence) != 0) {
        die("libnfs: %s", rpc_get_error(sequence->untar->rpc));
    }
}

static void print(uint64_t took_ns, uint64_t cpu_ns, uint64_t count)
{
    printf("{\"files\":%llu,\"us_per_file\":%.2f,\"server_us_per_op\":%.2f}\n",
           (unsigned long long)count, (double)took_ns / 1e3 / (double)count,
           (double)cpu_ns / 1e3 / (double)(count * STEPS));
}

static void run(struct untar *untar, uint64_t sequence_count, pid_t pid)
{
    struct usage before = usage_of(pid);
    uint64_t began_ns = now_ns();
    for (uint64_t i = 0; i < sequence_count && untar->next < untar->count; i++) {
        struct sequence *sequence = &untar->sequences[i];
        sequence->untar = untar;
        untar->under_way++;
        op_file_name(sequence->name, untar->next++);
        go_on(sequence);
    }
    while (untar->under_way > 0) {
        turn(untar->rpc);
    }
    uint64_t took_ns = now_ns() - began_ns;
    print(took_ns, usage_of(pid).cpu_ns - before.cpu_ns, untar->count);
}

/* ---- the device ---- */

static void write_device(const char *path, uint64_t count)
{
    const uint64_t blocks = 1024;
    int fd = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);
    char *block = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);
    if (fd < 0 || block == NULL) {
        die("%s: %s", path, strerror(errno));
    }
    memset(block, 'x', BLOCK_BYTES);
    for (uint64_t i = 0; i < blocks; i++) {
        if (pwrite(fd, block, BLOCK_BYTES, (off_t)(i * BLOCK_BYTES)) != BLOCK_BYTES) {
            die("%s: %s", path, strerror(errno));
        }
    }
    if (fsync(fd) != 0) {
        die("%s: %s", path, strerror(errno));
    }
    uint64_t began_ns = now_ns();
    for (uint64_t i = 0; i < count * STEPS; i++) {
        struct iovec one = {.iov_base = block, .iov_len = BLOCK_BYTES};
        off_t at = (off_t)(i % blocks * BLOCK_BYTES);
        if (pwritev2(fd, &one, 1, at, RWF_DSYNC) != BLOCK_BYTES) {
            die("%s: %s", path, strerror(errno));
        }
    }
    print(now_ns() - began_ns, 0, count);
    close(fd);
}

int main(int argc, char **argv)
{
    static struct untar untar;
    const char *what = argc > 1 ? argv[1] : "";
    memset(untar.data, 'd', sizeof untar.data);
    if (strcmp(what, "device") == 0 && argc == 4) {
        write_device(argv[2], strtoull(argv[3], NULL, 10));
    } else if (strcmp(what, "null") == 0 && argc == 4) {
        untar.nulls = true;
        untar.count = strtoull(argv[3], NULL, 10);
        connect_to(&untar, argv[2]);
        run(&untar, 1, 0);
    } else if (strcmp(what, "files") == 0 && argc == 8) {
        uint64_t sequences = strtoull(argv[6], NULL, 10);
        untar.count = strtoull(argv[5], NULL, 10);
        connect_to(&untar, argv[2]);
        find_dir(&untar, argv[3], argv[4]);
        run(&untar, sequences < SEQUENCES_MAX ? sequences : SEQUENCES_MAX,
            (pid_t)strtol(argv[7], NULL, 10));
    } else {
        fputs("usage: untar files PORT EXPORT DIR COUNT SEQUENCES PID | null PORT COUNT | "
              "device FILE COUNT\n",
              stderr);
        return 2;
    }
    return 0;
}
