/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an exports file says, without serving it: the same parser and the same matching. Each
 * subcommand fills a report first and prints it as text or as JSON, so that both say the same.
 */
#include "cli/command.h"

#include "cli/ask.h"
#include "cli/exports_diff.h"
#include "report/tree.h"
#include "vfs/export.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_DEFAULT "/etc/exports"
#define NAME "holdfast exports"

static const char help[] =
    "usage: holdfast exports check [--json] [FILE]\n"
    "       holdfast exports list [--json] [FILE]\n"
    "       holdfast exports explain [--json] HOST PATH [FILE]\n"
    "       holdfast exports diff [--json] [--state DIR] [OLD] NEW\n"
    "       holdfast exports reload [--state DIR]\n"
    "\n"
    "  check    what is wrong with an exports(5) file, or may not mean what it says;\n"
    "           exit status 1 if there is anything\n"
    "  list     every export, its clients, and the options each gets\n"
    "  explain  what a host (address or name) gets at a path, and by which line;\n"
    "           exit status 1 if that is nothing\n"
    "  diff     who gets something else by file NEW than by file OLD, or than the\n"
    "           running server gives; exit status 1 if anybody does\n"
    "  reload   has the running server read its exports anew, all or nothing;\n"
    "           exit status 1 if they are as before, with the reason\n"
    "\n"
    "FILE is " FILE_DEFAULT " if it is not given. The server is the one that uses the\n"
    "state directory DIR, which is that of `holdfast serve` if it is not given.\n"
    "more: man 5 holdfast-exports\n";

/* A file as it was read, and where the answer goes. */
struct exports {
    const char *file;
    struct export_table *table;
    struct export_problems problems;
    uint32_t error_count;
    uint32_t warning_count;
    const char *state;   /* --state; NULL: not given */
    struct report *json; /* NULL: text */
};

static void unload(struct exports *exports)
{
    export_problems_free(&exports->problems);
    export_table_free(exports->table);
}

static void count_problems(struct exports *exports)
{
    exports->error_count = 0;
    for (uint32_t i = 0; i < exports->problems.count; i++) {
        exports->error_count += exports->problems.items[i].fatal ? 1 : 0;
    }
    exports->warning_count = exports->problems.count - exports->error_count;
}

static void add_path(struct report *json, const char *key, const char *path)
{
    report_add_bytes(json, key, path, strlen(path));
}

/* COMMAND_DONE, COMMAND_FINDING when the file has errors, or COMMAND_CANNOT, which was said. */
static int load(struct exports *exports)
{
    exports->table = export_table_new();
    int error = exports->table == NULL
                    ? -ENOMEM
                    : export_table_add_file(exports->table, exports->file, &exports->problems);
    if (error == 0 || error == -EINVAL) {
        int resolved = export_table_resolve(exports->table, &exports->problems);
        error = resolved != 0 ? resolved : error;
    }
    if (error != 0 && error != -EINVAL) {
        fprintf(stderr, "holdfast exports: cannot read %s: %s\n", exports->file, strerror(-error));
        return COMMAND_CANNOT;
    }
    count_problems(exports);
    add_path(exports->json, "file", exports->file);
    return error == 0 ? COMMAND_DONE : COMMAND_FINDING;
}

/* list and explain show what is in force; what is wrong with the file is for check. */
static void mention_problems(const struct exports *exports)
{
    if (exports->problems.count > 0) {
        fprintf(stderr,
                "holdfast exports: %s: errors: %u, warnings: %u; `holdfast exports check %s` "
                "shows them\n",
                exports->file, exports->error_count, exports->warning_count, exports->file);
    }
}

static const char *kind_name(enum export_client_kind kind)
{
    switch (kind) {
    case EXPORT_ADDRESS:
    case EXPORT_HOST:
        return "single host";
    case EXPORT_NETWORK:
        return "network";
    case EXPORT_WILDCARD:
        return "name with wildcards";
    case EXPORT_NETGROUP:
        return "netgroup";
    case EXPORT_EVERYONE:
        return "everyone";
    }
    return "?";
}

