/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host here is an address, a program, a version and a transport.
 *
 *     RESTING --a call--> ASKING --port--> READY --nothing to do, for long--> RESTING, forgotten
 *                            \--no port--+    \--no answer--+
 *                                        v                  v
 *                                       PAUSING, longer each time --> ASKING
 *
 * Callbacks of the client library only note what happened (a socket may not be closed from within
 * its own callback); the hosts that something happened to are in `busy`, and are looked at between
 * two turns of the loop.
 */
#include "callback/sender.h"

#include "client/loop.h"
#include "client/pmap.h"
#include "client/rpc.h"
#include "proto/pmap.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define NS_PER_MS 1000000LL
#define ASK_TIMEO_MS 1000U
#define CALL_TIMEO_MS 1000U
#define CALL_TCP_TIMEO_MS 5000U
#define CALL_WINDOW 64U

struct job {
    struct job *next;
    struct rpc_outcall call;
    struct host *host;
    int64_t give_up_ns; /* INT64_MAX: never */
    uint32_t transmissions;
    struct rpc_outcall_end end; /* of the last try */
    bool may_try_again;
};

struct job_list {
    struct job *first;
    struct job **end;
};

enum host_state { HOST_RESTING, HOST_ASKING, HOST_READY, HOST_PAUSING };

struct host {
    struct host *next;
    struct host *busy_next;
    bool is_busy;
    struct sender *sender;
    struct sockaddr_storage to, from;
    bool wants_tcp; /* what was asked for */
    bool is_tcp;    /* what is used */
    uint32_t prog, vers;
    enum host_state state;
    struct client_pmap_question question;
    uint32_t pmap_vers; /* 0: the first to try */
    bool pmap_tcp;
    int answer; /* of the portmapper; 1: none yet */
    uint16_t port;
    struct client_rpc *rpc; /* ASKING: the portmapper's; READY: the program's */
    struct job_list waiting;
    uint32_t called_count; /* in rpc's hands */
    bool failed;           /* a call was not answered */
    int64_t pause_ns;
    int64_t idle_ns; /* since when */
    struct client_timer timer;
};

struct sender {
    pthread_mutex_t lock;
    struct job_list incoming;
    uint32_t job_count;
    bool stopping;
    /* The thread's own. */
    struct client_loop *loop;
    struct client_watch wake;
    struct host *hosts;
    uint32_t host_count;
    struct host *busy;
    pthread_t thread;
    bool has_thread;
};

/* ---- lists ---- */

static void list_init(struct job_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

static void list_append(struct job_list *list, struct job *job)
{
    job->next = NULL;
    *list->end = job;
    list->end = &job->next;
}

static struct job *list_take(struct job_list *list)
{
    struct job *job = list->first;
    if (job != NULL) {
        list->first = job->next;
        if (list->first == NULL) {
            list->end = &list->first;
        }
    }
    return job;
}

static void job_end(struct sender *sender, struct job *job, int error)
{
    if (error != 0) {
        job->end = (struct rpc_outcall_end){.error = error};
    }
    job->end.transmissions = job->transmissions;
    job->call.ended(job->call.owner, &job->end);
    free(job);
    pthread_mutex_lock(&sender->lock);
    sender->job_count--;
    pthread_mutex_unlock(&sender->lock);
}

static void mark_busy(struct host *host)
{
    if (!host->is_busy) {
        host->is_busy = true;
        host->busy_next = host->sender->busy;
        host->sender->busy = host;
    }
}

/* ---- hosts ---- */

static socklen_t address_bytes(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

static in_port_t *port_of(struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)(void *)address)->sin6_port
                                          : &((struct sockaddr_in *)(void *)address)->sin_port;
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    return a->ss_family == b->ss_family &&
           (a->ss_family == AF_UNSPEC || memcmp(a, b, address_bytes(a)) == 0);
}

static struct host *find_host(const struct sender *sender, const struct rpc_outcall *call)
{
    struct host *host = sender->hosts;
    while (host != NULL &&
           (host->prog != call->prog || host->vers != call->vers ||
            host->wants_tcp != call->is_tcp || !same_address(&host->to, &call->to) ||
            !same_address(&host->from, &call->from))) {
        host = host->next;
    }
    return host;
}

static void timer_expired(struct client_timer *timer)
{
    mark_busy(CONTAINER_OF(timer, struct host, timer));
}

static void close_rpc(struct host *host)
{
    client_rpc_close(host->rpc);
    host->rpc = NULL;
}

