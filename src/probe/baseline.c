/* SPDX-License-Identifier: Apache-2.0 */
/*
 *     mount over each transport --> a directory and a file of our own --> data points
 *         --> small files --> removed --> judged
 */
#include "probe/baseline.h"

#include "client/copy.h"
#include "probe/baseline_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LONG_POINT_FACTOR 10U
#define CONTROL_TIMEO_MS 5000U
#define CONTROL_RETRANS 2U
#define FILL_BYTES (128U * 1024) /* of a WRITE, when the file is made */

const char *baseline_transport_name(enum baseline_transport transport)
{
    return transport == BASELINE_TCP ? "tcp" : "udp";
}

double baseline_rate(const struct baseline_point *point)
{
    const struct load_result *result = &point->result;
    return result->elapsed_ns > 0 ? (double)result->bytes * 1e9 / (double)result->elapsed_ns : 0;
}

double baseline_resent_part(const struct baseline_point *point)
{
    const struct load_result *result = &point->result;
    uint64_t calls = result->calls > 0 ? result->calls : 1;
    return (double)result->retransmitted / (double)calls;
}

int baseline_stopped(const struct session *session, struct err *err)
{
    const struct baseline_options *options = session->options;
    bool stopping = options->stopping != NULL && options->stopping(options->owner);
    return stopping ? err_set(err, -EINTR, "interrupted") : 0;
}

/* ---- mounts ---- */

static int open_mount(struct session *session, enum baseline_transport transport)
{
    struct client_url url = session->options->url;
    struct client_mount_options options = {.url = &url};
    struct err err = {0};

    url.udp = transport == BASELINE_UDP;
    /* What is measured has timers of its own; the rest must come to an end. */
    url.soft = true;
    url.retrans = url.retrans > 0 ? url.retrans : CONTROL_RETRANS;
    if (url.timeo_ms == 0 && !url.udp) {
        url.timeo_ms = CONTROL_TIMEO_MS;
    }
    int error = client_mount_open(&options, &session->mounts[transport], &err);
    if (error != 0) {
        (void)snprintf(session->baseline->problems[transport], PROBE_TEXT_BYTES, "%s", err.text);
    }
    return error;
}

/* The work that is not measured goes over TCP, if the server has it. */
static int open_mounts(struct session *session, struct err *err)
{
    const struct baseline_options *options = session->options;
    int error = open_mount(session, BASELINE_TCP);

    if (options->transports[BASELINE_UDP] || error != 0) {
        int udp_error = open_mount(session, BASELINE_UDP);
        error = error != 0 ? udp_error : 0;
    }
    session->mount = session->mounts[BASELINE_TCP] != NULL ? session->mounts[BASELINE_TCP]
                                                           : session->mounts[BASELINE_UDP];
    if (session->mount == NULL) {
        return err_set(err, error, "%s", session->baseline->problems[BASELINE_TCP]);
    }
    return 0;
}

/* ---- what is worked on ---- */

static int tell(struct err *err, const char *what, int status)
{
    char text[CLIENT_TEXT_BYTES_MAX];
    return err_set(err, status < 0 ? status : -EIO, "%s: %s", what,
                   client_status_text(status, text));
}

static int make_dir(struct session *session, const struct client_fh *parent, struct err *err)
{
    struct client_answer answer = {0};
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    (void)snprintf(session->dir_name, sizeof session->dir_name, ".holdfast-baseline-%ld-%ld",
                   (long)getpid(), now.tv_nsec);
    if (session->options->making != NULL) {
        session->options->making(session->options->owner, session->dir_name);
    }
    struct MKDIR3args args = {
        .where = client_dirop(parent, client_name(session->dir_name)),
        .attributes = {.mode = {true, {0700}}},
    };
    int status = client_nfs3(session->mount, NFSPROC3_MKDIR, &args, &answer);
    client_answer_free(&answer);
    session->parent = *parent;
    session->has_dir = status == 0;
    struct client_node node;
    if (status == 0) {
        status = client_lookup(session->mount, parent, client_name(session->dir_name), &node);
    }
    if (status != 0) {
        return tell(err, "cannot make a directory to work in", status);
    }
    session->dir = node.fh;
    return 0;
}

static int make_file(struct session *session, struct err *err)
{
    struct client_answer answer = {0};
    struct CREATE3args args = {
        .where = client_dirop(&session->dir, client_name("data")),
        .how = {.mode = UNCHECKED, .obj_attributes = {.mode = {true, {0600}}}},
    };
    struct client_node node;

    int status = client_nfs3(session->mount, NFSPROC3_CREATE, &args, &answer);
    client_answer_free(&answer);
    if (status == 0) {
        status = client_lookup(session->mount, &session->dir, client_name("data"), &node);
    }
    if (status != 0) {
        return tell(err, "cannot make a file to work on", status);
    }
    session->file = node.fh;
    return 0;
}

