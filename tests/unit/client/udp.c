/* SPDX-License-Identifier: Apache-2.0 */
/* The client over UDP against servers that lose, repeat, delay and refuse. */
#include "caller.h"

#include "proto/nfs3.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#define MS 1000000LL
#define CALL_COUNT 400U
#define MUTATED_AT_ONCE 40U

static const struct client_rpc_options udp = {.insecure = true, .timeo_ms = 80};

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

static void answer_call(struct stub *stub, const struct stub_call *call)
{
    uint8_t result[4], out[64];
    stub_word(result, stub_word_at(call->args) + 1);
    stub_send(stub, call, out, stub_success(out, call->xid, result, sizeof result));
}

/* Deaf to the first two transmissions, then answers each twice. */
static void script_third_time(struct stub *stub)
{
    struct stub_call *call = call_new();
    uint32_t xid = 0;

    while (stub_receive(stub, call)) {
        uint32_t calls = atomic_load(&stub->calls);
        if (calls == 1) {
            xid = call->xid;
        }
        if (calls >= 3 && call->xid == xid) {
            answer_call(stub, call);
            answer_call(stub, call);
        }
    }
}

/* nfs(5): twice the time after each retransmission, under the same xid; what comes after the reply
 * is a late duplicate and nobody's answer. */
static void retransmission_doubles_and_duplicates_are_told(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct answer answer;

    stub_start(stub, SOCK_DGRAM, script_third_time);
    caller_open(&caller, stub, &udp);
    caller_getport(&caller, 41, &answer);
    caller_wait(&caller, &answer);
    assert_int_equal(answer.error, 0);
    assert_int_equal(answer.word, 42);
    assert_int_equal(answer.transmissions, 3);
    caller_turn(&caller, 30);
    assert_int_equal(answer.count, 1);
    assert_int_equal(caller.events[CLIENT_SENT], 1);
    assert_int_equal(caller.events[CLIENT_RETRANSMITTED], 2);
    assert_int_equal(caller.events[CLIENT_LATE_DUPLICATE], 1);
    assert_int_equal(caller.wait_count, 2);
    assert_int_equal(caller.waits_ns[0], 80 * MS);
    assert_int_equal(caller.waits_ns[1], 160 * MS);
    struct client_rpc_stats stats;
    client_rpc_stats(caller.rpc, &stats);
    assert_int_equal(stats.sent, 1);
    assert_int_equal(stats.retransmitted, 2);
    assert_int_equal(stats.late_duplicates, 1);
    assert_int_equal(stats.outstanding, 0);
    caller_close(&caller);
    stub_stop(stub);
}

/* Loses one call in four and one reply in four, says some replies twice. */
static void script_lossy(struct stub *stub)
{
    struct stub_call *call = call_new();
    uint64_t seed = 77;

    while (stub_receive(stub, call)) {
        uint64_t luck = unit_random(&seed) % 16;
        if (luck >= 8) {
            answer_call(stub, call);
        }
        if (luck == 15) {
            answer_call(stub, call);
        }
    }
}

static void every_call_is_answered_once_though_half_is_lost(void **state)
{
    (void)state;
    static struct answer answers[CALL_COUNT];
    struct stub *stub = stub_new();
    struct caller caller;
    struct client_rpc_options options = udp;
    struct client_rpc_stats stats;

    options.timeo_ms = 2;
    options.timeout_ms_max = 8;
    options.udp_window = 32;
    stub_start(stub, SOCK_DGRAM, script_lossy);
    caller_open(&caller, stub, &options);
    for (uint32_t i = 0; i < CALL_COUNT; i++) {
        caller_getport(&caller, i, &answers[i]);
    }
    for (uint32_t i = 0; i < CALL_COUNT; i++) {
        caller_wait(&caller, &answers[i]);
        assert_int_equal(answers[i].error, 0);
        assert_int_equal(answers[i].word, i + 1);
    }
    caller_turn(&caller, 20);
    client_rpc_stats(caller.rpc, &stats);
    assert_int_equal(stats.replied, CALL_COUNT);
    assert_true(stats.retransmitted > CALL_COUNT / 4);
    assert_int_equal(stats.sent, CALL_COUNT);
    assert_true(caller.events[CLIENT_LATE_DUPLICATE] > 0);
    assert_int_equal(caller.events[CLIENT_STRAY], 0);
    caller_close(&caller);
    stub_stop(stub);
}