static void host_free(struct sender *sender, struct host *host)
{
    struct host **at = &sender->hosts;
    while (*at != host) {
        at = &(*at)->next;
    }
    *at = host->next;
    close_rpc(host);
    for (struct host **busy = &sender->busy; host->is_busy; busy = &(*busy)->busy_next) {
        if (*busy == host) {
            *busy = host->busy_next;
            break;
        }
    }
    client_timer_close(sender->loop, &host->timer);
    sender->host_count--;
    free(host);
}

/* One that nobody needs at the moment. */
static bool make_room(struct sender *sender)
{
    for (struct host *host = sender->hosts; host != NULL; host = host->next) {
        if (host->waiting.first == NULL && host->called_count == 0) {
            host_free(sender, host);
            return true;
        }
    }
    return false;
}

static struct host *obtain_host(struct sender *sender, const struct rpc_outcall *call)
{
    struct host *host = find_host(sender, call);
    if (host != NULL) {
        return host;
    }
    if (sender->host_count >= SENDER_HOST_COUNT_MAX && !make_room(sender)) {
        return NULL;
    }
    host = calloc(1, sizeof *host);
    if (host == NULL) {
        return NULL;
    }
    if (client_timer_open(sender->loop, &host->timer, timer_expired) != 0) {
        free(host);
        return NULL;
    }
    host->sender = sender;
    host->to = call->to;
    host->from = call->from;
    host->wants_tcp = host->is_tcp = call->is_tcp;
    host->prog = call->prog;
    host->vers = call->vers;
    list_init(&host->waiting);
    host->next = sender->hosts;
    sender->hosts = host;
    sender->host_count++;
    return host;
}

/* ---- calling ---- */

static int open_rpc(struct host *host, uint32_t prog, uint32_t vers, bool tcp, uint16_t port)
{
    struct sockaddr_storage to = host->to;
    *port_of(&to) = htons(port);
    const struct client_rpc_options options = {
        .loop = host->sender->loop,
        .address = (const struct sockaddr *)&to,
        .address_bytes = address_bytes(&to),
        .source =
            host->from.ss_family == to.ss_family ? (const struct sockaddr *)&host->from : NULL,
        .prog = prog,
        .vers = vers,
        .tcp = tcp,
        .insecure = true,
        .soft = true,
        .fail_before_contact = true,
        .timeo_ms = prog == PMAP_PROG ? ASK_TIMEO_MS
                    : tcp             ? CALL_TCP_TIMEO_MS
                                      : CALL_TIMEO_MS,
        .retrans = tcp ? 1 : 3,
        .udp_window = CALL_WINDOW,
    };
    return client_rpc_open(&options, &host->rpc, NULL);
}

static void asked(void *owner, const struct client_reply *reply)
{
    struct host *host = owner;
    host->answer = reply->error == 0 ? client_pmap_answer(&host->question, reply->res, &host->port)
                                     : reply->error;
    if (reply->fault == CLIENT_FAULT_PROG_MISMATCH && host->to.ss_family == AF_INET6) {
        host->pmap_vers = host->pmap_vers == 0 ? RPCBVERS : 0;
    }
    mark_busy(host);
}

static void ask(struct host *host)
{
    client_pmap_ask(host->to.ss_family, host->is_tcp, host->pmap_vers, host->prog, host->vers,
                    &host->question);
    host->state = HOST_ASKING;
    host->answer = 1;
    int error = open_rpc(host, PMAP_PROG, host->question.vers, host->pmap_tcp, PMAP_PORT);
    if (error == 0) {
        error = client_rpc_call(host->rpc, host->question.proc, &host->question.args, asked, host);
    }
    if (error != 0) {
        host->answer = error;
        mark_busy(host);
    }
}

/* A try is over. What comes next is decided between the turns. */
static void called(void *owner, const struct client_reply *reply)
{
    struct job *job = owner;
    struct host *host = job->host;
    host->called_count--;
    job->transmissions += reply->transmissions;
    job->end.error = reply->error;
    job->end.res = reply->res;
    job->may_try_again = !job->call.once && (reply->fault == CLIENT_FAULT_TRANSPORT ||
                                             reply->fault == CLIENT_FAULT_PROG_UNAVAIL ||
                                             reply->fault == CLIENT_FAULT_PROG_MISMATCH);
    mark_busy(host);
    if (job->may_try_again) {
        host->failed = true;
        list_append(&host->waiting, job);
    } else {
        host->pause_ns = reply->error == 0 ? 0 : host->pause_ns;
        job_end(host->sender, job, 0);
    }
}

