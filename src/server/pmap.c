/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 1833: version 2 in §3, versions 3 and 4 in §2. One registry behind all three.
 *
 * 1. SET and UNSET are for programs of this host (§2.2): over the local socket, where the kernel
 *    says who calls, or from a reserved port of a loopback address, which only root can take. An
 *    entry is removed by root or by the user who made it; the daemon's own by nobody.
 * 2. An entry that listens on every address is given out as the address at which the client asked.
 * 3. Nothing is forwarded. CALLIT, BCAST and INDIRECT would lend our address to strangers, for
 *    getting around address checks and for flooding others. Discovery by broadcast (`rpcinfo -b`)
 *    needs only the null procedure, and for programs of this process its answer is known without
 *    asking: it is given, and is no longer than the call. For everything else CALLIT and BCAST are
 *    silent, as §2.2.1 wants of a call that fails, and INDIRECT is PROC_UNAVAIL, as in an rpcbind
 *    built without remote calls.
 */
#include "server/pmap.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/un.h>
#include <time.h>

#define LIST_BYTES_MAX (60U * 1024) /* every entry, at its longest; fits a datagram */
#define STRING_BYTES_MAX 128U
#define RESERVED_PORT_END 1024
#define UID_SUPERUSER 0U
#define UID_UNKNOWN UINT32_MAX
#define PROC_NULL 0U

/* RFC 5665 §5.2: the transports by name, with what GETADDRLIST says of them (RFC 1833 §2.1). */
struct pmap_netid {
    const char *name;
    int family;
    uint32_t protocol;
    uint32_t semantics; /* 1 datagram, 3 stream with orderly release */
    const char *protofmly;
    const char *proto;
};

static const struct pmap_netid netids[] = {
    {"udp", AF_INET, IPPROTO_UDP, 1, "inet", "udp"},
    {"tcp", AF_INET, IPPROTO_TCP, 3, "inet", "tcp"},
    {"udp6", AF_INET6, IPPROTO_UDP, 1, "inet6", "udp"},
    {"tcp6", AF_INET6, IPPROTO_TCP, 3, "inet6", "tcp"},
    {"local", AF_UNIX, 0, 3, "loopback", "-"},
};

static const struct pmap_netid *netid_find(struct xdr_bytes name)
{
    for (size_t i = 0; i < COUNT_OF(netids); i++) {
        if (strlen(netids[i].name) == name.size &&
            memcmp(netids[i].name, name.data, name.size) == 0) {
            return &netids[i];
        }
    }
    return NULL;
}

static const struct pmap_netid *netid_of(int family, uint32_t protocol)
{
    for (size_t i = 0; i < COUNT_OF(netids); i++) {
        if (netids[i].family == family && (family == AF_UNIX || netids[i].protocol == protocol)) {
            return &netids[i];
        }
    }
    return NULL;
}

/* The transport that a call came in on. */
static const struct pmap_netid *netid_of_call(const struct rpc_call *call)
{
    const struct rpc_peer *peer = call->peer;
    return netid_of(peer->is_local ? AF_UNIX : peer->address.sa.sa_family,
                    peer->is_tcp ? IPPROTO_TCP : IPPROTO_UDP);
}

static struct xdr_bytes text_bytes(const char *text)
{
    return (struct xdr_bytes){.data = (const uint8_t *)text, .size = (uint32_t)strlen(text)};
}

/* ---- the registry ---- */

void pmap_registry_init(struct pmap_registry *registry)
{
    memset(registry, 0, sizeof *registry);
    pthread_mutex_init(&registry->lock, NULL);
}

static struct pmap_entry *registry_find(struct pmap_registry *registry, uint32_t prog,
                                        uint32_t vers, const struct pmap_netid *netid)
{
    for (uint32_t i = 0; i < registry->entry_count; i++) {
        struct pmap_entry *entry = &registry->entries[i];
        if (entry->prog == prog && entry->vers == vers && entry->netid == netid) {
            return entry;
        }
    }
    return NULL;
}

/* Any version of the program will do, the highest first: asked at that address, the program itself
 * says which versions it has (RFC 5531 §9, PROG_MISMATCH). `rpcinfo -t HOST PROG` relies on it. */