static void add_client(struct report *json, const struct export_client *client)
{
    char options[EXPORT_OPTIONS_TEXT_BYTES_MAX];

    export_options_text(&client->options, options);
    report_add_bytes(json, "client", client->text, strlen(client->text));
    report_add_text(json, "kind", kind_name(client->kind));
    report_add_text(json, "options", options);
    add_path(json, "file", client->file);
    report_add_u64(json, "line", client->line);
}

static int check(struct exports *exports)
{
    int status = load(exports);

    if (status == COMMAND_CANNOT) {
        return status;
    }
    if (export_table_check_directories(exports->table, &exports->problems) == -ENOMEM) {
        return COMMAND_CANNOT;
    }
    count_problems(exports);
    struct report *problems = report_add_array(exports->json, "problems");
    for (uint32_t i = 0; i < exports->problems.count; i++) {
        const struct export_problem *problem = &exports->problems.items[i];
        struct report *item = report_add_object(problems, NULL);
        report_add_text(item, "kind", problem->fatal ? "error" : "warning");
        report_add_bytes(item, "text", problem->text, strlen(problem->text));
        if (exports->json == NULL) {
            printf("%s\n", problem->text);
        }
    }
    report_add_u64(exports->json, "exports", exports->table->entry_count);
    report_add_u64(exports->json, "errors", exports->error_count);
    report_add_u64(exports->json, "warnings", exports->warning_count);
    if (exports->json == NULL) {
        printf("%s: exports: %u, errors: %u, warnings: %u\n", exports->file,
               exports->table->entry_count, exports->error_count, exports->warning_count);
    }
    return exports->problems.count > 0 ? COMMAND_FINDING : COMMAND_DONE;
}

static void list_entry(const struct export_entry *entry, struct report *json)
{
    add_path(json, "path", entry->path);
    struct report *clients = report_add_array(json, "clients");
    if (json == NULL) {
        printf("%s\n", entry->path);
    }
    for (uint32_t i = 0; i < entry->client_count; i++) {
        const struct export_client *client = &entry->clients[i];
        char options[EXPORT_OPTIONS_TEXT_BYTES_MAX];
        add_client(report_add_object(clients, NULL), client);
        export_options_text(&client->options, options);
        if (json == NULL) {
            printf("    %-24s %s  # %s:%u\n", client->text, options, client->file, client->line);
        }
    }
}

static int list(struct exports *exports)
{
    int status = load(exports);

    if (status == COMMAND_CANNOT) {
        return status;
    }
    mention_problems(exports);
    struct report *entries = report_add_array(exports->json, "exports");
    for (uint32_t i = 0; i < exports->table->entry_count; i++) {
        list_entry(&exports->table->entries[i], report_add_object(entries, NULL));
    }
    return status;
}

static void print_options(const struct export_options *options)
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

static void print_client(const char *head, const struct export_client *client, const char *tail)
{
    printf("  %s%s (%s), %s:%u%s\n", head, client->text, kind_name(client->kind), client->file,
           client->line, tail);
}

/* What explain found out about one address of the host. */
struct explained {
    const char *path;
    char address[NI_MAXHOST];
    const struct sockaddr *peer;
    struct export_peer *names;         /* NULL: no memory */
    const struct export_entry *entry;  /* that decides, or else that is nearest */
    const struct export_client *best;  /* NULL: the client gets nothing */
};

static void print_names(const struct export_peer *names)
{
    for (uint32_t i = 0; names != NULL && i < names->name_count; i++) {
        printf("%s%s", i == 0 ? "  is called " : ", ", names->names[i]);
    }
    if (names != NULL && names->name_count > 0) {
        printf("\n");
    } else if (names != NULL && names->unproven[0] != '\0') {
        printf("  is called %s, which does not lead back to it and does not count\n",
               names->unproven);
    }
}

