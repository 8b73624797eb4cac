/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may: the rules of a place applied to a client, at every call; and the way in, MNT.
 *
 * A thread remembers its last answers, since most calls come from a few clients. An answer is good
 * for one generation of exports. It is a copy, so that nothing refers to a set that has gone.
 */
#include "vfs/export_set.h"

#include "vfs/internal.h"
#include "vfs/mounts.h"

#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PEER_BYTES_MAX sizeof(struct sockaddr_in6)
#define ANSWER_COUNT 8U

struct answer {
    uint64_t serial;     /* of the vfs; 0: none */
    uint64_t generation; /* of its exports */
    const struct vfs_export *export;
    size_t peer_bytes;
    uint8_t peer[PEER_BYTES_MAX];
    int err;
    struct export_options options;
};

/* ---- rules ---- */

/* The client specification of a place that decides for this peer; *err says why there is none. */
static const struct export_client *judge(const struct export_set *set,
                                         const struct export_place *place,
                                         const struct sockaddr *peer, int *err)
{
    *err = -EACCES;
    for (uint32_t i = 0; i < place->rule_count; i++) {
        const struct export_rule *rule = &place->rules[i];
        const struct export_client *client = export_entry_match_client(rule->entry, peer);
        if (client != NULL && rule->needs_crossmnt && !client->options.crossmnt) {
            client = NULL;
        }
        if (client != NULL && set->is_suspended[client->number]) {
            *err = -ENOMEDIUM; /* exports(5), mountpoint: nothing is mounted */
            return NULL;
        }
        if (client != NULL) {
            *err = 0;
            return client;
        }
    }
    return NULL;
}

static size_t peer_size(const struct sockaddr *peer)
{
    return peer->sa_family == AF_INET    ? sizeof(struct sockaddr_in)
           : peer->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                         : 0;
}

static void judge_anew(struct vfs *vfs, const struct vfs_export *export,
                       const struct sockaddr *peer, struct answer *answer)
{
    struct export_set *set = export_set_get(vfs);
    const struct export_place *place = export_set_place_of(set, export);
    if (place == NULL) {
        /* The same may have been opened anew: then a client that asks again finds it. */
        struct vfs_export *other = export_set_of_id(vfs, export->id);
        answer->err = other != NULL ? -EAGAIN : -ESTALE;
        volume_put(other);
    } else {
        const struct export_client *client = judge(set, place, peer, &answer->err);
        answer->err = answer->err == -ENOMEDIUM ? -EACCES : answer->err;
        if (client != NULL) {
            answer->options = client->options;
            answer->options.mountpoint = NULL; /* the table's */
        }
    }
    export_set_put(set);
}

static const struct answer *answer_for(struct vfs *vfs, const struct vfs_export *export,
                                       const struct sockaddr *peer)
{
    static _Thread_local struct answer answers[ANSWER_COUNT];
    static _Thread_local unsigned next;
    uint64_t generation = atomic_load_explicit(&vfs->generation, memory_order_acquire);
    size_t bytes = peer_size(peer);
    for (unsigned i = 0; i < ANSWER_COUNT; i++) {
        struct answer *answer = &answers[(next + ANSWER_COUNT - i) % ANSWER_COUNT];
        if (answer->export == export && answer->serial == vfs->serial &&
            answer->generation == generation && answer->peer_bytes == bytes && bytes > 0 &&
            memcmp(answer->peer, peer, bytes) == 0) {
            return answer;
        }
    }
    next = (next + 1) % ANSWER_COUNT;
    struct answer *answer = &answers[next];
    *answer = (struct answer){.serial = vfs->serial,
                              .generation = generation,
                              .export = export,
                              .peer_bytes = bytes};
    memcpy(answer->peer, peer, bytes);
    judge_anew(vfs, export, peer, answer);
    if (answer->err == -EAGAIN) {
        answer->serial = 0;
    }
    return answer;
}

static bool port_is_secure(const struct sockaddr *peer)
{
    in_port_t port = 0;
    if (peer->sa_family == AF_INET) {
        port = ((const struct sockaddr_in *)(const void *)peer)->sin_port;
    } else if (peer->sa_family == AF_INET6) {
        port = ((const struct sockaddr_in6 *)(const void *)peer)->sin6_port;
    }
    return ntohs(port) < IPPORT_RESERVED;
}

