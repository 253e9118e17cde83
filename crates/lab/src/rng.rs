//! A small seeded generator, which gives the same case on every machine.

/// SplitMix64 (Steele, Lea, Flood 2014), which suffices to draw parameters and packet loss.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator whose sequence depends on `seed` only.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Creates a generator whose sequence depends on `seed` and `name`, so that one seed draws
    /// different values for each name.
    pub fn named(seed: u64, name: &str) -> Rng {
        // FNV-1a (draft-eastlake-fnv §2) with its parameters for 64 bits.
        let digest = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Rng(seed ^ digest)
    }

    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a value in `from..=to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.bits() % (to.saturating_sub(from) + 1)
    }

    /// Returns one of `values`; 0 if there are none.
    pub fn pick(&mut self, values: &[u64]) -> u64 {
        let at = self.between(0, values.len().saturating_sub(1) as u64) as usize;
        values.get(at).copied().unwrap_or(0)
    }

    /// Returns `true` with a probability of `ppm` in a million.
    pub fn chance_ppm(&mut self, ppm: u64) -> bool {
        ppm > 0 && self.bits() % 1_000_000 < ppm
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn the_same_seed_draws_the_same_values() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.between(3, 9)).collect::<Vec<_>>()
        };
        assert_eq!(draw(5), draw(5));
        assert!(draw(5).iter().all(|v| (3..=9).contains(v)));
        assert_ne!(draw(5), draw(6));
    }

    #[test]
    fn one_seed_draws_other_values_for_each_name() {
        let draw = |seed, name| Rng::named(seed, name).bits();
        assert_eq!(draw(5, "refused"), draw(5, "refused"));
        assert_ne!(draw(5, "refused"), draw(5, "filtered"));
        assert_ne!(draw(5, "refused"), draw(6, "refused"));
    }

    #[test]
    fn a_one_percent_chance_comes_true_about_once_in_a_hundred() {
        let mut rng = Rng::new(1);
        let hits = (0..100_000).filter(|_| rng.chance_ppm(10_000)).count();
        assert!((800..1200).contains(&hits), "{hits}");
    }
}
