/* SPDX-License-Identifier: Apache-2.0 */
/* The table and the list of problems as containers; files into text; lines into entries. */
#include "vfs/export_internal.h"

#include "vfs/outside.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct export_table *export_table_new(void)
{
    struct export_table *table = calloc(1, sizeof *table);

    if (table != NULL) {
        atomic_init(&table->ref_count, 1);
    }
    return table;
}

struct export_table *export_table_get(struct export_table *table)
{
    atomic_fetch_add_explicit(&table->ref_count, 1, memory_order_relaxed);
    return table;
}

void export_entry_free(struct export_entry *entry)
{
    for (uint32_t j = 0; j < entry->client_count; j++) {
        export_client_free(&entry->clients[j]);
    }
    free(entry->clients);
    free(entry->path);
}

void export_table_free(struct export_table *table)
{
    if (table == NULL ||
        atomic_fetch_sub_explicit(&table->ref_count, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (uint32_t i = 0; i < table->string_count; i++) {
        free(table->strings[i]);
    }
    free(table->strings);
    for (uint32_t i = 0; i < table->entry_count; i++) {
        export_entry_free(&table->entries[i]);
    }
    free(table->entries);
    free(table);
}

void export_problems_free(struct export_problems *problems)
{
    free(problems->items);
    *problems = (struct export_problems){0};
}

bool export_grow(struct export_context *context, void **items, uint32_t count, size_t item_bytes)
{
    bool full = (count & (count - 1)) == 0; /* capacities are 1, 2, 4, ... */
    if (!full) {
        return true;
    }
    void *grown = reallocarray(*items, count == 0 ? 1 : (size_t)count * 2, item_bytes);
    if (grown == NULL) {
        context->no_memory = true;
        return false;
    }
    *items = grown;
    return true;
}

char *export_copy(struct export_context *context, const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL) {
        context->no_memory = true;
    }
    return copy;
}

const char *export_keep(struct export_context *context, const char *text)
{
    struct export_table *table = context->table;
    void *strings = table->strings;
    char *copy = export_copy(context, text);

    if (copy == NULL ||
        !export_grow(context, &strings, table->string_count, sizeof *table->strings)) {
        free(copy);
        return NULL;
    }
    table->strings = strings;
    table->strings[table->string_count++] = copy;
    return copy;
}

/* What stands in the file may hold control characters; a terminal should not get them. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}

static void report(struct export_context *context, bool fatal, const char *format, va_list args)
{
    struct export_problems *problems = context->problems;
    void *items = problems->items;

    if (problems->count >= EXPORT_PROBLEM_COUNT_MAX ||
        !export_grow(context, &items, problems->count, sizeof *problems->items)) {
        return;
    }
    problems->items = items;
    struct export_problem *problem = &problems->items[problems->count++];
    problem->fatal = fatal;

    int used = snprintf(problem->text, sizeof problem->text, "%.200s",
                        context->file == NULL ? "command line" : context->file);
    if (context->line > 0) {
        used += snprintf(problem->text + used, sizeof problem->text - (size_t)used, ":%u",
                         context->line);
    }
    used += snprintf(problem->text + used, sizeof problem->text - (size_t)used,
                     ": %s: ", fatal ? "error" : "warning");
    if (problems->count == EXPORT_PROBLEM_COUNT_MAX) {
        (void)snprintf(problem->text + used, sizeof problem->text - (size_t)used,
                       "more than %u problems; the others are not shown", EXPORT_PROBLEM_COUNT_MAX);
    } else {
        (void)vsnprintf(problem->text + used, sizeof problem->text - (size_t)used, format, args);
    }
    make_printable(problem->text);
}

void export_error(struct export_context *context, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    report(context, true, format, args);
    va_end(args);
    context->line_is_bad = true;
    context->fatal = true;
}

void export_warning(struct export_context *context, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    report(context, false, format, args);
    va_end(args);
}

int export_context_result(const struct export_context *context)
{
    if (context->no_memory) {
        return -ENOMEM;
    }
    return context->fatal ? -EINVAL : 0;
}

/* "FILE:LINE" of a client, for messages. */
static const char *place(const struct export_client *client, char *text, size_t text_bytes)
{
    if (client->file == NULL) {
        return "the command line";
    }
    (void)snprintf(text, text_bytes, "%s:%u", client->file, client->line);
    return text;
}

static struct export_entry *find_entry(struct export_table *table, const char *path)
{
    for (uint32_t i = 0; i < table->entry_count; i++) {
        if (strcmp(table->entries[i].path, path) == 0) {
            return &table->entries[i];
        }
    }
    return NULL;
}

static bool same_client(const struct export_client *a, const struct export_client *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    if (a->kind == EXPORT_ADDRESS || a->kind == EXPORT_NETWORK) {
        return a->prefix_bits == b->prefix_bits && memcmp(a->address, b->address, 16) == 0;
    }
    return strcasecmp(a->text, b->text) == 0;
}

static void warn_of_doubles(struct export_context *context, const struct export_entry *entry,
                            const struct export_client *client)
{
    char text[256];

    for (uint32_t i = 0; i < entry->client_count; i++) {
        if (same_client(&entry->clients[i], client)) {
            export_warning(context, "'%s' is named for %s at %s already; that one counts, not this",
                           client->text, entry->path, place(&entry->clients[i], text, sizeof text));
            return;
        }
    }
}

static bool same_fsid(const struct export_options *a, const struct export_options *b)
{
    return memcmp(a->fsid, b->fsid, sizeof a->fsid) == 0;
}

/* The first client that says fsid=, NULL if none does. */
static const struct export_client *fsid_client(const struct export_client *clients, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (clients[i].options.has_fsid) {
            return &clients[i];
        }
    }
    return NULL;
}

