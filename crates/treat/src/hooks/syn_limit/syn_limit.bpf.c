// Drops SYNs to one port beyond a rate that each source address has, at the network interface:
// before the kernel allocates anything for them. What it cannot read passes. Read first:
// Documentation/networking/af_xdp.rst and bpf_prog_run_xdp() in include/net/xdp.h of the kernel.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define BE16(value) __builtin_bswap16(value)

enum { MAP_PERCPU_ARRAY = 6, MAP_LRU_HASH = 9, SOURCES_MAX = 65536, ANY = 0 };
enum { XDP_DROP = 1, XDP_PASS = 2 };
enum { ETHERNET_BYTES = 14, TAG_BYTES = 4, TAGS_MAX = 2, IPV6_BYTES = 40 };
enum { IPV4 = 0x0800, IPV6 = 0x86dd, VLAN = 0x8100, SERVICE_VLAN = 0x88a8, TCP = 6 };
enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };
enum { FRAGMENT_OFFSET = 0x1fff };

// The context of the kernel's interface (linux/bpf.h); its beginning.
struct xdp_md {
    u32 data;
    u32 data_end;
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) =
    (void *)2;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;

// A source: an IPv4 address as ::ffff:a.b.c.d, or the /64 of an IPv6 address, of which one host
// has all.
struct source {
    u32 words[4];
};

// Of each source the time at which its SYNs so far would have come at the rate that it has (the
// theoretical arrival time of ATM's GCRA, ITU-T I.371). The least recently seen goes first.
struct {
    int (*type)[MAP_LRU_HASH];
    struct source *key;
    u64 *value;
    int (*max_entries)[SOURCES_MAX];
} sources SEC(".maps");

// SYNs that were dropped.
struct {
    int (*type)[MAP_PERCPU_ARRAY];
    u32 *key;
    u64 *value;
    int (*max_entries)[1];
} dropped SEC(".maps");

// Set before the program is loaded.
const volatile u16 limit_port = 0;
const volatile u64 limit_interval_ns = 1;

INLINE int is_over(const struct source *source) {
    // A burst of a second's SYNs passes.
    const u64 tolerance_ns = 1000000000 - limit_interval_ns;
    u64 now = bpf_ktime_get_ns();
    u64 *known = bpf_map_lookup_elem(&sources, source);
    u64 expected = known && *known > now ? *known : now;
    if (expected - now > tolerance_ns)
        return 1;
    expected += limit_interval_ns;
    if (known)
        *known = expected;
    else
        bpf_map_update_elem(&sources, source, &expected, ANY);
    return 0;
}

// The first byte of the TCP header, or null where there is none to be read.
INLINE u8 *tcp_header(struct xdp_md *context, struct source *source) {
    u8 *at = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
    if (at + ETHERNET_BYTES > end)
        return 0;
    u16 protocol = BE16(*(u16 *)(at + 12));
    at += ETHERNET_BYTES;
    for (u32 tag = 0; tag < TAGS_MAX && (protocol == VLAN || protocol == SERVICE_VLAN); tag++) {
        if (at + TAG_BYTES > end)
            return 0;
        protocol = BE16(*(u16 *)(at + 2));
        at += TAG_BYTES;
    }
    if (protocol == IPV4) {
        if (at + 20 > end || at[9] != TCP || BE16(*(u16 *)(at + 6)) & FRAGMENT_OFFSET)
            return 0;
        source->words[2] = __builtin_bswap32(0xffff);
        source->words[3] = *(u32 *)(at + 12);
        at += (at[0] & 15) * 4;
    } else if (protocol == IPV6) {
        if (at + IPV6_BYTES > end || at[6] != TCP)
            return 0;
        source->words[0] = *(u32 *)(at + 8);
        source->words[1] = *(u32 *)(at + 12);
        at += IPV6_BYTES;
    } else {
        return 0;
    }
    return at + 20 > end ? 0 : at;
}

SEC("xdp")
int syn_limit(struct xdp_md *context) {
    struct source source = {};
    u8 *tcp = tcp_header(context, &source);
    if (!tcp || (tcp[13] & (FIN | SYN | RST | ACK)) != SYN)
        return XDP_PASS;
    if (BE16(*(u16 *)(tcp + 2)) != limit_port)
        return XDP_PASS;
    if (!is_over(&source))
        return XDP_PASS;
    u32 only = 0;
    u64 *count = bpf_map_lookup_elem(&dropped, &only);
    if (count)
        *count += 1;
    return XDP_DROP;
}

char licence[] SEC("license") = "Dual MIT/GPL";
