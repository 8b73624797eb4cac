/* SPDX-License-Identifier: Apache-2.0 */
#include "client/nfs3.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- status ---- */

static const char *meaning(int status)
{
    switch (status) {
    case NFS3ERR_BADHANDLE:
        return "bad file handle";
    case NFS3ERR_NOT_SYNC:
        return "changed meanwhile";
    case NFS3ERR_BAD_COOKIE:
        return "the directory cookie is not valid any more";
    case NFS3ERR_NOTSUPP:
        return "not supported";
    case NFS3ERR_TOOSMALL:
        return "buffer too small";
    case NFS3ERR_SERVERFAULT:
        return "server fault";
    case NFS3ERR_BADTYPE:
        return "bad type";
    case NFS3ERR_JUKEBOX:
        return "not now";
    case NFS3ERR_NAMETOOLONG:
        return "file name too long";
    case NFS3ERR_NOTEMPTY:
        return "directory not empty";
    case NFS3ERR_DQUOT:
        return "disk quota exceeded";
    case NFS3ERR_STALE:
        return "stale file handle";
    case NFS3ERR_REMOTE:
        return "too many levels of remote in path";
    default:
        return strerror(status); /* the others are the errno values of Linux */
    }
}

const char *client_status_text(int status, char text[CLIENT_TEXT_BYTES_MAX])
{
    if (status > 0) {
        (void)snprintf(text, CLIENT_TEXT_BYTES_MAX, "%s (%s)", nfsstat3_name((enum nfsstat3)status),
                       meaning(status));
    } else if (status == -EXDEV) {
        (void)snprintf(text, CLIENT_TEXT_BYTES_MAX, "a symbolic link leads out of the export");
    } else if (status == -EPROTO || status == -EBADMSG) {
        (void)snprintf(text, CLIENT_TEXT_BYTES_MAX, "what the server sends makes no sense");
    } else {
        (void)snprintf(text, CLIENT_TEXT_BYTES_MAX, "%s", strerror(-status));
    }
    return text;
}

/* Every result of NFSv3 begins with its status (RFC 1813 §3.2). */
static int status_of(const struct client_answer *answer)
{
    struct xdr xdr = xdr_reader(answer->results.data, answer->results.size);
    uint32_t status;
    return xdr_get_u32(&xdr, &status) ? (int)status : -EBADMSG;
}

int client_nfs3(struct client_mount *mount, uint32_t proc, const void *args,
                struct client_answer *answer)
{
    uint32_t pause_ms = CLIENT_JUKEBOX_MS_MIN;

    for (uint32_t count = 1;; count++) {
        int status = client_wait(mount->loop, mount->rpc, proc, args, answer);
        if (answer->fault == CLIENT_FAULT_TRANSPORT) {
            mount->lost = status;
        }
        status = status != 0 ? status : status_of(answer);
        if (status != NFS3ERR_JUKEBOX || (mount->url.soft && count >= CLIENT_JUKEBOX_COUNT_MAX)) {
            return status;
        }
        client_wait_ms(mount->loop, pause_ms);
        pause_ms = pause_ms * 2 > CLIENT_JUKEBOX_MS_MAX ? CLIENT_JUKEBOX_MS_MAX : pause_ms * 2;
    }
}

/* ---- objects ---- */

struct diropargs3 client_dirop(const struct client_fh *dir, struct client_name name)
{
    return (struct diropargs3){client_fh3(dir), {(const uint8_t *)name.bytes, name.size}};
}

void client_node_set_attr(struct client_node *node, const struct post_op_attr *attr)
{
    if (attr->attributes_follow) {
        node->has_attr = true;
        node->attr = attr->attributes;
    }
}

int client_getattr(struct client_mount *mount, struct client_node *node)
{
    struct client_answer answer = {0};
    struct GETATTR3args args = {client_fh3(&node->fh)};

    int status = client_nfs3(mount, NFSPROC3_GETATTR, &args, &answer);
    if (status == 0) {
        node->attr = ((const struct GETATTR3res *)answer.res)->resok.obj_attributes;
        node->has_attr = true;
    }
    client_answer_free(&answer);
    return status;
}

int client_lookup(struct client_mount *mount, const struct client_fh *dir, struct client_name name,
                  struct client_node *node)
{
    struct client_answer answer = {0};
    struct LOOKUP3args args = {client_dirop(dir, name)};

    int status = client_nfs3(mount, NFSPROC3_LOOKUP, &args, &answer);
    if (status == 0) {
        const struct LOOKUP3res *res = answer.res;
        *node = (struct client_node){0};
        client_fh_set(&node->fh, &res->resok.object);
        client_node_set_attr(node, &res->resok.obj_attributes);
    }
    client_answer_free(&answer);
    return status;
}

