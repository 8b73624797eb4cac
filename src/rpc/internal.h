/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of rpc/ share: how a call travels.
 *
 *     socket -> loop -> task (decode, run, encode on this thread) -> socket
 *                         |            \-> park (waits for an lsn) -> loop -> socket
 *                         |  the monitor finds the procedure blocked: the loop goes to another
 *                         v  worker, and the task's reply comes back through the loop's inbox
 *                       inbox -> loop -> socket
 *
 * Ownership:
 * 1. A loop, its sources (connections, UDP sockets) and everything reachable from them belong to
 * the one worker that runs the loop. Nothing of it is locked.
 * 2. While a worker is inside a procedure, or makes changes durable (loop->run is odd), the monitor
 *    may take the loop away by moving `run` on. The worker finds out when it comes back, touches
 *    the loop no more, and hands its reply to the inbox. So all of its state must be in the loop
 *    before it goes inside.
 * 3. The buffer a call lies in is counted: the source holds one reference, the task another.
 * 4. A connection that is closed lives on until the last pending reply for it has come back.
 */
#ifndef RPC_INTERNAL_H
#define RPC_INTERNAL_H

#include "rpc/drc.h"
#include "rpc/out.h"
#include "rpc/record.h"
#include "rpc/server.h"
#include "rpc/tally.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#define LOOP_EVENT_COUNT 64
#define TURN_CALL_COUNT_MAX 64U            /* calls of one connection before its neighbours' turn */
#define TURN_RECEIVE_COUNT_MAX 2U          /* receives, likewise */
#define TURN_REPLY_BYTES_MAX (256U * 1024) /* replies, likewise, */
#define TURN_NS_MAX 2000000                /* and time */
#define TX_BYTES (256U * 1024)            /* replies of one turn, sent together */
#define CONN_QUEUE_BYTES_MAX (8U << 20)   /* unsent replies; more, and the client is not read */
#define ALL_QUEUES_BYTES_MAX (256U << 20) /* of all connections; more, and each has less: */
#define CONN_QUEUE_BYTES_LESS (256U * 1024)
/* What a socket takes beyond its client's window. With less, 1 MiB goes out in more pieces, at half
 * as much CPU again; without a bound the kernel holds 4 MiB for a client that reads nothing. */
#define SOCKET_UNSENT_BYTES_MAX (1 << 20)
#define HALF_BYTES_MAX (128U << 20) /* of calls that have not arrived whole, see budget.c */
#define RECORD_MS_MAX 30000 /* a call that began to arrive must go on arriving */
#define REAP_MS_MAX 10000   /* how often that is looked at */
#define RX_SMALL_BYTES (64U * 1024)
#define RX_SPARE_COUNT_MAX 32U
#define REPLY_BUFFER_BYTES (256U * 1024)
#define WORKER_MEMORY_BYTES (RPC_CALL_MEMORY_MAX + 64U * 1024) /* arguments and results too */
#define TAIL_DEFER_BYTES 16384U /* opaque data of this size is sent from where it lies */
#define UDP_BATCH_COUNT 16U
#define UDP_BYTES_MAX 65535U
#define SETTLED_FAILURE_COUNT 16U
#define BLOCKED_SLOT_COUNT 256U
#define CONN_SLOT_COUNT 4096U

struct rxbuf {
    atomic_uint references;
    uint32_t capacity;
    struct rxbuf *next;
    uint8_t bytes[];
};

enum source_kind { SOURCE_WAKE, SOURCE_LISTENER, SOURCE_CONN, SOURCE_UDP };

/* Something a loop polls. */
struct source {
    enum source_kind kind;
    int fd;
    bool queued; /* in the loop's ready list */
    struct source *ready_next;
};

/* What a socket serves. */
struct service {
    const struct rpc_program **programs;
    size_t program_count;
};

struct listener {
    struct source source;
    struct service service;
    struct listener *next;
    uint16_t port;
    bool is_local;
    char *unlink_path;
    int64_t paused_until_ms; /* out of descriptors or over the limit; 0: listening */
};

