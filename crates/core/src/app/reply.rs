//! Replies of SMTP, FTP, POP3 and IMAP: their codes, and what these say.

use std::fmt;

/// A protocol of commands and replies.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize,
)]
pub enum Service {
    /// Numbered replies, before a command has shown whose.
    Numbered,
    /// Simple Mail Transfer Protocol.
    Smtp,
    /// File Transfer Protocol.
    Ftp,
    /// Post Office Protocol, version 3.
    Pop3,
    /// Internet Message Access Protocol.
    Imap,
}

/// Code of a reply of POP3 or IMAP: `-ERR`, `NO`.
pub(super) const NO: u16 = 0;
/// `BAD`, or a refused greeting, `BYE`.
pub(super) const BAD: u16 = 1;
pub(super) const BYE: u16 = 2;
/// A login is refused.
pub(super) const LOGIN: u16 = 3;
/// The server states that the reason is its own (RFC 9051 §7.1, RFC 2449 §8.1, RFC 3206 §4).
pub(super) const OWN: u16 = 4;

/// Response codes of replies whose reason is the server's own.
pub(super) const OWN_REASONS: [&[u8]; 5] =
    [b"[UNAVAILABLE]", b"[SERVERBUG]", b"[INUSE]", b"[IN-USE]", b"[SYS/"];

impl Service {
    pub(super) fn is_of_server(self, code: u16) -> bool {
        match self {
            // RFC 5321 §4.2.1, RFC 959 §4.2.1: the same command may succeed later.
            Self::Numbered | Self::Smtp | Self::Ftp => (400..500).contains(&code),
            Self::Pop3 | Self::Imap => matches!(code, OWN | BYE),
        }
    }

    pub(super) fn write(
        self,
        code: u16,
        status: Option<EnhancedStatus>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        match (self, status) {
            (Self::Smtp, Some(EnhancedStatus { subject, detail })) => {
                write!(f, "SMTP {code} {}.{subject}.{detail}", code / 100)
            }
            _ => self.write_plain(code, f),
        }
    }

    fn write_plain(self, code: u16, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numbered => write!(f, "reply {code}"),
            Self::Smtp => write!(f, "SMTP {code}"),
            Self::Ftp => write!(f, "FTP {code}"),
            Self::Pop3 => f.write_str("POP3 -ERR"),
            Self::Imap => f.write_str(match code {
                BAD => "IMAP BAD",
                BYE => "IMAP BYE",
                _ => "IMAP NO",
            }),
        }
    }
}

/// Subject and detail of an enhanced status code of SMTP, whose class is that of the reply (RFC 3463 §2).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize,
)]
pub struct EnhancedStatus {
    pub(super) subject: u8,
    pub(super) detail: u16,
}

impl EnhancedStatus {
    /// The status behind the `code` of a reply, at the beginning of its `text`: `5.7.1 Relaying denied`.
    pub(super) fn of(code: u16, text: &[u8]) -> Option<Self> {
        let word = text.split(u8::is_ascii_whitespace).next()?;
        let mut parts = std::str::from_utf8(word).ok()?.split('.');
        let class = parts.next()?.parse::<u16>().ok()?;
        let (subject, detail) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        // Each part has three digits at most.
        let is_status = class == code / 100 && subject <= 7 && detail <= 999;
        (is_status && parts.next().is_none()).then_some(Self { subject, detail })
    }
}

/// Returns the code at the beginning of a line, and whether the line is the last of its reply.
pub(super) fn number(line: &[u8]) -> Option<(u16, bool)> {
    let (code, rest) = line.split_first_chunk::<3>()?;
    let is_code = matches!(code, [b'1'..=b'6', b'0'..=b'9', b'0'..=b'9']);
    let code = code.iter().fold(0, |value, digit| value * 10 + u16::from(digit.wrapping_sub(b'0')));
    match rest.first() {
        _ if !is_code => None,
        None | Some(b' ') => Some((code, true)),
        Some(b'-') => Some((code, false)),
        Some(_) => None,
    }
}
