//! The protection of QUIC's Initial and Retry packets (RFC 9001 §5, RFC 9369 §3.3). Its keys follow from
//! public constants and a connection ID of the packet, so that they are no secret of anyone: the
//! protection finds damage and hides nothing.

use super::schedule::{expand_label, mac};
use super::suite::Hash;
use aes::Aes128;
use aes_gcm::Aes128Gcm;
use aes_gcm::aead::{AeadInOut, KeyInit};
use cbc::cipher::BlockCipherEncrypt;
use std::ops::Range;

/// Bytes of the keys, of nonces, of tags, and of a sample for the protection of headers.
const KEY_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const SAMPLE_BYTES: usize = 16;
/// The sample stands behind a packet number of the maximum length (RFC 9001 §5.4.2).
const NUMBER_MAX_BYTES: usize = 4;
/// Bits of the first byte of a long header that are protected (RFC 9001 §5.4.1).
const PROTECTED_BITS: u8 = 0x0f;

/// The number of version 2 (RFC 9369 §3.1).
const VERSION_2: u32 = 0x6b33_43cf;

/// A version of QUIC whose Initial packets can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuicVersion {
    /// Version 1 (RFC 9000).
    V1,
    /// Version 2 (RFC 9369).
    V2,
}

impl QuicVersion {
    /// Returns the version with this number, as it stands in long headers.
    pub fn of(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            VERSION_2 => Some(Self::V2),
            _ => None,
        }
    }

    /// Returns the number that stands in long headers.
    pub fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => VERSION_2,
        }
    }

    /// RFC 9001 §5.2, RFC 9369 §3.3.1.
    fn salt(self) -> [u8; 20] {
        match self {
            Self::V1 => [
                0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8,
                0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a,
            ],
            Self::V2 => [
                0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26,
                0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
            ],
        }
    }

    /// Labels of the key, of the initialization vector and of the key for headers (RFC 9001 §5.1, RFC
    /// 9369 §3.3.2).
    fn labels(self) -> [&'static str; 3] {
        match self {
            Self::V1 => ["quic key", "quic iv", "quic hp"],
            Self::V2 => ["quicv2 key", "quicv2 iv", "quicv2 hp"],
        }
    }

    /// Key and nonce of the tag of Retry packets (RFC 9001 §5.8, RFC 9369 §3.3.3).
    fn retry_key(self) -> ([u8; KEY_BYTES], [u8; NONCE_BYTES]) {
        match self {
            Self::V1 => (
                0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e_u128.to_be_bytes(),
                [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb],
            ),
            Self::V2 => (
                0x8fb4_b01b_56ac_48e2_60fb_cbce_ad7c_cc92_u128.to_be_bytes(),
                [0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a],
            ),
        }
    }

    /// Returns the integrity tag of the Retry packet `retry`, without it, that answers a packet to the
    /// connection ID `original_id` (RFC 9001 §5.8).
    pub fn retry_tag(self, original_id: &[u8], retry: &[u8]) -> Option<[u8; TAG_BYTES]> {
        let (key, nonce) = self.retry_key();
        let cipher = Aes128Gcm::new_from_slice(&key).ok()?;
        let pseudo = [&[original_id.len() as u8], original_id, retry].concat();
        let sealed = cipher.encrypt_inout_detached((&nonce).into(), &pseudo, (&mut [][..]).into());
        sealed.ok().map(Into::into)
    }
}

/// The keys of both directions of a connection's Initial packets.
#[derive(Clone)]
pub struct InitialKeys {
    /// Those of the client's packets.
    pub client: PacketKeys,
    /// Those of the server's packets.
    pub server: PacketKeys,
}

impl InitialKeys {
    /// Derives them from the destination connection ID of the client's first Initial packet, or of the
    /// first one behind a Retry (RFC 9001 §5.2).
    pub fn new(version: QuicVersion, destination_id: &[u8]) -> Option<Self> {
        let initial = mac(Hash::Sha256, &version.salt(), &[destination_id]);
        Some(Self {
            client: PacketKeys::new(version, &initial, "client in")?,
            server: PacketKeys::new(version, &initial, "server in")?,
        })
    }
}

/// The keys of one direction of a connection's Initial packets.
#[derive(Clone)]
pub struct PacketKeys {
    cipher: Aes128Gcm,
    iv: [u8; NONCE_BYTES],
    header: Aes128,
}

/// An Initial packet whose payload was opened in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedPacket {
    /// Its packet number.
    pub number: u64,
    /// The place of its frames in the packet.
    pub payload: Range<usize>,
}

