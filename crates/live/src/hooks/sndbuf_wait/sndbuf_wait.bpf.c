// Waits of a sender for memory of its send buffer. Read first: tcp_sendmsg_locked() in
// net/ipv4/tcp.c and sk_stream_wait_memory() in net/core/stream.c of the kernel.
//
// `tcp_sendmsg_locked` fires before each segment that a send call fills, `sock_send_length` at its
// end. A thread that slept between two of these events, the first of which found the buffer full,
// waited for memory: sk_stream_wait_memory() is the only sleep there but for a page fault. A sender
// that does not block never waits there. It is refused instead: its call takes nothing (EAGAIN) or a
// part; it waits until it calls again.
#include "sndbuf_wait.h"

enum { EAGAIN = 11 };
enum { MSG_DONTWAIT = 0x40 };
enum { SOCK_NOSPACE = 1 << 2 };

struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 65536);
    __uint(map_flags, F_NO_PREALLOC);
    __type(key, u64);
    __type(value, struct sndbuf_socket);
} sockets SEC(".maps");

// Of sockets that are closed.
struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, F_NO_PREALLOC);
    __type(key, struct flow);
    __type(value, struct sndbuf_count);
} finished SEC(".maps");

INLINE u64 sleeps(void) {
    return bpf_get_current_task_btf()->nvcsw;
}

// tcp_stream_memory_free() of the kernel, negated. A limit on unsent data (TCP_NOTSENT_LOWAT)
// counts as well; 0 and the largest number are none.
INLINE int is_full(struct sock *sk) {
    if (sk->sk_wmem_queued >= sk->sk_sndbuf)
        return 1;
    struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
    return tp && tp->notsent_lowat != 0 && tp->write_seq - tp->snd_nxt >= tp->notsent_lowat;
}

// Ends the current wait, if there is one.
INLINE void end_wait(struct sndbuf_socket *known, struct sock *sk, u64 now) {
    struct sndbuf_count *count = &known->count;
    u32 tid = bpf_get_current_pid_tgid();
    if (known->event_ns && known->may_wait && known->tid == tid && known->nvcsw != sleeps()) {
        u64 waited = now - known->event_ns;
        count->waits += 1;
        count->wait_ns += waited;
        count->last_ns = now;
        count->sndbuf_bytes = sk->sk_sndbuf;
        if (waited > count->wait_max_ns)
            count->wait_max_ns = waited;
    }
}

INLINE void end_refusal(struct sndbuf_socket *known, u64 now) {
    struct sndbuf_count *count = &known->count;
    if (known->refused_since_ns) {
        u64 waited = now - known->refused_since_ns;
        count->refused_ns += waited;
        count->last_ns = now;
        if (waited > count->refused_max_ns)
            count->refused_max_ns = waited;
        known->refused_since_ns = 0;
    }
}

SEC("tp_btf/tcp_sendmsg_locked")
int tcp_sendmsg_locked(u64 *ctx) {
    struct sock *sk = (void *)ctx[0];
    struct msghdr *msg = (void *)ctx[1];
    u64 key = ctx[0];
    if (!is_sampled(sk))
        return 0;
    u64 now = bpf_ktime_get_ns();
    struct sndbuf_socket *known = bpf_map_lookup_elem(&sockets, &key);
    if (!known) {
        struct sndbuf_socket fresh = {};
        if (!is_tcp_in_scope(sk) || !flow_of_sock(sk, &fresh.flow))
            return 0;
        if (bpf_map_update_elem(&sockets, &key, &fresh, NOEXIST))
            count_lost();
        known = bpf_map_lookup_elem(&sockets, &key);
        if (!known)
            return 0;
    }
    if (known->event_ns == 0) {
        known->asked_bytes = READ(msg->msg_iter.count);
        known->count.calls += 1;
        u32 pid = bpf_get_current_pid_tgid() >> 32;
        if (known->count.pid != pid) {
            known->count.pid = pid;
            bpf_get_current_comm(known->count.comm, sizeof(known->count.comm));
        }
    }
    end_refusal(known, now);
    end_wait(known, sk, now);
    known->event_ns = now;
    known->tid = bpf_get_current_pid_tgid();
    known->nvcsw = sleeps();
    known->may_wait = is_full(sk) && !(READ(msg->msg_flags) & MSG_DONTWAIT);
    return 0;
}

SEC("tp_btf/sock_send_length")
int sock_send_length(u64 *ctx) {
    struct sock *sk = (void *)ctx[0];
    u64 key = ctx[0];
    s32 sent = ctx[1];
    if (!is_sampled(sk))
        return 0;
    struct sndbuf_socket *known = bpf_map_lookup_elem(&sockets, &key);
    if (!known)
        return 0;
    u64 now = bpf_ktime_get_ns();
    end_wait(known, sk, now);
    known->event_ns = 0;
    int took_a_part = sent > 0 && (u64)sent < known->asked_bytes &&
                      READ(READ(sk->sk_socket)->flags) & SOCK_NOSPACE;
    if (sent == -EAGAIN || took_a_part) {
        known->count.refusals += 1;
        known->count.sndbuf_bytes = sk->sk_sndbuf;
        known->refused_since_ns = now;
    }
    return 0;
}

SEC("tp_btf/inet_sock_set_state")
int inet_sock_set_state(u64 *ctx) {
    u64 key = ctx[0];
    if ((s32)ctx[2] != CLOSE)
        return 0;
    struct sndbuf_socket *known = bpf_map_lookup_elem(&sockets, &key);
    if (!known)
        return 0;
    struct sndbuf_count count = known->count;
    struct flow flow = known->flow;
    struct sndbuf_count *before = bpf_map_lookup_elem(&finished, &flow);
    if (before) {
        // The same ports once more.
        count.calls += before->calls;
        count.waits += before->waits;
        count.wait_ns += before->wait_ns;
        count.refusals += before->refusals;
        count.refused_ns += before->refused_ns;
        if (before->wait_max_ns > count.wait_max_ns)
            count.wait_max_ns = before->wait_max_ns;
        if (before->refused_max_ns > count.refused_max_ns)
            count.refused_max_ns = before->refused_max_ns;
    }
    bpf_map_delete_elem(&sockets, &key);
    // A socket that never waited is not worth an entry.
    if (count.waits + count.refusals > 0 && bpf_map_update_elem(&finished, &flow, &count, ANY))
        count_lost();
    return 0;
}
