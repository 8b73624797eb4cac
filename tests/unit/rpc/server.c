/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RPC server with a program of the test's own: replies that wait, procedures that block,
 * clients that do not read, calls that come twice. Over loopback sockets, on ports the kernel
 * picks.
 */
#include "rpc/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PROG 0x20000099U
enum { PROC_NULL, PROC_ECHO, PROC_BLOCK, PROC_COUNT, PROC_PARK, PROC_BULK, PROC_CHANGE };

static atomic_uint count;
static atomic_int gate_closed;
static _Atomic uint64_t last_lsn;
static atomic_uint kept; /* promises that were for something */
static atomic_uint broken;
static _Thread_local bool promised; /* as far as the server has said */
static _Thread_local uint64_t owed;
static uint8_t pattern[1U << 20];

struct word {
    uint32_t value;
};
static bool word_get(struct xdr *xdr, struct word *word)
{
    return xdr_get_u32(xdr, &word->value);
}
static bool word_put(struct xdr *xdr, const struct word *word)
{
    return xdr_put_u32(xdr, word->value);
}

struct bulk {
    struct xdr_bytes data;
};
static bool bulk_put(struct xdr *xdr, const struct bulk *bulk)
{
    return xdr_put_bytes(xdr, bulk->data, 1U << 20);
}

static void nothing(struct rpc_call *call, const struct rpc_void *args, struct rpc_void *res)
{
    (void)call;
    (void)args;
    (void)res;
}
static void echo(struct rpc_call *call, const struct word *args, struct word *res)
{
    (void)call;
    res->value = args->value;
}
static void block(struct rpc_call *call, const struct word *args, struct word *res)
{
    (void)call;
    while (atomic_load(&gate_closed)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    res->value = args->value;
}
static void increment(struct rpc_call *call, const struct word *args, struct word *res)
{
    (void)call;
    (void)args;
    res->value = atomic_fetch_add(&count, 1) + 1;
}
static void wait_lsn(struct rpc_call *call, const struct word *args, struct word *res)
{
    /* Its first byte is the lane. */
    call->lsn = (uint64_t)(args->value >> 24) << RPC_LANE_SHIFT | (args->value & 0xffffff);
    atomic_store(&last_lsn, args->value);
    res->value = args->value;
}
static void wait_failed(void *res, int error)
{
    ((struct word *)res)->value = (uint32_t)-error;
}
/* One that its own thread makes durable, if that has promised; else the test does. */
static void change(struct rpc_call *call, const struct word *args, struct word *res)
{
    call->lsn = args->value;
    owed = promised ? args->value : 0;
    atomic_store(&last_lsn, args->value);
    res->value = args->value;
}
static void give_bulk(struct rpc_call *call, const struct word *args, struct bulk *res)
{
    (void)call;
    call->memory.release = NULL;
    res->data = (struct xdr_bytes){pattern, args->value};
}

RPC_THUNK(nothing, rpc_void, rpc_void)
RPC_THUNK(echo, word, word)
RPC_THUNK(block, word, word)
RPC_THUNK(increment, word, word)
RPC_THUNK(wait_lsn, word, word)
RPC_THUNK(change, word, word)
RPC_THUNK(give_bulk, word, bulk)

static const struct rpc_procedure procedures[] = {
    [PROC_NULL] = RPC_ROW("NULL", nothing, rpc_void, rpc_void, ),
    [PROC_ECHO] = RPC_ROW("ECHO", echo, word, word, ),
    [PROC_BLOCK] = RPC_ROW("BLOCK", block, word, word, ),
    [PROC_COUNT] = RPC_ROW("COUNT", increment, word, word, .cached = true),
    [PROC_PARK] = RPC_ROW("PARK", wait_lsn, word, word, .cached = true, .fail = wait_failed),
    [PROC_BULK] = RPC_ROW("BULK", give_bulk, word, bulk, ),
    [PROC_CHANGE] = RPC_ROW("CHANGE", change, word, word, .fail = wait_failed),
};
static const struct rpc_version versions[] = {
    {.vers = 3, .procedure_count = COUNT_OF(procedures), .procedures = procedures}};
static const struct rpc_program program = {
    .prog = PROG, .name = "TEST", .version_count = 1, .versions = versions};
static const struct rpc_program *const programs[] = {&program};

struct fixture {
    struct rpc_server *server;
    struct sockaddr_in tcp, udp;
};

static void promise(void *arg)
{
    (void)arg;
    promised = true;
}

static void keep_promise(void *arg)
{
    const struct fixture *fixture = arg;
    uint64_t lsn = owed;
    promised = false;
    owed = 0;
    if (lsn != 0) {
        while (atomic_load(&gate_closed)) {
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
        atomic_fetch_add(&kept, 1);
        rpc_server_release(fixture->server, lsn, 0);
    }
}

static void break_promises(void *arg)
{
    const struct fixture *fixture = arg;
    atomic_fetch_add(&broken, 1);
    rpc_server_release(fixture->server, atomic_load(&last_lsn), 0);
}

static int set_up(void **state)
{
    static struct fixture fixture;
    struct rpc_server_options options = {.loop_count = 1,
                                         .promise = promise,
                                         .keep_promise = keep_promise,
                                         .break_promises = break_promises,
                                         .arg = &fixture};
    struct err err = {0};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint16_t port = 0;

    for (uint32_t i = 0; i < sizeof pattern; i++) {
        pattern[i] = (uint8_t)(i * 7 + (i >> 9));
    }
    atomic_store(&count, 0);
    atomic_store(&gate_closed, 0);
    atomic_store(&last_lsn, 0);
    atomic_store(&kept, 0);
    atomic_store(&broken, 0);
    fixture.tcp = fixture.udp = at;
    if (rpc_server_open(&options, &fixture.server, &err) != 0 ||
        rpc_server_listen(fixture.server, (struct sockaddr *)&at, sizeof at, SOCK_STREAM, programs,
                          1, &port, &err) != 0) {
        fail_msg("%s", err.text);
    }
    fixture.tcp.sin_port = htons(port);
    assert_int_equal(rpc_server_listen(fixture.server, (struct sockaddr *)&at, sizeof at,
                                       SOCK_DGRAM, programs, 1, &port, &err),
                     0);
    fixture.udp.sin_port = htons(port);
    assert_int_equal(rpc_server_run(fixture.server, &err), 0);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    atomic_store(&gate_closed, 0);
    rpc_server_release(fixture->server, (UINT64_C(1) << RPC_LANE_SHIFT) - 1, 0);
    rpc_server_close(fixture->server);
    return 0;
}

/* ---- a client by hand ---- */

static int dial(const struct sockaddr_in *at, int type)
{
    int fd = socket(AF_INET, type, 0);
    struct timeval timeout = {.tv_sec = 5};
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)at, sizeof *at), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout), 0);
    return fd;
}