static void print_address(const struct explained *explained)
{
    const struct export_entry *entry = explained->entry;
    const struct export_client *best = explained->best;

    if (best == NULL) {
        printf("%s gets nothing at %s: export %s is for others:\n", explained->address,
               explained->path, entry->path);
    } else {
        printf("%s may %s at %s, export %s\n", explained->address,
               best->options.rw ? "read and write" : "read", explained->path, entry->path);
        print_client("by ", best, "");
        print_options(&best->options);
    }
    print_names(explained->names);
    for (uint32_t i = 0; i < entry->client_count; i++) {
        const struct export_client *client = &entry->clients[i];
        if (best == NULL) {
            print_client("", client, "");
        } else if (client != best &&
                   export_client_matches(client, explained->peer, explained->names)) {
            print_client("not by ", client, ": comes after");
        }
    }
}

static void add_address(struct report *json, const struct explained *explained)
{
    const struct export_entry *entry = explained->entry;
    const struct export_client *best = explained->best;

    report_add_text(json, "address", explained->address);
    add_path(json, "export", entry->path);
    struct report *names = report_add_array(json, "names");
    for (uint32_t i = 0; explained->names != NULL && i < explained->names->name_count; i++) {
        report_add_bytes(names, NULL, explained->names->names[i],
                         strlen(explained->names->names[i]));
    }
    report_add_text(json, "access", best == NULL ? "none" : best->options.rw ? "rw" : "ro");
    if (best != NULL) {
        add_client(report_add_object(json, "by"), best);
    }
    struct report *others = report_add_array(json, best == NULL ? "only_for" : "not_by");
    for (uint32_t i = 0; i < entry->client_count; i++) {
        const struct export_client *client = &entry->clients[i];
        if (best == NULL || (client != best && export_client_matches(client, explained->peer,
                                                                     explained->names))) {
            add_client(report_add_object(others, NULL), client);
        }
    }
}

static bool explain_address(struct exports *exports, const char *path,
                            const struct export_entry *nearest, const struct addrinfo *ai,
                            struct report *addresses)
{
    struct explained explained = {.path = path, .address = "?", .peer = ai->ai_addr};

    (void)getnameinfo(ai->ai_addr, ai->ai_addrlen, explained.address, sizeof explained.address,
                      NULL, 0, NI_NUMERICHOST);
    explained.names = export_peer_find(exports->table, ai->ai_addr);
    explained.entry = export_table_find_for(exports->table, path, ai->ai_addr, explained.names,
                                            &explained.best);
    explained.entry = explained.entry == NULL ? nearest : explained.entry;
    if (exports->json == NULL) {
        print_address(&explained);
    } else {
        add_address(report_add_object(addresses, NULL), &explained);
    }
    export_peer_free(explained.names);
    return explained.best != NULL;
}

static int explain_host(struct exports *exports, const char *host, const char *path)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int status = COMMAND_FINDING;

    const struct export_entry *entry = export_table_find(exports->table, path);
    if (entry == NULL) {
        report_add_null(exports->json, "export");
        if (exports->json == NULL) {
            printf("%s gets nothing at %s: it is in no export\n", host, path);
        }
        return status;
    }
    int error = getaddrinfo(host, NULL, &hints, &list);
    if (error != 0) {
        fprintf(stderr, "holdfast exports: cannot look up '%s': %s\n", host, gai_strerror(error));
        return COMMAND_CANNOT;
    }
    add_path(exports->json, "export", entry->path);
    struct report *addresses = report_add_array(exports->json, "addresses");
    for (const struct addrinfo *ai = list; ai != NULL; ai = ai->ai_next) {
        if (explain_address(exports, path, entry, ai, addresses)) {
            status = COMMAND_DONE;
        }
    }
    freeaddrinfo(list);
    return status;
}

static int explain(struct exports *exports, const char *host, const char *path)
{
    char tidy[PATH_MAX];

    if (path[0] != '/' || strlen(path) >= sizeof tidy) {
        fprintf(stderr, "holdfast exports: '%s' is no absolute path\n", path);
        return COMMAND_USAGE;
    }
    strcpy(tidy, path);
    export_path_tidy(tidy);
    int status = load(exports);
    if (status == COMMAND_CANNOT) {
        return status;
    }
    mention_problems(exports);
    report_add_text(exports->json, "host", host);
    add_path(exports->json, "path", tidy);
    return explain_host(exports, host, tidy);
}

