/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MOUNT, RFC 1094 §A.5 and RFC 1813 appendix I (§5.2): one table per version at the end.
 *
 * 1. MNT gives out a handle and no rights: every NFS call is checked again (vfs/node.h, rule 3).
 * 2. A client is known by the address that it calls from, never by the name it gives itself.
 * 3. Lists are bounded by LIST_BYTES_MAX; what does not fit is left out.
 */
#include "server/mount.h"

#include "server/call.h"
#include "server/status.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#define LIST_BYTES_MAX (60U * 1024) /* fits a datagram */
#define GROUPS_BYTES_MAX (32U * 1024)
#define PATHCONF_PATH_MAX 1024 /* of a path in a MOUNT or NFSv2 call, RFC 1094 §2.3.6 */
#define PC_ERROR 1             /* Sun's <sys/pathconf.h>, in pc_mask: nothing else is valid */

struct mount_entry {
    char client[INET6_ADDRSTRLEN];
    uint32_t path_bytes;
    uint8_t path[];
};

static struct xdr_bytes text_bytes(const char *text)
{
    return (struct xdr_bytes){.data = (const uint8_t *)text, .size = (uint32_t)strlen(text)};
}

static void client_text(const struct rpc_peer *peer, char text[INET6_ADDRSTRLEN])
{
    const void *address = peer->address.sa.sa_family == AF_INET6
                              ? (const void *)&peer->address.in6.sin6_addr
                              : (const void *)&peer->address.in.sin_addr;
    text[0] = '\0';
    (void)inet_ntop(peer->address.sa.sa_family, address, text, INET6_ADDRSTRLEN);
}

/* ---- the list of mounts; path NULL means every path of the client ---- */

static void list_remove(struct mount_service *service, const char *client,
                        const struct xdr_bytes *path)
{
    uint32_t kept = 0;

    pthread_mutex_lock(&service->lock);
    for (uint32_t i = 0; i < service->entry_count; i++) {
        struct mount_entry *entry = service->entries[i];
        bool same_path = path == NULL || (path->size == entry->path_bytes &&
                                          memcmp(path->data, entry->path, path->size) == 0);
        if (same_path && strcmp(client, entry->client) == 0) {
            free(entry);
        } else {
            service->entries[kept++] = entry;
        }
    }
    service->entry_count = kept;
    pthread_mutex_unlock(&service->lock);
}

static void list_add(struct mount_service *service, const char *client, struct xdr_bytes path)
{
    struct mount_entry *entry = calloc(1, sizeof *entry + path.size);

    list_remove(service, client, &path);
    if (entry == NULL) {
        return;
    }
    memcpy(entry->client, client, strlen(client) + 1);
    entry->path_bytes = path.size;
    memcpy(entry->path, path.data, path.size);
    pthread_mutex_lock(&service->lock);
    if (service->entry_count == MOUNT_ENTRY_COUNT_MAX) {
        free(service->entries[0]);
        service->entry_count--;
        memmove(&service->entries[0], &service->entries[1],
                service->entry_count * sizeof service->entries[0]);
    }
    service->entries[service->entry_count++] = entry;
    pthread_mutex_unlock(&service->lock);
}

/* ---- procedures ---- */

/* RFC 1094 §A.5.1, RFC 1813 §5.2.0. */
static void mount_null(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    (void)call;
    (void)args;
    (void)res;
}
RPC_THUNK(mount_null, rpc_void, rpc_void)

#define PATH_TEXT_BYTES 257U

/* A path is any bytes; a message is one line. */
static const char *path_text(struct xdr_bytes path, char text[PATH_TEXT_BYTES])
{
    size_t size = path.size < PATH_TEXT_BYTES ? path.size : PATH_TEXT_BYTES - 1;

    for (size_t i = 0; i < size; i++) {
        text[i] = isprint(path.data[i]) ? (char)path.data[i] : '?';
    }
    text[size] = '\0';
    return text;
}

static void log_mnt(const char *client, struct xdr_bytes path, int err)
{
    static struct log_limit limit;
    char text[PATH_TEXT_BYTES];

    if (err == 0) {
        log_info("%s mounts %s", client, path_text(path, text));
    } else {
        log_write_limited(&limit, LOG_NOTICE, "%s may not mount %s: %s", client,
                          path_text(path, text), strerror(-err));
    }
}

