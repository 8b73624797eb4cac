/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One load on one NFSv3 server: a number of requests of one kind kept in flight over TCP, on the
 * raw API of libnfs, for a time or a count. Prints one JSON line: operations per second, response
 * times, and the CPU time the server spent for each operation. It shares no code with the server it
 * measures.
 *
 * It does not mount, does not ask a portmapper, prepares no files (run.py does) and does not
 * survive an error: a wrong or refused answer ends it, since a fast wrong answer is worth nothing.
 *
 * Response times run from the building of a request to the read(2) that brought the answer's last
 * byte, so with many in flight they hold the time the request waited for its batch.
 */
#include "meter.h"
#include "ops.h"

#include <getopt.h>
#include <malloc.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SECOND_NS 1000000000ULL
#define IN_FLIGHT_MAX 1024

struct options {
    const char *host;
    const char *export_path;
    const char *dir;
    const struct op *op;
    uint32_t port, mount_port;
    uint32_t pid; /* of the server; 0: its CPU time and memory are not measured */
    uint32_t in_flight, connection_count, active_count;
    double seconds, warmup_seconds;
    uint64_t first, count; /* count 0: for `seconds` */
    bool one_by_one;
    struct work work;
};

struct conn {
    struct load *load;
    struct rpc_context *rpc;
    int fd;
    struct slot *slots;
};

struct load {
    struct options *options;
    struct conn *conns; /* the active ones first */
    uint32_t in_flight;
    bool stopping;
    uint64_t last; /* request numbers end here */
    uint64_t arrived_ns;
    uint64_t answers, units;
    uint64_t begin_ns, end_ns;
    struct usage server_begin, server_end, self_begin, self_end;
    uint64_t rss_before_bytes, rss_open_bytes; /* of the server: without, with the connections */
    struct histogram times;
};

_Noreturn static void __attribute__((format(printf, 1, 2))) die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(3);
}

/* ---- one connection ---- */

static void connected(struct rpc_context *rpc, int status, void *data, void *arg)
{
    (void)rpc;
    (void)data;
    *(int *)arg = status;
}

static struct conn conn_open(struct load *load, uint32_t port)
{
    struct conn conn = {.load = load, .rpc = rpc_init_context()};
    int status = -1;
    if (conn.rpc == NULL ||
        rpc_connect_async(conn.rpc, load->options->host, (int)port, connected, &status) != 0) {
        die("port %u: %s", port, conn.rpc == NULL ? "no memory" : rpc_get_error(conn.rpc));
    }
    conn.fd = rpc_get_fd(conn.rpc);
    struct pollfd poll_fd = {.fd = conn.fd, .events = POLLOUT};
    poll(&poll_fd, 1, WIRE_SILENCE_S * 1000);
    rpc_service(conn.rpc, poll_fd.revents);
    if (status != RPC_STATUS_SUCCESS) {
        die("%s port %u: cannot connect: %s", load->options->host, port, rpc_get_error(conn.rpc));
    }
    rpc_set_uid(conn.rpc, 0);
    rpc_set_gid(conn.rpc, 0);
    wire_begin(conn.fd, load->options->work.size_bytes >= WIRE_DIRECT_BYTES ? 4096 : 256 * 1024);
    return conn;
}

static void conn_send(struct conn *conn)
{
    if (rpc_service(conn->rpc, POLLOUT) != 0 || !wire_flush(conn->fd)) {
        die("connection broken: %s", rpc_get_error(conn->rpc));
    }
}

/* Reads what is there, or waits for the first byte; answers it; sends what that gave rise to. */
static void conn_turn(struct conn *conn)
{
    if (!wire_wait(conn->fd, &conn->load->arrived_ns)) {
        die("no answer for %d s, or the connection was closed", WIRE_SILENCE_S);
    }
    if (rpc_service(conn->rpc, POLLIN | POLLOUT) != 0 || !wire_flush(conn->fd)) {
        die("connection broken: %s", rpc_get_error(conn->rpc));
    }
}

/* ---- getting ready: one call after another ---- */

struct answer {
    bool is_here;
    struct handle *handle; /* taken from LOOKUP or MNT; may be NULL */
    const char *name;
};

static void keep_handle(struct answer *answer, u_int size, const char *bytes)
{
    if (size == 0 || size > sizeof(answer->handle->bytes)) {
        die("%s: a handle of %u bytes", answer->name, size);
    }
    answer->handle->size = size;
    memcpy(answer->handle->bytes, bytes, size);
    answer->is_here = true;
}

static void mounted(struct rpc_context *rpc, int status, void *data, void *arg)
{
    struct answer *answer = arg;
    const mountres3 *res = data;
    if (status != RPC_STATUS_SUCCESS) {
        die("MNT %s: %s", answer->name, rpc_get_error(rpc));
    }
    if (res->fhs_status != MNT3_OK) {
        die("MNT %s: status %d", answer->name, (int)res->fhs_status);
    }
    const fhandle3 *fh = &res->mountres3_u.mountinfo.fhandle;
    keep_handle(answer, fh->fhandle3_len, fh->fhandle3_val);
}

