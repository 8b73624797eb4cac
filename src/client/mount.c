/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 1813 §5 and §3.3.19; RFC 1094 §A.5 and §2.2.18.
 *
 * 1. Ports come from the URL, else from the portmapper. Where none answers: NFS is at 2049, and
 *    MOUNT at the port of NFS, as servers with one port have it. If the URL has only the port of
 * NFS, MOUNT is looked for there first: the portmapper may speak of another server.
 * 2. Each address of the host is tried in turn; the first that MOUNT answers at is it.
 * 3. Until NFS calls begin everything is soft: a mistyped host is an error and not a wait.
 */
#include "client/mount.h"

#include "client/nfs2.h"
#include "client/pmap.h"
#include "proto/mount.h"
#include "proto/nfs2.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NFS_PORT 2049U /* RFC 1813 §2.1 */
#define TRANSFER_BYTES_MAX (1U << 20)
#define UDP_TRANSFER_BYTES 8192U /* what fragments well; a lost one costs the whole */
#define DIR_BYTES_MAX (64U << 10)
#define DIR_BYTES_MIN 4096U
#define GROUPS_BYTES_MAX 4096U

void client_fh_set(struct client_fh *fh, const struct nfs_fh3 *from)
{
    fh->size = from->data.size;
    memcpy(fh->bytes, from->data.data, from->data.size);
}

/* ---- who we are ---- */

static void set_cred(struct client_mount *mount)
{
    const struct client_url *url = &mount->url;
    struct client_cred *cred = &mount->cred;

    cred->uid = url->has_uid ? url->uid : geteuid();
    cred->gid = url->has_gid ? url->gid : getegid();
    if (!url->has_uid && !url->has_gid) {
        gid_t gids[256];
        int count = getgroups(COUNT_OF(gids), gids);
        for (int i = 0; i < count && cred->gid_count < CLIENT_GIDS_MAX; i++) {
            if (gids[i] != cred->gid) {
                cred->gids[cred->gid_count++] = gids[i];
            }
        }
    }
}

/* ---- where things are ---- */

/* Versions 1 and 3 of MOUNT have the same procedures, of which MNT alone answers otherwise. */
static uint32_t mount_version(const struct client_mount *mount)
{
    return mount->url.version == NFS_VERSION ? MOUNT_V1 : MOUNT_V3;
}

static struct client_rpc_options rpc_options(const struct client_mount *mount,
                                             const struct client_address *address)
{
    return (struct client_rpc_options){
        .loop = mount->loop,
        .address = &address->sa,
        .address_bytes = address->bytes,
        .tcp = !mount->url.udp,
        .cred = mount->cred,
        .insecure = mount->url.insecure,
        .fail_before_contact = true,
        .timeo_ms = mount->url.timeo_ms,
        .retrans = mount->url.retrans,
    };
}

static int find_port(const struct client_mount *mount, uint32_t prog, uint32_t vers, uint16_t *port)
{
    struct client_address address = mount->address;
    client_address_set_port(&address, mount->url.pmap_port);
    struct client_pmap_query query = {
        .loop = mount->loop,
        .address = &address.sa,
        .address_bytes = address.bytes,
        .tcp = !mount->url.udp,
    };
    return client_pmap_getport(&query, prog, vers, port);
}

/* Does a port serve MOUNT? */
static bool serves_mount(const struct client_mount *mount, uint16_t port)
{
    struct client_answer answer = {0};
    struct client_address address = mount->address;
    struct client_rpc *rpc;

    client_address_set_port(&address, port);
    struct client_rpc_options options = rpc_options(mount, &address);
    options.prog = MOUNT_PROGRAM;
    options.vers = mount_version(mount);
    options.soft = true;
    options.insecure = true;
    options.timeo_ms = 1100;
    options.retrans = 1;
    bool serves = client_rpc_open(&options, &rpc, NULL) == 0;
    if (serves) {
        serves = client_wait(mount->loop, rpc, MOUNTPROC3_NULL, NULL, &answer) == 0;
        client_rpc_close(rpc);
    }
    client_answer_free(&answer);
    return serves;
}

