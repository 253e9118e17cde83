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

#define BE16(value) __builtin_bswap16(value)

INLINE u32 netns_of(struct sock *sk) {
    return READ(READ(sk->__sk_common.skc_net.net)->ns.inum);
}

// Fills in the ends of a socket, its own end as the source. False where it is no IP socket.
INLINE int flow_of_sock(struct sock *sk, struct flow *flow) {
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
    flow->netns = netns_of(sk);
    return 1;
}

INLINE int in_scope(u32 netns) {
    return scope_netns == 0 || scope_netns == netns;
}
