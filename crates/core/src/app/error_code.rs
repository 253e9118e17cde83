//! The codes with which responses report errors.

use super::calls;
use super::reply::{EnhancedStatus, Service};
use crate::wire::Side;
use std::fmt;

/// Maximum length of the first word of a Redis error, bytes; those of Redis itself are shorter.
const WORD_BYTES: usize = 12;

/// Redis errors that redirect a client, or ask it to send a script: clients go on by themselves
/// (redis.io, "Redis cluster specification", "EVALSHA").
const REDIRECTIONS: [&[u8]; 3] = [b"MOVED", b"ASK", b"NOSCRIPT"];

/// First words of the errors of Redis itself (`src/server.c`, `src/cluster.c`, redis.io). Scripts
/// and modules may send others, which are not shown.
const REDIS_CODES: [&[u8]; 22] = [
    b"ERR",
    b"WRONGTYPE",
    b"WRONGPASS",
    b"NOAUTH",
    b"NOPERM",
    b"NOPROTO",
    b"LOADING",
    b"BUSY",
    b"BUSYKEY",
    b"BUSYGROUP",
    b"NOGROUP",
    b"OOM",
    b"READONLY",
    b"MISCONF",
    b"MASTERDOWN",
    b"NOREPLICAS",
    b"EXECABORT",
    b"UNBLOCKED",
    b"CLUSTERDOWN",
    b"CROSSSLOT",
    b"TRYAGAIN",
    b"NOTBUSY",
];

/// Text of the error with which Redis refuses a connection beyond `maxclients`, after its `-`
/// (`src/networking.c`).
const REDIS_CLIENTS: &[u8] = b"ERR max number of clients reached";

/// Lines with which OpenSSH refuses a connection before it has sent its version (RFC 4253 §4.2; `sshd.c`).
const SSH_REFUSALS: [(&[u8], ErrorCode); 2] = [
    (b"Exceeded MaxStartups\r\n", ErrorCode::SshStartups),
    (b"Not allowed at this time\r\n", ErrorCode::SshPenalty),
];

/// SQLSTATE of a statement that was cancelled (PostgreSQL, appendix A).
const QUERY_CANCELED: [u8; 5] = *b"57014";

/// Beginning of its message, in English, and of that of one which was cancelled upon a request, and not by a
/// limit of the server (`src/backend/tcop/postgres.c`).
const POSTGRES_CANCELS: &[u8] = b"Mcanceling statement due to ";
const POSTGRES_CANCELLED: &[u8] = b"Mcanceling statement due to user";

/// Returns the code at the beginning of a Redis error, after its `-`, if it is one of Redis itself.
pub(crate) fn redis_code(message: &[u8]) -> Option<&[u8]> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let word = message.split(is_space).next().unwrap_or_default();
    let is_known = REDIS_CODES.contains(&word) || REDIRECTIONS.contains(&word);
    is_known.then_some(word)
}

/// Level of a TLS alert that ends the connection (RFC 5246 §7.2).
const FATAL: u8 = 2;

