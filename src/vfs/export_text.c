/* SPDX-License-Identifier: Apache-2.0 */
/* A table as the text of an exports file that means the same. */
#include "vfs/export.h"

#include <stdio.h>
#include <string.h>

#define PLAIN                                                                                      \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%=~^*?[]!"

/* A word of the file: everything that could part it or mean something as \ooo. */
static void escape(const char *word, char *text, size_t text_bytes)
{
    size_t used = 0;

    for (; *word != '\0' && used + 5 < text_bytes; word++) {
        if (strchr(PLAIN, *word) != NULL) {
            text[used++] = *word;
        } else {
            used += (size_t)snprintf(text + used, text_bytes - used, "\\%03o",
                                     (unsigned)(unsigned char)*word);
        }
    }
    text[used] = '\0';
}

void export_client_text(const struct export_entry *entry, const struct export_client *client,
                        char text[EXPORT_CLIENT_TEXT_BYTES_MAX])
{
    char path[4 * EXPORT_PATH_BYTES_MAX + 8];
    char name[4 * EXPORT_CLIENT_BYTES_MAX + 8];
    char plain[EXPORT_OPTIONS_TEXT_BYTES_MAX];
    char options[4 * EXPORT_OPTIONS_TEXT_BYTES_MAX + 8];

    escape(entry->path, path, sizeof path);
    escape(client->text, name, sizeof name);
    export_options_text(&client->options, plain);
    escape(plain, options, sizeof options);
    (void)snprintf(text, EXPORT_CLIENT_TEXT_BYTES_MAX, "%s %s(%s)", path, name, options);
}