int admit(struct vfs_call *call, struct vfs_export *export)
{
    const struct answer *answer = answer_for(call->vfs, export, call->peer);
    if (answer->err != 0) {
        return answer->err;
    }
    if (answer->options.secure && !port_is_secure(call->peer)) {
        return -EPERM;
    }
    call->options = &answer->options;
    cred_squash(call);
    return 0;
}

bool vfs_names_host(struct vfs *vfs, const struct sockaddr *peer)
{
    struct export_set *set = export_set_get(vfs);
    bool named = export_table_names(set->table, peer);
    export_set_put(set);
    return named;
}

/* ---- crossings ---- */

static const struct export_crossing *crossing_at(const struct export_place *place,
                                                  const uint8_t *handle, uint32_t handle_size)
{
    for (uint32_t i = 0; place != NULL && i < place->crossing_count; i++) {
        const struct vfs_handle *covered = &place->crossings[i].covered;
        if (covered->size == handle_size && memcmp(covered->bytes, handle, handle_size) == 0) {
            return &place->crossings[i];
        }
    }
    return NULL;
}

/* Where a crossing leads this caller, with a reference, or NULL. */
static struct vfs_export *cross(struct vfs_call *call, const struct vfs_export *export,
                                const uint8_t *handle, uint32_t handle_size)
{
    struct vfs_export *lower = NULL;
    int err;
    struct export_set *set = export_set_get(call->vfs);
    const struct export_crossing *crossing =
        crossing_at(export_set_place_of(set, export), handle, handle_size);
    if (crossing != NULL) {
        const struct export_place *place = &set->places[crossing->place];
        const struct export_client *client = judge(set, place, call->peer, &err);
        if (client != NULL && (call->options->crossmnt || client->options.nohide)) {
            lower = volume_get(place->export);
        }
    }
    export_set_put(set);
    return lower;
}

int admit_cross(struct vfs_call *call, struct vfs_node *node)
{
    struct vfs_object *object = NULL;
    struct vfs_export *lower =
        cross(call, node->export, node->object->handle, node->object->handle_size);
    if (lower == NULL) {
        return 0;
    }
    int err = object_obtain(lower, &lower->root, &object);
    if (err == 0) {
        object_put(node->object);
        node->object = object;
        node->export = lower; /* the object holds on to it */
        node->has_attr = false;
        err = admit(call, lower);
    }
    volume_put(lower);
    return err;
}

bool admit_crosses(struct vfs_call *call, struct vfs_export *export,
                   const struct vfs_handle *handle)
{
    struct vfs_export *lower = cross(call, export, handle->bytes, handle->size);
    volume_put(lower);
    return lower != NULL;
}

/* ---- MNT ---- */

/* A path without what does not matter in it. */
static int path_copy(struct vfs_bytes path, char text[PATH_MAX])
{
    if (path.size == 0 || path.data[0] != '/' || memchr(path.data, 0, path.size) != NULL) {
        return -EACCES;
    }
    if (path.size >= PATH_MAX) {
        return -ENAMETOOLONG;
    }
    memcpy(text, path.data, path.size);
    text[path.size] = 0;
    export_path_tidy(text);
    return 0;
}

/* How many bytes of path name the place: it or a directory above; 0: another. */
static size_t covers(const char *place, const char *path)
{
    size_t bytes = strcmp(place, "/") == 0 ? 0 : strlen(place);
    bool does = strncmp(place, path, bytes) == 0 && (path[bytes] == '/' || path[bytes] == '\0');
    return does ? (bytes > 0 ? bytes : 1) : 0;
}

/* The place with the longest path at or above this one whose rules name the client. *err: -ENOENT,
 * no export at all; -EACCES, none for this client. */
static const struct export_place *find_place(const struct export_set *set, const char *path,
                                              const struct sockaddr *peer, int *err)
{
    const struct export_place *best = NULL;
    size_t best_bytes = 0;
    *err = -ENOENT;
    for (uint32_t i = 0; i < set->place_count; i++) {
        size_t bytes = covers(set->places[i].path, path);
        int refusal = 0;
        if (bytes <= best_bytes) {
            continue;
        }
        if (judge(set, &set->places[i], peer, &refusal) != NULL) {
            best = &set->places[i];
            best_bytes = bytes;
        } else {
            *err = *err == -EAGAIN || *err == -ENOMEDIUM ? *err : refusal;
        }
    }
    *err = best != NULL ? 0 : *err;
    return best;
}

