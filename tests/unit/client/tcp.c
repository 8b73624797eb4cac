/* SPDX-License-Identifier: Apache-2.0 */
/* The client over TCP against servers that cut, break, stall and go away. */
#include "caller.h"

#include "proto/nfs3.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILE_BYTES (1U << 20)

static const struct client_rpc_options tcp = {.tcp = true, .insecure = true};

static struct stub *stub_new(void)
{
    static struct stub stub;
    memset(&stub, 0, sizeof stub);
    return &stub;
}

static struct stub_call *call_new(void)
{
    static _Thread_local struct stub_call call;
    return &call;
}

/* The argument's first word plus one. */
static size_t getport_reply(uint8_t *out, const struct stub_call *call)
{
    uint8_t result[4];
    stub_word(result, stub_word_at(call->args) + 1);
    return stub_success(out, call->xid, result, sizeof result);
}

/* ---- RFC 5531 §11: fragments ---- */

static uint8_t file_byte(uint64_t offset)
{
    return (uint8_t)(offset * 31 + (offset >> 11));
}

/* Answers READ with all that was asked for, in three fragments. */
static void script_read_in_fragments(struct stub *stub)
{
    struct stub_call *call = call_new();
    uint8_t *results = malloc(FILE_BYTES + 200);
    uint8_t *out = malloc(FILE_BYTES + 300);
    int fd = stub_accept(stub);

    while (fd >= 0 && stub_read(stub, fd, call)) {
        const uint8_t *behind_fh = call->args + 4 + stub_word_at(call->args);
        uint64_t offset = (uint64_t)stub_word_at(behind_fh) << 32 | stub_word_at(behind_fh + 4);
        uint32_t count = stub_word_at(behind_fh + 8);
        const uint32_t words[] = {0, 0, count, 1, count}; /* OK, no attributes, count, eof, data */
        for (size_t i = 0; i < COUNT_OF(words); i++) {
            stub_word(results + 4 * i, words[i]);
        }
        for (uint32_t i = 0; i < count; i++) {
            results[sizeof words + i] = file_byte(offset + i);
        }
        memset(results + sizeof words + count, 0, 3);
        size_t size = stub_success(out, call->xid, results, sizeof words + count + (-count & 3U));
        const size_t cuts[] = {1, 1, 9, size};
        stub_write(fd, out, size, cuts, COUNT_OF(cuts));
    }
    close(fd);
    free(results);
    free(out);
}

static void keep_data(void *owner, const struct client_reply *reply)
{
    struct answer *answer = owner;
    caller_reply(owner, reply);
    if (reply->error == 0) {
        const struct READ3res *res = reply->res;
        answer->data = unit_copy(res->resok.data.data, res->resok.data.size);
        answer->data_bytes = res->resok.data.size;
    }
}

static void fragments_of_a_reply_are_joined(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct client_rpc_options options = tcp;
    const uint32_t sizes[] = {FILE_BYTES, 1, 65537, 0, 8192, FILE_BYTES};
    struct answer answers[COUNT_OF(sizes)] = {0};

    options.prog = NFS_PROGRAM;
    options.vers = NFS_V3;
    stub_start(stub, SOCK_STREAM, script_read_in_fragments);
    caller_open(&caller, stub, &options);
    for (size_t i = 0; i < COUNT_OF(sizes);
         i++) { /* all at once: each in its place in the stream */
        struct READ3args args = {
            .file = {{(const uint8_t *)"handle..", 8}}, .offset = i * 100000, .count = sizes[i]};
        assert_int_equal(client_rpc_call(caller.rpc, NFSPROC3_READ, &args, keep_data, &answers[i]),
                         0);
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        caller_wait(&caller, &answers[i]);
        assert_int_equal(answers[i].error, 0);
        assert_int_equal(answers[i].data_bytes, sizes[i]);
        for (uint32_t j = 0; j < sizes[i]; j++) {
            assert_int_equal(answers[i].data[j], file_byte(i * 100000 + j));
        }
        free(answers[i].data);
    }
    assert_int_equal(atomic_load(&stub->connections), 1);
    caller_close(&caller);
    stub_stop(stub);
}