/* Rule 1. */
static int find_ports(struct client_mount *mount, struct err *err)
{
    const char *transport = mount->url.udp ? "UDP" : "TCP";
    uint16_t nfs_port = mount->url.nfs_port;
    int error = 0;

    mount->mount_port = mount->url.mount_port;
    if (nfs_port == 0) {
        error = find_port(mount, NFS_PROGRAM, mount->url.version, &nfs_port);
        if (error == -ENOENT) {
            return err_set(err, error, "%s does not offer NFS version %u over %s", mount->url.host,
                           mount->url.version, transport);
        }
        nfs_port = error == 0 ? nfs_port : NFS_PORT;
    }
    client_address_set_port(&mount->address, nfs_port);
    if (mount->mount_port == 0 && mount->url.nfs_port != 0 && serves_mount(mount, nfs_port)) {
        mount->mount_port = nfs_port;
    } else if (mount->mount_port == 0 && error == 0) {
        error = find_port(mount, MOUNT_PROGRAM, mount_version(mount), &mount->mount_port);
    }
    mount->mount_port = mount->mount_port == 0 ? nfs_port : mount->mount_port;
    return 0;
}

/* ---- MOUNT ---- */

static int mount_rpc_open(const struct client_mount *mount, struct client_rpc **rpc,
                          struct err *err)
{
    struct client_address address = mount->address;
    client_address_set_port(&address, mount->mount_port);
    struct client_rpc_options options = rpc_options(mount, &address);
    options.prog = MOUNT_PROGRAM;
    options.vers = mount_version(mount);
    options.soft = true;
    options.timeo_ms = options.timeo_ms > 0 ? options.timeo_ms : mount->url.udp ? 1100 : 10000;
    return client_rpc_open(&options, rpc, err);
}

static struct dirpath dirpath(const char *path)
{
    return (struct dirpath){{(const uint8_t *)path, (uint32_t)strlen(path)}};
}

/* The root's handle, if there is one: RFC 1813 §5.2.1, RFC 1094 §A.5.2. */
static uint32_t take_root(struct client_mount *mount, const void *res)
{
    const struct mountres3 *res3 = res;
    const struct fhstatus *res1 = res;

    if (mount_version(mount) == MOUNT_V1) {
        struct nfs_fh3 fh = {{res1->directory, sizeof res1->directory}};
        if (res1->status == MNT3_OK) {
            client_fh_set(&mount->root, &fh);
        }
        return res1->status;
    }
    if (res3->fhs_status == MNT3_OK) {
        struct nfs_fh3 fh = {res3->mountinfo.fhandle.data};
        client_fh_set(&mount->root, &fh);
    }
    return res3->fhs_status;
}

/* Returns 0, -errno, or a mountstat3, whose numbers are those of version 1 too. */
static int mnt(struct client_mount *mount, struct client_rpc *rpc, const char *path,
               struct client_answer *answer)
{
    struct dirpath args = dirpath(path);
    int error = client_wait(mount->loop, rpc, MOUNTPROC3_MNT, &args, answer);
    if (error != 0) {
        return error;
    }
    uint32_t status = take_root(mount, answer->res);
    if (status == MNT3_OK) {
        (void)snprintf(mount->export_path, sizeof mount->export_path, "%s", path);
    }
    return status <= INT_MAX ? (int)status : -EBADMSG;
}

/* Is `path` the directory `above` or below it? */
static bool is_below(const char *path, const char *above, size_t above_bytes)
{
    while (above_bytes > 0 && above[above_bytes - 1] == '/') {
        above_bytes--;
    }
    return strncmp(path, above, above_bytes) == 0 &&
           (path[above_bytes] == '/' || path[above_bytes] == '\0');
}

/* The longest export above the URL's path; false if the server does not tell. */
static bool longest_export(struct client_mount *mount, struct client_rpc *rpc,
                           struct client_answer *answer, char path[CLIENT_PATH_BYTES_MAX])
{
    struct exportnode node;
    size_t longest = 0;

    if (client_wait(mount->loop, rpc, MOUNTPROC3_EXPORT, NULL, answer) != 0) {
        return false;
    }
    const struct exports *exports = answer->res;
    struct xdr cursor = xdr_reader(exports->list.data, exports->list.size);
    while (exportnode_next(&cursor, &node)) {
        const char *text = (const char *)node.ex_dir.data;
        if (node.ex_dir.size > longest && text[0] == '/' &&
            is_below(mount->url.path, text, node.ex_dir.size)) {
            longest = node.ex_dir.size;
            memcpy(path, text, longest);
            path[longest] = '\0';
        }
    }
    return longest > 0;
}

/* The whole path, and if that is no export, what is above it. */
static int mnt_upwards(struct client_mount *mount, struct client_rpc *rpc,
                       struct client_answer *answer)
{
    char path[CLIENT_PATH_BYTES_MAX];
    int first_error = 0;

