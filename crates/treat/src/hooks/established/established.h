// Record: a connection that was established, matches, and had another value. `established/mod.rs`
// reads it.
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;

// The map is read every 50 ms: more than a million connections a second find room.
enum { PORTS_MAX = 16, VALUE_BYTES = 16, CHANGED_MAX = 65536 };
enum { SIDE_SERVER = 1, SIDE_CLIENT = 2 };

struct established {
    u64 cookie;
    u32 local[4]; // IPv4 as ::ffff:a.b.c.d
    u32 remote[4];
    u32 local_port;
    u32 remote_port;
    u32 side;
    s32 error; // 0, or what the kernel refused the option with
    unsigned char before[VALUE_BYTES]; // value before; zeros follow it
};
_Static_assert(sizeof(struct established) == 72, "established/mod.rs: RECORD_BYTES");