/*
 * fsid= names the export, not what one client sees of it: all clients of a directory get the same
 * and no two directories share one. *fsid is the client that says it, NULL if none does. False
 * after an error.
 */
static bool agree_on_fsid(struct export_context *context, const char *path,
                          const struct export_entry *entry, const struct export_client *clients,
                          uint32_t client_count, const struct export_client **fsid)
{
    const struct export_table *table = context->table;
    char text[256];

    *fsid = entry == NULL ? NULL : fsid_client(entry->clients, entry->client_count);
    if (*fsid == NULL) {
        *fsid = fsid_client(clients, client_count);
    }
    for (uint32_t i = 0; i < client_count; i++) {
        if (clients[i].options.has_fsid && !same_fsid(&clients[i].options, &(*fsid)->options)) {
            export_error(context, "%s has another fsid= at %s; one directory has one", path,
                         place(*fsid, text, sizeof text));
            return false;
        }
    }
    for (uint32_t i = 0; i < table->entry_count && *fsid != NULL; i++) {
        const struct export_entry *other = &table->entries[i];
        const struct export_client *theirs = fsid_client(other->clients, other->client_count);
        if (other != entry && theirs != NULL && same_fsid(&theirs->options, &(*fsid)->options)) {
            export_error(context, "the fsid= of %s is that of %s at %s already; give each its own",
                         path, other->path, place(theirs, text, sizeof text));
            return false;
        }
    }
    return true;
}

/* The first client that says journal=, NULL if none does. */
static const struct export_client *journal_client(const struct export_client *clients,
                                                  uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (clients[i].options.journal != NULL) {
            return &clients[i];
        }
    }
    return NULL;
}

/* The changes of all clients of a directory go into one journal. *journal is what it is, NULL if no
 * client says it. False after an error. */
static bool agree_on_journal(struct export_context *context, const char *path,
                             const struct export_entry *entry, const struct export_client *clients,
                             uint32_t client_count, const char **journal)
{
    char text[256];
    const struct export_client *first =
        entry == NULL ? NULL : journal_client(entry->clients, entry->client_count);
    if (first == NULL) {
        first = journal_client(clients, client_count);
    }
    *journal = first == NULL ? NULL : first->options.journal;
    for (uint32_t i = 0; i < client_count; i++) {
        const char *other = clients[i].options.journal;
        if (other != NULL && strcmp(other, *journal) != 0) {
            export_error(context, "%s has another journal= at %s; one directory has one", path,
                         place(first, text, sizeof text));
            return false;
        }
    }
    return true;
}

static struct export_entry *add_entry(struct export_context *context, const char *path)
{
    struct export_table *table = context->table;
    void *entries = table->entries;

    if (table->entry_count == EXPORT_ENTRY_COUNT_MAX) {
        export_error(context, "more than %u exports", EXPORT_ENTRY_COUNT_MAX);
        return NULL;
    }
    if (!export_grow(context, &entries, table->entry_count, sizeof *table->entries)) {
        return NULL;
    }
    table->entries = entries;
    char *copy = export_copy(context, path);
    if (copy == NULL) {
        return NULL;
    }
    struct export_entry *entry = &table->entries[table->entry_count++];
    *entry = (struct export_entry){.path = copy};
    return entry;
}

