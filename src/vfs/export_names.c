/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients by name: what a client is called, and which patterns and netgroups that fits.
 *
 * A name counts only if it leads back to the client's address, as in nfs-utils: whoever runs a
 * reverse zone could write any name into it.
 */
#include "vfs/export_internal.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST_BUFFER_BYTES 16384

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    uint8_t address_a[16], address_b[16];

    return export_address(a, address_a) && export_address(b, address_b) &&
           memcmp(address_a, address_b, 16) == 0;
}

static bool leads_back(const char *name, const struct sockaddr *peer)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    bool found = false;

    if (getaddrinfo(name, NULL, &hints, &list) != 0) {
        return false;
    }
    for (const struct addrinfo *ai = list; ai != NULL && !found; ai = ai->ai_next) {
        found = same_address(ai->ai_addr, peer);
    }
    freeaddrinfo(list);
    return found;
}

static void add_name(struct export_peer *peer, const char *name)
{
    for (uint32_t i = 0; i < peer->name_count; i++) {
        if (strcasecmp(peer->names[i], name) == 0) {
            return;
        }
    }
    if (peer->name_count < EXPORT_PEER_NAME_COUNT_MAX && name[0] != '\0') {
        char *copy = strdup(name);
        peer->names[peer->name_count] = copy;
        peer->name_count += copy != NULL ? 1 : 0;
    }
}

/* Other names that /etc/hosts, NIS or DNS have for it. */
static void add_aliases(struct export_peer *peer)
{
    struct hostent host, *found = NULL;
    char buffer[HOST_BUFFER_BYTES];
    int error;

    if (gethostbyname_r(peer->names[0], &host, buffer, sizeof buffer, &found, &error) != 0 ||
        found == NULL) {
        return;
    }
    add_name(peer, found->h_name);
    for (char **alias = found->h_aliases; *alias != NULL; alias++) {
        add_name(peer, *alias);
    }
}

static socklen_t address_size(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

static void find_names(struct export_peer *peer, const struct sockaddr *address)
{
    char name[NI_MAXHOST];

    if (getnameinfo(address, address_size(address), name, sizeof name, NULL, 0, NI_NAMEREQD) != 0) {
        return;
    }
    if (!leads_back(name, address)) {
        (void)snprintf(peer->unproven, sizeof peer->unproven, "%.255s", name);
        return;
    }
    add_name(peer, name);
    if (peer->name_count > 0) {
        add_aliases(peer);
    }
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

/*
 * exports(5): "Only the host part of each netgroup member is considered. Empty host parts or those
 * containing a single dash are ignored." innetgr(3) has another opinion of empty ones, they fit
 * every host: its yes is looked into. The list is one per process.
 */
bool export_netgroup_has(const char *group, const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char buffer[4096];
    char *host, *user, *domain;
    bool found = false;

    if (name != NULL && innetgr(group, name, NULL, NULL) != 1) {
        return false;
    }
    pthread_mutex_lock(&lock);
    if (setnetgrent(group) == 1) {
        while (!found && getnetgrent_r(&host, &user, &domain, buffer, sizeof buffer) == 1) {
            found = host != NULL && *host != '\0' && strcmp(host, "-") != 0 &&
                    (name == NULL || strcasecmp(host, name) == 0);
        }
    }
    endnetgrent();
    pthread_mutex_unlock(&lock);
    return found;
}

/* As nfs-utils has it: by each name, and by the first without its domain. */
static bool is_in_netgroup(const struct export_peer *peer, const char *group)
{
    char label[NI_MAXHOST];

    for (uint32_t i = 0; i < peer->name_count; i++) {
        if (export_netgroup_has(group, peer->names[i])) {
            return true;
        }
    }
    if (peer->name_count > 0) {
        (void)snprintf(label, sizeof label, "%.*s", (int)strcspn(peer->names[0], "."),
                       peer->names[0]);
        return export_netgroup_has(group, label);
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
