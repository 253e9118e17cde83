//! The message of LDAP that ends a connection (RFC 4511 §4.3): it has no response, and both sides
//! close behind it. The rest of the protocol is treated as turns of direction.

/// Returns the number of bytes that follow, which is 0, if `bytes`, a whole message of a client, are an
/// UnbindRequest; otherwise `None`.
pub(super) fn unbind(bytes: &[u8]) -> Option<u64> {
    is_unbind(bytes).then_some(0)
}

/// An UnbindRequest is a sequence of a message id of one to four bytes and an empty element of
/// application type 2, in BER (RFC 4511 §5.1).
fn is_unbind(bytes: &[u8]) -> bool {
    let [0x30, length, 0x02, id_bytes, rest @ ..] = bytes else { return false };
    let id_bytes = usize::from(*id_bytes);
    (1..=4).contains(&id_bytes)
        && usize::from(*length) == bytes.len() - 2
        && rest.get(id_bytes..) == Some(&[0x42, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unbind_request_is_recognised_and_no_other_message() {
        for unbind in [&b"\x30\x05\x02\x01\x03\x42\x00"[..], b"\x30\x06\x02\x02\x01\x03\x42\x00"] {
            assert!(is_unbind(unbind), "{unbind:?}");
        }
        // A bind, a part, an unbind behind another message, and other lengths.
        for other in [
            &b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00"[..],
            b"\x30\x05\x02\x01\x03\x42",
            b"\x30\x06\x02\x01\x02\x50\x01\x01\x30\x05\x02\x01\x03\x42\x00",
            b"\x30\x06\x02\x01\x03\x42\x00",
            b"\x30\x04\x02\x00\x42\x00",
            b"",
        ] {
            assert!(!is_unbind(other), "{other:?}");
        }
    }
}
