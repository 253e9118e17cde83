//! Keys from secrets: HKDF-Expand-Label of TLS 1.3 (RFC 8446 §7.1) and the PRF of TLS 1.2 (RFC 5246 §5).

use super::secret::Secret;
use super::suite::Hash;
use hkdf::Hkdf;
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha384};
use zeroize::Zeroizing;

/// Fills `out` with HKDF-Expand-Label of `secret`, with an empty context. Returns `None` if the secret
/// is shorter than the hash function's result.
pub(super) fn expand_label(hash: Hash, secret: &[u8], label: &str, out: &mut [u8]) -> Option<()> {
    const PREFIX: &[u8] = b"tls13 ";
    let length = (out.len() as u16).to_be_bytes();
    let label_bytes = [(PREFIX.len() + label.len()) as u8];
    let info: [&[u8]; 5] = [&length, &label_bytes, PREFIX, label.as_bytes(), &[0]];
    match hash {
        Hash::Sha256 => Hkdf::<Sha256>::from_prk(secret).ok()?.expand_multi_info(&info, out).ok(),
        Hash::Sha384 => Hkdf::<Sha384>::from_prk(secret).ok()?.expand_multi_info(&info, out).ok(),
        Hash::Sha1 => None,
    }
}

/// Returns the secret of the next generation of application data keys (RFC 8446 §7.2).
pub(super) fn next_generation(hash: Hash, secret: &Secret) -> Option<Secret> {
    let mut next = Zeroizing::new([0; 48]);
    let next = &mut next[..hash.bytes()];
    expand_label(hash, secret.bytes(), "traffic upd", next)?;
    Secret::new(next)
}

/// Fills `out` with the key block of TLS 1.2 (RFC 5246 §6.3).
pub(super) fn key_block(
    hash: Hash,
    master: &Secret,
    server_random: &[u8],
    client_random: &[u8],
    out: &mut [u8],
) {
    let seed: [&[u8]; 3] = [b"key expansion", server_random, client_random];
    let mut previous = Zeroizing::new(mac(hash, master.bytes(), &seed).to_vec());
    for piece in out.chunks_mut(hash.bytes()) {
        let input: Vec<&[u8]> = [&previous[..]].into_iter().chain(seed).collect();
        let part = mac(hash, master.bytes(), &input);
        if let Some(part) = part.get(..piece.len()) {
            piece.copy_from_slice(part);
        }
        previous = Zeroizing::new(mac(hash, master.bytes(), &[&previous]).to_vec());
    }
}

/// Returns the HMAC of `parts`, one after the other.
pub(super) fn mac(hash: Hash, key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    fn of<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        // HMAC takes keys of any length.
        let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else { return Zeroizing::default() };
        parts.iter().for_each(|part| mac.update(part));
        Zeroizing::new(mac.finalize().into_bytes().to_vec())
    }
    match hash {
        Hash::Sha1 => of::<Hmac<Sha1>>(key, parts),
        Hash::Sha256 => of::<Hmac<Sha256>>(key, parts),
        Hash::Sha384 => of::<Hmac<Sha384>>(key, parts),
    }
}