/* xid, CALL, 2, prog, vers, proc, AUTH_NONE twice, argument. */
static size_t make_call(uint32_t *words, uint32_t xid, uint32_t vers, uint32_t proc, uint32_t arg)
{
    const uint32_t call[] = {0x80000000U | 44, xid, 0, 2, PROG, vers, proc, 0, 0, 0, 0, arg};
    for (size_t i = 0; i < COUNT_OF(call); i++) {
        words[i] = htonl(call[i]);
    }
    return sizeof call;
}

static void send_call(int fd, uint32_t xid, uint32_t proc, uint32_t arg)
{
    uint32_t words[12];
    size_t size = make_call(words, xid, 3, proc, arg);
    assert_int_equal(send(fd, words, size, 0), size);
}

static void read_all(int fd, void *bytes, size_t size)
{
    size_t got = 0;
    while (got < size) {
        ssize_t n = recv(fd, (uint8_t *)bytes + got, size - got, 0);
        if (n <= 0) {
            fail_msg("the connection ended or timed out after %zu of %zu bytes", got, size);
        }
        got += (size_t)n;
    }
}

/* A reply of one word. */
static uint32_t read_word(int fd, uint32_t *xid)
{
    uint32_t words[8];
    read_all(fd, words, sizeof words);
    assert_int_equal(ntohl(words[0]), 0x80000000U | 28);
    assert_int_equal(ntohl(words[6]), 0); /* SUCCESS */
    *xid = ntohl(words[1]);
    return ntohl(words[7]);
}

