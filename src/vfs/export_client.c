/* SPDX-License-Identifier: Apache-2.0 */
/* One client specification as text: what kind it is, and its address if it has one. */
#include "vfs/export_internal.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

static bool only(const char *text, const char *allowed)
{
    return text[strspn(text, allowed)] == '\0';
}

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool parse_address(const char *text, uint8_t address[16])
{
    memcpy(address, export_ipv4_prefix, sizeof export_ipv4_prefix);
    return inet_pton(AF_INET, text, address + 12) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

bool export_address_mask(uint8_t address[16], unsigned prefix_bits)
{
    bool was_set = false;

    for (unsigned i = 0; i < 16; i++) {
        unsigned kept_bits = prefix_bits > i * 8 ? prefix_bits - i * 8 : 0;
        unsigned zero_bits = kept_bits >= 8 ? 0 : 8 - kept_bits;
        uint8_t mask = (uint8_t)((0xffU << zero_bits) & 0xffU);
        was_set = was_set || (address[i] & (uint8_t)~mask) != 0;
        address[i] &= mask;
    }
    return was_set;
}

/* The length of 255.255.252.0 and its like; -1 for other addresses. */
static int mask_bits(const char *text)
{
    struct in_addr mask;

    if (inet_pton(AF_INET, text, &mask) != 1) {
        return -1;
    }
    uint32_t zeros = ~ntohl(mask.s_addr);
    if ((zeros & (zeros + 1)) != 0) {
        return -1;
    }
    return 32 - __builtin_popcount(zeros);
}

static bool parse_network(struct export_context *context, const char *name, const char *slash,
                          struct export_client *client)
{
    char base[EXPORT_CLIENT_BYTES_MAX + 1];
    uint64_t bits;

    memcpy(base, name, (size_t)(slash - name));
    base[slash - name] = '\0';
    if (!parse_address(base, client->address)) {
        export_error(context,
                     "'%s': '%s' is no IP address; a network is written like 192.168.1.0/24, "
                     "192.168.1.0/255.255.255.0 or 2001:db8::/32",
                     name, base);
        return false;
    }
    bool is_ipv4_text = strchr(base, ':') == NULL;
    uint64_t bits_max = is_ipv4_text ? 32 : 128;
    if (is_ipv4_text && strchr(slash, '.') != NULL) {
        int dotted = mask_bits(slash + 1);
        if (dotted < 0) {
            export_error(context, "'%s': '%s' is no netmask: ones, then zeros, like 255.255.252.0",
                         name, slash + 1);
            return false;
        }
        bits = (uint64_t)dotted;
    } else if (!export_number(slash + 1, bits_max, &bits)) {
        export_error(context, "'%s': the prefix length '%s' is not a number from 0 to %u", name,
                     slash + 1, (unsigned)bits_max);
        return false;
    }
    client->kind = EXPORT_NETWORK;
    client->prefix_bits = (uint8_t)(is_ipv4_text ? 96 + bits : bits);
    if (export_address_mask(client->address, client->prefix_bits)) {
        export_warning(context,
                       "'%s' has bits behind its prefix; they do not count: all of the "
                       "network is meant, not one host",
                       name);
    }
    return true;
}

static bool parse_wildcard(struct export_context *context, const char *name,
                           struct export_client *client)
{
    if (!only(name, LETTERS DIGITS "._-*?[]!^")) {
        export_error(context, "'%s' is no host name with wildcards", name);
        return false;
    }
    if (only(name, DIGITS ".*?")) {
        export_error(context,
                     "'%s': wildcards are for names, not for addresses; write a network, like "
                     "192.168.1.0/24",
                     name);
        return false;
    }
    client->kind = EXPORT_WILDCARD;
    return true;
}

static bool parse_name(struct export_context *context, const char *name,
                       struct export_client *client)
{
    if (strchr(name, ':') != NULL) {
        export_error(context, "'%s' is no IPv6 address", name);
        return false;
    }
    if (only(name, DIGITS ".")) {
        export_error(context,
                     "'%s' is no IPv4 address: four numbers from 0 to 255 without leading "
                     "zeros",
                     name);
        return false;
    }
    if (!only(name, LETTERS DIGITS "._-") || name[0] == '-' || name[0] == '.') {
        export_error(context, "'%s' is no host name, address, network or @netgroup", name);
        return false;
    }
    client->kind = EXPORT_HOST;
    return true;
}

static bool parse_kind(struct export_context *context, const char *name,
                       struct export_client *client)
{
    const char *special = strpbrk(name, "*?[/");

    if (*name == '\0' || strcmp(name, "*") == 0) {
        client->kind = EXPORT_EVERYONE;
        return true;
    }
    if (strlen(name) > EXPORT_CLIENT_BYTES_MAX) {
        export_error(context, "a client name of %zu bytes; %u are allowed", strlen(name),
                     EXPORT_CLIENT_BYTES_MAX);
        return false;
    }
    if (name[0] == '@') {
        if (name[1] == '\0') {
            export_error(context, "'@' without the name of a netgroup");
            return false;
        }
        client->kind = EXPORT_NETGROUP;
        return true;
    }
    if (strncmp(name, "gss/", 4) == 0) {
        export_error(context, "'%s': Kerberos is not built yet; name hosts or networks", name);
        return false;
    }
    if (name[0] == '[' && strchr(name, ':') != NULL) {
        export_error(context, "'%s': IPv6 addresses are written without square brackets", name);
        return false;
    }
    if (special != NULL) {
        return *special == '/' ? parse_network(context, name, special, client)
                               : parse_wildcard(context, name, client);
    }
    if (parse_address(name, client->address)) {
        client->kind = EXPORT_ADDRESS;
        client->prefix_bits = 128;
        return true;
    }
    return parse_name(context, name, client);
}

bool export_client_parse(struct export_context *context, const char *name,
                         struct export_client *client)
{
    if (!parse_kind(context, name, client)) {
        return false;
    }
    client->text = export_copy(context, client->kind == EXPORT_EVERYONE ? "*" : name);
    client->file = context->file == NULL ? NULL : export_copy(context, context->file);
    client->line = context->line;
    return !context->no_memory;
}

void export_client_free(struct export_client *client)
{
    free(client->text);
    free(client->resolved);
    free(client->file);
    memset(client, 0, sizeof *client);
}
