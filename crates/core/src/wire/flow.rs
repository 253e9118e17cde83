//! The connection key in canonical order, and its seeded hash.

use super::ip::{IPV4_MAPPED, Network};
use super::{Endpoint, FlowKey};

impl Endpoint {
    /// Creates an endpoint from a network-order address, IPv4-mapped for IPv4.
    #[inline(always)]
    pub(super) fn at(address: u128, port: u16) -> Self {
        Self { address: address.to_be_bytes(), port }
    }
}

impl FlowKey {
    /// Returns the key of packets from `source` to `destination`, and whether `source` is its
    /// `high` end.
    #[inline]
    pub fn new(source: Endpoint, destination: Endpoint) -> (Self, bool) {
        if source > destination {
            (Self { low: destination, high: source }, true)
        } else {
            (Self { low: source, high: destination }, false)
        }
    }

    /// Returns whether both ends are on one host: they have the same address, or loopback
    /// addresses.
    pub fn is_within_host(&self) -> bool {
        let is_loopback = |end: &Endpoint| end.ip().is_loopback();
        self.low.address == self.high.address || is_loopback(&self.low) && is_loopback(&self.high)
    }
}

/// An end of a flow as numbers that compare like [`Endpoint`]: address and port.
pub(super) type End = (u128, u16);

/// The flow of a packet, its hash, and the packet's direction.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub flow: FlowKey,
    pub hash: u64,
    /// `true` if `flow.high` sent it.
    pub from_high: bool,
}

/// Hashes flows, with the same result for both directions. Flow keys are chosen by senders, who may
/// be hostile, so the hash is seeded; reports must not depend on the seed.
///
/// The upper half of a hash is not seeded: [`shard`](Self::shard) uses it.
#[derive(Clone, Copy, Debug)]
pub struct FlowHasher {
    seed: [u64; 6],
}

impl FlowHasher {
    /// Creates a hasher with the secret `seed`.
    pub fn new(seed: u64) -> Self {
        // SplitMix64: derives several seemingly unrelated words from one.
        let mut state = seed;
        let words = std::array::from_fn(|_| {
            state = state.wrapping_add(FOLD);
            let mut word = state;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        });
        Self { seed: words }
    }

    /// Returns the hash of a flow.
    #[inline]
    pub fn hash(&self, flow: &FlowKey) -> u64 {
        self.hash_ordered(
            (u128::from_be_bytes(flow.low.address), flow.low.port),
            (u128::from_be_bytes(flow.high.address), flow.high.port),
        )
    }

    /// Returns flow and direction of a packet from its IP header and ports.
    #[inline(always)]
    pub(super) fn way(&self, network: &Network, [source, destination]: [u16; 2]) -> Way {
        let (source, destination) = ((network.source, source), (network.destination, destination));
        let from_high = source > destination;
        let (low, high) = if from_high { (destination, source) } else { (source, destination) };
        Way {
            flow: FlowKey { low: Endpoint::at(low.0, low.1), high: Endpoint::at(high.0, high.1) },
            hash: self.hash_ordered(low, high),
            from_high,
        }
    }