static bool silent(int fd, int ms)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    return poll(&pollfd, 1, ms) == 0;
}

/* ---- tests ---- */

static void echoes_a_burst(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial(&fixture->tcp, SOCK_STREAM);
    for (uint32_t i = 0; i < 1000; i++) {
        send_call(fd, i, PROC_ECHO, i * 3);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t xid;
        assert_int_equal(read_word(fd, &xid), i * 3);
        assert_int_equal(xid, i);
    }
    close(fd);
}

static void a_blocked_call_holds_up_nobody(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial(&fixture->tcp, SOCK_STREAM);
    int other = dial(&fixture->tcp, SOCK_STREAM);
    uint32_t xid;

    atomic_store(&gate_closed, 1);
    for (uint32_t i = 0; i < 8; i++) {
        send_call(fd, 100 + i, PROC_BLOCK, i);
        send_call(fd, 200 + i, PROC_ECHO, i);
    }
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(read_word(fd, &xid), i); /* the echoes overtake */
        assert_int_equal(xid, 200 + i);
    }
    send_call(other, 1, PROC_ECHO, 77);
    assert_int_equal(read_word(other, &xid), 77);
    assert_true(silent(fd, 20));
    atomic_store(&gate_closed, 0);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t value = read_word(fd, &xid);
        assert_int_equal(xid, 100 + value);
        seen |= 1U << value;
    }
    assert_int_equal(seen, 0xff);
    struct rpc_server_stats stats;
    rpc_server_stats(fixture->server, &stats);
    assert_true(stats.takeovers >= 8);
    close(fd);
    close(other);
}

static void a_blocked_call_of_a_client_that_left(void **state)
{
    struct fixture *fixture = *state;
    uint32_t xid;

    atomic_store(&gate_closed, 1);
    for (uint32_t i = 0; i < 4; i++) {
        int fd = dial(&fixture->tcp, SOCK_STREAM);
        send_call(fd, i, PROC_BLOCK, i);
        (void)silent(fd, 10);
        close(fd);
    }
    atomic_store(&gate_closed, 0);
    int fd = dial(&fixture->tcp, SOCK_STREAM);
    send_call(fd, 9, PROC_ECHO, 5);
    assert_int_equal(read_word(fd, &xid), 5);
    close(fd);
}

/* The end comes at any moment of taking a loop from a blocked worker, also while another thread is
 * being started for it. */
static void stopping_while_loops_change_hands(void **state)
{
    uint32_t xid;

    for (uint32_t i = 0; i < 60; i++) {
        void *own = NULL;
        struct fixture *fixture = *state;
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(&own), 0);
        *state = fixture = own;
        int fd = dial(&fixture->tcp, SOCK_STREAM);
        atomic_store(&gate_closed, 1);
        for (uint32_t n = 0; n < 3; n++) {
            send_call(fd, n, PROC_BLOCK, n);
        }
        send_call(fd, 9, PROC_ECHO, 5);
        if (i % 4 == 0) {
            assert_int_equal(read_word(fd, &xid), 5);
        } else {
            (void)nanosleep(&(struct timespec){.tv_nsec = 130000L * i}, NULL);
        }
        close(fd);
    }
}

static int dial_from(const struct sockaddr_in *at, uint32_t address)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    struct timeval timeout = {.tv_sec = 20};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)at, sizeof *at), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout), 0);
    return fd;
}

