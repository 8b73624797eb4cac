/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/baseline_text.h"

#include "client/nfs3.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define BAR_COLUMNS 24

/* A bar of eighths of a column. */
static void print_bar(FILE *file, double part)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int count = (int)lround(part * BAR_COLUMNS * 8);
    for (int i = 0; i < count / 8; i++) {
        fputs("█", file);
    }
    fputs(eighths[count % 8], file);
}

static bool same_series(const struct baseline_point *a, const struct baseline_point *b)
{
    return a->kind == b->kind && a->transport == b->transport && a->random == b->random &&
           a->in_flight == b->in_flight;
}

static void print_ms(FILE *file, struct samples *samples, double part)
{
    int64_t ns = samples_percentile(samples, part);
    if (ns < 0) {
        fprintf(file, " %9s", "-");
    } else {
        fprintf(file, " %9.3f", (double)ns / 1e6);
    }
}

static void print_point(FILE *file, struct baseline_point *point, double best, bool chosen)
{
    struct load_result *result = &point->result;
    char size[32], rate[32], text[CLIENT_TEXT_BYTES_MAX];

    fprintf(file, "%c %9s", chosen ? '*' : ' ', baseline_size_text(point->block_bytes, size));
    if (result->bytes == 0) {
        fprintf(file, "  nothing: %s\n", client_status_text(result->status, text));
        return;
    }
    fprintf(file, " %10s", baseline_rate_text(baseline_rate(point), rate));
    print_ms(file, &result->samples, 0.5);
    print_ms(file, &result->samples, 0.99);
    fprintf(file, " %8.1f%%", 100 * baseline_resent_part(point));
    if (point->transport == BASELINE_UDP) {
        fprintf(file, " %5u", result->fragments);
    } else {
        fprintf(file, " %5s", "");
    }
    fputs("  ", file);
    print_bar(file, best > 0 ? baseline_rate(point) / best : 0);
    if (result->status != 0) {
        fprintf(file, "  ended early: %s", client_status_text(result->status, text));
    }
    fputc('\n', file);
}

static void print_series(FILE *file, struct baseline *baseline, uint32_t first, uint32_t end,
                         double best)
{
    struct baseline_point *head = &baseline->points[first];
    const struct baseline_point *chosen = baseline->best[head->kind][head->transport];

    fprintf(file, "\n%s over %s, %s, %u at a time\n",
            head->kind == LOAD_READ ? "reading" : "writing",
            baseline_transport_name(head->transport), head->random ? "random" : "sequential",
            head->in_flight);
    fprintf(file, "  %9s %10s %9s %9s %9s %5s\n", "block", "rate", "median ms", "p99 ms",
            "sent again", head->transport == BASELINE_UDP ? "frags" : "");
    for (uint32_t i = first; i < end; i++) {
        print_point(file, &baseline->points[i], best, &baseline->points[i] == chosen);
    }
}

static void print_points(FILE *file, struct baseline *baseline)
{
    double best = 0;
    for (uint32_t i = 0; i < baseline->point_count; i++) {
        double rate = baseline_rate(&baseline->points[i]);
        best = rate > best ? rate : best;
    }
    for (uint32_t i = 0, end; i < baseline->point_count; i = end) {
        for (end = i + 1; end < baseline->point_count &&
                          same_series(&baseline->points[i], &baseline->points[end]);
             end++) {
        }
        print_series(file, baseline, i, end, best);
    }
}

static void print_small(FILE *file, struct baseline_small *small)
{
    char size[32];
    fprintf(file, "\n%u files of %s, one call at a time\n", small->file_count,
            baseline_size_text(BASELINE_SMALL_FILE_BYTES, size));
    fprintf(file, "  %-16s %9s %9s %9s %9s\n", "operation", "min ms", "median ms", "p99 ms",
            "of server");
    for (int i = 0; i < BASELINE_OP_COUNT; i++) {
        struct samples *samples = &small->ops[i];
        int64_t median_ns = samples_percentile(samples, 0.5);
        double server_ms = (double)median_ns / 1e6 - small->network_ms;
        fprintf(file, "  %-16s", baseline_op_name((enum baseline_op)i));
        print_ms(file, samples, 0);
        print_ms(file, samples, 0.5);
        print_ms(file, samples, 0.99);
        fprintf(file, " %9.3f\n", server_ms > 0 ? server_ms : 0);
    }
    fprintf(file, "  unpacking one: %.2f ms, of which %.2f ms are waiting for stable storage\n",
            small->per_file_ms, small->storage_ms);
}

static void print_unpacked(FILE *file, struct unpack_result *result)
{
    char rate[32];
    double elapsed_s = (double)result->elapsed_ns / 1e9;

    fprintf(file, "\nunpacking %" PRIu64 " files", result->files);
    if (result->directories > 0) {
        fprintf(file, ", %" PRIu64 " directories", result->directories);
    }
    if (result->links > 0) {
        fprintf(file, ", %" PRIu64 " links", result->links);
    }
    fprintf(file, ", %u at a time: %.0f files/s, %s\n", result->files_max, unpack_rate(result),
            baseline_rate_text(elapsed_s > 0 ? (double)result->bytes / elapsed_s : 0, rate));
    fprintf(file, "  %-16s %9s %9s %9s %9s\n", "operation", "calls", "min ms", "median ms",
            "p99 ms");
    for (int i = 0; i < UNPACK_OP_COUNT; i++) {
        if (result->calls[i] > 0) {
            fprintf(file, "  %-16s %9" PRIu64, unpack_op_name((enum unpack_op)i), result->calls[i]);
            print_ms(file, &result->ops[i], 0);
            print_ms(file, &result->ops[i], 0.5);
            print_ms(file, &result->ops[i], 0.99);
            fputc('\n', file);
        }
    }
    if (result->skipped > 0) {
        fprintf(file, "  %" PRIu64 " entries were skipped: devices, or names with \"..\"\n",
                result->skipped);
    }
}

void baseline_print(FILE *file, const char *url, struct baseline *baseline)
{
    fprintf(file, "%s\n", url);
    for (int i = 0; i < BASELINE_TRANSPORT_COUNT; i++) {
        if (baseline->problems[i][0] != '\0') {
            fprintf(file, "not over %s: %s\n", baseline_transport_name((enum baseline_transport)i),
                    baseline->problems[i]);
        }
    }
    print_points(file, baseline);
    if (baseline->small.file_count > 0) {
        print_small(file, &baseline->small);
    }
    for (uint32_t i = 0; i < baseline->unpacked_count; i++) {
        print_unpacked(file, &baseline->unpacked[i]);
    }
    for (uint32_t i = 0; i < baseline->advice_count; i++) {
        const struct baseline_advice *advice = &baseline->advice[i];
        fprintf(file, "\n%s\n", advice->finding);
        if (advice->evidence[0] != '\0') {
            fprintf(file, "    seen: %s\n", advice->evidence);
        }
        if (advice->change[0] != '\0') {
            fprintf(file, "    do:   %s\n", advice->change);
        }
    }
}