impl PacketKeys {
    fn new(version: QuicVersion, initial: &[u8], label: &str) -> Option<Self> {
        let mut secret = [0; 32];
        expand_label(Hash::Sha256, initial, label, &mut secret)?;
        let (mut key, mut iv, mut header) = ([0; KEY_BYTES], [0; NONCE_BYTES], [0; KEY_BYTES]);
        let [key_label, iv_label, header_label] = version.labels();
        expand_label(Hash::Sha256, &secret, key_label, &mut key)?;
        expand_label(Hash::Sha256, &secret, iv_label, &mut iv)?;
        expand_label(Hash::Sha256, &secret, header_label, &mut header)?;
        let cipher = Aes128Gcm::new_from_slice(&key).ok()?;
        Some(Self { cipher, iv, header: Aes128::new_from_slice(&header).ok()? })
    }

    /// Opens `packet`, from its first byte to its last, in place. `number_at` is the position of the
    /// packet number, `next` the number that is expected (RFC 9000 §A.3). Returns `None` if the keys are
    /// others or the packet is damaged; what it contains then is undefined.
    pub fn open(&self, packet: &mut [u8], number_at: usize, next: u64) -> Option<OpenedPacket> {
        let mask = self.mask(packet, number_at)?;
        let first = packet.first_mut()?;
        *first ^= mask[0] & PROTECTED_BITS;
        let length = usize::from(*first & 3) + 1;
        let begin = number_at + length;
        let number = packet.get_mut(number_at..begin)?;
        number.iter_mut().zip(&mask[1..]).for_each(|(byte, with)| *byte ^= with);
        let truncated = number.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let number = whole_number(truncated, 8 * length as u32, next);
        let (header, body) = packet.split_at_mut_checked(begin)?;
        let (inner, tag) = body.split_at_mut_checked(body.len().checked_sub(TAG_BYTES)?)?;
        let (nonce, tag) = (self.nonce(number), (&*tag).try_into().ok()?);
        let end = begin + inner.len();
        self.cipher.decrypt_inout_detached((&nonce).into(), header, inner.into(), tag).ok()?;
        Some(OpenedPacket { number, payload: begin..end })
    }

    /// Protects `packet`, whose header is not protected yet and whose last 16 bytes are room for the
    /// tag, in place: the opposite of [`open`](Self::open).
    pub fn seal(&self, packet: &mut [u8], number_at: usize, number: u64) -> Option<()> {
        let length = usize::from(*packet.first()? & 3) + 1;
        let (header, body) = packet.split_at_mut_checked(number_at + length)?;
        let (inner, tag) = body.split_at_mut_checked(body.len().checked_sub(TAG_BYTES)?)?;
        let nonce = self.nonce(number);
        let sealed = self.cipher.encrypt_inout_detached((&nonce).into(), header, inner.into());
        tag.copy_from_slice(&sealed.ok()?);
        let mask = self.mask(packet, number_at)?;
        *packet.first_mut()? ^= mask[0] & PROTECTED_BITS;
        let number = packet.get_mut(number_at..number_at + length)?;
        number.iter_mut().zip(&mask[1..]).for_each(|(byte, with)| *byte ^= with);
        Some(())
    }

    /// RFC 9001 §5.4.3.
    fn mask(&self, packet: &[u8], number_at: usize) -> Option<[u8; SAMPLE_BYTES]> {
        let sample = packet.get(number_at + NUMBER_MAX_BYTES..)?;
        let mut block = (*sample.first_chunk::<SAMPLE_BYTES>()?).into();
        self.header.encrypt_block(&mut block);
        Some(block.into())
    }

    /// RFC 9001 §5.3.
    fn nonce(&self, number: u64) -> [u8; NONCE_BYTES] {
        let mut nonce = self.iv;
        let number = number.to_be_bytes();
        let place = &mut nonce[NONCE_BYTES - number.len()..];
        place.iter_mut().zip(number).for_each(|(byte, with)| *byte ^= with);
        nonce
    }
}

/// Returns the packet number whose lower `bits` bits are `truncated` and which is closest to `next`
/// (RFC 9000 §A.3).
fn whole_number(truncated: u64, bits: u32, next: u64) -> u64 {
    let window = 1_u64 << bits;
    let candidate = next & !(window - 1) | truncated;
    if candidate.saturating_add(window / 2) <= next {
        candidate + window
    } else if candidate > next.saturating_add(window / 2) && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests;
