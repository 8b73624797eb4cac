/* SPDX-License-Identifier: Apache-2.0 */
/* Slow questions: who is known never waits, who is not waits for a while, and nothing piles up. */
#include "vfs/ask.h"

#include "lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static atomic_int gate_closed;
static atomic_uint asked, released, freed;
static sigset_t held; /* by the thread that found the last answer */

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Keys that begin with 's' have slow answers; with 'n', none. */
static void *find(void *arg, const uint8_t key[ASK_KEY_BYTES])
{
    (void)arg;
    pthread_sigmask(SIG_SETMASK, NULL, &held);
    atomic_fetch_add(&asked, 1);
    while (key[0] == 's' && atomic_load(&gate_closed)) {
        sleep_ms(1);
    }
    uint8_t *answer = key[0] == 'n' ? NULL : malloc(ASK_KEY_BYTES);
    if (answer != NULL) {
        memcpy(answer, key, ASK_KEY_BYTES);
    }
    return answer;
}

static void forget(void *answer)
{
    atomic_fetch_add(&freed, 1);
    free(answer);
}

static void release(void *arg)
{
    (void)arg;
    atomic_fetch_add(&released, 1);
}

static int set_up(void **state)
{
    const struct ask_options options = {.find = find, .forget = forget, .release = release};
    atomic_store(&gate_closed, 0);
    atomic_store(&asked, 0);
    atomic_store(&released, 0);
    atomic_store(&freed, 0);
    *state = ask_open(&options);
    return *state != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    atomic_store(&gate_closed, 0);
    ask_close(*state);
    while (atomic_load(&released) != 1) {
        sleep_ms(1); /* or the test's time is over */
    }
    return 0;
}

static int get(struct ask *ask, const char *name, bool may_wait)
{
    uint8_t key[ASK_KEY_BYTES] = {0};
    struct ask_entry *entry = NULL;
    const void *answer = NULL;
    memcpy(key, name, strlen(name));
    int err = ask_get(ask, key, may_wait, &entry, &answer);
    if (err == 0) {
        assert_memory_equal(answer, key, ASK_KEY_BYTES);
        ask_put(ask, entry);
    }
    return err;
}

static void answers_are_asked_once_and_kept(void **state)
{
    for (int i = 0; i < 100; i++) {
        assert_int_equal(get(*state, "one", true), 0);
        assert_int_equal(get(*state, "none", true), -ENOENT);
    }
    assert_int_equal(atomic_load(&asked), 2);
    ask_start_again(*state);
    assert_int_equal(get(*state, "one", true), 0);
    assert_int_equal(atomic_load(&asked), 3);
}

static void who_may_not_wait_comes_again(void **state)
{
    atomic_store(&gate_closed, 1);
    assert_int_equal(get(*state, "slow", false), -EAGAIN);
    assert_int_equal(get(*state, "slow", false), -EAGAIN);
    atomic_store(&gate_closed, 0);
    while (get(*state, "slow", false) == -EAGAIN) {
        sleep_ms(1);
    }
    assert_int_equal(atomic_load(&asked), 1);
}

/* Also right behind it, before the thread that will ask it has woken. */
static void a_slow_question_does_not_hold_up_the_next(void **state)
{
    char name[ASK_KEY_BYTES];
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "one%u", i);
        assert_int_equal(get(*state, name, true), 0);
        sleep_ms(5); /* its thread idles */
        atomic_store(&gate_closed, 1);
        snprintf(name, sizeof name, "slow%u", i);
        assert_int_equal(get(*state, name, false), -EAGAIN);
        snprintf(name, sizeof name, "next%u", i);
        while (get(*state, name, false) == -EAGAIN) {
            sleep_ms(1); /* or the test's time is over */
        }
        atomic_store(&gate_closed, 0);
        snprintf(name, sizeof name, "slow%u", i);
        assert_int_equal(get(*state, name, true), 0);
    }
}

static void *wait_for_slow(void *arg)
{
    return get(arg, "slow", true) == 0 ? arg : NULL;
}

static void known_answers_do_not_wait_for_slow_ones(void **state)
{
    pthread_t waiters[4];
    char name[ASK_KEY_BYTES];
    assert_int_equal(get(*state, "known", true), 0);
    atomic_store(&gate_closed, 1);
    for (size_t i = 0; i < COUNT_OF(waiters); i++) {
        assert_int_equal(pthread_create(&waiters[i], NULL, wait_for_slow, *state), 0);
    }
    for (unsigned i = 0; i < 2 * ASK_ENTRY_COUNT_MAX; i++) { /* all threads busy, the list long */
        snprintf(name, sizeof name, "s%u", i);
        assert_int_equal(get(*state, name, false), -EAGAIN);
        if (i % 512 == 0) {
            int err = get(*state, "known", false);
            assert_true(err == 0 || err == -EAGAIN); /* it may have made room */
        }
    }
    assert_true(atomic_load(&asked) <= 2 + ASK_THREAD_COUNT_MAX);
    atomic_store(&gate_closed, 0);
    for (size_t i = 0; i < COUNT_OF(waiters); i++) {
        void *got;
        assert_int_equal(pthread_join(waiters[i], &got), 0);
        assert_ptr_equal(got, *state);
    }
}

static void closing_does_not_wait_for_answers(void **state)
{
    atomic_store(&gate_closed, 1);
    assert_int_equal(get(*state, "slow", false), -EAGAIN);
    while (atomic_load(&asked) == 0) {
        sleep_ms(1);
    }
    ask_close(*state);
    assert_int_equal(atomic_load(&released), 0);
    atomic_store(&gate_closed, 0);
    while (atomic_load(&released) == 0) {
        sleep_ms(1);
    }
    assert_int_equal(atomic_load(&freed), 1);
    assert_int_equal(set_up(state), 0);
}

static void signals_are_for_others_but_a_refused_system_call_is_not(void **state)
{
    assert_int_equal(get(*state, "one", true), 0);
    assert_true(sigismember(&held, SIGTERM) == 1 && sigismember(&held, SIGHUP) == 1);
    assert_int_equal(sigismember(&held, SIGSYS), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(answers_are_asked_once_and_kept),
        TEST(who_may_not_wait_comes_again),
        TEST(a_slow_question_does_not_hold_up_the_next),
        TEST(known_answers_do_not_wait_for_slow_ones),
        TEST(signals_are_for_others_but_a_refused_system_call_is_not),
        TEST(closing_does_not_wait_for_answers),
    };
    return cmocka_run_group_tests_name("ask", tests, NULL, NULL);
}
