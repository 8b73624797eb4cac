/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file per machine, STATE/sm/NUMBER, of three lines:
 *
 *     192.0.2.7           its address
 *     192.0.2.1           ours that it called, or "-"
 *     client.example      its name; bytes that are no printable ASCII, and %, as %XX
 */
#include "server/nsm_hosts.h"

#include "base/log.h"
#include "proto/nsm.h"
#include "vfs/state.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "sm"
#define FILE_BYTES_MAX (2 * INET6_ADDRSTRLEN + 3 * MACHINE_NAME_BYTES_MAX + 8)
#define NOTIFY_COUNT_MAX 64U /* machines that are being notified at the same time */
#define NOTIFY_TRY_MS 30000U /* then others have their turn */
#define IDLE_LOOK_TICKS 6U

_Static_assert(FILE_BYTES_MAX <= VFS_STATE_BYTES_MAX, "a machine fits a file");

struct host {
    struct host *next;
    struct nsm_hosts *hosts;
    uint64_t number; /* of its file */
    bool is_saved;
    bool is_from_before;
    bool is_to_notify;
    bool is_notifying;
    bool is_restarting; /* its locks are about to go */
    uint32_t notify_round;
    struct stat_chge notice;
    uint8_t local[16];
    uint32_t scope;
    int64_t used_ms;
    int32_t restart_state;
    uint8_t address[16];
    uint32_t name_bytes;
    uint8_t name[];
};

struct nsm_hosts {
    struct nsm_hosts_options options;
    pthread_mutex_t lock;
    pthread_mutex_t save_lock; /* outside of lock: one file is written at a time */
    pthread_cond_t wake;
    pthread_t thread;
    bool has_thread;
    bool stopping;
    struct host *first;
    uint32_t count;
    uint64_t number_last;
    bool may_notify;
    uint32_t notifying_count;
    uint32_t notify_round;
    int64_t notify_until_ms;
    _Atomic int64_t grace_until_ms;
    int32_t state;
    char my_name[256];
};

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static struct machine machine_of(const struct host *host)
{
    struct machine machine = {.scope = host->scope, .name = {host->name, host->name_bytes}};
    memcpy(machine.address, host->address, sizeof machine.address);
    return machine;
}

/* ---- files ---- */

static void address_text(const uint8_t address[16], char text[INET6_ADDRSTRLEN])
{
    struct sockaddr_storage to;
    machine_sockaddr(address, 0, &to);
    strcpy(text, "-");
    if (to.ss_family == AF_INET) {
        (void)inet_ntop(AF_INET, address + 12, text, INET6_ADDRSTRLEN);
    } else if (to.ss_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, address, text, INET6_ADDRSTRLEN);
    }
}

static size_t file_text(const struct host *host, char text[FILE_BYTES_MAX])
{
    char address[INET6_ADDRSTRLEN], local[INET6_ADDRSTRLEN];
    address_text(host->address, address);
    address_text(host->local, local);
    size_t size = (size_t)snprintf(text, FILE_BYTES_MAX, "%s\n%s\n", address, local);
    for (uint32_t i = 0; i < host->name_bytes; i++) {
        uint8_t byte = host->name[i];
        bool plain = isascii(byte) && isgraph(byte) && byte != '%';
        size += (size_t)snprintf(text + size, FILE_BYTES_MAX - size, plain ? "%c" : "%%%02x", byte);
    }
    text[size++] = '\n';
    return size;
}

/* Reads up to the end of the line, and moves on to the next. False: there is no line. */
static bool take_line(const char **at, const char *end, char *line, size_t line_bytes)
{
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    if (stop == NULL || (size_t)(stop - *at) >= line_bytes) {
        return false;
    }
    memcpy(line, *at, (size_t)(stop - *at));
    line[stop - *at] = '\0';
    *at = stop + 1;
    return true;
}

static bool parse_address(const char *text, uint8_t address[16])
{
    memset(address, 0, 16);
    if (inet_pton(AF_INET, text, address + 12) == 1) {
        address[10] = address[11] = 0xff;
        return true;
    }
    return inet_pton(AF_INET6, text, address) == 1;
}

static uint32_t parse_name(const char *text, uint8_t name[MACHINE_NAME_BYTES_MAX])
{
    uint32_t size = 0;
    while (*text != '\0' && size < MACHINE_NAME_BYTES_MAX) {
        char hex[3] = {0};
        if (*text == '%' && isxdigit((unsigned char)text[1]) && isxdigit((unsigned char)text[2])) {
            memcpy(hex, text + 1, 2);
            name[size++] = (uint8_t)strtoul(hex, NULL, 16);
            text += 3;
        } else {
            name[size++] = (uint8_t)*text++;
        }
    }
    return size;
}