/* The handle of a path; who may have it is vfs's to say. */
static int mount_handle(struct rpc_call *call, const struct dirpath *args,
                        struct vfs_handle *handle)
{
    struct mount_service *service = call->service;
    struct vfs_call caller;
    struct vfs_node node = {0};
    char client[INET6_ADDRSTRLEN];

    client_text(call->peer, client);
    call_begin(call, service->vfs, &caller);
    int err = vfs_root(&caller, call_bytes(args->path), &node);
    if (err == 0) {
        vfs_node_handle(&node, handle);
        list_add(service, client, args->path);
    }
    /* MOUNT has no word for "come again": the client asks once more when it hears nothing. */
    call->drop = err == -EAGAIN;
    log_mnt(client, args->path, err);
    call_end(call, &caller, err != 0);
    vfs_put(&node);
    return err;
}

static void log_long_handle(struct xdr_bytes path, uint32_t handle_bytes)
{
    static struct log_limit limit;
    char text[PATH_TEXT_BYTES];

    log_write_limited(&limit, LOG_NOTICE,
                      "%s cannot be mounted by version 2 of NFS: file handles of %u bytes are too "
                      "long for it, %d are possible",
                      path_text(path, text), handle_bytes, FHSIZE);
}

/* RFC 1094 §A.5.2. A handle that is shorter than NFSv2's is padded with zeros. */
static void mount1_mnt(struct rpc_call *call, const struct dirpath *args, struct fhstatus *res)
{
    struct vfs_handle handle = {0};

    res->status = mount1_status(mount_handle(call, args, &handle));
    if (res->status == 0 && handle.size > FHSIZE) {
        res->status = MNT3ERR_IO; /* NFSERR_IO: this file system has no handles so short */
        log_long_handle(args->path, handle.size);
    }
    if (res->status == 0) {
        memcpy(res->directory, handle.bytes, handle.size);
    }
}
RPC_THUNK(mount1_mnt, dirpath, fhstatus)

static void mount1_fail(void *res, int error)
{
    ((struct fhstatus *)res)->status = mount1_status(error);
}

/*
 * RFC 1813 §5.2.1. The flavours are those that NFS calls may use, the better one first: Linux and
 * libnfs take the first they know. AUTH_NONE calls are served as the anonymous user.
 */
static void mount3_mnt(struct rpc_call *call, const struct dirpath *args, struct mountres3 *res)
{
    struct vfs_handle *handle = rpc_call_memory(call, sizeof *handle);
    static const int32_t flavors[] = {1 /* AUTH_SYS */, 0 /* AUTH_NONE, RFC 5531 §8.1 */};

    res->fhs_status = mount3_status(mount_handle(call, args, handle));
    if (res->fhs_status == MNT3_OK) {
        res->mountinfo.fhandle.data = (struct xdr_bytes){handle->bytes, handle->size};
        memcpy(res->mountinfo.auth_flavors, flavors, sizeof flavors);
        res->mountinfo.auth_flavors_count = COUNT_OF(flavors);
    }
}
RPC_THUNK(mount3_mnt, dirpath, mountres3)

static void mount3_fail(void *res, int error)
{
    ((struct mountres3 *)res)->fhs_status = mount3_status(error);
}

/* RFC 1094 §A.5.3, RFC 1813 §5.2.2. The newest first, so that they are shown when not all fit. */
static void mount_dump(struct rpc_call *call, const struct rpc_void *args, struct mountlist *res)
{
    struct mount_service *service = call->service;
    struct xdr list = xdr_writer(rpc_call_memory(call, LIST_BYTES_MAX), LIST_BYTES_MAX - 4);

    (void)args;
    pthread_mutex_lock(&service->lock);
    for (uint32_t i = rpc_call_may_be_forged(call) ? 0 : service->entry_count; i > 0; i--) {
        const struct mount_entry *entry = service->entries[i - 1];
        struct mountbody body = {.ml_hostname = text_bytes(entry->client),
                                 .ml_directory = {entry->path, entry->path_bytes}};
        struct xdr before = list;
        if (!mountbody_list_put(&list, &body)) {
            list = before; /* too long for the protocol, or for this list */
        }
    }
    pthread_mutex_unlock(&service->lock);
    list.end += 4;
    CHECK(xdr_list_end(&list));
    res->list = (struct xdr_bytes){list.start, (uint32_t)xdr_offset(&list)};
}
RPC_THUNK(mount_dump, rpc_void, mountlist)