struct udp_from {
    struct rpc_peer peer;
    socklen_t address_bytes;         /* of address */
    struct sockaddr_storage address; /* as received, to be used for the reply */
    _Alignas(struct cmsghdr)
        uint8_t control[64]; /* the packet info of the reply: leave from where we were asked */
    size_t control_bytes;
};

struct udp {
    struct source source;
    struct service service;
    struct udp *next;
    uint16_t port;
    uint32_t index, count; /* datagrams received and not yet run */
    struct rxbuf *buffers[UDP_BATCH_COUNT];
    uint32_t sizes[UDP_BATCH_COUNT];
    struct udp_from from[UDP_BATCH_COUNT];
    uint64_t batch;
    uint64_t event;   /* as in struct conn */
    uint64_t arrived;
};

struct conn {
    struct source source;
    const struct listener *listener;
    struct rpc_peer peer;
    struct conn *older, *newer; /* the loop's list, by activity */
    int64_t active_ms;
    uint64_t batch;
    struct rxbuf *rx; /* NULL while there is nothing in it */
    uint32_t rx_start, rx_end;
    struct record record;
    bool large;   /* its calls lately needed a large buffer */
    bool known;   /* see budget.c, also for the next five */
    int64_t known_until_ms;
    uint32_t half_charge;
    uint32_t half_waits_for; /* bytes; 0: does not wait */
    int64_t half_since_ms;
    struct conn *wait_next;
    bool drained; /* the last receive emptied the socket */
    bool closed;
    bool spoke; /* has sent a whole call once */
    bool eof;   /* sends no more; closed when its last reply is gone */
    bool more;  /* its last turn left whole calls behind, maybe */
    bool held;  /* not read: see share.c */
    uint32_t conn_slot; /* who it is counted for */
    uint32_t epoll_events;
    uint32_t pending_count; /* replies that wait elsewhere */
    struct out *queue_head, *queue_tail;
    uint64_t queue_bytes;
    uint64_t stream_bytes; /* of replies since the connection began, sent or queued */
    uint64_t sent_bytes;
    struct drc_origin *origin;
    struct tally_client *client; /* a use of it */
    struct tally_unsent unsent;
    uint64_t event;   /* ticks: when the loop was told of bytes; 0: they have been received */
    uint64_t arrived; /* ticks: when what lies in the buffer had */
};

/* Where a reply goes. */
struct dest {
    struct conn *conn; /* or */
    struct udp *udp;
    const struct udp_from *from; /* the task's, or at the end of struct pending */
};

/* A reply that could not be sent when it was made. */
struct pending {
    struct pending *next;
    struct dest dest;
    struct drc_entry *entry;
    const struct rpc_procedure *procedure;
    uint32_t xid;
    uint64_t lsn;    /* 0: waits for nothing */
    int error;       /* the lsn failed */
    bool lost;       /* comes from a task that lost the loop */
    bool was_parked;
    struct sample sample;
    struct out *out; /* NULL: no reply after all */
    struct udp_from from;
};

/* A call on the thread that runs it. */
struct task {
    struct rpc_call call;
    struct worker *worker;
    struct dest dest;
    struct udp_from from;
    struct rpc_peer peer;
    struct rxbuf *rx;
    struct drc_entry *entry;
    struct sample sample;
    bool lost; /* the loop is somebody else's now */
};

struct worker {
    struct rpc_server *server;
    struct worker *next; /* all of them */
    struct worker *next_spare;
    struct loop *loop;
    pthread_t thread;
    pthread_cond_t wake;
    uint8_t *memory; /* call memory, RPC_CALL_MEMORY_MAX and what args and res take */
    uint32_t memory_used;
    uint8_t *reply_buffer;
    struct task task;
};

struct loop_stats {
    _Atomic uint64_t calls, replies, bytes_in, bytes_out;
    _Atomic uint64_t garbage, refused_auth, cache_hits, cache_dropped, parked, held_back;
};

/* Linked by next. */
struct pending_line {
    struct pending *head, *tail;
};