/// The code with which a response reports an error, by its protocol.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize,
)]
pub enum ErrorCode {
    /// Status code of HTTP, 400 to 599 (RFC 9110 §15.5, §15.6).
    Http(u16),
    /// Status code of gRPC, except 0.
    Grpc(u16),
    /// SQLSTATE of PostgreSQL's ErrorResponse.
    SqlState([u8; 5]),
    /// The error with which PostgreSQL ends a statement that was cancelled (SQLSTATE 57014), unless its
    /// message states a limit of the server. The message may be in any language.
    PostgresCancelled,
    /// Error number of MySQL's ERR packet.
    Mysql(u16),
    /// First word of a Redis error (`ERR`, `WRONGTYPE`), padded with zeros.
    Redis([u8; WORD_BYTES]),
    /// The error with which Redis refuses a connection beyond `maxclients`.
    RedisClients,
    /// The line with which OpenSSH refuses a connection beyond `MaxStartups`.
    SshStartups,
    /// The line with which OpenSSH refuses a connection of an address that it penalises
    /// (`PerSourcePenalties`).
    SshPenalty,
    /// Error code of an RST_STREAM or GOAWAY frame of HTTP/2, below 256 (RFC 9113 §7).
    Http2(u8),
    /// Return code of MQTT 3.1.1 (§3.2.2.3), 1 to 5, or reason code of MQTT 5.0 (§2.4), 128 or more.
    Mqtt(u8),
    /// Reply code of AMQP 0-9-1 (§1.2), 300 or more.
    Amqp(u16),
    /// NTSTATUS of a response of SMB (MS-ERREF §2.3) that is an error.
    Smb(u32),
    /// Result code of LDAP (RFC 4511 appendix A).
    Ldap(u16),
    /// State of a reply of ONC RPC that was not executed (RFC 5531 §9), or 255 if it was rejected.
    OncRpc(u8),
    /// Status of a fault of DCE/RPC (C706 appendix E).
    DceRpc(u32),
    /// Code of a Modbus exception (V1.1b3 §7).
    Modbus(u8),
    /// Error code of Kerberos (RFC 4120 §7.5.9).
    Kerberos(u8),
    /// Code of a failed command of MongoDB, or 0.
    Mongodb(u32),
    /// Error code of Cassandra's native protocol (version 4, §9).
    Cassandra(u16),
    /// Number of an error of TDS (MS-TDS §2.2.7.10).
    Tds(u32),
    /// Status of a response of memcached's binary protocol.
    Memcached(u8),
    /// Error code of ZooKeeper, without its sign (`KeeperException.Code`).
    Zookeeper(u16),
    /// An exception that Thrift itself reports.
    Thrift,
    /// Status of a response of Dubbo that is not 20.
    Dubbo(u8),
    /// Error code of STUN (RFC 8489 §14.8).
    Stun(u16),
    /// Result code of Diameter, 3000 or more (RFC 6733 §7.1).
    Diameter(u16),
    /// Status code of OPC UA that is bad (OPC 10000-4 §7.39).
    OpcUa(u32),
    /// Status of EtherNet/IP's encapsulation.
    EthernetIp(u8),
    /// Error class and code of S7.
    S7(u16),
    /// Code of RDP_NEG_FAILURE (MS-RDPBCGR §2.2.1.2.2).
    Rdp(u8),
    /// A reply to a command of SMTP, FTP, POP3 or IMAP.
    Reply(Service, u16, Option<EnhancedStatus>),
    /// A fatal TLS alert (RFC 8446 §6): the side that sent it refuses the handshake.
    TlsAlert {
        /// The side that sent it.
        from: Side,
        /// Its description.
        description: u8,
    },
    /// A ClientHello was answered by bytes that are no TLS record (RFC 8446 §5.1).
    NoTls,
}

impl ErrorCode {
    /// Returns the error of an HTTP response with `status`, if it reports one.
    #[inline]
    pub fn of_http(status: u16) -> Option<Self> {
        (400..600).contains(&status).then_some(Self::Http(status))
    }

    /// Returns the error of a gRPC response with `status`, if it reports one.
    pub(super) fn of_grpc(status: u16) -> Option<Self> {
        (status != 0).then_some(Self::Grpc(status))
    }

    /// Returns the error in the fields of PostgreSQL's ErrorResponse, as far as they were captured:
    /// each is a type and a text that ends with zero.
    pub(super) fn of_postgres(fields: &[u8]) -> Self {
        let code = fields.split(|&byte| byte == 0).find_map(|field| field.strip_prefix(b"C"));
        let code = code.filter(|code| code.iter().all(u8::is_ascii_alphanumeric));
        let code = code.and_then(|code| <[u8; 5]>::try_from(code).ok());
        let says = |text: &[u8]| fields.split(|&byte| byte == 0).any(|it| it.starts_with(text));
        // Only a message in English states a limit of the server.
        let is_limit = says(POSTGRES_CANCELS) && !says(POSTGRES_CANCELLED);
        if code == Some(QUERY_CANCELED) && !is_limit {
            return Self::PostgresCancelled;
        }
        Self::SqlState(code.unwrap_or(*b"XX000"))
    }

    /// Returns whether PostgreSQL's ErrorResponse with these fields ends the session ("Error and
    /// Notice Message Fields": severity `V`, and in its place `S` before version 9.6).
    pub(super) fn ends_postgres(fields: &[u8]) -> bool {
        let ends = [&b"VFATAL"[..], b"VPANIC", b"SFATAL", b"SPANIC"];
        fields.split(|&byte| byte == 0).any(|field| ends.contains(&field))
    }

    /// Returns the error of a Redis reply, after its `-`; `None` for a redirection.
    pub(super) fn of_redis(message: &[u8]) -> Option<Self> {
        if message.starts_with(REDIS_CLIENTS) {
            return Some(Self::RedisClients);
        }
        let word = redis_code(message).unwrap_or(b"ERR");
        if REDIRECTIONS.contains(&word) {
            return None;
        }
        let mut padded = [0; WORD_BYTES];
        padded.iter_mut().zip(word).for_each(|(slot, &byte)| *slot = byte);
        Some(Self::Redis(padded))
    }

    /// Returns the error that the first `bytes` of a server of SSH report, if they refuse the connection.
    pub(super) fn of_ssh(bytes: &[u8]) -> Option<Self> {
        SSH_REFUSALS.into_iter().find(|(line, _)| bytes == *line).map(|(_, code)| code)
    }

