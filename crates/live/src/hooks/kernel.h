// The few types of the kernel that the hooks read, and the helpers that they call. Fields are found
// at load time by their names (CO-RE): order and size here do not matter, names do.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) val *name

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_RINGBUF = 27 };
enum { F_NO_PREALLOC = 1 };
enum { ANY = 0, NOEXIST = 1 };
// States of TCP by the kernel's numbers (include/net/tcp_states.h).
enum { ESTABLISHED = 1, SYN_SENT = 2, FIN_WAIT1 = 4, CLOSE = 7, LAST_ACK = 9, LISTEN = 10 };

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) =
    (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u64 (*bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*bpf_get_current_comm)(void *buf, u32 size) = (void *)16;
static long (*bpf_probe_read_user)(void *dst, u32 size, const void *src) = (void *)112;
static long (*bpf_probe_read_kernel)(void *dst, u32 size, const void *src) = (void *)113;
static long (*bpf_ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static struct tcp_sock *(*bpf_skc_to_tcp_sock)(void *sk) = (void *)137;
static struct task_struct *(*bpf_get_current_task_btf)(void) = (void *)158;
static void *(*bpf_task_pt_regs)(struct task_struct *task) = (void *)175;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
    u32 inum;
};

struct net {
    struct ns_common ns;
};

typedef struct {
    struct net *net;
} possible_net_t;

struct net_device {
    possible_net_t nd_net;
};

struct in6_addr {
    union {
        u32 u6_addr32[4];
    } in6_u;
};

struct sock_common {
    u32 skc_daddr;
    u32 skc_rcv_saddr;
    u16 skc_dport;
    u16 skc_num;
    u16 skc_family;
    u8 skc_state;
    possible_net_t skc_net;
    struct in6_addr skc_v6_daddr;
    struct in6_addr skc_v6_rcv_saddr;
};

struct socket {
    unsigned long flags;
};

struct inet_sock {
    u16 inet_sport;
};

struct sock {
    struct sock_common __sk_common;
    struct socket *sk_socket;
    int sk_wmem_queued;
    int sk_sndbuf;
    u16 sk_protocol;
};

struct inet_connection_sock {
    u8 icsk_ca_state : 5;
    u8 icsk_retransmits;
    u8 icsk_pending;
    u8 icsk_backoff;
};

struct tcp_sock {
    u32 rcv_nxt;
    u32 copied_seq;
    u32 write_seq;
    u32 snd_nxt;
    u32 notsent_lowat;
};

struct iov_iter {
    unsigned long count;
};

struct msghdr {
    struct iov_iter msg_iter;
    unsigned int msg_flags;
};

// x86_64: number and arguments of a system call, and the code segment (0x33 for a 64-bit program);
// arm64: the number.
struct pt_regs {
    unsigned long di, si, dx, r10, r8, cs, orig_ax;
    s32 syscallno;
};

// arm64: the arguments.
struct user_pt_regs {
    u64 regs[31];
    u64 pstate;
};

struct sk_buff {
    struct net_device *dev;
    struct sock *sk;
    unsigned int len;
    u16 protocol;
    u16 network_header;
    u16 transport_header;
    unsigned char *head;
    unsigned char *data;
};

struct cfs_rq {
    int throttle_count;
};

struct sched_entity {
    struct cfs_rq *cfs_rq;
};

struct task_struct {
    unsigned long nvcsw;
    int pid;
    int tgid;
    char comm[16];
    unsigned in_iowait : 1;
    _Bool throttled;
    struct sched_entity se;
};

#pragma clang attribute pop

// Reads a field of which the verifier does not know that it may be followed. Where it does know, as
// for an argument of a tracepoint, a plain access is several times cheaper.
#define READ(field)                                                                                \
    ({                                                                                             \
        typeof(field) value_;                                                                      \
        bpf_probe_read_kernel(&value_, sizeof(value_), &(field));                                  \
        value_;                                                                                    \
    })

// Reads a bit field: the bytes around it, then the bits, both where the running kernel has them.
#define READ_BITS(object, field)                                                                   \
    ({                                                                                             \
        u64 bits_ = 0;                                                                             \
        bpf_probe_read_kernel(&bits_, __builtin_preserve_field_info((object)->field, 1),           \
                              (void *)(object) +                                                   \
                                  __builtin_preserve_field_info((object)->field, 0));              \
        bits_ <<= __builtin_preserve_field_info((object)->field, 4);                               \
        bits_ >> __builtin_preserve_field_info((object)->field, 5);                                \
    })

// Number of events that were not counted because a map or ring was full.
struct {
    __uint(type, MAP_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} lost SEC(".maps");

INLINE void count_lost(void) {
    u32 zero = 0;
    u64 *known = bpf_map_lookup_elem(&lost, &zero);
    if (known)
        __sync_fetch_and_add(known, 1);
}

#define BE16(value) __builtin_bswap16(value)
#define BE32(value) __builtin_bswap32(value)

// Hash of a connection by the XOR of its addresses' words in network order, and of its ports in host
// order. `Sample::has` in sample.rs computes the same.
INLINE u32 sample_hash(u32 folded, u32 ports, u32 seed) {
    u32 hash = (BE32(folded) * 0x9e3779b1) ^ (ports * 0x85ebca6b) ^ seed;
    hash = (hash ^ hash >> 15) * 0xc2b2ae35;
    return (hash ^ hash >> 13) * 0x27d4eb2f;
}

// Network namespace to look at, by its inode; 0 looks at all. Set before the program is loaded.
const volatile u32 scope_netns = 0;

// A hook that samples looks at connections whose hash with the seed is below the limit; 0: at all. The
// seed is set before the program is loaded, the limit at any time.
volatile u32 scope_sample_limit SEC(".data") = 0;
const volatile u32 scope_sample_seed = 0;

char licence[] SEC("license") = "Dual MIT/GPL";
