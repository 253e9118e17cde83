// Divides the time that a server takes to answer a request by the states of its threads. Read first:
// __schedule() and try_to_wake_up() in kernel/sched/core.c, tcp_recvmsg() and tcp_sendmsg_locked()
// in net/ipv4/tcp.c of the kernel.
//
// A thread is followed from its first read of a request on, or from when a followed thread that has
// a request in its hands wakes it. Its times by state grow at each switch; the difference of two
// readings is what it did between them, and sums to the time between them. So no event has to be
// stored for a switch.
//
// The request goes from the thread that read it to a thread of the same process that this one wakes
// by a call while the request is in its hands, and so on, to the thread that writes the answer. Where
// the writer is no end of such a chain, the record says so. What is written waits in TCP until it may be
// sent, and then in the queue of the interface (dev_queue_xmit() and dev_hard_start_xmit() in
// net/core/dev.c).
#include "served.h"
#include "../ring.h"
#include "threads.h"

enum { MSG_PEEK = 2 };

// Requests that are answered faster are not recorded. Set before the program is loaded.
const volatile u64 scope_slow_ns = 0;

// Ports of the listeners whose connections are looked at.
struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 1024);
    __type(key, u16);
    __type(value, u32); // the thread that read last on a connection of this port; 0: none yet
} ports SEC(".maps");

enum { OTHER = 1 };
enum { IDLE, READY, READ };

// A server's socket of TCP; the key is its address.
struct served_socket {
    struct flow flow;
    u32 stage;
    u32 reader;
    u32 guessed; // the thread whose times `at_ready` are; 0: none
    u32 stopping; // the process whose `stood_still_ns` it is; 0: unknown
    u32 more_padding;
    u64 stood_still_ns; // at ready
    u64 unread_stopped_ns;
    u64 ready_ns;
    u64 next_ready_ns; // of data that came after the read; 0: none
    u64 read_ns;
    struct times at_ready;
    struct times unread;
    struct times at_read;
    u32 reader_known;
    u32 in_queue; // nobody had accepted the connection at `ready_ns`
    u32 no_worker; // and the reader had other requests all the while
    u32 padding;
    u64 own_ns; // running of the reader for this request alone
    u64 peer_ns;
    struct flow peer;
    u32 answer_seq; // of the first byte of the answer
    u32 is_leaving; // the first byte is written, and has not left
    struct served_record answer;
};
_Static_assert(sizeof(struct served_socket) == 816, "served/mod.rs: SOCKET_BYTES");

struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 65536);
    __uint(map_flags, F_NO_PREALLOC);
    __type(key, u64);
    __type(value, struct served_socket);
} sockets SEC(".maps");

// Values for new entries, which are too large for the stack.
struct {
    __uint(type, MAP_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct thread);
} fresh_thread SEC(".maps");

struct {
    __uint(type, MAP_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct served_socket);
} fresh_socket SEC(".maps");

// Counts what a thread ran since `current` changed for the request that was current.
INLINE void leave_current(struct thread *thread, u64 current) {
    u64 key = thread->current;
    u64 running = thread->times.ns[RUNNING];
    if (key > OTHER) {
        struct served_socket *known = bpf_map_lookup_elem(&sockets, &key);
        if (known)
            known->own_ns += running - thread->current_since_ns;
    }
    thread->current = current;
    thread->current_since_ns = running;
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx) {
    struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
    u32 prev_state = ctx[3];
    u32 left = prev->pid, came = next->pid;
    struct thread *thread = bpf_map_lookup_elem(&threads, &left);
    u64 now = 0;
    // Preempted while it was going to block: it is still in its run queue.
    int can_run = prev_state == 0 || (u8)ctx[0];
    if (!can_run && is_collector(prev))
        collector_blocked(prev, now = bpf_ktime_get_ns(), prev_state);
    if (is_collector(next))
        collector_active(next, now = now ? now : bpf_ktime_get_ns());
    if (left && thread) {
        now = now ? now : bpf_ktime_get_ns();
        u32 state = RUNNABLE;
        if (!can_run)
            state = blocked_state(prev, prev_state);
        else if (is_throttled(prev))
            state = THROTTLED;
        if (!can_run)
            begin_wait(thread, prev, state);
        advance(thread, now, state);
        // An event loop that waits has no request in its hands that it works for.
        if (state == AWAITING && (thread->open > 1 || thread->current == OTHER))
            leave_current(thread, 0);
        // A thread of a pool waits for work by a futex.
        if ((state == AWAITING || (state == LOCKED && thread->current == 0)) &&
            thread->open == 0 && thread->carries == 0)
            thread->busy_since_ns = ~0ULL;
    }
    thread = bpf_map_lookup_elem(&threads, &came);
    if (came && thread) {
        now = now ? now : bpf_ktime_get_ns();
        advance(thread, now, RUNNING);
        if (thread->busy_since_ns == ~0ULL)
            thread->busy_since_ns = now;
    }
    return 0;
}

