//! Keyed pseudonyms: the same for equal names, of the same length and class, and different for
//! different names, without a table.
//!
//! Read first: J. Xu et al., "Prefix-Preserving IP Address Anonymization" (Crypto-PAn, ICNP 2002):
//! whether a bit is changed depends on the key and the bits before it. Letters and digits of words
//! are changed in the same way. The keyed function is SipHash-2-4 (J.-P. Aumasson, D. Bernstein,
//! 2012).

use crate::app::{ends_at, is_listed, is_plain, words};
use crate::wire::IPV4_MAPPED;

/// The kind of name, so that the same bytes have different pseudonyms in different kinds.
#[derive(Clone, Copy)]
enum Domain {
    Ipv4 = 1,
    Ipv6,
    Mac,
    Word,
}

/// Prefixes (network, bits) that identify a class of addresses: these bits are kept, and no other
/// address is mapped to them. RFC 6890, RFC 6598.
const IPV4_CLASSES: [(u32, u32); 9] = [
    (0x0000_0000, 8),
    (0x0a00_0000, 8),
    (0x6440_0000, 10),
    (0x7f00_0000, 8),
    (0xa9fe_0000, 16),
    (0xac10_0000, 12),
    (0xc0a8_0000, 16),
    (0xe000_0000, 4),
    (0xf000_0000, 4),
];

/// Classes of IPv6 addresses (RFC 4291) that a pseudonym keeps: multicast with its scope,
/// link-local, unique local, global; of all other addresses the first byte is kept.
const IPV6_CLASSES: [(u128, u32); 4] =
    [(0xff << 120, 16), (0xfe80 << 112, 10), (0xfc << 120, 7), (0x20 << 120, 3)];
const IPV6_CLASS_BITS: u32 = 8;

/// Maps names to pseudonyms. Its only state is the key.
#[derive(Clone, Copy)]
pub struct Names {
    key: [u64; 2],
}

impl Names {
    /// Creates the mapping with a key, which is secret or derived from a number.
    pub fn new(key: [u8; 16]) -> Self {
        let [low, high] = [0, 8].map(|at| {
            let word = key[at..].first_chunk().copied().unwrap_or_default();
            u64::from_le_bytes(word)
        });
        Self { key: [low, high] }
    }

    /// Returns the pseudonym of an address in the form of an [`Endpoint`](crate::wire::Endpoint),
    /// in which IPv4 is mapped.
    pub fn address(&self, address: [u8; 16]) -> [u8; 16] {
        let value = u128::from_be_bytes(address);
        if value >> 32 == IPV4_MAPPED >> 32 {
            return (IPV4_MAPPED | u128::from(self.ipv4(value as u32))).to_be_bytes();
        }
        self.ipv6(value).to_be_bytes()
    }

    /// Returns the pseudonym of an IPv4 address. Loopback, unspecified and broadcast addresses, and
    /// the multicast groups of the local network (224.0.0.0/24), are kept, since they identify
    /// nobody.
    pub fn ipv4(&self, address: u32) -> u32 {
        let stays = matches!(address >> 24, 0 | 127) || matches!(address, u32::MAX);
        if stays || address >> 8 == 0x00e0_0000 {
            return address;
        }
        (0..32).fold(address, |pseudonym, bit| {
            let prefix = address.checked_shr(32 - bit).unwrap_or(0);
            // A bit is kept if a class differs in it, so that classes remain complete.
            let is_fixed = IPV4_CLASSES.iter().any(|&(network, bits)| {
                bit < bits && network.checked_shr(32 - bit).unwrap_or(0) == prefix
            });
            let flip = !is_fixed && self.is_odd(Domain::Ipv4, bit, prefix.into());
            pseudonym ^ u32::from(flip) << (31 - bit)
        })
    }

    /// Returns the pseudonym of an IPv6 address. The unspecified and the loopback address are kept.
    pub fn ipv6(&self, address: u128) -> u128 {
        if address <= 1 {
            return address;
        }
        let class =
            IPV6_CLASSES.iter().find(|(network, bits)| (address ^ network) >> (128 - bits) == 0);
        let fixed = class.map_or(IPV6_CLASS_BITS, |(_, bits)| *bits);
        (fixed..128).fold(address, |pseudonym, bit| {
            let flip = self.is_odd(Domain::Ipv6, bit, address >> (128 - bit));
            pseudonym ^ u128::from(flip) << (127 - bit)
        })
    }

