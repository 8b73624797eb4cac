/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a running server shows of itself: as a tree for `holdfast status`, and as metrics in the
 * text format of Prometheus. Both are taken from the same numbers, at the same time or not.
 */
#ifndef DAEMON_STATUS_H
#define DAEMON_STATUS_H

#include "daemon/config.h"
#include "daemon/control.h"
#include "report/tree.h"
#include "rpc/stats.h"

struct nsm_hosts;
struct vfs;

/* Whose numbers. Everything stays while status is asked for. */
struct status {
    const struct config *config;
    uint16_t port;
    const char *metrics_url; /* "": none */
    struct rpc_server *server;
    struct vfs *vfs;
    const struct nsm_hosts *hosts;
    int64_t started_ms; /* status_begin; CLOCK_BOOTTIME */
};

void status_begin(struct status *status);

/* holdfast-status(8) names the keys. NULL: no memory. Any thread. */
struct report *status_report(const struct status *status);

/* The same as JSON, for the control socket. Returns the exit status. */
int status_tell(const struct status *status, struct control_reply *reply);

/* Writes the metrics. -ENOMEM: not all of them. Any thread. */
int status_metrics(const struct status *status, FILE *to) MUST_USE;

/* ---- for both ---- */

/* Which directory an id of an export stands for. */
struct status_export {
    uint64_t id;
    char *path;
};
struct status_exports {
    uint32_t count;
    struct status_export *items;
};
int status_exports_list(struct vfs *vfs, struct status_exports *exports) MUST_USE;
void status_exports_free(struct status_exports *exports);
/* NULL: the calls were on none, or on one that is gone. */
const char *status_export_path(const struct status_exports *exports, uint64_t id);

/* An address as text, "others" for the others. */
#define STATUS_CLIENT_BYTES 48U
const char *status_client_text(const struct rpc_client_stats *client,
                               char text[STATUS_CLIENT_BYTES]);

/* "total", "queue", "file_system", "stable_storage", "send" */
const char *status_phase_name(enum rpc_phase phase);

/* KEY="VALUE" for Prometheus, whatever bytes the value has. */
void status_label(FILE *to, const char *key, const char *value);

/* Adds up the rows of each procedure, whoever called it. They have no client then. */
void status_sum_rows(struct rpc_snapshot *snapshot);

/* Seconds since status_begin. */
double status_uptime(const struct status *status);

#endif
