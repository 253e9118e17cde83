//! Active measurement on real sockets.

mod budget;
#[cfg(target_os = "linux")]
mod experiment;
mod http2;
mod load;
