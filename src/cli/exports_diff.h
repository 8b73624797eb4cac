/* SPDX-License-Identifier: Apache-2.0 */
/* `holdfast exports diff`: who gets something else by another exports file. */
#ifndef CLI_EXPORTS_DIFF_H
#define CLI_EXPORTS_DIFF_H

#include "vfs/export.h"

struct report;

/* Shows what differs between two tables, as text on stdout or, if that is not NULL, into json.
 * Returns how many clients. */
uint32_t exports_diff(const struct export_table *before, const struct export_table *after,
                      struct report *json);

#endif
