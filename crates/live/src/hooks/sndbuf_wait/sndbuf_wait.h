// Record: waits of a sender for memory of its send buffer. `sndbuf_wait/mod.rs` reads it.
#pragma once
#include "../flow.h"

struct sndbuf_count {
    u32 pid; // of the last sender
    char comm[16];
    u32 sndbuf_bytes; // sk_sndbuf at the last wait: twice what SO_SNDBUF asked for
    u64 calls; // send calls
    u64 waits; // sleeps of a blocking sender inside its send call
    u64 wait_ns;
    u64 wait_max_ns;
    u64 refusals; // send calls that took nothing or a part, of a sender that does not block
    u64 refused_ns; // from those to the next send call
    u64 refused_max_ns;
    u64 last_ns; // CLOCK_MONOTONIC of the last wait's end
};
_Static_assert(sizeof(struct sndbuf_count) == 88, "sndbuf_wait/mod.rs: COUNT_BYTES");

// Of a socket that is open; the key is its address.
struct sndbuf_socket {
    struct flow flow;
    u32 may_wait; // at the last event: no memory for another segment, and the call blocks
    u32 tid; // the thread that made the last event
    u32 padding;
    u64 event_ns; // the last event of the send call that is under way; 0: none is
    u64 nvcsw; // how often the thread had slept then
    u64 asked_bytes; // what the send call asked for
    u64 refused_since_ns; // 0: not refused
    struct sndbuf_count count;
};
_Static_assert(sizeof(struct sndbuf_socket) == 176, "sndbuf_wait/mod.rs: SOCKET_BYTES");
