/* SPDX-License-Identifier: Apache-2.0 */
/* Timeouts against the rules they follow: Jacobson's estimate, Karn's rule, doubling, bounds. */
#include "client/rto.h"

#include "lib/unit.h"
#include "proto/nfs2.h"
#include "proto/nfs3.h"

#define MS 1000000LL
#define TIMEO (1100 * MS)
#define MIN (100 * MS)
#define MAX (60000 * MS)

static void before_the_first_reply_it_is_timeo(void **state)
{
    (void)state;
    struct rto rto = {0};
    assert_int_equal(client_rto_timeout_ns(&rto, TIMEO, MIN, MAX), TIMEO);
    assert_int_equal(client_rto_timeout_ns(&rto, 90000 * MS, MIN, MAX), MAX);
}

static void steady_replies_end_at_mean_and_minimum(void **state)
{
    (void)state;
    struct rto rto = {0};
    for (int i = 0; i < 200; i++) {
        client_rto_replied(&rto, 20 * MS, 1);
    }
    assert_in_range(client_rto_timeout_ns(&rto, TIMEO, MIN, MAX), 119 * MS, 121 * MS);
}

static void jitter_widens_the_margin(void **state)
{
    (void)state;
    struct rto rto = {0};
    for (int i = 0; i < 400; i++) {
        client_rto_replied(&rto, i % 2 == 0 ? 100 * MS : 300 * MS, 1);
    }
    /* mean 200 ms, mean deviation 100 ms: 200 + 4 * 100 */
    assert_in_range(client_rto_timeout_ns(&rto, TIMEO, MIN, MAX), 560 * MS, 650 * MS);
}

static void replies_to_calls_sent_twice_do_not_count(void **state)
{
    (void)state;
    struct rto rto = {0};
    client_rto_replied(&rto, 10 * MS, 1);
    struct rto before = rto;
    client_rto_replied(&rto, 5000 * MS, 2);
    assert_memory_equal(&before, &rto, sizeof rto);
}

static void timeouts_double_what_comes_next_until_a_clean_reply(void **state)
{
    (void)state;
    struct rto rto = {0};
    client_rto_replied(&rto, 20 * MS, 1);
    int64_t first = client_rto_timeout_ns(&rto, TIMEO, MIN, MAX);
    client_rto_timed_out(&rto, 1);
    client_rto_timed_out(&rto, 1); /* another call, lost together with the first */
    assert_int_equal(client_rto_timeout_ns(&rto, TIMEO, MIN, MAX), 2 * first);
    client_rto_timed_out(&rto, 2);
    assert_int_equal(client_rto_timeout_ns(&rto, TIMEO, MIN, MAX), 4 * first);
    client_rto_replied(&rto, 20 * MS, 2);
    assert_int_equal(client_rto_timeout_ns(&rto, TIMEO, MIN, MAX), 4 * first);
    client_rto_replied(&rto, 20 * MS, 1);
    assert_true(client_rto_timeout_ns(&rto, TIMEO, MIN, MAX) <= first);
    for (uint32_t i = 1; i < 100; i++) {
        client_rto_timed_out(&rto, i);
    }
    assert_true(client_rto_timeout_ns(&rto, TIMEO, MIN, MAX) <= MAX);
}

static void procedures_have_classes(void **state)
{
    (void)state;
    assert_int_equal(client_rto_class(NFS_PROGRAM, NFS_V3, NFSPROC3_FSINFO), RTO_CLASS_NONE);
    assert_int_equal(client_rto_class(NFS_PROGRAM, NFS_V3, 4000000000U), RTO_CLASS_NONE);
    assert_int_equal(client_rto_class(100000, 2, 3), RTO_CLASS_NONE);
    uint32_t read = client_rto_class(NFS_PROGRAM, NFS_V3, NFSPROC3_READ);
    assert_int_not_equal(read, RTO_CLASS_NONE);
    assert_int_equal(read, client_rto_class(NFS_PROGRAM, NFS_V3, NFSPROC3_READDIRPLUS));
    assert_int_not_equal(read, client_rto_class(NFS_PROGRAM, NFS_V3, NFSPROC3_GETATTR));
    assert_int_not_equal(read, client_rto_class(NFS_PROGRAM, NFS_V3, NFSPROC3_WRITE));
    assert_int_equal(read, client_rto_class(NFS_PROGRAM, NFS_VERSION, NFSPROC_READ));
    assert_int_equal(read, client_rto_class(NFS_PROGRAM, NFS_VERSION, NFSPROC_READDIR));
    assert_int_equal(client_rto_class(NFS_PROGRAM, NFS_V3, NFSPROC3_WRITE),
                     client_rto_class(NFS_PROGRAM, NFS_VERSION, NFSPROC_WRITE));
    assert_int_equal(client_rto_class(NFS_PROGRAM, NFS_VERSION, NFSPROC_CREATE), RTO_CLASS_NONE);
    assert_int_equal(client_rto_class(NFS_PROGRAM, NFS_VERSION, NFSPROC_STATFS), RTO_CLASS_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_first_reply_it_is_timeo),
        cmocka_unit_test(steady_replies_end_at_mean_and_minimum),
        cmocka_unit_test(jitter_widens_the_margin),
        cmocka_unit_test(replies_to_calls_sent_twice_do_not_count),
        cmocka_unit_test(timeouts_double_what_comes_next_until_a_clean_reply),
        cmocka_unit_test(procedures_have_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