    /// Like [`way`](Self::way) for an IPv4 header, in a fraction of the time.
    #[inline(always)]
    pub(super) fn way_ipv4(&self, ip: &[u8; 20], [source, destination]: [u16; 2]) -> Way {
        let source = word_ipv4(u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]), source);
        let destination =
            word_ipv4(u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]), destination);
        let (low, high) = (source.min(destination), source.max(destination));
        let end = |word: u64| Endpoint::at(u128::from(word >> 16), word as u16);
        Way {
            flow: FlowKey { low: end(low), high: end(high) },
            hash: self.hash_words([low, high], [low, high]),
            from_high: source > destination,
        }
    }

    /// Returns the hash of ends in canonical order.
    fn hash_ordered(&self, low: End, high: End) -> u64 {
        let fold = |(address, port): End| {
            ((address >> 64) as u64 ^ address as u64).rotate_left(16) ^ u64::from(port)
        };
        let words = [self.word(low, 2), self.word(high, 4)];
        self.hash_words(words, [fold(low), fold(high)])
    }

    /// Returns an end as one word: an IPv4 address and its port fit into it, others are mixed with
    /// the seed.
    fn word(&self, (address, port): End, seed: usize) -> u64 {
        if address >> 32 == IPV4_MAPPED >> 32 {
            return word_ipv4(address as u32, port);
        }
        let upper = (address >> 64) as u64 ^ self.seed[seed];
        folded_multiply(upper, address as u64 ^ self.seed[seed + 1]) ^ u64::from(port)
    }

    /// Hashes one word of each end, and one without seed.
    #[inline(always)]
    fn hash_words(&self, [low, high]: [u64; 2], folds: [u64; 2]) -> u64 {
        let seeded = folded_multiply(low ^ self.seed[0], high ^ self.seed[1]);
        // For similar keys the product alone is too regular.
        let seeded = seeded.wrapping_mul(FOLD) >> 32;
        let spread = folded_multiply(folds[0] ^ FOLD, folds[1].rotate_left(32) ^ FOLD);
        spread << 32 | seeded
    }

    /// Returns which of `shards` handles a flow with this hash. Not seeded, so that limits per
    /// shard affect the same flows in every run; a sender that directs all its flows to one shard
    /// only slows down the analysis of its own traffic.
    #[inline(always)]
    pub fn shard(hash: u64, shards: usize) -> usize {
        (((hash >> 32) * shards as u64) >> 32) as usize
    }
}

/// An odd constant without a pattern (digits of the golden ratio), where no secret is needed.
const FOLD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the lower half of an IPv4-mapped address, with the port appended instead of leading
/// zeros.
#[inline(always)]
fn word_ipv4(address: u32, port: u16) -> u64 {
    (IPV4_MAPPED as u64) << 16 | u64::from(address) << 16 | u64::from(port)
}

/// Returns the two halves of the 128-bit product, combined: every input bit affects every output
/// bit.
#[inline(always)]
fn folded_multiply(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

/// Returns a hash of `words` without a seed, where no secret is needed.
#[inline]
pub(crate) fn digest<const N: usize>(words: [u64; N]) -> u64 {
    words.into_iter().fold(FOLD, |hash, word| folded_multiply(hash ^ word, FOLD))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> FlowKey {
        let client =
            Endpoint::at(0xffff_0a00_0000 | u128::from(index >> 8), 40000 + (index & 0xff) as u16);
        FlowKey::new(client, Endpoint::at(0xffff_0a64_0001, 80)).0
    }

    #[test]
    fn both_directions_have_one_key_and_one_hash() {
        let hasher = FlowHasher::new(7);
        let (near, far) = (Endpoint::at(0xffff_0a00_0001, 80), Endpoint::at(0xffff_0a00_0001, 81));
        let (forth, forth_high) = FlowKey::new(near, far);
        let (back, back_high) = FlowKey::new(far, near);
        assert_eq!((forth, forth_high, back_high), (back, false, true));
        assert_eq!(hasher.hash(&forth), hasher.hash(&back));
    }

    #[test]
    fn near_keys_spread_over_shards_slots_and_seeds() {
        for seed in [0, 1, u64::MAX] {
            let hasher = FlowHasher::new(seed);
            let mut slots = vec![0_u32; 4096];
            let mut shards = [0_u32; 6];
            for index in 0..65_536 {
                let hash = hasher.hash(&key(index));
                slots[(hash & 4095) as usize] += 1;
                shards[FlowHasher::shard(hash, 6)] += 1;
            }
            assert!(slots.iter().all(|&n| n < 50), "{:?}", slots.iter().max());
            assert!(shards.iter().all(|&n| (9_900..12_000).contains(&n)), "{shards:?}");
        }
        assert_ne!(FlowHasher::new(1).hash(&key(1)), FlowHasher::new(2).hash(&key(1)));
    }
}
