// Record: a request that a server answered, and what its threads did meanwhile. `served/mod.rs`
// reads it.
#pragma once
#include "../flow.h"

// The states of a thread. `States` in served/mod.rs has the same order.
enum state {
    RUNNING,
    RUNNABLE, // in a run queue
    THROTTLED, // by the quota of its control group
    AWAITING, // blocked until a peer, a pipe or another event: in receive, poll, accept, connect …
    LOCKED, // blocked in futex, flock or a semaphore, until another thread woke it
    ON_DISK, // blocked in block I/O, or without signals in a call on a file
    ON_MEMORY, // blocked outside of a call: page faults, swap, reclaim
    SLEEPING, // blocked in nanosleep, or in futex until its own timer woke it
    ELSEWHERE, // blocked in another call
    STOPPED, // LOCKED while its virtual machine stands still (collector.h); no thread is in it itself
    STATES,
};

// Times that a thread spent in each state, ns.
struct times {
    u64 ns[STATES];
    // The part of SLEEPING that was a wait for a lock after all: when its timer had expired, the thread
    // waited at the same futex again, until another thread woke it.
    u64 retried_ns;
};

enum { READER_KNOWN = 1, CHAIN_KNOWN = 2, HANDED_OVER = 4, NO_WORKER = 8 };

struct served_record {
    struct flow flow; // of the server's socket
    u32 pid; // of the thread that wrote
    u32 tid;
    char comm[16];
    u32 flags;
    u64 ready_ns; // CLOCK_MONOTONIC: the request's last data came to the socket
    u64 read_ns; // the first read after that
    u64 written_ns; // the first byte of the answer is written
    u64 queued_ns; // TCP gives it to the queue of an interface; 0: not seen
    u64 sent_ns; // it is given to the interface's driver; 0: not seen
    struct times unread; // of the reader, from ready to read; with READER_KNOWN
    u64 unread_stopped_ns; // its virtual machine stood still from ready to read
    struct times serving; // from read to written; with CHAIN_KNOWN
    u64 others_ns; // of serving's RUNNING: for other requests
    // The peer on whose answer a thread of the request waited longest in AWAITING.
    u64 peer_ns;
    struct flow peer; // ip_version 0: none
};
_Static_assert(sizeof(struct served_record) == 360, "served/mod.rs: RECORD_BYTES");
