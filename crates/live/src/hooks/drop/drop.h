// Record: packets of one flow that the kernel dropped for one reason at one place. `drop/mod.rs`
// reads it.
#pragma once
#include "../flow.h"

struct drop_key {
    struct flow flow;
    u32 reason; // enum skb_drop_reason of the running kernel
    u64 location; // address in the kernel's code
};
_Static_assert(sizeof(struct drop_key) == 56, "drop/mod.rs: KEY_BYTES");

struct drop_count {
    u64 packets;
    u64 bytes;
    u64 syns; // of TCP: packets with SYN and without ACK
    u64 data; // of TCP: packets with payload
    u64 first_ns; // CLOCK_MONOTONIC
    u64 last_ns;
};
_Static_assert(sizeof(struct drop_count) == 48, "drop/mod.rs: COUNT_BYTES");
