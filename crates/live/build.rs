//! Compiles the kernel hooks that read.

fn main() {
    tcpwhy_compile_hooks::compile_hooks(&[
        "drop",
        "retransmit",
        "unread",
        "sndbuf_wait",
        "state",
        "options",
        "frames",
    ]);
}
