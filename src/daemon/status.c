/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/status.h"

#include "daemon/limit.h"
#include "daemon/status_journal.h"
#include "server/nsm_hosts.h"
#include "vfs/node.h"
#include "vfs/range_lock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const phase_names[RPC_PHASE_COUNT] = {
    [RPC_PHASE_ALL] = "total",
    [RPC_PHASE_QUEUE] = "queue",
    [RPC_PHASE_RUN] = "file_system",
    [RPC_PHASE_STABLE] = "stable_storage",
    [RPC_PHASE_SEND] = "send",
};

const char *status_phase_name(enum rpc_phase phase)
{
    return phase_names[phase];
}

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void status_begin(struct status *status)
{
    status->started_ms = clock_ms();
}

double status_uptime(const struct status *status)
{
    return (double)(clock_ms() - status->started_ms) / 1000;
}

/* ---- names ---- */

struct listing {
    struct status_exports *exports;
    bool no_memory;
};

static void take_export(void *arg, const char *path, uint64_t id)
{
    struct listing *listing = arg;
    struct status_exports *exports = listing->exports;
    struct status_export *items =
        realloc(exports->items, (exports->count + 1) * sizeof *exports->items);
    char *copy = strdup(path);
    if (items != NULL) {
        exports->items = items;
    }
    if (items == NULL || copy == NULL) {
        free(copy);
        listing->no_memory = true;
        return;
    }
    exports->items[exports->count++] = (struct status_export){.id = id, .path = copy};
}

int status_exports_list(struct vfs *vfs, struct status_exports *exports)
{
    struct listing listing = {.exports = exports};

    *exports = (struct status_exports){0};
    vfs_each_export(vfs, take_export, &listing);
    return listing.no_memory ? -ENOMEM : 0;
}

void status_exports_free(struct status_exports *exports)
{
    for (uint32_t i = 0; i < exports->count; i++) {
        free(exports->items[i].path);
    }
    free(exports->items);
}

const char *status_export_path(const struct status_exports *exports, uint64_t id)
{
    for (uint32_t i = 0; i < exports->count; i++) {
        if (exports->items[i].id == id) {
            return exports->items[i].path;
        }
    }
    return NULL;
}

const char *status_client_text(const struct rpc_client_stats *client,
                               char text[STATUS_CLIENT_BYTES])
{
    struct in6_addr address;

    memcpy(&address, client->address, sizeof address);
    if (client->is_others) {
        (void)snprintf(text, STATUS_CLIENT_BYTES, "others");
    } else if (IN6_IS_ADDR_V4MAPPED(&address)) {
        (void)inet_ntop(AF_INET, client->address + 12, text, STATUS_CLIENT_BYTES);
    } else {
        (void)inet_ntop(AF_INET6, &address, text, STATUS_CLIENT_BYTES);
    }
    return text;
}

/* ---- the tree ---- */

static void add_path(struct report *parent, const char *key, const char *path)
{
    if (path == NULL) {
        report_add_null(parent, key);
    } else {
        report_add_bytes(parent, key, path, strlen(path));
    }
}

static void add_exports(struct report *root, struct vfs *vfs, const struct status_exports *exports)
{
    struct report *list = report_add_array(root, "exports");
    struct export_table *table = vfs_table_get(vfs);

    for (uint32_t i = 0; i < table->entry_count; i++) {
        const struct export_entry *entry = &table->entries[i];
        struct report *item = report_add_object(list, NULL);
        bool is_open = false;
        add_path(item, "path", entry->path);
        for (uint32_t j = 0; j < exports->count; j++) {
            is_open = is_open || strcmp(exports->items[j].path, entry->path) == 0;
        }
        report_add_bool(item, "open", is_open);
        struct report *clients = report_add_array(item, "clients");
        for (uint32_t j = 0; j < entry->client_count; j++) {
            char options[EXPORT_OPTIONS_TEXT_BYTES_MAX];
            struct report *client = report_add_object(clients, NULL);
            add_path(client, "client", entry->clients[j].text);
            export_options_text(&entry->clients[j].options, options);
            add_path(client, "options", options);
        }
    }
    export_table_free(table);
}

