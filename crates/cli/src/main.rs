//! The `tcpwhy` command.
fn main() {}