/* Writes the file full: a file with holes would be read from no disk. */
static int fill_file(struct session *session, struct err *err)
{
    struct client_mount *mount = session->mount;
    uint32_t size = mount->wsize < FILL_BYTES ? mount->wsize : FILL_BYTES;
    uint64_t bytes = session->options->file_bytes;
    int64_t limit_ns = session->options->fill_ms_max * 1000000LL;
    int64_t start_ns = client_loop_fresh_ns(mount->loop);
    struct client_answer answer = {0};
    int status = 0;

    uint8_t *data = calloc(1, size);
    if (data == NULL) {
        return err_set(err, -ENOMEM, "out of memory");
    }
    memset(data, 0x5a, size);
    int stopped = 0;
    for (uint64_t at = 0; at < bytes && status == 0 && stopped == 0;) {
        uint32_t count = bytes - at < size ? (uint32_t)(bytes - at) : size;
        struct WRITE3args args = {client_fh3(&session->file), at, count, UNSTABLE, {data, count}};
        status = client_nfs3(session->mount, NFSPROC3_WRITE, &args, &answer);
        if (status == 0) {
            uint32_t wrote = ((const struct WRITE3res *)answer.res)->resok.count;
            status = wrote == 0 || wrote > count ? -EIO : 0;
            at += wrote;
        }
        bool late = limit_ns > 0 && client_loop_fresh_ns(mount->loop) - start_ns > limit_ns;
        bytes = late && status == 0 ? at : bytes;
        stopped = baseline_stopped(session, err);
    }
    if (status == 0 && stopped == 0) {
        struct COMMIT3args args = {client_fh3(&session->file), 0, 0};
        status = client_nfs3(session->mount, NFSPROC3_COMMIT, &args, &answer);
    }
    client_answer_free(&answer);
    free(data);
    session->file_bytes = bytes;
    return status == 0 ? stopped : tell(err, "cannot write the file to work on", status);
}

static int find_work(struct session *session, struct err *err)
{
    struct client_node node;

    int status = client_walk(session->mount, session->mount->rest, true, &node);
    if (status != 0) {
        return tell(err, session->options->url.path, status);
    }
    if (node.attr.type == NF3DIR) {
        int error = make_dir(session, &node.fh, err);
        return error != 0 ? error : make_file(session, err);
    }
    if (node.attr.type != NF3REG || node.attr.size == 0) {
        return err_set(err, -EINVAL, "%s: neither a directory nor a file with something in it",
                       session->options->url.path);
    }
    session->file = node.fh;
    session->file_bytes = node.attr.size;
    return 0;
}

static void left_behind(void *owner, const char *path, int status)
{
    struct session *session = owner;
    char text[CLIENT_TEXT_BYTES_MAX];
    (void)path;
    (void)snprintf(session->baseline->left_behind, PROBE_TEXT_BYTES, "%s could not be removed: %s",
                   session->dir_name, client_status_text(status, text));
}

static void clean_up(struct session *session)
{
    if (session->has_dir) {
        (void)!client_remove_tree(session->mount, &session->parent, client_name(session->dir_name),
                                  session->dir_name, left_behind, session);
    }
    for (int i = 0; i < BASELINE_TRANSPORT_COUNT; i++) {
        client_mount_close(session->mounts[i]);
    }
}

/* ---- data ---- */

static bool is_wanted(const struct session *session, const struct baseline_point *point)
{
    const struct baseline_options *options = session->options;
    uint32_t most = point->kind == LOAD_READ ? session->baseline->rtmax : session->baseline->wtmax;

    if (!options->transports[point->transport] || session->mounts[point->transport] == NULL ||
        !options->kinds[point->kind] || (point->kind == LOAD_WRITE && !session->has_dir)) {
        return false;
    }
    if (point->random ? !options->random : !options->sequential) {
        return false;
    }
    return point->block_bytes <= most && point->block_bytes <= session->file_bytes &&
           (point->transport == BASELINE_TCP || point->block_bytes <= LOAD_UDP_BLOCK_BYTES_MAX);
}