static struct host *host_new(struct nsm_hosts *hosts, const struct machine *machine)
{
    struct host *host = calloc(1, sizeof *host + machine->name.size);
    if (host != NULL) {
        host->hosts = hosts;
        memcpy(host->address, machine->address, sizeof host->address);
        host->scope = machine->scope;
        host->name_bytes = machine->name.size;
        if (machine->name.size > 0) {
            memcpy(host->name, machine->name.data, machine->name.size);
        }
        host->next = hosts->first;
        hosts->first = host;
        hosts->count++;
    }
    return host;
}

/* A file of the list, at the start. What cannot be read is not lost: it stays, and is said. */
static void read_host(void *arg, const char *file, const void *bytes, size_t size_bytes)
{
    struct nsm_hosts *hosts = arg;
    const char *at = bytes, *end = at + size_bytes;
    char address[INET6_ADDRSTRLEN], local[INET6_ADDRSTRLEN];
    char name[3 * MACHINE_NAME_BYTES_MAX + 1];
    uint8_t name_bytes[MACHINE_NAME_BYTES_MAX];
    struct machine machine = {0};
    char *number_end;
    uint64_t number = strtoull(file, &number_end, 10);

    if (number == 0 || *number_end != '\0' || hosts->count >= NSM_HOST_COUNT_MAX ||
        !take_line(&at, end, address, sizeof address) ||
        !take_line(&at, end, local, sizeof local) || !take_line(&at, end, name, sizeof name) ||
        !parse_address(address, machine.address)) {
        log_warning("nsm: " FOLDER "/%s in the state directory makes no sense; its client is not "
                    "told of the restart",
                    file);
        return;
    }
    machine.name = (struct xdr_bytes){name_bytes, parse_name(name, name_bytes)};
    struct host *host = host_new(hosts, &machine);
    if (host == NULL) {
        log_error("nsm: no memory for a client of before; it is not told of the restart");
        return;
    }
    (void)parse_address(local, host->local);
    host->number = number;
    host->is_saved = true;
    host->is_from_before = true;
    host->is_to_notify = true;
    hosts->number_last = number > hosts->number_last ? number : hosts->number_last;
}

/* ---- notices ---- */

static void notify_some(struct nsm_hosts *hosts);

static void notified(void *owner, const struct rpc_outcall_end *end)
{
    struct host *host = owner;
    struct nsm_hosts *hosts = host->hosts;
    struct machine machine = machine_of(host);
    char text[MACHINE_TEXT_BYTES_MAX];

    pthread_mutex_lock(&hosts->lock);
    bool gives_up = end->error != 0 && clock_ms() >= hosts->notify_until_ms;
    if (end->error == 0 || gives_up) {
        host->is_to_notify = false;
    }
    hosts->notifying_count--;
    pthread_mutex_unlock(&hosts->lock);
    if (end->error == 0) {
        log_info("nsm: %s knows of the restart", machine_text(&machine, text));
    } else if (gives_up) {
        log_warning("nsm: %s cannot be told of the restart: %s", machine_text(&machine, text),
                    strerror(-end->error));
    }
    notify_some(hosts);
    /* The last use of host: it may go when it is not being notified. */
    pthread_mutex_lock(&hosts->lock);
    host->is_notifying = false;
    pthread_mutex_unlock(&hosts->lock);
}

/* The one that has been tried least often; NULL: none, or enough are under way. */
static struct host *next_to_notify(struct nsm_hosts *hosts)
{
    struct host *next = NULL;
    for (struct host *host = hosts->first; host != NULL; host = host->next) {
        if (host->is_to_notify && !host->is_notifying &&
            (next == NULL || host->notify_round < next->notify_round)) {
            next = host;
        }
    }
    bool may = hosts->may_notify && !hosts->stopping;
    return may && hosts->notifying_count < NOTIFY_COUNT_MAX ? next : NULL;
}