    /// Returns the error of a TLS alert of `from`, if it is fatal. TLS 1.3 ignores the level, and
    /// only `close_notify` and `user_canceled` are no errors (RFC 8446 §6.1).
    pub(super) fn of_alert(from: Side, level: u8, description: u8) -> Option<Self> {
        let is_closing = matches!(description, 0 | 90);
        (level == FATAL && !is_closing).then_some(Self::TlsAlert { from, description })
    }

    /// Returns the side that ended a TLS handshake with this alert.
    pub fn refuser(self) -> Option<Side> {
        match self {
            Self::TlsAlert { from, .. } => Some(from),
            _ => None,
        }
    }

    /// Returns whether the sender of this alert does not accept the certificate of its peer, or has
    /// none from it (RFC 8446 §6.2).
    pub fn is_about_certificate(self) -> bool {
        matches!(self, Self::TlsAlert { description: 42..=46 | 48 | 116, .. })
    }

    /// Returns what RFC 8446 §6.2 says of the most frequent alerts that end a handshake, after "it
    /// means".
    pub fn alert_meaning(self) -> Option<&'static str> {
        let Self::TlsAlert { description, .. } = self else { return None };
        Some(match description {
            40 => "no acceptable set of security parameters could be negotiated",
            42 => "the certificate is corrupt, or a signature in it is wrong",
            43 => "the certificate is of an unsupported type",
            44 => "the certificate was revoked by its signer",
            45 => "the certificate has expired, or is not valid now",
            46 => "the certificate is not acceptable for a reason that is not specified",
            48 => "no CA of the chain is trusted",
            70 => "the protocol version is not supported",
            71 => "the sender requires more secure parameters than the peer supports",
            80 => "an error in the sender, for which the peer is not to blame",
            112 => "no server is known by the name that the client asked for",
            116 => "a certificate of the client was asked for, and none came",
            120 => "none of the application protocols that the client offers is supported",
            _ => return None,
        })
    }

    /// Returns whether the response asks for credentials, with which the client repeats the
    /// request (RFC 9110 §11).
    pub fn is_challenge(self) -> bool {
        matches!(self, Self::Http(401 | 407))
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(status) => write!(f, "{status}"),
            Self::Grpc(status) => write!(f, "gRPC {status}"),
            Self::SqlState(code) => write!(f, "SQLSTATE {}", String::from_utf8_lossy(code)),
            Self::PostgresCancelled => f.write_str("SQLSTATE 57014, cancelled"),
            Self::Mysql(number) => write!(f, "MySQL {number}"),
            Self::Redis(word) => {
                let end = word.iter().position(|&byte| byte == 0).unwrap_or(word.len());
                f.write_str(&String::from_utf8_lossy(word.get(..end).unwrap_or_default()))
            }
            Self::RedisClients => f.write_str("ERR max number of clients reached"),
            Self::SshStartups => f.write_str("Exceeded MaxStartups"),
            Self::SshPenalty => f.write_str("Not allowed at this time"),
            Self::Http2(code) => match http2_name(*code) {
                Some(name) => f.write_str(name),
                None => write!(f, "HTTP/2 error {code}"),
            },
            Self::Mqtt(code) => match mqtt_name(*code) {
                Some(name) => write!(f, "MQTT {code}, {name}"),
                None => write!(f, "MQTT {code}"),
            },
            Self::Amqp(code) => write!(f, "AMQP {code}"),
            Self::Reply(service, code, status) => service.write(*code, *status, f),
            Self::TlsAlert { description, .. } => match alert_name(*description) {
                Some(name) => write!(f, "alert {name}"),
                None => write!(f, "alert {description}"),
            },
            Self::NoTls => f.write_str("no TLS"),
            code => calls::write(*code, f),
        }
    }
}

/// Returns the name of an error code of HTTP/2 (RFC 9113 §7).
fn http2_name(code: u8) -> Option<&'static str> {
    Some(match code {
        1 => "PROTOCOL_ERROR",
        2 => "INTERNAL_ERROR",
        3 => "FLOW_CONTROL_ERROR",
        4 => "SETTINGS_TIMEOUT",
        5 => "STREAM_CLOSED",
        6 => "FRAME_SIZE_ERROR",
        7 => "REFUSED_STREAM",
        8 => "CANCEL",
        9 => "COMPRESSION_ERROR",
        10 => "CONNECT_ERROR",
        11 => "ENHANCE_YOUR_CALM",
        12 => "INADEQUATE_SECURITY",
        13 => "HTTP_1_1_REQUIRED",
        _ => return None,
    })
}

