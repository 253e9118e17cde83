//! Tests against the running kernel: captures by packet sockets and by programs at interfaces, and
//! hooks.
#![cfg(target_os = "linux")]

mod capture;
mod hooks;
mod served;
