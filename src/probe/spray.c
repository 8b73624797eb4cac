/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One spray: CLEAR, the packets, GET until the count stands still, REPORT.
 *
 * 1. Packets go out of a socket of their own, one system call each, as the classic command sends
 *    them. IP_RECVERR makes the kernel say when our own interface's queue drops one (ENOBUFS);
 *    otherwise that would look like loss on the way.
 * 2. xids are consecutive, so that the receiver can see the order.
 * 3. A GET that comes back before the receiver has worked off its queue counts too few, and a GET
 *    may be lost in the same full queue; so it is repeated until the count stands still. The clock
 *    is that of the first GET with the final count.
 */
#include "probe/spray.h"

#include "client/pmap.h"
#include "client/rpc.h"
#include "client/wait.h"
#include "proto/nfs3.h"
#include "proto/rpc.h"
#include "proto/spray.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND 1000000000LL
#define NS_PER_US 1000LL
#define SPIN_NS (100 * NS_PER_US) /* shorter waits than this are not left to the scheduler */
#define MESSAGE_BYTES_MAX (SPRAY_LENGTH_MAX + 64U)
#define SETTLE_MS 30U
#define SETTLE_COUNT 3U /* GETs with the same count that are believed */
#define SETTLE_COUNT_MAX 400U
#define CONTROL_TIMEO_MS 250U
#define CONTROL_RETRANS 7U
#define RECEIVE_BUFFER_BYTES (8 << 20)

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

/* Sleeps for the most of it, and watches the clock for the rest. */
static void wait_until(int64_t end_ns)
{
    int64_t left_ns = end_ns - now_ns();
    if (left_ns > SPIN_NS) {
        int64_t sleep_ns = left_ns - SPIN_NS;
        struct timespec sleep = {sleep_ns / NS_PER_SECOND, sleep_ns % NS_PER_SECOND};
        (void)nanosleep(&sleep, NULL);
    }
    while (now_ns() < end_ns) {
    }
}

/* ---- options ---- */

static uint32_t round_length(uint32_t length)
{
    if (length < SPRAY_OVERHEAD_BYTES) {
        return SPRAY_OVERHEAD_BYTES;
    }
    if (length >= SPRAY_LENGTH_MAX) {
        return SPRAY_LENGTH_MAX;
    }
    if (length <= SPRAY_FRAME_BYTES_MAX && length % 4 != 2) {
        return (length + 5) / 4 * 4 - 2;
    }
    return length;
}

void spray_fill_options(struct spray_options *options)
{
    if (options->length == 0 && options->count > 0) {
        options->length = SPRAY_TOTAL_BYTES / options->count;
    }
    options->length = options->length > 0 ? options->length : SPRAY_OVERHEAD_BYTES;
    if (options->count == 0) {
        options->count = SPRAY_TOTAL_BYTES / options->length;
        options->count = options->count > 0 ? options->count : 1;
    }
    options->length = round_length(options->length);
}

/* ---- the packets ---- */

struct sprayer {
    const struct spray_options *options;
    struct spray_result *result;
    int fd;
    uint8_t message[MESSAGE_BYTES_MAX]; /* with room for a record mark */
    size_t message_bytes;               /* with it */
    uint32_t xid;
    uint8_t *echoed; /* SPRAY_BOTH: which came back */
};

static bool encode(struct sprayer *sprayer, uint32_t proc)
{
    static const uint8_t data[SPRAYMAX];
    struct xdr xdr = xdr_writer(sprayer->message, sizeof sprayer->message);
    uint32_t size = sprayer->options->length - SPRAY_OVERHEAD_BYTES;
    struct rpc_msg msg = {
        .xid = sprayer->xid,
        .body =
            {.mtype = CALL,
             .cbody = {.rpcvers = RPC_VERSION, .prog = SPRAYPROG, .vers = SPRAYVERS, .proc = proc}},
    };
    struct sprayarr arr = {{data, size}};

    (void)xdr_put_u32(&xdr, 0);
    (void)rpc_msg_put(&xdr, &msg);
    bool ok = sprayarr_put(&xdr, &arr);
    sprayer->message_bytes = xdr_offset(&xdr);
    struct xdr mark = xdr_writer(sprayer->message, 4);
    (void)xdr_put_u32(&mark, (uint32_t)(sprayer->message_bytes - 4) | 0x80000000U);
    return ok;
}

