// The threads that are followed, and their times by state.
#pragma once
#include "calls.h"
#include "collector.h"
#include "served.h"

struct thread {
    u32 pid;
    u32 state;
    u64 since_ns; // the state began
    u64 stood_still_ns; // of its process until then, while LOCKED
    struct times times; // before that
    // The request that another thread handed over by waking this one; 0: none.
    u64 carries;
    u64 carries_ready_ns;
    struct times carried; // what was spent on it before
    struct times at_wake; // own times when it took it over
    u64 carried_peer_ns;
    struct flow carried_peer;
    // The request that it reads or writes at present; 0: it cannot be told, OTHER: not looked at.
    u64 current;
    u64 current_since_ns; // running time at the last change of `current`
    u32 open; // requests that it read and that are not answered yet
    u32 padding;
    u64 awaited_ns; // AWAITING when it last read from a peer
    // It last waited without a request in its hands until then; while it does so, all ones.
    u64 busy_since_ns;
    u64 futex; // at which it last waited with a timer; 0: it has waited for something else since
    u64 timed_out_ns; // for which it waited there until its timer expired, without a pause
};
_Static_assert(sizeof(struct thread) == 416, "served/mod.rs: THREAD_BYTES");

struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, F_NO_PREALLOC);
    __type(key, u32);
    __type(value, struct thread);
} threads SEC(".maps");

// Adds the time since the state of a thread began.
INLINE void add_present(struct thread *thread, u64 now, struct times *to) {
    u32 state = thread->state;
    if (state >= STATES || now <= thread->since_ns)
        return;
    u64 lasted = now - thread->since_ns;
    if (state == LOCKED) {
        // One that waits for a lock while its machine stands still is stopped, whoever holds the lock.
        u64 until = stood_still_ns(thread->pid, now), before = thread->stood_still_ns;
        u64 stopped = until > before ? until - before : 0;
        if (stopped > lasted)
            stopped = lasted;
        to->ns[STOPPED] += stopped;
        lasted -= stopped;
    }
    to->ns[state] += lasted;
}

INLINE void advance(struct thread *thread, u64 now, u32 state) {
    add_present(thread, now, &thread->times);
    thread->since_ns = now;
    thread->state = state;
    if (state == LOCKED)
        thread->stood_still_ns = stood_still_ns(thread->pid, now);
}

// The times of a thread until now. It may run on another processor meanwhile: then they may not sum
// to the time between two readings, which the process sees.
INLINE void read_times(struct thread *thread, u64 now, struct times *to) {
    *to = thread->times;
    add_present(thread, now, to);
}

// to = now - before
INLINE void subtract(struct times *to, struct times *now, struct times *before) {
#pragma unroll
    for (u32 state = 0; state < STATES; state++)
        to->ns[state] = now->ns[state] - before->ns[state];
    to->retried_ns = now->retried_ns - before->retried_ns;
}

INLINE void add(struct times *to, struct times *more) {
#pragma unroll
    for (u32 state = 0; state < STATES; state++)
        to->ns[state] += more->ns[state];
    to->retried_ns += more->retried_ns;
}

// A thread leaves its processor in this state, to wait.
INLINE void begin_wait(struct thread *thread, struct task_struct *task, u32 state) {
    u64 futex = state == LOCKED ? futex_with_timer(task) : 0;
    if (futex != thread->futex)
        thread->timed_out_ns = 0;
    thread->futex = futex;
}

// A thread that waits is woken. Who sleeps by a futex, as the threads of a Java virtual machine do, is
// woken by its timer, and who waits for a lock by the one that releases it. A wait for a lock may be
// cut into pieces by a timer (the lock of Python's interpreter: 5 ms).
INLINE void end_wait(struct thread *thread, u64 now) {
    if (thread->state != LOCKED || thread->futex == 0)
        return;
    if (may_end_wait_of_futex(bpf_get_current_task_btf())) {
        thread->times.retried_ns += thread->timed_out_ns;
        thread->timed_out_ns = 0;
    } else {
        thread->state = SLEEPING;
        thread->timed_out_ns += now - thread->since_ns;
    }
}

// Whether the quota of its control group stopped a thread that could run: a thread by itself (Linux
// 6.18), else its whole queue.
INLINE int is_throttled(struct task_struct *task) {
    if (__builtin_preserve_field_info(task->throttled, 2))
        return READ(task->throttled);
    struct cfs_rq *queue = task->se.cfs_rq;
    if (__builtin_preserve_field_info(queue->throttle_count, 2))
        return READ(queue->throttle_count) > 0;
    return 0;
}
