/* SPDX-License-Identifier: Apache-2.0 */
#include "server/nsm.h"

#include "proto/nsm.h"
#include "server/machine.h"
#include "server/nsm_hosts.h"
#include "vfs/outside.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#define CALL_BACK_MS_MAX 120000U /* for how long a program of this machine is tried */
#define HOST_BYTES_MAX 256U      /* a name that can be looked up; RFC 1123 §2.1 */

/* Somebody's wish to be told of a machine's restart. */
struct nsm_watch {
    struct nsm_watch *next;
    uint8_t address[16]; /* of the machine */
    int32_t my_prog, my_vers, my_proc;
    uint8_t priv[SM_PRIVLEN];
    uint32_t mon_name_bytes, my_name_bytes;
    uint8_t names[]; /* mon_name, my_name */
};

static struct xdr_bytes mon_name_of(const struct nsm_watch *watch)
{
    return (struct xdr_bytes){watch->names, watch->mon_name_bytes};
}

static bool same_bytes(struct xdr_bytes a, const uint8_t *bytes, uint32_t size)
{
    return a.size == size && (size == 0 || memcmp(a.data, bytes, size) == 0);
}

static bool is_mine(const struct nsm_watch *watch, const struct my_id *id)
{
    return watch->my_prog == id->my_prog && watch->my_vers == id->my_vers &&
           watch->my_proc == id->my_proc &&
           same_bytes(id->my_name, watch->names + watch->mon_name_bytes, watch->my_name_bytes);
}

static bool is_local(const struct rpc_call *call)
{
    return call->peer->is_local || machine_is_loopback(call->peer);
}

/* An address as it is written, which may have a scope. */
static bool read_address(const char *text, struct xdr_bytes name, struct machine *machine)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found = NULL;
    struct rpc_peer peer = {0};

    if (getaddrinfo(text, NULL, &hints, &found) != 0) {
        return false;
    }
    memcpy(&peer.address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    machine_of_peer(&peer, name, machine);
    return true;
}

/* The address of a machine by its name, which may take as long as DNS does. */
static bool look_up(struct xdr_bytes name, struct machine *machine)
{
    char text[HOST_BYTES_MAX];

    if (name.size == 0 || name.size >= sizeof text || memchr(name.data, 0, name.size) != NULL) {
        return false;
    }
    memcpy(text, name.data, name.size);
    text[name.size] = '\0';
    if (read_address(text, name, machine)) {
        return true;
    }
    struct outside_addresses *found = malloc(sizeof *found);
    bool known = found != NULL && outside_addresses(text, found) == 0 && found->count > 0;
    if (known) {
        *machine = (struct machine){.name = name};
        memcpy(machine->address, found->items[0], sizeof machine->address);
    }
    free(found);
    return known;
}

bool nsm_is_watched(struct nsm_service *service, const struct machine *machine)
{
    bool found = false;
    pthread_mutex_lock(&service->lock);
    for (struct nsm_watch *watch = service->watches; watch != NULL && !found; watch = watch->next) {
        found = memcmp(watch->address, machine->address, sizeof watch->address) == 0 &&
                same_bytes(machine->name, watch->names, watch->mon_name_bytes);
    }
    pthread_mutex_unlock(&service->lock);
    return found;
}

/* ---- the procedures, XNFS §11.3 ---- */

static void nsm_null(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    (void)call;
    (void)args;
    (void)res;
}
RPC_THUNK(nsm_null, rpc_void, rpc_void)

/* Whether we would monitor that machine. Names are not looked up for strangers. */
static void nsm_stat(struct rpc_call *call, const struct sm_name *args, struct sm_stat_res *res)
{
    const struct nsm_service *service = call->service;
    struct machine machine;

    res->res_stat = is_local(call) && look_up(args->mon_name, &machine) ? STAT_SUCC : STAT_FAIL;
    res->state = nsm_hosts_state(service->hosts);
}
RPC_THUNK(nsm_stat, sm_name, sm_stat_res)

