// Record: the two ends of a packet or a socket. `Flow` in flow.rs reads it.
#pragma once
#include "kernel.h"

struct flow {
    u8 source[16]; // IPv4 in the first four bytes
    u8 destination[16];
    u16 source_port; // host byte order; 0 where the protocol has none
    u16 destination_port;
    u8 protocol; // IPPROTO_*; 0 unknown
    u8 ip_version; // 4 or 6; 0 where it is no IP packet
    u16 ethertype; // host byte order; 0 unknown
    u32 netns; // inode of the network namespace; 0 unknown
};
_Static_assert(sizeof(struct flow) == 44, "flow.rs: FLOW_BYTES");

enum { IPPROTO_ICMP_ = 1, IPPROTO_TCP_ = 6, IPPROTO_UDP_ = 17, AF_INET_ = 2, AF_INET6_ = 10 };

INLINE u32 netns_of(struct sock *sk) {
    return READ(READ(sk->__sk_common.skc_net.net)->ns.inum);
}

// Fills in the ends of a request for a connection, its own end as the source: the fields that it
// shares with a socket. False where it is not of IP.
INLINE int flow_of_request(struct sock *sk, struct flow *flow) {
    u16 family = READ(sk->__sk_common.skc_family);
    if (family == AF_INET_) {
        flow->ip_version = 4;
        *(u32 *)flow->source = READ(sk->__sk_common.skc_rcv_saddr);
        *(u32 *)flow->destination = READ(sk->__sk_common.skc_daddr);
    } else if (family == AF_INET6_) {
        flow->ip_version = 6;
        *(struct in6_addr *)flow->source = READ(sk->__sk_common.skc_v6_rcv_saddr);
        *(struct in6_addr *)flow->destination = READ(sk->__sk_common.skc_v6_daddr);
    } else {
        return 0;
    }
    flow->source_port = READ(sk->__sk_common.skc_num);
    flow->destination_port = BE16(READ(sk->__sk_common.skc_dport));
    flow->protocol = IPPROTO_TCP_;
    flow->netns = netns_of(sk);
    return 1;
}

// The same of a TCP socket. One that is closing has given its number back and still knows its port.
INLINE int flow_of_sock(struct sock *sk, struct flow *flow) {
    if (!flow_of_request(sk, flow))
        return 0;
    if (flow->source_port == 0)
        flow->source_port = BE16(READ(((struct inet_sock *)sk)->inet_sport));
    return 1;
}

// Whether the connection of a socket is one of those that are looked at: the same at both ends. It
// is called for each event and reads the socket without a helper; `sk` has to be an argument of the
// tracepoint.
INLINE int is_sampled(struct sock *sk) {
    if (scope_sample_limit == 0)
        return 1;
    u32 folded;
    if (sk->__sk_common.skc_family == AF_INET6_) {
        u32 *peer = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32;
        u32 *own = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32;
        folded = peer[0] ^ peer[1] ^ peer[2] ^ peer[3] ^ own[0] ^ own[1] ^ own[2] ^ own[3];
    } else {
        folded = sk->__sk_common.skc_daddr ^ sk->__sk_common.skc_rcv_saddr;
    }
    u16 ports = BE16(sk->__sk_common.skc_dport) ^ sk->__sk_common.skc_num;
    return sample_hash(folded, ports, scope_sample_seed) < scope_sample_limit;
}

// Sockets of TCP in the namespace that is looked at.
INLINE int is_tcp_in_scope(struct sock *sk) {
    u16 family = READ(sk->__sk_common.skc_family);
    if (family != AF_INET_ && family != AF_INET6_)
        return 0;
    if (READ(sk->sk_protocol) != IPPROTO_TCP_)
        return 0;
    return scope_netns == 0 || scope_netns == netns_of(sk);
}

INLINE int in_scope(u32 netns) {
    return scope_netns == 0 || scope_netns == netns;
}
