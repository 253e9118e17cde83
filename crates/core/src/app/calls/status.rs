//! Codes of replies to calls: which are errors, and what they are about.
//!
//! Programs ask for files and entries to learn whether they exist. Codes that answer such a question are
//! no errors; nor are those that ask the client for its next step.

use crate::app::error_code::ErrorCode;
use std::fmt;

/// NTSTATUS codes with the severity of an error (MS-ERREF §2.3) that answer a question, or ask for the
/// next step: MORE_PROCESSING_REQUIRED, NOT_SUPPORTED, NO_SUCH_FILE, INVALID_DEVICE_REQUEST, END_OF_FILE,
/// INVALID_PARAMETER, OBJECT_NAME_NOT_FOUND, OBJECT_NAME_COLLISION, OBJECT_PATH_NOT_FOUND,
/// FILE_IS_A_DIRECTORY, NOT_A_DIRECTORY, PATH_NOT_COVERED, FS_DRIVER_REQUIRED, NOT_FOUND, INVALID_INFO_CLASS,
/// CANCELLED, DIRECTORY_NOT_EMPTY, NO_EAS_ON_FILE, INVALID_LEVEL.
const ANSWERS_OF_SMB: [u32; 19] = [
    0xc000_0016,
    0xc000_00bb,
    0xc000_000f,
    0xc000_0010,
    0xc000_0011,
    0xc000_000d,
    0xc000_0034,
    0xc000_0035,
    0xc000_003a,
    0xc000_00ba,
    0xc000_0103,
    0xc000_0257,
    0xc000_019c,
    0xc000_0225,
    0xc000_0003,
    0xc000_0120,
    0xc000_0101,
    0xc000_0052,
    0xc000_0148,
];

/// NTSTATUS codes with names (MS-ERREF §2.3.1).
const NAMES_OF_SMB: [(u32, &str); 16] = [
    (0xc000_0022, "ACCESS_DENIED"),
    (0xc000_0043, "SHARING_VIOLATION"),
    (0xc000_0064, "NO_SUCH_USER"),
    (0xc000_006a, "WRONG_PASSWORD"),
    (0xc000_006d, "LOGON_FAILURE"),
    (0xc000_006e, "ACCOUNT_RESTRICTION"),
    (0xc000_0071, "PASSWORD_EXPIRED"),
    (0xc000_0072, "ACCOUNT_DISABLED"),
    (0xc000_007f, "DISK_FULL"),
    (0xc000_009a, "INSUFFICIENT_RESOURCES"),
    (0xc000_00b5, "IO_TIMEOUT"),
    (0xc000_00c9, "NETWORK_NAME_DELETED"),
    (0xc000_00cc, "BAD_NETWORK_NAME"),
    (0xc000_0203, "USER_SESSION_DELETED"),
    (0xc000_0205, "INSUFF_SERVER_RESOURCES"),
    (0xc000_0234, "ACCOUNT_LOCKED_OUT"),
];

/// Names of the codes of RDP_NEG_FAILURE, from 1 on.
const NAMES_OF_RDP: [&str; 6] = [
    "SSL_REQUIRED_BY_SERVER",
    "SSL_NOT_ALLOWED_BY_SERVER",
    "SSL_CERT_NOT_ON_SERVER",
    "INCONSISTENT_FLAGS",
    "HYBRID_REQUIRED_BY_SERVER",
    "SSL_WITH_USER_AUTH_REQUIRED_BY_SERVER",
];

/// Result codes of LDAP that are no errors (RFC 4511 appendix A): success, sizeLimitExceeded,
/// compareFalse, compareTrue, referral, saslBindInProgress, noSuchAttribute, attributeOrValueExists,
/// noSuchObject, entryAlreadyExists.
const ANSWERS_OF_LDAP: [u16; 10] = [0, 4, 5, 6, 10, 14, 16, 20, 32, 68];

/// Error codes of Kerberos (RFC 4120 §7.5.9) that are no failures: S_PRINCIPAL_UNKNOWN, which asks
/// whether a service has a key; ETYPE_NOSUPP and PREAUTH_REQUIRED, which ask for the next step;
/// RESPONSE_TOO_BIG.
const ANSWERS_OF_KERBEROS: [u8; 4] = [7, 14, 25, 52];

/// Codes of ZooKeeper that answer a question: NoNode, BadVersion, NodeExists, NotEmpty
/// (`KeeperException.Code`, without the sign).
const ANSWERS_OF_ZOOKEEPER: [u16; 4] = [101, 103, 110, 111];

/// Statuses of memcached that answer a question, or ask for the next step: no error, key not found, key
/// exists, item not stored, authentication continues.
const ANSWERS_OF_MEMCACHED: [u16; 5] = [0, 1, 2, 5, 0x21];