static void looked_up(struct rpc_context *rpc, int status, void *data, void *arg)
{
    struct answer *answer = arg;
    const LOOKUP3res *res = data;
    if (status != RPC_STATUS_SUCCESS) {
        die("LOOKUP %s: %s", answer->name, rpc_get_error(rpc));
    }
    if (res->status != NFS3_OK) {
        die("LOOKUP %s: status %d", answer->name, (int)res->status);
    }
    const nfs_fh3 *fh = &res->LOOKUP3res_u.resok.object;
    keep_handle(answer, fh->data.data_len, fh->data.data_val);
}

static void nulled(struct rpc_context *rpc, int status, void *data, void *arg)
{
    (void)data;
    if (status != RPC_STATUS_SUCCESS) {
        die("NULL: %s", rpc_get_error(rpc));
    }
    ((struct answer *)arg)->is_here = true;
}

static void await(struct conn *conn, int queued, const struct answer *answer)
{
    if (queued != 0) {
        die("libnfs: %s", rpc_get_error(conn->rpc));
    }
    conn_send(conn);
    while (!answer->is_here) {
        conn_turn(conn);
    }
}

static void lookup(struct conn *conn, const struct handle *dir, char *name, struct handle *handle)
{
    struct answer answer = {.handle = handle, .name = name};
    LOOKUP3args args = {.what = {.name = name}};
    args.what.dir.data.data_len = dir->size;
    args.what.dir.data.data_val = (char *)dir->bytes;
    await(conn, rpc_nfs3_lookup_async(conn->rpc, looked_up, &args, &answer), &answer);
}

static void find_files(struct load *load, struct conn *conn)
{
    struct options *options = load->options;
    struct work *work = &options->work;
    if (options->op->needs == OP_NEEDS_NOTHING) {
        return;
    }
    struct conn mount_conn = conn_open(load, options->mount_port);
    struct answer answer = {.handle = &work->dir, .name = options->export_path};
    await(&mount_conn,
          rpc_mount3_mnt_async(mount_conn.rpc, mounted, (char *)options->export_path, &answer),
          &answer);
    rpc_disconnect(mount_conn.rpc, "mounted");

    char *dir = strdup(options->dir);
    char *rest = dir;
    for (char *name = strsep(&rest, "/"); name != NULL; name = strsep(&rest, "/")) {
        if (name[0] != '\0') {
            struct handle parent = work->dir;
            lookup(conn, &parent, name, &work->dir);
        }
    }
    free(dir);
    if (options->op->needs == OP_NEEDS_FILES) {
        work->files = calloc(work->file_count, sizeof(work->files[0]));
        for (uint32_t i = 0; i < work->file_count; i++) {
            char name[32];
            op_file_name(name, i);
            lookup(conn, &work->dir, name, &work->files[i]);
        }
    }
}

static void say_null(struct conn *conn)
{
    struct answer answer = {0};
    await(conn, rpc_nfs3_null_async(conn->rpc, nulled, &answer), &answer);
}

/* ---- the load ---- */

static void issue(struct slot *slot);

static void answered(struct rpc_context *rpc, int status, void *data, void *arg)
{
    struct slot *slot = arg;
    struct load *load = slot->conn->load;
    const struct op *op = load->options->op;

    if (status != RPC_STATUS_SUCCESS) {
        die("%s: %s", op->name, rpc_get_error(rpc));
    }
    /* Every NFSv3 result but NULL's starts with its status. */
    if (op->needs != OP_NEEDS_NOTHING && *(nfsstat3 *)data != NFS3_OK) {
        die("%s: status %d", op->name, (int)*(nfsstat3 *)data);
    }
    int64_t units = op->check(slot, data);
    if (units < 0) {
        die("%s: a wrong answer", op->name);
    }
    if (!load->stopping) {
        load->answers++;
        load->units += (uint64_t)units;
        histogram_add(&load->times, load->arrived_ns - slot->sent_ns);
    }
    load->in_flight--;
    issue(slot);
    if (load->options->one_by_one || slot->work->size_bytes >= WIRE_DIRECT_BYTES) {
        conn_send(slot->conn);
    }
}

static void issue(struct slot *slot)
{
    struct load *load = slot->conn->load;
    if (load->stopping || slot->work->next == load->last) {
        return;
    }
    slot->sent_ns = wire_now_ns();
    if (load->options->op->issue(slot->conn->rpc, slot, slot->work->next++, answered) != 0) {
        die("libnfs: %s", rpc_get_error(slot->conn->rpc));
    }
    load->in_flight++;
}

