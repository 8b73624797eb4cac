/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/status_journal.h"

#include "daemon/status.h"
#include "vfs/journals.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FAST_FLUSH_NS 50000.0 /* of a device that is called fast: NVMe with a safe cache */
#define WORTH_IT 1.5          /* a change that is not even so many times faster is not advised */
#define EDGE_BITS_FIRST 11U   /* of the histogram of flushes: every doubling from 2 us */
#define EDGE_BITS_LAST 33U

/* Calls f for every journal that there is. */
static void each_journal(struct vfs *vfs, void (*take)(void *arg, const struct vfs_journal_info *),
                         void *arg)
{
    struct vfs_journal_info *info = malloc(sizeof *info);
    for (uint32_t i = 0; info != NULL && i < VFS_JOURNAL_COUNT_MAX; i++) {
        if (vfs_journal_info(vfs, i, info)) {
            take(arg, info);
        }
    }
    free(info);
}

/* ---- the tree ---- */

static void add_spread(struct report *parent, const char *key, const struct journal_spread *spread,
                       double unit)
{
    static const struct {
        const char *key;
        double share;
    } quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};

    if (spread->count == 0) {
        return;
    }
    struct report *item = report_add_object(parent, key);
    report_add_u64(item, "count", spread->count);
    report_add_real(item, "mean", (double)spread->sum / (double)spread->count / unit);
    for (size_t i = 0; i < COUNT_OF(quantiles); i++) {
        uint64_t value = journal_spread_share(spread, quantiles[i].share);
        report_add_real(item, quantiles[i].key, (double)value / unit);
    }
    report_add_real(item, "max", (double)spread->max / unit);
}

static void add_journal(void *arg, const struct vfs_journal_info *info)
{
    const struct journal_stats *stats = &info->stats;
    struct report *item = report_add_object(arg, NULL);

    if (info->path[0] == '\0') {
        report_add_null(item, "path");
    } else {
        report_add_bytes(item, "path", info->path, strlen(info->path));
    }
    report_add_bool(item, "failed", stats->error != 0);
    report_add_u64(item, "changes", stats->changes);
    report_add_u64(item, "waiting", stats->waiting);
    report_add_u64(item, "batches", stats->batches);
    add_spread(item, "batch_changes", &stats->batch_changes, 1);
    add_spread(item, "sync_us", &stats->sync_ns, 1000);
    add_spread(item, "wait_us", &stats->wait_ns, 1000);
    if (!stats->has_log) {
        return;
    }
    report_add_u64(item, "exports", info->export_count);
    report_add_u64(item, "used_bytes", stats->used_bytes);
    report_add_u64(item, "size_bytes", stats->ring_bytes);
    add_spread(item, "batch_bytes", &stats->batch_bytes, 1);
    add_spread(item, "flush_us", &stats->write_ns, 1000);
    report_add_u64(item, "records", stats->records);
    report_add_u64(item, "waits_for_room", stats->full_waits);
    report_add_real(item, "waited_for_room_seconds", (double)stats->full_ns / 1e9);
    report_add_u64(item, "held_back_changes", stats->admit_waits);
    report_add_u64(item, "checkpoints", stats->checkpoints);
    add_spread(item, "checkpoint_us", &stats->checkpoint_ns, 1000);
    report_add_u64(item, "write_bytes_max", info->write_bytes_max);
    report_add_real(item, "measured_write_us", (double)info->measured_write_ns / 1000);
    report_add_real(item, "measured_sync_us", (double)info->measured_sync_ns / 1000);
    report_add_u64(item, "ready_files", info->pool_files);
    report_add_u64(item, "ready_directories", info->pool_dirs);
}

/* ---- the verdict ---- */

struct verdict {
    bool failed;
    bool has_log;
    uint64_t batches; /* of the journal with the most; what follows is that one's */
    uint64_t flush_ns;
};

static void look_at(void *arg, const struct vfs_journal_info *info)
{
    struct verdict *verdict = arg;
    const struct journal_stats *stats = &info->stats;

    verdict->failed = verdict->failed || stats->error != 0;
    if (stats->batches > verdict->batches) {
        verdict->has_log = stats->has_log;
        verdict->batches = stats->batches;
        verdict->flush_ns =
            journal_spread_share(stats->has_log ? &stats->write_ns : &stats->sync_ns, 0.5);
    }
}

/* How much longer calls that wait for stable storage take than they would on a fast device. */
static double slowness(const struct rpc_snapshot *sums)
{
    double all_ns = 0, stable_ns = 0, calls = 0;

    for (uint32_t i = 0; i < sums->row_count; i++) {
        const struct rpc_row_stats *row = &sums->rows[i];
        uint64_t waited = histogram_count(&row->latency[RPC_PHASE_STABLE]);
        if (waited > 0 && waited * 2 > row->calls) { /* others are a matter of luck */
            all_ns += (double)(row->ns[RPC_PHASE_RUN] + row->ns[RPC_PHASE_STABLE] +
                               row->ns[RPC_PHASE_SEND]);
            stable_ns += (double)row->ns[RPC_PHASE_STABLE];
            calls += (double)row->calls;
        }
    }
    return calls > 0 ? all_ns / (all_ns - stable_ns + calls * FAST_FLUSH_NS) : 0;
}

