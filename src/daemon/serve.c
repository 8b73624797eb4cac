/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order of starting: what can be refused without a trace comes first (exports, state directory,
 * ports), then privileges go, then the exports are opened, then threads run, then others are told.
 *
 * Order of stopping: the portmapper forgets us, no more calls are taken, replies that wait for the
 * disk leave as the journal reports, the server is freed (its replies hold objects of the vfs), and
 * the vfs is closed, which makes durable what async exports still owe.
 */
#include "daemon/serve.h"

#include "callback/sender.h"
#include "daemon/activate.h"
#include "daemon/control.h"
#include "daemon/exports.h"
#include "daemon/finder.h"
#include "daemon/listen.h"
#include "daemon/metrics.h"
#include "daemon/notify.h"
#include "daemon/opener.h"
#include "daemon/portmap.h"
#include "daemon/privs.h"
#include "daemon/sandbox.h"
#include "daemon/state.h"
#include "daemon/status.h"
#include "os/ticks.h"
#include "server/lockd.h"
#include "server/mount.h"
#include "server/nfs.h"
#include "server/nfsacl.h"
#include "server/rquota.h"
#include "server/spray.h"
#include "vfs/journals.h"
#include "vfs/node.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NFS_PROGRAMS,
    MOUNT_PROGRAMS,
    NFSACL_PROGRAMS,
    SPRAY_PROGRAMS,
    NLM_PROGRAMS,
    NSM_PROGRAMS,
    RQUOTA_PROGRAMS,
    PROGRAM_COUNT
};

struct serve {
    const struct config *config;
    bool is_plain;     /* vfs_is_plain_user */
    int plan_fd;       /* then, until the exports are open: what may be opened; -1 */
    int plan_error;    /* why there is no plan */
    sigset_t stops; /* SIGTERM and its like, held back */
    struct export_table *table;
    int state_lock_fd;
    struct activated activated;
    struct listen_addresses addresses;
    uint16_t port;
    struct opener opener;
    struct finder finder;
    char state_dir[PATH_MAX]; /* absolute, without symbolic links */
    struct control control;
    struct metrics metrics;
    struct status status;
    struct portmap portmap;
    struct nfs_service nfs;
    struct mount_service mount;
    struct spray_service spray;
    struct lockd lockd;
    struct rpc_program programs[PROGRAM_COUNT];
    struct vfs *vfs;
    struct sender *sender; /* of calls to clients */
    struct rpc_server *server;
    pthread_mutex_t release_lock;
    struct rpc_server *release_to; /* NULL: nobody waits for the journal */
};

static const struct rpc_program *const *programs_of(struct serve *serve,
                                                    const struct rpc_program *list[PROGRAM_COUNT])
{
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        list[i] = &serve->programs[i];
    }
    return list;
}

/* Threads inherit the mask, so that only the main thread takes these. Before this they end the
 * process at once: nothing has been begun, and looking names up may take long. */
static void hold_signals(sigset_t *stops)
{
    sigemptyset(stops);
    sigaddset(stops, SIGTERM);
    sigaddset(stops, SIGINT);
    sigaddset(stops, SIGHUP);
    pthread_sigmask(SIG_BLOCK, stops, NULL);
}

static void raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
            log_warning("cannot raise the limit of open files: %s", strerror(errno));
        }
    }
}

