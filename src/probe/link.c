/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/link.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NETLINK_BYTES 8192
#define ECHO_BYTES_MAX 65536U
#define ICMP_HEADER_BYTES 8U
#define IPV4_HEADER_BYTES 20U
#define IPV6_HEADER_BYTES 40U

/* ---- rtnetlink ---- */

struct request {
    struct nlmsghdr head;
    union {
        struct rtmsg route;
        struct ndmsg neighbour;
    };
    char attributes[128];
};

static const void *address_bytes(const struct client_address *address, size_t *size)
{
    if (address->sa.sa_family == AF_INET6) {
        *size = sizeof address->in6.sin6_addr;
        return &address->in6.sin6_addr;
    }
    *size = sizeof address->in.sin_addr;
    return &address->in.sin_addr;
}

static void put_attribute(struct request *request, unsigned short type, const void *data,
                          size_t size)
{
    struct rtattr *attribute =
        (struct rtattr *)(void *)((char *)request + NLMSG_ALIGN(request->head.nlmsg_len));
    attribute->rta_type = type;
    attribute->rta_len = (unsigned short)RTA_LENGTH(size);
    memcpy(RTA_DATA(attribute), data, size);
    request->head.nlmsg_len = NLMSG_ALIGN(request->head.nlmsg_len) + (uint32_t)RTA_SPACE(size);
}

/* One question, one answer. Returns its size, or -errno. */
static ssize_t ask(const struct request *request, char answer[NETLINK_BYTES])
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) {
        return -errno;
    }
    ssize_t size = send(fd, request, request->head.nlmsg_len, 0);
    if (size >= 0) {
        size = recv(fd, answer, NETLINK_BYTES, 0);
    }
    int error = errno;
    close(fd);
    if (size < 0) {
        return -error;
    }
    const struct nlmsghdr *head = (const void *)answer;
    if (!NLMSG_OK(head, (size_t)size)) {
        return -EPROTO;
    }
    if (head->nlmsg_type == NLMSG_ERROR) {
        const struct nlmsgerr *problem = NLMSG_DATA(head);
        return problem->error < 0 ? problem->error : -EPROTO;
    }
    return size;
}

static void set_address(struct client_address *address, int family, const void *bytes)
{
    *address = (struct client_address){0};
    address->sa.sa_family = (sa_family_t)family;
    if (family == AF_INET6) {
        memcpy(&address->in6.sin6_addr, bytes, 16);
        address->bytes = sizeof address->in6;
    } else {
        memcpy(&address->in.sin_addr, bytes, 4);
        address->bytes = sizeof address->in;
    }
}

static int find_route(const struct client_address *to, struct link_state *link)
{
    char answer[NETLINK_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
    size_t size;
    const void *bytes = address_bytes(to, &size);
    struct request request = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof request.route),
                 .nlmsg_type = RTM_GETROUTE,
                 .nlmsg_flags = NLM_F_REQUEST},
        .route = {.rtm_family = (unsigned char)to->sa.sa_family,
                  .rtm_dst_len = (unsigned char)(size * 8)},
    };
    put_attribute(&request, RTA_DST, bytes, size);
    ssize_t got = ask(&request, answer);
    if (got < 0) {
        return (int)got;
    }
    const struct nlmsghdr *head = (const void *)answer;
    const struct rtmsg *route = NLMSG_DATA(head);
    const char *end = answer + got;
    const struct rtattr *a = RTM_RTA(route);
    for (size_t step; (const char *)(a + 1) <= end; a = (const void *)((const char *)a + step)) {
        step = RTA_ALIGN(a->rta_len);
        if (a->rta_len < sizeof *a || (const char *)a + a->rta_len > end) {
            break;
        }
        if (a->rta_type == RTA_OIF) {
            memcpy(&link->index, RTA_DATA(a), sizeof link->index);
        } else if (a->rta_type == RTA_GATEWAY) {
            link->has_gateway = true;
            set_address(&link->gateway, to->sa.sa_family, RTA_DATA(a));
        } else if (a->rta_type == RTA_PREFSRC) {
            set_address(&link->source, to->sa.sa_family, RTA_DATA(a));
        }
    }
    return link->index != 0 ? 0 : -ENETUNREACH;
}

