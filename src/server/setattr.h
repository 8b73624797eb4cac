/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SETATTR of every version of NFS: vfs_setattr, and the seconds of the wire.
 */
#ifndef SERVER_SETATTR_H
#define SERVER_SETATTR_H

#include "vfs/node.h"

/* vfs_setattr, and its errors. Times of sattr are words of the wire: 0 to 2^32 - 1 seconds. */
int setattr_apply(struct vfs_call *caller, struct vfs_node *object, const struct vfs_sattr *sattr,
                  const struct timespec *guard_ctime) MUST_USE;

#endif
