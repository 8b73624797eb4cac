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

static bool matches(const struct export_client *client, const uint8_t address[16],
                    const struct export_peer *names)
{
    switch (client->kind) {
    case EXPORT_ADDRESS:
        return memcmp(client->address, address, 16) == 0;
    case EXPORT_NETWORK:
        return in_network(client, address);
    case EXPORT_HOST:
        return client->resolved_count > 0 &&
               bsearch(address, client->resolved, client->resolved_count, 16,
                       export_address_compare) != NULL;
    case EXPORT_EVERYONE:
        return true;
    case EXPORT_WILDCARD:
    case EXPORT_NETGROUP:
        return names != NULL && names->fits[client->number];
    }
    return false;
}

bool export_client_matches(const struct export_client *client, const struct sockaddr *peer,
                           const struct export_peer *names)
{
    uint8_t address[16];

    return export_address(peer, address) && matches(client, address, names);
}

static unsigned rank(enum export_client_kind kind)
{
    return kind == EXPORT_HOST ? EXPORT_ADDRESS : kind;
}

static bool is_by_name(const struct export_client *client)
{
    return client->kind == EXPORT_WILDCARD || client->kind == EXPORT_NETGROUP;
}

const struct export_client *export_entry_match_client(const struct export_entry *entry,
                                                      const struct sockaddr *peer,
                                                      const struct export_peer *names,
                                                      bool *needs_names)
{
    const struct export_client *best = NULL;
    unsigned best_rank = EXPORT_EVERYONE + 1;
    bool has_names = false;
    uint8_t address[16];

    if (!export_address(peer, address)) {
        return NULL;
    }
    for (uint32_t i = 0; i < entry->client_count && best_rank > EXPORT_ADDRESS; i++) {
        const struct export_client *client = &entry->clients[i];
        has_names = has_names || is_by_name(client);
        if (rank(client->kind) < best_rank && matches(client, address, names)) {
            best = client;
            best_rank = rank(client->kind);
        }
    }
    if (needs_names != NULL && names == NULL && has_names && best_rank > EXPORT_NETWORK) {
        *needs_names = true;
    }
    return best;
}

const struct export_options *export_entry_match(const struct export_entry *entry,
                                                const struct sockaddr *peer)
{
    const struct export_client *client = export_entry_match_client(entry, peer, NULL, NULL);

    return client == NULL ? NULL : &client->options;
}

bool export_table_names(const struct export_table *table, const struct sockaddr *peer,
                        const struct export_peer *names, bool *needs_names)
{
    for (uint32_t i = 0; i < table->entry_count; i++) {
        if (export_entry_match_client(&table->entries[i], peer, names, needs_names) != NULL) {
            return true;
        }
    }
    return false;
}

/* How long the path of an entry is that is this path or above it; -1: it is not. */
static int bytes_above(const struct export_entry *entry, const char *path)
{
    size_t bytes = strcmp(entry->path, "/") == 0 ? 0 : strlen(entry->path);
    bool above =
        strncmp(entry->path, path, bytes) == 0 && (path[bytes] == '/' || path[bytes] == '\0');

    return above ? (int)bytes : -1;
}

const struct export_entry *export_table_find(const struct export_table *table, const char *path)
{
    const struct export_entry *best = NULL;
    int best_bytes = -1;

    for (uint32_t i = 0; i < table->entry_count; i++) {
        int bytes = bytes_above(&table->entries[i], path);
        if (bytes > best_bytes) {
            best = &table->entries[i];
            best_bytes = bytes;
        }
    }
    return best;
}

const struct export_entry *export_table_find_for(const struct export_table *table, const char *path,
                                                 const struct sockaddr *peer,
                                                 const struct export_peer *names,
                                                 const struct export_client **client)
{
    const struct export_entry *best = NULL;
    int best_bytes = -1;

    for (uint32_t i = 0; i < table->entry_count; i++) {
        const struct export_entry *entry = &table->entries[i];
        int bytes = bytes_above(entry, path);
        const struct export_client *found =
            bytes > best_bytes ? export_entry_match_client(entry, peer, names, NULL) : NULL;
        if (found != NULL) {
            best = entry;
            best_bytes = bytes;
            *client = found;
        }
    }
    return best;
}