struct loop {
    struct rpc_server *server;
    uint32_t index;
    int epoll_fd;
    struct source wake;
    _Atomic uint64_t run; /* odd: inside what may block */
    uint64_t run_seen;    /* the monitor's */

    struct epoll_event events[LOOP_EVENT_COUNT];
    int event_index, event_count;
    struct source *ready_head, *ready_tail;
    struct source *turn; /* whose turn it is */
    uint8_t *tx;         /* replies of the turn's connection */
    uint8_t *out_room;   /* for out_send; no procedure runs meanwhile, so it is never lost to one */
    uint32_t tx_used;
    struct conn *oldest, *newest;
    struct conn *dead; /* closed, waiting for their pendings; linked by newer */
    struct conn *waiting_head, *waiting_tail; /* for room in a buffer; by wait_next */
    struct rxbuf *spare_small;
    uint32_t spare_small_count;
    int64_t now_ms; /* as of `timed`, in ticks */
    uint64_t timed;
    int64_t reap_ms;
    int64_t share_ms; /* share_looks: not before */
    uint64_t woke;  /* ticks: when it was last told of events */
    uint64_t stamp; /* ticks: read lately; a call begins where the one before has ended */
    uint64_t wait_calls; /* calls counted when it last waited, see wait_events */
    const void *lone;    /* what that wait followed on, if it was one call alone; never followed */
    const void *only;    /* the connection that alone was ready then; never followed */
    bool promised;       /* its worker makes changes durable itself, see rpc_server_options */
    uint64_t promised_from; /* calls counted before */
    bool wait_short;
    struct sample samples[TURN_CALL_COUNT_MAX]; /* calls of the turn's connection */
    uint32_t sample_count;
    struct tally tally;

    pthread_mutex_t inbox_lock;
    bool woken;
    struct pending *done_head, *done_tail; /* replies of tasks that lost the loop; released ones */
    struct conn *accepted;                 /* linked by newer */
    pthread_mutex_t park_lock;
    struct pending_line parked[RPC_LANE_COUNT]; /* by lsn */
    atomic_uint parked_count;
    uint32_t lost_count; /* tasks that lost this loop and have not come back */
    uint64_t taken_calls; /* calls counted when the last of them lost it */
    uint32_t held_count; /* connections that are held */

    atomic_uint conn_count;
    struct loop_stats stats;
};

/* Written by the loop's owner alone, read by anybody. */
static inline void loop_count(_Atomic uint64_t *counter, uint64_t more)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + more, memory_order_relaxed);
}

/* Its worker may block from here on, and lose the loop. What it needs must be in the loop. */
uint64_t loop_enter(struct loop *loop);
/* With what loop_enter gave. False: the loop is another worker's. */
bool loop_leave(struct loop *loop, uint64_t run);