/* Blocks vary fastest, so that neighbours in the table were measured one after the other. */
static void list_points(struct session *session)
{
    const struct baseline_options *options = session->options;
    struct baseline *baseline = session->baseline;
    uint32_t inner = options->block_count;
    uint32_t all = 2 * BASELINE_TRANSPORT_COUNT * 2 * options->in_flight_count * inner;

    for (uint32_t i = 0; i < all && baseline->point_count < BASELINE_POINT_COUNT_MAX; i++) {
        uint32_t rest = i / inner;
        struct baseline_point point = {.block_bytes = options->blocks[i % inner]};
        point.in_flight = options->in_flight[rest % options->in_flight_count];
        rest /= options->in_flight_count;
        point.transport = (enum baseline_transport)(rest % BASELINE_TRANSPORT_COUNT);
        rest /= BASELINE_TRANSPORT_COUNT;
        point.random = rest % 2 != 0;
        point.kind = (enum load_kind)(rest / 2); /* what is read was written once, in order */
        if (is_wanted(session, &point)) {
            baseline->points[baseline->point_count++] = point;
        }
    }
}

static int measure_point(struct session *session, struct baseline_point *point, struct err *err)
{
    const struct baseline_options *options = session->options;
    const struct load_options load = {
        .mount = session->mounts[point->transport],
        .file = session->file,
        .file_bytes = session->file_bytes,
        .kind = point->kind,
        .tcp = point->transport == BASELINE_TCP,
        .random = point->random,
        .block_bytes = point->block_bytes,
        .in_flight = point->in_flight,
        .delay_us = options->delay_us,
        .timeo_ms = point->transport == BASELINE_UDP ? options->url.timeo_ms : 0,
        .receive_buffer_bytes = options->receive_buffer_bytes,
        .duration_ms = options->duration_ms,
        .duration_ms_max = options->duration_ms * LONG_POINT_FACTOR,
        .stopping = options->stopping,
        .owner = options->owner,
    };
    int error = load_run(&load, &point->result, err);
    return error != 0 ? error : baseline_stopped(session, err);
}

static void announce(const struct session *session, uint32_t done, const char *what)
{
    if (session->options->progress != NULL) {
        session->options->progress(session->options->owner, done,
                                   session->baseline->point_count + 1, what);
    }
}

static int measure_data(struct session *session, struct err *err)
{
    struct baseline *baseline = session->baseline;
    int error = 0;

    for (uint32_t i = 0; i < baseline->point_count && error == 0; i++) {
        struct baseline_point *point = &baseline->points[i];
        char what[96], size[32];
        (void)snprintf(what, sizeof what, "%s %s, %s, %u at a time",
                       point->kind == LOAD_READ ? "reading" : "writing",
                       baseline_size_text(point->block_bytes, size),
                       baseline_transport_name(point->transport), point->in_flight);
        announce(session, i, what);
        error = measure_point(session, point, err);
    }
    return error;
}

/* ---- together ---- */

static int measure(struct session *session, struct err *err)
{
    const struct baseline_options *options = session->options;
    struct baseline *baseline = session->baseline;

    int error = find_work(session, err);
    if (error != 0) {
        return error;
    }
    baseline->rtmax = session->mount->rsize;
    baseline->wtmax = session->mount->wsize;
    bool data = options->block_count > 0 && (options->kinds[0] || options->kinds[1]);
    announce(session, 0, "writing the file to work on");
    if (session->has_dir && data) {
        error = fill_file(session, err);
    }
    list_points(session);
    if (error == 0) {
        error = measure_data(session, err);
    }
    if (error == 0 && session->has_dir && options->small_file_count > 0) {
        announce(session, baseline->point_count, "small files");
        error = baseline_measure_small(session, err);
    }
    bool unpacks = options->unpack_count > 0 || options->archive != NULL;
    if (error == 0 && session->has_dir && unpacks) {
        announce(session, baseline->point_count, "unpacking");
        error = baseline_measure_unpacking(session, err);
    }
    return error;
}

int baseline_run(const struct baseline_options *options, struct baseline *baseline, struct err *err)
{
    struct session session = {.options = options, .baseline = baseline};

    *baseline = (struct baseline){0};
    baseline->points = calloc(BASELINE_POINT_COUNT_MAX, sizeof *baseline->points);
    if (baseline->points == NULL) {
        return err_set(err, -ENOMEM, "out of memory");
    }
    strcpy(baseline->host, options->url.host);
    strcpy(baseline->path, options->url.path);
    int error = open_mounts(&session, err);
    if (error == 0) {
        error = measure(&session, err);
    }
    clean_up(&session);
    if (error == 0) {
        baseline_judge(baseline);
    }
    return error;
}

void baseline_close(struct baseline *baseline)
{
    for (uint32_t i = 0; baseline->points != NULL && i < baseline->point_count; i++) {
        load_result_close(&baseline->points[i].result);
    }
    free(baseline->points);
    for (int i = 0; i < BASELINE_OP_COUNT; i++) {
        samples_close(&baseline->small.ops[i]);
    }
    for (uint32_t i = 0; i < baseline->unpacked_count; i++) {
        unpack_close(&baseline->unpacked[i]);
    }
}