/// Returns the error that a reply of ZooKeeper reports: a negative number.
pub(super) fn zookeeper(code: u32) -> Option<ErrorCode> {
    let code = u16::try_from(code.wrapping_neg()).ok().filter(|it| *it != 0)?;
    (!ANSWERS_OF_ZOOKEEPER.contains(&code)).then_some(ErrorCode::Zookeeper(code))
}

/// Returns the error that a status of memcached reports.
pub(super) fn memcached(status: u16) -> Option<ErrorCode> {
    let is_error = !ANSWERS_OF_MEMCACHED.contains(&status);
    is_error.then(|| ErrorCode::Memcached(u8::try_from(status).unwrap_or(u8::MAX)))
}

/// Returns the error that an NTSTATUS reports.
pub(super) fn smb(status: u32) -> Option<ErrorCode> {
    let is_error = status >> 30 == 3 && !ANSWERS_OF_SMB.contains(&status);
    is_error.then_some(ErrorCode::Smb(status))
}

/// Returns the error that a result code of LDAP reports.
pub(super) fn ldap(code: u16) -> Option<ErrorCode> {
    (!ANSWERS_OF_LDAP.contains(&code)).then_some(ErrorCode::Ldap(code))
}

/// Returns the error that a KRB-ERROR reports.
pub(super) fn kerberos(code: u8) -> Option<ErrorCode> {
    (!ANSWERS_OF_KERBEROS.contains(&code)).then_some(ErrorCode::Kerberos(code))
}

/// Returns whether `code`, of a reply to a call, is the server's own, as it states.
pub(in crate::app) fn is_of_server(code: ErrorCode) -> bool {
    match code {
        // DISK_FULL, INSUFFICIENT_RESOURCES, IO_TIMEOUT, INSUFF_SERVER_RESOURCES.
        ErrorCode::Smb(code) => {
            matches!(code, 0xc000_007f | 0xc000_009a | 0xc000_00b5 | 0xc000_0205)
        }
        // busy, unavailable, other (RFC 4511 appendix A.2).
        ErrorCode::Ldap(code) => matches!(code, 51 | 52 | 80),
        // SYSTEM_ERR (RFC 5531 §9).
        ErrorCode::OncRpc(code) => code == 5,
        // Server device failure, server device busy, gateway errors (V1.1b3 §7).
        ErrorCode::Modbus(code) => matches!(code, 4 | 6 | 10 | 11),
        // SVC_UNAVAILABLE.
        ErrorCode::Kerberos(code) => code == 29,
        // InterruptedAtShutdown, ShutdownInProgress (MongoDB manual, "Error Codes").
        ErrorCode::Mongodb(code) => matches!(code, 91 | 11600),
        // Server error, unavailable, overloaded, bootstrapping, timeouts of write and read (§9).
        ErrorCode::Cassandra(code) => {
            matches!(code, 0 | 0x1000 | 0x1001 | 0x1002 | 0x1100 | 0x1200)
        }
        // Memory, disk and log are full; no memory in time; no worker (SQL Server, "Database engine errors").
        ErrorCode::Tds(code) => matches!(code, 701 | 802 | 1105 | 8645 | 9002 | 10928),
        // Out of memory, internal error, busy, temporary failure.
        ErrorCode::Memcached(code) => matches!(code, 0x82 | 0x84..=0x86),
        // System error, runtime inconsistency, operation timeout.
        ErrorCode::Zookeeper(code) => matches!(code, 1 | 2 | 7),
        // Server timeout, service error, server error, thread pool exhausted.
        ErrorCode::Dubbo(code) => matches!(code, 31 | 70 | 80 | 100),
        // Server Error (RFC 8489 §14.8), Insufficient Capacity (RFC 8656 §19).
        ErrorCode::Stun(code) => matches!(code, 500 | 508),
        // TOO_BUSY, OUT_OF_SPACE, UNABLE_TO_COMPLY (RFC 6733 §7.1).
        ErrorCode::Diameter(code) => matches!(code, 3004 | 4002 | 5012),
        // BadUnexpectedError, BadInternalError, BadOutOfMemory, BadResourceUnavailable, BadTimeout,
        // BadServerHalted, BadTooManySessions.
        ErrorCode::OpcUa(code) => matches!(
            code,
            0x8001_0000
                | 0x8002_0000
                | 0x8003_0000
                | 0x8004_0000
                | 0x800a_0000
                | 0x800e_0000
                | 0x8056_0000
        ),
        // Out of memory.
        ErrorCode::EthernetIp(code) => code == 2,
        _ => false,
    }
}

