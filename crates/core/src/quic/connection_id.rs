//! Connection IDs (RFC 9000 §5.1).

/// Maximum length, bytes (RFC 9000 §17.2).
const MAX_BYTES: usize = 20;

/// A connection ID of up to 20 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionId {
    bytes: [u8; MAX_BYTES],
    length: u8,
}

impl ConnectionId {
    /// Returns the first 20 of `bytes` as an ID; headers are read only with as many.
    pub fn new(bytes: &[u8]) -> Self {
        let length = bytes.len().min(MAX_BYTES);
        let mut id = Self { bytes: [0; MAX_BYTES], length: length as u8 };
        id.bytes[..length].copy_from_slice(&bytes[..length]);
        id
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}
