/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access control lists of POSIX 1003.1e, draft 17, as Linux' file systems have them: what
 * system.posix_acl_access and system.posix_acl_default say (linux/posix_acl_xattr.h; words of the
 * value are little-endian, whatever the machine).
 *
 * The kernel judges: what a list must have, who may set it (the owner, or whoever may act as one),
 * and what a list of three entries means (a mode, and no list). It sets the mode with the access
 * list, and takes setgid away where chmod(2) would.
 *
 * Durability: no record of the intent log holds a list, so on an export with a log the object is
 * synced by itself before the record of its new mode is written, as without one.
 */
#include "vfs/internal.h"

#include <endian.h>
#include <errno.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#define ACCESS_NAME "system.posix_acl_access"
#define DEFAULT_NAME "system.posix_acl_default"

/* A list as the value of an extended attribute; size 0: there is none. */
struct acl_value {
    size_t size_bytes;
    struct {
        struct posix_acl_xattr_header head;
        struct posix_acl_xattr_entry entries[VFS_ACL_ENTRY_COUNT_MAX];
    } xattr;
};

#define HEAD_BYTES sizeof(struct posix_acl_xattr_header)
#define ENTRY_BYTES sizeof(struct posix_acl_xattr_entry)

/* What the attributes of an object are read and set by. */
struct acl_place {
    int fd;        /* -1: by */
    char path[32]; /* the name of a descriptor, for what is not opened because that would act */
};

static int place_of(struct vfs_object *object, enum vfs_type type, struct acl_place *place)
{
    int fd;
    bool opens = type == VFS_REG || type == VFS_DIR;
    int err = object_fd(object, opens ? OBJECT_READ : OBJECT_PATH, &fd);
    if (err != 0) {
        return err;
    }
    place->fd = opens ? fd : -1;
    snprintf(place->path, sizeof place->path, "/proc/self/fd/%d", fd);
    return 0;
}

static int get_value(const struct acl_place *place, const char *name, struct acl_value *value)
{
    size_t room = sizeof value->xattr;
    ssize_t got = place->fd >= 0 ? fgetxattr(place->fd, name, &value->xattr, room)
                                 : getxattr(place->path, name, &value->xattr, room);
    if (got < 0) {
        value->size_bytes = 0;
        return errno == ENODATA ? 0 : errno == ERANGE ? -EOVERFLOW : -errno;
    }
    value->size_bytes = (size_t)got;
    return 0;
}

static int set_value(const struct acl_place *place, const char *name,
                     const struct acl_value *value)
{
    int done;
    if (value->size_bytes > 0) {
        done = place->fd >= 0 ? fsetxattr(place->fd, name, &value->xattr, value->size_bytes, 0)
                              : setxattr(place->path, name, &value->xattr, value->size_bytes, 0);
    } else {
        done = place->fd >= 0 ? fremovexattr(place->fd, name) : removexattr(place->path, name);
    }
    return done == 0 || (value->size_bytes == 0 && errno == ENODATA) ? 0 : -errno;
}

static int list_of(const struct acl_value *value, struct vfs_acl *acl)
{
    size_t bytes = value->size_bytes;
    acl->count = 0;
    if (bytes == 0) {
        return 0;
    }
    if (bytes < HEAD_BYTES || (bytes - HEAD_BYTES) % ENTRY_BYTES != 0 ||
        le32toh(value->xattr.head.a_version) != POSIX_ACL_XATTR_VERSION) {
        return -EIO;
    }
    acl->count = (uint32_t)((bytes - HEAD_BYTES) / ENTRY_BYTES);
    for (uint32_t i = 0; i < acl->count; i++) {
        const struct posix_acl_xattr_entry *entry = &value->xattr.entries[i];
        acl->entries[i] = (struct vfs_ace){.tag = le16toh(entry->e_tag),
                                           .perm = le16toh(entry->e_perm),
                                           .id = le32toh(entry->e_id)};
    }
    return 0;
}

static bool has_id(const struct vfs_ace *ace)
{
    return ace->tag == VFS_ACL_USER || ace->tag == VFS_ACL_GROUP;
}

static void value_of(const struct vfs_acl *acl, struct acl_value *value)
{
    value->size_bytes = 0;
    if (acl->count == 0) {
        return;
    }
    value->size_bytes = HEAD_BYTES + acl->count * ENTRY_BYTES;
    value->xattr.head.a_version = htole32(POSIX_ACL_XATTR_VERSION);
    for (uint32_t i = 0; i < acl->count; i++) {
        const struct vfs_ace *ace = &acl->entries[i];
        uint32_t id = has_id(ace) ? ace->id : (uint32_t)ACL_UNDEFINED_ID;
        value->xattr.entries[i] = (struct posix_acl_xattr_entry){
            .e_tag = htole16(ace->tag), .e_perm = htole16(ace->perm), .e_id = htole32(id)};
    }
}

