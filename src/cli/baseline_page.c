/* SPDX-License-Identifier: Apache-2.0 */
/* The baseline as a page with plots. */
#include "cli/baseline_text.h"

#include "report/plot.h"

#include <string.h>

struct curve {
    const struct baseline_point *head;
    double x[BASELINE_BLOCK_COUNT_MAX], y[BASELINE_BLOCK_COUNT_MAX];
    size_t count;
    char name[32];
};

static bool belongs(const struct curve *curve, const struct baseline_point *point)
{
    return curve->head->transport == point->transport && curve->head->in_flight == point->in_flight;
}

/* Curves of one kind and pattern: by transport and requests in flight. */
static size_t find_curves(const struct baseline *baseline, enum load_kind kind, bool random,
                          struct curve curves[PLOT_SERIES_COUNT_MAX])
{
    size_t count = 0;
    for (uint32_t i = 0; i < baseline->point_count; i++) {
        const struct baseline_point *point = &baseline->points[i];
        if (point->kind != kind || point->random != random) {
            continue;
        }
        size_t n = 0;
        while (n < count && !belongs(&curves[n], point)) {
            n++;
        }
        if (n == PLOT_SERIES_COUNT_MAX) {
            continue;
        }
        struct curve *curve = &curves[n];
        if (n == count) {
            *curve = (struct curve){.head = point};
            (void)snprintf(curve->name, sizeof curve->name, "%s, %u at a time",
                           baseline_transport_name(point->transport), point->in_flight);
            count++;
        }
        curve->x[curve->count] = point->block_bytes;
        curve->y[curve->count++] = baseline_rate(point);
    }
    return count;
}

static void write_plot(FILE *file, const struct baseline *baseline, enum load_kind kind,
                       bool random)
{
    static const char *const labels[] = {"512", "1K",  "2K",   "4K",   "8K",   "16K",
                                         "32K", "64K", "128K", "256K", "512K", "1M"};
    static const double ticks[] = {512,   1024,  2048,   4096,   8192,   16384,
                                   32768, 65536, 131072, 262144, 524288, 1048576};
    struct curve curves[PLOT_SERIES_COUNT_MAX];
    struct plot_series series[PLOT_SERIES_COUNT_MAX];
    double most = 0;
    char title[64];

    size_t count = find_curves(baseline, kind, random, curves);
    for (size_t i = 0; i < count; i++) {
        series[i] = (struct plot_series){curves[i].name, curves[i].x, curves[i].y, curves[i].count};
        for (size_t n = 0; n < curves[i].count; n++) {
            most = curves[i].y[n] > most ? curves[i].y[n] : most;
        }
    }
    if (count == 0) {
        return;
    }
    (void)snprintf(title, sizeof title, "%s, %s", kind == LOAD_READ ? "Reading" : "Writing",
                   random ? "random" : "sequential");
    struct plot plot = {
        .title = title,
        .x_name = "bytes of a request",
        .y_name = most >= 1e6 ? "MB/s" : "KB/s",
        .x_labels = labels,
        .x_ticks = ticks,
        .x_tick_count = COUNT_OF(ticks),
        .y_unit = most >= 1e6 ? 1e6 : 1e3,
        .series = series,
        .series_count = count,
    };
    plot_write_svg(file, &plot);
}

static void write_small(FILE *file, struct baseline_small *small)
{
    static const double parts[] = {0, 0.5, 0.99};

    page_text(file, "h2", "Small files");
    fputs("<table><tr><th>operation</th><th>min ms</th><th>median ms</th><th>p99 ms</th></tr>\n",
          file);
    for (int i = 0; i < BASELINE_OP_COUNT; i++) {
        fputs("<tr>", file);
        page_text(file, "td", baseline_op_name((enum baseline_op)i));
        for (size_t n = 0; n < COUNT_OF(parts); n++) {
            int64_t ns = samples_percentile(&small->ops[i], parts[n]);
            fprintf(file, "<td>%.3f</td>", (double)ns / 1e6);
        }
        fputs("</tr>\n", file);
    }
    fputs("</table>\n", file);
}

void baseline_write_page(FILE *file, const char *url, struct baseline *baseline)
{
    char title[600];

    (void)snprintf(title, sizeof title, "Baseline of %s", url);
    page_begin(file, title);
    fputs("<dl>\n", file);
    for (uint32_t i = 0; i < baseline->advice_count; i++) {
        const struct baseline_advice *advice = &baseline->advice[i];
        page_text(file, "dt", advice->finding);
        page_text(file, "dd", advice->evidence);
        if (advice->change[0] != '\0') {
            page_text(file, "dd", advice->change);
        }
    }
    fputs("</dl>\n", file);
    for (int kind = LOAD_READ; kind <= LOAD_WRITE; kind++) {
        write_plot(file, baseline, (enum load_kind)kind, false);
        write_plot(file, baseline, (enum load_kind)kind, true);
    }
    if (baseline->small.file_count > 0) {
        write_small(file, &baseline->small);
    }
    page_end(file);
}
