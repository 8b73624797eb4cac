/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients by name: what a client is called, and which patterns and netgroups that fits.
 *
 * A name counts only if it leads back to the client's address, as in nfs-utils: whoever runs a
 * reverse zone could write any name into it.
 */
#include "vfs/export_internal.h"
#include "vfs/outside.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void find_names(struct export_peer *peer, const struct sockaddr *address)
{
    struct outside_names *found = malloc(sizeof *found);
    uint8_t key[16];

    if (found == NULL || !export_address(address, key) || outside_names(key, found) != 0) {
        free(found);
        return;
    }
    (void)snprintf(peer->unproven, sizeof peer->unproven, "%s", found->unproven);
    for (uint32_t i = 0; i < found->count && i < EXPORT_PEER_NAME_COUNT_MAX; i++) {
        char *copy = strdup(found->names[i]);
        peer->names[peer->name_count] = copy;
        peer->name_count += copy != NULL ? 1 : 0;
    }
    free(found);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The class that begins at *pattern, behind its '['; *pattern is moved behind its ']'. */
static bool in_class(const char **pattern, char c)
{
    const char *p = *pattern;
    bool negated = *p == '^';
    bool found = false;

    p += negated ? 1 : 0;
    for (bool first = true; *p != '\0' && (*p != ']' || first); first = false) {
        char from = lower(*p++);
        char to = from;
        if (p[0] == '-' && p[1] != ']' && p[1] != '\0') {
            to = lower(p[1]);
            p += 2;
        }
        found = found || (c >= from && c <= to);
    }
    *pattern = *p == ']' ? p + 1 : p;
    return found != negated;
}

/* As nfs-utils has it: `*` and `?` match dots, a class is negated by `^` and not by `!`. */
bool export_pattern_fits(const char *pattern, const char *name)
{
    const char *star = NULL;
    const char *star_name = name;

    while (*name != '\0') {
        const char *p = pattern;
        bool fits;
        if (*p == '*') {
            star = ++pattern;
            star_name = name;
            continue;
        }
        if (*p == '[') {
            p++;
            fits = in_class(&p, lower(*name));
        } else {
            fits = *p == '?' || (*p != '\0' && lower(*p) == lower(*name));
            p += *p != '\0' ? 1 : 0;
        }
        if (fits) {
            pattern = p;
            name++;
        } else if (star != NULL) {
            pattern = star;
            name = ++star_name;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

static bool fits_pattern(const struct export_peer *peer, const char *pattern)
{
    for (uint32_t i = 0; i < peer->name_count; i++) {
        if (export_pattern_fits(pattern, peer->names[i])) {
            return true;
        }
    }
    return false;
}

/* As nfs-utils has it: by each name, and by the first without its domain. */
static bool is_in_netgroup(const struct export_peer *peer, const char *group)
{
    char label[NI_MAXHOST];

    for (uint32_t i = 0; i < peer->name_count; i++) {
        if (outside_netgroup(group, peer->names[i])) {
            return true;
        }
    }
    if (peer->name_count > 0) {
        (void)snprintf(label, sizeof label, "%.*s", (int)strcspn(peer->names[0], "."),
                       peer->names[0]);
        return outside_netgroup(group, label);
    }
    return false;
}

struct export_peer *export_peer_find(struct export_table *table, const struct sockaddr *address)
{
    struct export_peer *peer = calloc(1, sizeof *peer + table->client_count + 1);

    if (peer == NULL) {
        return NULL;
    }
    peer->table = export_table_get(table);
    find_names(peer, address);
    for (uint32_t i = 0; i < table->entry_count; i++) {
        const struct export_entry *entry = &table->entries[i];
        for (uint32_t j = 0; j < entry->client_count; j++) {
            const struct export_client *client = &entry->clients[j];
            peer->fits[client->number] =
                client->kind == EXPORT_WILDCARD   ? fits_pattern(peer, client->text)
                : client->kind == EXPORT_NETGROUP ? is_in_netgroup(peer, client->text + 1)
                                                  : false;
        }
    }
    return peer;
}

void export_peer_free(struct export_peer *peer)
{
    if (peer == NULL) {
        return;
    }
    for (uint32_t i = 0; i < peer->name_count; i++) {
        free(peer->names[i]);
    }
    export_table_free(peer->table);
    free(peer);
}
