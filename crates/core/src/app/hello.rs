//! The hellos of TLS (RFC 8446 §4.1): whether a session is resumed, whether the client has to say hello again, and
//! what keys depend on.

use super::tls::HTTP2;
use std::ops::Range;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
/// Position of the random value: after type and length of the handshake message, and the version.
const RANDOM_AT: usize = 4 + 2;
const RANDOM_BYTES: usize = 32;
/// The first bytes of the random value of a HelloRetryRequest: the SHA-256 of its name.
const RETRY: [u8; 8] = [0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11];
/// Bytes of the cipher suite and the compression method.
const CHOICE_BYTES: usize = 2 + 1;
const PRE_SHARED_KEY: u16 = 41;
const ENCRYPT_THEN_MAC: u16 = 22;
const SUPPORTED_VERSIONS: u16 = 43;
const ALPN: u16 = 16;
/// The extension of a server that chooses HTTP/2: the length of the list, and its one name (RFC 7301 §3.1).
const CHOICE_OF_HTTP2: [u8; 5] = [0, 3, 2, b'h', b'2'];

/// The parts of a ServerHello on which the keys of its connection depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerHello {
    /// Its random value.
    pub random: [u8; RANDOM_BYTES],
    /// The number of the cipher suite.
    pub suite: u16,
    /// The version up to TLS 1.2, as in the message.
    pub version: [u8; 2],
    /// The version is TLS 1.3.
    pub is_tls13: bool,
    /// It is a HelloRetryRequest (§4.1.4): the server wants another ClientHello, mostly with a key share of a
    /// group that the first one offered none of.
    pub is_retry: bool,
    /// It chooses a pre-shared key (§4.2.11), which resumes a session.
    pub has_pre_shared_key: bool,
    /// MACs are those of ciphertexts (RFC 7366).
    pub has_encrypt_then_mac: bool,
    /// The content of records is not compressed (RFC 5246 §6.2.2).
    pub is_plain: bool,
    /// Up to TLS 1.2: it chooses HTTP/2 (RFC 7301 §3.1). In TLS 1.3 the choice is encrypted.
    pub has_http2: bool,
}

impl ServerHello {
    /// Reads the ServerHello at the beginning of `message`; `None` if it is none, or incomplete.
    pub fn read(message: &[u8]) -> Option<Self> {
        let (&[kind, l1, l2, l3], _) = message.split_first_chunk()?;
        let end = 4 + u32::from_be_bytes([0, l1, l2, l3]) as usize;
        let message = message.get(..end).filter(|_| kind == SERVER_HELLO)?;
        let random = *message.get(RANDOM_AT..)?.first_chunk()?;
        let (&session_bytes, rest) = message[RANDOM_AT + RANDOM_BYTES..].split_first()?;
        let rest = rest.get(usize::from(session_bytes)..)?;
        let (&[suite_high, suite_low, compression], rest) = rest.split_first_chunk()?;
        let mut hello = Self {
            random,
            suite: u16::from_be_bytes([suite_high, suite_low]),
            version: [message[4], message[5]],
            is_tls13: false,
            is_retry: random.starts_with(&RETRY),
            has_pre_shared_key: false,
            has_encrypt_then_mac: false,
            is_plain: compression == 0,
            has_http2: false,
        };
        // Up to TLS 1.2 there need not be extensions (RFC 5246 §7.4.1.3).
        let Some((length, rest)) = rest.split_first_chunk() else { return Some(hello) };
        let mut rest = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
        while let Some((&[t1, t2, l1, l2], behind)) = rest.split_first_chunk() {
            let kind = u16::from_be_bytes([t1, t2]);
            hello.is_tls13 |= kind == SUPPORTED_VERSIONS;
            hello.has_pre_shared_key |= kind == PRE_SHARED_KEY;
            hello.has_encrypt_then_mac |= kind == ENCRYPT_THEN_MAC;
            let (content, behind) =
                behind.split_at_checked(usize::from(u16::from_be_bytes([l1, l2])))?;
            hello.has_http2 |= kind == ALPN && content == CHOICE_OF_HTTP2;
            rest = behind;
        }
        Some(hello)
    }

