//! The ServerHello of TLS (RFC 8446 §4.1.3), read only to see whether a session is resumed, or whether the
//! client has to send its ClientHello again (§4.1.4).

use std::ops::Range;

const SERVER_HELLO: u8 = 2;
/// Position of the random value: after type and length of the handshake message, and the version.
const RANDOM_AT: usize = 4 + 2;
const RANDOM_BYTES: usize = 32;
/// The first bytes of the random value of a HelloRetryRequest: the SHA-256 of its name.
const RETRY: [u8; 8] = [0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11];
/// Bytes of the cipher suite and the compression method.
const CHOICE_BYTES: usize = 2 + 1;
const PRE_SHARED_KEY: u16 = 41;
const SUPPORTED_VERSIONS: u16 = 43;

/// Returns whether `message` begins with a HelloRetryRequest (§4.1.4): the server wants another ClientHello,
/// mostly with a key share of a group that the first one offered none of.
pub(super) fn asks_again(message: &[u8]) -> bool {
    let random = message.get(RANDOM_AT..RANDOM_AT + RETRY.len());
    message.first() == Some(&SERVER_HELLO) && random == Some(&RETRY)
}

/// Returns whether the TLS 1.3 ServerHello at the beginning of `message` chooses a pre-shared key
/// (§4.2.11), which resumes a session. `None` if that is unknown: the version is earlier, it is a
/// HelloRetryRequest, or it is incomplete.
pub(super) fn resumes_session(message: &[u8]) -> Option<bool> {
    let (&[kind, l1, l2, l3], _) = message.split_first_chunk()?;
    let end = 4 + u32::from_be_bytes([0, l1, l2, l3]) as usize;
    let message = message.get(..end)?;
    let random = message.get(RANDOM_AT..RANDOM_AT + RANDOM_BYTES)?;
    if kind != SERVER_HELLO || random.starts_with(&RETRY) {
        return None;
    }
    let rest = &message[RANDOM_AT + RANDOM_BYTES..];
    let (&session_bytes, rest) = rest.split_first()?;
    let rest = rest.get(usize::from(session_bytes) + CHOICE_BYTES..)?;
    let (length, rest) = rest.split_first_chunk()?;
    let mut rest = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
    let (mut is_tls13, mut has_key) = (false, false);
    while let Some((&[t1, t2, l1, l2], behind)) = rest.split_first_chunk() {
        let kind = u16::from_be_bytes([t1, t2]);
        is_tls13 |= kind == SUPPORTED_VERSIONS;
        has_key |= kind == PRE_SHARED_KEY;
        rest = behind.get(usize::from(u16::from_be_bytes([l1, l2]))..)?;
    }
    is_tls13.then_some(has_key)
}

/// Sets to zero everything that [`resumes_session`] does not read in the ServerHello at the
/// beginning of `message`; lengths, types and the random value of a HelloRetryRequest remain. If
/// the message is incomplete, all of it becomes zero.
pub(crate) fn skeleton(message: &mut [u8]) {
    let kept = structure(message).unwrap_or_default();
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
    while let Some(&[_, _, l1, l2]) = message.get(at..).and_then(<[u8]>::first_chunk) {
        kept.push(at..at + 4);
        at += 4 + usize::from(u16::from_be_bytes([l1, l2]));
    }
    (choice_at <= end).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(asks_again(&retry) && !asks_again(&hello));
        assert!(!asks_again(&retry[..RANDOM_AT + RETRY.len() - 1]));
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
