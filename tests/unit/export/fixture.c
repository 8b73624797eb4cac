/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    assert_non_null(fixture);
    fixture->table = export_table_new();
    assert_non_null(fixture->table);
    *state = fixture;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;

    export_problems_free(&fixture->problems);
    export_table_free(fixture->table);
    free(fixture);
    return 0;
}

void load_bytes(struct fixture *fixture, const char *text, size_t text_bytes)
{
    /* In a block of just that size, so that a sanitizer sees a step too far. */
    char *copy = malloc(text_bytes == 0 ? 1 : text_bytes);

    assert_non_null(copy);
    memcpy(copy, text, text_bytes);
    fixture->result =
        export_table_add_text(fixture->table, "exports", copy, text_bytes, &fixture->problems);
    free(copy);
    assert_int_equal(export_table_resolve(fixture->table, &fixture->problems), 0);
}

void load(struct fixture *fixture, const char *text)
{
    load_bytes(fixture, text, strlen(text));
}

void load_argument(struct fixture *fixture, const char *argument)
{
    fixture->result = export_table_add_argument(fixture->table, argument, &fixture->problems);
}

static void to_sockaddr(const char *text, struct sockaddr_storage *address)
{
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)address;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)address;

    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
        in6->sin6_family = AF_INET6;
    }
}

static const struct export_entry *entry_of(const struct fixture *fixture, const char *path)
{
    for (uint32_t i = 0; i < fixture->table->entry_count; i++) {
        if (strcmp(fixture->table->entries[i].path, path) == 0) {
            return &fixture->table->entries[i];
        }
    }
    return NULL;
}

const struct export_options *gets(const struct fixture *fixture, const char *path,
                                  const char *address)
{
    const struct export_entry *entry = entry_of(fixture, path);
    struct sockaddr_storage peer;

    to_sockaddr(address, &peer);
    return entry == NULL ? NULL : export_entry_match(entry, (struct sockaddr *)(void *)&peer);
}

const char *gets_word(const struct fixture *fixture, const char *path, const char *address)
{
    if (entry_of(fixture, path) == NULL) {
        return "no export";
    }
    const struct export_options *options = gets(fixture, path, address);
    if (options == NULL) {
        return "nothing";
    }
    return options->rw ? "rw" : "ro";
}

/* expected is "LINE:KIND:WORD". */
static bool is_said(const struct export_problem *problem, const char *expected)
{
    char start[64];
    const char *kind = strchr(expected, ':') + 1;
    const char *word = strchr(kind, ':') + 1;

    (void)snprintf(start, sizeof start, "exports:%.*s %.*s ", (int)(kind - expected), expected,
                   (int)(word - kind), kind);
    return strncmp(problem->text, start, strlen(start)) == 0 &&
           strstr(problem->text + strlen(start), word) != NULL;
}

void assert_problems(const struct fixture *fixture, ...)
{
    va_list args;
    uint32_t index = 0;
    bool good = true;

    va_start(args, fixture);
    for (const char *expected = va_arg(args, const char *); expected != NULL;
         expected = va_arg(args, const char *)) {
        if (index >= fixture->problems.count ||
            !is_said(&fixture->problems.items[index], expected)) {
            print_error("missing, or not at place %u: %s\n", index, expected);
            good = false;
        }
        index++;
    }
    va_end(args);
    if (!good || index != fixture->problems.count) {
        for (uint32_t i = 0; i < fixture->problems.count; i++) {
            print_error("said: %s\n", fixture->problems.items[i].text);
        }
        fail();
    }
}
