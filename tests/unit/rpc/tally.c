/* SPDX-License-Identifier: Apache-2.0 */
/* The counting of calls: what is counted where, and that however many clients come, memory has a
 * limit, nothing is lost, and who is active keeps a place. */
#include "lib/unit.h"

#include "rpc/tally.h"

#include <arpa/inet.h>

static const struct rpc_procedure procedures[STATS_ROW_COUNT_MAX / 64] = {{.name = "A"}};

struct fixture {
    struct tally_room room;
    struct tally tally;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    ticks_begin();
    tally_open(&fixture->tally, &fixture->room);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    tally_close(&fixture->tally);
    free(fixture);
    return 0;
}

static struct rpc_peer peer_of(uint32_t number)
{
    struct rpc_peer peer = {0};
    peer.address.in = (struct sockaddr_in){.sin_family = AF_INET,
                                           .sin_addr.s_addr = htonl(0x0a000000U + number)};
    return peer;
}

static void call(struct fixture *fixture, uint32_t client, uint32_t proc, uint64_t group,
                 int64_t now_ms)
{
    const struct rpc_peer peer = peer_of(client);
    struct tally_client *counted = tally_client_get(&fixture->tally, &peer, now_ms);
    uint64_t now = ticks_now();
    const struct sample sample = {.procedure = &procedures[proc],
                                  .group = group,
                                  .arrived = now,
                                  .started = now,
                                  .ended = now,
                                  .bytes_in = 100,
                                  .bytes_out = 10};
    tally_add(&fixture->tally, counted, &sample, 1, now, now_ms);
    tally_client_put(counted);
}

static uint64_t calls_of_row(const struct tally_row *row)
{
    struct histogram_sum sum;
    histogram_read(&row->latency[RPC_PHASE_RUN], &sum);
    return histogram_count(&sum);
}

static uint64_t calls_of(const struct fixture *fixture, bool others)
{
    uint64_t calls = 0;
    for (uint32_t i = 0; i < fixture->tally.row_count; i++) {
        const struct tally_row *row = fixture->tally.rows[i];
        uint64_t here = calls_of_row(row);
        calls += row->client->is_others == others ? here : 0;
        assert_int_equal(row->bytes_in, here * 100);
        assert_int_equal(row->latency[RPC_PHASE_ALL].counts[0], here);
    }
    return calls;
}

static void each_row_is_its_own(void **state)
{
    struct fixture *fixture = *state;
    for (uint32_t i = 0; i < 60; i++) {
        call(fixture, i % 2, i % 3, i % 5, 1);
    }
    assert_int_equal(fixture->tally.client_count, 2);
    assert_int_equal(fixture->tally.row_count, 30);
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(calls_of_row(fixture->tally.rows[i]), 2);
    }
}

static void phases_add_up(void **state)
{
    struct fixture *fixture = *state;
    const struct rpc_peer peer = peer_of(1);
    struct tally_client *client = tally_client_get(&fixture->tally, &peer, 1);
    struct sample sample = {.procedure = &procedures[0],
                            .arrived = 1000,
                            .started = 11000,
                            .ended = 31000,
                            .durable = 61000};

    tally_add(&fixture->tally, client, &sample, 1, 101000, 1);
    sample.durable = 0;
    tally_add(&fixture->tally, client, &sample, 1, 0, 1);
    const struct tally_row *row = client->rows;
    assert_int_equal(calls_of_row(row), 2);
    assert_int_equal(row->ns[RPC_PHASE_QUEUE], 2 * ticks_ns(0, 10000));
    assert_int_equal(row->ns[RPC_PHASE_RUN], 2 * ticks_ns(0, 20000));
    assert_int_equal(row->ns[RPC_PHASE_STABLE], ticks_ns(0, 30000));
    assert_int_equal(row->ns[RPC_PHASE_SEND], ticks_ns(0, 40000));
    assert_int_equal(row->ns[RPC_PHASE_ALL], ticks_ns(0, 100000));
    tally_client_put(client);
}

