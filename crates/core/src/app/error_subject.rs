//! What an error is about, as far as its code states: whether it is the server's own, and what has to
//! change.

use super::calls;
use super::error_code::ErrorCode;
use super::reply::{self, EnhancedStatus, Service};

/// What has to change so that the error does not come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Who asks: user, password, certificate, database, permissions.
    Credentials,
    /// A limit of connections.
    Connections,
    /// A limit of requests in a time.
    Rate,
    /// A limit of requests at a time on one connection (RFC 9113 §5.1.2).
    Streams,
    /// Something that is used up, such as a quota.
    Quota,
    /// The state of a Redis server, such as its memory or its role.
    RedisState,
    /// The server does not take part at present, such as a back end behind a proxy.
    Unavailable,
    /// The connection for data of FTP (RFC 959 §3.2).
    DataConnection,
    /// The session, which another client has taken over (MQTT 5.0 §3.1.4).
    TakeOver,
    /// A mail that is refused for now (RFC 5321 §4.2.1).
    MailForNow,
    /// A mail that is refused.
    Mail,
    /// A command of SMTP, its arguments or their order (RFC 5321 §4.2.3, RFC 3463 §3.6).
    Command,
    /// An address of a mail, or the mailbox that it names (RFC 3463 §3.2, §3.3).
    Mailbox,
    /// The system that takes mails (RFC 3463 §3.4).
    MailSystem,
    /// The way to the next system (RFC 3463 §3.5).
    MailRoute,
    /// The content of a mail (RFC 3463 §3.7).
    MailContent,
    /// A policy about mails (RFC 3463 §3.8).
    MailPolicy,
    /// The end of a statement that someone asked for (PostgreSQL's CancelRequest, MySQL's `KILL QUERY`), or
    /// that a limit of time brought about.
    Cancelled,
    /// Anything else.
    Other,
}

impl ErrorCode {
    /// Returns whether the error is the server's own, as it states, and not the request's.
    pub fn is_of_server(self) -> bool {
        match self {
            Self::Http(status) => status >= 500,
            // UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE,
            // DATA_LOSS (grpc.io, "Status codes").
            Self::Grpc(status) => matches!(status, 2 | 4 | 8 | 12..=15),
            // A failed handshake leaves nothing to ask for.
            Self::TlsAlert { .. } | Self::NoTls | Self::RedisClients => true,
            Self::SshStartups | Self::SshPenalty => true,
            Self::PostgresCancelled => false,
            // Insufficient resources, operator intervention, system error, internal error
            // (PostgreSQL, appendix A).
            Self::SqlState([b'5', b'3' | b'7' | b'8', ..] | [b'X', b'X', ..]) => true,
            // ER_CON_COUNT_ERROR, ER_OUT_OF_RESOURCES, ER_SERVER_SHUTDOWN, ER_HOST_IS_BLOCKED,
            // ER_TOO_MANY_USER_CONNECTIONS, ER_LOCK_WAIT_TIMEOUT (MySQL, "Server Error Message Reference").
            Self::Mysql(1040 | 1041 | 1053 | 1129 | 1203 | 1205) => true,
            // A replica answers each write with READONLY: its client is to ask another.
            Self::Redis(_) => self.subject() == Subject::RedisState && !self.is_redis(b"READONLY"),
            // INTERNAL_ERROR, REFUSED_STREAM, ENHANCE_YOUR_CALM (RFC 9113 §7).
            Self::Http2(code) => matches!(code, 2 | 7 | 11),
            // Server unavailable (3.1.1); unspecified, implementation specific, unavailable, busy,
            // shutting down, session taken over, quota or rate exceeded (5.0 §2.4).
            Self::Mqtt(code) => {
                matches!(code, 3 | 0x80 | 0x83 | 0x88 | 0x89 | 0x8b | 0x8e | 0x97 | 0x9f)
            }
            // connection-forced, resource-error, internal-error.
            Self::Amqp(code) => matches!(code, 320 | 506 | 541),
            Self::Reply(service, code, _) => service.is_of_server(code),
            code => calls::is_of_server(code),
        }
    }

