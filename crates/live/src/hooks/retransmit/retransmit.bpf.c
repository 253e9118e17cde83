// Retransmissions by connection and kind. Read first: RFC 6298 (timeout), RFC 5681 and 8985 (fast
// recovery, tail-loss probe); include/net/inet_connection_sock.h of the kernel.
#include "retransmit.h"

// enum tcp_ca_state
enum { CA_RECOVERY = 3, CA_LOSS = 4 };
// Values of icsk_pending.
enum { TIME_LOSS_PROBE = 5 };

struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, F_NO_PREALLOC);
    __type(key, struct flow);
    __type(value, struct retransmit_count);
} retransmits SEC(".maps");

INLINE int count(struct flow *flow, enum kind kind) {
    u64 now = bpf_ktime_get_ns();
    struct retransmit_count *known = bpf_map_lookup_elem(&retransmits, flow);
    if (!known) {
        struct retransmit_count none = {.first_ns = now};
        bpf_map_update_elem(&retransmits, flow, &none, NOEXIST);
        known = bpf_map_lookup_elem(&retransmits, flow);
        if (!known) {
            count_lost();
            return 0;
        }
    }
    if (kind < KINDS)
        __sync_fetch_and_add(&known->segments[kind], 1);
    known->last_ns = now;
    return 0;
}

// The kernel is in loss recovery after a timeout, in fast recovery, or sends a probe.
INLINE enum kind kind_of(struct sock *sk) {
    struct inet_connection_sock *icsk = (void *)sk;
    if (READ(sk->__sk_common.skc_state) == SYN_SENT)
        return KIND_SYN;
    u8 state = READ_BITS(icsk, icsk_ca_state);
    if (state == CA_LOSS)
        return KIND_TIMEOUT;
    if (state == CA_RECOVERY)
        return KIND_FAST;
    if (READ(icsk->icsk_pending) == TIME_LOSS_PROBE)
        return KIND_PROBE;
    return KIND_OTHER;
}

SEC("tp_btf/tcp_retransmit_skb")
int tcp_retransmit_skb(u64 *ctx) {
    struct sock *sk = (void *)ctx[0];
    struct flow flow = {};
    if (!is_tcp_in_scope(sk) || !flow_of_sock(sk, &flow))
        return 0;
    return count(&flow, kind_of(sk));
}

// The request has no full socket yet; it begins with the same fields.
SEC("tp_btf/tcp_retransmit_synack")
int tcp_retransmit_synack(u64 *ctx) {
    struct sock *listener = (void *)ctx[0];
    struct sock *request = (void *)ctx[1];
    struct flow flow = {};
    if (!is_tcp_in_scope(listener) || !flow_of_request(request, &flow))
        return 0;
    return count(&flow, KIND_SYN_ACK);
}
