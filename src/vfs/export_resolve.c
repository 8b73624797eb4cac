/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to addresses, once, when the table is made: a request never waits for DNS. The part of
 * exports that asks the machine (vfs/outside.h) and not only bytes.
 */
#include "vfs/export_internal.h"
#include "vfs/outside.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

static void sort_unique(struct export_client *client)
{
    uint32_t kept = 0;

    if (client->resolved_count == 0) {
        return;
    }
    qsort(client->resolved, client->resolved_count, 16, export_address_compare);
    for (uint32_t i = 1; i < client->resolved_count; i++) {
        if (memcmp(client->resolved[i], client->resolved[kept], 16) != 0) {
            memcpy(client->resolved[++kept], client->resolved[i], 16);
        }
    }
    client->resolved_count = kept + 1;
}

/* Appends the addresses of a host; 0 or the error of getaddrinfo. */
static int add_host(struct export_context *context, struct export_client *client, const char *host)
{
    struct outside_addresses *found = malloc(sizeof *found);

    int error = found != NULL ? outside_addresses(host, found) : EAI_MEMORY;
    for (uint32_t i = 0; error == 0 && i < found->count; i++) {
        void *resolved = client->resolved;
        if (!export_grow(context, &resolved, client->resolved_count, 16)) {
            break;
        }
        client->resolved = resolved;
        memcpy(client->resolved[client->resolved_count++], found->items[i], 16);
    }
    if (error == 0 && found->count == OUTSIDE_ADDRESS_COUNT_MAX) {
        export_warning(context, "'%s' has %u addresses or more; the others are left out",
                       client->text, OUTSIDE_ADDRESS_COUNT_MAX);
    }
    free(found);
    return error;
}

static void resolve_host(struct export_context *context, struct export_client *client)
{
    int error = add_host(context, client, client->text);

    if (error != 0) {
        export_warning(context,
                       "cannot look up host '%s' (%s): it matches nobody until the next start",
                       client->text, gai_strerror(error));
    }
}

/* Who is in it is asked per client, see export_names.c. */
static void check_netgroup(struct export_context *context, const struct export_client *client)
{
    if (!outside_netgroup(client->text + 1, NULL)) {
        export_warning(context,
                       "netgroup '%s' matches nobody: no host in it, or no such netgroup (try "
                       "`getent netgroup %s`; nsswitch.conf(5) says where it is looked for)",
                       client->text, client->text + 1);
    }
}

int export_table_resolve(struct export_table *table, struct export_problems *problems)
{
    struct export_context context = {.table = table, .problems = problems};

    table->client_count = 0;
    for (uint32_t i = 0; i < table->entry_count; i++) {
        struct export_entry *entry = &table->entries[i];
        for (uint32_t j = 0; j < entry->client_count; j++) {
            struct export_client *client = &entry->clients[j];
            client->number = table->client_count++;
            client->resolved_count = 0;
            context.file = client->file;
            context.line = client->line;
            if (client->kind == EXPORT_HOST) {
                resolve_host(&context, client);
            } else if (client->kind == EXPORT_NETGROUP) {
                check_netgroup(&context, client);
            }
            sort_unique(client);
        }
    }
    return export_context_result(&context);
}

/* Whether each client of the outer export has just the same in the inner one. */
static bool gives_the_same(const struct export_entry *outer, const struct export_entry *inner)
{
    char theirs[EXPORT_OPTIONS_TEXT_BYTES_MAX];
    char ours[EXPORT_OPTIONS_TEXT_BYTES_MAX];

    for (uint32_t i = 0; i < outer->client_count; i++) {
        bool found = false;
        export_options_text(&outer->clients[i].options, theirs);
        for (uint32_t j = 0; j < inner->client_count && !found; j++) {
            export_options_text(&inner->clients[j].options, ours);
            found = strcmp(outer->clients[i].text, inner->clients[j].text) == 0 &&
                    strcmp(theirs, ours) == 0;
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

static void place_of(struct export_context *context, const struct export_entry *entry)
{
    context->file = entry->clients[0].file;
    context->line = entry->clients[0].line;
    context->line_is_bad = false;
}

/* A line for a directory inside an export takes nothing away from the clients of the outer one.
 * devices: of the entries. */
static void warn_of_nested(struct export_context *context, uint32_t number, const uint64_t *devices)
{
    const struct export_table *table = context->table;
    const struct export_entry *inner = &table->entries[number];

    for (uint32_t i = 0; i < table->entry_count; i++) {
        const struct export_entry *outer = &table->entries[i];
        size_t bytes = strcmp(outer->path, "/") == 0 ? 0 : strlen(outer->path);
        if (outer != inner && strncmp(outer->path, inner->path, bytes) == 0 &&
            inner->path[bytes] == '/' && devices[i] == devices[number] &&
            !gives_the_same(outer, inner)) {
            place_of(context, inner);
            export_warning(context,
                           "%s lies in the export %s, whose clients go into it with the options "
                           "that they have there, whatever is said here",
                           inner->path, outer->path);
            return;
        }
    }
}

/* Whether the entry's path leads to a directory; if so, on which device. */
static bool check_directory(struct export_context *context, const struct export_entry *entry,
                            struct outside_look *look)
{
    place_of(context, entry);
    int err = outside_look(entry->path, look);
    if (err != 0) {
        export_error(context, "cannot export %s: %s", entry->path, strerror(-err));
    } else if (!look->is_directory) {
        export_error(context, "cannot export %s: it is no directory", entry->path);
    }
    return !context->line_is_bad;
}

int export_table_check_directories(struct export_table *table, struct export_problems *problems)
{
    struct export_context context = {.table = table, .problems = problems};
    struct outside_look *look = malloc(sizeof *look);
    uint64_t *devices = calloc(table->entry_count + 1, sizeof *devices);
    uint32_t kept = 0;

    if (look == NULL || devices == NULL) {
        free(look);
        free(devices);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < table->entry_count; i++) {
        if (check_directory(&context, &table->entries[i], look)) {
            devices[kept] = look->dev;
            table->entries[kept++] = table->entries[i];
        } else {
            export_entry_free(&table->entries[i]);
        }
    }
    table->entry_count = kept;
    for (uint32_t i = 0; i < kept; i++) {
        warn_of_nested(&context, i, devices);
    }
    free(look);
    free(devices);
    return export_context_result(&context);
}
