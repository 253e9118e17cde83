// The state of a thread that waits, by the system call that it is in.
#pragma once
#include "served.h"

enum { UNINTERRUPTIBLE = 2, IN_NO_CALL = -1 };

// Number of the call that a thread of 64 bits is in; IN_NO_CALL outside of one.
INLINE s32 call_of(struct task_struct *task) {
    void *registers = bpf_task_pt_regs(task);
    if (!registers)
        return IN_NO_CALL;
#if defined(__TARGET_ARCH_x86)
    return READ(((struct pt_regs *)registers)->orig_ax);
#else
    return READ(((struct pt_regs *)registers)->syscallno);
#endif
}

#if defined(__TARGET_ARCH_x86)
#define CALL(x86, arm64) case x86
#elif defined(__TARGET_ARCH_arm64)
#define CALL(x86, arm64) case arm64
#else
#error "the system calls of this architecture are not known"
#endif

// Address of the futex at which a thread waits with a timer of its own; 0: it waits for no futex, or
// without a timer. `FUTEX_WAIT` and its kin have the timer as the fourth argument.
INLINE u64 futex_with_timer(struct task_struct *task) {
    void *registers = bpf_task_pt_regs(task);
    if (!registers)
        return 0;
    switch (call_of(task)) {
    CALL(202, 98): // futex
        break;
    default:
        return 0;
    }
#if defined(__TARGET_ARCH_x86)
    struct pt_regs *arguments = registers;
    return READ(arguments->r10) ? READ(arguments->di) : 0;
#else
    struct user_pt_regs *arguments = registers;
    return READ(arguments->regs[3]) ? READ(arguments->regs[0]) : 0;
#endif
}

// Whether a thread that wakes another one by what it does may be the reason: it calls futex, sends a
// signal or ends. Else a timer has interrupted it.
INLINE int may_end_wait_of_futex(struct task_struct *waker) {
    if (waker->pid == 0)
        return 0;
    switch (call_of(waker)) {
    CALL(202, 98): // futex
    CALL(454, 454): // futex_wake
    CALL(456, 456): // futex_requeue
    CALL(60, 93): // exit
    CALL(231, 94): // exit_group
    CALL(62, 129): // kill
    CALL(200, 130): // tkill
    CALL(234, 131): // tgkill
        return 1;
    }
    return 0;
}

// Returns the state of a thread that leaves its processor, by the call in which it waits.
INLINE u32 blocked_state(struct task_struct *task, u32 prev_state) {
    s32 call = call_of(task);
    if (call == IN_NO_CALL)
        return ON_MEMORY;
    if (READ_BITS(task, in_iowait))
        return ON_DISK;
    switch (call) {
    CALL(202, 98): // futex
    CALL(449, 449): // futex_waitv
    CALL(73, 32): // flock
    CALL(72, 25): // fcntl: record locks
    CALL(65, 193): // semop
    CALL(220, 192): // semtimedop
        return LOCKED;
    CALL(35, 101): // nanosleep
    CALL(230, 115): // clock_nanosleep
        return SLEEPING;
    CALL(74, 82): // fsync
    CALL(75, 83): // fdatasync
    CALL(277, 84): // sync_file_range
    CALL(26, 227): // msync
        return ON_DISK;
    CALL(9, 222): // mmap
    CALL(10, 226): // mprotect
    CALL(11, 215): // munmap
    CALL(12, 214): // brk
    CALL(28, 233): // madvise
        return ON_MEMORY;
    }
    if (prev_state & UNINTERRUPTIBLE)
        return ON_DISK;
    switch (call) {
    CALL(0, 63): // read
    CALL(19, 65): // readv
    CALL(45, 207): // recvfrom
    CALL(47, 212): // recvmsg
    CALL(299, 243): // recvmmsg
    CALL(42, 203): // connect
    CALL(43, 202): // accept
    CALL(288, 242): // accept4
    CALL(271, 73): // ppoll
    CALL(270, 72): // pselect6
    CALL(281, 22): // epoll_pwait
    CALL(441, 441): // epoll_pwait2
    CALL(426, 426): // io_uring_enter
#if defined(__TARGET_ARCH_x86)
    case 7: // poll
    case 23: // select
    case 232: // epoll_wait
#endif
        return AWAITING;
    }
    return ELSEWHERE;
}
