//! The cipher suites whose records can be opened: those of TLS 1.3, and those of TLS 1.2 with AES in GCM
//! or CBC mode or with ChaCha20-Poly1305, whatever the key exchange.

/// The version of a connection, as far as its keys and records depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// A hash function of key schedules and MACs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha1,
    Sha256,
    Sha384,
}

/// The protection of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cipher {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
    /// With the hash function of the MAC.
    Aes128Cbc(Hash),
    /// With the hash function of the MAC.
    Aes256Cbc(Hash),
}

/// A cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    pub(super) version: Version,
    pub(super) cipher: Cipher,
    /// The hash function of the key schedule.
    pub(super) hash: Hash,
}

impl Suite {
    /// The suites of TLS 1.3 (RFC 8446 §B.4) that are supported, with a secret of this length: early
    /// data comes before the suite is known.
    pub fn with_secrets_of(bytes: usize) -> impl Iterator<Item = Self> {
        let all = [0x1301, 0x1302, 0x1303].into_iter().filter_map(Self::of);
        all.filter(move |suite| suite.hash.bytes() == bytes)
    }

    /// Returns by how many bytes a record is longer than its content, without padding; `None` with a block
    /// cipher, which pads. TLS 1.3 has a content type and a tag (RFC 8446 §5.2), AES-GCM in TLS 1.2 the explicit part
    /// of the nonce and a tag (RFC 5288 §3), ChaCha20-Poly1305 the tag alone (RFC 7905 §2).
    pub fn record_overhead(self) -> Option<u16> {
        const TAG_BYTES: u16 = 16;
        match (self.version, self.cipher) {
            (Version::Tls13, _) => Some(1 + TAG_BYTES),
            (Version::Tls12, Cipher::Aes128Gcm | Cipher::Aes256Gcm) => Some(8 + TAG_BYTES),
            (Version::Tls12, Cipher::ChaCha20Poly1305) => Some(TAG_BYTES),
            (Version::Tls12, Cipher::Aes128Cbc(_) | Cipher::Aes256Cbc(_)) => None,
        }
    }

    /// Returns the suite with this number of IANA's registry, if it is supported.
    pub fn of(number: u16) -> Option<Self> {
        use Cipher::{Aes128Cbc, Aes128Gcm, Aes256Cbc, Aes256Gcm, ChaCha20Poly1305};
        use Hash::{Sha1, Sha256, Sha384};
        let tls13 = |cipher, hash| Self { version: Version::Tls13, cipher, hash };
        let tls12 = |cipher, hash| Self { version: Version::Tls12, cipher, hash };
        Some(match number {
            0x1301 => tls13(Aes128Gcm, Sha256),
            0x1302 => tls13(Aes256Gcm, Sha384),
            0x1303 => tls13(ChaCha20Poly1305, Sha256),
            // RFC 5288, RFC 5289 and, with pre-shared keys, RFC 5487.
            0x009c | 0x009e | 0x00a2 | 0x00a8 | 0x00aa | 0xc02b | 0xc02f => {
                tls12(Aes128Gcm, Sha256)
            }
            0x009d | 0x009f | 0x00a3 | 0x00a9 | 0x00ab | 0xc02c | 0xc030 => {
                tls12(Aes256Gcm, Sha384)
            }
            // RFC 7905.
            0xcca8..=0xccae => tls12(ChaCha20Poly1305, Sha256),
            // RFC 5246 §A.5 and RFC 8422 §6.
            0x002f | 0x0032 | 0x0033 | 0xc009 | 0xc013 => tls12(Aes128Cbc(Sha1), Sha256),
            0x0035 | 0x0038 | 0x0039 | 0xc00a | 0xc014 => tls12(Aes256Cbc(Sha1), Sha256),
            0x003c | 0x0040 | 0x0067 => tls12(Aes128Cbc(Sha256), Sha256),
            0x003d | 0x006a | 0x006b => tls12(Aes256Cbc(Sha256), Sha256),
            // RFC 5289 §3.1.
            0xc023 | 0xc027 => tls12(Aes128Cbc(Sha256), Sha256),
            0xc024 | 0xc028 => tls12(Aes256Cbc(Sha384), Sha384),
            _ => return None,
        })
    }

    /// Returns the version of TLS that it belongs to.
    pub fn version(self) -> Version {
        self.version
    }
}

impl Hash {
    /// Length of its result, bytes.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
        }
    }
}

impl Cipher {
    /// Length of its key, bytes.
    pub(super) fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes128Cbc(_) => 16,
            Self::Aes256Gcm | Self::Aes256Cbc(_) | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Length of the key of its MAC, bytes.
    pub(super) fn mac_key_bytes(self) -> usize {
        match self {
            Self::Aes128Cbc(hash) | Self::Aes256Cbc(hash) => hash.bytes(),
            _ => 0,
        }
    }

    /// Length of the part of TLS 1.2's nonces that is a secret, bytes (RFC 5288 §3, RFC 7905 §2).
    pub(super) fn fixed_iv_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 4,
            Self::ChaCha20Poly1305 => 12,
            Self::Aes128Cbc(_) | Self::Aes256Cbc(_) => 0,
        }
    }
}
