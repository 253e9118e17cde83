//! Kernel hooks that change what the kernel does: `established` sets an option of new connections
//! (`sock_ops`), `syn_limit` drops SYNs at an interface (XDP, Linux 5.9). Each is a folder, as the
//! hooks that read (`tcpwhy_live::hooks`). What an undo needs after the process has ended is pinned.

pub mod established;
pub mod pinned;
mod program;
pub mod syn_limit;
