/* SPDX-License-Identifier: Apache-2.0 */
/* The bits of ACCESS, RFC 1813 §3.3.4, which NFS_ACL has for version 2, too. */
#ifndef SERVER_ACCESS3_H
#define SERVER_ACCESS3_H

#include "vfs/node.h"

/* What to ask vfs_access for: VFS_MAY_*. */
uint32_t access3_wanted(uint32_t bits);
/* Which of the bits what was granted amounts to, for an object of that type. */
uint32_t access3_granted(uint32_t bits, enum vfs_type type, uint32_t granted);

#endif
