/* SPDX-License-Identifier: Apache-2.0 */
/* What an exports file says, without serving it: the same parser and the same matching. */
#include "cli/command.h"

#include "vfs/export.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_DEFAULT "/etc/exports"
#define PLACE_BYTES_MAX (PATH_MAX + 16)

static const char help[] =
    "usage: holdfast exports check [FILE]\n"
    "       holdfast exports list [FILE]\n"
    "       holdfast exports explain HOST PATH [FILE]\n"
    "\n"
    "  check    what is wrong with an exports(5) file, or may not mean what it says;\n"
    "           exit status 1 if there is anything\n"
    "  list     every export, its clients, and the options each gets\n"
    "  explain  what a host (address or name) gets at a path, and by which line;\n"
    "           exit status 1 if that is nothing\n"
    "\n"
    "FILE is " FILE_DEFAULT " if it is not given.\n"
    "more: man 5 holdfast-exports\n";

struct loaded {
    struct export_table *table;
    struct export_problems problems;
};

static void unload(struct loaded *loaded)
{
    export_problems_free(&loaded->problems);
    export_table_free(loaded->table);
}

/* COMMAND_DONE, COMMAND_FINDING when the file has errors, or COMMAND_CANNOT, which was said. */
static int load(const char *file, struct loaded *loaded)
{
    *loaded = (struct loaded){.table = export_table_new()};
    int error = loaded->table == NULL
                    ? -ENOMEM
                    : export_table_add_file(loaded->table, file, &loaded->problems);
    if (error != -ENOMEM) {
        int resolved = export_table_resolve(loaded->table, &loaded->problems);
        error = resolved == -ENOMEM ? resolved : error;
    }
    if (error == -ENOMEM) {
        fputs("holdfast exports: no memory\n", stderr);
        return COMMAND_CANNOT;
    }
    if (error != 0 && error != -EINVAL) {
        fprintf(stderr, "holdfast exports: cannot read %s: %s\n", file, strerror(-error));
        return COMMAND_CANNOT;
    }
    return error == 0 ? COMMAND_DONE : COMMAND_FINDING;
}

static uint32_t count_errors(const struct export_problems *problems)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < problems->count; i++) {
        count += problems->items[i].fatal ? 1 : 0;
    }
    return count;
}

/* list and explain show what is in force; what is wrong with the file is for check. */
static void mention_problems(const char *file, const struct export_problems *problems)
{
    uint32_t error_count = count_errors(problems);

    if (problems->count > 0) {
        fprintf(stderr,
                "holdfast exports: %s: errors: %u, warnings: %u; `holdfast exports check %s` "
                "shows them\n",
                file, error_count, problems->count - error_count, file);
    }
}

static const char *place(const struct export_client *client, char text[PLACE_BYTES_MAX])
{
    (void)snprintf(text, PLACE_BYTES_MAX, "%s:%u", client->file, client->line);
    return text;
}

/* Directories that `serve` would not be able to open. */
static uint32_t check_directories(const struct export_table *table)
{
    char text[PLACE_BYTES_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < table->entry_count; i++) {
        const struct export_entry *entry = &table->entries[i];
        struct stat st;
        const char *wrong = NULL;
        if (stat(entry->path, &st) != 0) {
            wrong = strerror(errno);
        } else if (!S_ISDIR(st.st_mode)) {
            wrong = "not a directory";
        }
        if (wrong != NULL) {
            printf("%s: error: cannot export %s: %s\n", place(&entry->clients[0], text),
                   entry->path, wrong);
            count++;
        }
    }
    return count;
}

static int check(const char *file)
{
    struct loaded loaded;

    int status = load(file, &loaded);
    if (status != COMMAND_CANNOT) {
        for (uint32_t i = 0; i < loaded.problems.count; i++) {
            printf("%s\n", loaded.problems.items[i].text);
        }
        uint32_t error_count = count_errors(&loaded.problems);
        uint32_t warning_count = loaded.problems.count - error_count;
        error_count += check_directories(loaded.table);
        printf("%s: exports: %u, errors: %u, warnings: %u\n", file, loaded.table->entry_count,
               error_count, warning_count);
        status = error_count + warning_count > 0 ? COMMAND_FINDING : COMMAND_DONE;
    }
    unload(&loaded);
    return status;
}

static int list(const char *file)
{
    struct loaded loaded;

    int status = load(file, &loaded);
    if (status != COMMAND_CANNOT) {
        mention_problems(file, &loaded.problems);
    }
    for (uint32_t i = 0; status != COMMAND_CANNOT && i < loaded.table->entry_count; i++) {
        const struct export_entry *entry = &loaded.table->entries[i];
        printf("%s\n", entry->path);
        for (uint32_t j = 0; j < entry->client_count; j++) {
            const struct export_client *client = &entry->clients[j];
            char options[EXPORT_OPTIONS_TEXT_BYTES_MAX];
            char text[PLACE_BYTES_MAX];
            export_options_text(&client->options, options);
            printf("    %-24s %s  # %s\n", client->text, options, place(client, text));
        }
    }
    unload(&loaded);
    return status;
}