static void script_deaf(struct stub *stub)
{
    struct stub_call *call = call_new();
    while (stub_receive(stub, call)) {
    }
}

static void soft_gives_up_after_retrans(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct client_rpc_options options = udp;
    struct answer answer;

    options.soft = true;
    options.timeo_ms = 10;
    stub_start(stub, SOCK_DGRAM, script_deaf);
    caller_open(&caller, stub, &options);
    caller_getport(&caller, 1, &answer);
    caller_wait(&caller, &answer);
    assert_int_equal(answer.error, -ETIMEDOUT);
    assert_int_equal(answer.transmissions, 4); /* nfs(5): retrans=3 over UDP */
    assert_int_equal(caller.waits_ns[3], 80 * MS);
    caller_close(&caller);
    stub_stop(stub);
}

/* Deaf for the first six calls. */
static void script_wakes_up(struct stub *stub)
{
    struct stub_call *call = call_new();
    while (stub_receive(stub, call)) {
        if (atomic_load(&stub->calls) > 6) {
            answer_call(stub, call);
        }
    }
}

static void hard_says_so_once_and_goes_on(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct client_rpc_options options = udp;
    struct answer answer;

    options.timeo_ms = 5;
    stub_start(stub, SOCK_DGRAM, script_wakes_up);
    caller_open(&caller, stub, &options);
    caller_getport(&caller, 1, &answer);
    caller_wait(&caller, &answer);
    assert_int_equal(answer.error, 0);
    assert_int_equal(answer.transmissions, 7);
    assert_int_equal(caller.events[CLIENT_NOT_RESPONDING], 1);
    assert_int_equal(caller.events[CLIENT_RESPONDING], 1);
    caller_close(&caller);
    stub_stop(stub);
}

static void refused_before_contact(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct client_rpc_options options = udp;
    struct answer answer;

    stub_start(stub, SOCK_DGRAM, script_deaf);
    stub_stop(stub);
    options.fail_before_contact = true;
    caller_open(&caller, stub, &options);
    caller_getport(&caller, 1, &answer);
    caller_wait(&caller, &answer);
    assert_int_equal(answer.error, -ECONNREFUSED);
    assert_int_equal(answer.transmissions, 1);
    assert_int_equal(caller.events[CLIENT_REFUSED], 1);
    caller_close(&caller);
}

static void script_plain(struct stub *stub)
{
    struct stub_call *call = call_new();
    while (stub_receive(stub, call)) {
        answer_call(stub, call);
    }
}

/* nfs(5): what is rare is timed by timeo, however fast the server has been so far. */
static void rare_procedures_are_not_estimated(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct client_rpc_options options = udp;
    struct answer answer;

    options.timeo_ms = 5000;
    stub_start(stub, SOCK_DGRAM, script_plain);
    caller_open(&caller, stub, &options);
    for (uint32_t i = 0; i < 3; i++) {
        caller_getport(&caller, i, &answer);
        caller_wait(&caller, &answer);
    }
    assert_int_equal(client_rpc_timeout_ms(caller.rpc, 3), 5000);
    caller_close(&caller);
    stub_stop(stub);
}

/* Noise first: too short, a call, somebody else's xid; then the reply. */
static void script_noise(struct stub *stub)
{
    struct stub_call *call = call_new();
    while (stub_receive(stub, call)) {
        uint8_t out[64] = {0};
        stub_send(stub, call, out, 0);
        stub_send(stub, call, out, 3);
        stub_word(out, call->xid);
        stub_send(stub, call, out, 24); /* type CALL */
        size_t size = stub_success(out, call->xid + 1000, out, 0);
        stub_send(stub, call, out, size);
        answer_call(stub, call);
    }
}

