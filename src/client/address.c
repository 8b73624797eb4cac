/* SPDX-License-Identifier: Apache-2.0 */
#include "client/address.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>

int client_address_find(const char *host, struct client_address *addresses, size_t *count,
                        struct err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;

    *count = 0;
    int error = getaddrinfo(host, NULL, &hints, &list);
    if (error != 0) {
        return err_set(err, -EHOSTUNREACH, "%s: %s", host, gai_strerror(error));
    }
    for (const struct addrinfo *ai = list; ai != NULL && *count < CLIENT_ADDRESS_COUNT_MAX;
         ai = ai->ai_next) {
        if (ai->ai_family == AF_INET || ai->ai_family == AF_INET6) {
            client_address_set(&addresses[(*count)++], ai->ai_addr, ai->ai_addrlen);
        }
    }
    freeaddrinfo(list);
    return *count > 0 ? 0 : err_set(err, -EHOSTUNREACH, "%s has no internet address", host);
}

void client_address_set(struct client_address *address, const struct sockaddr *from,
                        socklen_t bytes)
{
    memset(address, 0, sizeof *address);
    CHECK(bytes <= sizeof address->in6);
    memcpy(&address->sa, from, bytes);
    address->bytes = bytes;
}

uint16_t client_address_port(const struct client_address *address)
{
    return ntohs(address->sa.sa_family == AF_INET6 ? address->in6.sin6_port : address->in.sin_port);
}

void client_address_set_port(struct client_address *address, uint16_t port)
{
    if (address->sa.sa_family == AF_INET6) {
        address->in6.sin6_port = htons(port);
    } else {
        address->in.sin_port = htons(port);
    }
}

const char *client_address_text(const struct client_address *address, char text[64])
{
    if (getnameinfo(&address->sa, address->bytes, text, 64, NULL, 0, NI_NUMERICHOST) != 0) {
        strcpy(text, "?");
    }
    return text;
}
