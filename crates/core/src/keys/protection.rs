//! The protection of the records of one direction under one set of keys (RFC 8446 §5.2, RFC 5246 §6.2.3).

use super::schedule::{expand_label, key_block, mac, next_generation};
use super::secret::Secret;
use super::suite::{Cipher, Hash, Suite, Version};
use super::{Label, Random, Secrets};
use aes::{Aes128, Aes256};
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use cbc::cipher::{Array, BlockModeDecrypt, KeyIvInit};
use chacha20poly1305::ChaCha20Poly1305;
use std::ops::Range;
use zeroize::{Zeroize, Zeroizing};

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 5;
/// Bytes of the tag of all AEAD ciphers of TLS.
const TAG_BYTES: usize = 16;
/// Bytes of all their nonces.
const NONCE_BYTES: usize = 12;
/// Bytes of the part of a nonce of AES-GCM that TLS 1.2 sends with each record (RFC 5288 §3).
const EXPLICIT_NONCE_BYTES: usize = 8;
/// Bytes of a block of AES, and of the initialization vector in front of each record in CBC mode.
const BLOCK_BYTES: usize = 16;
/// Maximum length of TLS 1.2's key block: two keys of MACs and two of AES-256.
const KEY_BLOCK_BYTES: usize = 2 * 48 + 2 * 32;

/// The protection of one direction: opens its records in their order.
#[derive(Clone)]
pub struct Protection {
    suite: Suite,
    cipher: Opener,
    /// The secret part of nonces; all of it in TLS 1.3 and with ChaCha20-Poly1305.
    iv: [u8; NONCE_BYTES],
    /// The secret from which TLS 1.3 derives the next generation of keys.
    secret: Option<Secret>,
    /// The sequence number of the next record.
    sequence: u64,
}

/// A cipher with its keys. The schedules of AES take up to 1 KB.
#[derive(Clone)]
enum Opener {
    Aes128Gcm(Box<Aes128Gcm>),
    Aes256Gcm(Box<Aes256Gcm>),
    ChaCha20Poly1305(Box<ChaCha20Poly1305>),
    Cbc(Box<Cbc>),
}

/// AES in CBC mode with a MAC.
#[derive(Clone)]
struct Cbc {
    key: Secret,
    mac_key: Secret,
    hash: Hash,
    /// The MAC is that of the ciphertext (RFC 7366).
    encrypt_then_mac: bool,
}

/// The content of an opened record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainRecord {
    /// Its content type.
    pub content: u8,
    /// The place of its content in the bytes of the record's body.
    pub range: Range<usize>,
}

/// The values from which TLS 1.2 derives its keys, besides the master secret.
#[derive(Clone, Copy)]
pub struct Tls12<'a> {
    /// The random values of both hellos.
    pub client_random: &'a Random,
    /// The same of the ServerHello.
    pub server_random: &'a Random,
    /// Both sides agreed on MACs of ciphertexts (RFC 7366).
    pub encrypt_then_mac: bool,
}

impl Opener {
    fn new(cipher: Cipher, key: &[u8]) -> Option<Self> {
        Some(match cipher {
            Cipher::Aes128Gcm => {
                Self::Aes128Gcm(Box::new(<Aes128Gcm as KeyInit>::new_from_slice(key).ok()?))
            }
            Cipher::Aes256Gcm => {
                Self::Aes256Gcm(Box::new(<Aes256Gcm as KeyInit>::new_from_slice(key).ok()?))
            }
            Cipher::ChaCha20Poly1305 => {
                let cipher = <ChaCha20Poly1305 as KeyInit>::new_from_slice(key).ok()?;
                Self::ChaCha20Poly1305(Box::new(cipher))
            }
            Cipher::Aes128Cbc(_) | Cipher::Aes256Cbc(_) => return None,
        })
    }

    /// Opens `body` in place if the tag is right; leaves it as it is otherwise.
    fn open(&self, nonce: &[u8; NONCE_BYTES], data: &[u8], body: &mut [u8], tag: &[u8]) -> bool {
        let (nonce, Ok(tag)) = (nonce.into(), tag.try_into()) else { return false };
        match self {
            Self::Aes128Gcm(it) => it.decrypt_inout_detached(nonce, data, body.into(), tag),
            Self::Aes256Gcm(it) => it.decrypt_inout_detached(nonce, data, body.into(), tag),
            Self::ChaCha20Poly1305(it) => it.decrypt_inout_detached(nonce, data, body.into(), tag),
            Self::Cbc(_) => return false,
        }
        .is_ok()
    }
}

