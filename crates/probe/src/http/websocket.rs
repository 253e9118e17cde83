//! The handshake of a WebSocket (RFC 6455 §4.1): a nonce of its own for each connection, and the answer
//! to it.

use std::hash::{BuildHasher, RandomState};

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::{Request, ResponseError};
use crate::target::{Ask, Target};

/// The text that the server appends to the key (§1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The field that states the key.
const KEY: &str = "Sec-WebSocket-Key";
/// The other fields of the handshake.
const FIELDS: [(&str, &str); 3] =
    [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")];

/// The client's part of a handshake, which is another one for each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    key: String,
}

impl Handshake {
    /// Returns the handshake of a new connection; `None` if no WebSocket is asked for.
    pub fn of(target: &Target) -> Option<Handshake> {
        (target.ask == Ask::WebSocket).then(|| {
            let random = RandomState::new();
            let nonce = [0_u8, 1].map(|half| random.hash_one(half).to_be_bytes());
            Handshake { key: base64(&nonce.concat()) }
        })
    }

    /// Returns the fields of the request.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        FIELDS.into_iter().chain([(KEY, self.key.as_str())])
    }

    /// Returns the value of `Sec-WebSocket-Accept` that answers `request`, which may name a key itself.
    pub fn accept(&self, request: &Request) -> String {
        let named = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(KEY));
        let key = named.map_or(self.key.as_str(), |(_, key)| key);
        let both = [key, GUID].concat();
        base64(digest(&SHA1_FOR_LEGACY_USE_ONLY, both.as_bytes()).as_ref())
    }
}

/// Checks the fields of an answer with status 101 (§4.1), of which `field` returns the values.
///
/// # Errors
/// The client has to fail the connection.
pub(super) fn check<'a>(
    accept: &str,
    field: impl Fn(&str) -> Option<&'a [u8]>,
) -> Result<(), ResponseError> {
    let has = |name: &str, word: &[u8]| {
        field(name).is_some_and(|list| super::response::names(list, word))
    };
    if !has("upgrade", b"websocket") {
        return Err(ResponseError::Upgrade("its field Upgrade does not name a WebSocket"));
    }
    if !has("connection", b"upgrade") {
        return Err(ResponseError::Upgrade("its field Connection does not name the upgrade"));
    }
    match field("sec-websocket-accept") {
        None => Err(ResponseError::Upgrade("it lacks Sec-WebSocket-Accept")),
        Some(value) if value != accept.as_bytes() => Err(ResponseError::Upgrade(
            "its Sec-WebSocket-Accept answers another key, as one from a cache does",
        )),
        Some(_) => Ok(()),
    }
}

/// Returns the bytes in base64 with padding (RFC 4648 §4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            let is_padding = digit > group.len();
            text.push(if is_padding { '=' } else { char::from(ALPHABET[value as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6455 §1.3.
    #[test]
    fn the_standards_example_has_its_answer() {
        let handshake = Handshake { key: "dGhlIHNhbXBsZSBub25jZQ==".to_owned() };
        assert_eq!(handshake.accept(&Request::get()), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let named = ("sec-websocket-key".to_owned(), "dGhlIHNhbXBsZSBub25jZQ==".to_owned());
        let request = Request { headers: vec![named], ..Request::get() };
        let own = Handshake::of(&Target::parse("ws://host/").unwrap()).unwrap();
        assert_eq!(own.accept(&request), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    /// RFC 4648 §10.
    #[test]
    fn base64_is_padded() {
        for (text, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), coded);
        }
    }

    #[test]
    fn each_connection_has_a_key_of_its_own() {
        let target = Target::parse("ws://host/").unwrap();
        let keys = [(); 2].map(|()| Handshake::of(&target).unwrap().key);
        assert!(keys[0] != keys[1] && keys[0].len() == 24 && keys[0].ends_with("=="), "{keys:?}");
        assert_eq!(Handshake::of(&Target::parse("http://host/").unwrap()), None);
    }

    #[test]
    fn an_answer_that_is_no_handshake_is_refused() {
        let fields = |upgrade: &'static str, connection: &'static str, accept: &'static str| {
            move |name: &str| match name {
                "upgrade" => Some(upgrade.as_bytes()),
                "connection" => Some(connection.as_bytes()),
                "sec-websocket-accept" => Some(accept.as_bytes()).filter(|it| !it.is_empty()),
                _ => None,
            }
        };
        assert_eq!(check("a=", fields("WebSocket", "keep-alive, Upgrade", "a=")), Ok(()));
        for (upgrade, connection, accept) in [
            ("h2c", "upgrade", "a="),
            ("websocket", "keep-alive", "a="),
            ("websocket", "upgrade", ""),
            ("websocket", "upgrade", "A="),
        ] {
            assert!(check("a=", fields(upgrade, connection, accept)).is_err());
        }
    }
}
