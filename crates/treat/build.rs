//! Compiles the kernel hooks that change what the kernel does.

fn main() {
    tcpwhy_compile_hooks::compile_hooks();
}