static struct pmap_entry *registry_find_any(struct pmap_registry *registry, uint32_t prog,
                                            uint32_t vers, const struct pmap_netid *netid)
{
    struct pmap_entry *found = registry_find(registry, prog, vers, netid);

    for (uint32_t i = 0; found == NULL && i < registry->entry_count; i++) {
        struct pmap_entry *entry = &registry->entries[i];
        if (entry->prog == prog && entry->netid == netid) {
            found = entry;
        }
    }
    return found;
}

/* Users other than root may not take reserved ports, nor more than their share of the room. */
static bool may_set(const struct pmap_registry *registry, const struct pmap_entry *entry)
{
    uint32_t users = 0;

    if (entry->owner_uid == UID_SUPERUSER) {
        return true;
    }
    for (uint32_t i = 0; i < registry->entry_count; i++) {
        users += registry->entries[i].owner_uid != UID_SUPERUSER ? 1 : 0;
    }
    bool reserved = entry->netid->family != AF_UNIX && entry->uaddr.port < RESERVED_PORT_END;
    return !reserved && users < PMAP_USER_ENTRY_COUNT_MAX;
}

/* False: somebody else is registered there (the same again is a success), or there is no room. */
static bool registry_set(struct pmap_registry *registry, const struct pmap_entry *entry)
{
    const struct pmap_entry *old = registry_find(registry, entry->prog, entry->vers, entry->netid);

    if (old != NULL) {
        return memcmp(&old->uaddr, &entry->uaddr, sizeof old->uaddr) == 0 &&
               strcmp(old->path, entry->path) == 0;
    }
    if (registry->entry_count == PMAP_ENTRY_COUNT_MAX || !may_set(registry, entry)) {
        return false;
    }
    registry->entries[registry->entry_count++] = *entry;
    return true;
}

/* netid NULL: every transport. True: something was removed. */
static bool registry_unset(struct pmap_registry *registry, uint32_t prog, uint32_t vers,
                           const struct pmap_netid *netid, uint32_t uid)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < registry->entry_count; i++) {
        const struct pmap_entry *entry = &registry->entries[i];
        bool asked =
            entry->prog == prog && entry->vers == vers && (netid == NULL || entry->netid == netid);
        bool allowed = !entry->ours && (uid == UID_SUPERUSER || uid == entry->owner_uid);
        if (!(asked && allowed)) {
            registry->entries[kept++] = *entry;
        }
    }
    bool removed = kept < registry->entry_count;
    registry->entry_count = kept;
    return removed;
}

void pmap_registry_add(struct pmap_registry *registry, uint32_t prog, uint32_t vers,
                       const char *netid, uint16_t port)
{
    struct pmap_entry entry = {.prog = prog,
                               .vers = vers,
                               .netid = netid_find(text_bytes(netid)),
                               .owner_uid = UID_SUPERUSER,
                               .ours = true};

    CHECK(entry.netid != NULL && entry.netid->family != AF_UNIX);
    entry.uaddr.address = uaddr_any(entry.netid->family);
    entry.uaddr.port = port;
    pthread_mutex_lock(&registry->lock);
    bool added = registry_set(registry, &entry);
    pthread_mutex_unlock(&registry->lock);
    CHECK(added);
}

void pmap_registry_add_local(struct pmap_registry *registry, uint32_t prog, uint32_t vers,
                             const char *path)
{
    struct pmap_entry entry = {.prog = prog,
                               .vers = vers,
                               .netid = netid_of(AF_UNIX, 0),
                               .owner_uid = UID_SUPERUSER,
                               .ours = true};

    CHECK_OP(strlen(path), <, sizeof entry.path);
    memcpy(entry.path, path, strlen(path) + 1);
    pthread_mutex_lock(&registry->lock);
    bool added = registry_set(registry, &entry);
    pthread_mutex_unlock(&registry->lock);
    CHECK(added);
}

/* Counts the call for GETSTAT. */
static struct pmap_registry *registry_lock(const struct rpc_call *call)
{
    struct pmap_registry *registry = call->service;
    int32_t *count = &registry->stats[call->vers - PMAP_VERS].info[call->proc];

    pthread_mutex_lock(&registry->lock);
    if (*count < INT32_MAX) {
        (*count)++;
    }
    return registry;
}

