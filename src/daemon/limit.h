/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every limit that a client can meet, in one list: what `holdfast status` shows. The constants are
 * where they are kept; this names them all.
 */
#ifndef DAEMON_LIMIT_H
#define DAEMON_LIMIT_H

#include "rpc/stats.h"

#define LIMIT_COUNT_MAX 40U

struct vfs;

/* Fills the list and returns how many there are. */
uint32_t limit_list(struct rpc_server *server, struct vfs *vfs,
                     struct rpc_limit limits[LIMIT_COUNT_MAX]);

#endif
