/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the lists of vfs and those of the wire, which have Solaris' habits:
 *
 * 1. There is always a mask. A list of three entries is sent with a fourth, a mask like the owning
 *    group's; and one of four whose mask says no more than that is a list of three.
 * 2. The entries of the owner, the owning group and others carry ids, which mean nothing.
 * 3. The lists' lengths are sent beside them, also without them.
 * 4. A mask may have more bits than three.
 */
#ifndef SERVER_NFSACL_VALUE_H
#define SERVER_NFSACL_VALUE_H

#include "proto/nfsacl.h"
#include "vfs/node.h"

/* -EINVAL: a bit that is none. */
int nfsacl_check_mask(uint32_t mask) MUST_USE;

/* What the mask asks for of an object's lists. -EOVERFLOW: too long for the wire. */
int nfsacl_secattr(uint32_t mask, const struct vfs_attr *attr, const struct vfs_acl *access,
                   const struct vfs_acl *initial, struct secattr *to) MUST_USE;

/* -EINVAL: a length that is another one, a type or a permission that there is not. */
int nfsacl_list(const struct aclent *entries, uint32_t count, uint32_t told,
                struct vfs_acl *to) MUST_USE;

#endif