/* Whether the path leads to something on the export's mount: nothing is mounted in between. */
static int check_uncovered(const struct vfs_export *export, const char *path)
{
    struct statx there;
    if (statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, STATX_MNT_ID, &there) != 0) {
        return -errno;
    }
    return there.stx_mnt_id == export->origin_id ? 0 : -EACCES;
}

/* A directory below the export's root, as root: MNT is answered before users are known. */
static int walk(struct vfs_export *export, const char *path, struct vfs_object **object)
{
    struct vfs_handle handle;
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };
    const char *rest = path + covers(export->path, path);
    rest += strspn(rest, "/");
    if (rest[0] == '\0') {
        return object_obtain(export, &export->root, object);
    }
    int err = check_uncovered(export, path);
    if (err != 0) {
        return err;
    }
    int fd = (int)syscall(SYS_openat2, export->tree_fd, rest, &how, sizeof how);
    if (fd < 0) {
        return errno == EXDEV ? -EACCES : errno == ELOOP ? -ENOTDIR : -errno;
    }
    err = handle_of(export, fd, "", AT_EMPTY_PATH, &handle);
    close(fd);
    return err == 0 ? object_obtain(export, &handle, object) : err;
}

/* Whether the path of a place leads to what is open. */
static int check_place(const struct export_place *place)
{
    struct stat st;
    if (place->export != NULL) {
        return volume_is_at(place->export, place->path) ? 0 : -EBUSY;
    }
    bool is_there = stat(place->path, &st) == 0 && S_ISDIR(st.st_mode);
    return is_there && !place->is_unusable ? -EBUSY : -ENOENT;
}

/* The export for a path that has no symbolic link in it, with a reference. -EBUSY, -ENOMEDIUM: the
 * exports should be looked at anew, since the path does not lead where it led, or something may be
 * mounted by now. */
static int choose(struct vfs *vfs, const char *path, const struct sockaddr *peer,
                  struct vfs_export **export)
{
    int err;
    struct export_set *set = export_set_get(vfs);
    const struct export_place *place = find_place(set, path, peer, &err);
    if (err == 0) {
        err = check_place(place);
    }
    if (err == 0) {
        *export = volume_get(place->export);
    }
    export_set_put(set);
    return err;
}

/* What the path says before anybody looks at the disk. */
static int choose_by_name(struct vfs *vfs, const char *path, const struct sockaddr *peer)
{
    int err;
    struct export_set *set = export_set_get(vfs);
    (void)find_place(set, path, peer, &err);
    if (err != 0 && err != -EAGAIN &&
        (err == -ENOMEDIUM || export_table_names(set->table, peer))) {
        err = 0; /* a symbolic link may lead into an export of this client */
    }
    export_set_put(set);
    return err;
}

int vfs_root(struct vfs_call *call, struct vfs_bytes path, struct vfs_node *node)
{
    struct vfs *vfs = call->vfs;
    struct vfs_export *export = NULL;
    char text[PATH_MAX];
    char real[PATH_MAX];
    int err = path_copy(path, text);
    if (err == 0) {
        err = choose_by_name(vfs, text, call->peer);
    }
    if (err != 0) {
        return err;
    }
    cred_take_root();
    bool exists = realpath(text, real) != NULL;
    int missing = exists ? 0 : -errno;
    err = choose(vfs, exists ? real : text, call->peer, &export);
    if (err == -EBUSY || (err == -ENOMEDIUM && mounts_changed(vfs->mounts_fd))) {
        vfs_refresh(vfs);
        err = choose(vfs, exists ? real : text, call->peer, &export);
    }
    if (err != 0) {
        return err == -EBUSY ? -ENOENT : err == -ENOMEDIUM ? -EACCES : err;
    }
    err = admit(call, export);
    if (err == 0) {
        err = exists ? walk(export, real, &node->object) : missing;
    }
    if (err == 0) {
        node->export = node->object->export;
        err = attr_of_node(call, node);
    } else {
        node->object = NULL;
    }
    volume_put(export);
    return err;
}
