// Frames of one interface, copied into a ring: what the classic filter of a packet socket keeps
// (capture/selection.rs computes the same), without the clone of each packet that a packet socket
// takes. Read first: tcx_run() and sch_handle_{ingress,egress}() in net/core/dev.c of the kernel.
#include "frames.h"

struct {
    __uint(type, MAP_RINGBUF);
    __uint(max_entries, 1 << 20); // the loader sets it
} ring SEC(".maps");

// Shared with the process as memory: it writes what is to be captured.
struct {
    __uint(type, MAP_ARRAY);
    __uint(max_entries, 1);
    __uint(map_flags, 1 << 10); // BPF_F_MMAPABLE
    __type(key, u32);
    __type(value, struct settings);
} shared SEC(".maps");

// The context of the kernel's interface (linux/bpf.h); its beginning.
struct __sk_buff {
    u32 len;
    u32 pkt_type;
    u32 mark;
    u32 queue_mapping;
    u32 protocol;
    u32 vlan_present;
    u32 vlan_tci;
    u32 vlan_proto;
    u32 priority;
    u32 ingress_ifindex;
    u32 ifindex;
    u32 tc_index;
    u32 cb[5];
    u32 hash;
    u32 tc_classid;
    u32 data;
    u32 data_end;
};

static long (*bpf_skb_load_bytes)(const void *skb, u32 offset, void *to, u32 len) = (void *)26;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;

enum { NEXT = -1 }; // TCX_NEXT: the packet goes on to whatever else is attached
enum { NO_WAKEUP = 1 }; // BPF_RB_NO_WAKEUP: the process looks by itself
enum { PACKET_OUTGOING_ = 4 };
enum { ETHERNET_BYTES = 14, WHOLE = 1 << 16 };
enum { IPV4 = 0x0800, IPV6 = 0x86dd, VLAN = 0x8100, SERVICE_VLAN = 0x88a8 };
enum { ICMP = 1, TCP = 6, UDP = 17, ICMPV6 = 58, DNS_PORT = 53 };


// The properties of a packet that decide whether it is kept.
struct packet {
    u32 addresses[2][4]; // in the IPv6 space, network byte order
    u32 ports; // both, network byte order
    u32 has_ports;
    u32 is_v6;
    u32 is_error; // of ICMP
};

// Loads words of the packet; nonzero where it has fewer. Headers lie in the first piece of a packet's
// memory mostly, which is read without a call.
INLINE int load(struct __sk_buff *skb, u32 offset, u32 *to, u32 words) {
    u32 *from = (void *)(long)skb->data + offset;
    if ((void *)(from + words) > (void *)(long)skb->data_end)
        return bpf_skb_load_bytes(skb, offset, to, words * sizeof(u32));
#pragma unroll
    for (u32 word = 0; word < words; word++)
        to[word] = from[word];
    return 0;
}

INLINE int end_matches(struct packet *packet, struct term *term, u32 at) {
    if (term->kind == OF_PORTS) {
        u16 first = BE16(packet->ports), second = BE16(packet->ports >> 16);
        u32 from = term->values[at].from[0], to = term->values[at].to[0];
        return (from <= first && first <= to) || (from <= second && second <= to);
    }
    for (u32 side = 0; side < 2; side++) {
        u32 other = 0;
        for (u32 word = 0; word < 4; word++)
            other |= (packet->addresses[side][word] ^ term->values[at].from[word]) &
                     term->values[at].to[word];
        if (other == 0)
            return 1;
    }
    return 0;
}

// Not inlined: the verifier then looks at it once, whatever the packet.
static __attribute__((noinline)) int ends_match(struct packet *packet, struct settings *settings) {
    if (!packet || !settings)
        return 0;
    for (u32 i = 0; i < TERMS_MAX && i < settings->terms_count; i++) {
        struct term *term = &settings->terms[i];
        if (term->kind == OF_PORTS && !packet->has_ports)
            continue;
        u32 matches = 0;
        for (u32 at = 0; at < VALUES_MAX && at < term->count; at++)
            matches |= end_matches(packet, term, at);
        if (matches != term->wanted)
            return 0;
    }
    return 1;
}

INLINE int is_sampled(struct packet *packet, struct settings *settings) {
    // Frames that cannot be classified are kept.
    if (settings->limit == 0 || !packet->has_ports)
        return 1;
    u32 *one = packet->addresses[0], *other = packet->addresses[1];
    u32 folded = one[3] ^ other[3];
    if (packet->is_v6)
        folded ^= one[0] ^ one[1] ^ one[2] ^ other[0] ^ other[1] ^ other[2];
    u32 ports = BE16(packet->ports) ^ BE16(packet->ports >> 16);
    return sample_hash(folded, ports, settings->seed) < settings->limit;
}

INLINE int is_lookup(struct packet *packet) {
    return (packet->ports & 0xffff) == BE16(DNS_PORT) || packet->ports >> 16 == BE16(DNS_PORT);
}

