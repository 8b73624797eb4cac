/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text format of Prometheus, version 0.0.4: for each metric its help, its type, and a line for
 * each set of labels.
 *
 * Counts are told by client, export and procedure, histograms by procedure alone: each has so many
 * lines that clients times exports times procedures of them would be too much for who collects
 * them.
 */
#include "daemon/status.h"

#include "daemon/limit.h"
#include "daemon/status_journal.h"
#include "report/utf8.h"
#include "server/nsm_hosts.h"
#include "vfs/range_lock.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Edges of the buckets: every doubling from 2 us to 9 s. */
#define EDGE_BITS_FIRST 11U
#define EDGE_BITS_LAST 33U

struct metrics_text {
    const struct status *status;
    const struct rpc_snapshot *snapshot;
    struct status_exports exports;
    FILE *to;
};

static void head(const struct metrics_text *text, const char *name, const char *type,
                 const char *help)
{
    fprintf(text->to, "# HELP holdfast_%s %s\n# TYPE holdfast_%s %s\n", name, help, name, type);
}

static void number(const struct metrics_text *text, const char *name, const char *type,
                   const char *help, double value)
{
    head(text, name, type, help);
    fprintf(text->to, "holdfast_%s %.17g\n", name, value);
}

/* What is not UTF-8 becomes U+FFFD: a label is text. */
void status_label(FILE *to, const char *key, const char *value)
{
    const unsigned char *bytes = (const unsigned char *)value;
    size_t size = strlen(value);

    fprintf(to, "%s=\"", key);
    while (size > 0) {
        size_t step = utf8_bytes(bytes, size);
        if (step == 0) {
            fputs("\xef\xbf\xbd", to);
            step = 1;
        } else if (bytes[0] == '\\' || bytes[0] == '"') {
            fprintf(to, "\\%c", bytes[0]);
        } else if (bytes[0] == '\n') {
            fputs("\\n", to);
        } else {
            fwrite(bytes, 1, step, to);
        }
        bytes += step;
        size -= step;
    }
    fputc('"', to);
}

static void procedure_labels(FILE *to, const struct rpc_row_stats *row)
{
    fprintf(to, "program=\"%s\",version=\"%" PRIu32 "\",procedure=\"%s\"", row->program, row->vers,
            row->name);
}

static void row_labels(const struct metrics_text *text, const struct rpc_row_stats *row)
{
    char client[STATUS_CLIENT_BYTES];
    const char *path = status_export_path(&text->exports, row->group);

    fputc('{', text->to);
    status_label(text->to, "client", status_client_text(row->client, client));
    fputc(',', text->to);
    status_label(text->to, "export", path != NULL ? path : "");
    if (path == NULL && row->group != 0) {
        fprintf(text->to, ",gone=\"%016" PRIx64 "\"", row->group); /* or two lines were the same */
    }
    fputc(',', text->to);
    procedure_labels(text->to, row);
}

/* ---- rows ---- */

static void write_counts(const struct metrics_text *text)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } counts[] = {
        {"calls_total", "Calls that have ended.", offsetof(struct rpc_row_stats, calls)},
        {"call_errors_total", "Calls that were answered with an error, or not at all.",
         offsetof(struct rpc_row_stats, errors)},
        {"call_bytes_in_total", "Bytes of calls.", offsetof(struct rpc_row_stats, bytes_in)},
        {"call_bytes_out_total", "Bytes of replies.", offsetof(struct rpc_row_stats, bytes_out)},
    };
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        head(text, counts[i].name, "counter", counts[i].help);
        for (uint32_t j = 0; j < text->snapshot->row_count; j++) {
            const struct rpc_row_stats *row = &text->snapshot->rows[j];
            uint64_t value;
            memcpy(&value, (const char *)row + counts[i].offset, sizeof value);
            fprintf(text->to, "holdfast_%s", counts[i].name);
            row_labels(text, row);
            fprintf(text->to, "} %" PRIu64 "\n", value);
        }
    }
}

static void write_seconds(const struct metrics_text *text)
{
    head(text, "call_seconds_total", "counter", "Time that calls took, by phase.");
    for (uint32_t i = 0; i < text->snapshot->row_count; i++) {
        const struct rpc_row_stats *row = &text->snapshot->rows[i];
        for (enum rpc_phase phase = 0; phase < RPC_PHASE_COUNT; phase++) {
            fputs("holdfast_call_seconds_total", text->to);
            row_labels(text, row);
            fprintf(text->to, ",phase=\"%s\"} %.9f\n", status_phase_name(phase),
                    (double)row->ns[phase] / 1e9);
        }
    }
}

static void write_histogram(const struct metrics_text *text, const struct rpc_row_stats *row,
                            enum rpc_phase phase)
{
    static const char name[] = "holdfast_call_duration_seconds";
    const struct histogram_sum *latency = &row->latency[phase];
    uint64_t below = 0;
    unsigned bucket = 0;

