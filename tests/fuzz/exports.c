/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an exports file: what was understood is well formed, can be written down and read
 * again as the same, and matching follows the order of export.h.
 */
#include "fuzz.h"
#include "vfs/export.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

static void check_problems(const struct export_problems *problems, const char *file)
{
    size_t file_bytes = strlen(file);

    FUZZ_CHECK(problems->count <= EXPORT_PROBLEM_COUNT_MAX);
    for (uint32_t i = 0; i < problems->count; i++) {
        const char *text = problems->items[i].text;
        FUZZ_CHECK(memchr(text, '\0', sizeof problems->items[i].text) != NULL);
        FUZZ_CHECK(strncmp(text, file, file_bytes) == 0 && text[file_bytes] == ':');
        FUZZ_CHECK(strstr(text, problems->items[i].fatal ? ": error: " : ": warning: ") != NULL);
        for (; *text != '\0'; text++) {
            FUZZ_CHECK((unsigned char)*text >= 0x20 && *text != 0x7f);
        }
    }
}

static unsigned rank(const struct export_client *client)
{
    return client->kind == EXPORT_HOST ? EXPORT_ADDRESS : client->kind;
}

static void check_match(const struct export_entry *entry, const struct sockaddr *peer)
{
    const struct export_client *best = export_entry_match_client(entry, peer, NULL, NULL);

    FUZZ_CHECK(best == NULL || export_client_matches(best, peer, NULL));
    for (uint32_t i = 0; i < entry->client_count; i++) {
        const struct export_client *client = &entry->clients[i];
        if (client == best || !export_client_matches(client, peer, NULL)) {
            continue;
        }
        FUZZ_CHECK(best != NULL);
        FUZZ_CHECK(client > best ? rank(client) >= rank(best) : rank(client) > rank(best));
    }
}

/* From each client's own address, and from one that few name. */
static void check_matches(const struct export_entry *entry)
{
    struct sockaddr_in6 peer = {.sin6_family = AF_INET6, .sin6_addr.s6_addr = {0x20, 1, 2}};
    struct sockaddr_in ipv4 = {.sin_family = AF_INET};

    check_match(entry, (struct sockaddr *)(void *)&peer);
    for (uint32_t i = 0; i < entry->client_count; i++) {
        memcpy(&peer.sin6_addr, entry->clients[i].address, 16);
        memcpy(&ipv4.sin_addr, entry->clients[i].address + 12, 4);
        check_match(entry, (struct sockaddr *)(void *)&peer);
        check_match(entry, (struct sockaddr *)(void *)&ipv4);
        if (entry->clients[i].kind == EXPORT_ADDRESS || entry->clients[i].kind == EXPORT_NETWORK) {
            FUZZ_CHECK(
                export_client_matches(&entry->clients[i], (struct sockaddr *)(void *)&peer, NULL));
        }
    }
}

static void check_entry(const struct export_table *table, const struct export_entry *entry)
{
    FUZZ_CHECK(entry->path[0] == '/' && strlen(entry->path) <= EXPORT_PATH_BYTES_MAX);
    FUZZ_CHECK(strstr(entry->path, "//") == NULL && strstr(entry->path, "/./") == NULL);
    FUZZ_CHECK(strstr(entry->path, "/../") == NULL);
    FUZZ_CHECK(entry->path[1] == '\0' || entry->path[strlen(entry->path) - 1] != '/');
    FUZZ_CHECK(export_table_find(table, entry->path) == entry);
    FUZZ_CHECK(entry->client_count > 0 && entry->client_count <= EXPORT_CLIENT_COUNT_MAX);
    for (uint32_t i = 0; i < entry->client_count; i++) {
        const struct export_client *client = &entry->clients[i];
        FUZZ_CHECK(client->text[0] != '\0' && strlen(client->text) <= EXPORT_CLIENT_BYTES_MAX);
        FUZZ_CHECK(client->line >= 1 && client->prefix_bits <= 128 && client->resolved_count == 0);
        FUZZ_CHECK(client->options.anonuid != UINT32_MAX && client->options.anongid != UINT32_MAX);
        FUZZ_CHECK(client->options.has_fsid == entry->clients[0].options.has_fsid);
    }
    check_matches(entry);
}

static void write_octal(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        fprintf(file, "\\%03o", (unsigned char)*text);
    }
}

static void write_table(FILE *file, const struct export_table *table)
{
    char options[EXPORT_OPTIONS_TEXT_BYTES_MAX];

    for (uint32_t i = 0; i < table->entry_count; i++) {
        const struct export_entry *entry = &table->entries[i];
        write_octal(file, entry->path);
        for (uint32_t j = 0; j < entry->client_count; j++) {
            export_options_text(&entry->clients[j].options, options);
            fputc(' ', file);
            write_octal(file, entry->clients[j].text);
            fputc('(', file);
            write_octal(file, options);
            fputc(')', file);
        }
        fputc('\n', file);
    }
}

static void check_same(const struct export_table *a, const struct export_table *b)
{
    FUZZ_CHECK(a->entry_count == b->entry_count);
    for (uint32_t i = 0; i < a->entry_count; i++) {
        const struct export_entry *x = &a->entries[i];
        const struct export_entry *y = &b->entries[i];
        FUZZ_CHECK(strcmp(x->path, y->path) == 0 && x->client_count == y->client_count);
        for (uint32_t j = 0; j < x->client_count; j++) {
            char x_options[EXPORT_OPTIONS_TEXT_BYTES_MAX];
            char y_options[EXPORT_OPTIONS_TEXT_BYTES_MAX];
            export_options_text(&x->clients[j].options, x_options);
            export_options_text(&y->clients[j].options, y_options);
            FUZZ_CHECK(strcmp(x_options, y_options) == 0);
            FUZZ_CHECK(x->clients[j].kind == y->clients[j].kind);
            FUZZ_CHECK(strcmp(x->clients[j].text, y->clients[j].text) == 0);
            FUZZ_CHECK(memcmp(x->clients[j].address, y->clients[j].address, 16) == 0);
            FUZZ_CHECK(x->clients[j].prefix_bits == y->clients[j].prefix_bits);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct export_problems problems = {0};
    struct export_problems again_problems = {0};
    struct export_table *table = export_table_new();
    struct export_table *again = export_table_new();
    char *text = NULL;
    size_t text_bytes = 0;

    FUZZ_CHECK(table != NULL && again != NULL);
    int error = export_table_add_text(table, "one", (const char *)data, size_bytes, &problems);
    FUZZ_CHECK(error == 0 || error == -EINVAL);
    check_problems(&problems, "one");
    for (uint32_t i = 0; i < table->entry_count; i++) {
        check_entry(table, &table->entries[i]);
    }

    FILE *file = open_memstream(&text, &text_bytes);
    FUZZ_CHECK(file != NULL);
    write_table(file, table);
    fclose(file);
    FUZZ_CHECK(export_table_add_text(again, "two", text, text_bytes, &again_problems) == 0);
    check_problems(&again_problems, "two");
    check_same(table, again);

    free(text);
    export_problems_free(&problems);
    export_problems_free(&again_problems);
    export_table_free(table);
    export_table_free(again);
    return 0;
}