/// Returns the meaning of the most frequent codes of MQTT (3.1.1 §3.2.2.3, 5.0 §2.4).
fn mqtt_name(code: u8) -> Option<&'static str> {
    Some(match code {
        1 | 0x84 => "protocol version not supported",
        2 | 0x85 => "client identifier rejected",
        3 | 0x88 => "server unavailable",
        4 | 0x86 => "bad user name or password",
        5 | 0x87 => "not authorized",
        0x80 => "unspecified error",
        0x81 => "malformed packet",
        0x82 => "protocol error",
        0x83 => "implementation specific error",
        0x89 => "server busy",
        0x8a => "banned",
        0x8b => "server shutting down",
        0x8c => "bad authentication method",
        0x8d => "keep alive timeout",
        0x8e => "session taken over",
        0x8f => "topic filter invalid",
        0x90 => "topic name invalid",
        0x95 => "packet too large",
        0x97 => "quota exceeded",
        0x9c => "use another server",
        0x9d => "server moved",
        0x9f => "connection rate exceeded",
        _ => return None,
    })
}

/// Returns the name of a TLS alert (RFC 8446 §6).
fn alert_name(description: u8) -> Option<&'static str> {
    Some(match description {
        10 => "unexpected_message",
        20 => "bad_record_mac",
        40 => "handshake_failure",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        109 => "missing_extension",
        110 => "unsupported_extension",
        112 => "unrecognized_name",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(code: Option<ErrorCode>) -> Option<String> {
        code.map(|code| code.to_string())
    }

    #[test]
    fn codes_are_shown_as_their_protocols_write_them() {
        assert_eq!(shown(ErrorCode::of_http(503)).as_deref(), Some("503"));
        assert_eq!(shown(ErrorCode::of_http(304)), None);
        assert_eq!(shown(ErrorCode::of_grpc(14)).as_deref(), Some("gRPC 14"));
        let fields = b"SERROR\0VERROR\0C42P01\0Mrelation \"a\" does not exist\0\0";
        assert_eq!(ErrorCode::of_postgres(fields).to_string(), "SQLSTATE 42P01");
        assert_eq!(
            shown(ErrorCode::of_redis(b"WRONGTYPE Operation")).as_deref(),
            Some("WRONGTYPE")
        );
        let alert = ErrorCode::of_alert(Side::Server, 2, 40);
        assert_eq!(shown(alert).as_deref(), Some("alert handshake_failure"));
    }

    #[test]
    fn an_alert_is_about_the_certificate_of_the_peer_of_its_sender() {
        let alert = |description| ErrorCode::of_alert(Side::Client, 2, description);
        assert_eq!(alert(46).and_then(ErrorCode::refuser), Some(Side::Client));
        let is_about = |it| alert(it).is_some_and(ErrorCode::is_about_certificate);
        assert_eq!(
            [40, 42, 46, 47, 48, 80, 116].map(is_about),
            [false, true, true, false, true, false, true]
        );
    }

    #[test]
    fn a_fatal_error_of_postgres_ends_its_session() {
        assert!(ErrorCode::ends_postgres(b"SFATAL\0VFATAL\0C53300\0Mtoo many\0"));
        assert!(ErrorCode::ends_postgres(b"SSCHWERWIEGEND\0VFATAL\0C28P01\0"));
        assert!(!ErrorCode::ends_postgres(b"SERROR\0VERROR\0C42601\0MVFATAL\0"));
    }

    #[test]
    fn a_redirection_is_no_error() {
        assert_eq!(ErrorCode::of_redis(b"MOVED 3999 127.0.0.1:6381"), None);
        assert_eq!(ErrorCode::of_alert(Side::Server, 1, 0), None);
    }

    #[test]
    fn a_text_of_the_application_is_no_code() {
        for text in [&b"alice is not here"[..], b"ALICE"] {
            assert_eq!(shown(ErrorCode::of_redis(text)).as_deref(), Some("ERR"));
        }
        assert_eq!(shown(ErrorCode::of_redis(b"")).as_deref(), Some("ERR"));
        let full = ErrorCode::of_redis(b"ERR max number of clients reached");
        assert_eq!(full, Some(ErrorCode::RedisClients));
        let cancelled = b"SERROR\0VERROR\0C57014\0Mcanceling statement due to user req";
        assert_eq!(ErrorCode::of_postgres(cancelled), ErrorCode::PostgresCancelled);
        let translated = "SFEHLER\0VERROR\0C57014\0Mstorniere Anfrage wegen Benutzeraufforderung";
        let translated = ErrorCode::of_postgres(translated.as_bytes());
        assert_eq!(shown(Some(translated)).as_deref(), Some("SQLSTATE 57014, cancelled"));
        let timed_out = b"SERROR\0VERROR\0C57014\0Mcanceling statement due to statemen";
        assert_eq!(ErrorCode::of_postgres(timed_out).to_string(), "SQLSTATE 57014");
        let cut = ErrorCode::of_postgres(b"SERROR\0C42<p\0");
        assert_eq!(cut.to_string(), "SQLSTATE XX000");
    }
}