/* What the running server exports, as the table of `before`. */
static int load_from_server(const struct exports *exports, struct exports *before)
{
    char *text = NULL;
    size_t text_bytes = 0;

    FILE *memory = open_memstream(&text, &text_bytes);
    if (memory == NULL) {
        return COMMAND_CANNOT;
    }
    int status = ask_server(exports->state, "exports", NAME, memory);
    if (fclose(memory) != 0 || status != COMMAND_DONE) {
        free(text);
        return COMMAND_CANNOT;
    }
    before->table = export_table_new();
    int error = before->table == NULL
                    ? -ENOMEM
                    : export_table_add_text(before->table, "the server's exports", text, text_bytes,
                                            &before->problems);
    free(text);
    return error == 0 ? COMMAND_DONE : COMMAND_CANNOT;
}

static int diff(struct exports *exports, int argc, char **argv)
{
    struct exports before = {.file = argc == 3 ? argv[1] : NULL};

    exports->file = argv[argc - 1];
    int status = argc == 3 ? load(&before) : load_from_server(exports, &before);
    if (status != COMMAND_CANNOT) {
        status = load(exports);
    }
    if (status != COMMAND_CANNOT) {
        mention_problems(exports);
        uint32_t count = exports_diff(before.table, exports->table, exports->json);
        status = count > 0 ? COMMAND_FINDING : status;
    }
    unload(&before);
    return status;
}

/* argv[0] is the subcommand. */
static int run(struct exports *exports, int argc, char **argv)
{
    if (strcmp(argv[0], "reload") == 0 && argc == 1 && exports->json == NULL) {
        return ask_server(exports->state, "reload", NAME, stdout);
    }
    if (strcmp(argv[0], "diff") == 0 && (argc == 2 || argc == 3)) {
        return diff(exports, argc, argv);
    }
    bool explains = strcmp(argv[0], "explain") == 0;
    int wanted = explains ? 3 : 1;

    if (argc < wanted || argc > wanted + 1) {
        fputs(help, stderr);
        return COMMAND_USAGE;
    }
    exports->file = argc > wanted ? argv[wanted] : FILE_DEFAULT;
    if (explains) {
        return explain(exports, argv[1], argv[2]);
    }
    if (strcmp(argv[0], "check") == 0) {
        return check(exports);
    }
    if (strcmp(argv[0], "list") == 0) {
        return list(exports);
    }
    fprintf(stderr, "holdfast exports: no command '%s'; see `holdfast exports --help`\n", argv[0]);
    return COMMAND_USAGE;
}

static int run_json(struct exports *exports, int argc, char **argv)
{
    exports->json = report_new();
    int status = exports->json == NULL ? COMMAND_CANNOT : run(exports, argc, argv);
    if (status <= COMMAND_FINDING && !report_write_json(exports->json, stdout)) {
        fputs("holdfast exports: cannot write the answer\n", stderr);
        status = COMMAND_CANNOT;
    }
    report_free(exports->json);
    return status;
}

int cmd_exports(int argc, char **argv)
{
    struct exports exports = {0};
    bool json = false;
    int word_count = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(help, stdout);
            return COMMAND_DONE;
        }
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--state") == 0 && i + 1 < argc) {
            exports.state = argv[++i];
        } else if (argv[i][0] == '-') {
            fprintf(stderr, "holdfast exports: no option %s; see `holdfast exports --help`\n",
                    argv[i]);
            return COMMAND_USAGE;
        } else {
            argv[word_count++] = argv[i];
        }
    }
    if (word_count == 0) {
        fputs(help, stderr);
        return COMMAND_USAGE;
    }
    int status = json ? run_json(&exports, word_count, argv) : run(&exports, word_count, argv);
    unload(&exports);
    return status;
}
