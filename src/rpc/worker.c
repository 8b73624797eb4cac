/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers and the monitor.
 *
 * Each loop is run by one worker. When a procedure blocks, the monitor sees the loop's `run` stand
 * still on an odd number for a tick, moves it on, which takes the loop away from that worker, and
 * gives the loop to a spare one. The blocked worker finishes its call and becomes a spare itself.
 *
 * The monitor sleeps while no procedure runs, so an idle server has no wake-ups. While taking over
 * has helped nobody for a while it looks less often: then the first to block holds up its
 * neighbours for a few milliseconds more. But a machine whose context switches are dear (a guest
 * without hardware help: a third of its processor time went here) is not made to switch a thousand
 * times a second, nor a lone client's loop handed over in the middle of each slow call.
 */
#include "rpc/internal.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define TICK_NS 1000000      /* a procedure that takes between one and two of these is blocked */
#define CALM_TICK_NS 5000000 /* the same, when it was of no use for CALM_TICK_COUNT ticks */
#define CALM_TICK_COUNT 256U
#define QUIET_TICK_COUNT_MAX 16U /* then the monitor goes to sleep */

static void wait_for_loop(struct worker *worker)
{
    struct rpc_server *server = worker->server;

    pthread_mutex_lock(&server->worker_lock);
    if (worker->loop == NULL) {
        worker->next_spare = server->spare;
        server->spare = worker;
    }
    while (worker->loop == NULL && !atomic_load(&server->stopping)) {
        pthread_cond_wait(&worker->wake, &server->worker_lock);
    }
    pthread_mutex_unlock(&server->worker_lock);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct rpc_server *server = worker->server;

    if (server->options.thread_begin != NULL) {
        server->options.thread_begin(server->options.arg);
    }
    for (;;) {
        wait_for_loop(worker);
        if (worker->loop == NULL) {
            return NULL; /* stopping */
        }
        bool finished = loop_run(worker->loop, worker);
        worker->loop = NULL;
        if (finished) {
            return NULL;
        }
        if (server->options.keep_promise != NULL) {
            server->options.keep_promise(server->options.arg); /* if it had made one */
        }
    }
}

static void worker_free(struct worker *worker)
{
    free(worker->memory);
    free(worker->reply_buffer);
    pthread_cond_destroy(&worker->wake);
    free(worker);
}

/* The worker lock is not held. loop NULL: the worker begins as a spare. */
int worker_start(struct rpc_server *server, struct loop *loop)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL) {
        return -ENOMEM;
    }
    pthread_cond_init(&worker->wake, NULL);
    worker->server = server;
    worker->loop = loop;
    worker->memory = aligned_alloc(64, WORKER_MEMORY_BYTES);
    worker->reply_buffer = aligned_alloc(64, REPLY_BUFFER_BYTES);
    int status = worker->memory == NULL || worker->reply_buffer == NULL
                     ? ENOMEM
                     : pthread_create(&worker->thread, NULL, worker_main, worker);
    if (status != 0) {
        worker_free(worker);
        return -status;
    }
    pthread_mutex_lock(&server->worker_lock);
    worker->next = server->workers;
    server->workers = worker;
    server->worker_count++;
    pthread_mutex_unlock(&server->worker_lock);
    return 0;
}

void worker_monitor_wake(struct rpc_server *server)
{
    pthread_mutex_lock(&server->worker_lock);
    bool asleep = atomic_exchange(&server->monitor_asleep, false);
    pthread_mutex_unlock(&server->worker_lock);
    if (asleep) {
        pthread_cond_signal(&server->monitor_wake);
    }
}

/* Takes the loop from its blocked worker, if that still is blocked and somebody can have it. */
static void take_over(struct rpc_server *server, struct loop *loop, uint64_t run)
{
    pthread_mutex_lock(&server->worker_lock);
    struct worker *worker = server->spare;
    bool start = worker == NULL && server->worker_count < server->options.thread_count_max;
    bool stopping = atomic_load(&server->stopping); /* spares may have left already */
    if (worker != NULL && !stopping && atomic_compare_exchange_strong(&loop->run, &run, run + 1)) {
        server->spare = worker->next_spare;
        worker->loop = loop;
        atomic_fetch_add(&server->takeovers, 1);
        pthread_cond_signal(&worker->wake);
    }
    pthread_mutex_unlock(&server->worker_lock);
    if (start && worker_start(server, NULL) != 0) {
        static struct log_limit limit;
        log_write_limited(&limit, LOG_WARNING, "no thread for a loop whose worker is blocked");
    }
}

/* One tick. False: nothing has moved and nothing runs. */
static bool look(struct rpc_server *server)
{
    bool busy = false;
    for (uint32_t i = 0; i < server->loop_count; i++) {
        struct loop *loop = &server->loops[i];
        uint64_t run = atomic_load(&loop->run);
        bool inside = (run & 1) != 0;
        busy = busy || inside || run != loop->run_seen;
        if (inside && run == loop->run_seen) {
            take_over(server, loop, run);
        }
        loop->run_seen = run;
    }
    return busy;
}

static void sleep_until_woken(struct rpc_server *server)
{
    atomic_store(&server->monitor_asleep, true);
    if (look(server)) {
        atomic_store(&server->monitor_asleep, false);
        return;
    }
    pthread_mutex_lock(&server->worker_lock);
    while (atomic_load(&server->monitor_asleep) && !atomic_load(&server->stopping)) {
        pthread_cond_wait(&server->monitor_wake, &server->worker_lock);
    }
    pthread_mutex_unlock(&server->worker_lock);
}

static void *monitor_main(void *arg)
{
    struct rpc_server *server = arg;
    uint32_t quiet = 0;
    uint32_t calm = 0;
    uint64_t of_use_seen = 0;

    while (!atomic_load(&server->stopping)) {
        quiet = look(server) ? 0 : quiet + 1;
        if (quiet > QUIET_TICK_COUNT_MAX) {
            sleep_until_woken(server);
            quiet = 0;
        }
        uint64_t of_use = atomic_load(&server->takeovers_of_use);
        calm = of_use != of_use_seen ? 0 : calm + 1;
        of_use_seen = of_use;
        long tick_ns = calm > CALM_TICK_COUNT ? CALM_TICK_NS : TICK_NS;
        (void)nanosleep(&(struct timespec){.tv_nsec = tick_ns}, NULL);
    }
    return NULL;
}

int worker_monitor_start(struct rpc_server *server)
{
    return -pthread_create(&server->monitor, NULL, monitor_main, server);
}

static void wake_all(struct rpc_server *server)
{
    pthread_mutex_lock(&server->worker_lock);
    pthread_cond_signal(&server->monitor_wake);
    for (struct worker *worker = server->workers; worker != NULL; worker = worker->next) {
        pthread_cond_signal(&worker->wake);
    }
    pthread_mutex_unlock(&server->worker_lock);
}

void worker_join_all(struct rpc_server *server)
{
    wake_all(server);
    pthread_join(server->monitor, NULL);
    /* The monitor may just have started one more: it waited before it was in the list. */
    wake_all(server);
    while (server->workers != NULL) {
        struct worker *worker = server->workers;
        server->workers = worker->next;
        pthread_join(worker->thread, NULL);
        worker_free(worker);
    }
}
