//! Compiles the kernel hooks that read.

fn main() {
    tcpwhy_compile_hooks::compile_hooks();
}