    /// Returns whether a session of TLS 1.3 is resumed; `None` if that is unknown: the version is
    /// earlier, or it is a HelloRetryRequest.
    pub fn resumes_session(&self) -> Option<bool> {
        (self.is_tls13 && !self.is_retry).then_some(self.has_pre_shared_key)
    }
}

/// The parts of a ClientHello that are named in reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientHello {
    /// The name of the server (RFC 6066 §3).
    pub server_name: Option<String>,
    /// The application protocols that it offers (RFC 7301 §3.1), in its order, at most [`OFFERS_MAX`].
    pub alpn: Vec<String>,
    /// The versions of TLS that it offers, in its order, at most [`OFFERS_MAX`].
    pub versions: Vec<u16>,
    /// It offers to resume a session (RFC 8446 §4.2.11).
    pub has_pre_shared_key: bool,
    /// Early data follows (RFC 8446 §4.2.10).
    pub has_early_data: bool,
}

/// Maximum number of application protocols and of versions that are kept of a ClientHello.
const OFFERS_MAX: usize = 32;

impl ClientHello {
    /// Reads the ClientHello at the beginning of `message`; `None` if it is none, incomplete or
    /// malformed.
    pub fn read(message: &[u8]) -> Option<Self> {
        let (&[kind, l1, l2, l3], rest) = message.split_first_chunk()?;
        let rest = rest.get(..u32::from_be_bytes([0, l1, l2, l3]) as usize);
        let rest = rest.filter(|_| kind == CLIENT_HELLO)?.get(2 + RANDOM_BYTES..)?;
        let (_session, rest) = split_vector(rest, 1)?;
        let (_suites, rest) = split_vector(rest, 2)?;
        let (_compression, rest) = split_vector(rest, 1)?;
        let mut hello = Self::default();
        let (mut rest, _) = if rest.is_empty() { (rest, rest) } else { split_vector(rest, 2)? };
        while let Some((&[t1, t2], behind)) = rest.split_first_chunk() {
            let (content, behind) = split_vector(behind, 2)?;
            hello.extension(u16::from_be_bytes([t1, t2]), content);
            rest = behind;
        }
        rest.is_empty().then_some(hello)
    }

    /// Reads an extension; a malformed one shows nothing.
    fn extension(&mut self, kind: u16, content: &[u8]) {
        const SERVER_NAME: u16 = 0;
        const EARLY_DATA: u16 = 42;
        match kind {
            SERVER_NAME => self.server_name = server_name(content),
            ALPN => self.alpn = alpn(content).unwrap_or_default(),
            SUPPORTED_VERSIONS => {
                let list = split_vector(content, 1).map_or(&[][..], |(list, _)| list);
                let versions = list.as_chunks().0.iter().map(|it| u16::from_be_bytes(*it));
                self.versions = versions.take(OFFERS_MAX).collect();
            }
            PRE_SHARED_KEY => self.has_pre_shared_key = true,
            EARLY_DATA => self.has_early_data = true,
            _ => {}
        }
    }
}

/// Splits off a vector whose length stands in front of it in `bytes` bytes (RFC 8446 §3.4).
fn split_vector(rest: &[u8], bytes: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = rest.split_at_checked(bytes)?;
    let length = length.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
    rest.split_at_checked(length)
}

/// Returns a name, if it has only the letters of host names and of protocols.
fn name(bytes: &[u8]) -> Option<String> {
    let is_plain = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic);
    is_plain.then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// Returns the host name in a list of server names (RFC 6066 §3).
fn server_name(content: &[u8]) -> Option<String> {
    const HOST_NAME: u8 = 0;
    let (mut list, _) = split_vector(content, 2)?;
    while let Some((&kind, rest)) = list.split_first() {
        let (bytes, behind) = split_vector(rest, 2)?;
        if kind == HOST_NAME {
            return name(bytes);
        }
        list = behind;
    }
    None
}