    /// Returns whether a service that works would have answered the same request without it: even
    /// one such answer is a failure. A status that says that the server does not know what it is
    /// asked for is none.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Http(501 | 505) | Self::Grpc(12) | Self::TlsAlert { .. } => false,
            _ => self.is_of_server(),
        }
    }

    /// Returns what the error is about.
    pub fn subject(self) -> Subject {
        match self {
            // RFC 6585 §4; RFC 9113 §7.
            Self::Http(429) | Self::Http2(11) | Self::Mqtt(0x9f) => Subject::Rate,
            Self::Http2(7) => Subject::Streams,
            // grpc.io, "Status codes".
            Self::Grpc(8) | Self::Mqtt(0x97) => Subject::Quota,
            Self::Grpc(14) => Subject::Unavailable,
            // ER_QUERY_INTERRUPTED.
            Self::PostgresCancelled | Self::Mysql(1317) => Subject::Cancelled,
            Self::Mqtt(0x8e) => Subject::TakeOver,
            Self::Grpc(16) => Subject::Credentials,
            // too_many_connections, which is also sent for the limit of a role or a database.
            Self::SqlState([b'5', b'3', b'3', b'0', b'0']) | Self::RedisClients => {
                Subject::Connections
            }
            Self::SshStartups | Self::SshPenalty => Subject::Connections,
            // ER_CON_COUNT_ERROR, ER_TOO_MANY_USER_CONNECTIONS.
            Self::Mysql(1040 | 1203) => Subject::Connections,
            // Invalid authorization, invalid catalog name, insufficient privilege.
            Self::SqlState([b'2', b'8', ..] | [b'3', b'D', ..]) => Subject::Credentials,
            Self::SqlState([b'4', b'2', b'5', b'0', b'1']) => Subject::Credentials,
            // ER_DBACCESS_DENIED_ERROR, ER_ACCESS_DENIED_ERROR, ER_BAD_DB_ERROR, ER_HOST_NOT_PRIVILEGED,
            // ER_ACCESS_DENIED_NO_PASSWORD_ERROR, ER_MUST_CHANGE_PASSWORD_LOGIN,
            // ER_ACCOUNT_HAS_BEEN_LOCKED.
            Self::Mysql(1044 | 1045 | 1049 | 1130 | 1698 | 1862 | 3118) => Subject::Credentials,
            Self::Redis(_) if CREDENTIALS_OF_REDIS.iter().any(|it| self.is_redis(it)) => {
                Subject::Credentials
            }
            Self::Redis(_) if STATES_OF_REDIS.iter().any(|it| self.is_redis(it)) => {
                Subject::RedisState
            }
            // Bad user name or password, not authorized; bad authentication method (5.0).
            Self::Mqtt(4 | 5 | 0x86 | 0x87 | 0x8c) => Subject::Credentials,
            // access-refused.
            Self::Amqp(403) => Subject::Credentials,
            Self::Reply(service, code, status) => match (of_reply(service, code), status) {
                (Subject::Mail | Subject::Command, Some(status)) => of_status(status),
                (subject, _) => subject,
            },
            code if calls::is_credential(code) => Subject::Credentials,
            _ => Subject::Other,
        }
    }

    /// Returns whether this is the error of Redis with this first word.
    pub fn is_redis(self, word: &[u8]) -> bool {
        matches!(self, Self::Redis(padded) if padded.split(|&byte| byte == 0).next() == Some(word))
    }
}

/// Errors of Redis about who asks (redis.io, "Security", "ACL").
const CREDENTIALS_OF_REDIS: [&[u8]; 3] = [b"NOAUTH", b"WRONGPASS", b"NOPERM"];

/// Errors of Redis about its own state: memory, start, script, disk, replication, cluster (`src/server.c`,
/// `src/cluster.c`).
const STATES_OF_REDIS: [&[u8]; 8] = [
    b"OOM",
    b"LOADING",
    b"BUSY",
    b"MISCONF",
    b"MASTERDOWN",
    b"NOREPLICAS",
    b"CLUSTERDOWN",
    b"READONLY",
];