static void begin(struct load *load)
{
    load->answers = load->units = 0;
    memset(&load->times, 0, sizeof(load->times));
    load->server_begin = usage_of((pid_t)load->options->pid);
    load->self_begin = usage_of(getpid());
    load->begin_ns = wire_now_ns();
}

static void end(struct load *load)
{
    load->end_ns = wire_now_ns();
    load->server_end = usage_of((pid_t)load->options->pid);
    load->self_end = usage_of(getpid());
}

/* One turn of every connection that has something, waiting for the first. */
static void turn(struct load *load, struct pollfd *poll_fds)
{
    uint32_t count = load->options->active_count;
    if (count == 1) {
        conn_turn(&load->conns[0]);
        return;
    }
    if (poll(poll_fds, count, WIRE_SILENCE_S * 1000) <= 0) {
        die("no answer for %d s", WIRE_SILENCE_S);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (poll_fds[i].revents != 0) {
            conn_turn(&load->conns[i]);
        }
    }
}

static void run(struct load *load)
{
    const struct options *options = load->options;
    struct pollfd *poll_fds = calloc(options->active_count, sizeof(*poll_fds));
    uint64_t now_ns = wire_now_ns();
    uint64_t warm_ns = now_ns + (uint64_t)(options->warmup_seconds * (double)SECOND_NS);
    uint64_t stop_ns = warm_ns + (uint64_t)(options->seconds * (double)SECOND_NS);
    bool is_warm = options->count > 0;

    begin(load);
    for (uint32_t i = 0; i < options->active_count; i++) {
        struct conn *conn = &load->conns[i];
        poll_fds[i] = (struct pollfd){.fd = conn->fd, .events = POLLIN};
        conn->slots = calloc(options->in_flight, sizeof(conn->slots[0]));
        for (uint32_t k = 0; k < options->in_flight; k++) {
            conn->slots[k].conn = conn;
            conn->slots[k].work = &load->options->work;
            issue(&conn->slots[k]);
        }
        conn_send(conn);
    }
    while (load->in_flight > 0) {
        turn(load, poll_fds);
        if (!is_warm && load->arrived_ns >= warm_ns) {
            is_warm = true;
            begin(load);
        } else if (options->count == 0 && !load->stopping && load->arrived_ns >= stop_ns) {
            load->stopping = true;
            end(load);
        }
    }
    if (!load->stopping) {
        end(load);
    }
    free(poll_fds);
}

static void open_connections(struct load *load)
{
    const struct options *options = load->options;
    load->rss_before_bytes = usage_of((pid_t)options->pid).rss_bytes;
    load->conns = calloc(options->connection_count, sizeof(load->conns[0]));
    for (uint32_t i = 0; i < options->connection_count; i++) {
        load->conns[i] = conn_open(load, options->port);
        say_null(&load->conns[i]);
    }
    load->rss_open_bytes = usage_of((pid_t)options->pid).rss_bytes;
}

static void print(const struct load *load)
{
    const struct options *options = load->options;
    const struct histogram *times = &load->times;
    double seconds = (double)(load->end_ns - load->begin_ns) / 1e9;
    double server_us = (double)(load->server_end.cpu_ns - load->server_begin.cpu_ns) / 1e3;
    double self_us = (double)(load->self_end.cpu_ns - load->self_begin.cpu_ns) / 1e3;
    double answers = (double)(load->answers == 0 ? 1 : load->answers);
    double units = (double)(load->units == 0 ? 1 : load->units);

    printf("{\"op\":\"%s\",\"in_flight\":%u,\"connections\":%u,\"active\":%u,\"files\":%u,"
           "\"size_bytes\":%u,\"seconds\":%.3f,\"answers\":%llu,\"units\":%llu,",
           options->op->name, options->in_flight, options->connection_count, options->active_count,
           options->work.file_count, options->work.size_bytes, seconds,
           (unsigned long long)load->answers, (unsigned long long)load->units);
    printf("\"ops_per_s\":%.0f,\"units_per_s\":%.0f,\"server_us_per_op\":%.3f,"
           "\"server_us_per_unit\":%.3f,\"load_us_per_op\":%.3f,\"server_cores\":%.3f,"
           "\"load_cores\":%.3f,",
           answers / seconds, units / seconds, server_us / answers, server_us / units,
           self_us / answers, server_us / seconds / 1e6, self_us / seconds / 1e6);
    printf("\"p50_us\":%.2f,\"p90_us\":%.2f,\"p99_us\":%.2f,\"p999_us\":%.2f,\"max_us\":%.2f,",
           (double)histogram_share_ns(times, 0.5) / 1e3,
           (double)histogram_share_ns(times, 0.9) / 1e3,
           (double)histogram_share_ns(times, 0.99) / 1e3,
           (double)histogram_share_ns(times, 0.999) / 1e3, (double)times->max_ns / 1e3);
    printf("\"rss_before_bytes\":%llu,\"rss_open_bytes\":%llu,\"rss_after_bytes\":%llu}\n",
           (unsigned long long)load->rss_before_bytes, (unsigned long long)load->rss_open_bytes,
           (unsigned long long)load->server_end.rss_bytes);
}