static void noise_is_not_an_answer(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct client_rpc_options options = udp;
    struct answer answer;

    options.timeo_ms = 5000;
    stub_start(stub, SOCK_DGRAM, script_noise);
    caller_open(&caller, stub, &options);
    caller_getport(&caller, 1, &answer);
    caller_wait(&caller, &answer);
    assert_int_equal(answer.error, 0);
    assert_int_equal(answer.word, 2);
    assert_int_equal(caller.events[CLIENT_STRAY], 4);
    assert_int_equal(caller.events[CLIENT_LATE_DUPLICATE], 0);
    caller_close(&caller);
    stub_stop(stub);
}

/* A page of a directory, with a byte or a length of it changed, or cut short. */
static void script_mutated(struct stub *stub)
{
    static const char page[] =
        "00000000 00000001 00000002 000001ed 00000002 00000000 00000000 00000000 00001000"
        "00000000 00001000 00000000 00000000 00000000 00000001 00000000 00000002 65000000 00000001"
        "65000000 00000001 65000000 00000001 0000000000000000"
        "00000001 0000000000000003 00000003 61626300 0000000000000001 00000000"
        "00000001 00000004 66686172"
        "00000001 0000000000000004 00000001 62000000 0000000000000002 00000000 00000000"
        "00000000 00000001";
    struct stub_call *call = call_new();
    uint64_t seed = 41;
    size_t results_bytes;
    uint8_t *results = unit_hex(page, &results_bytes);
    uint8_t out[512];

    while (stub_receive(stub, call)) {
        size_t size = stub_success(out, call->xid, results, results_bytes);
        uint64_t luck = unit_random(&seed);
        if (luck % 4 == 0) {
            size = 4 + unit_random(&seed) % (size - 4);
        } else if (luck % 4 == 1) {
            stub_word(out + 4 + unit_random(&seed) % (size / 4 - 1) * 4,
                      (uint32_t)unit_random(&seed));
        } else {
            out[4 + unit_random(&seed) % (size - 4)] ^= (uint8_t)(1U << (luck >> 8) % 8);
        }
        stub_send(stub, call, out, size);
    }
    free(results);
}

static void read_page(void *owner, const struct client_reply *reply)
{
    struct answer *answer = owner;
    answer->count++;
    answer->error = reply->error;
    const struct READDIRPLUS3res *res = reply->res;
    if (reply->error == 0 && res->status == NFS3_OK) {
        struct xdr cursor =
            xdr_reader(res->resok.reply.entries.data, res->resok.reply.entries.size);
        struct entryplus3 entry;
        while (entryplus3_next(&cursor, &entry)) {
            answer->word += entry.name.size; /* a sanitizer sees it if that is nobody's */
        }
    }
}

/* Whatever is in a reply, its call ends with results that can be read or with an error. What looks
 * like no reply at all is not one: those calls time out. */
static void mutated_replies_end_their_calls(void **state)
{
    (void)state;
    static struct answer answers[400];
    struct stub *stub = stub_new();
    struct caller caller;
    struct client_rpc_options options = udp;
    struct READDIRPLUS3args args = {.dir = {{(const uint8_t *)"fh", 2}}, .dircount = 512};
    unsigned good = 0, broken = 0, silent = 0;

    options.prog = NFS_PROGRAM;
    options.vers = NFS_V3;
    options.once = true;
    options.timeo_ms = 50;
    options.udp_window = MUTATED_AT_ONCE;
    stub_start(stub, SOCK_DGRAM, script_mutated);
    caller_open(&caller, stub, &options);
    for (size_t i = 0; i < COUNT_OF(answers); i += MUTATED_AT_ONCE) {
        for (size_t j = i; j < i + MUTATED_AT_ONCE; j++) {
            answers[j] = (struct answer){0};
            assert_int_equal(
                client_rpc_call(caller.rpc, NFSPROC3_READDIRPLUS, &args, read_page, &answers[j]),
                0);
        }
        for (size_t j = i; j < i + MUTATED_AT_ONCE; j++) {
            caller_wait(&caller, &answers[j]);
            good += answers[j].error == 0;
            broken += answers[j].error == -EBADMSG;
            silent += answers[j].error == -ETIMEDOUT;
        }
    }
    assert_true(good > COUNT_OF(answers) / 10);
    assert_true(broken > COUNT_OF(answers) / 10);
    assert_true(silent > 0);
    caller_close(&caller);
    stub_stop(stub);
}