static void add_latency(struct report *parent, const struct rpc_row_stats *row)
{
    static const struct {
        const char *key;
        double share;
    } quantiles[] = {{"p50_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"p999_us", 0.999}};
    struct report *all = report_add_object(parent, "latency");

    for (int phase = 0; phase < RPC_PHASE_COUNT; phase++) {
        const struct histogram_sum *latency = &row->latency[phase];
        uint64_t count = histogram_count(latency);
        if (count == 0) {
            continue;
        }
        struct report *item = report_add_object(all, phase_names[phase]);
        report_add_u64(item, "calls", count);
        report_add_real(item, "mean_us", (double)row->ns[phase] / (double)count / 1000);
        for (size_t i = 0; i < COUNT_OF(quantiles); i++) {
            uint64_t ns = histogram_quantile(latency, quantiles[i].share);
            report_add_real(item, quantiles[i].key, (double)ns / 1000);
        }
    }
}

static void add_row(struct report *list, const struct rpc_row_stats *row)
{
    struct report *item = report_add_object(list, NULL);

    report_add_text(item, "program", row->program);
    report_add_u64(item, "version", row->vers);
    report_add_text(item, "procedure", row->name);
    report_add_u64(item, "calls", row->calls);
    report_add_u64(item, "errors", row->errors);
    report_add_u64(item, "bytes_in", row->bytes_in);
    report_add_u64(item, "bytes_out", row->bytes_out);
    add_latency(item, row);
}

static void add_clients(struct report *root, const struct rpc_snapshot *snapshot,
                        const struct status_exports *exports)
{
    struct report *list = report_add_array(root, "clients");
    uint32_t at = 0;

    for (uint32_t i = 0; i < snapshot->client_count; i++) {
        const struct rpc_client_stats *client = &snapshot->clients[i];
        bool has_rows = at < snapshot->row_count && snapshot->rows[at].client == client;
        char text[STATUS_CLIENT_BYTES];
        if (client->is_others && !has_rows && client->connections + client->refused == 0) {
            continue;
        }
        struct report *item = report_add_object(list, NULL);
        report_add_text(item, "client", status_client_text(client, text));
        report_add_u64(item, "connections", client->connections);
        report_add_real(item, "idle_seconds", (double)client->idle_ms / 1000);
        report_add_u64(item, "retransmissions", client->copies);
        report_add_u64(item, "refused", client->refused);
        struct report *groups = report_add_array(item, "exports");
        struct report *rows = NULL;
        for (bool first = true; at < snapshot->row_count && snapshot->rows[at].client == client;
             at++, first = false) {
            const struct rpc_row_stats *row = &snapshot->rows[at];
            if (first || row->group != row[-1].group) {
                struct report *group = report_add_object(groups, NULL);
                add_path(group, "export", status_export_path(exports, row->group));
                report_add_bool(group, "gone",
                                row->group != 0 &&
                                    status_export_path(exports, row->group) == NULL);
                rows = report_add_array(group, "operations");
            }
            add_row(rows, row);
        }
    }
}

static int by_procedure(const void *a, const void *b)
{
    const struct rpc_row_stats *one = a;
    const struct rpc_row_stats *other = b;
    int order = strcmp(one->program, other->program);
    if (order == 0) {
        order = (one->vers > other->vers) - (one->vers < other->vers);
    }
    return order != 0 ? order : (one->proc > other->proc) - (one->proc < other->proc);
}

void status_sum_rows(struct rpc_snapshot *snapshot)
{
    uint32_t count = 0;

    qsort(snapshot->rows, snapshot->row_count, sizeof *snapshot->rows, by_procedure);
    for (uint32_t i = 0; i < snapshot->row_count; i++) {
        struct rpc_row_stats *row = &snapshot->rows[i];
        struct rpc_row_stats *to = count > 0 ? &snapshot->rows[count - 1] : NULL;
        if (to == NULL || by_procedure(to, row) != 0) {
            snapshot->rows[count++] = *row;
            continue;
        }
        to->calls += row->calls;
        to->errors += row->errors;
        to->bytes_in += row->bytes_in;
        to->bytes_out += row->bytes_out;
        for (int phase = 0; phase < RPC_PHASE_COUNT; phase++) {
            to->ns[phase] += row->ns[phase];
            histogram_merge(&to->latency[phase], &row->latency[phase]);
        }
    }
    snapshot->row_count = count;
}

static void add_server(struct report *root, const struct status *status)
{
    struct rpc_server_stats stats;
    struct report *item = report_add_object(root, "server");

    rpc_server_stats(status->server, &stats);
    report_add_u64(item, "connections", stats.connections);
    report_add_u64(item, "calls", stats.calls);
    report_add_u64(item, "replies", stats.replies);
    report_add_u64(item, "bytes_in", stats.bytes_in);
    report_add_u64(item, "bytes_out", stats.bytes_out);
    report_add_u64(item, "broken_calls", stats.garbage);
    report_add_u64(item, "refused_credentials", stats.refused_auth);
    report_add_u64(item, "retransmissions_answered", stats.cache_hits);
    report_add_u64(item, "retransmissions_dropped", stats.cache_dropped);
    report_add_u64(item, "held_back", stats.held_back);
    report_add_u64(item, "waited_for_stable_storage", stats.parked);
    report_add_u64(item, "blocked", stats.takeovers);
}

static void add_locks(struct report *root, const struct status *status)
{
    struct vfs_range_stats stats;
    struct report *item = report_add_object(root, "locks");

    vfs_range_stats(status->vfs, &stats);
    report_add_u64(item, "held", stats.count - stats.waiting);
    report_add_u64(item, "waiting", stats.waiting);
    report_add_u64(item, "clients", stats.clients);
    report_add_u64(item, "files", stats.files);
    report_add_bool(item, "grace_period", nsm_hosts_in_grace(status->hosts));
}

static void add_limits(struct report *root, const struct status *status)
{
    struct rpc_limit limits[LIMIT_COUNT_MAX];
    uint32_t count = limit_list(status->server, status->vfs, limits);
    struct report *list = report_add_array(root, "limits");

    for (uint32_t i = 0; i < count; i++) {
        struct report *item = report_add_object(list, NULL);
        report_add_text(item, "name", limits[i].name);
        report_add_u64(item, "limit", limits[i].value);
        if (limits[i].used != RPC_LIMIT_NOT_COUNTED) {
            report_add_u64(item, "used", limits[i].used);
        }
    }
}

struct report *status_report(const struct status *status)
{
    struct status_exports exports;
    struct report *root = report_new();
    struct rpc_snapshot *snapshot = rpc_snapshot_take(status->server);
    int error = status_exports_list(status->vfs, &exports);

    if (root != NULL && snapshot != NULL && error == 0) {
        report_add_text(root, "version", HOLDFAST_VERSION);
        report_add_u64(root, "pid", (uint64_t)getpid());
        report_add_u64(root, "port", status->port);
        report_add_real(root, "uptime_seconds", status_uptime(status));
        add_path(root, "state", status->config->state_dir);
        add_path(root, "metrics", status->metrics_url[0] != '\0' ? status->metrics_url : NULL);
        add_server(root, status);
        add_exports(root, status->vfs, &exports);
        add_locks(root, status);
        add_clients(root, snapshot, &exports);
        status_sum_rows(snapshot);
        struct report *sums = report_add_array(root, "operations");
        for (uint32_t i = 0; i < snapshot->row_count; i++) {
            add_row(sums, &snapshot->rows[i]);
        }
        status_journal_add(root, status->vfs, snapshot);
        add_limits(root, status);
    } else {
        report_free(root);
        root = NULL;
    }
    status_exports_free(&exports);
    rpc_snapshot_free(snapshot);
    return root;
}

int status_tell(const struct status *status, struct control_reply *reply)
{
    struct report *report = status_report(status);
    char *text = NULL;
    size_t size = 0;
    bool written = false;

    FILE *memory = open_memstream(&text, &size);
    if (memory != NULL) {
        written = report_write_json(report, memory);
        written = fclose(memory) == 0 && written;
    }
    report_free(report);
    char *rest = text;
    for (char *line; written && (line = strsep(&rest, "\n")) != NULL;) {
        if (line[0] != '\0') {
            control_say(reply, "%s", line);
        }
    }
    free(text);
    if (!written) {
        control_complain(reply, "no memory for the answer");
    }
    return written ? 0 : 3;
}