static void set_xid(struct sprayer *sprayer, uint32_t xid)
{
    struct xdr xdr = xdr_writer(sprayer->message + 4, 4);
    (void)xdr_put_u32(&xdr, xid);
}

static int open_socket(struct sprayer *sprayer, struct err *err)
{
    const struct client_address *address = &sprayer->options->address;
    bool tcp = sprayer->options->way == SPRAY_TCP;
    bool v6 = address->sa.sa_family == AF_INET6;
    int on = 1, receive_bytes = RECEIVE_BUFFER_BYTES;

    sprayer->fd = socket(address->sa.sa_family, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
    if (sprayer->fd < 0 || connect(sprayer->fd, &address->sa, address->bytes) != 0) {
        return err_set(err, -errno, "cannot connect: %s", strerror(errno));
    }
    if (!tcp) {
        (void)setsockopt(sprayer->fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP,
                         v6 ? IPV6_RECVERR : IP_RECVERR, &on, sizeof on);
        if (setsockopt(sprayer->fd, SOL_SOCKET, SO_RCVBUFFORCE, &receive_bytes,
                       sizeof receive_bytes) != 0) {
            (void)setsockopt(sprayer->fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
                             sizeof receive_bytes);
        }
    }
    return 0;
}

/* Takes note of echoes that have arrived. */
static void receive_echoes(struct sprayer *sprayer, int timeout_ms)
{
    static uint8_t reply[MESSAGE_BYTES_MAX];
    struct pollfd poll_fd = {.fd = sprayer->fd, .events = POLLIN};

    if (timeout_ms > 0 && poll(&poll_fd, 1, timeout_ms) <= 0) {
        return;
    }
    for (;;) {
        ssize_t size = recv(sprayer->fd, reply, sizeof reply, MSG_DONTWAIT);
        if (size < 0) {
            return;
        }
        struct xdr xdr = xdr_reader(reply, (size_t)size);
        uint32_t xid;
        if (!xdr_get_u32(&xdr, &xid) || xid - sprayer->xid >= sprayer->options->count) {
            continue;
        }
        if (!sprayer->echoed[xid - sprayer->xid]) {
            sprayer->echoed[xid - sprayer->xid] = 1;
            sprayer->result->echoed++;
        }
    }
}

/* An ICMP message about an earlier packet is told once in place of sending, and taken away here. */
static void drain_errors(int fd)
{
    uint8_t data[64], control[512];
    struct iovec iovec = {data, sizeof data};
    struct msghdr message;

    do {
        message = (struct msghdr){.msg_iov = &iovec,
                                  .msg_iovlen = 1,
                                  .msg_control = control,
                                  .msg_controllen = sizeof control};
    } while (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0);
}

static int send_stream(struct sprayer *sprayer)
{
    size_t sent = 0;
    while (sent < sprayer->message_bytes) {
        ssize_t n =
            send(sprayer->fd, sprayer->message + sent, sprayer->message_bytes - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        sent += n > 0 ? (size_t)n : 0;
    }
    sprayer->result->sent++;
    return 0;
}

static void send_datagram(struct sprayer *sprayer)
{
    for (int attempt = 0;; attempt++) {
        ssize_t n = send(sprayer->fd, sprayer->message + 4, sprayer->message_bytes - 4, 0);
        if (n >= 0) {
            sprayer->result->sent++;
            return;
        }
        bool earlier = errno != ENOBUFS && errno != EPERM && errno != EMSGSIZE;
        drain_errors(sprayer->fd);
        if (attempt > 0 || !earlier) {
            sprayer->result->refused++;
            return;
        }
    }
}

static int send_all(struct sprayer *sprayer)
{
    const struct spray_options *options = sprayer->options;
    double interval_ns =
        options->packets_per_second > 0 ? (double)NS_PER_SECOND / options->packets_per_second : 0;
    int64_t start_ns = now_ns();

    for (uint32_t i = 0; i < options->count; i++) {
        set_xid(sprayer, sprayer->xid + i);
        if (options->way == SPRAY_TCP) {
            int error = send_stream(sprayer);
            if (error != 0) {
                return error;
            }
        } else {
            send_datagram(sprayer);
        }
        if (options->way == SPRAY_BOTH) {
            receive_echoes(sprayer, 0);
        }
        if (interval_ns > 0) {
            wait_until(start_ns + (int64_t)((double)(i + 1) * interval_ns));
        } else if (options->delay_us > 0) {
            wait_until(now_ns() + options->delay_us * NS_PER_US);
        }
    }
    sprayer->result->send_s = (double)(now_ns() - start_ns) / NS_PER_SECOND;
    return 0;
}

/* ---- the receiver ---- */

struct control {
    struct client_loop *loop;
    struct client_rpc *rpc;
    struct client_answer answer;
};

static int control_open(struct control *control, const struct spray_options *options,
                        struct err *err)
{
    struct client_rpc_options rpc_options = {
        .address = &options->address.sa,
        .address_bytes = options->address.bytes,
        .prog = SPRAYPROG,
        .vers = SPRAYVERS,
        .tcp = options->way == SPRAY_TCP,
        .cred = {.none = true},
        .insecure = true,
        .soft = true,
        .fail_before_contact = true,
        .timeo_ms = options->way == SPRAY_TCP ? 10000 : CONTROL_TIMEO_MS,
        .retrans = options->way == SPRAY_TCP ? 1 : CONTROL_RETRANS,
        .timeout_ms_max = 4000,
    };
    int error = client_loop_open(&control->loop);
    if (error != 0) {
        return err_set(err, error, "cannot make an event loop: %s", strerror(-error));
    }
    rpc_options.loop = control->loop;
    return client_rpc_open(&rpc_options, &control->rpc, err);
}

static void control_close(struct control *control)
{
    client_rpc_close(control->rpc);
    client_loop_close(control->loop);
    client_answer_free(&control->answer);
}

static int ask(struct control *control, uint32_t proc, const char *name, struct err *err)
{
    int error = client_wait(control->loop, control->rpc, proc, NULL, &control->answer);
    return error == 0 ? 0 : err_set(err, error, "%s: %s", name, control->answer.text);
}

static double seconds(const struct spraytimeval *clock)
{
    return clock->sec + clock->usec / 1e6;
}

/* Rule 3. */
static int settle(struct control *control, struct sprayer *sprayer, struct err *err)
{
    struct spray_result *result = sprayer->result;
    bool stream = sprayer->options->way == SPRAY_TCP;
    uint32_t same = 0;
    uint32_t enough = stream ? 20 * SETTLE_COUNT : SETTLE_COUNT; /* a stream loses nothing */

    for (uint32_t i = 0; i < SETTLE_COUNT_MAX && same < enough; i++) {
        int error = ask(control, SPRAYPROC_GET, "SPRAYPROC_GET", err);
        if (error != 0) {
            return error;
        }
        const struct spraycumul *cumul = control->answer.res;
        if (i == 0 || cumul->counter != result->counted) {
            result->counted = cumul->counter;
            result->clock_s = seconds(&cumul->clock);
            same = 0;
        }
        same++;
        bool all_echoed = sprayer->options->way != SPRAY_BOTH || result->echoed >= result->sent;
        if (result->counted >= result->sent && all_echoed) {
            break;
        }
        if (sprayer->options->way == SPRAY_BOTH) {
            receive_echoes(sprayer, SETTLE_MS);
        } else if (same < enough) {
            client_wait_ms(control->loop, SETTLE_MS);
        }
    }
    return 0;
}

/* Does the receiver know more? A classic one says PROC_UNAVAIL. */
static int get_report(struct control *control, struct spray_result *result)
{
    int error = client_wait(control->loop, control->rpc, SPRAYPROC_REPORT, NULL, &control->answer);
    if (error != 0) {
        return error;
    }
    const struct sprayreport *report = control->answer.res;
    result->has_report = report->has_drops;
    result->far_dropped = report->drops;
    result->reordered = report->reordered;
    result->arrival_s = (double)report->arrival_ns / (double)NS_PER_SECOND;
    return 0;
}

static void split_loss(struct spray_result *result)
{
    uint64_t missing = result->sent > result->counted ? result->sent - result->counted : 0;

    result->extra = result->counted > result->sent ? result->counted - result->sent : 0;
    result->far_dropped = result->far_dropped > missing ? missing : result->far_dropped;
    result->lost = missing - result->far_dropped;
}

int spray_run(const struct spray_options *options, struct spray_result *result, struct err *err)
{
    struct control control = {0};
    struct sprayer sprayer = {.options = options, .result = result, .fd = -1};
    bool both = options->way == SPRAY_BOTH;

    *result = (struct spray_result){0};
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    int error = control_open(&control, options, err);
    if (error == 0) {
        error = ask(&control, SPRAYPROC_CLEAR, "SPRAYPROC_CLEAR", err);
    }
    if (error == 0 && both && get_report(&control, result) != 0) {
        error = err_set(err, -EOPNOTSUPP, "the receiver cannot send packets back");
    }
    if (error == 0) {
        error = open_socket(&sprayer, err);
    }
    if (error == 0 && both && (sprayer.echoed = calloc(options->count, 1)) == NULL) {
        error = err_set(err, -ENOMEM, "out of memory");
    }
    if (error == 0) {
        (void)!getrandom(&sprayer.xid, sizeof sprayer.xid, 0);
        CHECK(encode(&sprayer, both ? SPRAYPROC_ECHO : SPRAYPROC_SPRAY));
        error = send_all(&sprayer);
        if (error != 0) {
            (void)err_set(err, error, "sending: %s", strerror(-error));
        }
    }
    if (error == 0) {
        error = settle(&control, &sprayer, err);
    }
    if (error == 0) {
        (void)get_report(&control, result);
        split_loss(result);
    }
    if (sprayer.fd >= 0) {
        close(sprayer.fd);
    }
    free(sprayer.echoed);
    control_close(&control);
    return error;
}

double spray_packets_per_second(const struct spray_result *result)
{
    return (double)result->counted / (result->clock_s > 0 ? result->clock_s : 1e-6);
}

int spray_find_port(const struct client_address *address, bool tcp, uint16_t *port, struct err *err)
{
    struct client_loop *loop;
    int error = client_loop_open(&loop);
    if (error != 0) {
        return err_set(err, error, "cannot make an event loop: %s", strerror(-error));
    }
    struct client_pmap_query query = {
        .loop = loop, .address = &address->sa, .address_bytes = address->bytes, .tcp = tcp};
    error = client_pmap_getport(&query, SPRAYPROG, SPRAYVERS, port);
    client_loop_close(loop);
    if (error == -ENOENT) {
        return err_set(err, error, "the program is not registered there; does rpc.sprayd run?");
    }
    if (error != 0) {
        *port = NFS3_PORT;
    }
    return 0;
}

void spray_report_result(struct report *object, const struct spray_options *options,
                         const struct spray_result *result)
{
    static const char *const ways[] = {"udp", "tcp", "udp both ways"};

    report_add_text(object, "way", ways[options->way]);
    report_add_u64(object, "packets", options->count);
    report_add_u64(object, "length_bytes", options->length);
    report_add_u64(object, "delay_us", options->delay_us);
    report_add_u64(object, "sent", result->sent);
    report_add_u64(object, "refused_locally", result->refused);
    report_add_u64(object, "counted_by_receiver", result->counted);
    report_add_u64(object, "lost_on_the_way", result->lost);
    if (result->has_report) {
        report_add_u64(object, "dropped_at_far_socket", result->far_dropped);
        report_add_u64(object, "reordered", result->reordered);
        report_add_real(object, "arrival_seconds", result->arrival_s);
    } else {
        report_add_null(object, "dropped_at_far_socket");
        report_add_null(object, "reordered");
    }
    if (options->way == SPRAY_BOTH) {
        report_add_u64(object, "echoed", result->echoed);
        report_add_u64(object, "lost_on_the_way_back",
                       result->counted > result->echoed ? result->counted - result->echoed : 0);
    }
    report_add_u64(object, "extra", result->extra);
    report_add_real(object, "clock_seconds", result->clock_s);
    report_add_real(object, "send_seconds", result->send_s);
    report_add_real(object, "packets_per_second", spray_packets_per_second(result));
    report_add_real(object, "bytes_per_second", spray_packets_per_second(result) * options->length);
}