// Gives the request that the waker has in its hands to the thread that it wakes.
INLINE void hand_over(struct thread *waker, u32 waker_tid, struct thread *woken, u64 now) {
    u64 key = 0;
    struct times until;
    read_times(waker, now, &until);
    if (waker->current > OTHER) {
        key = waker->current;
        struct served_socket *known = bpf_map_lookup_elem(&sockets, &key);
        if (!known || known->stage != READ || known->reader != waker_tid)
            return;
        subtract(&woken->carried, &until, &known->at_read);
        woken->carries_ready_ns = known->ready_ns;
        woken->carried_peer_ns = known->peer_ns;
        woken->carried_peer = known->peer;
    } else if (waker->carries) {
        key = waker->carries;
        subtract(&woken->carried, &until, &waker->at_wake);
        add(&woken->carried, &waker->carried);
        woken->carries_ready_ns = waker->carries_ready_ns;
        woken->carried_peer_ns = waker->carried_peer_ns;
        woken->carried_peer = waker->carried_peer;
    } else {
        return;
    }
    woken->carries = key;
    read_times(woken, now, &woken->at_wake);
    woken->awaited_ns = woken->times.ns[AWAITING];
}

SEC("tp_btf/sched_waking")
int sched_waking(u64 *ctx) {
    struct task_struct *task = (void *)ctx[0];
    u32 tid = task->pid, pid = task->tgid, zero = 0;
    u64 id = bpf_get_current_pid_tgid();
    struct thread *woken = bpf_map_lookup_elem(&threads, &tid);
    struct thread *waker = 0;
    u32 waker_tid = id;
    // It gets no request in its hands from the threads that ask it to collect, and hands none over.
    if (is_collector(task)) {
        collector_active(task, bpf_ktime_get_ns());
        return 0;
    }
    // Calls by which a thread wakes another of its process. Sending over TCP is none of them: on the
    // way the kernel takes in other packets, and wakes the readers of these.
    if (id >> 32 == pid && waker_tid != tid)
        waker = bpf_map_lookup_elem(&threads, &waker_tid);
    if (waker && waker->state == RUNNING && (waker->current > OTHER || waker->carries)) {
        switch (call_of(bpf_get_current_task_btf())) {
        CALL(1, 64): // write: eventfd, pipe
        CALL(20, 66): // writev
        CALL(202, 98): // futex
        CALL(65, 193): // semop
            break;
        default:
            waker = 0;
        }
    } else {
        waker = 0;
    }
    if (!woken && !waker)
        return 0;
    u64 now = bpf_ktime_get_ns();
    if (!woken) {
        struct thread *fresh = bpf_map_lookup_elem(&fresh_thread, &zero);
        if (!fresh)
            return 0;
        __builtin_memset(fresh, 0, sizeof(*fresh));
        fresh->pid = pid;
        fresh->since_ns = now;
        fresh->busy_since_ns = now;
        fresh->state = ELSEWHERE;
        if (bpf_map_update_elem(&threads, &tid, fresh, NOEXIST))
            count_lost();
        woken = bpf_map_lookup_elem(&threads, &tid);
        if (!woken)
            return 0;
    }
    // One that runs, or waits for a processor, is not woken.
    if (woken->state == RUNNING || woken->state == RUNNABLE || woken->state == THROTTLED)
        return 0;
    end_wait(woken, now);
    advance(woken, now, RUNNABLE);
    if (waker)
        hand_over(waker, waker_tid, woken, now);
    return 0;
}