static void call_all(struct host *host)
{
    struct sender *sender = host->sender;
    struct job_list jobs = host->waiting;
    struct job *job;
    if (jobs.first == NULL) {
        return;
    }
    list_init(&host->waiting);
    while ((job = list_take(&jobs)) != NULL) {
        const struct rpc_outcall *call = &job->call;
        if (call->wanted != NULL && !call->wanted(call->owner)) {
            job_end(sender, job, -ECANCELED);
            continue;
        }
        host->called_count++;
        int error = call->procedure != NULL
                        ? client_rpc_call_as(host->rpc, call->procedure, call->proc, call->args,
                                             called, job)
                        : client_rpc_call(host->rpc, call->proc, call->args, called, job);
        if (error != 0) {
            host->called_count--;
            job_end(sender, job, error);
        }
    }
}

/* ---- between the turns ---- */

/* Those that are not wanted any more, or have been tried for long enough. */
static void weed(struct host *host, int64_t now_ns)
{
    struct job_list kept;
    struct job *job;
    list_init(&kept);
    while ((job = list_take(&host->waiting)) != NULL) {
        if (job->call.wanted != NULL && !job->call.wanted(job->call.owner)) {
            job_end(host->sender, job, -ECANCELED);
        } else if (now_ns >= job->give_up_ns || (job->call.once && host->state == HOST_PAUSING)) {
            job_end(host->sender, job, -ETIMEDOUT);
        } else {
            list_append(&kept, job);
        }
    }
    host->waiting = kept;
    if (kept.first == NULL) {
        host->waiting.end = &host->waiting.first;
    }
}

static void pause_host(struct host *host, int64_t now_ns)
{
    int64_t pause_ns = host->pause_ns * 2;
    pause_ns =
        pause_ns < SENDER_PAUSE_MS_MIN * NS_PER_MS ? SENDER_PAUSE_MS_MIN * NS_PER_MS : pause_ns;
    host->pause_ns =
        pause_ns > SENDER_PAUSE_MS_MAX * NS_PER_MS ? SENDER_PAUSE_MS_MAX * NS_PER_MS : pause_ns;
    close_rpc(host);
    host->failed = false;
    host->state = HOST_PAUSING;
    weed(host, now_ns);
    client_timer_set(host->sender->loop, &host->timer, now_ns + host->pause_ns);
}

static void look_asking(struct host *host, int64_t now_ns)
{
    int answer = host->answer;
    if (answer == 1) {
        return;
    }
    close_rpc(host);
    if (answer == 0) {
        answer = open_rpc(host, host->prog, host->vers, host->is_tcp, host->port);
    }
    if (answer == 0) {
        host->state = HOST_READY;
        return;
    }
    if (answer == -ENOENT && host->wants_tcp) {
        host->is_tcp = !host->is_tcp; /* the next question is about the other transport */
    } else {
        host->pmap_tcp = !host->pmap_tcp;
    }
    if (answer == -ENOENT && !host->is_tcp && host->wants_tcp) {
        ask(host); /* at once, this first time */
        return;
    }
    pause_host(host, now_ns);
}

/* Returns false when the host has been forgotten. */
static bool look_idle(struct host *host, int64_t now_ns)
{
    struct sender *sender = host->sender;
    if (host->waiting.first != NULL || host->called_count > 0) {
        host->idle_ns = 0;
        return true;
    }
    if (host->idle_ns == 0) {
        host->idle_ns = now_ns;
    }
    if (now_ns - host->idle_ns >= SENDER_IDLE_MS_MAX * NS_PER_MS) {
        host_free(sender, host);
        return false;
    }
    client_timer_set(sender->loop, &host->timer, host->idle_ns + SENDER_IDLE_MS_MAX * NS_PER_MS);
    return true;
}

static void look(struct host *host, int64_t now_ns)
{
    if (host->state == HOST_PAUSING && host->timer.place == 0) {
        host->state = HOST_RESTING;
        weed(host, now_ns);
    }
    if (host->state == HOST_RESTING && host->waiting.first != NULL) {
        ask(host);
    }
    if (host->state == HOST_ASKING) {
        look_asking(host, now_ns);
    }
    if (host->state == HOST_READY) {
        if (host->failed) {
            pause_host(host, now_ns);
            return;
        }
        call_all(host);
    }
    if (host->state == HOST_READY || host->state == HOST_RESTING) {
        (void)look_idle(host, now_ns);
    }
}

static void look_at_busy(struct sender *sender)
{
    while (sender->busy != NULL) {
        struct host *host = sender->busy;
        sender->busy = host->busy_next;
        host->is_busy = false;
        look(host, client_loop_fresh_ns(sender->loop));
    }
}

