/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/status_text.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENT_COUNT_SHOWN 10U

double status_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

const char *status_string(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

/* ---- numbers for people ---- */

const char *status_duration(double us, char out[STATUS_TEXT_BYTES])
{
    if (us < 1000) {
        (void)snprintf(out, STATUS_TEXT_BYTES, "%.*f us", us < 10 ? 1 : 0, us);
    } else if (us < 1000000) {
        (void)snprintf(out, STATUS_TEXT_BYTES, "%.*f ms", us < 10000 ? 1 : 0, us / 1000);
    } else {
        (void)snprintf(out, STATUS_TEXT_BYTES, "%.1f s", us / 1000000);
    }
    return out;
}

const char *status_bytes(double value, char out[STATUS_TEXT_BYTES])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;

    while (value >= 9999.5 && unit + 1 < COUNT_OF(units)) {
        value /= 1000;
        unit++;
    }
    (void)snprintf(out, STATUS_TEXT_BYTES, "%.0f %s", value, units[unit]);
    return out;
}

static const char *span(double seconds, char out[STATUS_TEXT_BYTES])
{
    unsigned long long minutes = (unsigned long long)(seconds / 60);

    if (seconds < 120) {
        (void)snprintf(out, STATUS_TEXT_BYTES, "%.0f s", seconds);
    } else if (minutes < 120) {
        (void)snprintf(out, STATUS_TEXT_BYTES, "%llu min", minutes);
    } else if (minutes < 48 * 60ULL) {
        (void)snprintf(out, STATUS_TEXT_BYTES, "%llu h %llu min", minutes / 60, minutes % 60);
    } else {
        (void)snprintf(out, STATUS_TEXT_BYTES, "%llu d %llu h", minutes / 1440, minutes / 60 % 24);
    }
    return out;
}

static const char *plural(double count)
{
    return count < 1.5 && count > 0.5 ? "" : "s";
}

/* ---- operations ---- */

static void print_head(const char *title)
{
    printf("\n%-26s %11s %8s %8s %8s %8s %8s %8s  %8s %8s %8s %8s\n", title, "calls", "errors",
           "in", "out", "median", "90 %", "99 %", "queue", "files", "stable", "send");
}

void status_operation(const json_t *operation, char out[64])
{
    const char *procedure = status_string(operation, "procedure");
    const char *behind = strchr(procedure, '_');

    (void)snprintf(out, 64, "%s %.0f %s", status_string(operation, "program"),
                   status_number(operation, "version"), behind != NULL ? behind + 1 : procedure);
}

static void print_quantile(const json_t *latency, const char *phase, const char *key)
{
    char out[STATUS_TEXT_BYTES] = "-";
    const json_t *item = json_object_get(latency, phase);

    printf(" %8s", item != NULL ? status_duration(status_number(item, key), out) : out);
}

static void print_operation(const json_t *operation, const char *indent)
{
    const json_t *latency = json_object_get(operation, "latency");
    char in[STATUS_TEXT_BYTES], out[STATUS_TEXT_BYTES], name[64];

    status_operation(operation, name);
    printf("%s%-*s %11.0f %8.0f %8s %8s", indent, 26 - (int)strlen(indent), name,
           status_number(operation, "calls"), status_number(operation, "errors"),
           status_bytes(status_number(operation, "bytes_in"), in),
           status_bytes(status_number(operation, "bytes_out"), out));
    print_quantile(latency, "total", "p50_us");
    print_quantile(latency, "total", "p90_us");
    print_quantile(latency, "total", "p99_us");
    putchar(' ');
    print_quantile(latency, "queue", "p50_us");
    print_quantile(latency, "file_system", "p50_us");
    print_quantile(latency, "stable_storage", "p50_us");
    print_quantile(latency, "send", "p50_us");
    putchar('\n');
}

static int busiest_first(const void *a, const void *b)
{
    double one = status_number(*(const json_t *const *)a, "calls");
    double other = status_number(*(const json_t *const *)b, "calls");
    return (one < other) - (one > other);
}