static void registry_unlock(struct pmap_registry *registry)
{
    pthread_mutex_unlock(&registry->lock);
}

/* ---- who asks, and what he is told ---- */

/* Rule 1. False: not a program of this host. */
static bool caller_is_of_this_host(const struct rpc_call *call, uint32_t *uid)
{
    const struct rpc_peer *peer = call->peer;
    bool loopback;
    uint16_t port;

    if (peer->is_local) {
        *uid = peer->local_uid;
        return true;
    }
    if (peer->address.sa.sa_family == AF_INET6) {
        loopback = IN6_IS_ADDR_LOOPBACK(&peer->address.in6.sin6_addr);
        port = ntohs(peer->address.in6.sin6_port);
    } else {
        loopback = ntohl(peer->address.in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
        port = ntohs(peer->address.in.sin_port);
    }
    *uid = UID_SUPERUSER;
    return loopback && port < RESERVED_PORT_END;
}

/* Rule 2. The address that was asked is of use only for entries of its own family. */
static struct in6_addr asked_address(const struct rpc_peer *peer, int family)
{
    struct in6_addr address;
    struct uaddr loopback;

    memcpy(&address, peer->local_address, sizeof address);
    if (peer->is_local) {
        const char *text = family == AF_INET ? "127.0.0.1.0.0" : "::1.0.0";
        CHECK(uaddr_parse(text_bytes(text), family, &loopback));
        return loopback.address;
    }
    bool known = !IN6_IS_ADDR_UNSPECIFIED(&address);
    bool same_family = IN6_IS_ADDR_V4MAPPED(&address) == (family == AF_INET);
    return known && same_family ? address : uaddr_any(family);
}

/* Where an entry listens, in call memory. asker NULL: as it was registered. */
static struct xdr_bytes entry_text(struct rpc_call *call, const struct pmap_entry *entry,
                                   const struct rpc_peer *asker)
{
    struct uaddr uaddr = entry->uaddr;
    int family = entry->netid->family;
    char *text = rpc_call_memory(call, STRING_BYTES_MAX);

    if (family == AF_UNIX) {
        memcpy(text, entry->path, sizeof entry->path);
        return text_bytes(text);
    }
    if (asker != NULL && uaddr_is_any(&uaddr.address, family)) {
        uaddr.address = asked_address(asker, family);
    }
    uaddr_format(&uaddr, family, text);
    return text_bytes(text);
}

static struct xdr_bytes owner_text(struct rpc_call *call, uint32_t uid)
{
    char *text = rpc_call_memory(call, STRING_BYTES_MAX);

    if (uid == UID_SUPERUSER) {
        return text_bytes("superuser"); /* the words of Sun's rpcbind */
    }
    if (uid == UID_UNKNOWN) {
        return text_bytes("unknown");
    }
    (void)snprintf(text, STRING_BYTES_MAX, "%u", uid);
    return text_bytes(text);
}

/* A list under construction in call memory; there is always room for its end. */
static struct xdr list_begin(struct rpc_call *call)
{
    return xdr_writer(rpc_call_memory(call, LIST_BYTES_MAX), LIST_BYTES_MAX - 4);
}

static struct xdr_bytes list_end(struct xdr *list)
{
    list->end += 4;
    CHECK(xdr_list_end(list));
    return (struct xdr_bytes){.data = list->start, .size = (uint32_t)xdr_offset(list)};
}

/* ---- version 2, RFC 1833 §3.2 ---- */

static void pmap_null(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    (void)args;
    (void)res;
    registry_unlock(registry_lock(call));
}
RPC_THUNK(pmap_null, rpc_void, rpc_void)

/* Version 2 knows IPv4 only. */
static void pmap2_set(struct rpc_call *call, const struct mapping *args, struct proto_bool *res)
{
    struct pmap_registry *registry = registry_lock(call);
    struct pmap_entry entry = {.prog = args->prog,
                               .vers = args->vers,
                               .netid = netid_of(AF_INET, args->prot),
                               .uaddr = {.address = uaddr_any(AF_INET)}};

    if (caller_is_of_this_host(call, &entry.owner_uid) && entry.netid != NULL && args->port > 0 &&
        args->port <= UINT16_MAX) {
        entry.uaddr.port = (uint16_t)args->port;
        res->value = registry_set(registry, &entry);
    }
    registry_unlock(registry);
}
RPC_THUNK(pmap2_set, mapping, proto_bool)

/* prot and port are not looked at. */
static void pmap2_unset(struct rpc_call *call, const struct mapping *args, struct proto_bool *res)
{
    struct pmap_registry *registry = registry_lock(call);
    uint32_t uid;

    if (caller_is_of_this_host(call, &uid)) {
        bool udp =
            registry_unset(registry, args->prog, args->vers, netid_of(AF_INET, IPPROTO_UDP), uid);
        bool tcp =
            registry_unset(registry, args->prog, args->vers, netid_of(AF_INET, IPPROTO_TCP), uid);
        res->value = udp || tcp;
    }
    registry_unlock(registry);
}
RPC_THUNK(pmap2_unset, mapping, proto_bool)

static void pmap2_getport(struct rpc_call *call, const struct mapping *args, struct proto_u32 *res)
{
    struct pmap_registry *registry = registry_lock(call);
    int family = call->peer->address.sa.sa_family;
    const struct pmap_netid *netid = netid_of(family, args->prot);

    if (netid != NULL) {
        const struct pmap_entry *entry = registry_find_any(registry, args->prog, args->vers, netid);
        res->value = entry != NULL ? entry->uaddr.port : 0;
    }
    registry_unlock(registry);
}
RPC_THUNK(pmap2_getport, mapping, proto_u32)

static void pmap2_dump(struct rpc_call *call, const struct rpc_void *args, struct pmaplist_ptr *res)
{
    struct pmap_registry *registry = registry_lock(call);
    struct xdr list = list_begin(call);

    (void)args;
    uint32_t count = rpc_call_may_be_forged(call) ? 0 : registry->entry_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct pmap_entry *entry = &registry->entries[i];
        struct pmaplist element = {.map = {.prog = entry->prog,
                                           .vers = entry->vers,
                                           .prot = entry->netid->protocol,
                                           .port = entry->uaddr.port}};
        if (entry->netid->family == AF_INET) {
            CHECK(pmaplist_list_put(&list, &element));
        }
    }
    res->list = list_end(&list);
    registry_unlock(registry);
}
RPC_THUNK(pmap2_dump, rpc_void, pmaplist_ptr)