fn of_reply(service: Service, code: u16) -> Subject {
    match (service, code) {
        // RFC 959 §4.2.2: not logged in, account needed. RFC 4954 §6: authentication required, too
        // weak, failed.
        (Service::Ftp, 530 | 532) | (Service::Smtp, 530 | 534 | 535 | 538) => Subject::Credentials,
        (Service::Pop3 | Service::Imap, reply::LOGIN) => Subject::Credentials,
        (Service::Ftp, 425) => Subject::DataConnection,
        (Service::Smtp, 400..500) => Subject::MailForNow,
        // RFC 5321 §4.2.3: the command or its arguments, or their order.
        (Service::Smtp, 500..=504) => Subject::Command,
        (Service::Smtp, _) => Subject::Mail,
        _ => Subject::Other,
    }
}

fn of_status(status: EnhancedStatus) -> Subject {
    match status.subject {
        1 | 2 => Subject::Mailbox,
        3 => Subject::MailSystem,
        4 => Subject::MailRoute,
        5 => Subject::Command,
        6 => Subject::MailContent,
        7 => Subject::MailPolicy,
        _ => Subject::Mail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_servers_if_its_code_says_so() {
        let of = |code: &[u8; 5]| ErrorCode::SqlState(*code).is_of_server();
        assert!(of(b"53300") && of(b"57P03") && of(b"XX000"));
        assert!(!of(b"28P01") && !of(b"42601") && !of(b"23505"));
        assert!(ErrorCode::Mysql(1040).is_of_server() && !ErrorCode::Mysql(1045).is_of_server());
        assert!(ErrorCode::Http(503).is_failure() && !ErrorCode::Http(501).is_failure());
        assert!(!ErrorCode::Http(404).is_failure() && !ErrorCode::Grpc(12).is_failure());
    }

    #[test]
    fn a_redis_that_cannot_serve_says_so_and_a_replica_is_asked_for_the_wrong_thing() {
        let is_failure = |text: &[u8]| ErrorCode::of_redis(text).is_some_and(ErrorCode::is_failure);
        assert!(is_failure(b"OOM command not allowed") && is_failure(b"LOADING Redis is loading"));
        assert!(is_failure(b"ERR max number of clients reached"));
        assert!(!is_failure(b"READONLY You can't write") && !is_failure(b"WRONGTYPE Operation"));
    }

    #[test]
    fn an_enhanced_status_says_what_of_a_mail_is_refused() {
        let of = |code, text: &[u8]| {
            ErrorCode::Reply(Service::Smtp, code, EnhancedStatus::of(code, text)).subject()
        };
        assert_eq!(of(521, b"5.5.4 Syntax: BDAT count [LAST]"), Subject::Command);
        assert_eq!(of(550, b"5.1.1 unknown"), Subject::Mailbox);
        assert_eq!(of(552, b"5.3.4 too large"), Subject::MailSystem);
        assert_eq!(of(550, b"5.4.6 loops"), Subject::MailRoute);
        assert_eq!(of(554, b"5.6.0 no"), Subject::MailContent);
        assert_eq!(of(554, b"5.7.1 relaying"), Subject::MailPolicy);
        // Without a status, or with one of another class, only the code says it.
        for text in [&b"no"[..], b"4.1.1 unknown", b"5.1", b"5.1.1.1 a", b"5.8.1 a"] {
            assert_eq!(of(550, text), Subject::Mail, "{}", text.escape_ascii());
        }
        assert_eq!(of(501, b"no"), Subject::Command);
        assert_eq!(of(535, b"5.7.8 no"), Subject::Credentials);
        assert_eq!(of(450, b"4.2.0 later"), Subject::MailForNow);
    }

    #[test]
    fn a_refused_login_is_about_credentials_or_about_a_limit() {
        let of = |code: &[u8; 5]| ErrorCode::SqlState(*code).subject();
        assert_eq!(
            [of(b"28P01"), of(b"53300"), of(b"57P03")],
            [Subject::Credentials, Subject::Connections, Subject::Other]
        );
        assert_eq!(ErrorCode::Mysql(1040).subject(), Subject::Connections);
        assert_eq!(ErrorCode::Mysql(1045).subject(), Subject::Credentials);
        assert_eq!(ErrorCode::Reply(Service::Ftp, 530, None).subject(), Subject::Credentials);
        assert_eq!(ErrorCode::Reply(Service::Imap, reply::NO, None).subject(), Subject::Other);
    }
}