/// Returns whether `code`, of a reply to a call, is about who asks.
pub(in crate::app) fn is_credential(code: ErrorCode) -> bool {
    match code {
        ErrorCode::Smb(code) => matches!(
            code,
            0xc000_0064
                | 0xc000_006a
                | 0xc000_006d
                | 0xc000_006e
                | 0xc000_0071
                | 0xc000_0072
                | 0xc000_0234
        ),
        // strongerAuthRequired, inappropriateAuthentication, invalidCredentials,
        // insufficientAccessRights.
        ErrorCode::Ldap(code) => matches!(code, 8 | 48 | 49 | 50),
        // C_PRINCIPAL_UNKNOWN, CLIENT_REVOKED, KEY_EXPIRED, PREAUTH_FAILED.
        ErrorCode::Kerberos(code) => matches!(code, 6 | 18 | 23 | 24),
        // Unauthorized, AuthenticationFailed.
        ErrorCode::Mongodb(code) => matches!(code, 13 | 18),
        // Bad credentials, unauthorized.
        ErrorCode::Cassandra(code) => matches!(code, 0x100 | 0x2100),
        // Login failed, in its forms (SQL Server, "Database engine errors").
        ErrorCode::Tds(code) => matches!(code, 18452 | 18456 | 18470 | 18486..=18488),
        // Authentication error.
        ErrorCode::Memcached(code) => code == 0x20,
        // NoAuth, AuthFailed.
        ErrorCode::Zookeeper(code) => matches!(code, 102 | 115),
        // Forbidden, Wrong Credentials (RFC 8656 §19).
        ErrorCode::Stun(code) => matches!(code, 403 | 441),
        // AUTHENTICATION_REJECTED, AUTHORIZATION_REJECTED, and of 3GPP USER_UNKNOWN (TS 29.229 §6.2.2.1).
        ErrorCode::Diameter(code) => matches!(code, 4001 | 5003),
        // BadUserAccessDenied, BadIdentityTokenInvalid, BadIdentityTokenRejected.
        ErrorCode::OpcUa(code) => matches!(code, 0x801f_0000 | 0x8020_0000 | 0x8021_0000),
        _ => false,
    }
}

/// Writes the code of a reply to a call.
pub(in crate::app) fn write(code: ErrorCode, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match code {
        ErrorCode::Smb(code) => match NAMES_OF_SMB.iter().find(|(it, _)| *it == code) {
            Some((_, name)) => write!(f, "NTSTATUS {name}"),
            None => write!(f, "NTSTATUS {code:#x}"),
        },
        ErrorCode::Ldap(code) => write!(f, "LDAP {code}"),
        ErrorCode::OncRpc(code) => write!(f, "RPC {code}"),
        ErrorCode::DceRpc(code) => write!(f, "DCE/RPC fault {code:#x}"),
        ErrorCode::Modbus(code) => write!(f, "Modbus exception {code}"),
        ErrorCode::Kerberos(code) => write!(f, "Kerberos {code}"),
        ErrorCode::Mongodb(code) => write!(f, "MongoDB {code}"),
        ErrorCode::Cassandra(code) => write!(f, "Cassandra {code:#x}"),
        ErrorCode::Tds(number) => write!(f, "SQL Server {number}"),
        ErrorCode::Memcached(code) => write!(f, "memcached {code:#x}"),
        ErrorCode::Zookeeper(code) => write!(f, "ZooKeeper -{code}"),
        ErrorCode::Thrift => write!(f, "Thrift exception"),
        ErrorCode::Dubbo(code) => write!(f, "Dubbo {code}"),
        ErrorCode::Stun(code) => write!(f, "STUN {code}"),
        ErrorCode::Diameter(code) => write!(f, "Diameter {code}"),
        ErrorCode::OpcUa(code) => write!(f, "OPC UA {code:#010x}"),
        ErrorCode::EthernetIp(code) => write!(f, "EtherNet/IP {code:#x}"),
        ErrorCode::S7(code) => write!(f, "S7 {code:#06x}"),
        ErrorCode::Rdp(code) => match NAMES_OF_RDP.get(usize::from(code).wrapping_sub(1)) {
            Some(name) => write!(f, "RDP {name}"),
            None => write!(f, "RDP {code}"),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_whether_something_exists_is_answered_by_no_error() {
        assert_eq!([smb(0), smb(0x103), smb(0xc000_0034), smb(0x8000_0006)], [None; 4]);
        assert_eq!([ldap(0), ldap(32), ldap(14)], [None; 3]);
        assert_eq!(kerberos(25), None);
        let shown = |code: Option<ErrorCode>| code.map(|it| it.to_string()).unwrap_or_default();
        assert_eq!(shown(smb(0xc000_006d)), "NTSTATUS LOGON_FAILURE");
        assert_eq!(shown(ldap(49)), "LDAP 49");
        assert!(
            [smb(0xc000_006d), ldap(49), kerberos(24)].into_iter().flatten().all(is_credential)
        );
        assert!([smb(0xc000_007f), ldap(51)].into_iter().flatten().all(is_of_server));
    }
}
