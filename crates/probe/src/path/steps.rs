//! Finds where latency is added: the hop from which on the least round trip is longer.

use std::net::IpAddr;

use serde::Serialize;

use super::hops::Path;

/// Least relevant step, ns: smaller ones can be chance.
const STEP_NS_MIN: u64 = 200_000;
/// Least relevant step as a share of the whole round trip.
const STEP_SHARE_MIN: f64 = 0.2;

/// A hop after which all round trips are longer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RttStep {
    /// The number of the hop, from 1.
    pub hop: u8,
    /// The address of the hop.
    pub address: Option<IpAddr>,
    /// The last hop before it that answered; 0 for this host.
    pub after_hop: u8,
    /// Added round trip, ns.
    pub added_ns: u64,
    /// The step as a share of the round trip to the last hop that answered.
    pub share: f64,
}

/// Returns the largest step of the least round trips; `None` if they rise evenly, or hardly at all.
/// A router may answer late, because it answers when it has time: a delay counts only if the hops
/// after it have it too.
pub fn added(path: &Path) -> Option<RttStep> {
    let answered: Vec<(u8, Option<IpAddr>, u64)> = path
        .hops
        .iter()
        .filter_map(|hop| Some((hop.hop, hop.addresses.first().map(|it| it.address), hop.min_ns?)))
        .collect();
    let stays = |from: usize| answered[from..].iter().map(|(.., min_ns)| *min_ns).min();
    let whole_ns = answered.last()?.2.max(1);
    let mut largest: Option<RttStep> = None;
    let (mut before_ns, mut after_hop) = (0, 0);
    for (index, &(hop, address, _)) in answered.iter().enumerate() {
        let ns = stays(index)?;
        let added_ns = ns.saturating_sub(before_ns);
        if largest.is_none_or(|it| added_ns > it.added_ns) {
            let share = (added_ns as f64 / whole_ns as f64).min(1.0);
            largest = Some(RttStep { hop, address, after_hop, added_ns, share });
        }
        (before_ns, after_hop) = (ns, hop);
    }
    largest.filter(|it| it.added_ns >= STEP_NS_MIN && it.share >= STEP_SHARE_MIN)
}

#[cfg(test)]
mod tests {
    use super::super::hops::{Hop, Path};
    use super::*;

    fn path(mins_us: &[Option<u64>]) -> Path {
        let hop = |(index, us): (usize, &Option<u64>)| Hop {
            hop: index as u8 + 1,
            min_ns: us.map(|us| us * 1_000),
            ..Hop::default()
        };
        Path { hops: mins_us.iter().enumerate().map(hop).collect(), ..Path::default() }
    }

    #[test]
    fn a_step_that_stays_is_found() {
        let step = added(&path(&[Some(300), Some(400), None, Some(9_000), Some(9_100)])).unwrap();
        assert_eq!((step.hop, step.after_hop, step.added_ns), (4, 2, 8_600_000));
    }

    #[test]
    fn a_router_that_answers_late_adds_nothing() {
        let step = added(&path(&[Some(300), Some(20_000), Some(400), Some(5_000)])).unwrap();
        assert_eq!((step.hop, step.added_ns), (4, 4_600_000));
    }

    #[test]
    fn short_paths_have_no_step() {
        assert_eq!(added(&path(&[Some(30), Some(50), Some(80)])), None);
        assert_eq!(added(&path(&[None, None])), None);
        assert_eq!(added(&path(&[])), None);
    }
}
