// Sets one TCP option of connections when they are established. A record of each that had another
// value is in a map before the option is set: what is not noted is not changed. Read first:
// tcp_call_bpf() in net/ipv4/tcp*.c, bpf_setsockopt() in net/core/filter.c of the kernel
// (TCP_NODELAY: Linux 6.1).
#include "established.h"

typedef unsigned char u8;
typedef unsigned short u16;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

enum { MAP_HASH = 1, F_NO_PREALLOC = 1, ANY = 0 };
enum { ACTIVE_ESTABLISHED = 4, PASSIVE_ESTABLISHED = 5 };
enum { FAMILY_INET = 2 };

// The context of the kernel's interface (struct bpf_sock_ops in linux/bpf.h); its beginning.
struct bpf_sock_ops {
    u32 op;
    u32 args[4];
    u32 family;
    u32 remote_ip4;
    u32 local_ip4;
    u32 remote_ip6[4];
    u32 local_ip6[4];
    u32 remote_port; // big endian, in the upper half
    u32 local_port; // of this machine's byte order
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) =
    (void *)2;
static u64 (*bpf_get_socket_cookie)(void *ctx) = (void *)46;
static long (*bpf_setsockopt)(void *ctx, int level, int name, const void *value, int size) =
    (void *)49;
static long (*bpf_getsockopt)(void *ctx, int level, int name, void *value, int size) = (void *)57;
static u64 (*bpf_get_netns_cookie)(void *ctx) = (void *)122;

// Connections that were changed and are not in the journal yet, by their cookie.
struct {
    int (*type)[MAP_HASH];
    u64 *key;
    struct established *value;
    int (*max_entries)[CHANGED_MAX];
    int (*map_flags)[F_NO_PREALLOC];
} changed SEC(".maps");

// What is asked for; set before the program is loaded. Zero asks for all.
const volatile u64 scope_netns_cookie = 0;
const volatile u32 scope_sides = SIDE_SERVER | SIDE_CLIENT;
const volatile u32 scope_ports_count = 0;
const volatile u16 scope_ports[PORTS_MAX] = {};
const volatile u32 scope_peer_set = 0;
const volatile u32 scope_peer[4] = {};
const volatile u32 scope_peer_port = 0;

// The option, its size, and its value.
const volatile u32 option_name = 0;
const volatile u32 option_size = 4;
const volatile u8 option_value[VALUE_BYTES] = {};

enum { LEVEL_TCP = 6 };

INLINE int has_port(u16 one, u16 other) {
    if (scope_ports_count == 0)
        return 1;
    for (u32 i = 0; i < PORTS_MAX; i++) {
        if (i < scope_ports_count && (scope_ports[i] == one || scope_ports[i] == other))
            return 1;
    }
    return 0;
}

// All fields are read before the family decides: the compiler would join loads of both branches
// through a pointer, which the verifier does not take.
INLINE void read_ends(volatile struct bpf_sock_ops *ops, struct established *record) {
    u32 local4 = ops->local_ip4, remote4 = ops->remote_ip4;
    for (u32 i = 0; i < 4; i++) {
        record->local[i] = ops->local_ip6[i];
        record->remote[i] = ops->remote_ip6[i];
    }
    record->local_port = ops->local_port;
    record->remote_port = __builtin_bswap32(ops->remote_port);
    if (ops->family == FAMILY_INET) {
        record->local[0] = record->local[1] = record->remote[0] = record->remote[1] = 0;
        record->local[2] = record->remote[2] = __builtin_bswap32(0xffff);
        record->local[3] = local4;
        record->remote[3] = remote4;
    }
}

INLINE int is_peer(const struct established *record) {
    if (!scope_peer_set)
        return 1;
    if (scope_peer_port && scope_peer_port != record->remote_port)
        return 0;
    return scope_peer[0] == record->remote[0] && scope_peer[1] == record->remote[1] &&
           scope_peer[2] == record->remote[2] && scope_peer[3] == record->remote[3];
}

SEC("sockops")
int established(struct bpf_sock_ops *ops) {
    struct established record = {};
    u8 value[VALUE_BYTES] = {};
    u32 side = ops->op == PASSIVE_ESTABLISHED  ? SIDE_SERVER
               : ops->op == ACTIVE_ESTABLISHED ? SIDE_CLIENT
                                               : 0;
    if (!(side & scope_sides))
        return 1;
    if (scope_netns_cookie && bpf_get_netns_cookie(ops) != scope_netns_cookie)
        return 1;
    read_ends(ops, &record);
    if (!has_port(record.local_port, record.remote_port) || !is_peer(&record))
        return 1;
    record.cookie = bpf_get_socket_cookie(ops);
    record.side = side;
    record.error = bpf_getsockopt(ops, LEVEL_TCP, option_name, record.before, option_size);
    int differs = 0;
    for (u32 i = 0; i < VALUE_BYTES; i++) {
        value[i] = option_value[i];
        differs |= value[i] != record.before[i];
    }
    if (!record.error && !differs)
        return 1;
    // Where the map has no room, the socket is found when the sockets are listed.
    if (bpf_map_update_elem(&changed, &record.cookie, &record, ANY) || record.error)
        return 1;
    int error = bpf_setsockopt(ops, LEVEL_TCP, option_name, value, option_size);
    struct established *noted = bpf_map_lookup_elem(&changed, &record.cookie);
    if (noted)
        noted->error = error;
    return 1;
}

char licence[] SEC("license") = "Dual MIT/GPL";