// Bytes of an IPv4 packet to keep, 0 for none.
INLINE u32 keep_v4(struct __sk_buff *skb, u32 at, struct packet *packet, struct settings *settings) {
    u32 head[5], type = 0;
    if (load(skb, at, head, 5))
        return 0;
    u32 protocol = BE32(head[2]) >> 16 & 0xff, fragment = BE32(head[1]) & 0x3fff;
    u32 behind = at + ((head[0] & 0xf) << 2);
    packet->addresses[0][2] = packet->addresses[1][2] = BE32(0xffff);
    packet->addresses[0][3] = head[3];
    packet->addresses[1][3] = head[4];
    if (protocol == ICMP) {
        if (bpf_skb_load_bytes(skb, behind, &type, 1))
            return 0;
        packet->is_error = 1;
        return type == 3 || type == 4 || type == 5 || type == 11 || type == 12 ? WHOLE : 0;
    }
    if (protocol == UDP ? (fragment & 0x1fff) != 0 : protocol == TCP && fragment != 0) {
        // Fragments of TCP do not all show whether their connection is sampled.
        return protocol == TCP && settings->limit ? 0 : WHOLE;
    }
    if (protocol != TCP && protocol != UDP)
        return 0;
    if (load(skb, behind, &packet->ports, 1))
        return 0;
    packet->has_ports = 1;
    if (protocol == UDP)
        return is_lookup(packet) ? WHOLE : 0;
    return settings->snap_bytes;
}

// Bytes of an IPv6 packet to keep, 0 for none.
INLINE u32 keep_v6(struct __sk_buff *skb, u32 at, struct packet *packet, struct settings *settings) {
    u32 lengths = 0;
    u8 type = 0;
    packet->is_v6 = 1;
    if (load(skb, at + 4, &lengths, 1) ||
        load(skb, at + 8, packet->addresses[0], 8))
        return 0;
    u8 next = BE32(lengths) >> 8;
    // Hop-by-hop and destination options, routing, fragment.
    if (next == 0 || next == 60 || next == 43 || next == 44)
        return WHOLE;
    if (next == ICMPV6) {
        if (bpf_skb_load_bytes(skb, at + 40, &type, 1))
            return 0;
        packet->is_error = 1;
        return type >= 1 && type <= 4 ? WHOLE : 0;
    }
    if (next != TCP && next != UDP)
        return 0;
    if (load(skb, at + 40, &packet->ports, 1))
        return 0;
    packet->has_ports = 1;
    if (next == UDP)
        return is_lookup(packet) ? WHOLE : 0;
    return settings->snap_bytes;
}

// Offset of the IP header and its version; 0 if there is none.
INLINE u32 ether_type(struct __sk_buff *skb, u32 *at) {
    u16 protocol = BE16(skb->protocol);
    if (protocol != VLAN && protocol != SERVICE_VLAN)
        return protocol;
    // A second tag stands before the IP header; some kernels announce one and show what is behind it.
    u16 inner = 0;
    u8 version = 0;
    bpf_skb_load_bytes(skb, *at + 2, &inner, 2);
    bpf_skb_load_bytes(skb, *at + 4, &version, 1);
    if ((inner == BE16(IPV4) && version >> 4 == 4) || (inner == BE16(IPV6) && version >> 4 == 6)) {
        *at += 4;
        return BE16(inner);
    }
    bpf_skb_load_bytes(skb, *at, &version, 1);
    return version >> 4 == 4 ? IPV4 : version >> 4 == 6 ? IPV6 : 0;
}

// A record of `size` bytes with `captured` of the packet, which fit.
#define WRITE(size)                                                                                \
    do {                                                                                           \
        struct frame_record *record = bpf_ringbuf_reserve(&ring, size, 0);                         \
        if (!record)                                                                               \
            goto full;                                                                             \
        *record = header;                                                                          \
        record->time_ns = bpf_ktime_get_ns();                                                      \
        if (captured > 0 && captured <= (size) - sizeof(header) &&                                 \
            bpf_skb_load_bytes(skb, ETHERNET_BYTES, record + 1, captured))                         \
            record->captured = 0;                                                                  \
        bpf_ringbuf_submit(record, NO_WAKEUP);                                                     \
        return NEXT;                                                                               \
    } while (0)

INLINE int take(struct __sk_buff *skb, u32 direction) {
    u32 zero = 0, at = ETHERNET_BYTES;
    struct settings *settings = bpf_map_lookup_elem(&shared, &zero);
    if (!settings)
        return NEXT;
    struct packet packet = {};
    u32 keep = 0;
    switch (ether_type(skb, &at)) {
    case IPV4:
        keep = keep_v4(skb, at, &packet, settings);
        break;
    case IPV6:
        keep = keep_v6(skb, at, &packet, settings);
        break;
    }
    if (keep == 0 || !is_sampled(&packet, settings))
        return NEXT;
    // The core reads the packet quoted in an ICMP error.
    if (settings->terms_count > 0 && !packet.is_error && !ends_match(&packet, settings))
        return NEXT;
    struct frame_record header = {
        .length = skb->len - ETHERNET_BYTES,
        .ifindex = skb->ifindex,
        .direction = direction,
        .protocol = skb->protocol,
    };
    if (skb->vlan_present) {
        header.vlan_protocol = skb->vlan_proto;
        header.vlan_tci = skb->vlan_tci;
    }
    u32 captured = header.length < keep ? header.length : keep;
    header.captured = captured;
    // The verifier wants sizes that it knows: the smallest that fits.
    if (captured <= 128 - sizeof(header))
        WRITE(128);
    if (captured <= 320 - sizeof(header))
        WRITE(320);
    if (captured <= 576 - sizeof(header))
        WRITE(576);
    if (captured <= 2048 - sizeof(header))
        WRITE(2048);
    if (captured > (1 << 16))
        header.captured = captured = 1 << 16;
    WRITE((1 << 16) + sizeof(header));
full:
    __sync_fetch_and_add(&settings->lost, 1);
    return NEXT;
}

SEC("classifier")
int ingress(struct __sk_buff *skb) {
    return take(skb, skb->pkt_type);
}

SEC("classifier")
int egress(struct __sk_buff *skb) {
    return take(skb, PACKET_OUTGOING_);
}