/* RFC 1094 §A.5.4, RFC 1813 §5.2.3. */
static void mount_umnt(struct rpc_call *call, const struct dirpath *args, struct rpc_void *res)
{
    char client[INET6_ADDRSTRLEN];

    (void)res;
    client_text(call->peer, client);
    list_remove(call->service, client, &args->path);
}
RPC_THUNK(mount_umnt, dirpath, rpc_void)

/* RFC 1094 §A.5.5, RFC 1813 §5.2.4. */
static void mount_umntall(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    char client[INET6_ADDRSTRLEN];

    (void)args;
    (void)res;
    client_text(call->peer, client);
    list_remove(call->service, client, NULL);
}
RPC_THUNK(mount_umntall, rpc_void, rpc_void)

/* The client specifications of one export, as the admin wrote them. */
static struct xdr_bytes export_groups(const struct export_entry *export, struct xdr memory)
{
    struct xdr list = memory;

    list.end -= 4;
    for (uint32_t i = 0; i < export->client_count; i++) {
        const struct export_client *client = &export->clients[i];
        bool everyone = client->text == NULL || client->text[0] == '\0';
        struct groupnode group = {.gr_name = text_bytes(everyone ? "*" : client->text)};
        struct xdr before = list;
        if (!groupnode_list_put(&list, &group)) {
            list = before; /* too long for the protocol, or for this list */
        }
    }
    list.end += 4;
    CHECK(xdr_list_end(&list));
    return (struct xdr_bytes){list.start, (uint32_t)xdr_offset(&list)};
}

/* RFC 1094 §A.5.6, RFC 1813 §5.2.5. */
static void mount_export(struct rpc_call *call, const struct rpc_void *args, struct exports *res)
{
    const struct mount_service *service = call->service;
    struct export_table *table = vfs_table_get(service->vfs);
    struct xdr list = xdr_writer(rpc_call_memory(call, LIST_BYTES_MAX), LIST_BYTES_MAX - 4);
    struct xdr groups = xdr_writer(rpc_call_memory(call, GROUPS_BYTES_MAX), GROUPS_BYTES_MAX);

    (void)args;
    uint32_t count = rpc_call_may_be_forged(call) ? 0 : table->entry_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct export_entry *export = &table->entries[i];
        struct exportnode node = {.ex_dir = text_bytes(export->path),
                                  .ex_groups = export_groups(export, groups)};
        struct xdr before = list;
        if (!exportnode_list_put(&list, &node)) {
            list = before; /* too long for the protocol, or for this list */
        }
    }
    export_table_free(table);
    list.end += 4;
    CHECK(xdr_list_end(&list));
    res->list = (struct xdr_bytes){list.start, (uint32_t)xdr_offset(&list)};
}
RPC_THUNK(mount_export, rpc_void, exports)

/* Sun's mount.x, version 2: the limits of POSIX pathconf for a directory that may be mounted. */
static void mount2_pathconf(struct rpc_call *call, const struct dirpath *args, struct ppathcnf *res)
{
    struct mount_service *service = call->service;
    struct vfs_call caller;
    struct vfs_node node = {0};
    struct vfs_fsstat stat = {0};

    call_begin(call, service->vfs, &caller);
    int err = vfs_root(&caller, call_bytes(args->path), &node);
    if (err == 0) {
        err = vfs_fsstat(&caller, &node, &stat);
    }
    if (err == 0) {
        res->pc_link_max = stat.link_max < INT32_MAX ? (int32_t)stat.link_max : INT32_MAX;
        res->pc_max_canon = MAX_CANON;
        res->pc_max_input = MAX_INPUT;
        res->pc_name_max = (int32_t)stat.name_max;
        res->pc_path_max = PATHCONF_PATH_MAX;
        res->pc_pipe_buf = PIPE_BUF;
    } else {
        res->pc_mask[0] = PC_ERROR;
    }
    call_end(call, &caller, err != 0);
    vfs_put(&node);
}
RPC_THUNK(mount2_pathconf, dirpath, ppathcnf)

static void mount2_pathconf_fail(void *res, int error)
{
    (void)error;
    ((struct ppathcnf *)res)->pc_mask[0] = PC_ERROR;
}

/* ---- tables ---- */