/* Rule 3: the entry whose null procedure a broadcast may call, or NULL. */
static struct pmap_entry *discovered(struct pmap_registry *registry, uint32_t prog, uint32_t vers,
                                     uint32_t proc, const struct rpc_call *call)
{
    struct pmap_entry *entry = registry_find(registry, prog, vers, netid_of_call(call));
    return entry != NULL && entry->ours && proc == PROC_NULL ? entry : NULL;
}

static void pmap2_callit(struct rpc_call *call, const struct call_args *args,
                         struct call_result *res)
{
    struct pmap_registry *registry = registry_lock(call);
    const struct pmap_entry *entry = discovered(registry, args->prog, args->vers, args->proc, call);

    if (entry != NULL) {
        res->port = entry->uaddr.port;
    } else {
        call->drop = true;
    }
    registry_unlock(registry);
}
RPC_THUNK(pmap2_callit, call_args, call_result)

/* ---- versions 3 and 4, RFC 1833 §2.2 ---- */

/* A local socket's address is its path. */
static bool entry_set_path(struct pmap_entry *entry, struct xdr_bytes path)
{
    if (path.size == 0 || path.size >= sizeof entry->path || path.data[0] != '/' ||
        memchr(path.data, '\0', path.size) != NULL) {
        return false;
    }
    memcpy(entry->path, path.data, path.size);
    return true;
}

/* r_owner is not believed: the owner is who calls. */
static void rpcb_set(struct rpc_call *call, const struct rpcb *args, struct proto_bool *res)
{
    struct pmap_registry *registry = registry_lock(call);
    struct pmap_entry entry = {
        .prog = args->r_prog, .vers = args->r_vers, .netid = netid_find(args->r_netid)};

    if (caller_is_of_this_host(call, &entry.owner_uid) && entry.netid != NULL) {
        int family = entry.netid->family;
        bool valid = family == AF_UNIX ? entry_set_path(&entry, args->r_addr)
                                       : uaddr_parse(args->r_addr, family, &entry.uaddr);
        res->value = valid && registry_set(registry, &entry);
    }
    registry_unlock(registry);
}
RPC_THUNK(rpcb_set, rpcb, proto_bool)

