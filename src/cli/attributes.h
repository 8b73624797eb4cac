/* SPDX-License-Identifier: Apache-2.0 */
/* How `ls` and `stat` show fattr3. */
#ifndef CLI_ATTRIBUTES_H
#define CLI_ATTRIBUTES_H

#include "proto/nfs3.h"
#include "report/tree.h"

/* "drwxr-xr-x" */
void attributes_mode_text(const struct fattr3 *attr, char text[11]);
/* Local time; with_ns: to the nanosecond and with the zone. */
void attributes_time_text(const struct nfstime3 *time, bool with_ns, char text[64]);
const char *attributes_type_name(enum ftype3 type);
void attributes_report(struct report *object, const struct fattr3 *attr);

#endif
