// The setsockopt, bind and listen calls of chosen processes. While it is attached each system call
// of the machine takes the kernel's slower way in and out. 32-bit programs are left out.
#include "options.h"
#include "../ring.h"

#if defined(__TARGET_ARCH_x86)
enum { SYS_BIND = 49, SYS_LISTEN = 50, SYS_SETSOCKOPT = 54 };
#elif defined(__TARGET_ARCH_arm64)
enum { SYS_BIND = 200, SYS_LISTEN = 201, SYS_SETSOCKOPT = 208 };
#else
#error "the system calls of this architecture are not known"
#endif

// Processes to look at.
struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 1024);
    __type(key, u32);
    __type(value, u32);
} pids SEC(".maps");

// Calls that are under way, by thread.
struct {
    __uint(type, MAP_HASH);
    __uint(max_entries, 4096);
    __type(key, u32);
    __type(value, struct call_record);
} calls SEC(".maps");

struct arguments {
    u64 at[5];
};

// Arguments of a system call of a 64-bit program; false for a 32-bit one.
INLINE int read_arguments(void *registers, struct arguments *arguments) {
#if defined(__TARGET_ARCH_x86)
    struct pt_regs *regs = registers;
    if (READ(regs->cs) != 0x33)
        return 0;
    arguments->at[0] = READ(regs->di);
    arguments->at[1] = READ(regs->si);
    arguments->at[2] = READ(regs->dx);
    arguments->at[3] = READ(regs->r10);
    arguments->at[4] = READ(regs->r8);
#else
    struct user_pt_regs *regs = registers;
    // PSR_MODE32_BIT
    if (READ(regs->pstate) & 0x10)
        return 0;
    for (int place = 0; place < 5; place++)
        arguments->at[place] = READ(regs->regs[place]);
#endif
    return 1;
}

SEC("tp_btf/sys_enter")
int sys_enter(u64 *ctx) {
    u64 number = ctx[1];
    if (number != SYS_SETSOCKOPT && number != SYS_BIND && number != SYS_LISTEN)
        return 0;
    u64 id = bpf_get_current_pid_tgid();
    u32 pid = id >> 32, tid = id;
    struct arguments arguments;
    if (!bpf_map_lookup_elem(&pids, &pid) || !read_arguments((void *)ctx[0], &arguments))
        return 0;
    struct call_record record = {
        .time_ns = bpf_ktime_get_ns(),
        .pid = pid,
        .tid = tid,
        .fd = arguments.at[0],
    };
    bpf_get_current_comm(record.comm, sizeof(record.comm));
    const void *value = 0;
    if (number == SYS_SETSOCKOPT) {
        record.call = CALL_SETSOCKOPT;
        record.level = arguments.at[1];
        record.option = arguments.at[2];
        value = (void *)arguments.at[3];
        record.length = arguments.at[4];
    } else if (number == SYS_BIND) {
        record.call = CALL_BIND;
        value = (void *)arguments.at[1];
        record.length = arguments.at[2];
    } else {
        record.call = CALL_LISTEN;
        record.option = arguments.at[1];
    }
    u32 length = record.length < 0 ? 0 : record.length;
    if (length > sizeof(record.value))
        length = sizeof(record.value);
    if (value && length)
        bpf_probe_read_user(record.value, length, value);
    if (bpf_map_update_elem(&calls, &tid, &record, ANY))
        count_lost();
    return 0;
}

SEC("tp_btf/sys_exit")
int sys_exit(u64 *ctx) {
    u32 tid = bpf_get_current_pid_tgid();
    struct call_record *known = bpf_map_lookup_elem(&calls, &tid);
    if (!known)
        return 0;
    struct call_record record = *known;
    bpf_map_delete_elem(&calls, &tid);
    record.result = ctx[1];
    write_record(&record, sizeof(record));
    return 0;
}
