//! The commands of SMTP, FTP, POP3 and IMAP.

use super::reply::Service;

/// A command, by its name.
#[derive(Clone, Copy, Default)]
pub(super) struct Command {
    /// The name; empty if it is not listed.
    pub name: &'static str,
    /// The protocol that the command identifies among those with numbered replies.
    pub of: u8,
    /// A login succeeds with it.
    pub logs_in: bool,
    /// It is a step of sending a mail.
    pub sends_mail: bool,
    /// The mail is sent with it (RFC 5321 §4.2.5).
    pub delivers: bool,
}

pub(super) const OF_ANY: u8 = 0;
pub(super) const OF_MAIL: u8 = 1;
pub(super) const OF_FILES: u8 = 2;

/// The mail after DATA.
pub(super) const MESSAGE: Command =
    Command { name: "message", of: OF_MAIL, logs_in: false, sends_mail: true, delivers: true };

/// Commands of SMTP (RFC 5321 §4.1.1, RFC 2033, RFC 3030) that no other protocol here has.
const MAIL: &[&str] = &[
    "EHLO", "HELO", "LHLO", "MAIL", "RCPT", "DATA", "BDAT", "VRFY", "EXPN", "ETRN", "TURN", "RSET",
];

/// Commands of FTP (RFC 959 §4.1, RFC 2228, RFC 2389, RFC 2428, RFC 3659, RFC 7151, and common
/// extensions).
const FILES: &[&str] = &[
    "USER", "PASS", "ACCT", "CWD", "CDUP", "SMNT", "REIN", "PORT", "PASV", "TYPE", "STRU", "MODE",
    "RETR", "STOR", "STOU", "APPE", "ALLO", "REST", "RNFR", "RNTO", "ABOR", "DELE", "RMD", "MKD",
    "PWD", "LIST", "NLST", "SITE", "SYST", "STAT", "FEAT", "OPTS", "SIZE", "MDTM", "MLST", "MLSD",
    "EPRT", "EPSV", "LPRT", "LPSV", "PBSZ", "PROT", "CCC", "MIC", "CONF", "ENC", "ADAT", "HOST",
    "LANG", "CLNT", "XCWD", "XMKD", "XRMD", "XPWD", "XCUP", "MFMT",
];

/// Commands of several of these protocols, and those of POP3 (RFC 1939, RFC 2449) and IMAP (RFC 9051
/// §6, RFC 2177, RFC 2971, RFC 4978, RFC 9208).
const OTHERS: &[&str] = &[
    "AUTH",
    "NOOP",
    "QUIT",
    "HELP",
    "STARTTLS",
    "APOP",
    "TOP",
    "UIDL",
    "CAPA",
    "STLS",
    "UTF8",
    "CAPABILITY",
    "LOGOUT",
    "AUTHENTICATE",
    "LOGIN",
    "ENABLE",
    "SELECT",
    "EXAMINE",
    "CREATE",
    "DELETE",
    "RENAME",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "LSUB",
    "NAMESPACE",
    "STATUS",
    "APPEND",
    "IDLE",
    "CLOSE",
    "UNSELECT",
    "CHECK",
    "EXPUNGE",
    "SEARCH",
    "FETCH",
    "STORE",
    "COPY",
    "MOVE",
    "UID",
    "ID",
    "GETQUOTA",
    "GETQUOTAROOT",
    "COMPRESS",
    "XLIST",
    "GETACL",
    "SORT",
];

/// Commands that prepare a connection for data (RFC 959 §4.1.2, RFC 2428, RFC 1639).
pub(super) const DATA_PORTS: [&str; 6] = ["PORT", "EPRT", "LPRT", "PASV", "EPSV", "LPSV"];

/// Returns the command with the name `word`.
pub(super) fn find(word: &[u8]) -> Command {
    let lists = [(MAIL, OF_MAIL), (FILES, OF_FILES), (OTHERS, OF_ANY)];
    for (names, of) in lists {
        let listed = names.iter().find(|name| name.as_bytes().eq_ignore_ascii_case(word));
        if let Some(&name) = listed {
            return Command {
                name,
                of,
                logs_in: LOGINS.contains(&name),
                sends_mail: matches!(name, "MAIL" | "RCPT" | "DATA" | "BDAT"),
                delivers: name == "BDAT",
            };
        }
    }
    Command::default()
}

