/* SPDX-License-Identifier: Apache-2.0 */
#include "stub.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_WORDS 6U /* xid, CALL, rpcvers, prog, vers, proc */

static void *run(void *arg)
{
    struct stub *stub = arg;
    stub->script(stub);
    return NULL;
}

void stub_start(struct stub *stub, int type, void (*script)(struct stub *stub))
{
    socklen_t size = sizeof stub->address;

    stub->script = script;
    stub->fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    assert_true(stub->fd >= 0);
    stub->address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(stub->fd, (struct sockaddr *)&stub->address, size), 0);
    assert_int_equal(getsockname(stub->fd, (struct sockaddr *)&stub->address, &size), 0);
    if (type == SOCK_STREAM) {
        assert_int_equal(listen(stub->fd, 16), 0);
    }
    assert_int_equal(pthread_create(&stub->thread, NULL, run, stub), 0);
}

void stub_stop(struct stub *stub)
{
    shutdown(stub->fd, SHUT_RDWR); /* wakes accept and recvfrom */
    pthread_join(stub->thread, NULL);
    close(stub->fd);
}

int stub_accept(struct stub *stub)
{
    int fd = accept(stub->fd, NULL, NULL);
    if (fd >= 0) {
        atomic_fetch_add(&stub->connections, 1);
    }
    return fd;
}

void stub_word(uint8_t *out, uint32_t value)
{
    value = htonl(value);
    memcpy(out, &value, sizeof value);
}

uint32_t stub_word_at(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return ntohl(value);
}

/* RFC 5531 §9. */
static bool take_apart(struct stub *stub, struct stub_call *call)
{
    const uint8_t *at = call->bytes;
    const uint8_t *end = call->bytes + call->size_bytes;

    if (call->size_bytes < 4 * HEAD_WORDS || stub_word_at(at + 4) != 0) {
        return false;
    }
    call->xid = stub_word_at(at);
    call->prog = stub_word_at(at + 12);
    call->vers = stub_word_at(at + 16);
    call->proc = stub_word_at(at + 20);
    at += 4 * HEAD_WORDS;
    for (int i = 0; i < 2; i++) { /* credential, verifier */
        uint32_t size = stub_word_at(at + 4);
        at += 8 + size + (-size & 3U);
    }
    call->args = at;
    call->args_bytes = (size_t)(end - at);
    atomic_fetch_add(&stub->calls, 1);
    return true;
}

static bool read_all(int fd, uint8_t *bytes, size_t size_bytes)
{
    size_t got = 0;
    while (got < size_bytes) {
        ssize_t n = recv(fd, bytes + got, size_bytes - got, 0);
        if (n <= 0) {
            return false;
        }
        got += (size_t)n;
    }
    return true;
}

bool stub_read(struct stub *stub, int fd, struct stub_call *call)
{
    bool last = false;

    call->size_bytes = 0;
    while (!last) {
        uint8_t mark[4];
        if (!read_all(fd, mark, sizeof mark)) {
            return false;
        }
        size_t size = stub_word_at(mark) & 0x7fffffffU;
        last = (mark[0] & 0x80) != 0;
        if (call->size_bytes + size > sizeof call->bytes ||
            !read_all(fd, call->bytes + call->size_bytes, size)) {
            return false;
        }
        call->size_bytes += size;
    }
    return take_apart(stub, call);
}

bool stub_receive(struct stub *stub, struct stub_call *call)
{
    socklen_t size = sizeof call->from;
    ssize_t n = recvfrom(stub->fd, call->bytes, sizeof call->bytes, 0,
                         (struct sockaddr *)&call->from, &size);
    if (n <= 0) {
        return false;
    }
    call->size_bytes = (size_t)n;
    return take_apart(stub, call);
}

size_t stub_success(uint8_t *out, uint32_t xid, const uint8_t *results, size_t results_bytes)
{
    /* REPLY, MSG_ACCEPTED, AUTH_NONE of no bytes, SUCCESS */
    const uint32_t words[] = {xid, 1, 0, 0, 0, 0};
    for (size_t i = 0; i < 6; i++) {
        stub_word(out + 4 * i, words[i]);
    }
    memcpy(out + sizeof words, results, results_bytes);
    return sizeof words + results_bytes;
}

void stub_write_raw(int fd, const uint8_t *bytes, size_t size_bytes)
{
    while (size_bytes > 0) {
        ssize_t n = send(fd, bytes, size_bytes, MSG_NOSIGNAL);
        if (n <= 0) {
            return; /* the client has gone, as it may */
        }
        bytes += n;
        size_bytes -= (size_t)n;
    }
}

void stub_write(int fd, const uint8_t *bytes, size_t size_bytes, const size_t *cuts,
                size_t cut_count)
{
    size_t from = 0;
    for (size_t i = 0; i <= cut_count; i++) {
        size_t to = i < cut_count ? cuts[i] : size_bytes;
        uint8_t mark[4];
        stub_word(mark, (uint32_t)(to - from) | (i == cut_count ? 0x80000000U : 0));
        stub_write_raw(fd, mark, sizeof mark);
        stub_write_raw(fd, bytes + from, to - from);
        from = to;
    }
}

void stub_send(struct stub *stub, const struct stub_call *call, const uint8_t *bytes,
               size_t size_bytes)
{
    assert_true(sendto(stub->fd, bytes, size_bytes, 0, (const struct sockaddr *)&call->from,
                       sizeof call->from) == (ssize_t)size_bytes);
}