static struct nsm_watch *watch_new(const struct mon *args, const struct machine *machine)
{
    const struct my_id *id = &args->mon_id.my_id;
    struct nsm_watch *watch = calloc(1, sizeof *watch + machine->name.size + id->my_name.size);
    if (watch == NULL) {
        return NULL;
    }
    memcpy(watch->address, machine->address, sizeof watch->address);
    watch->my_prog = id->my_prog;
    watch->my_vers = id->my_vers;
    watch->my_proc = id->my_proc;
    memcpy(watch->priv, args->priv, sizeof watch->priv);
    watch->mon_name_bytes = machine->name.size;
    watch->my_name_bytes = id->my_name.size;
    memcpy(watch->names, machine->name.data, machine->name.size);
    if (id->my_name.size > 0) {
        memcpy(watch->names + machine->name.size, id->my_name.data, id->my_name.size);
    }
    return watch;
}

/* Takes those of a program out, of one machine or (NULL) of all. */
static void unwatch(struct nsm_service *service, const struct my_id *id,
                    const struct xdr_bytes *mon_name)
{
    pthread_mutex_lock(&service->lock);
    for (struct nsm_watch **at = &service->watches; *at != NULL;) {
        struct nsm_watch *watch = *at;
        if (is_mine(watch, id) &&
            (mon_name == NULL || same_bytes(*mon_name, watch->names, watch->mon_name_bytes))) {
            *at = watch->next;
            service->watch_count--;
            free(watch);
        } else {
            at = &watch->next;
        }
    }
    pthread_mutex_unlock(&service->lock);
}

static void nsm_mon(struct rpc_call *call, const struct mon *args, struct sm_stat_res *res)
{
    static const uint8_t any[16];
    struct nsm_service *service = call->service;
    struct machine machine;
    bool taken = false;

    res->res_stat = STAT_FAIL;
    res->state = nsm_hosts_state(service->hosts);
    if (!is_local(call) || !look_up(args->mon_id.mon_name, &machine) ||
        nsm_hosts_add(service->hosts, &machine, any, true) != 0) {
        return;
    }
    struct nsm_watch *watch = watch_new(args, &machine);
    unwatch(service, &args->mon_id.my_id, &args->mon_id.mon_name);
    pthread_mutex_lock(&service->lock);
    if (watch != NULL && service->watch_count < NSM_WATCH_COUNT_MAX) {
        watch->next = service->watches;
        service->watches = watch;
        service->watch_count++;
        taken = true;
    }
    pthread_mutex_unlock(&service->lock);
    if (taken) {
        res->res_stat = STAT_SUCC;
    } else {
        free(watch);
    }
}
RPC_THUNK(nsm_mon, mon, sm_stat_res)

static void nsm_unmon(struct rpc_call *call, const struct mon_id *args, struct sm_stat *res)
{
    struct nsm_service *service = call->service;
    if (is_local(call)) {
        unwatch(service, &args->my_id, &args->mon_name);
    }
    res->state = nsm_hosts_state(service->hosts);
}
RPC_THUNK(nsm_unmon, mon_id, sm_stat)

static void nsm_unmon_all(struct rpc_call *call, const struct my_id *args, struct sm_stat *res)
{
    struct nsm_service *service = call->service;
    if (is_local(call)) {
        unwatch(service, args, NULL);
    }
    res->state = nsm_hosts_state(service->hosts);
}
RPC_THUNK(nsm_unmon_all, my_id, sm_stat)

static void nsm_simu_crash(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    struct nsm_service *service = call->service;
    (void)args;
    (void)res;
    if (is_local(call)) {
        nsm_hosts_crash(service->hosts);
    }
}
RPC_THUNK(nsm_simu_crash, rpc_void, rpc_void)

/* ---- telling programs of this machine ---- */

static bool put_status(struct xdr *xdr, const void *status)
{
    return sm_status_put(xdr, status);
}

static const struct proto_codec status_codec = {
    .name = "sm_status", .size_bytes = sizeof(struct sm_status), .put = put_status};
/* Whatever program my_id names. */
static const struct proto_procedure told_procedure = {.name = "my_proc", .args = &status_codec};

struct telling {
    struct sm_status status;
    uint8_t mon_name[];
};