/// Commands of IMAP that take numbers of messages for identifiers if UID stands before them (RFC 9051
/// §6.4.9, RFC 5256 §3).
const BY_UID: [(&str, &str); 8] = [
    ("COPY", "UID COPY"),
    ("EXPUNGE", "UID EXPUNGE"),
    ("FETCH", "UID FETCH"),
    ("MOVE", "UID MOVE"),
    ("SEARCH", "UID SEARCH"),
    ("SORT", "UID SORT"),
    ("STORE", "UID STORE"),
    ("THREAD", "UID THREAD"),
];

/// Returns the name of the command `word` behind UID; `UID` if it is not listed.
pub(super) fn by_uid(word: &[u8]) -> &'static str {
    let listed = BY_UID.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word));
    listed.map_or("UID", |(_, name)| name)
}

/// Returns whether IMAP has the command with this name, and begins no other line of a protocol with it.
pub(super) fn is_of_imap(name: &str) -> bool {
    let names = [
        "APPEND",
        "CAPABILITY",
        "CHECK",
        "CLOSE",
        "CREATE",
        "ENABLE",
        "EXAMINE",
        "EXPUNGE",
        "FETCH",
        "IDLE",
        "LIST",
        "LOGIN",
        "LOGOUT",
        "LSUB",
        "NAMESPACE",
        "NOOP",
        "SEARCH",
        "SELECT",
        "STATUS",
        "STORE",
        "UID",
        "UNSELECT",
    ];
    names.contains(&name)
}

/// Commands whose success is a login: of FTP (RFC 959 §4.1.1), SMTP (RFC 4954), POP3 and IMAP.
pub(crate) const LOGINS: [&str; 7] =
    ["USER", "PASS", "ACCT", "AUTH", "APOP", "AUTHENTICATE", "LOGIN"];

/// Commands that name a mechanism, whose exchange may be the login.
pub(super) const AUTHENTICATIONS: [&str; 2] = ["AUTH", "AUTHENTICATE"];

/// Returns whether an error `code` means only that the server does not offer `command`, or that a
/// client asked whether something exists: the client goes on without it.
pub(super) fn is_offer(service: Service, command: &Command, code: u16) -> bool {
    let name = command.name;
    // RFC 5321 §4.2.2, RFC 959 §4.2.2, RFC 2428 §2.
    let is_unknown = matches!(code, 500 | 502 | 504 | 522);
    match service {
        Service::Smtp => match name {
            // RFC 5321 §3.2, RFC 3207 §4: the client falls back to HELO, to no TLS.
            "EHLO" | "LHLO" | "STARTTLS" => is_unknown || code == 503,
            // RFC 4954 §4: another mechanism, or none, may be offered.
            "AUTH" => is_unknown || code == 503,
            // RFC 5321 §3.5.3, §7.3: a server need not tell which addresses exist.
            "VRFY" | "EXPN" | "HELP" | "ETRN" | "TURN" | "NOOP" | "" => true,
            _ => false,
        },
        Service::Ftp => match name {
            // The minimum implementation (RFC 959 §5.1).
            "USER" | "PASS" | "PORT" | "TYPE" | "MODE" | "STRU" | "RETR" | "STOR" => false,
            // Whether a file is there, and a directory already.
            "SIZE" | "MDTM" | "MLST" | "STAT" | "MKD" | "XMKD" => code >= 500,
            // The client goes on without TLS, or leaves (RFC 4217 §4).
            "AUTH" => code >= 500,
            _ => is_unknown,
        },
        // RFC 1939 §7, RFC 2449 §5, RFC 2595 §4: commands that a server need not have.
        Service::Pop3 => {
            matches!(name, "TOP" | "UIDL" | "CAPA" | "STLS" | "UTF8" | "LANG" | "")
                || name == "AUTH" && !command.logs_in
        }
        Service::Imap if name == "AUTHENTICATE" => !command.logs_in,
        Service::Imap => matches!(
            name,
            "ID" | "NAMESPACE"
                | "ENABLE"
                | "STARTTLS"
                | "COMPRESS"
                | "XLIST"
                | "IDLE"
                | "CREATE"
                | "GETQUOTA"
                | "GETQUOTAROOT"
                | "GETACL"
                | "SORT"
                | ""
        ),
        Service::Numbered => true,
    }
}