enum link_neighbour link_neighbour(const struct link_state *link, const struct client_address *to)
{
    char answer[NETLINK_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
    const struct client_address *who = link->has_gateway ? &link->gateway : to;
    size_t size;
    const void *bytes = address_bytes(who, &size);
    struct request request = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof request.neighbour),
                 .nlmsg_type = RTM_GETNEIGH,
                 .nlmsg_flags = NLM_F_REQUEST},
        .neighbour = {.ndm_family = (unsigned char)who->sa.sa_family,
                      .ndm_ifindex = (int)link->index},
    };
    put_attribute(&request, NDA_DST, bytes, size);
    if (link->loopback || ask(&request, answer) < 0) {
        return LINK_NEIGHBOUR_NONE;
    }
    const struct ndmsg *entry = NLMSG_DATA((const struct nlmsghdr *)(const void *)answer);
    return (entry->ndm_state & (NUD_FAILED | NUD_INCOMPLETE)) != 0 ? LINK_NEIGHBOUR_FAILED
                                                                   : LINK_NEIGHBOUR_GOOD;
}

/* ---- sysfs: what drivers and the kernel count (Documentation/ABI/testing/sysfs-class-net) ---- */

static bool read_text(const char *name, const char *what, char *text, size_t size)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, what);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    bool got = fgets(text, (int)size, file) != NULL; /* speed: EINVAL where there is no link */
    (void)fclose(file);
    if (got) {
        text[strcspn(text, "\n")] = '\0';
    }
    return got;
}