static const char *kind_name(enum export_client_kind kind)
{
    switch (kind) {
    case EXPORT_ADDRESS:
    case EXPORT_HOST:
        return "a single host";
    case EXPORT_NETWORK:
        return "a network";
    case EXPORT_WILDCARD:
        return "a name with wildcards";
    case EXPORT_NETGROUP:
        return "a netgroup";
    case EXPORT_EVERYONE:
        return "everyone";
    }
    return "?";
}

static void explain_options(const struct export_options *options)
{
    char text[EXPORT_OPTIONS_TEXT_BYTES_MAX];

    export_options_text(options, text);
    printf("  options: %s\n", text);
    if (options->all_squash) {
        printf("  every user acts as uid %u, gid %u\n", options->anonuid, options->anongid);
    } else if (options->root_squash) {
        printf("  root acts as uid %u, gid %u; others as themselves\n", options->anonuid,
               options->anongid);
    } else {
        printf("  root acts as root\n");
    }
    if (options->secure) {
        printf("  only from ports below 1024\n");
    }
}

/* One address. True if it gets something. */
static bool explain_address(const struct export_entry *entry, const char *path,
                            const struct sockaddr *peer, const char *peer_text)
{
    const struct export_client *best = export_entry_match_client(entry, peer);
    char text[PLACE_BYTES_MAX];

    if (best == NULL) {
        printf("%s gets nothing at %s: export %s is for others:\n", peer_text, path, entry->path);
        for (uint32_t i = 0; i < entry->client_count; i++) {
            const struct export_client *client = &entry->clients[i];
            printf("  %s (%s), %s\n", client->text, kind_name(client->kind), place(client, text));
        }
        return false;
    }
    printf("%s may %s at %s, export %s\n", peer_text, best->options.rw ? "read and write" : "read",
           path, entry->path);
    printf("  by %s (%s), %s\n", best->text, kind_name(best->kind), place(best, text));
    explain_options(&best->options);
    for (uint32_t i = 0; i < entry->client_count; i++) {
        const struct export_client *client = &entry->clients[i];
        if (client != best && export_client_matches(client, peer)) {
            printf("  not by %s (%s), %s: comes after\n", client->text, kind_name(client->kind),
                   place(client, text));
        }
    }
    return true;
}

static int explain_host(const struct export_table *table, const char *host, const char *path)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *addresses = NULL;
    bool gets_something = false;

    const struct export_entry *entry = export_table_find(table, path);
    if (entry == NULL) {
        printf("%s gets nothing at %s: it is in no export\n", host, path);
        return COMMAND_FINDING;
    }
    int error = getaddrinfo(host, NULL, &hints, &addresses);
    if (error != 0) {
        fprintf(stderr, "holdfast exports: cannot look up '%s': %s\n", host, gai_strerror(error));
        return COMMAND_CANNOT;
    }
    for (const struct addrinfo *ai = addresses; ai != NULL; ai = ai->ai_next) {
        char text[NI_MAXHOST] = "?";
        (void)getnameinfo(ai->ai_addr, ai->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
        gets_something = explain_address(entry, path, ai->ai_addr, text) || gets_something;
    }
    freeaddrinfo(addresses);
    return gets_something ? COMMAND_DONE : COMMAND_FINDING;
}

static int explain(const char *host, const char *path, const char *file)
{
    char tidy[PATH_MAX];
    struct loaded loaded;

    if (path[0] != '/' || strlen(path) >= sizeof tidy) {
        fprintf(stderr, "holdfast exports: '%s' is no absolute path\n", path);
        return COMMAND_USAGE;
    }
    strcpy(tidy, path);
    export_path_tidy(tidy);
    int status = load(file, &loaded);
    if (status != COMMAND_CANNOT) {
        mention_problems(file, &loaded.problems);
        status = explain_host(loaded.table, host, tidy);
    }
    unload(&loaded);
    return status;
}

int cmd_exports(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";

    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        fputs(help, stdout);
        return COMMAND_DONE;
    }
    for (int i = 2; i < argc; i++) {
        if (argv[i][0] == '-') {
            fprintf(stderr, "holdfast exports: no option %s; see `holdfast exports --help`\n",
                    argv[i]);
            return COMMAND_USAGE;
        }
    }
    if (strcmp(word, "check") == 0 && argc <= 3) {
        return check(argc == 3 ? argv[2] : FILE_DEFAULT);
    }
    if (strcmp(word, "list") == 0 && argc <= 3) {
        return list(argc == 3 ? argv[2] : FILE_DEFAULT);
    }
    if (strcmp(word, "explain") == 0 && (argc == 4 || argc == 5)) {
        return explain(argv[2], argv[3], argc == 5 ? argv[4] : FILE_DEFAULT);
    }
    fputs(help, stderr);
    return COMMAND_USAGE;
}