static void notify_some(struct nsm_hosts *hosts)
{
    const struct rpc_outcaller *outcaller = &hosts->options.outcaller;
    struct host *host;

    pthread_mutex_lock(&hosts->lock);
    while ((host = next_to_notify(hosts)) != NULL) {
        struct rpc_outcall call = {.prog = SM_PROG,
                                   .vers = SM_VERS,
                                   .proc = SM_NOTIFY,
                                   .args = &host->notice,
                                   .give_up_ms = NOTIFY_TRY_MS,
                                   .ended = notified,
                                   .owner = host};
        machine_sockaddr(host->address, host->scope, &call.to);
        machine_sockaddr(host->local, host->scope, &call.from);
        host->notice.mon_name =
            (struct xdr_bytes){(const uint8_t *)hosts->my_name, (uint32_t)strlen(hosts->my_name)};
        host->notice.state = hosts->state;
        if (outcaller->submit(outcaller->arg, &call) != 0) {
            break; /* the next tick tries again */
        }
        host->notify_round = ++hosts->notify_round;
        host->is_notifying = true;
        hosts->notifying_count++;
    }
    pthread_mutex_unlock(&hosts->lock);
}

/* ---- the thread ---- */

/* Those who have held nothing for long leave the list. */
static void forget_idle(struct nsm_hosts *hosts)
{
    const struct nsm_hosts_options *options = &hosts->options;
    int64_t before_ms = clock_ms() - NSM_IDLE_MS;
    struct host *doomed = NULL;
    bool in_grace = nsm_hosts_in_grace(hosts);

    pthread_mutex_lock(&hosts->lock);
    for (struct host **at = &hosts->first; *at != NULL;) {
        struct host *host = *at;
        struct machine machine = machine_of(host);
        if (host->is_to_notify || host->is_notifying || (host->is_from_before && in_grace) ||
            host->used_ms > before_ms || options->is_busy(options->arg, &machine)) {
            at = &host->next;
            continue;
        }
        *at = host->next;
        hosts->count--;
        host->next = doomed;
        doomed = host;
    }
    pthread_mutex_unlock(&hosts->lock);
    while (doomed != NULL) {
        struct host *next = doomed->next;
        char file[32];
        (void)snprintf(file, sizeof file, "%llu", (unsigned long long)doomed->number);
        /* One that stays is told of the next restart for nothing. */
        (void)(doomed->is_saved && vfs_state_drop(options->vfs, FOLDER, file));
        free(doomed);
        doomed = next;
    }
}

static void *hosts_main(void *arg)
{
    struct nsm_hosts *hosts = arg;
    pthread_mutex_lock(&hosts->lock);
    for (uint32_t ticks = 1; !hosts->stopping; ticks++) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += NSM_TICK_MS / 1000;
        while (!hosts->stopping &&
               pthread_cond_timedwait(&hosts->wake, &hosts->lock, &until) == 0) {
        }
        bool stopping = hosts->stopping;
        pthread_mutex_unlock(&hosts->lock);
        if (!stopping) {
            notify_some(hosts);
            hosts->options.tick(hosts->options.arg);
        }
        if (!stopping && ticks % IDLE_LOOK_TICKS == 0) {
            forget_idle(hosts);
        }
        pthread_mutex_lock(&hosts->lock);
    }
    pthread_mutex_unlock(&hosts->lock);
    return NULL;
}

/* ---- the contract ---- */

/* The lock is held, or nobody else is there yet. */
static void begin_again(struct nsm_hosts *hosts)
{
    int64_t now_ms = clock_ms();
    /* XNFS §11.3: odd while the host is up. */
    hosts->state = (int32_t)((vfs_state_starts(hosts->options.vfs) * 2 + 1) & INT32_MAX);
    hosts->notify_until_ms = now_ms + NSM_NOTIFY_MS;
    if (hosts->count > 0 && hosts->options.grace_ms > 0) {
        atomic_store(&hosts->grace_until_ms, now_ms + hosts->options.grace_ms);
        log_notice("nsm: %u clients may have held locks before the start: locks are only given "
                   "back for %u seconds",
                   hosts->count, hosts->options.grace_ms / 1000);
    }
}

