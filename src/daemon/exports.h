/* SPDX-License-Identifier: Apache-2.0 */
/* What a server is told to export, from its command line and its file: read when it starts, and
 * anew when it is asked to. */
#ifndef DAEMON_EXPORTS_H
#define DAEMON_EXPORTS_H

#include "daemon/config.h"
#include "vfs/export.h"

/* A resolved table, which the caller gives back with export_table_free. *problems is filled in any
 * case. Looks up names, which may take as long as DNS does. */
int exports_read(const struct config *config, struct export_table **table,
                 struct export_problems *problems, struct err *err) MUST_USE;

/* Writes each problem to the log. */
void exports_log(const struct export_problems *problems);

#endif