SEC("tp_btf/sk_data_ready")
int sk_data_ready(u64 *ctx) {
    struct sock *sk = (void *)ctx[0];
    u64 key = ctx[0];
    u32 zero = 0;
    if (!is_sampled(sk))
        return 0;
    struct served_socket *known = bpf_map_lookup_elem(&sockets, &key);
    if (!known) {
        u16 port = sk->__sk_common.skc_num;
        if (!bpf_map_lookup_elem(&ports, &port) || !is_tcp_in_scope(sk) ||
            READ(sk->__sk_common.skc_state) == LISTEN)
            return 0;
        struct served_socket *fresh = bpf_map_lookup_elem(&fresh_socket, &zero);
        if (!fresh)
            return 0;
        __builtin_memset(fresh, 0, sizeof(*fresh));
        if (!flow_of_sock(sk, &fresh->flow))
            return 0;
        if (bpf_map_update_elem(&sockets, &key, fresh, NOEXIST))
            count_lost();
        known = bpf_map_lookup_elem(&sockets, &key);
        if (!known)
            return 0;
    }
    u16 port = known->flow.source_port;
    u32 *last = bpf_map_lookup_elem(&ports, &port);
    u32 guessed = known->reader ? known->reader : last ? *last : 0;
    struct thread *thread = bpf_map_lookup_elem(&threads, &guessed);
    u64 now = bpf_ktime_get_ns();
    known->guessed = thread ? guessed : 0;
    known->stopping = thread ? thread->pid : 0;
    if (thread) {
        read_times(thread, now, &known->at_ready);
        known->stood_still_ns = stood_still_ns(thread->pid, now);
    }
    // More of the request, once it is read, or the next one; or the client's FIN, which nobody reads.
    if (known->stage == READ) {
        known->next_ready_ns = now;
        return 0;
    }
    known->ready_ns = now;
    known->in_queue = known->reader == 0 && !READ(sk->sk_socket);
    known->stage = READY;
    return 0;
}

INLINE struct thread *reading_thread(u64 now) {
    u64 id = bpf_get_current_pid_tgid();
    u32 tid = id, zero = 0;
    struct thread *thread = bpf_map_lookup_elem(&threads, &tid);
    if (thread)
        return thread;
    struct thread *fresh = bpf_map_lookup_elem(&fresh_thread, &zero);
    if (!fresh)
        return 0;
    __builtin_memset(fresh, 0, sizeof(*fresh));
    fresh->pid = id >> 32;
    fresh->since_ns = now;
    fresh->busy_since_ns = now;
    fresh->state = RUNNING;
    if (bpf_map_update_elem(&threads, &tid, fresh, NOEXIST))
        count_lost();
    return bpf_map_lookup_elem(&threads, &tid);
}

// A followed thread has read from a socket that is no server's: its peer answered.
INLINE void heard_from(struct thread *thread, struct sock *sk) {
    u64 awaited = thread->times.ns[AWAITING] - thread->awaited_ns;
    thread->awaited_ns = thread->times.ns[AWAITING];
    u64 key = thread->current;
    if (key > OTHER) {
        struct served_socket *known = bpf_map_lookup_elem(&sockets, &key);
        if (known && known->stage == READ && awaited > known->peer_ns) {
            known->peer_ns = awaited;
            flow_of_sock(sk, &known->peer);
        }
    } else if (thread->carries && awaited > thread->carried_peer_ns) {
        thread->carried_peer_ns = awaited;
        flow_of_sock(sk, &thread->carried_peer);
    }
}