/* All within a minute: nobody may be displaced. */
static void a_flood_is_counted_together(void **state)
{
    struct fixture *fixture = *state;
    const uint32_t clients = STATS_CLIENT_COUNT_MAX * 20;

    for (uint32_t i = 0; i < clients; i++) {
        call(fixture, i, 0, 1, 100000 + i / 1000);
    }
    assert_int_equal(fixture->tally.client_count, STATS_CLIENT_COUNT_MAX);
    assert_int_equal(calls_of(fixture, false), STATS_CLIENT_COUNT_MAX);
    assert_int_equal(calls_of(fixture, true), clients - STATS_CLIENT_COUNT_MAX);
}

/* Clients that come and go for hours: who stays is counted by itself all the time. */
static void the_quiet_make_room(void **state)
{
    struct fixture *fixture = *state;
    const uint32_t clients = STATS_CLIENT_COUNT_MAX * 5;

    for (uint32_t i = 1; i <= clients; i++) {
        call(fixture, i, i % 3, 1, (int64_t)i * 1000);
        call(fixture, 0, 0, 2, (int64_t)i * 1000);
    }
    assert_int_equal(fixture->tally.client_count, STATS_CLIENT_COUNT_MAX);
    assert_int_equal(fixture->room.row_count, STATS_CLIENT_COUNT_MAX);
    assert_int_equal(calls_of(fixture, false) + calls_of(fixture, true), 2 * clients);
    for (uint32_t i = 0; i < fixture->tally.row_count; i++) {
        const struct tally_row *row = fixture->tally.rows[i];
        assert_true(row->group != 2 || calls_of_row(row) == clients);
    }
}

static void rows_have_a_limit(void **state)
{
    struct fixture *fixture = *state;
    uint64_t calls = 0;

    for (uint32_t group = 1; group <= 2 * STATS_ROW_COUNT_MAX; group++, calls++) {
        call(fixture, 1, group % COUNT_OF(procedures), group, 1000);
    }
    assert_int_equal(fixture->room.row_count, STATS_ROW_COUNT_MAX);
    assert_in_range(fixture->tally.row_count, STATS_ROW_COUNT_MAX, STATS_ROW_COUNT_MAX + 1024);
    assert_int_equal(calls_of(fixture, false) + calls_of(fixture, true), calls);
}

static void what_is_in_use_stays(void **state)
{
    struct fixture *fixture = *state;
    const struct rpc_peer peer = peer_of(1);
    struct tally_client *held = tally_client_get(&fixture->tally, &peer, 0);

    for (uint32_t i = 2; i <= 3 * STATS_CLIENT_COUNT_MAX; i++) {
        call(fixture, i, 0, 0, (int64_t)i * STATS_QUIET_MS);
    }
    assert_ptr_equal(tally_client_get(&fixture->tally, &peer, 0), held);
    tally_client_put(held);
    tally_client_put(held);
}

static void unsent_replies_are_taken_in_order(void **state)
{
    struct tally_unsent unsent = {0};
    uint64_t seed = 3, added = 0, taken = 0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        struct sample sample = {.stream_end = added + 1};
        if (unit_random(&seed) % 2 == 0) {
            bool room = added - taken < TALLY_UNSENT_COUNT_MAX;
            assert_int_equal(tally_unsent_add(&unsent, &sample), room);
            added += room ? 1 : 0;
            continue;
        }
        const struct sample *next = tally_unsent_take(&unsent, added > 2 ? added - 2 : 0);
        assert_true((next != NULL) == (taken + 2 < added));
        if (next != NULL) {
            assert_int_equal(next->stream_end, ++taken);
        }
    }
    while (tally_unsent_add(&unsent, &(struct sample){.stream_end = added + 1})) {
        added++;
    }
    assert_int_equal(added - taken, TALLY_UNSENT_COUNT_MAX);
    free(unsent.samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_row_is_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(phases_add_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flood_is_counted_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_quiet_make_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_have_a_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_in_use_stays, set_up, tear_down),
        cmocka_unit_test(unsent_replies_are_taken_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
