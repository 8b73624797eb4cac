/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may: the order of exports(5), over addresses that were found when the table was made.
 *
 * 1. Every address is compared in one form, IPv4 as ::ffff:a.b.c.d, so that a client means the same
 *    over an IPv4 and over a dual-stack socket.
 * 2. A network that is not IPv4 never contains an IPv4 client, though ::/0 does in that form.
 * 3. Kinds are ranked by enum export_client_kind; an address and a host name rank the same. Of one
 *    rank the first wins.
 */
#include "vfs/export_internal.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

const uint8_t export_ipv4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

int export_address_compare(const void *a, const void *b)
{
    return memcmp(a, b, 16);
}

bool export_address(const struct sockaddr *peer, uint8_t address[16])
{
    if (peer->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)peer;
        memcpy(address, export_ipv4_prefix, sizeof export_ipv4_prefix);
        memcpy(address + 12, &in->sin_addr, 4);
        return true;
    }
    if (peer->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)peer;
        memcpy(address, &in6->sin6_addr, 16);
        return true;
    }
    return false;
}

static bool in_network(const struct export_client *client, const uint8_t address[16])
{
    unsigned whole = client->prefix_bits / 8;
    unsigned odd_bits = client->prefix_bits % 8;

    if (export_is_ipv4(address, 128) != export_is_ipv4(client->address, client->prefix_bits)) {
        return false;
    }
    if (memcmp(client->address, address, whole) != 0) {
        return false;
    }
    return odd_bits == 0 || (client->address[whole] ^ address[whole]) >> (8 - odd_bits) == 0;
}

static bool matches(const struct export_client *client, const uint8_t address[16])
{
    switch (client->kind) {
    case EXPORT_ADDRESS:
        return memcmp(client->address, address, 16) == 0;
    case EXPORT_NETWORK:
        return in_network(client, address);
    case EXPORT_HOST:
    case EXPORT_NETGROUP:
        return client->resolved_count > 0 &&
               bsearch(address, client->resolved, client->resolved_count, 16,
                       export_address_compare) != NULL;
    case EXPORT_EVERYONE:
        return true;
    case EXPORT_WILDCARD:
        return false;
    }
    return false;
}

bool export_client_matches(const struct export_client *client, const struct sockaddr *peer)
{
    uint8_t address[16];

    return export_address(peer, address) && matches(client, address);
}

static unsigned rank(enum export_client_kind kind)
{
    return kind == EXPORT_HOST ? EXPORT_ADDRESS : kind;
}

const struct export_client *export_entry_match_client(const struct export_entry *entry,
                                                      const struct sockaddr *peer)
{
    const struct export_client *best = NULL;
    unsigned best_rank = EXPORT_EVERYONE + 1;
    uint8_t address[16];

    if (!export_address(peer, address)) {
        return NULL;
    }
    for (uint32_t i = 0; i < entry->client_count && best_rank > EXPORT_ADDRESS; i++) {
        const struct export_client *client = &entry->clients[i];
        if (rank(client->kind) < best_rank && matches(client, address)) {
            best = client;
            best_rank = rank(client->kind);
        }
    }
    return best;
}

const struct export_options *export_entry_match(const struct export_entry *entry,
                                                const struct sockaddr *peer)
{
    const struct export_client *client = export_entry_match_client(entry, peer);

    return client == NULL ? NULL : &client->options;
}

bool export_table_names(const struct export_table *table, const struct sockaddr *peer)
{
    for (uint32_t i = 0; i < table->entry_count; i++) {
        if (export_entry_match_client(&table->entries[i], peer) != NULL) {
            return true;
        }
    }
    return false;
}

const struct export_entry *export_table_find(const struct export_table *table, const char *path)
{
    const struct export_entry *best = NULL;
    size_t best_bytes = 0;

    for (uint32_t i = 0; i < table->entry_count; i++) {
        const struct export_entry *entry = &table->entries[i];
        size_t bytes = strcmp(entry->path, "/") == 0 ? 0 : strlen(entry->path);
        bool above =
            strncmp(entry->path, path, bytes) == 0 && (path[bytes] == '/' || path[bytes] == '\0');
        if (above && (best == NULL || bytes > best_bytes)) {
            best = entry;
            best_bytes = bytes;
        }
    }
    return best;
}