/* The items of an array in an order. NULL: no memory, or nothing in it. The caller frees. */
static json_t **sorted(const json_t *array, int (*order)(const void *, const void *))
{
    size_t count = json_array_size(array);
    json_t **items = count > 0 ? malloc(count * sizeof(json_t *)) : NULL;

    for (size_t i = 0; items != NULL && i < count; i++) {
        items[i] = json_array_get(array, i);
    }
    if (items != NULL) {
        qsort(items, count, sizeof(json_t *), order);
    }
    return items;
}

static void print_operations(const json_t *report)
{
    const json_t *array = json_object_get(report, "operations");
    json_t **items = sorted(array, busiest_first);

    print_head("operations");
    for (size_t i = 0; items != NULL && i < json_array_size(array); i++) {
        print_operation(items[i], "  ");
    }
    free(items);
}

/* ---- clients ---- */

static double calls_of(const json_t *client)
{
    double calls = 0;
    size_t i, j;
    json_t *export, *operation;

    json_array_foreach (json_object_get(client, "exports"), i, export) {
        json_array_foreach (json_object_get(export, "operations"), j, operation) {
            calls += status_number(operation, "calls");
        }
    }
    return calls;
}

static int busiest_client_first(const void *a, const void *b)
{
    double one = calls_of(*(const json_t *const *)a);
    double other = calls_of(*(const json_t *const *)b);
    return (one < other) - (one > other);
}

static void print_client(const json_t *client)
{
    char idle[STATUS_TEXT_BYTES];
    size_t i, j;
    json_t *export, *operation;
    double connections = status_number(client, "connections");
    double copies = status_number(client, "retransmissions");

    printf("%s: %.0f connection%s, last heard of %s ago, %.0f retransmission%s, %.0f refused\n",
           status_string(client, "client"), connections, plural(connections),
           span(status_number(client, "idle_seconds"), idle), copies, plural(copies),
           status_number(client, "refused"));
    json_array_foreach (json_object_get(client, "exports"), i, export) {
        const char *path = status_string(export, "export");
        bool gone = json_is_true(json_object_get(export, "gone"));
        printf("  %s\n", gone ? "an export that is gone" : path[0] != '\0' ? path : "no export");
        json_array_foreach (json_object_get(export, "operations"), j, operation) {
            print_operation(operation, "    ");
        }
    }
}

static void print_clients(const json_t *report, bool all)
{
    const json_t *array = json_object_get(report, "clients");
    size_t count = json_array_size(array);
    size_t shown = all || count <= CLIENT_COUNT_SHOWN ? count : CLIENT_COUNT_SHOWN;
    json_t **items = sorted(array, busiest_client_first);

    print_head("clients");
    for (size_t i = 0; items != NULL && i < shown; i++) {
        print_client(items[i]);
    }
    if (shown < count) {
        printf("and %zu clients with fewer calls: --all shows them\n", count - shown);
    }
    free(items);
}

/* ---- the rest ---- */

static void print_summary(const json_t *report)
{
    const json_t *server = json_object_get(report, "server");
    const json_t *locks = json_object_get(report, "locks");
    char up[STATUS_TEXT_BYTES];
    const char *metrics = status_string(report, "metrics");
    double clients = (double)json_array_size(json_object_get(report, "clients"));

    printf("holdfast %s, process %.0f, port %.0f, up %s, state in %s\n",
           status_string(report, "version"), status_number(report, "pid"),
           status_number(report, "port"), span(status_number(report, "uptime_seconds"), up),
           status_string(report, "state"));
    if (metrics[0] != '\0') {
        printf("metrics at %s\n", metrics);
    }
    printf("%.0f connection%s, %.0f client%s; %.0f calls, %.0f blocked, %.0f retransmissions, "
           "%.0f broken\n",
           status_number(server, "connections"), plural(status_number(server, "connections")),
           clients, plural(clients), status_number(server, "calls"),
           status_number(server, "blocked"),
           status_number(server, "retransmissions_answered") +
               status_number(server, "retransmissions_dropped"),
           status_number(server, "broken_calls"));
    printf("%.0f lock%s held, %.0f waited for, by %.0f client%s%s\n", status_number(locks, "held"),
           plural(status_number(locks, "held")), status_number(locks, "waiting"),
           status_number(locks, "clients"), plural(status_number(locks, "clients")),
           json_is_true(json_object_get(locks, "grace_period"))
               ? "; only given back now: grace period"
               : "");
}

