//! Losses that hit the same segment of nearly every connection of a client, while what it sends before passes:
//! no link and no queue knows which segment is the second. A filter that reads what passes drops it, or the
//! peers do.

use crate::findings::refusals::client;
use crate::findings::tally::{LOST_SECOND, Losses, Part, Tally};
use crate::findings::thresholds::CHANCE_MAX;
use crate::model::{Cause, Culprit, Fact, Role};
use crate::wire::Endpoint;
use hashbrown::HashMap;

/// Losses of one client that hit the second segment.
#[derive(Clone, Copy, Debug)]
struct Selected {
    losses: Losses,
    /// Number of connections whose handshake passed in the same time, and of those with another loss.
    others: u64,
}

/// Clients with such losses.
pub(super) struct Selective(HashMap<[u8; 16], Selected>);

impl Selective {
    pub(super) fn of(tally: &Tally) -> Self {
        let most = tally.messages.iter().filter(|(_, losses)| 2 * losses.lost > losses.all);
        let of_client = most.filter_map(|(client, losses)| {
            let (from_ns, to_ns) = losses.span_ns;
            // They exclude a time at which everything is lost.
            let passed = tally.firsts.iter().filter(|first| {
                let in_time = (from_ns..=to_ns).contains(&first.start_ns);
                first.client == client && in_time && first.established
            });
            let others = passed.count() as u64 + losses.others_lost;
            let selected = Selected { losses: *losses, others };
            selected.is_no_chance().then_some((client, selected))
        });
        Self(of_client.collect())
    }

    /// Returns whether most losses of the part are such.
    pub(super) fn has(&self, part: Part<'_>) -> bool {
        self.selected(part).is_some()
    }

    /// Returns the culprit of a finding about this part, if it is one of these.
    pub(super) fn culprit(&self, part: Part<'_>) -> Option<Culprit> {
        let endpoint = Endpoint { address: client(part.1)?, port: 0 };
        self.has(part).then_some(Culprit { role: Role::Network, endpoint })
    }

    /// Returns the facts of a finding about `parts`, if all are such.
    pub(super) fn facts(&self, parts: &[Part<'_>]) -> Vec<(&'static str, Fact)> {
        let mut selected = parts.iter().map(|part| self.selected(*part));
        let Some(Some((address, it))) = selected.next() else { return Vec::new() };
        if !selected.all(|other| other.is_some_and(|(client, _)| client == address)) {
            return Vec::new();
        }
        let filtered = Endpoint { address, port: 0 }.ip().to_string();
        vec![
            ("filtered", Fact::Text(filtered)),
            ("second_lost", Fact::Count(it.losses.lost)),
            ("of_second", Fact::Count(it.losses.all)),
            ("others_lost", Fact::Count(it.losses.others_lost)),
            ("of_others", Fact::Count(it.others)),
        ]
    }

    fn selected(&self, (key, cause): Part<'_>) -> Option<([u8; 16], &Selected)> {
        let is_of_way = key.culprit == Culprit { role: Role::Network, endpoint: key.server };
        let address = client(cause).filter(|_| is_of_way)?;
        let selected = self.0.get(&address)?;
        let is_timeout = key.cause == Cause::RetransmissionTimeout;
        let is_most = 2 * cause.shown.count(LOST_SECOND) > cause.exchanges;
        (is_timeout && is_most).then_some((address, selected))
    }
}

impl Selected {
    /// Returns whether chance is excluded, and the segment is lost on most connections.
    fn is_no_chance(&self) -> bool {
        let Losses { all, lost, others_lost, .. } = self.losses;
        let share = (lost + others_lost) as f64 / (all + self.others).max(1) as f64;
        2 * lost > all && self.others > 0 && at_least(lost, all, share) <= CHANCE_MAX
    }
}

/// Returns the chance that at least `hits` of `all` are hit if each is with the probability `share` (the
/// binomial test, one-sided).
fn at_least(hits: u64, all: u64, share: f64) -> f64 {
    if hits > all || share <= 0.0 || share >= 1.0 {
        return 1.0;
    }
    let ways = (0..hits).map(|at| ((all - at) as f64 / (at + 1) as f64).ln()).sum::<f64>();
    let one = ways + hits as f64 * share.ln() + (all - hits) as f64 * (1.0 - share).ln();
    let (mut term, mut sum) = (one.exp(), 0.0);
    for at in hits..=all {
        sum += term;
        term *= (all - at) as f64 / (at + 1) as f64 * share / (1.0 - share);
    }
    f64::min(sum, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_is_that_of_the_binomial_distribution() {
        assert!((at_least(2, 3, 0.5) - 0.5).abs() < 1e-12);
        assert!((at_least(3, 3, 0.5) - 0.125).abs() < 1e-12);
        assert!((at_least(0, 9, 0.3) - 1.0).abs() < 1e-12);
        assert_eq!([at_least(1, 3, 0.0), at_least(3, 3, 1.0)], [1.0, 1.0]);
    }

    fn is_selected((lost, all): (u64, u64), (others_lost, others): (u64, u64)) -> bool {
        let losses = Losses { lost, all, span_ns: (0, 1), others_lost };
        Selected { losses, others }.is_no_chance()
    }

    #[test]
    fn one_segment_of_most_connections_is_no_chance_and_any_segment_is() {
        assert!(is_selected((47, 62), (10, 70)));
        assert!(is_selected((7, 7), (0, 7)) && !is_selected((6, 6), (0, 6)));
        assert!(!is_selected((47, 62), (40, 70)), "the others are lost as often");
        assert!(!is_selected((20, 62), (0, 70)), "most pass");
        assert!(!is_selected((47, 62), (0, 0)), "nothing else was sent meanwhile");
    }
}
