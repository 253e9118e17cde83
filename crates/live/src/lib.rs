//! Reads the TCP sockets of a running Linux system. All facts come from the kernel: `sock_diag(7)`,
//! `/proc`, and the options of other processes' sockets, read through `pidfd_getfd(2)`.
//!
//! ```text
//! diag (netlink dump) ─┐
//! process (/proc)     ─┼─► sockets::survey ─► Socket ─► verdict ─► sentences
//! options (pidfd)     ─┘
//! ```
//!
//! Only [`sys`] contains `unsafe` code.

#![cfg(target_os = "linux")]

pub mod capture;
pub mod counters;
pub mod diag;
pub mod drops;
pub mod error;
pub mod folder;
pub mod hooks;
pub mod link;
pub mod nameless;
pub mod netlink;
pub mod netns;
pub mod options;
pub mod privileges;
pub mod process;
pub mod resolver;
pub mod route;
pub mod sample;
pub mod sockets;
pub mod sys;
pub mod tcp_info;

pub use error::LiveError;