/* Counts how many calls come before it answers any. */
static void script_slow(struct stub *stub)
{
    static struct stub_call calls[8];
    for (;;) {
        unsigned count = 0;
        if (!stub_receive(stub, &calls[count++])) {
            return;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 3 * MS}, NULL);
        answer_call(stub, &calls[0]);
    }
}

static void only_a_window_of_calls_is_on_the_way(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct client_rpc_options options = udp;
    struct answer answers[12];
    struct client_rpc_stats stats;

    options.timeo_ms = 1000;
    stub_start(stub, SOCK_DGRAM, script_slow);
    caller_open(&caller, stub, &options);
    for (uint32_t i = 0; i < COUNT_OF(answers); i++) {
        caller_getport(&caller, i, &answers[i]);
    }
    assert_int_equal(client_loop_turn(caller.loop, 0), 0);
    assert_int_equal(caller.events[CLIENT_SENT], 2); /* as it starts */
    for (uint32_t i = 0; i < COUNT_OF(answers); i++) {
        caller_wait(&caller, &answers[i]);
        client_rpc_stats(caller.rpc, &stats);
        assert_true(caller.events[CLIENT_SENT] <= caller.events[CLIENT_REPLIED] + stats.window);
    }
    assert_true(stats.window > 2 && stats.window <= COUNT_OF(answers));
    caller_close(&caller);
    stub_stop(stub);
}

/* Answers 40 calls, is deaf for 0.7 seconds, answers all that comes then. */
static void script_deaf_for_a_while(struct stub *stub)
{
    struct stub_call *call = call_new();
    int64_t deaf_until_ns = 0;

    while (stub_receive(stub, call)) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        int64_t now_ns = now.tv_sec * 1000 * MS + now.tv_nsec;
        if (atomic_load(&stub->calls) == 41) {
            deaf_until_ns = now_ns + 700 * MS;
        }
        if (now_ns >= deaf_until_ns) {
            answer_call(stub, call);
        }
    }
}

/* Losses make the window small, so that calls which were lost together have to wait until they may
 * be sent again. That is no loss of theirs: each timeout is followed by a transmission. */
static void calls_that_wait_for_the_window_do_not_time_out(void **state)
{
    (void)state;
    struct stub *stub = stub_new();
    struct caller caller;
    struct client_rpc_options options = udp;
    struct answer answers[80];
    struct client_rpc_stats stats;

    options.timeo_ms = 50;
    options.retrans = 8; /* patience with those that were never sent: 25 seconds */
    stub_start(stub, SOCK_DGRAM, script_deaf_for_a_while);
    caller_open(&caller, stub, &options);
    for (uint32_t i = 0; i < COUNT_OF(answers); i++) {
        caller_getport(&caller, i, &answers[i]);
    }
    for (uint32_t i = 0; i < COUNT_OF(answers); i++) {
        caller_wait(&caller, &answers[i]);
        assert_int_equal(answers[i].error, 0);
    }
    client_rpc_stats(caller.rpc, &stats);
    assert_true(stats.retransmitted > 4);
    assert_int_equal(stats.timeouts, stats.retransmitted);
    caller_close(&caller);
    stub_stop(stub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retransmission_doubles_and_duplicates_are_told),
        cmocka_unit_test(every_call_is_answered_once_though_half_is_lost),
        cmocka_unit_test(soft_gives_up_after_retrans),
        cmocka_unit_test(hard_says_so_once_and_goes_on),
        cmocka_unit_test(refused_before_contact),
        cmocka_unit_test(rare_procedures_are_not_estimated),
        cmocka_unit_test(noise_is_not_an_answer),
        cmocka_unit_test(mutated_replies_end_their_calls),
        cmocka_unit_test(only_a_window_of_calls_is_on_the_way),
        cmocka_unit_test(calls_that_wait_for_the_window_do_not_time_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
