// Record: a connection or listener that opened or closed. `state/mod.rs` reads it.
#pragma once
#include "../flow.h"

struct state_record {
    u64 time_ns; // CLOCK_MONOTONIC
    u64 opened_ns; // when it was established; 0: before the hook, or never
    struct flow flow;
    u32 pid; // the process that connected, listened or closed; 0 unknown
    char comm[16];
    u8 old_state;
    u8 new_state;
    u16 padding;
    u32 end;
};
_Static_assert(sizeof(struct state_record) == 88, "state/mod.rs: RECORD_BYTES");