/* Takes the client over on success. */
static bool append_client(struct export_context *context, struct export_entry *entry,
                          const struct export_client *client)
{
    void *clients = entry->clients;

    if (!export_grow(context, &clients, entry->client_count, sizeof *client)) {
        return false;
    }
    entry->clients = clients;
    entry->clients[entry->client_count++] = *client;
    return true;
}

/* What all clients of a directory have in common. */
static void set_common(struct export_entry *entry, const struct export_options *fsid,
                       const char *journal)
{
    for (uint32_t i = 0; i < entry->client_count; i++) {
        struct export_options *options = &entry->clients[i].options;
        options->journal = journal;
        options->has_fsid = fsid->has_fsid;
        options->fsid_is_root = fsid->fsid_is_root;
        memcpy(options->fsid, fsid->fsid, sizeof options->fsid);
    }
}

void export_table_join(struct export_context *context, const char *path,
                       struct export_client *clients, uint32_t client_count)
{
    struct export_entry *entry = find_entry(context->table, path);
    const struct export_client *fsid;
    const char *journal;
    uint32_t taken = 0;

    if (entry != NULL && entry->client_count + client_count > EXPORT_CLIENT_COUNT_MAX) {
        export_error(context, "more than %u clients of %s", EXPORT_CLIENT_COUNT_MAX, path);
    } else if (agree_on_fsid(context, path, entry, clients, client_count, &fsid) &&
               agree_on_journal(context, path, entry, clients, client_count, &journal)) {
        struct export_options fsid_options =
            fsid == NULL ? (struct export_options){0} : fsid->options;
        if (entry == NULL) {
            entry = add_entry(context, path);
        }
        while (entry != NULL && taken < client_count) {
            warn_of_doubles(context, entry, &clients[taken]);
            if (!append_client(context, entry, &clients[taken])) {
                break;
            }
            taken++;
        }
        if (entry != NULL) {
            set_common(entry, &fsid_options, journal);
        }
    }
    for (uint32_t i = taken; i < client_count; i++) {
        export_client_free(&clients[i]);
    }
}

/* Reads all of fd, at most EXPORT_FILE_BYTES_MAX. *text is the caller's to free. */
static int read_all(int fd, char **text, size_t *text_bytes)
{
    size_t room = 0;
    size_t used = 0;

    *text = NULL;
    for (;;) {
        if (used == room) {
            room = room == 0 ? 4096 : room * 2;
            char *grown = room > 2 * (size_t)EXPORT_FILE_BYTES_MAX ? NULL : realloc(*text, room);
            if (grown == NULL) {
                return used > EXPORT_FILE_BYTES_MAX ? -EFBIG : -ENOMEM;
            }
            *text = grown;
        }
        ssize_t n = read(fd, *text + used, room - used);
        if (n == 0) {
            *text_bytes = used;
            return used > EXPORT_FILE_BYTES_MAX ? -EFBIG : 0;
        }
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        used += n > 0 ? (size_t)n : 0;
    }
}

/* Takes the descriptor over. */
static int add_one_file(struct export_table *table, const struct outside_file *file,
                        struct export_problems *problems)
{
    struct export_context context = {.table = table, .problems = problems, .file = file->name};
    char *text = NULL;
    size_t text_bytes = 0;

    int err = file->fd < 0 ? file->fd : read_all(file->fd, &text, &text_bytes);
    if (file->fd >= 0) {
        close(file->fd);
    }
    if (err == 0) {
        err = export_table_add_text(table, file->name, text, text_bytes, problems);
    } else if (err == -EFBIG) {
        export_error(&context, "larger than %u bytes: this is no exports file",
                     EXPORT_FILE_BYTES_MAX);
    } else if (err != -ENOMEM) {
        export_error(&context, "cannot read: %s", strerror(-err));
    }
    free(text);
    return err;
}

int export_table_add_files(struct export_table *table, const struct outside_files *files,
                           struct export_problems *problems)
{
    int error = 0;

    for (uint32_t i = 0; i < files->count; i++) {
        int one = add_one_file(table, &files->items[i], problems);
        error = error == 0 || one == -ENOMEM ? one : error;
    }
    return error;
}

int export_table_add_file(struct export_table *table, const char *file,
                          struct export_problems *problems)
{
    struct export_context context = {.table = table, .problems = problems, .file = file};
    struct outside_files *files = malloc(sizeof *files);

    if (files == NULL) {
        return -ENOMEM;
    }
    int error = outside_files(file, files);
    if (error != 0) {
        export_error(&context, "cannot read: %s", strerror(-error));
    } else {
        error = export_table_add_files(table, files, problems);
    }
    free(files);
    return error;
}