/* Fragments for ever, none of them the last. */
static void script_endless(struct stub *stub)
{
    static uint8_t fragment[4 + 60000];
    struct stub_call *call = call_new();
    int fd;

    stub_word(fragment, 60000);
    while ((fd = stub_accept(stub)) >= 0) {
        if (stub_read(stub, fd, call)) {
            ssize_t n;
            do {
                n = send(fd, fragment, sizeof fragment, MSG_NOSIGNAL);
            } while (n > 0);
        }
        close(fd);
    }
}

static void a_record_without_end_is_given_up(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct answer answer;

    stub_start(stub, SOCK_STREAM, script_endless);
    caller_open(&caller, stub, &tcp);
    caller_getport(&caller, 7, &answer);
    caller_wait(&caller, &answer);
    assert_int_equal(answer.error, -EPROTO);
    assert_int_equal(answer.fault, CLIENT_FAULT_TRANSPORT);
    assert_int_equal(caller.events[CLIENT_BROKEN], CLIENT_BROKEN_STREAMS_MAX);
    caller_close(&caller);
    stub_stop(stub);
}

/* The first connection ends after half a fragment, the others serve. */
static void script_half_a_fragment(struct stub *stub)
{
    struct stub_call *call = call_new();
    uint8_t out[64];
    int fd;

    while ((fd = stub_accept(stub)) >= 0) {
        bool first = atomic_load(&stub->connections) == 1;
        while (stub_read(stub, fd, call)) {
            size_t size = getport_reply(out, call);
            if (first) {
                uint8_t half[4 + 10];
                stub_word(half, (uint32_t)size | 0x80000000U);
                memcpy(half + 4, out, 10);
                stub_write_raw(fd, half, sizeof half);
                break;
            }
            stub_write(fd, out, size, NULL, 0);
        }
        close(fd);
    }
}