impl Protection {
    /// Returns the protection by `secret` with `suite`, which is one of TLS 1.3 (RFC 8446 §7.3); `None`
    /// if the secret does not belong to the suite.
    pub fn tls13(suite: Suite, secret: &Secret) -> Option<Self> {
        if suite.version != Version::Tls13 || secret.bytes().len() != suite.hash.bytes() {
            return None;
        }
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..suite.cipher.key_bytes()];
        let mut iv = [0; NONCE_BYTES];
        expand_label(suite.hash, secret.bytes(), "key", key)?;
        expand_label(suite.hash, secret.bytes(), "iv", &mut iv)?;
        let cipher = Opener::new(suite.cipher, key)?;
        Some(Self { suite, cipher, iv, secret: Some(secret.clone()), sequence: 0 })
    }

    /// Returns the protection of what the client or the server sends with `suite`, which is one of TLS
    /// 1.2 (RFC 5246 §6.3); `None` if the master secret is not among `secrets`.
    pub fn tls12(suite: Suite, secrets: &Secrets, of: Tls12<'_>, is_client: bool) -> Option<Self> {
        let master = secrets.get(Label::Master).filter(|_| suite.version == Version::Tls12)?;
        let cipher = suite.cipher;
        let (mac_bytes, key_bytes) = (cipher.mac_key_bytes(), cipher.key_bytes());
        let iv_bytes = cipher.fixed_iv_bytes();
        let mut block = Zeroizing::new([0; KEY_BLOCK_BYTES]);
        let block = block.get_mut(..2 * (mac_bytes + key_bytes + iv_bytes))?;
        key_block(suite.hash, master, of.server_random, of.client_random, block);
        let mut rest = &*block;
        let mut next = |bytes: usize| {
            let (both, behind) = rest.split_at(2 * bytes);
            rest = behind;
            let (client, server) = both.split_at(bytes);
            if is_client { client } else { server }
        };
        let (mac_key, key, fixed_iv) = (next(mac_bytes), next(key_bytes), next(iv_bytes));
        let cipher = match cipher {
            Cipher::Aes128Cbc(hash) | Cipher::Aes256Cbc(hash) => Opener::Cbc(Box::new(Cbc {
                key: Secret::new(key)?,
                mac_key: Secret::new(mac_key)?,
                hash,
                encrypt_then_mac: of.encrypt_then_mac,
            })),
            aead => Opener::new(aead, key)?,
        };
        let mut iv = [0; NONCE_BYTES];
        iv[..iv_bytes].copy_from_slice(fixed_iv);
        Some(Self { suite, cipher, iv, secret: None, sequence: 0 })
    }

    /// Changes to the next generation of keys (RFC 8446 §7.2).
    pub fn update(&mut self) {
        let next = self.secret.as_ref().and_then(|it| next_generation(self.suite.hash, it));
        if let Some(next) = next.and_then(|next| Self::tls13(self.suite, &next)) {
            *self = next;
        }
    }

    /// Opens the next record in place, with this `header`. Returns `None`, and leaves `body` and the
    /// sequence number as they are, if the keys or the number are others.
    pub fn open(&mut self, header: &[u8; HEADER_BYTES], body: &mut [u8]) -> Option<PlainRecord> {
        let record = match &self.cipher {
            Opener::Cbc(cbc) => cbc.open(self.sequence, header, body),
            _ if self.suite.version == Version::Tls13 => self.open_tls13(header, body),
            _ => self.open_tls12(header, body),
        }?;
        self.sequence += 1;
        Some(record)
    }

    /// Passes over `records` that are not in the capture.
    pub fn pass_over(&mut self, records: u64) {
        self.sequence = self.sequence.saturating_add(records);
    }

    /// Bytes of a record, without its header, that are not its content. They vary with padding, which
    /// only TLS 1.3 and CBC mode have; this is the number without any.
    pub fn overhead_bytes(&self) -> u64 {
        let bytes = match (&self.cipher, self.suite.version) {
            (Opener::Cbc(cbc), _) => BLOCK_BYTES + cbc.hash.bytes() + 1,
            (_, Version::Tls13) => 1 + TAG_BYTES,
            (Opener::ChaCha20Poly1305(_), Version::Tls12) => TAG_BYTES,
            (_, Version::Tls12) => EXPLICIT_NONCE_BYTES + TAG_BYTES,
        };
        bytes as u64
    }

    /// The per-record nonce of TLS 1.3 (RFC 8446 §5.3) and of ChaCha20-Poly1305 (RFC 7905 §2).
    fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = self.iv;
        let number = self.sequence.to_be_bytes();
        let place = &mut nonce[NONCE_BYTES - number.len()..];
        place.iter_mut().zip(number).for_each(|(byte, with)| *byte ^= with);
        nonce
    }

    fn open_tls13(&self, header: &[u8; HEADER_BYTES], body: &mut [u8]) -> Option<PlainRecord> {
        let (inner, tag) = body.split_at_mut_checked(body.len().checked_sub(TAG_BYTES)?)?;
        if !self.cipher.open(&self.nonce(), header, inner, tag) {
            return None;
        }
        // RFC 8446 §5.4: the content, its type, and zeros.
        let end = inner.iter().rposition(|&byte| byte != 0)?;
        Some(PlainRecord { content: inner[end], range: 0..end })
    }

    fn open_tls12(&self, header: &[u8; HEADER_BYTES], body: &mut [u8]) -> Option<PlainRecord> {
        let is_explicit = !matches!(self.cipher, Opener::ChaCha20Poly1305(_));
        let begin = if is_explicit { EXPLICIT_NONCE_BYTES } else { 0 };
        let mut nonce = self.nonce();
        let (front, rest) = body.split_at_mut_checked(begin)?;
        if is_explicit {
            nonce = self.iv;
            nonce[NONCE_BYTES - EXPLICIT_NONCE_BYTES..].copy_from_slice(front);
        }
        let length = rest.len().checked_sub(TAG_BYTES)?;
        let (inner, tag) = rest.split_at_mut_checked(length)?;
        let data = additional_data(self.sequence, header, length);
        let is_right = self.cipher.open(&nonce, &data, inner, tag);
        is_right.then_some(PlainRecord { content: header[0], range: begin..begin + length })
    }
}

