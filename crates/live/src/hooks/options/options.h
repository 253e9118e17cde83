// Record: a call by which a process sets up a socket. `options/mod.rs` reads it.
#pragma once
#include "../kernel.h"

enum call { CALL_SETSOCKOPT, CALL_BIND, CALL_LISTEN };

struct call_record {
    u64 time_ns; // CLOCK_MONOTONIC, at the call's begin
    u32 pid;
    u32 tid;
    char comm[16];
    u32 call;
    s32 fd;
    s32 level; // of setsockopt
    s32 option; // of setsockopt; of listen the backlog
    s32 length; // of the value
    s32 result; // 0, or a negative error number
    u8 value[32]; // of setsockopt the value, of bind the address; the first bytes of it
};
_Static_assert(sizeof(struct call_record) == 88, "options/mod.rs: RECORD_BYTES");
