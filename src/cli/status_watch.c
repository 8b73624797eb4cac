/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/status_watch.h"

#include "base/check.h"
#include "cli/status_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_COUNT_SHOWN 12U

static const char *const phases[] = {"total", "queue", "file_system", "stable_storage", "send"};

/* Of an operation, or of all that a client did: counts, and microseconds by phase. */
struct work {
    double calls, errors, bytes_in, bytes_out;
    double phase_calls[COUNT_OF(phases)], phase_us[COUNT_OF(phases)];
};

struct row {
    char name[64];
    struct work work;
};

static void add(struct work *work, const json_t *operation, double sign)
{
    const json_t *latency = json_object_get(operation, "latency");

    work->calls += sign * status_number(operation, "calls");
    work->errors += sign * status_number(operation, "errors");
    work->bytes_in += sign * status_number(operation, "bytes_in");
    work->bytes_out += sign * status_number(operation, "bytes_out");
    for (size_t i = 0; i < COUNT_OF(phases); i++) {
        const json_t *phase = json_object_get(latency, phases[i]);
        double calls = status_number(phase, "calls");
        work->phase_calls[i] += sign * calls;
        work->phase_us[i] += sign * calls * status_number(phase, "mean_us");
    }
}

/* ---- rows ---- */

/* The item of `array` that has the same strings and numbers under all of `keys` as `like`. */
static const json_t *same_item(const json_t *array, const json_t *like, const char *const *keys)
{
    size_t i;
    json_t *item;

    json_array_foreach (array, i, item) {
        const char *const *key = keys;
        while (*key != NULL &&
               json_equal(json_object_get(item, *key), json_object_get(like, *key))) {
            key++;
        }
        if (*key == NULL) {
            return item;
        }
    }
    return NULL;
}

static void add_client(struct work *work, const json_t *client, double sign)
{
    size_t i, j;
    json_t *export, *operation;

    json_array_foreach (json_object_get(client, "exports"), i, export) {
        json_array_foreach (json_object_get(export, "operations"), j, operation) {
            add(work, operation, sign);
        }
    }
}

static int busiest_first(const void *a, const void *b)
{
    double one = ((const struct row *)a)->work.calls, other = ((const struct row *)b)->work.calls;
    return (one < other) - (one > other);
}

/* What every item of `now` did since `before`, the busiest first. NULL: no memory, or nobody is
 * there. The caller frees. */
static struct row *rows_of(const json_t *before, const json_t *now, bool clients, size_t *count)
{
    static const char *const operation_keys[] = {"program", "version", "procedure", NULL};
    static const char *const client_keys[] = {"client", NULL};
    size_t i;
    json_t *item;

    *count = 0;
    struct row *rows = calloc(json_array_size(now) + 1, sizeof *rows);
    if (rows == NULL) {
        return NULL;
    }
    json_array_foreach (now, i, item) {
        struct row *row = &rows[*count];
        const json_t *old = same_item(before, item, clients ? client_keys : operation_keys);
        *row = (struct row){0};
        if (clients) {
            (void)snprintf(row->name, sizeof row->name, "%s", status_string(item, "client"));
            add_client(&row->work, item, 1);
            add_client(&row->work, old, -1);
        } else {
            status_operation(item, row->name);
            add(&row->work, item, 1);
            add(&row->work, old, -1);
        }
        *count += row->work.calls > 0; /* fewer: it was forgotten in between */
    }
    qsort(rows, *count, sizeof *rows, busiest_first);
    return rows;
}

static void print_row(const struct row *row, double seconds)
{
    char in[STATUS_TEXT_BYTES], out[STATUS_TEXT_BYTES], mean[STATUS_TEXT_BYTES];
    const struct work *work = &row->work;

    printf("  %-24s %9.0f %8.0f %9s %9s ", row->name, work->calls / seconds, work->errors / seconds,
           status_bytes(work->bytes_in / seconds, in),
           status_bytes(work->bytes_out / seconds, out));
    for (size_t i = 0; i < COUNT_OF(phases); i++) {
        bool any = work->phase_calls[i] > 0 && work->phase_us[i] >= 0;
        printf(" %8s", any ? status_duration(work->phase_us[i] / work->phase_calls[i], mean) : "-");
    }
    putchar('\n');
}

static void print_rows(const char *title, const json_t *before, const json_t *now, bool clients,
                       double seconds)
{
    size_t count;
    struct row *rows = rows_of(before, now, clients, &count);

    if (count > 0) {
        printf("\n%-26s %9s %8s %9s %9s  %8s %8s %8s %8s %8s\n", title, "calls/s", "errors/s",
               "in/s", "out/s", "mean", "queue", "files", "stable", "send");
    }
    for (size_t i = 0; i < count && i < ROW_COUNT_SHOWN; i++) {
        print_row(&rows[i], seconds);
    }
    if (count > ROW_COUNT_SHOWN) {
        printf("  and %zu more\n", count - ROW_COUNT_SHOWN);
    }
    free(rows);
}

/* ---- stable storage ---- */

static void print_journals(const json_t *before, const json_t *now, double seconds)
{
    static const char *const keys[] = {"path", NULL};
    size_t i;
    json_t *journal;

    json_array_foreach (now, i, journal) {
        const json_t *old = same_item(before, journal, keys);
        double changes = status_number(journal, "changes") - status_number(old, "changes");
        double batches = status_number(journal, "batches") - status_number(old, "batches");
        const char *path = status_string(journal, "path");
        if (changes > 0 || batches > 0) {
            printf("stable storage, %s: %.0f changes/s in %.0f batches/s, %.1f a batch, %.0f "
                   "waiting\n",
                   path[0] != '\0' ? path : "syncing files", changes / seconds, batches / seconds,
                   batches > 0 ? changes / batches : changes, status_number(journal, "waiting"));
        }
    }
}

void status_watch(const json_t *before, const json_t *now)
{
    const json_t *server = json_object_get(now, "server");
    const json_t *was = json_object_get(before, "server");
    char in[STATUS_TEXT_BYTES], out[STATUS_TEXT_BYTES];
    double seconds = status_number(now, "uptime_seconds") - status_number(before, "uptime_seconds");

    if (seconds < 0.001) { /* what the server's clock is told in */
        seconds = 0.001;
    }
    printf(
        "%.1f s: %.0f calls/s, in %s/s, out %s/s, %.1f retransmissions/s; %.0f connection%s, "
        "%.0f locks held\n",
        seconds, (status_number(server, "calls") - status_number(was, "calls")) / seconds,
        status_bytes((status_number(server, "bytes_in") - status_number(was, "bytes_in")) / seconds,
                     in),
        status_bytes(
            (status_number(server, "bytes_out") - status_number(was, "bytes_out")) / seconds, out),
        (status_number(server, "retransmissions_answered") +
         status_number(server, "retransmissions_dropped") -
         status_number(was, "retransmissions_answered") -
         status_number(was, "retransmissions_dropped")) /
            seconds,
        status_number(server, "connections"), status_number(server, "connections") == 1 ? "" : "s",
        status_number(json_object_get(now, "locks"), "held"));
    print_journals(json_object_get(before, "journals"), json_object_get(now, "journals"), seconds);
    print_rows("operations", json_object_get(before, "operations"),
               json_object_get(now, "operations"), false, seconds);
    print_rows("clients", json_object_get(before, "clients"), json_object_get(now, "clients"), true,
               seconds);
}
