/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may: the rules of a place applied to a client, at every call; and the way in, MNT.
 *
 * A thread remembers its last answers, since most calls come from a few clients. An answer is good
 * for one generation of exports. It is a copy, so that nothing refers to a set that has gone.
 */
#include "vfs/export_set.h"

#include "vfs/ask.h"
#include "vfs/export_internal.h"
#include "vfs/internal.h"
#include "vfs/mounts.h"
#include "vfs/outside.h"

#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PEER_BYTES_MAX sizeof(struct sockaddr_in6)
#define ANSWER_COUNT 8U
#define NAMES_GOOD_S 30 /* an answer that depends on names */

struct answer {
    uint64_t serial;     /* of the vfs; 0: none */
    uint64_t generation; /* of its exports */
    const struct vfs_export *export;
    size_t peer_bytes;
    uint8_t peer[PEER_BYTES_MAX];
    int64_t until_s; /* INT64_MAX: as long as the generation */
    int err;
    struct export_options options;
};

static int64_t clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec;
}

/* ---- names ---- */

/* What a client is called: asked for when a rule needs it, and given back with names_end. */
struct names {
    struct vfs *vfs;
    const struct export_set *set;
    const struct sockaddr *peer;
    bool may_wait;
    bool asked;
    int err;
    struct ask_entry *entry;
    const struct export_peer *found;
};

static const struct export_peer *names_of(struct names *names)
{
    uint8_t key[ASK_KEY_BYTES];
    const void *found = NULL;
    if (!names->asked) {
        names->asked = true;
        names->err = export_address(names->peer, key)
                         ? ask_get(names->vfs->peers, key, names->may_wait, &names->entry, &found)
                         : -ENOENT;
        names->found = found;
        if (names->found != NULL && names->found->table != names->set->table) {
            names->found = NULL; /* of a table that is just coming, or going */
            names->err = -EAGAIN;
        }
    }
    return names->found;
}

static void names_end(struct names *names)
{
    ask_put(names->vfs->peers, names->entry);
}

/* The owner of the threads that ask: which table the names are for. */
struct peers {
    pthread_mutex_t lock;
    struct export_table *table; /* a reference */
};

static void *find_peer(void *arg, const uint8_t key[ASK_KEY_BYTES])
{
    struct peers *peers = arg;
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    bool ipv4 = export_is_ipv4(key, 128);
    memcpy(&in.sin_addr, key + 12, 4);
    memcpy(&in6.sin6_addr, key, 16);
    pthread_mutex_lock(&peers->lock);
    struct export_table *table = export_table_get(peers->table);
    pthread_mutex_unlock(&peers->lock);
    void *found = export_peer_find(table, ipv4 ? (struct sockaddr *)(void *)&in
                                               : (struct sockaddr *)(void *)&in6);
    export_table_free(table);
    return found;
}

static void forget_peer(void *answer)
{
    export_peer_free(answer);
}

static void release_peers(void *arg)
{
    struct peers *peers = arg;
    export_table_free(peers->table);
    pthread_mutex_destroy(&peers->lock);
    free(peers);
}

int admit_open(struct vfs *vfs)
{
    struct peers *peers = calloc(1, sizeof *peers);
    if (peers == NULL) {
        return -ENOMEM;
    }
    pthread_mutex_init(&peers->lock, NULL);
    const struct ask_options options = {
        .find = find_peer, .forget = forget_peer, .release = release_peers, .arg = peers};
    vfs->peers = ask_open(&options);
    if (vfs->peers == NULL) {
        release_peers(peers);
        return -ENOMEM;
    }
    vfs->peers_table = peers;
    return 0;
}

void admit_use_table(struct vfs *vfs, struct export_table *table)
{
    struct peers *peers = vfs->peers_table;
    pthread_mutex_lock(&peers->lock);
    struct export_table *old = peers->table;
    peers->table = export_table_get(table);
    pthread_mutex_unlock(&peers->lock);
    export_table_free(old);
    ask_start_again(vfs->peers);
}

/* ---- rules ---- */

static const struct export_client *match(const struct export_entry *entry, struct names *names,
                                         int *err)
{
    bool needs_names = false;
    const struct export_client *client =
        export_entry_match_client(entry, names->peer, NULL, &needs_names);
    if (!needs_names) {
        return client;
    }
    const struct export_peer *found = names_of(names);
    if (found == NULL && names->err == -EAGAIN) {
        *err = -EAGAIN;
        return NULL;
    }
    return found == NULL ? client : export_entry_match_client(entry, names->peer, found, NULL);
}

