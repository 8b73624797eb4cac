/* SPDX-License-Identifier: Apache-2.0 */
#include "server/machine.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TEXT_NAME_BYTES 96U

void machine_of_peer(const struct rpc_peer *peer, struct xdr_bytes name, struct machine *machine)
{
    *machine = (struct machine){.name = name};
    if (peer->address.sa.sa_family == AF_INET6) {
        memcpy(machine->address, &peer->address.in6.sin6_addr, 16);
        machine->scope = peer->address.in6.sin6_scope_id;
    } else {
        machine->address[10] = machine->address[11] = 0xff;
        memcpy(machine->address + 12, &peer->address.in.sin_addr, 4);
    }
}

bool machine_is_loopback(const struct rpc_peer *peer)
{
    if (peer->address.sa.sa_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(&peer->address.in6.sin6_addr);
    }
    return (ntohl(peer->address.in.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
}

uint32_t machine_key(const struct machine *machine, uint8_t key[MACHINE_KEY_BYTES_MAX])
{
    uint32_t size =
        machine->name.size < MACHINE_NAME_BYTES_MAX ? machine->name.size : MACHINE_NAME_BYTES_MAX;
    key[0] = 'N'; /* for NLM; other protocols have other letters */
    memcpy(key + 1, machine->address, 16);
    if (size > 0) {
        memcpy(key + 17, machine->name.data, size);
    }
    return 17 + size;
}

void machine_sockaddr(const uint8_t address[16], uint32_t scope, struct sockaddr_storage *to)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    static const uint8_t none[16];

    memset(to, 0, sizeof *to);
    if (memcmp(address, none, sizeof none) == 0) {
        to->ss_family = AF_UNSPEC;
    } else if (memcmp(address, mapped, sizeof mapped) == 0) {
        struct sockaddr_in *in = (struct sockaddr_in *)(void *)to;
        in->sin_family = AF_INET;
        memcpy(&in->sin_addr, address + 12, 4);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)to;
        in6->sin6_family = AF_INET6;
        in6->sin6_scope_id = scope;
        memcpy(&in6->sin6_addr, address, 16);
    }
}

bool machine_name_is_same(struct xdr_bytes a, struct xdr_bytes b)
{
    struct xdr_bytes shorter = a.size < b.size ? a : b;
    struct xdr_bytes longer = a.size < b.size ? b : a;

    if (shorter.size == 0 ||
        strncasecmp((const char *)shorter.data, (const char *)longer.data, shorter.size) != 0) {
        return false;
    }
    return shorter.size == longer.size ||
           (longer.data[shorter.size] == '.' && memchr(shorter.data, '.', shorter.size) == NULL);
}

const char *machine_text(const struct machine *machine, char text[MACHINE_TEXT_BYTES_MAX])
{
    struct sockaddr_storage address;
    char host[INET6_ADDRSTRLEN] = "?";
    char name[TEXT_NAME_BYTES + 1];
    uint32_t size = machine->name.size < TEXT_NAME_BYTES ? machine->name.size : TEXT_NAME_BYTES;

    for (uint32_t i = 0; i < size; i++) {
        name[i] = isgraph(machine->name.data[i]) ? (char)machine->name.data[i] : '?';
    }
    name[size] = '\0';
    machine_sockaddr(machine->address, 0, &address);
    if (address.ss_family == AF_INET) {
        (void)inet_ntop(AF_INET, machine->address + 12, host, sizeof host);
    } else if (address.ss_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, machine->address, host, sizeof host);
    }
    (void)snprintf(text, MACHINE_TEXT_BYTES_MAX, "%s (%s)", name, host);
    return text;
}
