/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exports_diff.h"

#include "report/tree.h"

#include <stdio.h>
#include <string.h>

static const struct export_client *find(const struct export_table *table, const char *path,
                                        const char *client)
{
    for (uint32_t i = 0; i < table->entry_count; i++) {
        const struct export_entry *entry = &table->entries[i];
        for (uint32_t j = 0; strcmp(entry->path, path) == 0 && j < entry->client_count; j++) {
            if (strcasecmp(entry->clients[j].text, client) == 0) {
                return &entry->clients[j];
            }
        }
    }
    return NULL;
}

static bool same_options(const struct export_client *a, const struct export_client *b)
{
    char text_a[EXPORT_OPTIONS_TEXT_BYTES_MAX], text_b[EXPORT_OPTIONS_TEXT_BYTES_MAX];

    export_options_text(&a->options, text_a);
    export_options_text(&b->options, text_b);
    return strcmp(text_a, text_b) == 0;
}

static void add(struct report *json, const char *key, const struct export_client *client)
{
    char options[EXPORT_OPTIONS_TEXT_BYTES_MAX];

    if (client == NULL) {
        report_add_null(json, key);
    } else {
        export_options_text(&client->options, options);
        report_add_bytes(json, key, options, strlen(options));
    }
}

static void show(const struct export_entry *entry, const struct export_client *before,
                 const struct export_client *after, struct report *list)
{
    char text[EXPORT_CLIENT_TEXT_BYTES_MAX];

    if (list != NULL) {
        struct report *item = report_add_object(list, NULL);
        const char *client = before != NULL ? before->text : after->text;
        report_add_bytes(item, "path", entry->path, strlen(entry->path));
        report_add_bytes(item, "client", client, strlen(client));
        add(item, "before", before);
        add(item, "after", after);
        return;
    }
    if (before != NULL) {
        export_client_text(entry, before, text);
        printf("- %s\n", text);
    }
    if (after != NULL) {
        export_client_text(entry, after, text);
        printf("+ %s\n", text);
    }
}

uint32_t exports_diff(const struct export_table *before, const struct export_table *after,
                      struct report *json)
{
    struct report *list = report_add_array(json, "differences");
    uint32_t count = 0;

    for (uint32_t i = 0; i < before->entry_count; i++) {
        const struct export_entry *entry = &before->entries[i];
        for (uint32_t j = 0; j < entry->client_count; j++) {
            const struct export_client *now =
                find(after, entry->path, entry->clients[j].text);
            if (now == NULL || !same_options(&entry->clients[j], now)) {
                show(entry, &entry->clients[j], now, list);
                count++;
            }
        }
    }
    for (uint32_t i = 0; i < after->entry_count; i++) {
        const struct export_entry *entry = &after->entries[i];
        for (uint32_t j = 0; j < entry->client_count; j++) {
            if (find(before, entry->path, entry->clients[j].text) == NULL) {
                show(entry, NULL, &entry->clients[j], list);
                count++;
            }
        }
    }
    return count;
}
