/* SPDX-License-Identifier: Apache-2.0 */
/* What status shows of stable storage. */
#ifndef DAEMON_STATUS_JOURNAL_H
#define DAEMON_STATUS_JOURNAL_H

#include "report/tree.h"
#include "rpc/stats.h"

struct vfs;

/* "journals", and in one sentence what stable storage costs: "verdict". rows: sums by procedure. */
void status_journal_add(struct report *root, struct vfs *vfs, const struct rpc_snapshot *sums);

/* The same for Prometheus. */
void status_journal_metrics(struct vfs *vfs, FILE *to);

#endif
