//! One secret, which is wiped when it is dropped.

use zeroize::Zeroize;

/// Maximum length of a secret, bytes: the master secret of TLS 1.2 (RFC 5246 §8.1), and secrets of TLS
/// 1.3 with SHA-384.
const SECRET_BYTES: usize = 48;

/// One secret of a TLS connection.
#[derive(Clone)]
pub struct Secret {
    bytes: [u8; SECRET_BYTES],
    length: u8,
}

impl Secret {
    /// Creates a secret of up to 48 bytes; `None` if `bytes` are none or too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut secret = Self { bytes: [0; SECRET_BYTES], length: bytes.len() as u8 };
        secret.bytes.get_mut(..bytes.len()).filter(|it| !it.is_empty())?.copy_from_slice(bytes);
        Some(secret)
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}
