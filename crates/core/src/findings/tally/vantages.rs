//! Where connections were captured, and how the place was found.

use crate::findings::causes::repair::is_loss;
use crate::findings::thresholds::FEW_SHARE;
use crate::judge::thresholds::{HABIT_MIN, HOST_DELAY_MAX_NS};
use crate::model::Vantage;
use crate::tcp::{Chain, Connection, Path};
use crate::wire::{BySide, Side};

/// Numbers of connections by their vantage.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Vantages {
    counts: [u64; Vantage::ALL.len()],
    /// Those of each whose place only the framing shows.
    by_frames: [u64; Vantage::ALL.len()],
    /// Number of exchanges in which the client, or the server, did not get what had passed the vantage
    /// and was not on its host.
    lost_before: BySide<u64>,
}

impl Vantages {
    /// Counts a connection with this path. If it `is_acknowledged_nearer` than at the server, by a proxy
    /// or a NAT, that host is where its round trips and frames show the server.
    pub fn add(&mut self, path: &Path, is_acknowledged_nearer: bool) {
        let shown = path.vantage();
        let place = match shown {
            Vantage::Server | Vantage::Local if is_acknowledged_nearer => {
                let near_client = path.rtt_ns(Side::Client) <= HOST_DELAY_MAX_NS;
                if near_client { Vantage::Client } else { Vantage::Unknown }
            }
            _ => shown,
        };
        self.counts[place as usize] += 1;
        let by_frames = place == shown && path.is_placed_by_padding();
        self.by_frames[place as usize] += u64::from(by_frames);
    }

    /// Processes a repaired loss: what was lost behind the vantage, on the way to a host that did not take
    /// it from its own link, shows that the vantage is not on that host.
    pub fn add_loss(&mut self, connection: &Connection, chain: &Chain) {
        let receiver = chain.sender.peer();
        let is_lost_behind = is_loss(chain.cause)
            && chain.gap.repair.is_retransmission()
            && chain.gap.repair.original.is_some()
            && !chain.gap.repair.deaf
            && !connection.path.is_on_host(receiver);
        self.lost_before[receiver] += u64::from(is_lost_behind);
    }

    /// Returns whether losses, which are a habit, show that the vantage is not at `place`.
    fn is_contradicted(&self, place: Vantage) -> bool {
        let ends = [(Vantage::Client, Side::Client), (Vantage::Server, Side::Server)];
        let of_place = ends.into_iter().find(|(end, _)| *end == place);
        of_place.is_some_and(|(_, side)| self.lost_before[side] >= HABIT_MIN.into())
    }

    /// Adds all of another shard.
    pub fn merge(&mut self, other: &Self) {
        let sums = self.counts.iter_mut().chain(&mut self.by_frames);
        for (mine, theirs) in sums.zip(other.counts.iter().chain(&other.by_frames)) {
            *mine += theirs;
        }
        for (mine, theirs) in self.lost_before.iter_mut().zip(other.lost_before) {
            *mine += theirs;
        }
    }

    fn count(&self, place: Vantage) -> u64 {
        self.counts[place as usize]
    }

    /// Returns the vantage of most connections. Where the place of some is less well known, that of
    /// the others counts, unless they contradict each other. A host that does not get what passes the
    /// vantage is not where that is.
    pub fn most(&self) -> Vantage {
        match self.most_by_counts() {
            place if self.is_contradicted(place) => Vantage::Middle,
            place => place,
        }
    }

    fn most_by_counts(&self) -> Vantage {
        let places = [Vantage::Client, Vantage::Server, Vantage::Middle, Vantage::Local]
            .map(|place| (self.count(place), place));
        let known: u64 = places.iter().map(|(count, _)| count).sum();
        match places.into_iter().max_by_key(|(count, _)| *count) {
            Some((count, place))
                if known > 0 && (known - count) as f64 <= FEW_SHARE * known as f64 =>
            {
                place
            }
            Some((_, most)) if known > 0 => {
                match [Vantage::Client, Vantage::Server].map(|place| self.count(place) > 0) {
                    [true, true] => Vantage::Mixed,
                    [true, false] => Vantage::Client,
                    [false, true] => Vantage::Server,
                    [false, false] => most,
                }
            }
            _ => Vantage::Unknown,
        }
    }

    /// Returns whether the framing, and not the round trips, shows `place` for most connections that
    /// were captured there. Where others were captured between client and server, the round trips
    /// contradict it: a wireless station's frames look the same at its access point.
    pub fn is_by_frames(&self, place: Vantage) -> bool {
        let by_frames = self.by_frames[place as usize];
        by_frames > 0 && 2 * by_frames >= self.count(place) && self.count(Vantage::Middle) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_of_other_connections_contradict_the_framing() {
        let mut vantages = Vantages::default();
        let client = Vantage::Client as usize;
        (vantages.counts[client], vantages.by_frames[client]) = (3, 2);
        assert!(vantages.is_by_frames(Vantage::Client));
        assert!(!vantages.is_by_frames(Vantage::Server));
        vantages.counts[Vantage::Middle as usize] = 4;
        assert!(!vantages.is_by_frames(Vantage::Client));
    }
}
