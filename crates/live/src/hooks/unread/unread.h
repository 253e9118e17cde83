// Record: how long received data lay unread. `unread/mod.rs` reads it.
#pragma once
#include "../flow.h"

struct unread_count {
    u32 pid; // of the last reader
    char comm[16];
    u32 unread_at_close; // 1: data was there that was never read
    u64 reads; // that found data waiting
    u64 total_ns; // time during which data lay unread
    u64 max_ns; // the longest wait
    u64 last_ns; // CLOCK_MONOTONIC of the last read
};
_Static_assert(sizeof(struct unread_count) == 56, "unread/mod.rs: COUNT_BYTES");

// Of a socket that is open; the key is its address.
struct unread_socket {
    struct flow flow;
    u32 padding;
    u64 since_ns; // when data came that is not read yet; 0: none is there
    struct unread_count count;
};
_Static_assert(sizeof(struct unread_socket) == 112, "unread/mod.rs: SOCKET_BYTES");
