/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics.h"

#include "os/signals.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH "/metrics"
#define MEDIA_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define BACKLOG 16

/* ---- the socket ---- */

/* Takes "ADDR:PORT" apart; the brackets of an IPv6 address go. */
static int split(const char *address, char host[NI_MAXHOST], const char **port, struct err *err)
{
    const char *colon = strrchr(address, ':');
    const char *from = address;
    size_t size = colon != NULL ? (size_t)(colon - address) : 0;

    if (size >= 2 && address[0] == '[' && colon[-1] == ']') {
        from++;
        size -= 2;
    } else if (memchr(address, ':', size) != NULL) {
        size = NI_MAXHOST; /* an IPv6 address without brackets: where does it end? */
    }
    if (colon == NULL || colon[1] == '\0' || size >= NI_MAXHOST) {
        return err_set(err, -EINVAL, "--metrics '%s' is not ADDRESS:PORT", address);
    }
    memcpy(host, from, size);
    host[size] = '\0';
    *port = colon + 1;
    size_t digits = strspn(*port, "0123456789");
    if ((*port)[digits] != '\0' || digits > 5 || strtol(*port, NULL, 10) > UINT16_MAX) {
        return err_set(err, -EINVAL, "--metrics '%s': no port, 0 to 65535, behind the colon",
                       address);
    }
    return 0;
}

static void note_url(struct metrics *metrics)
{
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof bound;
    char host[INET6_ADDRSTRLEN] = "?";
    char port[8] = "?";

    if (getsockname(metrics->fd, (struct sockaddr *)&bound, &size) == 0) {
        (void)getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV);
    }
    bool is_ipv6 = strchr(host, ':') != NULL;
    (void)snprintf(metrics->url, sizeof metrics->url, is_ipv6 ? "http://[%s]:%s" PATH
                                                              : "http://%s:%s" PATH,
                   host, port);
}

static int bind_to(const struct addrinfo *ai)
{
    int on = 1;
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

int metrics_bind(struct metrics *metrics, const char *address, int fd, struct err *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    const char *port = NULL;
    char host[NI_MAXHOST];

    if (fd >= 0) {
        metrics->fd = fd;
        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
        note_url(metrics);
        return 0;
    }
    if (address == NULL) {
        return 0;
    }
    int error = split(address, host, &port, err);
    if (error != 0) {
        return error;
    }
    int lookup = getaddrinfo(host[0] != '\0' ? host : NULL, port, &hints, &list);
    if (lookup != 0) {
        return err_set(err, -EINVAL, "--metrics '%s': %s", address, gai_strerror(lookup));
    }
    for (const struct addrinfo *ai = list; ai != NULL && metrics->fd < 0; ai = ai->ai_next) {
        fd = bind_to(ai);
        metrics->fd = fd < 0 ? -1 : fd;
        error = fd < 0 ? fd : 0;
    }
    freeaddrinfo(list);
    if (error != 0) {
        return err_set(err, error, "--metrics: cannot listen at %s: %s", address,
                       strerror(-error));
    }
    note_url(metrics);
    return 0;
}

/* ---- requests ---- */

static enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, char *text,
                             size_t size, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(size, text, mode);
    if (response == NULL) {
        if (mode == MHD_RESPMEM_MUST_FREE) {
            free(text);
        }
        return MHD_NO;
    }
    const char *type = status == MHD_HTTP_OK ? MEDIA_TYPE : "text/plain; charset=utf-8";
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, char *text)
{
    return reply(connection, status, text, strlen(text), MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result reply_metrics(const struct metrics *metrics,
                                     struct MHD_Connection *connection)
{
    static char no_memory[] = "out of memory\n";
    char *text = NULL;
    size_t size = 0;
    int error = -ENOMEM;

    FILE *memory = open_memstream(&text, &size);
    if (memory != NULL) {
        error = status_metrics(metrics->status, memory);
        error = fclose(memory) != 0 ? -ENOMEM : error;
    }
    if (error != 0) {
        free(text);
        return refuse(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, no_memory);
    }
    return reply(connection, MHD_HTTP_OK, text, size, MHD_RESPMEM_MUST_FREE);
}

/* libmicrohttpd calls it when the head of a request is there, and again for its body. */
static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **state)
{
    static char not_found[] = "there is only " PATH "\n";
    static char not_allowed[] = "only GET and HEAD\n";
    const struct metrics *metrics = arg;

    (void)version;
    (void)upload;
    if (*state == NULL) {
        *state = arg; /* answered in the next call, when the request is whole */
        return MHD_YES;
    }
    if (*upload_bytes > 0) {
        *upload_bytes = 0;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, not_allowed);
    }
    if (strcmp(url, PATH) != 0) {
        return refuse(connection, MHD_HTTP_NOT_FOUND, not_found);
    }
    return reply_metrics(metrics, connection);
}

int metrics_start(struct metrics *metrics, const struct status *status, struct err *err)
{
    sigset_t old;

    if (metrics->fd < 0) {
        return 0;
    }
    metrics->status = status;
    signals_hold(&old);
    metrics->http = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, answer, metrics,
        MHD_OPTION_LISTEN_SOCKET, metrics->fd, MHD_OPTION_CONNECTION_LIMIT,
        METRICS_CONNECTION_COUNT_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        METRICS_ADDRESS_CONNECTION_COUNT_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        METRICS_CONNECTION_SECONDS_MAX, MHD_OPTION_END);
    signals_release(&old);
    if (metrics->http == NULL) {
        return err_set(err, -EIO, "--metrics: cannot start the HTTP server");
    }
    log_notice("metrics are at %s", metrics->url);
    return 0;
}

void metrics_stop(struct metrics *metrics)
{
    if (metrics->http != NULL) {
        MHD_stop_daemon(metrics->http); /* closes the socket, too */
    } else if (metrics->fd >= 0) {
        close(metrics->fd);
    }
}