/* More blocked calls than there are threads, of one client; others still block and are served. */
static void one_client_does_not_block_all_threads(void **state)
{
    struct fixture *fixture = *state;
    enum { CALLS = 300, CONNS = 3, OTHERS = 4 };
    int hog[CONNS];
    int others[OTHERS];
    uint32_t xid;

    atomic_store(&gate_closed, 1);
    for (uint32_t i = 0; i < CONNS; i++) {
        hog[i] = dial_from(&fixture->tcp, INADDR_LOOPBACK);
        for (uint32_t n = 0; n < CALLS; n++) {
            send_call(hog[i], n, PROC_BLOCK, n);
        }
        assert_int_equal(shutdown(hog[i], SHUT_WR), 0); /* and it still gets its replies */
    }
    struct rpc_server_stats stats = {0};
    while (stats.takeovers < 42) { /* its share of 127: then it is held */
        rpc_server_stats(fixture->server, &stats);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    for (uint32_t i = 0; i < OTHERS; i++) {
        others[i] = dial_from(&fixture->tcp, INADDR_LOOPBACK + 1 + i);
        send_call(others[i], 1, PROC_BLOCK, i);
        send_call(others[i], 2, PROC_ECHO, 70 + i);
        assert_int_equal(read_word(others[i], &xid), 70 + i);
    }
    rpc_server_stats(fixture->server, &stats);
    assert_true(stats.takeovers < 64);
    atomic_store(&gate_closed, 0);
    for (uint32_t i = 0; i < OTHERS; i++) {
        assert_int_equal(read_word(others[i], &xid), i);
        close(others[i]);
    }
    for (uint32_t i = 0; i < CONNS; i++) {
        uint64_t sum = 0;
        for (uint32_t n = 0; n < CALLS; n++) {
            sum += read_word(hog[i], &xid);
        }
        assert_int_equal(sum, CALLS * (CALLS - 1) / 2);
        close(hog[i]);
    }
}

static void replies_wait_for_their_lsn(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial(&fixture->tcp, SOCK_STREAM);
    uint32_t xid;

    send_call(fd, 3, PROC_PARK, 3);
    send_call(fd, 1, PROC_PARK, 1);
    send_call(fd, 2, PROC_PARK, 2);
    send_call(fd, 0, PROC_ECHO, 99);
    assert_int_equal(read_word(fd, &xid), 99);
    assert_true(silent(fd, 20));
    rpc_server_release(fixture->server, 2, 0);
    assert_int_equal(read_word(fd, &xid), 1);
    assert_int_equal(read_word(fd, &xid), 2);
    assert_true(silent(fd, 20));
    rpc_server_release(fixture->server, 3, 0);
    assert_int_equal(read_word(fd, &xid), 3);
    send_call(fd, 4, PROC_PARK, 2); /* long durable */
    assert_int_equal(read_word(fd, &xid), 2);
    close(fd);
}

/* Two calls that come alone: from the second on the client is known to be the only one. */
static int dial_alone(const struct fixture *fixture)
{
    int fd = dial(&fixture->tcp, SOCK_STREAM);
    uint32_t xid;
    for (uint32_t i = 0; i < 2; i++) {
        send_call(fd, i, PROC_ECHO, i);
        assert_int_equal(read_word(fd, &xid), i);
    }
    return fd;
}

/* Nobody but the thread that runs the calls of a client that is alone makes them durable here. */
static void changes_of_one_client_are_kept_by_their_thread(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial_alone(fixture);
    uint32_t xid;

    for (uint32_t i = 1; i <= 50; i++) {
        send_call(fd, i, PROC_CHANGE, i);
        assert_int_equal(read_word(fd, &xid), i);
    }
    assert_int_equal(atomic_load(&kept), 50);
    uint32_t words[4 * 12];
    for (uint32_t i = 0; i < 4; i++) {
        (void)make_call(words + 12 * (size_t)i, 60 + i, 3, PROC_CHANGE, 60 + i);
    }
    assert_int_equal(send(fd, words, sizeof words, 0), sizeof words);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(read_word(fd, &xid), 60 + i);
    }
    assert_int_equal(atomic_load(&kept), 51); /* they were one */
    assert_int_equal(atomic_load(&broken), 0);
    close(fd);
}

/* A change that was promised does not wait for the call behind it, nor others for the device. */
static void promises_hold_up_nobody(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial_alone(fixture);
    uint32_t words[2 * 12];
    uint32_t xid;

    atomic_store(&gate_closed, 1);
    (void)make_call(words, 11, 3, PROC_CHANGE, 11);
    (void)make_call(words + 12, 12, 3, PROC_BLOCK, 12);
    assert_int_equal(send(fd, words, sizeof words, 0), sizeof words);
    assert_int_equal(read_word(fd, &xid), 11);
    assert_int_equal(atomic_load(&broken), 1);
    atomic_store(&gate_closed, 0);
    assert_int_equal(read_word(fd, &xid), 12);
    close(fd);

    /* Blocked in keep_promise itself. */
    fd = dial_alone(fixture);
    atomic_store(&gate_closed, 1);
    send_call(fd, 13, PROC_CHANGE, 13);
    assert_int_equal(read_word(fd, &xid), 13);
    assert_int_equal(atomic_load(&broken), 2);
    int other = dial(&fixture->tcp, SOCK_STREAM);
    send_call(other, 1, PROC_ECHO, 77);
    assert_int_equal(read_word(other, &xid), 77);
    send_call(fd, 14, PROC_ECHO, 14);
    assert_int_equal(read_word(fd, &xid), 14);
    atomic_store(&gate_closed, 0);
    close(fd);
    close(other);
}