/* An empty r_netid means every transport. */
static void rpcb_unset(struct rpc_call *call, const struct rpcb *args, struct proto_bool *res)
{
    struct pmap_registry *registry = registry_lock(call);
    const struct pmap_netid *netid = netid_find(args->r_netid);
    uint32_t uid;

    if (caller_is_of_this_host(call, &uid) && (netid != NULL || args->r_netid.size == 0)) {
        res->value = registry_unset(registry, args->r_prog, args->r_vers, netid, uid);
    }
    registry_unlock(registry);
}
RPC_THUNK(rpcb_unset, rpcb, proto_bool)

/* "The r_netid field of the argument is ignored" (§2.2.1): the transport of the call counts. Over
 * the local socket, on which few programs listen, it does say what the caller means. */
static const struct pmap_netid *netid_asked(const struct rpc_call *call, const struct rpcb *args)
{
    const struct pmap_netid *named = netid_find(args->r_netid);
    return call->peer->is_local && named != NULL ? named : netid_of_call(call);
}

static void rpcb_getaddr(struct rpc_call *call, const struct rpcb *args, struct rpcb_string *res)
{
    struct pmap_registry *registry = registry_lock(call);
    const struct pmap_entry *entry =
        registry_find_any(registry, args->r_prog, args->r_vers, netid_asked(call, args));

    if (entry != NULL) {
        res->text = entry_text(call, entry, call->peer);
    }
    registry_unlock(registry);
}
RPC_THUNK(rpcb_getaddr, rpcb, rpcb_string)

/* §2.2.2. Like GETADDR, but this version or none. */
static void rpcb_getversaddr(struct rpc_call *call, const struct rpcb *args,
                             struct rpcb_string *res)
{
    struct pmap_registry *registry = registry_lock(call);
    const struct pmap_entry *entry =
        registry_find(registry, args->r_prog, args->r_vers, netid_asked(call, args));

    if (entry != NULL) {
        res->text = entry_text(call, entry, call->peer);
    }
    registry_unlock(registry);
}
RPC_THUNK(rpcb_getversaddr, rpcb, rpcb_string)

static void rpcb_dump(struct rpc_call *call, const struct rpc_void *args, struct rpcblist_ptr *res)
{
    struct pmap_registry *registry = registry_lock(call);
    struct xdr list = list_begin(call);

    (void)args;
    uint32_t count = rpc_call_may_be_forged(call) ? 0 : registry->entry_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct pmap_entry *entry = &registry->entries[i];
        struct rp__list element = {.rpcb_map = {.r_prog = entry->prog,
                                                .r_vers = entry->vers,
                                                .r_netid = text_bytes(entry->netid->name),
                                                .r_addr = entry_text(call, entry, NULL),
                                                .r_owner = owner_text(call, entry->owner_uid)}};
        CHECK(rp__list_list_put(&list, &element));
    }
    res->list = list_end(&list);
    registry_unlock(registry);
}
RPC_THUNK(rpcb_dump, rpc_void, rpcblist_ptr)

static void rpcb_callit(struct rpc_call *call, const struct rpcb_rmtcallargs *args,
                        struct rpcb_rmtcallres *res)
{
    struct pmap_registry *registry = registry_lock(call);
    const struct pmap_entry *entry = discovered(registry, args->prog, args->vers, args->proc, call);

    if (entry != NULL) {
        res->addr = entry_text(call, entry, call->peer);
    } else {
        call->drop = true;
    }
    registry_unlock(registry);
}
RPC_THUNK(rpcb_callit, rpcb_rmtcallargs, rpcb_rmtcallres)

static void rpcb_gettime(struct rpc_call *call, const struct rpc_void *args, struct proto_u32 *res)
{
    (void)args;
    registry_unlock(registry_lock(call));
    res->value = (uint32_t)time(NULL);
}
RPC_THUNK(rpcb_gettime, rpc_void, proto_u32)