static void woken(struct client_watch *watch, uint32_t events)
{
    uint64_t count;
    (void)events;
    ssize_t got = read(watch->fd, &count, sizeof count);
    (void)got; /* nothing there: somebody was faster */
}

/* Returns false when it is to stop. */
static bool take_incoming(struct sender *sender)
{
    struct job *job;
    pthread_mutex_lock(&sender->lock);
    struct job_list jobs = sender->incoming;
    if (jobs.first == NULL) {
        jobs.end = &jobs.first;
    }
    list_init(&sender->incoming);
    bool stopping = sender->stopping;
    pthread_mutex_unlock(&sender->lock);
    while ((job = list_take(&jobs)) != NULL) {
        struct host *host = obtain_host(sender, &job->call);
        if (host == NULL) {
            job_end(sender, job, -EAGAIN);
            continue;
        }
        job->host = host;
        job->give_up_ns = job->call.give_up_ms == 0 ? INT64_MAX
                                                    : client_loop_fresh_ns(sender->loop) +
                                                          job->call.give_up_ms * NS_PER_MS;
        list_append(&host->waiting, job);
        mark_busy(host);
    }
    return !stopping;
}

static void *sender_main(void *arg)
{
    struct sender *sender = arg;
    while (take_incoming(sender)) {
        look_at_busy(sender);
        int error = client_loop_turn(sender->loop, sender->busy != NULL ? 0 : -1);
        CHECK_OP(error, ==, 0); /* epoll on descriptors of our own */
    }
    while (sender->hosts != NULL) {
        struct host *host = sender->hosts;
        struct job *job;
        close_rpc(host); /* its calls go back to `waiting` */
        while ((job = list_take(&host->waiting)) != NULL) {
            job_end(sender, job, -ECANCELED);
        }
        host_free(sender, host);
    }
    return NULL;
}

/* ---- the contract ---- */

static int submit(void *arg, const struct rpc_outcall *call)
{
    struct sender *sender = arg;
    const uint64_t one = 1;
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return -ENOMEM;
    }
    job->call = *call;
    pthread_mutex_lock(&sender->lock);
    bool taken = !sender->stopping && sender->job_count < SENDER_CALL_COUNT_MAX;
    if (taken) {
        list_append(&sender->incoming, job);
        sender->job_count++;
    }
    pthread_mutex_unlock(&sender->lock);
    if (!taken) {
        free(job);
        return -EAGAIN;
    }
    ssize_t put = write(sender->wake.fd, &one, sizeof one);
    (void)put; /* full: it is awake */
    return 0;
}

struct rpc_outcaller sender_outcaller(struct sender *sender)
{
    return (struct rpc_outcaller){.submit = submit, .arg = sender};
}

int sender_open(struct sender **opened, struct err *err)
{
    struct sender *sender = calloc(1, sizeof *sender);
    if (sender == NULL) {
        return err_set(err, -ENOMEM, "out of memory");
    }
    pthread_mutex_init(&sender->lock, NULL);
    list_init(&sender->incoming);
    sender->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sender->wake.ready = woken;
    int error = sender->wake.fd < 0 ? -errno : client_loop_open(&sender->loop);
    if (error == 0) {
        error = client_watch_set(sender->loop, &sender->wake, EPOLLIN);
    }
    if (error == 0) {
        error = -pthread_create(&sender->thread, NULL, sender_main, sender);
        sender->has_thread = error == 0;
    }
    if (error != 0) {
        sender_close(sender);
        return err_set(err, error, "cannot start the thread that calls clients: %s",
                       strerror(-error));
    }
    *opened = sender;
    return 0;
}

void sender_close(struct sender *sender)
{
    const uint64_t one = 1;
    struct job *job;
    if (sender == NULL) {
        return;
    }
    pthread_mutex_lock(&sender->lock);
    sender->stopping = true;
    pthread_mutex_unlock(&sender->lock);
    if (sender->has_thread) {
        ssize_t put = write(sender->wake.fd, &one, sizeof one);
        (void)put;
        pthread_join(sender->thread, NULL);
    }
    while ((job = list_take(&sender->incoming)) != NULL) {
        job_end(sender, job, -ECANCELED);
    }
    if (sender->loop != NULL) {
        client_watch_clear(sender->loop, &sender->wake);
    }
    client_loop_close(sender->loop);
    if (sender->wake.fd >= 0) {
        close(sender->wake.fd);
    }
    pthread_mutex_destroy(&sender->lock);
    free(sender);
}