static uint64_t read_number(const char *name, const char *what)
{
    char text[32];
    return read_text(name, what, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

void link_count(const struct link_state *link, struct link_counters *counters)
{
    *counters = (struct link_counters){
        .rx_packets = read_number(link->name, "statistics/rx_packets"),
        .rx_errors = read_number(link->name, "statistics/rx_errors"),
        .rx_dropped = read_number(link->name, "statistics/rx_dropped"),
        .tx_errors = read_number(link->name, "statistics/tx_errors"),
        .tx_dropped = read_number(link->name, "statistics/tx_dropped"),
        .collisions = read_number(link->name, "statistics/collisions"),
    };
}

int link_find(const struct client_address *to, struct link_state *link, struct err *err)
{
    char text[32], name[IF_NAMESIZE];

    *link = (struct link_state){.speed_mbit = -1};
    int error = find_route(to, link);
    if (error != 0 || if_indextoname(link->index, name) == NULL) {
        return err_set(err, error != 0 ? error : -errno, "no way there: %s",
                       strerror(error != 0 ? -error : errno));
    }
    (void)snprintf(link->name, sizeof link->name, "%s", name);
    link->loopback = strcmp(name, "lo") == 0;
    link->mtu = (uint32_t)read_number(name, "mtu");
    link->up = read_text(name, "operstate", text, sizeof text) && strcmp(text, "down") != 0;
    if (read_text(name, "speed", text, sizeof text)) {
        long speed = strtol(text, NULL, 10);
        link->speed_mbit = speed > 0 ? speed : -1;
    }
    if (read_text(name, "duplex", text, sizeof link->duplex) && strcmp(text, "unknown") != 0) {
        (void)snprintf(link->duplex, sizeof link->duplex, "%.*s", (int)sizeof link->duplex - 1,
                       text);
    }
    link_count(link, &link->counters);
    return 0;
}

/* ---- echo ---- */

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static uint16_t checksum(const uint8_t *bytes, size_t size)
{
    uint32_t sum = 0;
    for (size_t i = 0; i + 1 < size; i += 2) {
        sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    }
    sum += size % 2 != 0 ? (uint32_t)bytes[size - 1] << 8 : 0;
    sum = (sum >> 16) + (sum & 0xffff);
    return htons((uint16_t) ~(sum + (sum >> 16)));
}

/* The unprivileged kind where it is allowed (net.ipv4.ping_group_range), else a raw socket. */
static int open_icmp(const struct client_address *to, bool *raw)
{
    bool ipv6 = to->sa.sa_family == AF_INET6;
    int protocol = ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
    int fd = socket(to->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, protocol);
    *raw = fd < 0;
    return fd >= 0 ? fd : socket(to->sa.sa_family, SOCK_RAW | SOCK_CLOEXEC, protocol);
}

static void forbid_fragments(int fd, bool ipv6)
{
    int probe = ipv6 ? IPV6_PMTUDISC_PROBE : IP_PMTUDISC_PROBE;
    (void)setsockopt(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
                     ipv6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &probe, sizeof probe);
}

static bool is_answer(const uint8_t *bytes, size_t size, bool raw, bool ipv6, uint16_t sequence)
{
    size_t skip = raw && !ipv6 && size > 0 ? (size_t)(bytes[0] & 15) * 4 : 0;
    if (size < skip + ICMP_HEADER_BYTES) {
        return false;
    }
    uint8_t reply = ipv6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY;
    uint16_t theirs;
    memcpy(&theirs, bytes + skip + 6, sizeof theirs);
    return bytes[skip] == reply && theirs == sequence;
}

struct echo {
    int fd;
    bool raw, ipv6;
    uint16_t sequence;
    uint8_t *bytes;
};

static enum link_echo wait_for_echo(const struct echo *echo, double deadline_ms)
{
    for (;;) {
        double left_ms = deadline_ms - now_ms();
        struct pollfd poll_fd = {.fd = echo->fd, .events = POLLIN};
        if (left_ms <= 0 || poll(&poll_fd, 1, (int)left_ms + 1) <= 0) {
            return LINK_ECHO_LOST;
        }
        ssize_t got = recv(echo->fd, echo->bytes, ECHO_BYTES_MAX, MSG_DONTWAIT);
        if (got < 0 && errno == EMSGSIZE) {
            return LINK_ECHO_TOO_BIG;
        }
        if (got > 0 && is_answer(echo->bytes, (size_t)got, echo->raw, echo->ipv6, echo->sequence)) {
            return LINK_ECHO_BACK;
        }
    }
}

static enum link_echo send_echo(const struct echo *echo, const struct client_address *to,
                                uint32_t data_bytes, double deadline_ms)
{
    struct client_address address = *to;
    client_address_set_port(&address, 0);
    memset(echo->bytes, 0x5a, data_bytes);
    memset(echo->bytes, 0, ICMP_HEADER_BYTES);
    echo->bytes[0] = echo->ipv6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO;
    memcpy(echo->bytes + 4, &(uint16_t){(uint16_t)getpid()}, 2);
    memcpy(echo->bytes + 6, &echo->sequence, 2);
    if (!echo->ipv6) {
        uint16_t sum = checksum(echo->bytes, data_bytes);
        memcpy(echo->bytes + 2, &sum, 2);
    }
    if (connect(echo->fd, &address.sa, address.bytes) != 0) {
        return LINK_ECHO_LOST;
    }
    if (send(echo->fd, echo->bytes, data_bytes, 0) < 0) {
        return errno == EMSGSIZE ? LINK_ECHO_TOO_BIG : LINK_ECHO_LOST;
    }
    return wait_for_echo(echo, deadline_ms);
}

enum link_echo link_echo(const struct client_address *to, uint32_t packet_bytes, bool whole,
                         uint32_t timeout_ms, double *rtt_ms)
{
    static uint16_t sequence;
    struct echo echo = {.ipv6 = to->sa.sa_family == AF_INET6, .sequence = htons(++sequence)};
    uint32_t head = echo.ipv6 ? IPV6_HEADER_BYTES : IPV4_HEADER_BYTES;
    enum link_echo result = LINK_ECHO_NOT_ALLOWED;

    CHECK(packet_bytes >= head + ICMP_HEADER_BYTES && packet_bytes < ECHO_BYTES_MAX);
    echo.fd = open_icmp(to, &echo.raw);
    echo.bytes = malloc(ECHO_BYTES_MAX);
    if (echo.fd >= 0 && echo.bytes != NULL) {
        if (whole) {
            forbid_fragments(echo.fd, echo.ipv6);
        }
        double start_ms = now_ms();
        result = send_echo(&echo, to, packet_bytes - head, start_ms + timeout_ms);
        *rtt_ms = now_ms() - start_ms;
    }
    if (echo.fd >= 0) {
        close(echo.fd);
    }
    free(echo.bytes);
    return result;
}