/* A transport address is what the system's sockets use: a struct sockaddr of the call's family. */
static void rpcb_uaddr2taddr(struct rpc_call *call, const struct rpcb_string *args,
                             struct netbuf *res)
{
    struct sockaddr_storage *taddr = rpc_call_memory(call, sizeof *taddr);
    int family = call->peer->address.sa.sa_family;
    struct uaddr uaddr;
    uint32_t size = 0;

    registry_unlock(registry_lock(call));
    memset(taddr, 0, sizeof *taddr);
    if (uaddr_parse(args->text, family, &uaddr) && family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)taddr;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(uaddr.port);
        in6->sin6_addr = uaddr.address;
        size = sizeof *in6;
    } else if (uaddr_parse(args->text, family, &uaddr)) {
        struct sockaddr_in *in = (struct sockaddr_in *)(void *)taddr;
        in->sin_family = AF_INET;
        in->sin_port = htons(uaddr.port);
        memcpy(&in->sin_addr, &uaddr.address.s6_addr[12], 4);
        size = sizeof *in;
    }
    res->maxlen = size;
    res->buf = (struct xdr_bytes){.data = (const uint8_t *)taddr, .size = size};
}
RPC_THUNK(rpcb_uaddr2taddr, rpcb_string, netbuf)

static void rpcb_taddr2uaddr(struct rpc_call *call, const struct netbuf *args,
                             struct rpcb_string *res)
{
    char *text = rpc_call_memory(call, UADDR_BYTES_MAX);
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct uaddr uaddr = {.address = uaddr_any(AF_INET)};

    registry_unlock(registry_lock(call));
    if (call->peer->address.sa.sa_family == AF_INET6 && args->buf.size == sizeof in6) {
        memcpy(&in6, args->buf.data, sizeof in6);
        uaddr = (struct uaddr){.address = in6.sin6_addr, .port = ntohs(in6.sin6_port)};
        uaddr_format(&uaddr, AF_INET6, text);
        res->text = text_bytes(text);
    } else if (call->peer->address.sa.sa_family == AF_INET && args->buf.size == sizeof in) {
        memcpy(&in, args->buf.data, sizeof in);
        memcpy(&uaddr.address.s6_addr[12], &in.sin_addr, 4);
        uaddr.port = ntohs(in.sin_port);
        uaddr_format(&uaddr, AF_INET, text);
        res->text = text_bytes(text);
    }
}
RPC_THUNK(rpcb_taddr2uaddr, netbuf, rpcb_string)

/* §2.2.2. The other transports of the same protocol family, which the client can surely reach. */
static void rpcb_getaddrlist(struct rpc_call *call, const struct rpcb *args,
                             struct rpcb_entry_list_ptr *res)
{
    struct pmap_registry *registry = registry_lock(call);
    const struct pmap_netid *netid = netid_asked(call, args);
    struct xdr list = list_begin(call);

    for (uint32_t i = 0; i < registry->entry_count; i++) {
        const struct pmap_entry *entry = &registry->entries[i];
        if (entry->prog == args->r_prog && entry->vers == args->r_vers &&
            entry->netid->family == netid->family) {
            struct rpcb_entry_list element = {
                .rpcb_entry_map = {.r_maddr = entry_text(call, entry, call->peer),
                                   .r_nc_netid = text_bytes(entry->netid->name),
                                   .r_nc_semantics = entry->netid->semantics,
                                   .r_nc_protofmly = text_bytes(entry->netid->protofmly),
                                   .r_nc_proto = text_bytes(entry->netid->proto)}};
            CHECK(rpcb_entry_list_list_put(&list, &element));
        }
    }
    res->list = list_end(&list);
    registry_unlock(registry);
}
RPC_THUNK(rpcb_getaddrlist, rpcb, rpcb_entry_list_ptr)

/* §2.2.2. How often each procedure was called; which programs were asked for is not kept. */
static void rpcb_getstat(struct rpc_call *call, const struct rpc_void *args,
                         struct rpcb_stat_byvers *res)
{
    struct pmap_registry *registry = registry_lock(call);