/// Returns the names in a list of protocols (RFC 7301 §3.1).
fn alpn(content: &[u8]) -> Option<Vec<String>> {
    let (mut list, _) = split_vector(content, 2)?;
    let mut names = Vec::new();
    while !list.is_empty() && names.len() < OFFERS_MAX {
        let (bytes, behind) = split_vector(list, 1)?;
        names.extend(name(bytes));
        list = behind;
    }
    Some(names)
}

/// Returns the random value of the ClientHello with which the handshake record `record` begins. It
/// stands at the beginning, so that the rest of the message is not needed.
pub(super) fn client_random(record: &[u8]) -> Option<[u8; RANDOM_BYTES]> {
    let is_hello = record.first() == Some(&CLIENT_HELLO);
    record.get(RANDOM_AT..)?.first_chunk().copied().filter(|_| is_hello)
}

/// Sets to zero everything in the hello at the beginning of `message` on which no report depends: lengths,
/// types, the random value of a HelloRetryRequest and the name of HTTP/2 remain. If the message is incomplete,
/// all of it becomes zero.
pub(crate) fn skeleton(message: &mut [u8]) {
    let kept = structure(message).or_else(|| structure_of_client(message)).unwrap_or_default();
    let mut at = 0;
    for range in kept {
        message[at..range.start].fill(0);
        at = range.end;
    }
    message[at..].fill(0);
}

/// Returns the ranges of the lengths and types of a ServerHello, in order.
fn structure(message: &[u8]) -> Option<Vec<Range<usize>>> {
    let (&[kind, l1, l2, l3], _) = message.split_first_chunk()?;
    let end = 4 + u32::from_be_bytes([0, l1, l2, l3]) as usize;
    let message = message.get(..end).filter(|_| kind == SERVER_HELLO)?;
    let is_retry = message.get(RANDOM_AT..)?.starts_with(&RETRY);
    let session_at = RANDOM_AT + RANDOM_BYTES;
    let shown = if is_retry { session_at } else { RANDOM_AT };
    let mut kept = vec![0..shown, session_at..session_at + 1];
    let choice_at = session_at + 1 + usize::from(*message.get(session_at)?);
    let mut at = choice_at + CHOICE_BYTES + 2;
    kept.push(choice_at..at.min(end));
    while let Some(&[t1, t2, l1, l2]) = message.get(at..).and_then(<[u8]>::first_chunk) {
        kept.push(at..at + 4);
        let next = at + 4 + usize::from(u16::from_be_bytes([l1, l2]));
        let is_http2 = message.get(at + 4..next) == Some(&CHOICE_OF_HTTP2);
        if u16::from_be_bytes([t1, t2]) == ALPN && is_http2 {
            kept.push(at + 4..next);
        }
        at = next;
    }
    (choice_at <= end).then_some(kept)
}

