/* SPDX-License-Identifier: Apache-2.0 */
/* Timers fire in order and not early; what was cleared stays silent; callbacks may do as they may.
 */
#include "client/loop.h"

#include "lib/unit.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#define MS 1000000LL
#define TIMER_COUNT 200

struct timed {
    struct client_timer timer;
    struct client_loop *loop;
    int64_t due_ns;
    bool fired;
};

static int64_t last_due_ns;
static unsigned fired_count;

static void fired(struct client_timer *timer)
{
    struct timed *timed = (struct timed *)timer;
    assert_true(client_loop_now_ns(timed->loop) >= timed->due_ns);
    assert_true(timed->due_ns >= last_due_ns);
    last_due_ns = timed->due_ns;
    timed->fired = true;
    fired_count++;
}

static void timers_fire_in_order(void **state)
{
    (void)state;
    static struct timed timed[TIMER_COUNT];
    struct client_loop *loop;
    uint64_t seed = 20;

    assert_int_equal(client_loop_open(&loop), 0);
    int64_t now_ns = client_loop_fresh_ns(loop);
    for (int i = 0; i < TIMER_COUNT; i++) {
        assert_int_equal(client_timer_open(loop, &timed[i].timer, fired), 0);
        timed[i].loop = loop;
        timed[i].due_ns = now_ns + 5 * MS + (int64_t)(unit_random(&seed) % (40 * MS));
        client_timer_set(loop, &timed[i].timer, timed[i].due_ns);
    }
    for (int i = 0; i < TIMER_COUNT; i += 3) { /* moved: some earlier, some later */
        timed[i].due_ns = now_ns + 5 * MS + (int64_t)(unit_random(&seed) % (40 * MS));
        client_timer_set(loop, &timed[i].timer, timed[i].due_ns);
    }
    unsigned cleared = 0;
    for (int i = 1; i < TIMER_COUNT; i += 5) {
        client_timer_clear(loop, &timed[i].timer);
        client_timer_clear(loop, &timed[i].timer);
        cleared++;
    }
    while (fired_count + cleared < TIMER_COUNT) {
        assert_int_equal(client_loop_turn(loop, 1000), 0);
    }
    assert_int_equal(client_loop_turn(loop, 60), 0);
    for (int i = 0; i < TIMER_COUNT; i++) {
        assert_int_equal(timed[i].fired, i % 5 != 1);
        client_timer_close(loop, &timed[i].timer);
    }
    client_loop_close(loop);
}

struct pipe_watch {
    struct client_watch watch;
    struct client_loop *loop;
    struct pipe_watch *other;
    unsigned count;
};

static void readable(struct client_watch *watch, uint32_t events)
{
    struct pipe_watch *pipe_watch = (struct pipe_watch *)watch;
    assert_true((events & EPOLLIN) != 0);
    pipe_watch->count++;
    client_watch_clear(pipe_watch->loop, &pipe_watch->other->watch);
}

static void a_watch_cleared_in_the_same_turn_is_not_called(void **state)
{
    (void)state;
    struct client_loop *loop;
    int ends[2][2];
    struct pipe_watch watches[2];

    assert_int_equal(client_loop_open(&loop), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe(ends[i]), 0);
        watches[i] = (struct pipe_watch){
            .watch = {.fd = ends[i][0], .ready = readable}, .loop = loop, .other = &watches[1 - i]};
        assert_int_equal(client_watch_set(loop, &watches[i].watch, EPOLLIN), 0);
        assert_int_equal(write(ends[i][1], "x", 1), 1);
    }
    assert_int_equal(client_loop_turn(loop, 1000), 0);
    assert_int_equal(watches[0].count + watches[1].count, 1);
    client_watch_clear(loop, &watches[0].watch);
    client_watch_clear(loop, &watches[1].watch);
    client_loop_close(loop);
    for (int i = 0; i < 2; i++) {
        close(ends[i][0]);
        close(ends[i][1]);
    }
}

struct counted_flush {
    struct client_flush flush;
    struct client_loop *loop;
    unsigned count;
};

static void flush_again(struct client_flush *flush)
{
    struct counted_flush *counted = (struct counted_flush *)flush;
    counted->count++;
    client_flush_queue(counted->loop, flush);
}

static void a_flush_that_asks_again_does_not_hold_the_turn(void **state)
{
    (void)state;
    struct client_loop *loop;

    assert_int_equal(client_loop_open(&loop), 0);
    struct counted_flush counted = {.flush = {.run = flush_again}, .loop = loop};
    client_flush_queue(loop, &counted.flush);
    client_flush_queue(loop, &counted.flush);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(client_loop_turn(loop, -1), 0);
    }
    assert_int_equal(counted.count, 20);
    client_flush_clear(loop, &counted.flush);
    client_loop_close(loop);
}

static void ready_once(struct client_watch *watch, uint32_t events)
{
    (void)events;
    ((struct pipe_watch *)watch)->count++;
}

static void nothing(struct client_flush *flush)
{
    (void)flush;
}

/* A loop inside another's poll(2): what would end a turn that waits ends that. */
static void another_loop_can_wait_for_it(void **state)
{
    (void)state;
    struct client_loop *loop;
    struct client_flush flush = {.run = nothing};
    struct timed timed = {0};
    int ends[2];

    assert_int_equal(client_loop_open(&loop), 0);
    struct pollfd poll_fd = {.fd = client_loop_fd(loop), .events = POLLIN};
    assert_int_equal(client_loop_wait_ms(loop), -1);
    client_flush_queue(loop, &flush);
    assert_int_equal(client_loop_wait_ms(loop), 0);
    assert_int_equal(client_loop_turn(loop, 0), 0);

    last_due_ns = 0;
    assert_int_equal(client_timer_open(loop, &timed.timer, fired), 0);
    timed.loop = loop;
    timed.due_ns = client_loop_fresh_ns(loop) + 30 * MS;
    client_timer_set(loop, &timed.timer, timed.due_ns);
    assert_in_range(client_loop_wait_ms(loop), 0, 30);
    while (!timed.fired) {
        assert_int_equal(poll(&poll_fd, 1, client_loop_wait_ms(loop)), 0);
        assert_int_equal(client_loop_turn(loop, 0), 0);
    }
    assert_int_equal(client_loop_wait_ms(loop), -1);

    assert_int_equal(pipe(ends), 0);
    struct pipe_watch watch = {.watch = {.fd = ends[0], .ready = ready_once}, .loop = loop};
    assert_int_equal(client_watch_set(loop, &watch.watch, EPOLLIN), 0);
    assert_int_equal(poll(&poll_fd, 1, 0), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(poll(&poll_fd, 1, 1000), 1);
    assert_int_equal(client_loop_turn(loop, 0), 0);
    assert_int_equal(watch.count, 1);
    client_watch_clear(loop, &watch.watch);
    client_timer_close(loop, &timed.timer);
    client_loop_close(loop);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_order),
        cmocka_unit_test(a_watch_cleared_in_the_same_turn_is_not_called),
        cmocka_unit_test(a_flush_that_asks_again_does_not_hold_the_turn),
        cmocka_unit_test(another_loop_can_wait_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