static void half_a_fragment_is_forgotten_with_its_connection(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct answer answers[3];

    stub_start(stub, SOCK_STREAM, script_half_a_fragment);
    caller_open(&caller, stub, &tcp);
    for (uint32_t i = 0; i < 3; i++) {
        caller_getport(&caller, 7 + i, &answers[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        caller_wait(&caller, &answers[i]);
        assert_int_equal(answers[i].error, 0);
        assert_int_equal(answers[i].word, 8 + i);
        assert_int_equal(answers[i].xid, caller.xid_first_sent + i); /* the same over both */
        assert_int_equal(answers[i].transmissions, 2);
    }
    assert_int_equal(caller.events[CLIENT_CONNECTED], 2);
    assert_int_equal(caller.events[CLIENT_DISCONNECTED], 1);
    assert_int_equal(caller.events[CLIENT_RETRANSMITTED], 3);
    caller_close(&caller);
    stub_stop(stub);
}

/* A byte at a time, each a fragment of its own, then three replies in one write. */
static void script_crumbs(struct stub *stub)
{
    struct stub_call *call = call_new();
    uint8_t out[3][64];
    size_t cuts[64];
    int fd = stub_accept(stub);

    for (size_t i = 0; i < COUNT_OF(cuts); i++) {
        cuts[i] = i;
    }
    if (fd < 0 || !stub_read(stub, fd, call)) {
        return;
    }
    size_t size = getport_reply(out[0], call);
    stub_write(fd, out[0], size, cuts, size - 1);
    uint8_t glued[3 * 68];
    for (size_t i = 0; i < 3 && stub_read(stub, fd, call); i++) {
        (void)getport_reply(out[i], call);
    }
    for (size_t i = 0; i < 3; i++) { /* and in another order */
        stub_word(glued + i * (size + 4), (uint32_t)size | 0x80000000U);
        memcpy(glued + i * (size + 4) + 4, out[2 - i], size);
    }
    stub_write_raw(fd, glued, 3 * (size + 4));
    (void)stub_read(stub, fd, call);
    close(fd);
}

static void crumbs_and_lumps(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct answer answers[4];

    stub_start(stub, SOCK_STREAM, script_crumbs);
    caller_open(&caller, stub, &tcp);
    for (uint32_t i = 0; i < 4; i++) {
        caller_getport(&caller, 20 + i, &answers[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        caller_wait(&caller, &answers[i]);
        assert_int_equal(answers[i].error, 0);
        assert_int_equal(answers[i].word, 21 + i);
    }
    caller_close(&caller);
    stub_stop(stub);
}

/* Noise, of which some looks like record marks, until the client has had enough. */
static void script_random(struct stub *stub)
{
    uint64_t seed = 97;
    int fd;

    while ((fd = stub_accept(stub)) >= 0) {
        uint8_t noise[3000];
        for (size_t i = 0; i < sizeof noise; i++) {
            noise[i] = (uint8_t)(unit_random(&seed) >> 32);
        }
        if (unit_random(&seed) % 2 == 0) { /* short records */
            for (size_t i = 0; i + 64 <= sizeof noise; i += 36) {
                stub_word(noise + i, 0x80000000U | 32);
            }
        }
        stub_write_raw(fd, noise, sizeof noise);
        close(fd);
    }
}

static void noise_ends_in_an_error(void **state)
{
    (void)state;
    struct stub *stub = stub_new();

    stub_start(stub, SOCK_STREAM, script_random);
    for (uint32_t i = 0; i < 20; i++) {
        struct client_rpc_options options = tcp;
        struct caller caller;
        struct answer answer;
        options.soft = true;
        options.timeo_ms = 100;
        options.retrans = 1;
        caller_open(&caller, stub, &options);
        caller_getport(&caller, 1, &answer);
        caller_wait(&caller, &answer);
        assert_true(answer.error == -EPROTO || answer.error == -ETIMEDOUT);
        caller_close(&caller);
    }
    stub_stop(stub);
}

/* ---- connections that come and go ---- */

/* Each connection serves three calls; the server is deaf to the last one. */
static void script_three_each(struct stub *stub)
{
    struct stub_call *call = call_new();
    uint8_t out[64];
    int fd;

    while ((fd = stub_accept(stub)) >= 0) {
        for (int i = 0; i < 3 && stub_read(stub, fd, call); i++) {
            size_t size = getport_reply(out, call);
            if (i < 2) {
                stub_write(fd, out, size, NULL, 0);
            }
        }
        struct linger at_once = {.l_onoff = 1};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(fd);
    }
}

static void every_call_is_answered_once_over_many_connections(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct answer answers[20];

    stub_start(stub, SOCK_STREAM, script_three_each);
    caller_open(&caller, stub, &tcp);
    for (uint32_t i = 0; i < COUNT_OF(answers); i++) {
        caller_getport(&caller, i, &answers[i]);
    }
    for (uint32_t i = 0; i < COUNT_OF(answers); i++) {
        caller_wait(&caller, &answers[i]);
        assert_int_equal(answers[i].error, 0);
        assert_int_equal(answers[i].word, i + 1);
    }
    caller_turn(&caller, 20);
    for (uint32_t i = 0; i < COUNT_OF(answers); i++) {
        assert_int_equal(answers[i].count, 1);
    }
    assert_true(caller.events[CLIENT_CONNECTED] >= COUNT_OF(answers) / 3);
    caller_close(&caller);
    stub_stop(stub);
}

static void script_never(struct stub *stub)
{
    struct stub_call *call = call_new();
    int fd = stub_accept(stub);
    while (fd >= 0 && stub_read(stub, fd, call)) {
    }
    close(fd);
}

static void nobody_listens(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct client_rpc_options options = tcp;
    struct answer answer;

    stub_start(stub, SOCK_STREAM, script_never);
    stub_stop(stub); /* its port is free now */
    options.fail_before_contact = true;
    caller_open(&caller, stub, &options);
    caller_getport(&caller, 1, &answer);
    caller_wait(&caller, &answer);
    assert_int_equal(answer.error, -ECONNREFUSED);
    assert_int_equal(answer.transmissions, 0);
    caller_close(&caller);
}

/* nfs(5): over TCP the timeout grows by timeo; soft gives up after retrans retransmissions. */
static void soft_gives_up(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct client_rpc_options options = tcp;
    struct answer answer;

    options.soft = true;
    options.timeo_ms = 30;
    stub_start(stub, SOCK_STREAM, script_never);
    caller_open(&caller, stub, &options);
    caller_getport(&caller, 1, &answer);
    caller_wait(&caller, &answer);
    assert_int_equal(answer.error, -ETIMEDOUT);
    assert_int_equal(answer.transmissions, 3);
    assert_int_equal(caller.wait_count, 3);
    assert_int_equal(caller.waits_ns[0], 30000000);
    assert_int_equal(caller.waits_ns[1], 60000000);
    assert_int_equal(caller.waits_ns[2], 90000000);
    assert_int_equal(caller.events[CLIENT_CONNECTED], 1);
    caller_close(&caller);
    stub_stop(stub);
}

static void closing_answers_what_is_outstanding(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct answer answers[2];

    stub_start(stub, SOCK_STREAM, script_never);
    caller_open(&caller, stub, &tcp);
    caller_getport(&caller, 1, &answers[0]);
    caller_turn(&caller, 20);
    caller_getport(&caller, 2, &answers[1]);
    caller_close(&caller);
    assert_int_equal(answers[0].error, -ECANCELED);
    assert_int_equal(answers[1].error, -ECANCELED);
    stub_stop(stub);
}

/* ---- RFC 5531 §9: replies that refuse ---- */

struct refusal {
    const char *hex; /* behind the xid */
    int error;
    enum client_rpc_fault fault;
    uint32_t low, high, auth_stat;
};

static const struct refusal refusals[] = {
    /* REPLY, MSG_ACCEPTED, AUTH_NONE, accept_stat */
    {"00000001 00000000 00000000 00000000 00000001", -EPROTONOSUPPORT, CLIENT_FAULT_PROG_UNAVAIL},
    {"00000001 00000000 00000000 00000000 00000002 00000003 00000004", -EPROTONOSUPPORT,
     CLIENT_FAULT_PROG_MISMATCH, 3, 4},
    {"00000001 00000000 00000000 00000000 00000003", -EOPNOTSUPP, CLIENT_FAULT_PROC_UNAVAIL},
    {"00000001 00000000 00000000 00000000 00000004", -EINVAL, CLIENT_FAULT_GARBAGE_ARGS},
    {"00000001 00000000 00000000 00000000 00000005", -EREMOTEIO, CLIENT_FAULT_SYSTEM_ERR},
    /* REPLY, MSG_DENIED, reject_stat */
    {"00000001 00000001 00000000 00000002 00000002", -EPROTONOSUPPORT, CLIENT_FAULT_RPC_MISMATCH, 2,
     2},
    {"00000001 00000001 00000001 00000005", -EACCES, CLIENT_FAULT_AUTH, 0, 0, 5},
    /* no such accept_stat; no results; a verifier that is longer than the message */
    {"00000001 00000000 00000000 00000000 00000006", -EBADMSG, CLIENT_FAULT_REPLY},
    {"00000001 00000000 00000000 00000000 00000000", -EBADMSG, CLIENT_FAULT_REPLY},
    {"00000001 00000000 00000000 00000190 00000000", -EBADMSG, CLIENT_FAULT_REPLY},
    {"00000001 00000007", -EBADMSG, CLIENT_FAULT_REPLY},
    {"00000001", -EBADMSG, CLIENT_FAULT_REPLY},
};

static void script_refusals(struct stub *stub)
{
    struct stub_call *call = call_new();
    int fd = stub_accept(stub);

    for (size_t i = 0; i < COUNT_OF(refusals) && stub_read(stub, fd, call); i++) {
        uint8_t out[64];
        size_t size;
        uint8_t *rest = unit_hex(refusals[i].hex, &size);
        stub_word(out, call->xid);
        memcpy(out + 4, rest, size);
        stub_write(fd, out, size + 4, NULL, 0);
        free(rest);
    }
    (void)stub_read(stub, fd, call);
    close(fd);
}

static void refusals_have_names(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;

    stub_start(stub, SOCK_STREAM, script_refusals);
    caller_open(&caller, stub, &tcp);
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        struct answer answer;
        caller_getport(&caller, 1, &answer);
        caller_wait(&caller, &answer);
        assert_int_equal(answer.error, refusals[i].error);
        assert_int_equal(answer.fault, refusals[i].fault);
        assert_int_equal(answer.low, refusals[i].low);
        assert_int_equal(answer.high, refusals[i].high);
        assert_int_equal(answer.auth_stat, refusals[i].auth_stat);
    }
    assert_int_equal(atomic_load(&stub->connections), 1); /* none of that broke the stream */
    caller_close(&caller);
    stub_stop(stub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragments_of_a_reply_are_joined),
        cmocka_unit_test(a_record_without_end_is_given_up),
        cmocka_unit_test(half_a_fragment_is_forgotten_with_its_connection),
        cmocka_unit_test(crumbs_and_lumps),
        cmocka_unit_test(noise_ends_in_an_error),
        cmocka_unit_test(every_call_is_answered_once_over_many_connections),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(soft_gives_up),
        cmocka_unit_test(closing_answers_what_is_outstanding),
        cmocka_unit_test(refusals_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