SEC("tp_btf/sock_recv_length")
int sock_recv_length(u64 *ctx) {
    struct sock *sk = (void *)ctx[0];
    u64 key = ctx[0];
    s32 length = ctx[1], flags = ctx[2];
    u32 tid = bpf_get_current_pid_tgid();
    if (length <= 0 || flags & MSG_PEEK)
        return 0;
    struct served_socket *known = is_sampled(sk) ? bpf_map_lookup_elem(&sockets, &key) : 0;
    if (!known) {
        struct thread *thread = bpf_map_lookup_elem(&threads, &tid);
        if (!thread)
            return 0;
        u16 port = sk->__sk_common.skc_num, family = sk->__sk_common.skc_family;
        if (family != AF_INET_ && family != AF_INET6_)
            return 0;
        advance(thread, bpf_ktime_get_ns(), RUNNING);
        if (bpf_map_lookup_elem(&ports, &port)) {
            leave_current(thread, OTHER);
        } else {
            heard_from(thread, sk);
            if (thread->open > 1)
                leave_current(thread, 0);
        }
        return 0;
    }
    if (known->stage == IDLE)
        return 0;
    u64 now = bpf_ktime_get_ns();
    struct thread *thread = reading_thread(now);
    if (!thread)
        return 0;
    advance(thread, now, RUNNING);
    if (known->stage == READ) {
        u32 reader = known->reader;
        struct thread *before = bpf_map_lookup_elem(&threads, &reader);
        if (known->next_ready_ns == 0) {
            if (reader == tid)
                leave_current(thread, key);
            return 0;
        }
        // The time of the server begins with the request's last byte.
        if (before && before->open)
            before->open -= 1;
        known->ready_ns = known->next_ready_ns;
        known->next_ready_ns = 0;
        known->in_queue = 0;
    }
    // A worker that waited for connections would have accepted this one.
    known->no_worker = known->in_queue && thread->busy_since_ns < known->ready_ns;
    known->in_queue = 0;
    known->reader_known = known->guessed == tid;
    if (known->reader_known)
        subtract(&known->unread, &thread->times, &known->at_ready);
    known->unread_stopped_ns = 0;
    if (known->stopping == thread->pid)
        known->unread_stopped_ns = stood_still_ns(thread->pid, now) - known->stood_still_ns;
    known->stage = READ;
    known->reader = tid;
    known->read_ns = now;
    known->at_read = thread->times;
    known->own_ns = 0;
    known->peer_ns = 0;
    known->peer.ip_version = 0;
    leave_current(thread, key);
    thread->carries = 0;
    thread->open += 1;
    thread->awaited_ns = thread->times.ns[AWAITING];
    u16 port = known->flow.source_port;
    u32 *last = bpf_map_lookup_elem(&ports, &port);
    if (last)
        *last = tid;
    return 0;
}

// Writes the record of an answer that has left, or of which it is not seen any more.
INLINE void write_answer(struct served_socket *known) {
    struct served_record *answer = &known->answer;
    u64 until = answer->sent_ns ? answer->sent_ns : answer->written_ns;
    known->is_leaving = 0;
    if (until - answer->ready_ns >= scope_slow_ns)
        write_record(answer, sizeof(*answer));
}