static void write_verdict(const struct verdict *verdict, double times, char *text, size_t size)
{
    double flush_ms = (double)verdict->flush_ns / 1e6;
    const char *what = verdict->has_log ? "device flush" : "syncing";

    if (verdict->failed) {
        (void)snprintf(text, size,
                       "stable storage has failed: what must be durable is refused; see the log");
    } else if (times <= 0) {
        (void)snprintf(text, size, "nothing has waited for stable storage yet");
    } else if (times < WORTH_IT) {
        (void)snprintf(text, size, "%s %.2f ms: sync costs little here", what, flush_ms);
    } else {
        (void)snprintf(text, size,
                       "%s %.1f ms: a journal on a %s device would make sync about %.*f times "
                       "faster",
                       what, flush_ms, verdict->has_log ? "faster" : "fast", times < 3 ? 1 : 0,
                       times);
    }
}

void status_journal_add(struct report *root, struct vfs *vfs, const struct rpc_snapshot *sums)
{
    struct verdict verdict = {0};
    char text[160];

    each_journal(vfs, look_at, &verdict);
    write_verdict(&verdict, slowness(sums), text, sizeof text);
    report_add_text(root, "verdict", text);
    each_journal(vfs, add_journal, report_add_array(root, "journals"));
}

/* ---- metrics ---- */

struct metric {
    FILE *to;
    const char *name;
    size_t offset; /* of a number in struct journal_stats */
};

static void write_number(void *arg, const struct vfs_journal_info *info)
{
    const struct metric *metric = arg;
    uint64_t value;

    memcpy(&value, (const char *)&info->stats + metric->offset, sizeof value);
    fprintf(metric->to, "holdfast_journal_%s{", metric->name);
    status_label(metric->to, "journal", info->path);
    fprintf(metric->to, "} %" PRIu64 "\n", value);
}

static void write_flushes(void *arg, const struct vfs_journal_info *info)
{
    const struct metric *metric = arg;
    const struct journal_spread *spread =
        info->stats.has_log ? &info->stats.write_ns : &info->stats.sync_ns;
    uint64_t below = 0;
    uint32_t bucket = 0;

    for (unsigned bits = EDGE_BITS_FIRST; bits <= EDGE_BITS_LAST; bits++) {
        for (; journal_spread_bucket_min(bucket) < UINT64_C(1) << bits; bucket++) {
            below += spread->buckets[bucket];
        }
        fprintf(metric->to, "holdfast_journal_flush_seconds_bucket{");
        status_label(metric->to, "journal", info->path);
        fprintf(metric->to, ",le=\"%.9g\"} %" PRIu64 "\n", (double)(UINT64_C(1) << bits) / 1e9,
                below);
    }
    fprintf(metric->to, "holdfast_journal_flush_seconds_bucket{");
    status_label(metric->to, "journal", info->path);
    fprintf(metric->to, ",le=\"+Inf\"} %" PRIu64 "\nholdfast_journal_flush_seconds_sum{",
            spread->count);
    status_label(metric->to, "journal", info->path);
    fprintf(metric->to, "} %.9f\nholdfast_journal_flush_seconds_count{", (double)spread->sum / 1e9);
    status_label(metric->to, "journal", info->path);
    fprintf(metric->to, "} %" PRIu64 "\n", spread->count);
}

void status_journal_metrics(struct vfs *vfs, FILE *to)
{
    static const struct {
        const char *name, *type, *help;
        size_t offset;
    } metrics[] = {
        {"changes_total", "counter", "Changes that were to be made durable.",
         offsetof(struct journal_stats, changes)},
        {"batches_total", "counter", "Batches that changes were made durable in.",
         offsetof(struct journal_stats, batches)},
        {"waiting_changes", "gauge", "Changes that are not yet durable.",
         offsetof(struct journal_stats, waiting)},
        {"waits_for_room_total", "counter", "Batches that waited for room in the log.",
         offsetof(struct journal_stats, full_waits)},
        {"checkpoints_total", "counter", "Checkpoints.",
         offsetof(struct journal_stats, checkpoints)},
        {"used_bytes", "gauge", "Bytes of the log that are needed.",
         offsetof(struct journal_stats, used_bytes)},
        {"size_bytes", "gauge", "Bytes of the log; 0: there is none.",
         offsetof(struct journal_stats, ring_bytes)},
    };
    struct metric metric = {.to = to};

    for (size_t i = 0; i < COUNT_OF(metrics); i++) {
        metric.name = metrics[i].name;
        metric.offset = metrics[i].offset;
        fprintf(to, "# HELP holdfast_journal_%s %s\n# TYPE holdfast_journal_%s %s\n",
                metrics[i].name, metrics[i].help, metrics[i].name, metrics[i].type);
        each_journal(vfs, write_number, &metric);
    }
    fprintf(to, "# HELP holdfast_journal_flush_seconds Durable writes of batches, or syncs.\n"
                "# TYPE holdfast_journal_flush_seconds histogram\n");
    each_journal(vfs, write_flushes, &metric);
}