impl Drop for Protection {
    fn drop(&mut self) {
        self.iv.zeroize();
    }
}

/// Returns the data that AEAD ciphers and MACs of TLS 1.2 protect besides the content (RFC 5246 §6.2.3.1, §6.2.3.3):
/// sequence number, type, version, and a length.
fn additional_data(sequence: u64, header: &[u8; HEADER_BYTES], length: usize) -> [u8; 13] {
    let mut data = [0; 13];
    data[..8].copy_from_slice(&sequence.to_be_bytes());
    data[8..11].copy_from_slice(&header[..3]);
    data[11..].copy_from_slice(&(length as u16).to_be_bytes());
    data
}

impl Cbc {
    fn open(
        &self,
        sequence: u64,
        header: &[u8; HEADER_BYTES],
        body: &mut [u8],
    ) -> Option<PlainRecord> {
        let mac_bytes = self.hash.bytes();
        let sealed = match self.encrypt_then_mac {
            true => body.len().checked_sub(mac_bytes)?,
            false => body.len(),
        };
        let (sealed, tag) = body.split_at_mut_checked(sealed)?;
        if self.encrypt_then_mac && !self.is_mac(sequence, header, sealed, tag) {
            return None;
        }
        let (iv, blocks) = sealed.split_at_mut_checked(BLOCK_BYTES)?;
        let mut plain = Zeroizing::new(blocks.to_vec());
        self.decrypt(iv, &mut plain)?;
        // RFC 5246 §6.2.3.2: the padding, each byte of which states its length.
        let padding = usize::from(*plain.last()?);
        let mut end = plain.len().checked_sub(padding + 1)?;
        if plain[end..].iter().any(|&byte| usize::from(byte) != padding) {
            return None;
        }
        if !self.encrypt_then_mac {
            end = end.checked_sub(mac_bytes)?;
            let (content, rest) = plain.split_at(end);
            if !self.is_mac(sequence, header, content, &rest[..mac_bytes]) {
                return None;
            }
        }
        blocks[..end].copy_from_slice(&plain[..end]);
        Some(PlainRecord { content: header[0], range: BLOCK_BYTES..BLOCK_BYTES + end })
    }

    /// Returns whether `tag` is the MAC of `content`.
    fn is_mac(
        &self,
        sequence: u64,
        header: &[u8; HEADER_BYTES],
        content: &[u8],
        tag: &[u8],
    ) -> bool {
        let data = additional_data(sequence, header, content.len());
        let right = mac(self.hash, self.mac_key.bytes(), &[&data, content]);
        right[..] == *tag
    }

    fn decrypt(&self, iv: &[u8], bytes: &mut [u8]) -> Option<()> {
        let (blocks, rest) = Array::slice_as_chunks_mut(bytes);
        if !rest.is_empty() {
            return None;
        }
        let key = self.key.bytes();
        match key.len() {
            16 => cbc::Decryptor::<Aes128>::new_from_slices(key, iv).ok()?.decrypt_blocks(blocks),
            _ => cbc::Decryptor::<Aes256>::new_from_slices(key, iv).ok()?.decrypt_blocks(blocks),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
