/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/internal.h"

#include <arpa/inet.h>
#include <stdio.h>

void peer_set(struct rpc_peer *peer, const struct sockaddr_storage *address, bool is_tcp)
{
    *peer = (struct rpc_peer){.is_tcp = is_tcp};
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
        if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
            peer->address.in.sin_family = AF_INET;
            peer->address.in.sin_port = in6->sin6_port;
            memcpy(&peer->address.in.sin_addr, &in6->sin6_addr.s6_addr[12], 4);
        } else {
            peer->address.in6 = *in6;
        }
    } else if (address->ss_family == AF_INET) {
        peer->address.in = *(const struct sockaddr_in *)(const void *)address;
    } else {
        peer->is_local = true;
        peer->address.in.sin_family = AF_INET;
        peer->address.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
}

void peer_set_local(struct rpc_peer *peer, const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
        memcpy(peer->local_address, &in6->sin6_addr, 16);
    } else if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        memset(peer->local_address, 0, 10);
        memset(peer->local_address + 10, 0xff, 2);
        memcpy(peer->local_address + 12, &in->sin_addr, 4);
    }
}

const char *peer_text(const struct rpc_peer *peer, char text[64])
{
    char address[INET6_ADDRSTRLEN] = "?";
    if (peer->is_local) {
        return "the local socket";
    }
    if (peer->address.sa.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &peer->address.in6.sin6_addr, address, sizeof address);
        (void)snprintf(text, 64, "[%s]:%u", address, ntohs(peer->address.in6.sin6_port));
    } else {
        (void)inet_ntop(AF_INET, &peer->address.in.sin_addr, address, sizeof address);
        (void)snprintf(text, 64, "%s:%u", address, ntohs(peer->address.in.sin_port));
    }
    return text;
}

bool rpc_call_may_be_forged(const struct rpc_call *call)
{
    if (call->server == NULL || call->peer->is_tcp || call->peer->is_local) {
        return false;
    }
    const struct rpc_server_options *options = &call->server->options;
    return options->is_known != NULL && !options->is_known(options->arg, &call->peer->address.sa);
}
