// Connections that open and close, with their owner. The process is known only if the
// change happens in one of its system calls: connect, listen, close, shutdown.
#include "state.h"
#include "../ring.h"

struct owner {
    struct flow flow; // a closed socket forgets its port
    u32 pid;
    u64 opened_ns;
    char comm[16];
};

struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 65536);
    __uint(map_flags, F_NO_PREALLOC);
    __type(key, u64);
    __type(value, struct owner);
} owners SEC(".maps");

INLINE int is_in_system_call(int old_state, int new_state) {
    return new_state == SYN_SENT || new_state == LISTEN || new_state == FIN_WAIT1 ||
           new_state == LAST_ACK || (old_state == LISTEN && new_state == CLOSE);
}

SEC("tp_btf/inet_sock_set_state")
int inet_sock_set_state(u64 *ctx) {
    struct sock *sk = (void *)ctx[0];
    u64 key = ctx[0];
    int old_state = ctx[1], new_state = ctx[2];
    if (!is_tcp_in_scope(sk))
        return 0;
    struct owner *known = bpf_map_lookup_elem(&owners, &key);
    if (!known) {
        struct owner fresh = {};
        if (bpf_map_update_elem(&owners, &key, &fresh, NOEXIST))
            count_lost();
        known = bpf_map_lookup_elem(&owners, &key);
        if (!known)
            return 0;
    }
    if (is_in_system_call(old_state, new_state) && known->pid == 0) {
        known->pid = bpf_get_current_pid_tgid() >> 32;
        bpf_get_current_comm(known->comm, sizeof(known->comm));
    }
    if (known->flow.source_port == 0 || new_state == ESTABLISHED)
        flow_of_sock(sk, &known->flow);
    u64 now = bpf_ktime_get_ns();
    if (new_state == ESTABLISHED)
        known->opened_ns = now;
    if (new_state != ESTABLISHED && new_state != CLOSE && new_state != LISTEN)
        return 0;
    struct state_record record = {
        .time_ns = now,
        .opened_ns = known->opened_ns,
        .flow = known->flow,
        .pid = known->pid,
        .old_state = old_state,
        .new_state = new_state,
    };
    __builtin_memcpy(record.comm, known->comm, sizeof(record.comm));
    if (new_state == CLOSE)
        bpf_map_delete_elem(&owners, &key);
    write_record(&record, sizeof(record));
    return 0;
}