    strcpy(path, mount->url.path);
    size_t size = strlen(path);
    if (size > 1 && path[size - 1] == '/') {
        path[size - 1] = '\0';
    }
    for (;;) {
        int error = strlen(path) <= MNTPATHLEN ? mnt(mount, rpc, path, answer) : -ENAMETOOLONG;
        first_error = first_error == 0 ? error : first_error;
        if (error == 0 || (error < 0 && error != -ENAMETOOLONG) || strcmp(path, "/") == 0) {
            return error == 0 || error < 0 ? error : first_error;
        }
        char *slash = strrchr(path, '/');
        slash[slash == path ? 1 : 0] = '\0';
    }
}

static int find_export(struct client_mount *mount, struct err *err)
{
    struct client_answer answer = {0};
    struct client_rpc *rpc;
    char path[CLIENT_PATH_BYTES_MAX];
    char text[64];

    int error = mount_rpc_open(mount, &rpc, err);
    if (error != 0) {
        return error;
    }
    error = longest_export(mount, rpc, &answer, path) ? mnt(mount, rpc, path, &answer)
                                                      : mnt_upwards(mount, rpc, &answer);
    if (error < 0) {
        (void)err_set(err, error, "%s (%s, port %u): MOUNT: %s", mount->url.host,
                      client_address_text(&mount->address, text), mount->mount_port,
                      answer.error != 0 ? answer.text : strerror(-error));
    } else if (error > 0) {
        error = err_set(err, error == MNT3ERR_NOENT ? -ENOENT : -EACCES, "%s:%s: MOUNT says %s",
                        mount->url.host, mount->url.path, mountstat3_name((enum mountstat3)error));
    } else {
        const char *rest = mount->url.path + strspn(mount->url.path, "/");
        size_t above = strlen(mount->export_path);
        rest = above > 1 ? mount->url.path + above : rest;
        mount->rest = rest + strspn(rest, "/");
    }
    client_answer_free(&answer);
    client_rpc_close(rpc);
    return error;
}

/* ---- NFS ---- */

static uint32_t choose_size(const struct client_mount *mount, uint32_t wanted, uint32_t max)
{
    uint32_t size = wanted > 0 ? wanted : mount->url.udp ? UDP_TRANSFER_BYTES : TRANSFER_BYTES_MAX;
    max = mount->url.version == NFS_VERSION && max == 0 ? NFS_MAXDATA : max;
    size = max > 0 && size > max ? max : size;
    return size > TRANSFER_BYTES_MAX ? TRANSFER_BYTES_MAX : size;
}

static int open_nfs(struct client_mount *mount, const struct client_mount_options *mount_options,
                    struct err *err)
{
    struct client_rpc_options options = rpc_options(mount, &mount->address);
    struct client_answer answer = {0};
    struct FSINFO3args args = {client_fh3(&mount->root)};

    options.prog = NFS_PROGRAM;
    options.vers = mount->url.version;
    options.speak = options.vers == NFS_VERSION ? client_nfs2_call : NULL;
    options.soft = mount->url.soft;
    options.on_event = mount_options->on_event;
    options.owner = mount_options->owner;
    int error = client_rpc_open(&options, &mount->rpc, err);
    if (error != 0) {
        return error;
    }
    error = client_wait(mount->loop, mount->rpc, NFSPROC3_FSINFO, &args, &answer);
    if (error != 0) {
        error = err_set(err, error, "%s: NFS at port %u: %s", mount->url.host,
                        client_address_port(&mount->address), answer.text);
        goto out;
    }
    const struct FSINFO3res *res = answer.res;
    bool ok = res->status == NFS3_OK; /* if not, what uses the handle next will say so */
    mount->rsize = choose_size(mount, mount->url.rsize, ok ? res->resok.rtmax : 0);
    mount->wsize = choose_size(mount, mount->url.wsize, ok ? res->resok.wtmax : 0);
    mount->dirsize = ok ? res->resok.dtpref : DIR_BYTES_MIN;
    mount->dirsize = mount->dirsize < DIR_BYTES_MIN ? DIR_BYTES_MIN : mount->dirsize;
    uint32_t max = mount->url.udp ? UDP_TRANSFER_BYTES : DIR_BYTES_MAX;
    mount->dirsize = mount->dirsize > max ? max : mount->dirsize;
out:
    client_answer_free(&answer);
    return error;
}

/* ---- together ---- */

static int mount_new(const struct client_url *url, struct client_mount **mount, struct err *err)
{
    *mount = calloc(1, sizeof **mount);
    if (*mount == NULL) {
        return err_set(err, -ENOMEM, "out of memory");
    }
    (*mount)->url = *url;
    set_cred(*mount);
    int error = client_loop_open(&(*mount)->loop);
    if (error != 0) {
        free(*mount);
        *mount = NULL;
        return err_set(err, error, "cannot make an event loop: %s", strerror(-error));
    }
    return 0;
}

