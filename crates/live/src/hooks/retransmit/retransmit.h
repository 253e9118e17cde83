// Record: retransmissions of one connection. `retransmit/mod.rs` reads it; its key is a `flow`.
#pragma once
#include "../flow.h"

enum kind { KIND_SYN, KIND_SYN_ACK, KIND_TIMEOUT, KIND_FAST, KIND_PROBE, KIND_OTHER, KINDS };

struct retransmit_count {
    u64 segments[KINDS];
    u64 first_ns; // CLOCK_MONOTONIC
    u64 last_ns;
};
_Static_assert(sizeof(struct retransmit_count) == 64, "retransmit/mod.rs: COUNT_BYTES");
