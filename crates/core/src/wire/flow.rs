//! The connection key in canonical order, and its seeded hash.

use super::{Endpoint, FlowKey};

impl Endpoint {
    /// An end at `address` (a network-order number, IPv4-mapped where it is IPv4).
    #[inline(always)]
    pub(super) fn at(address: u128, port: u16) -> Self {
        Self { address: address.to_be_bytes(), port }
    }
}

impl FlowKey {
    /// The key of what `source` sends to `destination`, and whether `source` is its `high` end.
    #[inline]
    pub fn new(source: Endpoint, destination: Endpoint) -> (Self, bool) {
        if source > destination {
            (Self { low: destination, high: source }, true)
        } else {
            (Self { low: source, high: destination }, false)
        }
    }
}

/// Hashes flows, the same for both directions. Flow keys are chosen by whoever sends packets, so
/// the hash is seeded; nothing that is reported may depend on the seed.
#[derive(Clone, Copy, Debug)]
pub struct FlowHasher {
    seed: [u64; 6],
}

impl FlowHasher {
    /// A hasher of which `seed` is the secret.
    pub fn new(seed: u64) -> Self {
        // SplitMix64: spreads one word over several that look unrelated.
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

    /// The hash of a flow.
    #[inline]
    pub fn hash(&self, flow: &FlowKey) -> u64 {
        self.hash_ordered(
            (u128::from_be_bytes(flow.low.address), flow.low.port),
            (u128::from_be_bytes(flow.high.address), flow.high.port),
        )
    }

    /// The hash of ends that are in canonical order, as `(address, port)`.
    #[inline(always)]
    pub(super) fn hash_ordered(&self, low: (u128, u16), high: (u128, u16)) -> u64 {
        let ports = u64::from(low.1) << 16 | u64::from(high.1);
        let low_mix = self.mix_address(low.0, 0);
        let high_mix = self.mix_address(high.0, 2);
        let both = folded_multiply(low_mix ^ self.seed[4], high_mix.rotate_left(32) ^ ports);
        folded_multiply(both ^ ports, self.seed[5] | 1)
    }

    #[inline(always)]
    fn mix_address(&self, address: u128, word: usize) -> u64 {
        let upper = (address >> 64) as u64 ^ self.seed[word];
        folded_multiply(upper, address as u64 ^ self.seed[word + 1])
    }

    /// Which of `shards` takes a flow. Not seeded, so that what is bounded per shard meets the same
    /// flows in every run; whoever sends all flows into one shard slows down nobody but himself.
    #[inline]
    pub fn shard(flow: &FlowKey, shards: usize) -> usize {
        let fold = |end: &Endpoint| {
            let address = u128::from_be_bytes(end.address);
            ((address >> 64) as u64 ^ address as u64).rotate_left(16) ^ u64::from(end.port)
        };
        let mixed =
            folded_multiply(fold(&flow.low) ^ FOLD, fold(&flow.high).rotate_left(32) ^ FOLD);
        (((mixed & u64::from(u32::MAX)) * shards as u64) >> 32) as usize
    }
}

/// An odd number without a pattern (the golden ratio's digits), for what needs no secret.
const FOLD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The two halves of the 128-bit product, folded: every input bit reaches every output bit.
#[inline(always)]
fn folded_multiply(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
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
                slots[(hasher.hash(&key(index)) & 4095) as usize] += 1;
                shards[FlowHasher::shard(&key(index), 6)] += 1;
            }
            assert!(slots.iter().all(|&n| n < 50), "{:?}", slots.iter().max());
            assert!(shards.iter().all(|&n| (9_900..12_000).contains(&n)), "{shards:?}");
        }
        assert_ne!(FlowHasher::new(1).hash(&key(1)), FlowHasher::new(2).hash(&key(1)));
    }
}