SEC("tp_btf/tcp_sendmsg_locked")
int tcp_sendmsg_locked(u64 *ctx) {
    u64 key = ctx[0];
    u64 id = bpf_get_current_pid_tgid();
    u32 tid = id;
    if (!is_sampled((void *)ctx[0]))
        return 0;
    struct served_socket *known = bpf_map_lookup_elem(&sockets, &key);
    if (!known || known->stage != READ)
        return 0;
    u64 now = bpf_ktime_get_ns();
    u32 reader_tid = known->reader;
    struct thread *writer = bpf_map_lookup_elem(&threads, &tid);
    struct thread *reader = bpf_map_lookup_elem(&threads, &reader_tid);
    struct tcp_sock *tp = bpf_skc_to_tcp_sock((void *)ctx[0]);
    if (!tp)
        return 0;
    if (known->is_leaving)
        write_answer(known);
    struct served_record *record = &known->answer;
    known->stage = known->next_ready_ns ? READY : IDLE;
    u64 ready_ns = known->ready_ns;
    if (known->next_ready_ns) {
        known->ready_ns = known->next_ready_ns;
        known->next_ready_ns = 0;
    }
    if (writer)
        advance(writer, now, RUNNING);
    if (reader && reader->open)
        reader->open -= 1;
    u32 recorded = known->reader_known ? READER_KNOWN : 0;
    if (known->no_worker)
        recorded |= NO_WORKER;
    record->others_ns = 0;
    record->peer_ns = known->peer_ns;
    record->peer = known->peer;
    if (writer && writer->carries == key && writer->carries_ready_ns == ready_ns) {
        recorded |= CHAIN_KNOWN | HANDED_OVER;
        subtract(&record->serving, &writer->times, &writer->at_wake);
        add(&record->serving, &writer->carried);
        record->peer_ns = writer->carried_peer_ns;
        record->peer = writer->carried_peer;
    } else if (writer && tid == reader_tid) {
        recorded |= CHAIN_KNOWN;
        subtract(&record->serving, &writer->times, &known->at_read);
        // The writer's time on the processor belongs to this request, unless it has read another one since.
        u64 last = writer->times.ns[RUNNING] - writer->current_since_ns;
        u64 own = known->own_ns + (writer->current == key || writer->current == 0 ? last : 0);
        u64 running = record->serving.ns[RUNNING];
        record->others_ns = running > own ? running - own : 0;
    }
    if (writer) {
        if (tid == reader_tid)
            leave_current(writer, 0);
        if (writer->carries == key)
            writer->carries = 0;
    }
    record->flow = known->flow;
    record->pid = id >> 32;
    record->tid = tid;
    record->flags = recorded;
    bpf_get_current_comm(record->comm, sizeof(record->comm));
    record->ready_ns = ready_ns;
    record->read_ns = known->read_ns;
    record->written_ns = now;
    record->queued_ns = record->sent_ns = 0;
    record->unread = known->unread;
    record->unread_stopped_ns = known->unread_stopped_ns;
    known->answer_seq = tp->write_seq;
    known->is_leaving = 1;
    return 0;
}

// Returns the socket whose answer begins in this packet, if it is the first that holds it.
INLINE struct served_socket *answer_in(struct sk_buff *skb) {
    u64 key = (u64)skb->sk;
    struct served_socket *known = key ? bpf_map_lookup_elem(&sockets, &key) : 0;
    if (!known || !known->is_leaving)
        return 0;
    unsigned char *head = skb->head;
    u16 start = skb->transport_header;
    u8 tcp[16];
    if (bpf_probe_read_kernel(tcp, sizeof(tcp), head + start))
        return 0;
    u32 seq = (u32)tcp[4] << 24 | (u32)tcp[5] << 16 | (u32)tcp[6] << 8 | tcp[7];
    u32 headers = start - (u32)(skb->data - head) + (tcp[12] >> 4) * 4;
    u32 len = skb->len;
    return headers < len && known->answer_seq - seq < len - headers ? known : 0;
}

SEC("tp_btf/net_dev_queue")
int net_dev_queue(u64 *ctx) {
    struct served_socket *known = answer_in((void *)ctx[0]);
    if (known && known->answer.queued_ns == 0)
        known->answer.queued_ns = bpf_ktime_get_ns();
    return 0;
}

SEC("tp_btf/net_dev_start_xmit")
int net_dev_start_xmit(u64 *ctx) {
    struct served_socket *known = answer_in((void *)ctx[0]);
    if (known) {
        known->answer.sent_ns = bpf_ktime_get_ns();
        write_answer(known);
    }
    return 0;
}

SEC("tp_btf/inet_sock_set_state")
int inet_sock_set_state(u64 *ctx) {
    u64 key = ctx[0];
    if ((s32)ctx[2] != CLOSE)
        return 0;
    struct served_socket *known = bpf_map_lookup_elem(&sockets, &key);
    if (!known)
        return 0;
    if (known->stage == READ) {
        u32 reader = known->reader;
        struct thread *thread = bpf_map_lookup_elem(&threads, &reader);
        if (thread && thread->open)
            thread->open -= 1;
    }
    if (known->is_leaving)
        write_answer(known);
    bpf_map_delete_elem(&sockets, &key);
    return 0;
}