    fn is_odd(&self, domain: Domain, bits: u32, prefix: u128) -> bool {
        let mut data = [0; 18];
        (data[0], data[1]) = (domain as u8, bits as u8);
        data[2..].copy_from_slice(&prefix.to_be_bytes());
        self.keyed(&data) & 1 != 0
    }

    /// Returns the pseudonym of a MAC address, which is locally administered (IEEE 802 §8.4). Group
    /// addresses keep the two bytes that identify their kind.
    pub fn mac(&self, address: [u8; 6]) -> [u8; 6] {
        if address == [0; 6] || address == [0xff; 6] {
            return address;
        }
        let is_group = address[0] & 1 != 0;
        let mut data = [Domain::Mac as u8; 7];
        data[1..].copy_from_slice(&address);
        let hash = self.keyed(&data).to_be_bytes();
        let mut pseudonym = [0; 6];
        pseudonym.copy_from_slice(&hash[..6]);
        if is_group {
            pseudonym[..2].copy_from_slice(&address[..2]);
        } else {
            pseudonym[0] = pseudonym[0] & 0xfc | 2;
        }
        pseudonym
    }

    /// Replaces the words in `text`, which are runs of letters and digits, by pseudonyms. Each
    /// letter becomes another one of the same case, a hexadecimal digit if it was one; each digit
    /// another digit. Bytes outside of ASCII all become the same byte; other characters are kept.
    pub fn words(&self, text: &mut [u8]) {
        const NOT_ASCII: u8 = 0xbf;
        let mut prefix = vec![Domain::Word as u8];
        for byte in text {
            let Some((first, count)) = alphabet(*byte) else {
                if !byte.is_ascii() {
                    *byte = NOT_ASCII;
                }
                prefix.truncate(1);
                continue;
            };
            let shift = self.keyed(&prefix) % u64::from(count - 1) + 1;
            prefix.push(byte.to_ascii_lowercase());
            *byte = first + ((u64::from(*byte - first) + shift) % u64::from(count)) as u8;
        }
    }

    /// Replaces the parts of a path by pseudonyms: plain words by plain words and values by values,
    /// so that kinds of requests remain distinct. Versions, short words of compounds and endings of
    /// files are kept.
    pub fn path(&self, path: &mut [u8]) {
        path.split_mut(|&byte| byte == b'/').for_each(|part| self.part(part));
    }

    fn part(&self, part: &mut [u8]) {
        let stem = ends_at(part);
        if !is_plain(part) {
            self.words(&mut part[..stem]);
            // By chance the pseudonym looks like a word.
            while is_plain(part) {
                self.words(&mut part[..stem]);
            }
            return;
        }
        let all: Vec<_> = words(&part[..stem]).collect();
        for word in all {
            self.word(&mut part[word]);
        }
    }

    /// Replaces a plain word by another one. [`words`](Self::words) permutes the words of one shape,
    /// so different words remain different if it is repeated until a plain one comes.
    fn word(&self, word: &mut [u8]) {
        const REPEATS_MAX: usize = 1 << 14;
        if is_listed(word) {
            return;
        }
        let original = word.to_vec();
        for _ in 0..REPEATS_MAX {
            self.words(word);
            if word == original {
                break;
            }
            if is_plain(word) {
                return;
            }
        }
        // No other word has this shape.
        word.copy_from_slice(&original);
        self.words(word);
    }

