/* SPDX-License-Identifier: Apache-2.0 */
#include "server/nfsacl_value.h"

#include <errno.h>

#define MASK_BITS ((uint32_t)(NA_ACL | NA_ACLCNT | NA_DFACL | NA_DFACLCNT))
#define PERM_BITS 7U
#define MINIMUM_COUNT 3U /* owner, owning group, others */

_Static_assert((int)NA_USER_OBJ == (int)VFS_ACL_USER_OBJ && (int)NA_USER == (int)VFS_ACL_USER &&
                   (int)NA_GROUP_OBJ == (int)VFS_ACL_GROUP_OBJ &&
                   (int)NA_GROUP == (int)VFS_ACL_GROUP && (int)NA_CLASS_OBJ == (int)VFS_ACL_MASK &&
                   (int)NA_OTHER_OBJ == (int)VFS_ACL_OTHER,
               "Solaris and Linux number the entries alike");
_Static_assert(NFS_ACL_MAX_ENTRIES == VFS_ACL_ENTRY_COUNT_MAX, "what is read has a place");

int nfsacl_check_mask(uint32_t mask)
{
    return (mask & ~MASK_BITS) == 0 ? 0 : -EINVAL;
}

/* ---- to the wire ---- */

static struct aclent aclent_of(const struct vfs_ace *ace, const struct vfs_attr *attr)
{
    struct aclent entry = {.type = ace->tag, .perm = ace->perm};
    switch (ace->tag) {
    case VFS_ACL_USER_OBJ:
        entry.id = attr->uid;
        break;
    case VFS_ACL_GROUP_OBJ:
        entry.id = attr->gid;
        break;
    case VFS_ACL_USER:
    case VFS_ACL_GROUP:
        entry.id = ace->id;
        break;
    default:
        break;
    }
    return entry;
}

/* How many entries the list has on the wire. */
static uint32_t wire_count(const struct vfs_acl *acl)
{
    return acl->count == MINIMUM_COUNT ? MINIMUM_COUNT + 1 : acl->count;
}

static void put_entries(const struct vfs_acl *acl, const struct vfs_attr *attr, uint32_t kind,
                        struct aclent *to)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < acl->count; i++) {
        to[count] = aclent_of(&acl->entries[i], attr);
        to[count++].type |= kind;
        if (acl->count == MINIMUM_COUNT && acl->entries[i].tag == VFS_ACL_GROUP_OBJ) {
            /* Canonical order, which Solaris' clients want. */
            to[count++] = (struct aclent){.type = (uint32_t)NA_CLASS_OBJ | kind,
                                          .perm = acl->entries[i].perm};
        }
    }
}

int nfsacl_secattr(uint32_t mask, const struct vfs_attr *attr, const struct vfs_acl *access,
                   const struct vfs_acl *initial, struct secattr *to)
{
    if (wire_count(access) > NFS_ACL_MAX_ENTRIES || wire_count(initial) > NFS_ACL_MAX_ENTRIES) {
        return -EOVERFLOW;
    }
    to->mask = mask;
    if ((mask & (NA_ACL | NA_ACLCNT)) != 0) {
        to->aclcnt = wire_count(access);
    }
    if ((mask & NA_ACL) != 0) {
        to->aclent_count = to->aclcnt;
        put_entries(access, attr, 0, to->aclent);
    }
    if ((mask & (NA_DFACL | NA_DFACLCNT)) != 0) {
        to->dfaclcnt = wire_count(initial);
    }
    if ((mask & NA_DFACL) != 0) {
        to->dfaclent_count = to->dfaclcnt;
        put_entries(initial, attr, NA_ACL_DEFAULT, to->dfaclent);
    }
    return 0;
}

/* ---- from the wire ---- */

static int ace_of(const struct aclent *entry, struct vfs_ace *ace)
{
    uint32_t type = entry->type & ~(uint32_t)NA_ACL_DEFAULT;
    uint32_t perm = type == NA_CLASS_OBJ ? entry->perm & PERM_BITS : entry->perm;
    switch (type) {
    case NA_USER_OBJ:
    case NA_USER:
    case NA_GROUP_OBJ:
    case NA_GROUP:
    case NA_CLASS_OBJ:
    case NA_OTHER_OBJ:
        break;
    default:
        return -EINVAL;
    }
    *ace = (struct vfs_ace){.tag = (uint16_t)type, .perm = (uint16_t)perm, .id = entry->id};
    return perm <= PERM_BITS ? 0 : -EINVAL;
}

static struct vfs_ace *find(struct vfs_acl *acl, enum vfs_acl_tag tag)
{
    for (uint32_t i = 0; i < acl->count; i++) {
        if (acl->entries[i].tag == tag) {
            return &acl->entries[i];
        }
    }
    return NULL;
}

/* Rule 1 of the header. */
static void drop_idle_mask(struct vfs_acl *acl)
{
    struct vfs_ace *mask = find(acl, VFS_ACL_MASK);
    const struct vfs_ace *group = find(acl, VFS_ACL_GROUP_OBJ);
    if (acl->count == MINIMUM_COUNT + 1 && mask != NULL && group != NULL &&
        mask->perm == group->perm) {
        *mask = acl->entries[--acl->count];
    }
}

int nfsacl_list(const struct aclent *entries, uint32_t count, uint32_t told, struct vfs_acl *to)
{
    to->count = 0;
    if (told != count) {
        return -EINVAL;
    }
    for (uint32_t i = 0; i < count; i++) {
        int err = ace_of(&entries[i], &to->entries[i]);
        if (err != 0) {
            return err;
        }
    }
    to->count = count;
    drop_idle_mask(to);
    return 0;
}