static inline uint64_t counter_of(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

struct failure {
    uint64_t from, to; /* (from, to] */
    int error;
};

struct rpc_server {
    struct rpc_server_options options;
    struct drc *drc;
    uint32_t loop_count;
    uint32_t spin_count_max; /* loops that may look for events without sleeping, and that do */
    atomic_uint spinning;
    struct loop *loops;
    struct listener *listeners;
    struct udp *udps;
    _Atomic uint64_t batch;
    atomic_uint conn_count;
    _Atomic int64_t queued_bytes; /* unsent replies of all connections */
    _Atomic int64_t half_bytes[2]; /* small buffers and large ones, see budget.c */
    atomic_int half_wanted;        /* 1 + the rank of who waits for large ones; 0: nobody */
    atomic_uint blocked_count;     /* calls that lost their loop, see share.c, and by client */
    atomic_uint blocked_by[BLOCKED_SLOT_COUNT];
    atomic_uint conns_by[CONN_SLOT_COUNT]; /* connections, by client, see share.c */
    uint64_t share_key;                    /* so that nobody can choose whom to share with */
    atomic_uint reap_slot;        /* 1 + whose oldest quiet one is to go; 0: nobody's */
    _Atomic int64_t reap_slot_ms; /* when that was wanted */
    atomic_bool reap;             /* somebody needs a descriptor */
    struct tally_room tally_room;

    _Atomic uint64_t settled[RPC_LANE_COUNT]; /* never below the lane's first number */
    pthread_mutex_t settled_lock;
    struct failure failures[SETTLED_FAILURE_COUNT];
    uint32_t failure_next;

    pthread_mutex_t worker_lock;
    struct worker *workers, *spare;
    uint32_t worker_count;
    pthread_t monitor;
    pthread_cond_t monitor_wake;
    atomic_bool monitor_asleep;
    bool running;
    atomic_bool stopping;
    atomic_uint_fast64_t takeovers;
    atomic_uint_fast64_t takeovers_of_use; /* a neighbour's call ran before the blocked one ended */

    pthread_mutex_t large_lock;
    struct rxbuf *spare_large;
    uint32_t spare_large_count;
    uint32_t large_bytes;
};

/* rxbuf.c */
struct rxbuf *rxbuf_small(struct loop *loop);
struct rxbuf *rxbuf_large(struct rpc_server *server);
void rxbuf_get(struct rxbuf *rx);
/* loop NULL: the caller does not own one. */
void rxbuf_put(struct rpc_server *server, struct loop *loop, struct rxbuf *rx);
void rxbuf_free_spares(struct rpc_server *server);

/* budget.c */
/* Charges a connection for a buffer of so many bytes, instead of what it was charged for. May close
 * others. False: there is no room now. */
bool budget_take(struct loop *loop, struct conn *conn, uint32_t bytes);
void budget_give(struct loop *loop, struct conn *conn);
/* conn_resume when there is room; not to be polled until then. */
void budget_wait(struct loop *loop, struct conn *conn, uint32_t bytes);
void budget_forget(struct loop *loop, struct conn *conn);
void budget_retry(struct loop *loop);

/* share.c */
/* A call of that client has lost its loop; it has come back. */
void share_take(struct rpc_server *server, const struct rpc_peer *peer);
void share_give(struct rpc_server *server, const struct rpc_peer *peer);
/* Whether another blocked call of that client would be too many. */
bool share_is_used_up(struct rpc_server *server, const struct rpc_peer *peer);
/* True: the connection is not to be read now; conn_resume when it is again. */
bool share_hold(struct loop *loop, struct conn *conn);
void share_forget(struct loop *loop, struct conn *conn);
void share_retry(struct loop *loop);
/* Whether a client at that address may have one more connection; if not, its oldest quiet one is to
 * go. How many it has, or whoever shares its slot. Any thread. */
bool share_has_room(struct rpc_server *server, const struct sockaddr_storage *address);
uint32_t share_of(const struct rpc_server *server, const struct sockaddr_storage *address);
/* Whether the loop is to look for that one now: not all the time, and not for ever. */
bool share_looks(struct loop *loop);
/* The connection is new: it counts until conn_close. */
void share_count(struct rpc_server *server, struct conn *conn);
/* Whether this one may be the one to go; it has gone. */
bool share_wants(const struct rpc_server *server, const struct conn *conn);
void share_gave(struct rpc_server *server, const struct conn *conn);

/* loop.c */
int loop_open(struct rpc_server *server, uint32_t index, struct loop *loop);
void loop_close(struct loop *loop);
/* Runs until the server stops (true) or the loop is lost (false). */
bool loop_run(struct loop *loop, struct worker *worker);
void loop_ready(struct loop *loop, struct source *source);
int loop_poll(struct loop *loop, struct source *source, uint32_t events, bool add);
void loop_wake(struct loop *loop);
void loop_post(struct loop *loop, struct pending *pending);
int64_t loop_clock_ms(void);
uint64_t loop_stamp(struct loop *loop);
/* The reply of a pending that has come back. */
void loop_deliver(struct loop *loop, struct worker *worker, struct pending *pending);

/* tcp.c */
void conn_accept(struct loop *loop, struct listener *listener);
void conn_begin(struct loop *loop, struct conn *conn);
void conn_event(struct loop *loop, struct conn *conn, uint32_t events);
/* False: the loop is lost. */
bool conn_turn(struct loop *loop, struct worker *worker, struct conn *conn);
void conn_flush(struct loop *loop, struct conn *conn);
void conn_reply(struct loop *loop, struct conn *conn, struct reply *reply);
void conn_queue(struct loop *loop, struct conn *conn, struct out *out);
void conn_close(struct loop *loop, struct conn *conn);
/* A client that sends no more is let go when its last reply is gone. */
void conn_close_if_done(struct loop *loop, struct conn *conn);
void conn_free(struct loop *loop, struct conn *conn);
/* Before going on with a loop taken from a blocked worker: its buffer is in use. */
void conn_orphan(struct loop *loop, struct conn *conn);
void conn_reap(struct loop *loop);
/* It was given the room that it waited for. */
void conn_resume(struct loop *loop, struct conn *conn);

/* tally_conn.c */
/* Under which client the connection counts. Who is one of the others may have a place later. */
void tally_conn_find(struct loop *loop, struct conn *conn);
/* Counts a call of the turn when its reply has gone out: reply_bytes that conn_reply gets next. */
void tally_conn_sample(struct loop *loop, struct conn *conn, struct sample *sample,
                       uint64_t reply_bytes);
/* Counts a call outside a turn, whose reply conn_queue or conn_reply was just given, or that has
 * none. */
void tally_conn_add(struct loop *loop, struct conn *conn, struct sample *sample, bool has_reply);
/* Something was sent: calls of the turn whose replies have gone out are counted. When it ends the
 * others wait. */
void tally_conn_sent(struct loop *loop, struct conn *conn, bool turn_ends);
/* The same for those that waited. */
void tally_conn_drained(struct loop *loop, struct conn *conn);
/* What was not sent never will be. */
void tally_conn_closed(struct loop *loop, struct conn *conn);

/* udp.c */
void udp_event(struct loop *loop, struct udp *udp);
bool udp_turn(struct loop *loop, struct worker *worker, struct udp *udp);
void udp_reply(struct udp *udp, const struct udp_from *from, struct reply *reply,
               struct worker *worker);
void udp_send(struct udp *udp, const struct udp_from *from, const struct out *out);
/* Counts a call whose reply was sent just now, or that has none. */
void udp_tally(struct loop *loop, const struct rpc_peer *peer, const struct sample *sample,
               bool has_reply);
void udp_close(struct udp *udp);

/* dispatch.c */
/* Runs one call that lies in rx. False: the loop is lost. */
bool dispatch(struct loop *loop, struct worker *worker, const struct service *service,
              const struct dest *dest, const struct rpc_peer *peer, struct rxbuf *rx,
              const uint8_t *message, uint32_t message_bytes, uint64_t batch);
/* Encodes the failure of a reply whose lsn was lost. */
void dispatch_failure(struct worker *worker, const struct pending *pending, struct reply *reply);

/* pending_new takes over what the reply owns; NULL: no memory, the reply is dropped. reply NULL:
 * the task ends without one. */
struct pending *pending_new(const struct task *task, struct reply *reply);

/* park.c */
void park_init(struct rpc_server *server);
/* Whether an lsn has not yet met its end. */
bool park_waits(const struct rpc_server *server, uint64_t lsn);
/* True: parked. False: already settled, *error says how. */
bool park(struct loop *loop, struct pending *pending, int *error);
/* How a settled lsn ended: 0 or -errno. */
int park_error(struct rpc_server *server, uint64_t lsn);

/* worker.c */
int worker_start(struct rpc_server *server, struct loop *loop);
int worker_monitor_start(struct rpc_server *server);
void worker_join_all(struct rpc_server *server);
void worker_monitor_wake(struct rpc_server *server);

/* peer.c */
void peer_set(struct rpc_peer *peer, const struct sockaddr_storage *address, bool is_tcp);
/* The address the call was sent to. */
void peer_set_local(struct rpc_peer *peer, const struct sockaddr *address);
const char *peer_text(const struct rpc_peer *peer, char text[64]);

#endif