    for (unsigned bits = EDGE_BITS_FIRST; bits <= EDGE_BITS_LAST; bits++) {
        for (; histogram_floor(bucket) < UINT64_C(1) << bits; bucket++) {
            below += latency->counts[bucket];
        }
        fprintf(text->to, "%s_bucket{", name);
        procedure_labels(text->to, row);
        fprintf(text->to, ",phase=\"%s\",le=\"%.9g\"} %" PRIu64 "\n", status_phase_name(phase),
                (double)(UINT64_C(1) << bits) / 1e9, below);
    }
    fprintf(text->to, "%s_bucket{", name);
    procedure_labels(text->to, row);
    fprintf(text->to, ",phase=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", status_phase_name(phase),
            histogram_count(latency));
    fprintf(text->to, "%s_sum{", name);
    procedure_labels(text->to, row);
    fprintf(text->to, ",phase=\"%s\"} %.9f\n", status_phase_name(phase),
            (double)row->ns[phase] / 1e9);
    fprintf(text->to, "%s_count{", name);
    procedure_labels(text->to, row);
    fprintf(text->to, ",phase=\"%s\"} %" PRIu64 "\n", status_phase_name(phase),
            histogram_count(latency));
}

static void write_clients(const struct metrics_text *text)
{
    static const struct {
        const char *name, *type, *help;
    } metrics[] = {
        {"client_connections", "gauge", "TCP connections."},
        {"client_retransmissions_total", "counter", "Calls that had come before."},
        {"client_refused_total", "counter", "Calls without a procedure that could be run."},
    };
    for (size_t i = 0; i < COUNT_OF(metrics); i++) {
        head(text, metrics[i].name, metrics[i].type, metrics[i].help);
        for (uint32_t j = 0; j < text->snapshot->client_count; j++) {
            const struct rpc_client_stats *client = &text->snapshot->clients[j];
            const uint64_t values[] = {client->connections, client->copies, client->refused};
            char name[STATUS_CLIENT_BYTES];
            fprintf(text->to, "holdfast_%s{", metrics[i].name);
            status_label(text->to, "client", status_client_text(client, name));
            fprintf(text->to, "} %" PRIu64 "\n", values[i]);
        }
    }
}

/* ---- the server ---- */

static void write_limits(const struct metrics_text *text)
{
    struct rpc_limit limits[LIMIT_COUNT_MAX];
    uint32_t count = limit_list(text->status->server, text->status->vfs, limits);

    head(text, "limit", "gauge", "What there may be at most.");
    for (uint32_t i = 0; i < count; i++) {
        fprintf(text->to, "holdfast_limit{name=\"%s\"} %" PRIu64 "\n", limits[i].name,
                limits[i].value);
    }
    head(text, "limit_used", "gauge", "What there is of it.");
    for (uint32_t i = 0; i < count; i++) {
        if (limits[i].used != RPC_LIMIT_NOT_COUNTED) {
            fprintf(text->to, "holdfast_limit_used{name=\"%s\"} %" PRIu64 "\n", limits[i].name,
                    limits[i].used);
        }
    }
}

static void write_locks(const struct metrics_text *text)
{
    struct vfs_range_stats stats;

    vfs_range_stats(text->status->vfs, &stats);
    head(text, "locks", "gauge", "Byte-range locks.");
    fprintf(text->to, "holdfast_locks{state=\"held\"} %" PRIu32 "\n", stats.count - stats.waiting);
    fprintf(text->to, "holdfast_locks{state=\"waiting\"} %" PRIu32 "\n", stats.waiting);
    number(text, "locked_files", "gauge", "Files that are locked.", stats.files);
    number(text, "grace_period", "gauge", "1: locks are only given back.",
           nsm_hosts_in_grace(text->status->hosts) ? 1 : 0);
}

static void write_server(const struct metrics_text *text)
{
    struct rpc_server_stats stats;

    rpc_server_stats(text->status->server, &stats);
    head(text, "info", "gauge", "Always 1.");
    fprintf(text->to, "holdfast_info{version=\"%s\"} 1\n", HOLDFAST_VERSION);
    number(text, "uptime_seconds", "gauge", "Since the server was started.",
           status_uptime(text->status));
    number(text, "connections", "gauge", "TCP connections.", stats.connections);
    number(text, "received_bytes_total", "counter", "Bytes that came from sockets.",
           (double)stats.bytes_in);
    number(text, "sent_bytes_total", "counter", "Bytes that went to TCP sockets.",
           (double)stats.bytes_out);
    number(text, "broken_calls_total", "counter", "Messages that are no call, or cannot be read.",
           (double)stats.garbage);
    number(text, "held_back_total", "counter", "Datagrams dropped: the client has its share.",
           (double)stats.held_back);
    number(text, "blocked_total", "counter", "Calls that lost their event loop to others.",
           (double)stats.takeovers);
}

int status_metrics(const struct status *status, FILE *to)
{
    struct metrics_text text = {.status = status, .to = to};
    struct rpc_snapshot *snapshot = rpc_snapshot_take(status->server);
    int error = status_exports_list(status->vfs, &text.exports);

    if (snapshot == NULL) {
        error = -ENOMEM;
    }
    if (error == 0) {
        text.snapshot = snapshot;
        write_server(&text);
        write_locks(&text);
        write_limits(&text);
        status_journal_metrics(status->vfs, to);
        write_clients(&text);
        write_counts(&text);
        write_seconds(&text);
        status_sum_rows(snapshot);
        head(&text, "call_duration_seconds", "histogram", "How long calls took, by phase.");
        for (uint32_t i = 0; i < snapshot->row_count; i++) {
            for (enum rpc_phase phase = 0; phase < RPC_PHASE_COUNT; phase++) {
                if (histogram_count(&snapshot->rows[i].latency[phase]) > 0) {
                    write_histogram(&text, &snapshot->rows[i], phase);
                }
            }
        }
    }
    status_exports_free(&text.exports);
    rpc_snapshot_free(snapshot);
    return error;
}