static void print_exports(const json_t *report)
{
    size_t i, j;
    json_t *export, *client;

    printf("\nexports\n");
    json_array_foreach (json_object_get(report, "exports"), i, export) {
        bool open = json_is_true(json_object_get(export, "open"));
        printf("  %s%s\n", status_string(export, "path"), open ? "" : " (not there now)");
        json_array_foreach (json_object_get(export, "clients"), j, client) {
            printf("    %s(%s)\n", status_string(client, "client"),
                   status_string(client, "options"));
        }
    }
}

static void print_spread(const char *what, const json_t *spread)
{
    char median[STATUS_TEXT_BYTES], most[STATUS_TEXT_BYTES];

    if (spread != NULL) {
        printf("; %s %s, 99 %% %s", what, status_duration(status_number(spread, "p50"), median),
               status_duration(status_number(spread, "p99"), most));
    }
}

static void print_journal(const json_t *journal)
{
    const char *path = status_string(journal, "path");
    const json_t *changes = json_object_get(journal, "batch_changes");
    char used[STATUS_TEXT_BYTES], size[STATUS_TEXT_BYTES];

    if (path[0] == '\0' && status_number(journal, "batches") == 0) {
        return;
    }
    printf("  %s: ", path[0] != '\0' ? path : "syncing files");
    if (path[0] != '\0') {
        printf("%s of %s used, %.0f export%s, ",
               status_bytes(status_number(journal, "used_bytes"), used),
               status_bytes(status_number(journal, "size_bytes"), size),
               status_number(journal, "exports"), plural(status_number(journal, "exports")));
    }
    printf("%.0f changes in %.0f batches, %.0f waiting", status_number(journal, "changes"),
           status_number(journal, "batches"), status_number(journal, "waiting"));
    if (changes != NULL) {
        printf("; a batch: %.0f changes, 99 %% %.0f", status_number(changes, "p50"),
               status_number(changes, "p99"));
    }
    print_spread("flush", json_object_get(journal, "flush_us"));
    print_spread("sync", json_object_get(journal, "sync_us"));
    print_spread("wait", json_object_get(journal, "wait_us"));
    printf("%s\n", json_is_true(json_object_get(journal, "failed")) ? "; FAILED" : "");
}

static void print_journals(const json_t *report)
{
    size_t i;
    json_t *journal;

    printf("\nstable storage: %s\n", status_string(report, "verdict"));
    json_array_foreach (json_object_get(report, "journals"), i, journal) {
        print_journal(journal);
    }
}

static void print_limits(const json_t *report)
{
    size_t i;
    json_t *limit;

    printf("\n%-34s %14s %12s\n", "limits", "at most", "now");
    json_array_foreach (json_object_get(report, "limits"), i, limit) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s", status_string(limit, "name"));
        for (char *at = name; *at != '\0'; at++) {
            *at = *at == '_' ? ' ' : *at;
        }
        printf("  %-32s %14.0f", name, status_number(limit, "limit"));
        if (json_object_get(limit, "used") != NULL) {
            printf(" %12.0f", status_number(limit, "used"));
        }
        putchar('\n');
    }
}

void status_text(const json_t *report, bool all)
{
    print_summary(report);
    print_exports(report);
    print_journals(report);
    print_operations(report);
    print_clients(report, all);
    print_limits(report);
}