/// Returns the ranges of the lengths and types of a ClientHello, and of the name of HTTP/2 among the protocols
/// that it offers, in order.
fn structure_of_client(message: &[u8]) -> Option<Vec<Range<usize>>> {
    ClientHello::read(message)?;
    let length = |at: usize, bytes: usize| {
        let bytes = message.get(at..at + bytes)?;
        Some(bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)))
    };
    let mut kept: Vec<_> = std::iter::once(0..RANDOM_AT).collect();
    let mut at = RANDOM_AT + RANDOM_BYTES;
    for bytes in [1, 2, 1] {
        kept.push(at..at + bytes);
        at += bytes + length(at, bytes)?;
    }
    if at < message.len() {
        let end = at + 2 + length(at, 2)?;
        kept.push(at..at + 2);
        at += 2;
        while at < end {
            let next = at + 4 + length(at + 2, 2)?;
            kept.push(at..at + 4);
            if length(at, 2)? == usize::from(ALPN) && at + 4 < next {
                kept.push(at + 4..at + 6);
                at += 6;
                while at < next {
                    let name = at + 1..at + 1 + length(at, 1)?;
                    let is_http2 = message.get(name.clone()) == Some(HTTP2.as_bytes());
                    kept.push(if is_http2 { at..name.end } else { at..at + 1 });
                    at = name.end;
                }
            }
            at = next;
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resumes_session(message: &[u8]) -> Option<bool> {
        ServerHello::read(message)?.resumes_session()
    }

    fn hello(random: &[u8], extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend_from_slice(random);
        body.resize(2 + RANDOM_BYTES, 7);
        body.extend_from_slice(&[2, 9, 9, 0x13, 1, 0]);
        let all: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, value)| {
                let head = [kind.to_be_bytes(), (value.len() as u16).to_be_bytes()].concat();
                [&head[..], value].concat()
            })
            .collect();
        body.extend_from_slice(&(all.len() as u16).to_be_bytes());
        body.extend_from_slice(&all);
        let length = (body.len() as u32).to_be_bytes();
        [&[SERVER_HELLO], &length[1..], &body].concat()
    }

    #[test]
    fn pre_shared_key_is_a_resumption() {
        let full = hello(&[], &[(43, &[3, 4]), (51, &[0; 1124])]);
        let resumed = hello(&[], &[(43, &[3, 4]), (51, &[0; 36]), (41, &[0, 0])]);
        assert_eq!((resumes_session(&full), resumes_session(&resumed)), (Some(false), Some(true)));
    }

    #[test]
    fn earlier_versions_and_retries_show_nothing() {
        assert_eq!(resumes_session(&hello(&[], &[(41, &[0, 0])])), None);
        assert_eq!(resumes_session(&hello(&RETRY, &[(43, &[3, 4])])), None);
    }

    #[test]
    fn a_retry_is_known_by_its_random_value() {
        let [retry, hello] = [hello(&RETRY, &[(43, &[3, 4])]), hello(&[7; 8], &[(43, &[3, 4])])];
        let is_retry = |message: &[u8]| ServerHello::read(message).map(|hello| hello.is_retry);
        assert_eq!([is_retry(&retry), is_retry(&hello)], [Some(true), Some(false)]);
    }

    fn client_hello(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let all: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, value)| {
                let head = [kind.to_be_bytes(), (value.len() as u16).to_be_bytes()].concat();
                [&head[..], value].concat()
            })
            .collect();
        let fixed = [&[3, 3][..], &[7; RANDOM_BYTES], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
        let body = [&fixed[..], &(all.len() as u16).to_be_bytes(), &all].concat();
        let length = (body.len() as u32).to_be_bytes();
        [&[CLIENT_HELLO], &length[1..], &body].concat()
    }

    #[test]
    fn a_client_hello_names_server_protocols_and_versions() {
        let message = client_hello(&[
            (0, b"\0\x0e\0\0\x0bexample.org"),
            (16, b"\0\x06\x02h3\x02hq"),
            (43, &[4, 3, 4, 3, 3]),
            (42, &[]),
        ]);
        let hello = ClientHello::read(&message).expect("a hello");
        assert_eq!(hello.server_name.as_deref(), Some("example.org"));
        assert_eq!((hello.alpn, hello.versions), (vec!["h3".into(), "hq".into()], vec![772, 771]));
        assert!(hello.has_early_data && !hello.has_pre_shared_key);
        assert!((0..message.len()).all(|end| ClientHello::read(&message[..end]).is_none()));
    }

    #[test]
    fn a_server_name_with_control_characters_is_none() {
        let message = client_hello(&[(0, b"\0\x05\0\0\x02\x1bx")]);
        assert_eq!(ClientHello::read(&message), Some(ClientHello::default()));
    }

    #[test]
    fn a_truncated_or_malformed_hello_shows_nothing() {
        let whole = hello(&[], &[(43, &[3, 4]), (41, &[0, 0])]);
        assert!((0..whole.len()).all(|end| resumes_session(&whole[..end]).is_none()));
        let mut longer = hello(&[], &[(43, &[3, 4]), (41, &[0, 0])]);
        let last = longer.len() - 3;
        longer[last] = 200;
        assert_eq!(resumes_session(&longer), None);
    }
}
