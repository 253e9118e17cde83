//! Names of socket options (socket(7), tcp(7), ip(7), ipv6(7)).

/// Returns the name of an option as in C, or its numbers.
pub(super) fn option(level: i32, option: i32) -> String {
    match known(level, option) {
        Some(name) => name.to_owned(),
        None => format!("level {level} option {option}"),
    }
}

fn known(level: i32, option: i32) -> Option<&'static str> {
    let names: &[(i32, &str)] = match level {
        libc::SOL_SOCKET => &SOCKET,
        libc::IPPROTO_TCP => &TCP,
        libc::IPPROTO_IP => &IP,
        libc::IPPROTO_IPV6 => &IPV6,
        _ => return None,
    };
    names.iter().find(|(number, _)| *number == option).map(|(_, name)| *name)
}

/// Returns the value of an option: text for options with text, seconds for times, otherwise an
/// integer or bytes.
pub(super) fn value(level: i32, option: i32, bytes: &[u8]) -> String {
    let takes_text = matches!(
        (level, option),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION | libc::TCP_ULP)
            | (libc::SOL_SOCKET, libc::SO_BINDTODEVICE)
    );
    if takes_text {
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        return String::from_utf8_lossy(&bytes[..end]).into_owned();
    }
    let word = |at: usize| Some(i32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(i64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    match (level, option, bytes.len()) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO, 16) => {
            let seconds = long(0).unwrap_or(0) as f64 + long(8).unwrap_or(0) as f64 / 1e6;
            format!("{seconds} s")
        }
        (libc::SOL_SOCKET, libc::SO_LINGER, 8) => match (word(0), word(4)) {
            (Some(0), _) => "off".into(),
            (_, seconds) => format!("{} s", seconds.unwrap_or(0)),
        },
        (_, _, 4) => word(0).unwrap_or(0).to_string(),
        (_, _, 1) => bytes[0].to_string(),
        (_, _, 0) => "(empty)".into(),
        _ => bytes.iter().fold("0x".into(), |text, byte| format!("{text}{byte:02x}")),
    }
}

macro_rules! names {
    ($($name:ident),* $(,)?) => { [$((libc::$name, stringify!($name))),*] };
}

const SOCKET: [(i32, &str); 18] = names![
    SO_REUSEADDR,
    SO_REUSEPORT,
    SO_KEEPALIVE,
    SO_LINGER,
    SO_SNDBUF,
    SO_RCVBUF,
    SO_SNDBUFFORCE,
    SO_RCVBUFFORCE,
    SO_RCVTIMEO,
    SO_SNDTIMEO,
    SO_RCVLOWAT,
    SO_PRIORITY,
    SO_MARK,
    SO_BINDTODEVICE,
    SO_BUSY_POLL,
    SO_ZEROCOPY,
    SO_ATTACH_REUSEPORT_EBPF,
    SO_INCOMING_CPU,
];
const TCP: [(i32, &str); 17] = names![
    TCP_NODELAY,
    TCP_CORK,
    TCP_QUICKACK,
    TCP_CONGESTION,
    TCP_DEFER_ACCEPT,
    TCP_FASTOPEN,
    TCP_FASTOPEN_CONNECT,
    TCP_KEEPIDLE,
    TCP_KEEPINTVL,
    TCP_KEEPCNT,
    TCP_USER_TIMEOUT,
    TCP_NOTSENT_LOWAT,
    TCP_MAXSEG,
    TCP_SYNCNT,
    TCP_WINDOW_CLAMP,
    TCP_LINGER2,
    TCP_ULP,
];
const IP: [(i32, &str); 8] = names![
    IP_TOS,
    IP_TTL,
    IP_TRANSPARENT,
    IP_FREEBIND,
    IP_BIND_ADDRESS_NO_PORT,
    IP_MTU_DISCOVER,
    IP_RECVERR,
    IP_PKTINFO,
];
const IPV6: [(i32, &str); 6] = names![
    IPV6_V6ONLY,
    IPV6_TCLASS,
    IPV6_UNICAST_HOPS,
    IPV6_TRANSPARENT,
    IPV6_RECVPKTINFO,
    IPV6_RECVERR,
];