int client_mount_open(const struct client_mount_options *options, struct client_mount **opened,
                      struct err *err)
{
    struct client_address addresses[CLIENT_ADDRESS_COUNT_MAX];
    struct client_mount *mount;
    size_t count = 0;

    int error = mount_new(options->url, &mount, err);
    if (error != 0) {
        return error;
    }
    error = client_address_find(options->url->host, addresses, &count, err);
    for (size_t i = 0; i < count; i++) {
        mount->address = addresses[i];
        error = find_ports(mount, err);
        if (error == 0) {
            error = find_export(mount, err);
        }
        if (error == 0 || error == -ENOENT || error == -EACCES) {
            break; /* it is this host, and it has answered */
        }
    }
    if (error == 0) {
        error = open_nfs(mount, options, err);
    }
    if (error != 0) {
        mount->export_path[0] = '\0';
        client_mount_close(mount);
        return error;
    }
    *opened = mount;
    return 0;
}

static void say_umnt(struct client_mount *mount)
{
    struct client_answer answer = {0};
    struct dirpath args = dirpath(mount->export_path);
    struct client_address address = mount->address;
    struct client_rpc *rpc;

    client_address_set_port(&address, mount->mount_port);
    struct client_rpc_options options = rpc_options(mount, &address);
    options.prog = MOUNT_PROGRAM;
    options.vers = mount_version(mount);
    options.soft = true;
    options.timeo_ms = 500;
    options.retrans = 1;
    if (client_rpc_open(&options, &rpc, NULL) == 0) {
        (void)!client_wait(mount->loop, rpc, MOUNTPROC3_UMNT, &args, &answer);
        client_rpc_close(rpc);
    }
    client_answer_free(&answer);
}

void client_mount_close(struct client_mount *mount)
{
    if (mount == NULL) {
        return;
    }
    client_rpc_close(mount->rpc);
    if (mount->export_path[0] != '\0') {
        say_umnt(mount);
    }
    client_loop_close(mount->loop);
    free(mount);
}

static void join_groups(struct xdr_bytes list, char text[GROUPS_BYTES_MAX])
{
    struct xdr cursor = xdr_reader(list.data, list.size);
    struct groupnode node;
    size_t at = 0;

    text[0] = '\0';
    while (at < GROUPS_BYTES_MAX - 1 && groupnode_next(&cursor, &node)) {
        int put = snprintf(text + at, GROUPS_BYTES_MAX - at, "%s%.*s", at > 0 ? "," : "",
                           (int)node.gr_name.size, (const char *)node.gr_name.data);
        at += put > 0 ? (size_t)put : 0;
    }
}

static int tell_exports(struct client_mount *mount,
                        void (*each)(void *owner, const char *path, const char *groups),
                        void *owner, struct err *err)
{
    struct client_answer answer = {0};
    struct exportnode node;
    struct client_rpc *rpc;

    int error = mount_rpc_open(mount, &rpc, err);
    if (error != 0) {
        return error;
    }
    error = client_wait(mount->loop, rpc, MOUNTPROC3_EXPORT, NULL, &answer);
    client_rpc_close(rpc);
    if (error != 0) {
        error = err_set(err, error, "%s: MOUNT: %s", mount->url.host, answer.text);
    } else {
        const struct exports *exports = answer.res;
        struct xdr cursor = xdr_reader(exports->list.data, exports->list.size);
        while (exportnode_next(&cursor, &node)) {
            char path[MNTPATHLEN + 1];
            char groups[GROUPS_BYTES_MAX];
            (void)snprintf(path, sizeof path, "%.*s", (int)node.ex_dir.size,
                           (const char *)node.ex_dir.data);
            join_groups(node.ex_groups, groups);
            each(owner, path, groups);
        }
    }
    client_answer_free(&answer);
    return error;
}

int client_mount_exports(const struct client_url *url,
                         void (*each)(void *owner, const char *path, const char *groups),
                         void *owner, struct err *err)
{
    struct client_address addresses[CLIENT_ADDRESS_COUNT_MAX];
    struct client_mount *mount;
    size_t count = 0;

    int error = mount_new(url, &mount, err);
    if (error != 0) {
        return error;
    }
    error = client_address_find(url->host, addresses, &count, err);
    for (size_t i = 0; i < count; i++) {
        mount->address = addresses[i];
        error = find_ports(mount, err);
        if (error == 0) {
            error = tell_exports(mount, each, owner, err);
        }
        if (error == 0) {
            break;
        }
    }
    client_mount_close(mount);
    return error;
}
