//! Where connections were captured, and how the place was found.

use crate::findings::thresholds::FEW_SHARE;
use crate::judge::thresholds::HOST_DELAY_MAX_NS;
use crate::model::Vantage;
use crate::tcp::Path;
use crate::wire::Side;

/// Numbers of connections by their vantage.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub struct Vantages {
    counts: [u64; Vantage::ALL.len()],
    /// Those of each whose place only the framing shows.
    by_frames: [u64; Vantage::ALL.len()],
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
        let by_frames = place == shown && path.is_placed_by_frames();
        self.by_frames[place as usize] += u64::from(by_frames);
    }

    /// Adds all of another shard.
    pub fn merge(&mut self, other: &Self) {
        let sums = self.counts.iter_mut().chain(&mut self.by_frames);
        for (mine, theirs) in sums.zip(other.counts.iter().chain(&other.by_frames)) {
            *mine += theirs;
        }
    }

    fn count(&self, place: Vantage) -> u64 {
        self.counts[place as usize]
    }

    /// Returns the vantage of most connections. Where the place of some is less well known, that of
    /// the others counts, unless they contradict each other.
    pub fn most(&self) -> Vantage {
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