static void lanes_do_not_wait_for_each_other(void **state)
{
    const uint64_t two = (uint64_t)2 << RPC_LANE_SHIFT;
    struct fixture *fixture = *state;
    int fd = dial(&fixture->tcp, SOCK_STREAM);
    uint32_t xid;

    send_call(fd, 1, PROC_PARK, 9);
    send_call(fd, 2, PROC_PARK, 0x02000004);
    send_call(fd, 3, PROC_PARK, 0x02000005);
    assert_true(silent(fd, 20));
    rpc_server_release(fixture->server, two | 4, 0);
    assert_int_equal(read_word(fd, &xid), 0x02000004);
    rpc_server_release(fixture->server, two | 5, -EIO);
    assert_int_equal(read_word(fd, &xid), EIO);
    assert_true(silent(fd, 20));
    rpc_server_release(fixture->server, 9, 0); /* what fails in one lane is no matter in another */
    assert_int_equal(read_word(fd, &xid), 9);
    send_call(fd, 4, PROC_PARK, 5);
    assert_int_equal(read_word(fd, &xid), 5);
    send_call(fd, 5, PROC_PARK, 0x01000001); /* a lane that nothing was heard of */
    assert_true(silent(fd, 20));
    rpc_server_release(fixture->server, (two >> 1) | 1, 0);
    assert_int_equal(read_word(fd, &xid), 0x01000001);
    close(fd);
}

static void a_failed_lsn_makes_a_failed_reply(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial(&fixture->tcp, SOCK_STREAM);
    uint32_t xid;

    send_call(fd, 1, PROC_PARK, 1);
    send_call(fd, 2, PROC_PARK, 5);
    while (atomic_load(&last_lsn) != 5) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    rpc_server_release(fixture->server, 1, 0);
    assert_int_equal(read_word(fd, &xid), 1);
    rpc_server_release(fixture->server, 5, -EIO);
    assert_int_equal(read_word(fd, &xid), EIO);
    assert_int_equal(xid, 2);
    send_call(fd, 3, PROC_PARK, 4); /* settled meanwhile, and badly */
    assert_int_equal(read_word(fd, &xid), EIO);
    close(fd);
}

static void a_copy_gets_the_old_reply(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial(&fixture->tcp, SOCK_STREAM);
    uint32_t xid;

    send_call(fd, 7, PROC_COUNT, 1);
    assert_int_equal(read_word(fd, &xid), 1);
    send_call(fd, 7, PROC_COUNT, 1);
    assert_int_equal(read_word(fd, &xid), 1);
    send_call(fd, 7, PROC_COUNT, 2); /* other content: a new call */
    assert_int_equal(read_word(fd, &xid), 2);
    close(fd);
    fd = dial(&fixture->tcp, SOCK_STREAM); /* the reply had arrived: another program's call */
    send_call(fd, 7, PROC_COUNT, 1);
    assert_int_equal(read_word(fd, &xid), 3);
    close(fd);
}

