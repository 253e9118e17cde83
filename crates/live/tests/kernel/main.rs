//! What the running kernel says: captures by packet sockets and programs at interfaces, and hooks.
#![cfg(target_os = "linux")]

mod capture;
mod hooks;