static int start_thread(struct nsm_hosts *hosts, struct err *err)
{
    pthread_condattr_t monotonic;
    pthread_mutex_init(&hosts->lock, NULL);
    pthread_mutex_init(&hosts->save_lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&hosts->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int error = pthread_create(&hosts->thread, NULL, hosts_main, hosts);
    if (error != 0) {
        return err_set(err, -error, "cannot start a thread: %s", strerror(error));
    }
    hosts->has_thread = true;
    return 0;
}

int nsm_hosts_open(const struct nsm_hosts_options *options, struct nsm_hosts **opened,
                   struct err *err)
{
    struct nsm_hosts *hosts = calloc(1, sizeof *hosts);
    if (hosts == NULL) {
        return err_set(err, -ENOMEM, "out of memory");
    }
    hosts->options = *options;
    if (gethostname(hosts->my_name, sizeof hosts->my_name - 1) != 0) {
        strcpy(hosts->my_name, "localhost");
    }
    int error = vfs_state_each(options->vfs, FOLDER, read_host, hosts);
    if (error != 0) {
        (void)err_set(err, error, "cannot read " FOLDER " in the state directory: %s",
                      strerror(-error));
    } else {
        begin_again(hosts);
        error = start_thread(hosts, err);
    }
    if (error != 0) {
        nsm_hosts_close(hosts);
        return error;
    }
    *opened = hosts;
    return 0;
}

void nsm_hosts_notify(struct nsm_hosts *hosts)
{
    pthread_mutex_lock(&hosts->lock);
    hosts->may_notify = true;
    pthread_mutex_unlock(&hosts->lock);
    notify_some(hosts);
}

void nsm_hosts_close(struct nsm_hosts *hosts)
{
    if (hosts == NULL) {
        return;
    }
    if (hosts->has_thread) {
        pthread_mutex_lock(&hosts->lock);
        hosts->stopping = true;
        pthread_cond_signal(&hosts->wake);
        pthread_mutex_unlock(&hosts->lock);
        pthread_join(hosts->thread, NULL);
        pthread_cond_destroy(&hosts->wake);
        pthread_mutex_destroy(&hosts->save_lock);
        pthread_mutex_destroy(&hosts->lock);
    }
    while (hosts->first != NULL) {
        struct host *next = hosts->first->next;
        free(hosts->first);
        hosts->first = next;
    }
    free(hosts);
}

static struct host *find(struct nsm_hosts *hosts, const struct machine *machine,
                         uint32_t *address_count)
{
    *address_count = 0;
    for (struct host *host = hosts->first; host != NULL; host = host->next) {
        if (memcmp(host->address, machine->address, sizeof host->address) != 0) {
            continue;
        }
        if (host->name_bytes == machine->name.size &&
            (host->name_bytes == 0 ||
             memcmp(host->name, machine->name.data, host->name_bytes) == 0)) {
            return host;
        }
        ++*address_count;
    }
    return NULL;
}

/* The host was used just now, so that it stays. */
static int save(struct nsm_hosts *hosts, struct host *host)
{
    char text[FILE_BYTES_MAX];
    char file[32];
    int error = 0;

    pthread_mutex_lock(&hosts->save_lock);
    if (!host->is_saved) {
        size_t size = file_text(host, text);
        (void)snprintf(file, sizeof file, "%llu", (unsigned long long)host->number);
        error = vfs_state_put(hosts->options.vfs, FOLDER, file, text, size);
        pthread_mutex_lock(&hosts->lock);
        host->is_saved = error == 0;
        pthread_mutex_unlock(&hosts->lock);
    }
    pthread_mutex_unlock(&hosts->save_lock);
    if (error != 0) {
        static struct log_limit limit;
        log_write_limited(&limit, LOG_ERROR,
                          "nsm: a client cannot be put on the list (%s), and gets no locks",
                          strerror(-error));
    }
    return error;
}

int nsm_hosts_add(struct nsm_hosts *hosts, const struct machine *machine, const uint8_t local[16],
                  bool durably)
{
    uint32_t address_count;
    pthread_mutex_lock(&hosts->lock);
    struct host *host = find(hosts, machine, &address_count);
    if (host == NULL && hosts->count < NSM_HOST_COUNT_MAX &&
        address_count < NSM_ADDRESS_HOST_COUNT_MAX) {
        host = host_new(hosts, machine);
        if (host != NULL) {
            memcpy(host->local, local, sizeof host->local);
            host->number = ++hosts->number_last;
        }
    }
    bool must_save = host != NULL && durably && !host->is_saved;
    if (host != NULL) {
        host->used_ms = clock_ms();
    }
    pthread_mutex_unlock(&hosts->lock);
    if (host == NULL) {
        return -ENOLCK;
    }
    return must_save ? save(hosts, host) : 0;
}

bool nsm_hosts_in_grace(const struct nsm_hosts *hosts)
{
    int64_t until_ms = atomic_load_explicit(&hosts->grace_until_ms, memory_order_relaxed);
    return until_ms != 0 && clock_ms() < until_ms;
}

bool nsm_hosts_may_reclaim(struct nsm_hosts *hosts, const struct machine *machine)
{
    bool found = false;
    pthread_mutex_lock(&hosts->lock);
    for (struct host *host = hosts->first; host != NULL && !found; host = host->next) {
        struct xdr_bytes name = {host->name, host->name_bytes};
        found = host->is_from_before &&
                (memcmp(host->address, machine->address, sizeof host->address) == 0 ||
                 machine_name_is_same(name, machine->name));
    }
    pthread_mutex_unlock(&hosts->lock);
    return found;
}

/* ---- restarts of others ---- */

/* Which of the machines is meant: from the best sign to the worst. */
enum match { MATCH_NONE, MATCH_ADDRESS, MATCH_NAME, MATCH_BOTH };

static enum match match(const struct host *host, const struct machine *machine)
{
    static const struct xdr_bytes nobody = {(const uint8_t *)"localhost", 9};
    struct xdr_bytes name = {host->name, host->name_bytes};
    bool same_name = machine_name_is_same(name, machine->name);
    if (memcmp(host->address, machine->address, sizeof host->address) == 0) {
        return same_name ? MATCH_BOTH : MATCH_ADDRESS;
    }
    return same_name && !machine_name_is_same(nobody, machine->name) ? MATCH_NAME : MATCH_NONE;
}

/* The best kind of match there is. MATCH_NONE also when an address alone says too little. */
static enum match best_match(const struct nsm_hosts *hosts, const struct machine *machine)
{
    uint32_t counts[MATCH_BOTH + 1] = {0};
    for (const struct host *host = hosts->first; host != NULL; host = host->next) {
        counts[match(host, machine)]++;
    }
    if (counts[MATCH_BOTH] > 0) {
        return MATCH_BOTH;
    }
    if (counts[MATCH_NAME] > 0) {
        return MATCH_NAME;
    }
    return counts[MATCH_ADDRESS] == 1 ? MATCH_ADDRESS : MATCH_NONE;
}

static void tell_restarted(struct nsm_hosts *hosts, const struct machine *machine, int32_t state)
{
    static struct log_limit limit;
    char text[MACHINE_TEXT_BYTES_MAX];
    log_write_limited(&limit, LOG_INFO, "nsm: %s has restarted: its locks are released",
                      machine_text(machine, text));
    hosts->options.restarted(hosts->options.arg, machine, (uint32_t)state);
}

void nsm_hosts_restarted(struct nsm_hosts *hosts, const struct machine *machine, int32_t state)
{
    uint8_t name[MACHINE_NAME_BYTES_MAX];
    bool more = true;

    pthread_mutex_lock(&hosts->lock);
    enum match wanted = best_match(hosts, machine);
    for (struct host *host = hosts->first; host != NULL; host = host->next) {
        if (wanted != MATCH_NONE && match(host, machine) == wanted &&
            (state == 0 || host->restart_state != state)) {
            host->is_restarting = true;
            host->restart_state = state;
        }
    }
    /* One at a time, without the lock. */
    while (more) {
        struct host *host = hosts->first;
        while (host != NULL && !host->is_restarting) {
            host = host->next;
        }
        more = host != NULL;
        if (more) {
            struct machine found = machine_of(host);
            host->is_restarting = false;
            memcpy(name, host->name, host->name_bytes);
            found.name.data = name;
            pthread_mutex_unlock(&hosts->lock);
            tell_restarted(hosts, &found, state);
            pthread_mutex_lock(&hosts->lock);
        }
    }
    pthread_mutex_unlock(&hosts->lock);
}

void nsm_hosts_crash(struct nsm_hosts *hosts)
{
    hosts->options.release_all(hosts->options.arg);
    pthread_mutex_lock(&hosts->save_lock);
    int error = vfs_state_restart(hosts->options.vfs);
    pthread_mutex_lock(&hosts->lock);
    for (struct host *host = hosts->first; host != NULL; host = host->next) {
        host->is_from_before = host->is_saved;
        host->is_to_notify = host->is_saved;
    }
    begin_again(hosts);
    pthread_mutex_unlock(&hosts->lock);
    pthread_mutex_unlock(&hosts->save_lock);
    if (error != 0) {
        log_error("nsm: the new state cannot be saved: %s", strerror(-error));
    }
    notify_some(hosts);
}

int32_t nsm_hosts_state(struct nsm_hosts *hosts)
{
    pthread_mutex_lock(&hosts->lock);
    int32_t state = hosts->state;
    pthread_mutex_unlock(&hosts->lock);
    return state;
}
