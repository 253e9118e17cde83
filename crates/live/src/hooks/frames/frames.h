// Records: a captured frame, and what is captured. `frames/mod.rs` reads the one and writes the other.
#pragma once
#include "../kernel.h"

// Of one frame; its bytes, from the network header on, follow.
struct frame_record {
    u64 time_ns; // CLOCK_MONOTONIC
    u32 length; // of the packet, bytes
    u32 captured; // how many of them follow
    u32 ifindex;
    u32 direction; // PACKET_HOST … PACKET_OUTGOING (linux/if_packet.h)
    u16 protocol; // EtherType, network byte order
    u16 vlan_protocol; // of the tag beside the packet, network byte order; 0: there is none
    u16 vlan_tci;
    u16 padding;
};
_Static_assert(sizeof(struct frame_record) == 32, "frames/mod.rs: RECORD_BYTES");

enum { TERMS_MAX = 4, VALUES_MAX = 8 };
enum { OF_HOSTS = 0, OF_PORTS = 1 };

// An end of the packet matches one of the values, or must not.
struct term {
    u32 wanted;
    u32 kind;
    u32 count;
    u32 padding;
    // Hosts: network and mask in the IPv6 space, network byte order. Ports: the first word of each
    // is the first and the last port.
    struct {
        u32 from[4];
        u32 to[4];
    } values[VALUES_MAX];
};

struct settings {
    u32 limit; // connections are kept whose hash is below; 0 keeps all
    u32 seed;
    u32 snap_bytes;
    u32 terms_count;
    struct term terms[TERMS_MAX];
    u64 lost; // frames for which the ring had no room
};
_Static_assert(sizeof(struct settings) == 1112, "frames/mod.rs: SETTINGS_BYTES");