/* The client specification of a place that decides for this peer; *err says why there is none. */
static const struct export_client *judge(const struct export_set *set,
                                         const struct export_place *place, struct names *names,
                                         int *err)
{
    *err = -EACCES;
    for (uint32_t i = 0; i < place->rule_count; i++) {
        const struct export_rule *rule = &place->rules[i];
        const struct export_client *client = match(rule->entry, names, err);
        if (client == NULL && *err == -EAGAIN) {
            return NULL;
        }
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
    struct names names = {.vfs = vfs, .set = set, .peer = peer, .may_wait = true};
    const struct export_place *place = export_set_place_of(set, export);
    if (place == NULL) {
        /* The same may have been opened anew: then a client that asks again finds it. */
        struct vfs_export *other = export_set_of_id(vfs, export->id);
        answer->err = other != NULL ? -EAGAIN : -ESTALE;
        volume_put(other);
    } else {
        const struct export_client *client = judge(set, place, &names, &answer->err);
        answer->err = answer->err == -ENOMEDIUM ? -EACCES : answer->err;
        if (client != NULL) {
            answer->options = client->options;
            answer->options.mountpoint = NULL; /* the table's, */
            answer->options.journal = NULL;    /* the same */
        }
    }
    answer->until_s = names.asked ? clock_s() + NAMES_GOOD_S : INT64_MAX;
    names_end(&names);
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
            memcmp(answer->peer, peer, bytes) == 0 &&
            (answer->until_s == INT64_MAX || clock_s() < answer->until_s)) {
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
    if (answer->err == -EAGAIN && generation != atomic_load(&vfs->generation)) {
        judge_anew(vfs, export, peer, answer); /* exports changed meanwhile */
    }
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
    call->export_id = export->id;
    return cred_squash(call);
}

static bool is_named(const struct export_set *set, struct names *names)
{
    bool needs_names = false;
    return export_table_names(set->table, names->peer, NULL, &needs_names) ||
           (needs_names && names_of(names) != NULL &&
            export_table_names(set->table, names->peer, names->found, NULL));
}

bool vfs_names_host(struct vfs *vfs, const struct sockaddr *peer)
{
    struct export_set *set = export_set_get(vfs);
    struct names names = {.vfs = vfs, .set = set, .peer = peer};
    bool named = is_named(set, &names);
    names_end(&names);
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
        struct names names = {
            .vfs = call->vfs, .set = set, .peer = call->peer, .may_wait = true};
        const struct export_place *place = &set->places[crossing->place];
        const struct export_client *client = judge(set, place, &names, &err);
        names_end(&names);
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
    for (const char *at = strstr(text, "/" HIDDEN_NAME); at != NULL;
         at = strstr(at + 1, "/" HIDDEN_NAME)) {
        if (at[sizeof HIDDEN_NAME] == 0 || at[sizeof HIDDEN_NAME] == '/') {
            return -ENOENT;
        }
    }
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
                                             struct names *names, int *err)
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
        if (judge(set, &set->places[i], names, &refusal) != NULL) {
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
    struct outside_look look;
    int err = outside_look(path, &look);
    return err != 0 ? err : look.mount_id == export->origin_id ? 0 : -EACCES;
}

/* A directory below the export's root, as root: MNT is answered before users are known. */
int admit_walk(struct vfs_export *export, const char *path, struct vfs_object **object)
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
    if (err == 0 && export->ways != NULL) {
        err = ways_descend(export, rest);
    }
    return err == 0 ? object_obtain(export, &handle, object) : err;
}

/* Whether the path of a place leads to what is open. */
static int check_place(const struct export_place *place)
{
    struct outside_look look;
    if (place->export != NULL) {
        return volume_is_at(place->export, place->path) ? 0 : -EBUSY;
    }
    bool is_there = outside_look(place->path, &look) == 0 && look.is_directory;
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
    struct names names = {.vfs = vfs, .set = set, .peer = peer, .may_wait = true};
    const struct export_place *place = find_place(set, path, &names, &err);
    names_end(&names);
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
    struct names names = {.vfs = vfs, .set = set, .peer = peer, .may_wait = true};
    (void)find_place(set, path, &names, &err);
    if (err != 0 && err != -EAGAIN && (err == -ENOMEDIUM || is_named(set, &names))) {
        err = 0; /* a symbolic link may lead into an export of this client */
    }
    names_end(&names);
    export_set_put(set);
    return err;
}

int admit_path(struct vfs *vfs, struct vfs_bytes path, const struct sockaddr *peer,
               char real[PATH_MAX], int *missing, struct vfs_export **export)
{
    struct outside_look look;
    char text[PATH_MAX];
    int err = path_copy(path, text);
    if (err == 0) {
        err = choose_by_name(vfs, text, peer);
    }
    if (err != 0) {
        return err;
    }
    cred_take_root();
    *missing = outside_look(text, &look);
    strcpy(real, *missing == 0 ? look.real : text);
    err = choose(vfs, real, peer, export);
    if (err == -EBUSY || (err == -ENOMEDIUM && mounts_changed(vfs->mounts_fd))) {
        vfs_refresh(vfs);
        err = choose(vfs, real, peer, export);
    }
    return err == -EBUSY ? -ENOENT : err == -ENOMEDIUM ? -EACCES : err;
}

int vfs_root(struct vfs_call *call, struct vfs_bytes path, struct vfs_node *node)
{
    struct vfs_export *export = NULL;
    char real[PATH_MAX];
    int missing = 0;
    int err = admit_path(call->vfs, path, call->peer, real, &missing, &export);
    if (err == 0) {
        err = admit(call, export);
    }
    if (err == 0) {
        err = missing == 0 ? admit_walk(export, real, &node->object) : missing;
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
