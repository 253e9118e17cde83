// How long received data lay unread, by socket: from the kernel's call that wakes the reader to the
// reader's receive call. A read that leaves data behind begins a new wait.
#include "unread.h"

enum { MSG_PEEK = 2 };

struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 65536);
    __uint(map_flags, F_NO_PREALLOC);
    __type(key, u64);
    __type(value, struct unread_socket);
} sockets SEC(".maps");

// Of sockets that are closed.
struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, F_NO_PREALLOC);
    __type(key, struct flow);
    __type(value, struct unread_count);
} finished SEC(".maps");

SEC("tp_btf/sk_data_ready")
int sk_data_ready(u64 *ctx) {
    struct sock *sk = (void *)ctx[0];
    u64 key = ctx[0];
    if (!is_sampled(sk))
        return 0;
    struct unread_socket *known = bpf_map_lookup_elem(&sockets, &key);
    if (known) {
        if (known->since_ns == 0)
            known->since_ns = bpf_ktime_get_ns();
        return 0;
    }
    // A listener is called when a connection can be accepted.
    if (!is_tcp_in_scope(sk) || READ(sk->__sk_common.skc_state) == LISTEN)
        return 0;
    struct unread_socket fresh = {.since_ns = bpf_ktime_get_ns()};
    if (!flow_of_sock(sk, &fresh.flow))
        return 0;
    if (bpf_map_update_elem(&sockets, &key, &fresh, NOEXIST))
        count_lost();
    return 0;
}

SEC("tp_btf/sock_recv_length")
int sock_recv_length(u64 *ctx) {
    u64 key = ctx[0];
    s32 length = ctx[1], flags = ctx[2];
    if (length <= 0 || flags & MSG_PEEK || !is_sampled((void *)ctx[0]))
        return 0;
    struct unread_socket *known = bpf_map_lookup_elem(&sockets, &key);
    if (!known || known->since_ns == 0)
        return 0;
    struct tcp_sock *tp = bpf_skc_to_tcp_sock((void *)ctx[0]);
    struct unread_count *count = &known->count;
    u64 now = bpf_ktime_get_ns();
    u64 waited = now - known->since_ns;
    known->since_ns = tp && tp->rcv_nxt != tp->copied_seq ? now : 0;
    count->reads += 1;
    count->total_ns += waited;
    count->last_ns = now;
    if (waited > count->max_ns)
        count->max_ns = waited;
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    if (count->pid != pid) {
        count->pid = pid;
        bpf_get_current_comm(count->comm, sizeof(count->comm));
    }
    return 0;
}

SEC("tp_btf/inet_sock_set_state")
int inet_sock_set_state(u64 *ctx) {
    u64 key = ctx[0];
    if ((s32)ctx[2] != CLOSE)
        return 0;
    struct unread_socket *known = bpf_map_lookup_elem(&sockets, &key);
    if (!known)
        return 0;
    struct unread_count count = known->count;
    struct flow flow = known->flow;
    struct unread_count *before = bpf_map_lookup_elem(&finished, &flow);
    count.unread_at_close = known->since_ns != 0;
    if (before) {
        // The same ports once more.
        count.reads += before->reads;
        count.total_ns += before->total_ns;
        count.unread_at_close |= before->unread_at_close;
        if (before->max_ns > count.max_ns)
            count.max_ns = before->max_ns;
    }
    bpf_map_delete_elem(&sockets, &key);
    if (bpf_map_update_elem(&finished, &flow, &count, ANY))
        count_lost();
    return 0;
}