static void a_copy_of_a_parked_call_is_dropped(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial(&fixture->udp, SOCK_DGRAM);
    uint32_t words[12], reply[16];
    size_t size = make_call(words, 21, 3, PROC_PARK, 1);

    for (int i = 0; i < 3; i++) {
        assert_int_equal(send(fd, words + 1, size - 4, 0), size - 4);
    }
    struct rpc_server_stats stats = {0};
    while (stats.cache_dropped < 2) {
        rpc_server_stats(fixture->server, &stats);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(silent(fd, 20));
    rpc_server_release(fixture->server, 1, 0);
    assert_int_equal(recv(fd, reply, sizeof reply, 0), 28);
    assert_int_equal(ntohl(reply[0]), 21);
    assert_true(silent(fd, 20));
    assert_int_equal(send(fd, words + 1, size - 4, 0), size - 4);
    assert_int_equal(recv(fd, reply, sizeof reply, 0), 28); /* the kept one */
    close(fd);
}

static void a_lost_reply_is_given_to_a_new_connection(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial(&fixture->tcp, SOCK_STREAM);
    struct linger now = {.l_onoff = 1};
    uint32_t xid;

    send_call(fd, 31, PROC_PARK, 1);
    while (atomic_load(&last_lsn) != 1) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    close(fd);
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    rpc_server_release(fixture->server, 1, 0);
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_store(&last_lsn, 0);
    fd = dial(&fixture->tcp, SOCK_STREAM);
    send_call(fd, 31, PROC_PARK, 1);
    assert_int_equal(read_word(fd, &xid), 1);
    assert_int_equal(atomic_load(&last_lsn), 0); /* it was not run again */
    close(fd);
}

static void a_client_that_does_not_read_is_not_read(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial(&fixture->tcp, SOCK_STREAM);
    int other = dial(&fixture->tcp, SOCK_STREAM);
    uint32_t xid, words[12];
    const uint32_t calls = 100;

    for (uint32_t i = 0; i < calls; i++) {
        send_call(fd, i, PROC_BULK, 1U << 20);
    }
    for (uint32_t i = 0; i < 100; i++) {
        send_call(other, i, PROC_ECHO, i);
        assert_int_equal(read_word(other, &xid), i);
    }
    uint8_t *bytes = malloc(1U << 20);
    for (uint32_t i = 0; i < calls; i++) {
        read_all(fd, words, 32);
        assert_int_equal(ntohl(words[0]), 0x80000000U | (28 + (1U << 20)));
        read_all(fd, bytes, 1U << 20);
        assert_int_equal(bytes[12345], (uint8_t)(12345 * 7 + (12345 >> 9)));
        assert_int_equal(bytes[(1U << 20) - 1], (uint8_t)(((1U << 20) - 1) * 7 + 2047));
    }
    free(bytes);
    close(fd);
    close(other);
}

static void wrong_versions_and_procedures(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial(&fixture->tcp, SOCK_STREAM);
    uint32_t words[12];
    size_t size = make_call(words, 1, 4, PROC_ECHO, 0);

    assert_int_equal(send(fd, words, size, 0), size);
    read_all(fd, words, 36);
    assert_int_equal(ntohl(words[6]), 2); /* PROG_MISMATCH, 3 to 3 */
    assert_int_equal(ntohl(words[7]), 3);
    assert_int_equal(ntohl(words[8]), 3);
    size = make_call(words, 2, 3, 77, 0);
    assert_int_equal(send(fd, words, size, 0), size);
    read_all(fd, words, 28);
    assert_int_equal(ntohl(words[6]), 3); /* PROC_UNAVAIL */
    close(fd);
}

static void half_closed_clients_get_their_replies(void **state)
{
    struct fixture *fixture = *state;
    int fd = dial(&fixture->tcp, SOCK_STREAM);
    uint32_t xid;
    char byte;

    send_call(fd, 1, PROC_PARK, 1);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    rpc_server_release(fixture->server, 1, 0);
    assert_int_equal(read_word(fd, &xid), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(echoes_a_burst),
        TEST(a_blocked_call_holds_up_nobody),
        TEST(a_blocked_call_of_a_client_that_left),
        TEST(stopping_while_loops_change_hands),
        TEST(one_client_does_not_block_all_threads),
        TEST(replies_wait_for_their_lsn),
        TEST(changes_of_one_client_are_kept_by_their_thread),
        TEST(promises_hold_up_nobody),
        TEST(lanes_do_not_wait_for_each_other),
        TEST(a_failed_lsn_makes_a_failed_reply),
        TEST(a_copy_gets_the_old_reply),
        TEST(a_copy_of_a_parked_call_is_dropped),
        TEST(a_lost_reply_is_given_to_a_new_connection),
        TEST(a_client_that_does_not_read_is_not_read),
        TEST(wrong_versions_and_procedures),
        TEST(half_closed_clients_get_their_replies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