#define MOUNT1_ROWS                                                                                \
    [MOUNTPROC_NULL] =                                                                             \
        RPC_ROW("MOUNTPROC_NULL", mount_null, rpc_void, rpc_void, .reply_bytes_max = 4),           \
    [MOUNTPROC_MNT] = RPC_ROW("MOUNTPROC_MNT", mount1_mnt, dirpath, fhstatus, .fail = mount1_fail, \
                              .reply_bytes_max = 4 + FHSIZE),                                      \
    [MOUNTPROC_DUMP] = RPC_ROW("MOUNTPROC_DUMP", mount_dump, rpc_void, mountlist,                  \
                               .reply_bytes_max = LIST_BYTES_MAX),                                 \
    [MOUNTPROC_UMNT] =                                                                             \
        RPC_ROW("MOUNTPROC_UMNT", mount_umnt, dirpath, rpc_void, .reply_bytes_max = 4),            \
    [MOUNTPROC_UMNTALL] =                                                                          \
        RPC_ROW("MOUNTPROC_UMNTALL", mount_umntall, rpc_void, rpc_void, .reply_bytes_max = 4),     \
    [MOUNTPROC_EXPORT] = RPC_ROW("MOUNTPROC_EXPORT", mount_export, rpc_void, exports,              \
                                 .reply_bytes_max = LIST_BYTES_MAX),                               \
    [MOUNTPROC_EXPORTALL] = RPC_ROW("MOUNTPROC_EXPORTALL", mount_export, rpc_void, exports,        \
                                    .reply_bytes_max = LIST_BYTES_MAX)

static const struct rpc_procedure mount1_procedures[] = {MOUNT1_ROWS};

static const struct rpc_procedure mount2_procedures[] = {
    MOUNT1_ROWS,
    [MOUNTPROC_PATHCONF] = RPC_ROW("MOUNTPROC_PATHCONF", mount2_pathconf, dirpath, ppathcnf,
                                   .fail = mount2_pathconf_fail, .reply_bytes_max = 10 * 4),
};

static const struct rpc_procedure mount3_procedures[] = {
    [MOUNTPROC3_NULL] =
        RPC_ROW("MOUNTPROC3_NULL", mount_null, rpc_void, rpc_void, .reply_bytes_max = 4),
    [MOUNTPROC3_MNT] =
        RPC_ROW("MOUNTPROC3_MNT", mount3_mnt, dirpath, mountres3, .fail = mount3_fail,
                .reply_bytes_max = 4 + 4 + FHSIZE3 + 4 + 4 * MNT_FLAVORS_MAX),
    [MOUNTPROC3_DUMP] = RPC_ROW("MOUNTPROC3_DUMP", mount_dump, rpc_void, mountlist,
                                .reply_bytes_max = LIST_BYTES_MAX),
    [MOUNTPROC3_UMNT] =
        RPC_ROW("MOUNTPROC3_UMNT", mount_umnt, dirpath, rpc_void, .reply_bytes_max = 4),
    [MOUNTPROC3_UMNTALL] =
        RPC_ROW("MOUNTPROC3_UMNTALL", mount_umntall, rpc_void, rpc_void, .reply_bytes_max = 4),
    [MOUNTPROC3_EXPORT] = RPC_ROW("MOUNTPROC3_EXPORT", mount_export, rpc_void, exports,
                                  .reply_bytes_max = LIST_BYTES_MAX),
};

static const struct rpc_version mount_versions[] = {
    {MOUNT_V1, COUNT_OF(mount1_procedures), mount1_procedures},
    {MOUNT_V2, COUNT_OF(mount2_procedures), mount2_procedures},
    {MOUNT_V3, COUNT_OF(mount3_procedures), mount3_procedures},
};

void mount_program_init(struct rpc_program *program, struct mount_service *service)
{
    pthread_mutex_init(&service->lock, NULL);
    service->entry_count = 0;
    *program = (struct rpc_program){.prog = MOUNT_PROGRAM,
                                    .name = "mount",
                                    .version_count = COUNT_OF(mount_versions),
                                    .versions = mount_versions,
                                    .service = service};
}

void mount_service_fini(struct mount_service *service)
{
    for (uint32_t i = 0; i < service->entry_count; i++) {
        free(service->entries[i]);
    }
    service->entry_count = 0;
    pthread_mutex_destroy(&service->lock);
}