/* A directory that whoever started us has left open would be a way out of the jail. */
static void close_inherited(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct stat st;

    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] != '.' && fd != dirfd(dir) && fstat(fd, &st) == 0 &&
            S_ISDIR(st.st_mode)) {
            close(fd);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static int make_table(struct serve *serve, struct err *err)
{
    struct export_problems problems = {0};

    int error = exports_read(serve->config, &serve->table, &problems, err);
    exports_log(&problems);
    export_problems_free(&problems);
    return error;
}

/* Each journal of vfs is a lane of rpc. */
_Static_assert(VFS_LANE_SHIFT == RPC_LANE_SHIFT && VFS_JOURNAL_COUNT_MAX <= RPC_LANE_COUNT,
               "an lsn means the same to both");

/* On the thread of a journal. */
static void durable(void *arg, uint64_t lsn, int error)
{
    struct serve *serve = arg;

    pthread_mutex_lock(&serve->release_lock);
    if (serve->release_to != NULL) {
        rpc_server_release(serve->release_to, lsn, error);
    }
    pthread_mutex_unlock(&serve->release_lock);
}

static void release_to(struct serve *serve, struct rpc_server *server)
{
    pthread_mutex_lock(&serve->release_lock);
    serve->release_to = server;
    pthread_mutex_unlock(&serve->release_lock);
}

static void thread_begin(void *arg)
{
    (void)arg;
    vfs_thread_begin();
}

static bool is_known(void *arg, const struct sockaddr *peer)
{
    const struct serve *serve = arg;
    return vfs_names_host(serve->vfs, peer);
}

static void promise(void *arg)
{
    (void)arg;
    vfs_promise();
}

static void keep_promise(void *arg)
{
    (void)arg;
    vfs_keep_promise();
}

static void break_promises(void *arg)
{
    const struct serve *serve = arg;
    vfs_break_promises(serve->vfs);
}

/* The reply cache's own words, and vfs's, for the same thing. */
static void replied(void *arg, const struct rpc_kept_reply *reply)
{
    struct serve *serve = arg;
    struct vfs_reply kept;

    if (reply == NULL) {
        vfs_reply(serve->vfs, NULL);
        return;
    }
    kept = (struct vfs_reply){.port = reply->port,
                              .is_tcp = reply->is_tcp,
                              .xid = reply->xid,
                              .prog = reply->prog,
                              .vers = reply->vers,
                              .proc = reply->proc,
                              .call_bytes = reply->call_bytes,
                              .call_checksum = reply->call_checksum,
                              .bytes = reply->bytes,
                              .size = reply->size};
    memcpy(kept.address, reply->address, sizeof kept.address);
    vfs_reply(serve->vfs, &kept);
}

static void restore(void *arg, const struct vfs_reply *kept)
{
    struct serve *serve = arg;
    struct rpc_kept_reply reply = {.port = kept->port,
                                   .is_tcp = kept->is_tcp,
                                   .xid = kept->xid,
                                   .prog = kept->prog,
                                   .vers = kept->vers,
                                   .proc = kept->proc,
                                   .call_bytes = kept->call_bytes,
                                   .call_checksum = kept->call_checksum,
                                   .bytes = kept->bytes,
                                   .size = kept->size};
    memcpy(reply.address, kept->address, sizeof reply.address);
    rpc_server_restore(serve->server, &reply);
}

static int open_server(struct serve *serve, struct err *err)
{
    const struct rpc_server_options options = {
        .thread_begin = thread_begin,
        .is_known = is_known,
        .replied = replied,
        .promise = promise,
        .keep_promise = keep_promise,
        .break_promises = break_promises,
        .arg = serve,
    };
    const struct rpc_program *programs[PROGRAM_COUNT];

    int error = rpc_server_open(&options, &serve->server, err);
    if (error != 0) {
        return error;
    }
    nfs_program_init(&serve->programs[NFS_PROGRAMS], &serve->nfs);
    rquota_program_init(&serve->programs[RQUOTA_PROGRAMS], &serve->nfs);
    nfsacl_program_init(&serve->programs[NFSACL_PROGRAMS], &serve->nfs);
    mount_program_init(&serve->programs[MOUNT_PROGRAMS], &serve->mount);
    lockd_init(&serve->lockd, &serve->programs[NLM_PROGRAMS], &serve->programs[NSM_PROGRAMS]);
    if (spray_program_init(&serve->programs[SPRAY_PROGRAMS], &serve->spray) != 0) {
        return err_set(err, -ENOMEM, "no memory for the senders of SPRAY");
    }
    if (serve->activated.counts[ACTIVATE_NFS] > 0) {
        if (serve->config->bind_count > 0) {
            log_warning("--bind is of no use where the service manager binds");
        }
        error = activate_serve(&serve->activated, ACTIVATE_NFS, serve->server,
                               programs_of(serve, programs), COUNT_OF(programs), &serve->addresses,
                               &serve->port, err);
    } else {
        error = listen_begin(serve->server, &serve->addresses, programs_of(serve, programs),
                             COUNT_OF(programs), &serve->port, err);
    }
    if (error != 0) {
        return error;
    }
    return portmap_listen(&serve->portmap, serve->config->portmap, serve->server, &serve->addresses,
                          &serve->activated, err);
}

/* ---- what the server sees of the machine, from inside its jail ---- */

static int look_for(void *arg, const char *path, struct outside_look *look)
{
    return finder_look(&((struct serve *)arg)->finder, path, look);
}

static int open_for(void *arg, const char *path, struct outside_tree *tree)
{
    struct serve *serve = arg;

    int err = opener_open(&serve->opener, path, tree);
    if (err == 0 && serve->plan_fd >= 0) {
        err = sandbox_permit(serve->plan_fd, tree->fd);
        if (err != 0) {
            close(tree->fd);
            opener_release(&serve->opener, tree->place);
        }
    }
    return err;
}

static void release_for(void *arg, uint32_t place)
{
    opener_release(&((struct serve *)arg)->opener, place);
}

static int journal_for(void *arg, const char *path)
{
    return opener_journal(&((struct serve *)arg)->opener, path);
}

/* There is only one file to be asked for. */
static int files_for(void *arg, const char *file, struct outside_files *files)
{
    (void)file;
    return opener_files(&((struct serve *)arg)->opener, files);
}

static int addresses_for(void *arg, const char *host, struct outside_addresses *addresses)
{
    return finder_addresses(&((struct serve *)arg)->finder, host, addresses);
}

static int names_for(void *arg, const uint8_t address[16], struct outside_names *names)
{
    return finder_names(&((struct serve *)arg)->finder, address, names);
}

static bool netgroup_for(void *arg, const char *group, const char *name)
{
    return finder_netgroup(&((struct serve *)arg)->finder, group, name);
}

static int groups_for(void *arg, uint32_t uid, struct outside_groups *groups)
{
    return finder_groups(&((struct serve *)arg)->finder, uid, groups);
}

static const struct outside_ops outside_helpers = {.look = look_for,
                                                   .open = open_for,
                                                   .release = release_for,
                                                   .journal = journal_for,
                                                   .files = files_for,
                                                   .addresses = addresses_for,
                                                   .names = names_for,
                                                   .netgroup = netgroup_for,
                                                   .groups = groups_for};

static int start_helpers(struct serve *serve, struct err *err)
{
    if (realpath(serve->config->state_dir, serve->state_dir) == NULL) {
        return err_set(err, -errno, "the state directory %s: %s", serve->config->state_dir,
                       strerror(errno));
    }
    int error = opener_start(&serve->opener, serve->config, serve->state_dir, err);
    if (error == 0) {
        error = finder_start(&serve->finder, err);
    }
    if (error == 0) {
        outside_use(&outside_helpers, serve);
    }
    return error;
}

/* Something that keeps the server in could not be had. */
static int do_without(const struct serve *serve, int error, const char *what, struct err *err)
{
    if (serve->config->sandbox == CONFIG_SANDBOX_ON) {
        return err_set(err, error, "--sandbox on: %s (%s)", what, strerror(-error));
    }
    if (serve->config->sandbox == CONFIG_SANDBOX_AUTO) {
        log_notice("%s (%s)", what, strerror(-error));
    }
    return 0;
}

/* A plain user has no mount namespaces; Landlock knows the exports by what was opened. */
static int opened_plain(struct serve *serve, struct err *err)
{
    if (serve->config->sandbox == CONFIG_SANDBOX_ON) {
        return do_without(serve, -EPERM, "sandbox: mount namespaces are not for plain users", err);
    }
    int error = serve->plan_fd >= 0 ? sandbox_restrict(serve->plan_fd) : serve->plan_error;
    serve->plan_fd = -1;
    return error == 0
               ? 0
               : do_without(serve, error,
                            "sandbox: no Landlock: the server could open all that its user can",
                            err);
}

/* vfs starts its threads after this. */
static int opened(void *arg, struct err *err)
{
    struct serve *serve = arg;
    int error = 0;

    if (!sandbox_is_possible()) {
        error = do_without(serve, -ENOTSUP, "sandbox: none in a build that checks its memory", err);
    } else if (sandbox_is_wanted(serve->config) && serve->is_plain) {
        error = opened_plain(serve, err);
    } else if (sandbox_is_wanted(serve->config)) {
        error = opener_enter(&serve->opener);
        if (error != 0) {
            error = do_without(serve, error,
                               "sandbox: no mount namespace of its own, and so no Landlock: the "
                               "server sees all files of this machine",
                               err);
        } else if ((error = sandbox_begin()) != 0) {
            error = do_without(serve, error,
                               "sandbox: no Landlock, only a mount namespace: the kernel has none, "
                               "or one that keeps files from being opened by handle",
                               err);
        }
    }
    return error != 0 ? error : privs_opened(err);
}

/* When all threads run, all sockets are there and nothing more is to be looked for. */
static int close_sandbox(const struct serve *serve, struct err *err)
{
    int error = sandbox_is_wanted(serve->config) ? sandbox_close() : 0;

    return error == 0 ? 0 : do_without(serve, error, "sandbox: system calls are not filtered", err);
}

static int open_exports(struct serve *serve, struct err *err)
{
    const struct vfs_options options = {.state_dir = serve->state_dir,
                                        .table = serve->table,
                                        .opened = opened,
                                        .journal_path = serve->config->journal,
                                        .async_window_ms = serve->config->async_window_ms,
                                        .manage_gids = serve->config->manage_gids,
                                        .reply = restore,
                                        .durable = durable,
                                        .arg = serve};

    int error = vfs_open(&options, &serve->vfs, err);
    if (error == 0) {
        serve->nfs.vfs = serve->vfs;
        serve->mount.vfs = serve->vfs;
        serve->spray.vfs = serve->vfs;
        release_to(serve, serve->server);
    }
    return error;
}

/* Before the first call is taken: locks are given back first. */
static int open_locks(struct serve *serve, struct err *err)
{
    int error = sender_open(&serve->sender, err);
    if (error == 0) {
        const struct rpc_outcaller outcaller = sender_outcaller(serve->sender);
        error = lockd_open(&serve->lockd, serve->vfs, &outcaller,
                           serve->config->grace_seconds * 1000, err);
    }
    return error;
}

/* ---- reading the exports anew ---- */

static void tell(struct control_reply *reply, const struct export_problems *problems)
{
    exports_log(problems);
    for (uint32_t i = 0; i < problems->count; i++) {
        control_complain(reply, "%s", problems->items[i].text);
    }
}

/* All or nothing. The log has it too: whoever sent SIGHUP looks there. */
static int reload(void *arg, struct control_reply *reply)
{
    struct serve *serve = arg;
    struct export_problems problems = {0};
    struct export_table *table = NULL;
    struct err err = {0};
    uint32_t in_use = 0;

    notify_reloading();
    int error = exports_read(serve->config, &table, &problems, &err);
    tell(reply, &problems);
    if (error == 0) {
        error = vfs_reload(serve->vfs, table, &in_use, &err);
    }
    if (error == 0) {
        opener_publish(&serve->opener);
    }
    if (error != 0) {
        log_error("exports are as before: %s%s", err.text,
                  serve->is_plain ? " (not root: only what there was at the start can be served)"
                                  : "");
        control_complain(reply, "exports are as before: %s", err.text);
    } else {
        log_notice("exports were read anew: %u", table->entry_count);
        control_say(reply, "exports: %u", table->entry_count);
    }
    if (in_use > 0) {
        log_warning("%u exports that are gone are still in use by calls that run", in_use);
        control_complain(reply, "%u exports that are gone are still in use by calls that run",
                         in_use);
    }
    export_table_free(table);
    export_problems_free(&problems);
    notify_send("READY=1\n");
    return error != 0 ? 1 : 0;
}

/* What is in force, as an exports file. */
static int tell_exports(void *arg, struct control_reply *reply)
{
    struct serve *serve = arg;
    struct export_table *table = vfs_table_get(serve->vfs);
    char text[EXPORT_CLIENT_TEXT_BYTES_MAX];

    for (uint32_t i = 0; i < table->entry_count; i++) {
        for (uint32_t j = 0; j < table->entries[i].client_count; j++) {
            export_client_text(&table->entries[i], &table->entries[i].clients[j], text);
            control_say(reply, "%s", text);
        }
    }
    export_table_free(table);
    return 0;
}

static int tell_status(void *arg, struct control_reply *reply)
{
    struct serve *serve = arg;
    return status_tell(&serve->status, reply);
}

/* SIGHUP runs the first. */
static const struct control_command commands[] = {
    {"reload", reload}, {"exports", tell_exports}, {"status", tell_status}, {NULL, NULL}};

/* Everything that it shows is there from here on, until the server is stopped. */
static int open_status(struct serve *serve, struct err *err)
{
    serve->status = (struct status){.config = serve->config,
                                    .port = serve->port,
                                    .metrics_url = serve->metrics.url,
                                    .server = serve->server,
                                    .vfs = serve->vfs,
                                    .hosts = serve->lockd.hosts};
    status_begin(&serve->status);
    int error = control_start(&serve->control, serve->state_dir, commands, serve, err);
    return error == 0 ? metrics_start(&serve->metrics, &serve->status, err) : error;
}

/* What somebody who knows the server as root's would miss. */
static void say_plain(void)
{
    log_notice("not root: all clients act as uid %u, and what they make is its; no chown to "
               "others, no devices, no --journal, no ports below 1024; holdfast-serve(8), \"Plain "
               "users\"",
               geteuid());
}

/* The state directory is there, and the only thread runs. */
static void begin_plan(struct serve *serve)
{
    if (serve->is_plain && sandbox_is_wanted(serve->config)) {
        int fd = sandbox_plan(serve->state_dir);
        serve->plan_fd = fd >= 0 ? fd : -1;
        serve->plan_error = fd >= 0 ? 0 : fd;
    }
}

static int start(struct serve *serve, struct err *err)
{
    const struct config *config = serve->config;
    const struct rpc_program *programs[PROGRAM_COUNT];

    int error = activate_take(&serve->activated, err);
    if (error == 0) {
        error = make_table(serve, err);
    }
    if (error == 0 && serve->is_plain) {
        say_plain();
    }
    if (error == 0) {
        error = listen_find_addresses(config, &serve->addresses, err);
    }
    hold_signals(&serve->stops);
    if (error == 0) {
        error = state_take(config->state_dir, &serve->state_lock_fd, err);
    }
    if (error == 0) {
        error = start_helpers(serve, err);
    }
    if (error == 0) {
        begin_plan(serve);
        error = privs_begin(err);
    }
    if (error == 0) {
        error = open_server(serve, err);
    }
    if (error == 0) {
        error = metrics_bind(&serve->metrics, config->metrics, activate_metrics(&serve->activated),
                             err);
    }
    activate_close(&serve->activated);
    if (error == 0) {
        error = privs_bound(err);
    }
    if (error == 0) {
        error = open_exports(serve, err);
    }
    if (error == 0) {
        error = open_locks(serve, err);
    }
    if (error == 0) {
        error = rpc_server_run(serve->server, err);
    }
    if (error == 0) {
        error = open_status(serve, err);
    }
    if (error == 0) {
        error =
            portmap_announce(&serve->portmap, config->portmap, &serve->addresses,
                             programs_of(serve, programs), COUNT_OF(programs), serve->port, err);
    }
    if (error == 0) {
        error = close_sandbox(serve, err);
    }
    if (error == 0) {
        lockd_notify(&serve->lockd);
    }
    return error;
}

/* Are all clients loopback addresses? (IPv4 is kept as ::ffff:a.b.c.d.) */
static bool is_for_this_machine(const struct export_entry *entry)
{
    for (uint32_t i = 0; i < entry->client_count; i++) {
        const struct export_client *client = &entry->clients[i];
        struct in6_addr address;
        memcpy(&address, client->address, sizeof address);
        bool ipv4 = IN6_IS_ADDR_V4MAPPED(&address) && client->prefix_bits >= 96 + 8 &&
                    address.s6_addr[12] == IN_LOOPBACKNET;
        bool ipv6 = IN6_IS_ADDR_LOOPBACK(&address) && client->prefix_bits == 128;
        if (client->kind > EXPORT_NETWORK || !(ipv4 || ipv6)) {
            return false;
        }
    }
    return true;
}

/* How a client may call us: the first address of --bind, or the machine's name. */
static const char *host_name(const struct config *config, const struct export_entry *entry,
                             char *text, size_t text_bytes)
{
    if (config->bind_count > 0) {
        bool is_ipv6 = strchr(config->binds[0], ':') != NULL; /* mount(8) wants brackets */
        (void)snprintf(text, text_bytes, is_ipv6 ? "[%s]" : "%s", config->binds[0]);
        return text;
    }
    if (is_for_this_machine(entry)) {
        return "localhost";
    }
    if (gethostname(text, text_bytes) != 0) {
        return "HOST";
    }
    text[text_bytes - 1] = '\0';
    return text;
}

#define PLAIN_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%"

static void say_ready(const struct serve *serve)
{
    const struct export_table *table = serve->table;
    const char *path = table->entries[0].path;
    char more[32] = "";
    char options[96] = "";
    char host[256];
    char notice[128];

    if (table->entry_count > 1) {
        (void)snprintf(more, sizeof more, " and %u more", table->entry_count - 1);
    }
    if (serve->portmap.how == PORTMAP_NONE) {
        /* Clients find the lock manager through port 111 only. */
        (void)snprintf(options, sizeof options, " -o nolock,vers=3,proto=tcp,port=%u,mountport=%u",
                       serve->port, serve->port);
    } else if (is_for_this_machine(&table->entries[0])) {
        /* The kernel's own lock manager cannot register where ours is. */
        (void)snprintf(options, sizeof options, " -o nolock");
    }
    /* A shell must take it as one word. */
    const char *quote = path[strspn(path, PLAIN_CHARACTERS)] != '\0' ? "'" : "";
    printf("holdfast: ready: %s%s on port %u (tcp, udp); mount -t nfs%s %s%s:%s%s /mnt\n", path,
           more, serve->port, options, quote,
           host_name(serve->config, &table->entries[0], host, sizeof host), path, quote);
    (void)fflush(stdout);
    (void)snprintf(notice, sizeof notice, "READY=1\nSTATUS=serving %u exports on port %u\n",
                   table->entry_count, serve->port);
    notify_send(notice);
}

static void wait_for_stop(struct serve *serve)
{
    for (;;) {
        int number = sigwaitinfo(&serve->stops, NULL);
        if (number == SIGHUP) {
            control_ask_first(&serve->control);
        } else if (number > 0) {
            log_info("stopping: %s", strsignal(number));
            return;
        }
    }
}

static void stop(struct serve *serve)
{
    notify_send("STOPPING=1\n");
    /* Whoever is in a hurry sends the signal again. */
    pthread_sigmask(SIG_UNBLOCK, &serve->stops, NULL);
    control_stop(&serve->control);
    metrics_stop(&serve->metrics);
    portmap_withdraw(&serve->portmap);
    if (serve->server != NULL) {
        rpc_server_stop(serve->server);
    }
    release_to(serve, NULL);
    rpc_server_close(serve->server);
    sender_close(serve->sender);
    if (serve->vfs != NULL) {
        lockd_close(&serve->lockd);
        vfs_close(serve->vfs);
    }
    if (serve->portmap.has_local) {
        opener_unlink_portmap(&serve->opener);
    }
    outside_use(&outside_direct, NULL);
    if (serve->plan_fd >= 0) {
        close(serve->plan_fd);
    }
    opener_stop(&serve->opener);
    finder_stop(&serve->finder);
    mount_service_fini(&serve->mount);
    spray_service_fini(&serve->spray);
    if (serve->state_lock_fd >= 0) {
        close(serve->state_lock_fd);
    }
    export_table_free(serve->table);
}

int serve_run(const struct config *config, struct err *err)
{
    /* Too large for a stack: the portmapper's registry. */
    static struct serve serve;

    serve = (struct serve){.config = config,
                           .is_plain = vfs_is_plain_user(),
                           .plan_fd = -1,
                           .port = config->port,
                           .state_lock_fd = -1,
                           .portmap.rpcbind.fd = -1,
                           .opener.fd = -1,
                           .metrics.fd = -1,
                           .release_lock = PTHREAD_MUTEX_INITIALIZER};
    log_set_level(config->log_level);
    ticks_begin(); /* while /sys can be seen */
    /* A peer that went away, and a file over RLIMIT_FSIZE, are errors of a call and no more. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    close_inherited();
    raise_limits();
    notify_open();
    int error = start(&serve, err);
    if (error == 0) {
        say_ready(&serve);
        wait_for_stop(&serve);
    }
    stop(&serve);
    return error;
}
