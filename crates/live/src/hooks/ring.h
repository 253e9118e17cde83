// A ring of records, read by `Object::records`. A record that finds it full is counted as lost.
#pragma once
#include "kernel.h"

struct {
    __uint(type, MAP_RINGBUF);
    __uint(max_entries, 1 << 20);
} ring SEC(".maps");

INLINE void write_record(void *record, u64 size) {
    if (bpf_ringbuf_output(&ring, record, size, 0))
        count_lost();
}
