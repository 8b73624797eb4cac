/* SPDX-License-Identifier: Apache-2.0 */
#include "server/uaddr.h"

#include <arpa/inet.h>
#include <stdio.h>

static void map_ipv4(const void *ipv4, struct in6_addr *address)
{
    memset(address->s6_addr, 0, 10);
    memset(address->s6_addr + 10, 0xff, 2);
    memcpy(address->s6_addr + 12, ipv4, 4);
}

/* Reads ".N" (0 to 255, no leading zero) at the end of text and takes it off. */
static bool take_octet(char *text, uint8_t *octet)
{
    char *dot = strrchr(text, '.');
    unsigned value = 0;

    if (dot == NULL || dot[1] == '\0' || (dot[1] == '0' && dot[2] != '\0')) {
        return false;
    }
    for (const char *digit = dot + 1; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9' || value > 25) {
            return false;
        }
        value = value * 10 + (unsigned)(*digit - '0');
    }
    if (value > 255) {
        return false;
    }
    *octet = (uint8_t)value;
    *dot = '\0';
    return true;
}

bool uaddr_parse(struct xdr_bytes bytes, int family, struct uaddr *uaddr)
{
    char text[UADDR_BYTES_MAX];
    uint8_t high;
    uint8_t low;
    struct in_addr ipv4;

    if (bytes.size >= sizeof text || memchr(bytes.data, '\0', bytes.size) != NULL) {
        return false;
    }
    memcpy(text, bytes.data, bytes.size);
    text[bytes.size] = '\0';
    if (!take_octet(text, &low) || !take_octet(text, &high)) {
        return false;
    }
    uaddr->port = (uint16_t)(high << 8 | low);
    if (family == AF_INET6) {
        return inet_pton(AF_INET6, text, &uaddr->address) == 1;
    }
    if (inet_pton(AF_INET, text, &ipv4) != 1) {
        return false;
    }
    map_ipv4(&ipv4, &uaddr->address);
    return true;
}

void uaddr_format(const struct uaddr *uaddr, int family, char text[UADDR_BYTES_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";
    const void *address = family == AF_INET6 ? (const void *)&uaddr->address
                                             : (const void *)&uaddr->address.s6_addr[12];

    (void)inet_ntop(family, address, host, sizeof host);
    (void)snprintf(text, UADDR_BYTES_MAX, "%s.%u.%u", host, uaddr->port >> 8, uaddr->port & 0xffU);
}

struct in6_addr uaddr_any(int family)
{
    struct in6_addr any = IN6ADDR_ANY_INIT;
    struct in_addr any_ipv4 = {.s_addr = htonl(INADDR_ANY)};

    if (family == AF_INET) {
        map_ipv4(&any_ipv4, &any);
    }
    return any;
}

bool uaddr_is_any(const struct in6_addr *address, int family)
{
    struct in6_addr any = uaddr_any(family);
    return memcmp(address, &any, sizeof any) == 0;
}
