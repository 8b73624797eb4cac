/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/portmap.h"

#include "base/log.h"
#include "proto/nlm.h"
#include "proto/nsm.h"
#include "proto/rquota.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

/* The address families and protocols that something is served on, one after the other. */
static bool next_transport(const struct listen_addresses *addresses, struct rpcbind_entry *entry)
{
    static const struct {
        int family, ip_protocol;
    } transports[] = {
        {AF_INET, IPPROTO_UDP},
        {AF_INET, IPPROTO_TCP},
        {AF_INET6, IPPROTO_UDP},
        {AF_INET6, IPPROTO_TCP},
    };
    size_t i = 0;

    while (entry->family != 0 && (transports[i].family != entry->family ||
                                  transports[i].ip_protocol != entry->ip_protocol)) {
        i++;
    }
    for (i = entry->family == 0 ? 0 : i + 1; i < COUNT_OF(transports); i++) {
        if (transports[i].family == AF_INET ? addresses->ipv4 : addresses->ipv6) {
            entry->family = transports[i].family;
            entry->ip_protocol = transports[i].ip_protocol;
            return true;
        }
    }
    return false;
}

/* Tells our own portmapper of every version of a program. */
static void add_own(struct portmap *portmap, const struct listen_addresses *addresses,
                    const struct rpc_program *program, uint16_t port)
{
    for (uint32_t i = 0; i < program->version_count; i++) {
        struct rpcbind_entry entry = {0};
        while (next_transport(addresses, &entry)) {
            pmap_registry_add(&portmap->registry, program->prog, program->versions[i].vers,
                              rpcbind_netid(&entry), port);
        }
    }
}

/* The local socket, where it is nobody else's: clients on this machine ask there first. */
static void listen_local(struct portmap *portmap, struct rpc_server *server)
{
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = RPCBIND_SOCKET};
    const struct rpc_program *program = &portmap->program;
    struct err err;

    if (rpcbind_socket_answers()) {
        log_notice("portmap: " RPCBIND_SOCKET " belongs to another program, so programs of this "
                   "machine may ask that one");
        return;
    }
    if (rpc_server_listen(server, (const struct sockaddr *)(const void *)&address, sizeof address,
                          SOCK_STREAM, &program, 1, NULL, &err) != 0) {
        log_info("portmap: not at " RPCBIND_SOCKET ": %s", err.text);
        return;
    }
    portmap->has_local = true;
    for (uint32_t i = 0; i < program->version_count; i++) {
        if (program->versions[i].vers > PMAP_VERS) {
            pmap_registry_add_local(&portmap->registry, program->prog, program->versions[i].vers,
                                    RPCBIND_SOCKET);
        }
    }
}

static int listen_own(struct portmap *portmap, struct rpc_server *server,
                      const struct listen_addresses *addresses, struct activated *activated,
                      struct err *err)
{
    const struct rpc_program *program = &portmap->program;
    uint16_t port = PMAP_PORT;

    pmap_registry_init(&portmap->registry);
    pmap_program_init(&portmap->program, &portmap->registry);
    int error = activated->counts[ACTIVATE_PORTMAP] > 0
                    ? activate_serve(activated, ACTIVATE_PORTMAP, server, &program, 1, NULL, &port,
                                     err)
                    : listen_begin(server, addresses, &program, 1, &port, err);
    if (error != 0) {
        return error;
    }
    add_own(portmap, addresses, program, port);
    listen_local(portmap, server);
    portmap->how = PORTMAP_OWN;
    return 0;
}

/* Neither works: an error if the admin insists, else a line in the log. */
static int do_without(struct portmap *portmap, enum config_portmap wanted, const char *reason,
                      struct err *err)
{
    portmap->how = PORTMAP_NONE;
    if (wanted == CONFIG_PORTMAP_ON) {
        return err_set(err, -EADDRNOTAVAIL, "--portmap on: %s", reason);
    }
    log_notice("portmap: none: %s; clients must be told the port", reason);
    return 0;
}

int portmap_listen(struct portmap *portmap, enum config_portmap wanted, struct rpc_server *server,
                   const struct listen_addresses *addresses, struct activated *activated,
                   struct err *err)
{
    struct err reason;

    portmap->how = PORTMAP_NONE;
    portmap->rpcbind.fd = -1;
    if (wanted == CONFIG_PORTMAP_OFF) {
        return 0;
    }
    if (activated->counts[ACTIVATE_PORTMAP] > 0) {
        return listen_own(portmap, server, addresses, activated, err);
    }
    int error = listen_try(addresses, PMAP_PORT, SOCK_STREAM);
    if (error == 0) {
        error = listen_try(addresses, PMAP_PORT, SOCK_DGRAM);
    }
    if (error == 0) {
        return listen_own(portmap, server, addresses, activated, err);
    }
    if (error != -EADDRINUSE) {
        (void)err_set(&reason, error, "cannot bind port 111: %s", strerror(-error));
        return do_without(portmap, wanted, reason.text, err);
    }
    /* Opened now, while a reserved port may be bound; told when the server answers. */
    if (rpcbind_open(&portmap->rpcbind, &reason) != 0) {
        return do_without(portmap, wanted, reason.text, err);
    }
    portmap->how = PORTMAP_REGISTERED;
    return 0;
}

