/* SPDX-License-Identifier: Apache-2.0 */
/* What the export_*.c files share while a table is being made. */
#ifndef VFS_EXPORT_INTERNAL_H
#define VFS_EXPORT_INTERNAL_H

#include "vfs/export.h"

#include <string.h>

/* Where a table is being filled from, and what was found wrong so far. */
struct export_context {
    struct export_table *table;
    struct export_problems *problems;
    const char *file; /* NULL: the command line */
    unsigned line; /* 0: all of it */
    bool line_is_bad; /* an error was reported on this line: it will be left out */
    bool fatal;       /* the same, on any line */
    bool no_memory;
};

/* Reports a problem at the context's place. An error condemns the line. */
void export_error(struct export_context *context, const char *format, ...) PRINTF_LIKE(2, 3);
void export_warning(struct export_context *context, const char *format, ...) PRINTF_LIKE(2, 3);

/* 0, -EINVAL or -ENOMEM: how the whole text went. */
int export_context_result(const struct export_context *context);

/* Makes room for one more item behind `count` of them (in an array that only this function grows).
 * False, and no_memory set, if there is none. */
bool export_grow(struct export_context *context, void **items, uint32_t count, size_t item_bytes);

/* strdup that notes no_memory. */
char *export_copy(struct export_context *context, const char *text);

/* A string that lives as long as the table. */
const char *export_keep(struct export_context *context, const char *text);

/* A decimal number without sign, at most max. */
bool export_number(const char *text, uint64_t max, uint64_t *value);

/* A comma-separated list of options, applied to *options from left to right. `list` is cut up.
 * False after an error, which was reported. */
bool export_options_parse(struct export_context *context, char *list,
                          struct export_options *options);

/* Fills kind, text, address and prefix_bits from "HOST", "ADDRESS/BITS", "@NETGROUP", "*" or "".
 * False after an error, which was reported. */
bool export_client_parse(struct export_context *context, const char *name,
                         struct export_client *client);
void export_client_free(struct export_client *client);
void export_entry_free(struct export_entry *entry);

/* Adds the clients of one line to the entry of their directory. Takes the clients over (not the
 * array), also when it reports an error. */
void export_table_join(struct export_context *context, const char *path,
                       struct export_client *clients, uint32_t client_count);

/* Whether a name fits a pattern with * ? [...]. */
bool export_pattern_fits(const char *pattern, const char *name);

/* ::ffff:0:0/96, where IPv4 is kept. */
extern const uint8_t export_ipv4_prefix[12];

/* For sorted arrays of addresses. */
int export_address_compare(const void *a, const void *b);

/* IPv4 as ::ffff:a.b.c.d; false for other address families. */
bool export_address(const struct sockaddr *peer, uint8_t address[16]);

/* Is this an IPv4 address or network, in the form of struct export_client? */
static inline bool export_is_ipv4(const uint8_t address[16], uint8_t prefix_bits)
{
    return prefix_bits >= 96 && memcmp(address, export_ipv4_prefix, sizeof export_ipv4_prefix) == 0;
}

/* Clears the bits behind the prefix; true if one of them was set. */
bool export_address_mask(uint8_t address[16], unsigned prefix_bits);

#endif
