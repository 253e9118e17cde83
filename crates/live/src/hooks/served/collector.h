// The time for which a Java virtual machine stands still: its "VM Thread" stops the threads that run
// Java, and does the work itself or has "GC Thread#N" do it. HotSpot gives the kernel these names. Read
// first: VM_Operation in src/hotspot/share/runtime/vmThread.cpp, SafepointSynchronize in safepoint.cpp.
// Threads that collect while the program runs have other names (G1 Conc#N, ZWorker#N).
#pragma once
#include "../kernel.h"

enum { DEAD = 0x80 };

struct standstill {
    u32 active; // of its threads of these names: those that are not blocked
    u32 padding;
    u64 since_ns; // the first of them became active
    u64 before_ns; // time for which one was active, without the present one
};
_Static_assert(sizeof(struct standstill) == 24, "served/mod.rs: STANDSTILL_BYTES");

// By process.
struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 1024);
    __uint(map_flags, F_NO_PREALLOC);
    __type(key, u32);
    __type(value, struct standstill);
} standstills SEC(".maps");

// The active threads, with their processes.
struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, F_NO_PREALLOC);
    __type(key, u32);
    __type(value, u32);
} collecting SEC(".maps");

// The first eight letters of their names, as the processor reads them.
#define VM_THREAD 0x6165726854204d56ULL
#define GC_THREAD 0x6165726854204347ULL

INLINE u64 name_of(struct task_struct *task) {
    return *(u64 *)task->comm;
}

// Returns whether HotSpot gave the thread one of the two names.
INLINE int is_collector(struct task_struct *task) {
    u64 name = name_of(task);
    return name == VM_THREAD || name == GC_THREAD;
}

INLINE void collector_active(struct task_struct *task, u64 now) {
    u32 tid = task->pid, pid = task->tgid;
    if (bpf_map_update_elem(&collecting, &tid, &pid, NOEXIST))
        return;
    struct standstill *of = bpf_map_lookup_elem(&standstills, &pid);
    if (!of) {
        struct standstill fresh = {};
        bpf_map_update_elem(&standstills, &pid, &fresh, NOEXIST);
        of = bpf_map_lookup_elem(&standstills, &pid);
    }
    if (!of)
        bpf_map_delete_elem(&collecting, &tid);
    else if (__sync_fetch_and_add(&of->active, 1) == 0)
        of->since_ns = now;
}

INLINE void collector_blocked(struct task_struct *task, u64 now, u32 state) {
    u32 tid = task->pid, pid = task->tgid;
    if (bpf_map_delete_elem(&collecting, &tid))
        return;
    struct standstill *of = bpf_map_lookup_elem(&standstills, &pid);
    if (!of)
        return;
    // It cannot change while this thread is counted.
    u64 since_ns = of->since_ns;
    if (__sync_fetch_and_add(&of->active, -1) == 1 && now > since_ns)
        __sync_fetch_and_add(&of->before_ns, now - since_ns);
    if (state & DEAD && name_of(task) == VM_THREAD)
        bpf_map_delete_elem(&standstills, &pid);
}

// Returns the time for which the process stood still until now, ns.
INLINE u64 stood_still_ns(u32 pid, u64 now) {
    struct standstill *of = bpf_map_lookup_elem(&standstills, &pid);
    if (!of)
        return 0;
    u64 until_ns = of->before_ns;
    if (of->active && now > of->since_ns)
        until_ns += now - of->since_ns;
    return until_ns;
}