/* Adds one entry to the portmapper of others. */
static int register_entry(struct portmap *portmap, const struct rpcbind_entry *entry,
                          struct err *err)
{
    uint16_t port;

    int error = rpcbind_set(&portmap->rpcbind, entry, &port);
    if (error == -EAFNOSUPPORT) {
        return 0; /* said once, by portmap_announce */
    }
    if (error == -EEXIST) {
        return err_set(
            err, error,
            "the portmapper at port 111 has program %u version %u (%s) at port %u already: "
            "another server's, or left over from one that died; `rpcinfo -d %u %u` "
            "removes it",
            entry->prog, entry->vers, rpcbind_netid(entry), port, entry->prog, entry->vers);
    }
    if (error != 0) {
        return err_set(err, error, "the portmapper at port 111 does not take our entries: %s",
                       strerror(-error));
    }
    if (portmap->entry_count < PORTMAP_ENTRY_COUNT_MAX) {
        portmap->entries[portmap->entry_count++] = *entry;
    }
    return 0;
}

static int register_program(struct portmap *portmap, const struct listen_addresses *addresses,
                            const struct rpc_program *program, uint16_t port, struct err *err)
{
    int error = 0;

    for (uint32_t i = 0; i < program->version_count && error == 0; i++) {
        struct rpcbind_entry entry = {
            .prog = program->prog, .vers = program->versions[i].vers, .port = port};
        while (error == 0 && next_transport(addresses, &entry)) {
            error = register_entry(portmap, &entry, err);
        }
    }
    return error;
}

/* A machine that is an NFS client too has locks from its kernel and rpc.statd, and one only; and
 * one that has an rpc.rquotad may keep it. NULL: nothing can be missed. */
static const char *loss_of(const struct rpc_program *program)
{
    switch (program->prog) {
    case NLM_PROG:
    case SM_PROG:
        return "clients cannot lock files here";
    case RQUOTAPROG:
        return "clients ask that one for quotas";
    default:
        return NULL;
    }
}

/* Takes back what was set of a program. */
static void unset_program(struct portmap *portmap, const struct rpc_program *program)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < portmap->entry_count; i++) {
        if (portmap->entries[i].prog == program->prog) {
            int error = rpcbind_unset(&portmap->rpcbind, &portmap->entries[i]);
            if (error == 0) {
                continue;
            }
        }
        portmap->entries[kept++] = portmap->entries[i];
    }
    portmap->entry_count = kept;
}

int portmap_announce(struct portmap *portmap, enum config_portmap wanted,
                     const struct listen_addresses *addresses,
                     const struct rpc_program *const *programs, size_t program_count, uint16_t port,
                     struct err *err)
{
    struct err reason = {0};
    int error = 0;

    for (size_t i = 0; i < program_count && error == 0; i++) {
        if (portmap->how == PORTMAP_OWN) {
            add_own(portmap, addresses, programs[i], port);
        } else if (portmap->how == PORTMAP_REGISTERED) {
            error = register_program(portmap, addresses, programs[i], port, &reason);
        }
        const char *loss = loss_of(programs[i]);
        if (error == -EEXIST && loss != NULL) {
            log_warning("%s: %s; %s", programs[i]->name, reason.text, loss);
            unset_program(portmap, programs[i]);
            error = 0;
        }
    }
    if (error != 0) {
        portmap_withdraw(portmap);
        return do_without(portmap, wanted, reason.text, err);
    }
    if (portmap->how == PORTMAP_OWN) {
        log_info("portmap: our own at port 111%s",
                 portmap->has_local ? " and " RPCBIND_SOCKET : "");
    } else if (portmap->how == PORTMAP_REGISTERED) {
        log_info("portmap: registered with the one that runs here, %s",
                 portmap->rpcbind.is_local ? "at " RPCBIND_SOCKET
                                           : "at 127.0.0.1:111, over version 2: IPv4 only");
    }
    return 0;
}

void portmap_withdraw(struct portmap *portmap)
{
    for (uint32_t i = 0; i < portmap->entry_count; i++) {
        int error = rpcbind_unset(&portmap->rpcbind, &portmap->entries[i]);
        if (error != 0) {
            log_warning(
                "portmap: cannot take program %u version %u (%s) back from the portmapper: %s",
                portmap->entries[i].prog, portmap->entries[i].vers,
                rpcbind_netid(&portmap->entries[i]), strerror(-error));
            break;
        }
    }
    portmap->entry_count = 0;
    rpcbind_close(&portmap->rpcbind);
}