/* ---- options ---- */

_Noreturn static void usage(void)
{
    fputs("usage: load --port N --op OP [--mount-port N] [--export PATH] [--dir DIR] [--pid PID]\n"
          "            [--in-flight N] [--seconds S] [--warmup S] [--first N --count N]\n"
          "            [--files N] [--size BYTES] [--span BYTES] [--connections N --active N]\n"
          "            [--one-by-one] [--host ADDRESS]\n"
          "Operations:",
          stderr);
    op_list();
    fputs("\nThe files of DIR (under the export) are called f000000, f000001, ...\n", stderr);
    exit(2);
}

enum option_kind { TEXT, NUMBER_32, NUMBER_64, REAL, FLAG, OPERATION };

struct option_row {
    const char *name;
    enum option_kind kind;
    void *value;
};

static void take_option(const struct option_row *row, const char *text)
{
    switch (row->kind) {
    case TEXT:
        *(const char **)row->value = text;
        break;
    case NUMBER_32:
        *(uint32_t *)row->value = (uint32_t)strtoul(text, NULL, 10);
        break;
    case NUMBER_64:
        *(uint64_t *)row->value = strtoull(text, NULL, 10);
        break;
    case REAL:
        *(double *)row->value = strtod(text, NULL);
        break;
    case FLAG:
        *(bool *)row->value = true;
        break;
    case OPERATION:
        *(const struct op **)row->value = op_find(text);
        break;
    }
}

static void take_options(struct options *options, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"host", TEXT, &options->host},
        {"port", NUMBER_32, &options->port},
        {"mount-port", NUMBER_32, &options->mount_port},
        {"export", TEXT, &options->export_path},
        {"dir", TEXT, &options->dir},
        {"pid", NUMBER_32, &options->pid},
        {"op", OPERATION, &options->op},
        {"in-flight", NUMBER_32, &options->in_flight},
        {"seconds", REAL, &options->seconds},
        {"warmup", REAL, &options->warmup_seconds},
        {"first", NUMBER_64, &options->first},
        {"count", NUMBER_64, &options->count},
        {"files", NUMBER_32, &options->work.file_count},
        {"size", NUMBER_32, &options->work.size_bytes},
        {"span", NUMBER_64, &options->work.span_bytes},
        {"connections", NUMBER_32, &options->connection_count},
        {"active", NUMBER_32, &options->active_count},
        {"one-by-one", FLAG, &options->one_by_one},
    };
    struct option known[sizeof(rows) / sizeof(rows[0]) + 1] = {0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        known[i].name = rows[i].name;
        known[i].has_arg = rows[i].kind == FLAG ? no_argument : required_argument;
    }
    int index;
    int letter;
    while ((letter = getopt_long(argc, argv, "", known, &index)) != -1) {
        if (letter != 0) {
            usage();
        }
        take_option(&rows[index], optarg);
    }
}

static void parse(struct options *options, int argc, char **argv)
{
    take_options(options, argc, argv);
    if (options->op == NULL || options->port == 0 || optind != argc || options->active_count == 0 ||
        options->in_flight == 0 || options->in_flight > IN_FLIGHT_MAX ||
        options->work.file_count == 0 || options->work.size_bytes == 0) {
        usage();
    }
    if (options->connection_count < options->active_count) {
        options->connection_count = options->active_count;
    }
    if (options->mount_port == 0) {
        options->mount_port = options->port;
    }
    options->work.next = options->first;
    options->work.data = malloc(options->work.size_bytes);
    if (options->work.data == NULL) {
        die("no memory");
    }
    memset(options->work.data, 'x', options->work.size_bytes);
}

int main(int argc, char **argv)
{
    struct options options = {.host = "127.0.0.1",
                              .export_path = "/",
                              .dir = "",
                              .in_flight = 32,
                              .connection_count = 1,
                              .active_count = 1,
                              .seconds = 2,
                              .warmup_seconds = 0.3,
                              .work = {.file_count = 1, .size_bytes = 4096, .span_bytes = 4096}};
    parse(&options, argc, argv);

    /* libnfs allocates each request and answer: keep those of 1 MiB out of mmap and munmap. */
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);

    struct load load = {.options = &options,
                        .last = options.count > 0 ? options.first + options.count : UINT64_MAX};
    open_connections(&load);
    find_files(&load, &load.conns[0]);
    run(&load);
    for (uint32_t i = 0; i < options.connection_count; i++) {
        say_null(&load.conns[i]);
    }
    print(&load);
    return 0;
}
