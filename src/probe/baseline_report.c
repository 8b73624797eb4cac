/* SPDX-License-Identifier: Apache-2.0 */
/* The baseline as a tree, for JSON, for plots, and to be compared with later. */
#include "probe/baseline.h"

#include "client/nfs3.h"

#include <string.h>

static void report_ms(struct report *object, const char *key, struct samples *samples, double part)
{
    int64_t ns = samples_percentile(samples, part);
    if (ns < 0) {
        report_add_null(object, key);
    } else {
        report_add_real(object, key, (double)ns / 1e6);
    }
}

static void report_times(struct report *object, struct samples *samples)
{
    report_ms(object, "min_ms", samples, 0);
    report_ms(object, "p50_ms", samples, 0.5);
    report_ms(object, "p90_ms", samples, 0.9);
    report_ms(object, "p99_ms", samples, 0.99);
    report_ms(object, "max_ms", samples, 1);
}

static void report_point(struct report *array, struct baseline_point *point)
{
    struct report *object = report_add_object(array, NULL);
    struct load_result *result = &point->result;
    char text[CLIENT_TEXT_BYTES_MAX];

    report_add_text(object, "kind", point->kind == LOAD_READ ? "read" : "write");
    report_add_text(object, "pattern", point->random ? "random" : "sequential");
    report_add_text(object, "transport", baseline_transport_name(point->transport));
    report_add_u64(object, "block_bytes", point->block_bytes);
    report_add_u64(object, "in_flight", point->in_flight);
    if (result->status != 0) {
        report_add_text(object, "problem", client_status_text(result->status, text));
    }
    report_add_real(object, "bytes_per_second", baseline_rate(point));
    report_add_u64(object, "calls", result->calls);
    report_add_u64(object, "bytes", result->bytes);
    report_add_real(object, "elapsed_s", (double)result->elapsed_ns / 1e9);
    report_times(object, &result->samples);
    report_add_u64(object, "retransmitted", result->retransmitted);
    report_add_u64(object, "timeouts", result->timeouts);
    report_add_u64(object, "late_duplicates", result->late_duplicates);
    report_add_u64(object, "refused", result->refused);
    report_add_real(object, "waited_s", (double)result->waited_ns / 1e9);
    report_add_u64(object, "answer_bytes", result->answer_bytes);
    if (point->transport == BASELINE_UDP) {
        report_add_u64(object, "mtu", result->mtu);
        report_add_u64(object, "fragments", result->fragments);
    }
}

static void report_small(struct report *report, struct baseline_small *small)
{
    struct report *object = report_add_object(report, "small_files");

    report_add_u64(object, "files", small->file_count);
    report_add_u64(object, "file_bytes", BASELINE_SMALL_FILE_BYTES);
    report_add_bool(object, "waits_for_storage", small->waits);
    report_add_real(object, "network_ms", small->network_ms);
    report_add_real(object, "unpack_ms", small->per_file_ms);
    report_add_real(object, "storage_ms", small->storage_ms);
    struct report *ops = report_add_array(object, "operations");
    for (int i = 0; i < BASELINE_OP_COUNT; i++) {
        struct report *op = report_add_object(ops, NULL);
        report_add_text(op, "name", baseline_op_name((enum baseline_op)i));
        report_times(op, &small->ops[i]);
        int64_t median_ns = samples_percentile(&small->ops[i], 0.5);
        double server_ms = (double)median_ns / 1e6 - small->network_ms;
        report_add_real(op, "server_ms", server_ms > 0 ? server_ms : 0);
    }
}

static void report_unpacked(struct report *array, struct unpack_result *result)
{
    struct report *object = report_add_object(array, NULL);
    double elapsed_s = (double)result->elapsed_ns / 1e9;

    report_add_u64(object, "at_a_time", result->files_max);
    report_add_u64(object, "files", result->files);
    report_add_u64(object, "directories", result->directories);
    report_add_u64(object, "links", result->links);
    report_add_u64(object, "skipped", result->skipped);
    report_add_u64(object, "bytes", result->bytes);
    report_add_real(object, "elapsed_s", elapsed_s);
    report_add_real(object, "files_per_second", unpack_rate(result));
    report_add_real(object, "bytes_per_second",
                    elapsed_s > 0 ? (double)result->bytes / elapsed_s : 0);
    struct report *ops = report_add_array(object, "operations");
    for (int i = 0; i < UNPACK_OP_COUNT; i++) {
        if (result->calls[i] > 0) {
            struct report *op = report_add_object(ops, NULL);
            report_add_text(op, "name", unpack_op_name((enum unpack_op)i));
            report_add_u64(op, "calls", result->calls[i]);
            report_times(op, &result->ops[i]);
        }
    }
}

void baseline_report(struct report *report, struct baseline *baseline)
{
    report_add_u64(report, "rtmax", baseline->rtmax);
    report_add_u64(report, "wtmax", baseline->wtmax);
    for (int i = 0; i < BASELINE_TRANSPORT_COUNT; i++) {
        if (baseline->problems[i][0] != '\0') {
            struct report *problem =
                report_add_object(report, baseline_transport_name((enum baseline_transport)i));
            report_add_text(problem, "problem", baseline->problems[i]);
        }
    }
    struct report *points = report_add_array(report, "points");
    for (uint32_t i = 0; i < baseline->point_count; i++) {
        report_point(points, &baseline->points[i]);
    }
    if (baseline->small.file_count > 0) {
        report_small(report, &baseline->small);
    }
    struct report *unpacking = report_add_array(report, "unpacking");
    for (uint32_t i = 0; i < baseline->unpacked_count; i++) {
        report_unpacked(unpacking, &baseline->unpacked[i]);
    }
    struct report *best = report_add_array(report, "choice");
    for (int kind = 0; kind < 2; kind++) {
        for (int transport = 0; transport < BASELINE_TRANSPORT_COUNT; transport++) {
            const struct baseline_point *point = baseline->best[kind][transport];
            if (point != NULL) {
                struct report *object = report_add_object(best, NULL);
                report_add_text(object, "kind", kind == LOAD_READ ? "read" : "write");
                report_add_text(object, "transport", baseline_transport_name(point->transport));
                report_add_u64(object, "block_bytes", point->block_bytes);
                report_add_u64(object, "in_flight", point->in_flight);
                report_add_real(object, "bytes_per_second", baseline_rate(point));
            }
        }
    }
    struct report *advice = report_add_array(report, "advice");
    for (uint32_t i = 0; i < baseline->advice_count; i++) {
        struct report *object = report_add_object(advice, NULL);
        report_add_text(object, "finding", baseline->advice[i].finding);
        report_add_text(object, "evidence", baseline->advice[i].evidence);
        if (baseline->advice[i].change[0] != '\0') {
            report_add_text(object, "change", baseline->advice[i].change);
        }
        if (baseline->advice[i].gain > 0) {
            report_add_real(object, "times_faster", baseline->advice[i].gain);
        }
    }
}
