//! The `setsockopt`, `bind` and `listen` calls of chosen processes, decoded. Programs of 64 bits.

mod names;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Serialize;

use super::flow::Fields;

/// `struct call_record` in options.h.
const RECORD_BYTES: usize = 88;

/// A call by which a process set up a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Call {
    /// Time of the call by `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Name of the thread.
    pub command: String,
    /// The socket's descriptor.
    pub fd: i32,
    /// The operation that was called.
    pub what: What,
    /// The error number that it returned; `None`: it succeeded.
    pub error: Option<i32>,
}

/// The operation of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// `setsockopt`.
    Option {
        /// Name as in C (`TCP_NODELAY`), or `level N option M`.
        name: String,
        /// Value as an integer or as text, depending on the option, else the first bytes in
        /// hexadecimal.
        value: String,
    },
    /// `bind`, with the address; `None` where it is not of IP.
    Bind(Option<SocketAddr>),
    /// `listen`, with the backlog asked for.
    Listen(i32),
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Option { name, value } => write!(f, "setsockopt {name}={value}"),
            Self::Bind(Some(address)) => write!(f, "bind {address}"),
            Self::Bind(None) => f.write_str("bind to an address that is not of IP"),
            Self::Listen(backlog) => write!(f, "listen, backlog {backlog}"),
        }
    }
}

pub(super) fn parse(record: &[u8]) -> Option<Call> {
    let mut fields = Fields(record.first_chunk::<RECORD_BYTES>()?);
    let time_ns = fields.u64();
    let (pid, tid) = (fields.u32(), fields.u32());
    let command = fields.text::<16>();
    let call = fields.u32();
    let [fd, level, option, length, result] = [(); 5].map(|()| fields.u32() as i32);
    let value: [u8; 32] = fields.take();
    let value = &value[..(length.max(0) as usize).min(32)];
    let what = match call {
        0 => What::Option {
            name: names::option(level, option),
            value: names::value(level, option, value),
        },
        1 => What::Bind(address(value)),
        2 => What::Listen(option),
        _ => return None,
    };
    let error = (result < 0).then_some(-result);
    Some(Call { time_ns, pid, tid, command, fd, what, error })
}

/// Parses `struct sockaddr_in` or `struct sockaddr_in6`.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip = match family {
        libc::AF_INET => Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(call: u32, numbers: [i32; 5], value: &[u8]) -> Vec<u8> {
        let mut record = vec![0; 16];
        record.extend([0; 16]);
        record.extend(call.to_ne_bytes());
        record.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        record.extend(value);
        record.resize(RECORD_BYTES, 0);
        record
    }

    fn words(call: u32, numbers: [i32; 5], value: &[u8]) -> String {
        parse(&record(call, numbers, value)).unwrap().what.to_string()
    }

    #[test]
    fn calls_are_decoded() {
        let one = 1i32.to_ne_bytes();
        assert_eq!(words(0, [3, 6, 1, 4, 0], &one), "setsockopt TCP_NODELAY=1");
        assert_eq!(words(0, [3, 6, 13, 5, 0], b"cubic"), "setsockopt TCP_CONGESTION=cubic");
        assert_eq!(words(0, [3, 99, 7, 2, 0], &[1, 255]), "setsockopt level 99 option 7=0x01ff");
        assert_eq!(words(2, [3, 0, 511, 0, 0], &[]), "listen, backlog 511");
        let port = 8080u16.to_be_bytes();
        let v4 = [&2u16.to_ne_bytes()[..], &port, &[127, 0, 0, 1]].concat();
        assert_eq!(words(1, [3, 0, 0, 16, 0], &v4), "bind 127.0.0.1:8080");
        assert_eq!(parse(&record(2, [3, 0, 1, 0, -98], &[])).unwrap().error, Some(98));
        assert_eq!(parse(&[0; 10]), None);
    }
}