static void told(void *owner, const struct rpc_outcall_end *end)
{
    (void)end; /* it is gone, or it knows */
    free(owner);
}

static void tell(struct nsm_service *service, const struct nsm_watch *watch, int32_t state)
{
    struct telling *telling = calloc(1, sizeof *telling + watch->mon_name_bytes);
    if (telling == NULL) {
        return;
    }
    memcpy(telling->mon_name, watch->names, watch->mon_name_bytes);
    telling->status.mon_name = (struct xdr_bytes){telling->mon_name, watch->mon_name_bytes};
    telling->status.state = state;
    memcpy(telling->status.priv, watch->priv, sizeof telling->status.priv);
    struct rpc_outcall call = {.prog = (uint32_t)watch->my_prog,
                               .vers = (uint32_t)watch->my_vers,
                               .proc = (uint32_t)watch->my_proc,
                               .procedure = &told_procedure,
                               .args = &telling->status,
                               .give_up_ms = CALL_BACK_MS_MAX,
                               .ended = told,
                               .owner = telling};
    struct sockaddr_in *to = (struct sockaddr_in *)(void *)&call.to;
    to->sin_family = AF_INET;
    to->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (service->outcaller.submit(service->outcaller.arg, &call) != 0) {
        free(telling);
    }
}

static void nsm_notify(struct rpc_call *call, const struct stat_chge *args, struct rpc_void *res)
{
    struct nsm_service *service = call->service;
    struct machine machine;

    (void)res;
    machine_of_peer(call->peer, args->mon_name, &machine);
    nsm_hosts_restarted(service->hosts, &machine, args->state);
    pthread_mutex_lock(&service->lock);
    for (const struct nsm_watch *watch = service->watches; watch != NULL; watch = watch->next) {
        if (machine_name_is_same(mon_name_of(watch), args->mon_name) ||
            memcmp(watch->address, machine.address, sizeof watch->address) == 0) {
            tell(service, watch, args->state);
        }
    }
    pthread_mutex_unlock(&service->lock);
}
RPC_THUNK(nsm_notify, stat_chge, rpc_void)

static const struct rpc_procedure nsm_procedures[] = {
    [SM_NULL] = RPC_ROW("SM_NULL", nsm_null, rpc_void, rpc_void, .reply_bytes_max = 4),
    [SM_STAT] = RPC_ROW("SM_STAT", nsm_stat, sm_name, sm_stat_res, .reply_bytes_max = 8),
    [SM_MON] = RPC_ROW("SM_MON", nsm_mon, mon, sm_stat_res, .reply_bytes_max = 8),
    [SM_UNMON] = RPC_ROW("SM_UNMON", nsm_unmon, mon_id, sm_stat, .reply_bytes_max = 4),
    [SM_UNMON_ALL] = RPC_ROW("SM_UNMON_ALL", nsm_unmon_all, my_id, sm_stat, .reply_bytes_max = 4),
    [SM_SIMU_CRASH] = RPC_ROW("SM_SIMU_CRASH", nsm_simu_crash, rpc_void, rpc_void,
                              .reply_bytes_max = 4, .cached = true),
    [SM_NOTIFY] = RPC_ROW("SM_NOTIFY", nsm_notify, stat_chge, rpc_void, .reply_bytes_max = 4),
};

static const struct rpc_version nsm_versions[] = {
    {SM_VERS, COUNT_OF(nsm_procedures), nsm_procedures},
};

void nsm_program_init(struct rpc_program *program, struct nsm_service *service)
{
    pthread_mutex_init(&service->lock, NULL);
    service->watch_count = 0;
    service->watches = NULL;
    *program = (struct rpc_program){.prog = SM_PROG,
                                    .name = "nsm",
                                    .version_count = COUNT_OF(nsm_versions),
                                    .versions = nsm_versions,
                                    .service = service};
}

void nsm_service_fini(struct nsm_service *service)
{
    while (service->watches != NULL) {
        struct nsm_watch *next = service->watches->next;
        free(service->watches);
        service->watches = next;
    }
    pthread_mutex_destroy(&service->lock);
}
