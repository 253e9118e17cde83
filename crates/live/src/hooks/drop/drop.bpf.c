// Packets that the kernel drops, counted by reason, place and flow. Read first:
// include/net/dropreason-core.h, include/trace/events/skb.h of the kernel.
#include "drop.h"

enum { SKB_CONSUMED = 1 };
enum { ETHERTYPE_IP = 0x0800, ETHERTYPE_IPV6 = 0x86dd };
enum { TCP_SYN = 0x02, TCP_ACK = 0x10 };

struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, F_NO_PREALLOC);
    __type(key, struct drop_key);
    __type(value, struct drop_count);
} drops SEC(".maps");

// Counts without the flow, for drops for which `drops` has no room.
struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 1024);
    __uint(map_flags, F_NO_PREALLOC);
    __type(key, struct drop_key);
    __type(value, struct drop_count);
} places SEC(".maps");

struct packet {
    u32 is_syn;
    u32 has_data;
};

struct ipv4_header {
    u8 version_ihl;
    u8 tos;
    u16 total_length;
    u16 id;
    u16 fragment;
    u8 ttl;
    u8 protocol;
    u16 checksum;
    u32 source;
    u32 destination;
};

struct ipv6_header {
    u8 version_class;
    u8 class_label[3];
    u16 payload_length;
    u8 next_header;
    u8 hop_limit;
    u8 source[16];
    u8 destination[16];
};

// Ports, flags and payload. `length` is that of header and payload of the transport protocol.
INLINE void read_transport(const u8 *at, u32 length, struct flow *flow, struct packet *packet) {
    u8 header[16];
    if (flow->protocol != IPPROTO_TCP_ && flow->protocol != IPPROTO_UDP_)
        return;
    if (bpf_probe_read_kernel(header, sizeof(header), at))
        return;
    flow->source_port = header[0] << 8 | header[1];
    flow->destination_port = header[2] << 8 | header[3];
    if (flow->protocol == IPPROTO_TCP_) {
        packet->is_syn = (header[13] & (TCP_SYN | TCP_ACK)) == TCP_SYN;
        packet->has_data = length > (u32)(header[12] >> 4) * 4;
    }
}

INLINE void read_packet(struct sk_buff *skb, struct flow *flow, struct packet *packet) {
    const u8 *ip = READ(skb->head) + READ(skb->network_header);
    flow->ethertype = BE16(READ(skb->protocol));
    if (flow->ethertype == ETHERTYPE_IP) {
        struct ipv4_header header;
        if (bpf_probe_read_kernel(&header, sizeof(header), ip) || header.version_ihl >> 4 != 4)
            return;
        u32 header_length = (header.version_ihl & 15) * 4;
        flow->ip_version = 4;
        flow->protocol = header.protocol;
        *(u32 *)flow->source = header.source;
        *(u32 *)flow->destination = header.destination;
        // A later fragment has no transport header.
        if ((BE16(header.fragment) & 0x1fff) == 0)
            read_transport(ip + header_length, BE16(header.total_length) - header_length, flow,
                           packet);
    } else if (flow->ethertype == ETHERTYPE_IPV6) {
        struct ipv6_header header;
        if (bpf_probe_read_kernel(&header, sizeof(header), ip) || header.version_class >> 4 != 6)
            return;
        flow->ip_version = 6;
        flow->protocol = header.next_header;
        __builtin_memcpy(flow->source, header.source, 16);
        __builtin_memcpy(flow->destination, header.destination, 16);
        read_transport(ip + sizeof(header), BE16(header.payload_length), flow, packet);
    }
}

INLINE int count(void *map, struct drop_key *key, struct sk_buff *skb, struct packet *packet) {
    u64 now = bpf_ktime_get_ns();
    struct drop_count *known = bpf_map_lookup_elem(map, key);
    if (!known) {
        struct drop_count none = {.first_ns = now};
        bpf_map_update_elem(map, key, &none, NOEXIST);
        known = bpf_map_lookup_elem(map, key);
        if (!known)
            return 0;
    }
    __sync_fetch_and_add(&known->packets, 1);
    __sync_fetch_and_add(&known->bytes, READ(skb->len));
    if (packet->is_syn)
        __sync_fetch_and_add(&known->syns, 1);
    if (packet->has_data)
        __sync_fetch_and_add(&known->data, 1);
    known->last_ns = now;
    return 1;
}

SEC("tp_btf/kfree_skb")
int kfree_skb(u64 *ctx) {
    struct sk_buff *skb = (void *)ctx[0];
    struct drop_key key = {.location = ctx[1], .reason = ctx[2]};
    struct packet packet = {};
    if (key.reason <= SKB_CONSUMED)
        return 0;
    struct sock *sk = READ(skb->sk);
    struct net_device *dev = READ(skb->dev);
    key.flow.netns = sk ? netns_of(sk) : READ(READ(dev->nd_net.net)->ns.inum);
    if (!in_scope(key.flow.netns))
        return 0;
    read_packet(skb, &key.flow, &packet);
    // Netlink and Unix sockets free messages by the same call; they are no packets.
    if (key.flow.ethertype == 0)
        return 0;
    if (count(&drops, &key, skb, &packet))
        return 0;
    struct flow unknown = {.netns = key.flow.netns, .protocol = key.flow.protocol};
    key.flow = unknown;
    if (count(&places, &key, skb, &packet))
        return 0;
    count_lost();
    return 0;
}