/* The list that says no more than a mode. */
static void list_of_mode(uint32_t mode, struct vfs_acl *acl)
{
    static const uint16_t tags[] = {VFS_ACL_USER_OBJ, VFS_ACL_GROUP_OBJ, VFS_ACL_OTHER};
    acl->count = COUNT_OF(tags);
    for (uint32_t i = 0; i < acl->count; i++) {
        acl->entries[i] =
            (struct vfs_ace){.tag = tags[i], .perm = (uint16_t)(mode >> (6 - 3 * i) & 7)};
    }
}

static int get_list(const struct acl_place *place, const char *name, struct vfs_acl *acl)
{
    struct acl_value value;
    int err = get_value(place, name, &value);
    return err == 0 ? list_of(&value, acl) : err;
}

/* The attributes once more, after the lists: the mode of a file without a list is as new as its
 * having none, and the lsn that is noted covers both. */
int vfs_getacl(struct vfs_call *call, struct vfs_node *node, struct vfs_acl *access,
               struct vfs_acl *initial)
{
    struct acl_place place;
    int err = attr_of_node(call, node);
    if (err == 0 && !call->options->acl) {
        err = -EOPNOTSUPP;
    }
    if (err != 0) {
        return err;
    }
    enum vfs_type type = node->attr.type;
    access->count = 0;
    initial->count = 0;
    if (type != VFS_LNK) {
        err = place_of(node->object, type, &place);
        if (err == 0) {
            err = get_list(&place, ACCESS_NAME, access);
        }
        if (err == 0 && type == VFS_DIR) {
            err = get_list(&place, DEFAULT_NAME, initial);
        }
        if (err == 0) {
            err = attr_fresh(call, node->object, &node->attr);
            attr_note_lsn(call, node->object);
        }
    }
    if (err == 0 && access->count == 0) {
        list_of_mode(node->attr.mode, access);
    }
    return err;
}

/* ---- setting ---- */

static int ace_order(const void *a, const void *b)
{
    const struct vfs_ace *x = a, *y = b;
    if (x->tag != y->tag) {
        return x->tag < y->tag ? -1 : 1;
    }
    return has_id(x) && x->id != y->id ? (x->id < y->id ? -1 : 1) : 0;
}

/* The kernel wants them in the order of their tags. */
static int value_in_order(const struct vfs_acl *acl, struct acl_value *value)
{
    struct vfs_acl ordered = {.count = acl->count};
    if (acl->count > VFS_ACL_ENTRY_COUNT_MAX) {
        return -EINVAL;
    }
    memcpy(ordered.entries, acl->entries, acl->count * sizeof acl->entries[0]);
    qsort(ordered.entries, ordered.count, sizeof ordered.entries[0], ace_order);
    value_of(&ordered, value);
    return 0;
}

/* The default list first: setting the access list is what else can fail, and then it can be put
 * back without a trace but the ctime. */
static int apply(const struct acl_place *place, const struct acl_value *access,
                 const struct acl_value *initial)
{
    struct acl_value before = {0};
    int err = 0;
    if (initial != NULL && access != NULL) {
        err = get_value(place, DEFAULT_NAME, &before);
    }
    if (err == 0 && initial != NULL) {
        err = set_value(place, DEFAULT_NAME, initial);
    }
    if (err != 0 || access == NULL) {
        return err;
    }
    err = set_value(place, ACCESS_NAME, access);
    if (err != 0 && initial != NULL) {
        int error = set_value(place, DEFAULT_NAME, &before);
        (void)error; /* the file system took it once */
    }
    return err;
}

static int set_lists(struct vfs_call *call, struct vfs_node *node, const struct acl_value *access,
                     const struct acl_value *initial)
{
    struct change change;
    struct acl_place place;
    int err = place_of(node->object, node->attr.type, &place);
    if (err == 0) {
        err = change_begin(&change, call, &node, 1, JOURNAL_OP_SETATTR);
    }
    if (err != 0) {
        return err;
    }
    err = apply(&place, access, initial);
    if (err == 0) {
        change.has_state[0] = true;
        change.sync_nodes = change.logged;
    }
    return change_end(&change, err, JOURNAL_FSYNC);
}

int vfs_setacl(struct vfs_call *call, struct vfs_node *node, const struct vfs_acl *access,
               const struct vfs_acl *initial)
{
    struct acl_value access_value, initial_value;
    if (!call->options->acl) {
        return -EOPNOTSUPP;
    }
    if (!call->options->rw) {
        return -EROFS;
    }
    int err = attr_of_node(call, node);
    if (err == 0 && node->attr.type == VFS_LNK) {
        err = -EOPNOTSUPP;
    }
    if (err == 0 && initial != NULL && node->attr.type != VFS_DIR) {
        /* setfacl(1) says the same. Without entries it asks for what is. */
        err = initial->count > 0 ? -EACCES : 0;
        initial = NULL;
    }
    if (err == 0 && access != NULL) {
        err = value_in_order(access, &access_value);
    }
    if (err == 0 && initial != NULL) {
        err = value_in_order(initial, &initial_value);
    }
    if (err != 0 || (access == NULL && initial == NULL)) {
        return err;
    }
    return set_lists(call, node, access != NULL ? &access_value : NULL,
                     initial != NULL ? &initial_value : NULL);
}