int client_readlink(struct client_mount *mount, const struct client_fh *fh, char **target)
{
    struct client_answer answer = {0};
    struct READLINK3args args = {client_fh3(fh)};

    *target = NULL;
    int status = client_nfs3(mount, NFSPROC3_READLINK, &args, &answer);
    if (status == 0) {
        struct xdr_bytes data = ((const struct READLINK3res *)answer.res)->resok.data;
        *target = strndup(data.size > 0 ? (const char *)data.data : "", data.size);
        status = *target == NULL ? -ENOMEM : strlen(*target) != data.size ? -EBADMSG : 0;
    }
    if (status != 0) {
        free(*target);
        *target = NULL;
    }
    client_answer_free(&answer);
    return status;
}

/* ---- walking ---- */

struct walk {
    struct client_mount *mount;
    char path[CLIENT_PATH_BYTES_MAX]; /* what is still to be walked */
    struct client_node node;
    uint32_t link_count;
};

static bool same_fh(const struct client_fh *a, const struct client_fh *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Puts the target of a link in front of what is left of the path. */
static int follow(struct walk *walk, const struct client_node *link, const char *rest)
{
    const char *export_path = walk->mount->export_path;
    char path[CLIENT_PATH_BYTES_MAX];
    char *target;

    if (++walk->link_count > CLIENT_SYMLINK_COUNT_MAX) {
        return -ELOOP;
    }
    int status = client_readlink(walk->mount, &link->fh, &target);
    if (status != 0) {
        return status;
    }
    const char *from = target;
    if (target[0] == '/') {
        size_t above = strcmp(export_path, "/") == 0 ? 0 : strlen(export_path);
        if (strncmp(target, export_path, above) != 0 ||
            (target[above] != '/' && target[above] != '\0')) {
            free(target);
            return -EXDEV;
        }
        from = target + above;
        walk->node = (struct client_node){.fh = walk->mount->root};
    }
    int size = snprintf(path, sizeof path, "%s/%s", from, rest);
    free(target);
    if (size < 0 || (size_t)size >= sizeof path) {
        return -ENAMETOOLONG;
    }
    memcpy(walk->path, path, (size_t)size + 1);
    return 0;
}

/* One component: the first of the path. */
static int step(struct walk *walk, bool follow_last)
{
    const char *name = walk->path + strspn(walk->path, "/");
    uint32_t size = (uint32_t)strcspn(name, "/");
    const char *rest = name + size + strspn(name + size, "/");
    struct client_node next;

    bool up = size == 2 && memcmp(name, "..", 2) == 0;
    if ((size == 1 && name[0] == '.') || (up && same_fh(&walk->node.fh, &walk->mount->root))) {
        memmove(walk->path, rest, strlen(rest) + 1);
        return 0;
    }
    int status =
        client_lookup(walk->mount, &walk->node.fh, (struct client_name){name, size}, &next);
    if (status == 0 && !next.has_attr) {
        status = client_getattr(walk->mount, &next);
    }
    if (status != 0) {
        return status;
    }
    if (next.attr.type == NF3LNK && (rest[0] != '\0' || name[size] == '/' || follow_last)) {
        return follow(walk, &next, rest);
    }
    walk->node = next;
    memmove(walk->path, rest, strlen(rest) + 1);
    return 0;
}

int client_walk(struct client_mount *mount, const char *path, bool follow_last,
                struct client_node *node)
{
    struct walk walk = {.mount = mount, .node = {.fh = mount->root}};
    int status = 0;

    if (strlen(path) >= sizeof walk.path) {
        return -ENAMETOOLONG;
    }
    strcpy(walk.path, path);
    while (status == 0 && walk.path[strspn(walk.path, "/")] != '\0') {
        status = step(&walk, follow_last);
    }
    if (status == 0 && !walk.node.has_attr) {
        status = client_getattr(mount, &walk.node);
    }
    *node = walk.node;
    return status;
}

int client_walk_parent(struct client_mount *mount, const char *path, struct client_node *dir,
                       struct client_name *last)
{
    char above[CLIENT_PATH_BYTES_MAX];
    size_t end = strlen(path);

    while (end > 0 && path[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') {
        start--;
    }
    if (start == end) {
        return -EINVAL;
    }
    if (start >= sizeof above) {
        return -ENAMETOOLONG;
    }
    memcpy(above, path, start);
    above[start] = '\0';
    *last = (struct client_name){path + start, (uint32_t)(end - start)};
    return client_walk(mount, above, true, dir);
}