    /// Returns SipHash-2-4 of `data`.
    fn keyed(&self, data: &[u8]) -> u64 {
        let [k0, k1] = self.key;
        let mut v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        let mut words = data.chunks_exact(8);
        let mut compress = |word: u64| {
            v[3] ^= word;
            round(&mut v);
            round(&mut v);
            v[0] ^= word;
        };
        for word in &mut words {
            compress(u64::from_le_bytes(word.first_chunk().copied().unwrap_or_default()));
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        last[7] = data.len() as u8;
        compress(u64::from_le_bytes(last));
        v[2] ^= 0xff;
        (0..4).for_each(|_| round(&mut v));
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

/// Returns the first of the characters by which a byte may be replaced, and their number.
fn alphabet(byte: u8) -> Option<(u8, u8)> {
    Some(match byte {
        b'0'..=b'9' => (b'0', 10),
        b'a'..=b'f' => (b'a', 6),
        b'g'..=b'z' => (b'g', 20),
        b'A'..=b'F' => (b'A', 6),
        b'G'..=b'Z' => (b'G', 20),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn names() -> Names {
        Names::new([7; 16])
    }

    /// The expected values are the vectors of the SipHash reference implementation
    /// (`vectors_sip64`).
    #[test]
    fn the_keyed_function_is_siphash() {
        let key: [u8; 16] = std::array::from_fn(|at| at as u8);
        let data: Vec<u8> = (0..15).collect();
        let names = Names::new(key);
        assert_eq!(names.keyed(&[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(names.keyed(&data), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn addresses_share_as_many_bits_as_before_and_keep_their_class() {
        let all = [
            "10.0.0.1",
            "10.0.0.2",
            "10.1.0.1",
            "192.168.1.1",
            "203.0.113.9",
            "203.0.113.10",
            "8.8.8.8",
            "172.16.3.4",
            "172.31.3.4",
            "172.32.0.1",
            "100.64.0.9",
            "169.254.169.254",
        ];
        let all = all.map(|it| u32::from(it.parse::<Ipv4Addr>().unwrap()));
        let class = |it: u32| {
            IPV4_CLASSES.iter().position(|(network, bits)| (it ^ network) >> (32 - bits) == 0)
        };
        for one in all {
            assert_eq!(class(one), class(names().ipv4(one)), "{}", Ipv4Addr::from(one));
            for other in all {
                let shared = (one ^ other).leading_zeros();
                let pseudonyms = names().ipv4(one) ^ names().ipv4(other);
                assert_eq!(pseudonyms.leading_zeros(), shared);
            }
        }
        assert!(all.iter().any(|it| names().ipv4(*it) != *it));
    }

    #[test]
    fn addresses_of_no_host_are_kept() {
        for stays in ["127.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.251"] {
            let stays = u32::from(stays.parse::<Ipv4Addr>().unwrap());
            assert_eq!(names().ipv4(stays), stays);
        }
        assert_eq!((names().ipv6(0), names().ipv6(1)), (0, 1));
        let link = u128::from("fe80::1".parse::<Ipv6Addr>().unwrap());
        assert_eq!(names().ipv6(link) >> 118, link >> 118);
        assert_ne!(names().ipv6(link), link);
    }

    #[test]
    fn words_of_a_path_remain_words_and_values_values() {
        let path =
            "/api/v1/users/Tr0ub4dor/getUserById/logo-of-alice.png/authentication/xkqz/a.5200";
        let mut text = path.as_bytes().to_vec();
        names().path(&mut text);
        let text = String::from_utf8(text).unwrap();
        for (old, new) in path.split('/').zip(text.split('/')) {
            assert_eq!(is_plain(old.as_bytes()), is_plain(new.as_bytes()), "{old} {new}");
            assert!(old != new || matches!(old, "" | "api" | "v1"), "{old}");
        }
        let words = ["users", "orders", "items", "login", "search", "names", "pages", "files"];
        let mut pseudonyms = words.map(|word| {
            let mut word = word.as_bytes().to_vec();
            names().path(&mut word);
            word
        });
        pseudonyms.sort();
        assert!(pseudonyms.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn words_keep_their_shape_and_share_their_beginnings() {
        let mut text = *b"/users/Alice-7/deadbeef.json";
        names().words(&mut text);
        assert!(text.iter().zip(b"/users/Alice-7/deadbeef.json").all(|(new, old)| {
            alphabet(*new) == alphabet(*old) && (alphabet(*old).is_none() || new != old)
        }));
        let (mut one, mut other) = (*b"accounts", *b"ACCOUNT9");
        names().words(&mut one);
        names().words(&mut other);
        assert!(one[..7].eq_ignore_ascii_case(&other[..7]));
    }
}