    (void)args;
    memcpy(res->stat, registry->stats, sizeof res->stat);
    for (uint32_t i = 0; i < RPCBVERS_STAT; i++) {
        res->stat[i].setinfo = res->stat[i].info[PMAPPROC_SET];
        res->stat[i].unsetinfo = res->stat[i].info[PMAPPROC_UNSET];
    }
    registry_unlock(registry);
}
RPC_THUNK(rpcb_getstat, rpc_void, rpcb_stat_byvers)

/* ---- tables ---- */

#define ROW(name, function, ARGS, RES, res_bytes)                                                  \
    [name] = RPC_ROW(#name, function, ARGS, RES, .reply_bytes_max = (res_bytes))

#define STRING_ROOM (4U + STRING_BYTES_MAX)

static const struct rpc_procedure pmap2_procedures[] = {
    ROW(PMAPPROC_NULL, pmap_null, rpc_void, rpc_void, 4),
    ROW(PMAPPROC_SET, pmap2_set, mapping, proto_bool, 4),
    ROW(PMAPPROC_UNSET, pmap2_unset, mapping, proto_bool, 4),
    ROW(PMAPPROC_GETPORT, pmap2_getport, mapping, proto_u32, 4),
    ROW(PMAPPROC_DUMP, pmap2_dump, rpc_void, pmaplist_ptr, LIST_BYTES_MAX),
    ROW(PMAPPROC_CALLIT, pmap2_callit, call_args, call_result, 8),
};

#define RPCB_ROWS                                                                                  \
    ROW(RPCBPROC_NULL, pmap_null, rpc_void, rpc_void, 4),                                          \
    ROW(RPCBPROC_SET, rpcb_set, rpcb, proto_bool, 4),                                              \
    ROW(RPCBPROC_UNSET, rpcb_unset, rpcb, proto_bool, 4),                                          \
    ROW(RPCBPROC_GETADDR, rpcb_getaddr, rpcb, rpcb_string, STRING_ROOM),                           \
    ROW(RPCBPROC_DUMP, rpcb_dump, rpc_void, rpcblist_ptr, LIST_BYTES_MAX),                         \
    ROW(RPCBPROC_GETTIME, rpcb_gettime, rpc_void, proto_u32, 4),                                   \
    ROW(RPCBPROC_UADDR2TADDR, rpcb_uaddr2taddr, rpcb_string, netbuf, 4 + STRING_ROOM),             \
    ROW(RPCBPROC_TADDR2UADDR, rpcb_taddr2uaddr, netbuf, rpcb_string, STRING_ROOM)

static const struct rpc_procedure rpcb3_procedures[] = {
    RPCB_ROWS,
    ROW(RPCBPROC_CALLIT, rpcb_callit, rpcb_rmtcallargs, rpcb_rmtcallres, STRING_ROOM + 4),
};

/* INDIRECT is a hole: rule 3. */
static const struct rpc_procedure rpcb4_procedures[] = {
    RPCB_ROWS,
    ROW(RPCBPROC_BCAST, rpcb_callit, rpcb_rmtcallargs, rpcb_rmtcallres, STRING_ROOM + 4),
    ROW(RPCBPROC_GETVERSADDR, rpcb_getversaddr, rpcb, rpcb_string, STRING_ROOM),
    ROW(RPCBPROC_GETADDRLIST, rpcb_getaddrlist, rpcb, rpcb_entry_list_ptr, LIST_BYTES_MAX),
    ROW(RPCBPROC_GETSTAT, rpcb_getstat, rpc_void, rpcb_stat_byvers,
        RPCBVERS_STAT * 4 * (RPCBSTAT_HIGHPROC + 4)),
};

static const struct rpc_version pmap_versions[] = {
    {PMAP_VERS, COUNT_OF(pmap2_procedures), pmap2_procedures},
    {RPCBVERS, COUNT_OF(rpcb3_procedures), rpcb3_procedures},
    {RPCBVERS4, COUNT_OF(rpcb4_procedures), rpcb4_procedures},
};

void pmap_program_init(struct rpc_program *program, struct pmap_registry *registry)
{
    *program = (struct rpc_program){.prog = PMAP_PROG,
                                    .name = "portmapper",
                                    .version_count = COUNT_OF(pmap_versions),
                                    .versions = pmap_versions,
                                    .service = registry};
}
