//! Handshakes of QUIC in the sums of a capture, and attempts that were never answered, after which the client
//! connected to the same address by TCP.

use crate::capture::FrameId;
use crate::findings::tally::{First, Tally};
use crate::judge::thresholds::RTO_INITIAL_NS;
use crate::model::quic::{Handshake, Outcome};
use crate::model::{Fact, Observation, Window};
use crate::wire::Endpoint;

/// Number of attempts without an answer that are kept. These are the earliest.
const KEPT_MAX: usize = 1 << 10;

/// An attempt that was never answered.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct Attempt {
    client: [u8; 16],
    server: Endpoint,
    /// Time of the first Initial packet, ns.
    start_ns: u64,
    /// Time of the last one, ns.
    last_ns: u64,
    /// Frame of the first one.
    frame: FrameId,
}

impl Attempt {
    fn of(handshake: &Handshake) -> Option<Self> {
        let is_silent = handshake.outcome == Outcome::Unanswered;
        is_silent.then_some(Self {
            client: handshake.client.address,
            server: handshake.server,
            start_ns: handshake.start_ns,
            last_ns: handshake.end_ns,
            frame: handshake.first,
        })
    }

    /// Time by which the client would have sent another packet, ns: its timer doubles (RFC 9002
    /// §6.2.1).
    fn until_ns(&self) -> u64 {
        self.last_ns + (self.last_ns - self.start_ns).max(RTO_INITIAL_NS)
    }

    /// Returns whether the client opened the connection of `first` instead.
    fn leads_to(&self, first: &First) -> bool {
        first.client == self.client
            && first.server == self.server
            && first.established
            && (self.start_ns + 1..=self.until_ns()).contains(&first.start_ns)
    }
}

/// Adds the handshakes in `window` to `tally`.
pub fn add_handshakes(handshakes: Vec<Handshake>, window: &Window, tally: &mut Tally) {
    for handshake in handshakes {
        if window.overlaps(handshake.start_ns, handshake.end_ns) {
            tally.quic_attempts.extend(Attempt::of(&handshake));
            tally.quic.add(handshake);
        }
    }
    bound(&mut tally.quic_attempts);
}

/// Drops the attempts beyond the maximum.
pub(super) fn bound(attempts: &mut Vec<Attempt>) {
    attempts.sort_by_key(|it| (it.start_ns, it.frame));
    attempts.truncate(KEPT_MAX);
}

/// Returns the observation about clients that connected by TCP after an attempt without an answer, with the
/// case that waited longest.
pub(super) fn observe(tally: &Tally) -> Option<Observation> {
    if tally.one_way() {
        return None;
    }
    let followed = tally.quic_attempts.iter().filter_map(|attempt| {
        let next = tally.firsts.iter().filter(|first| attempt.leads_to(first));
        let next = next.min_by_key(|first| (first.start_ns, first.frame))?;
        Some((attempt, next, next.start_ns - attempt.start_ns))
    });
    let followed: Vec<_> = followed.collect();
    let (attempt, next, waited_ns) = followed.iter().max_by_key(|it| (it.2, it.0.frame))?;
    Some(Observation {
        id: "quic_fallback",
        facts: vec![
            ("count", Fact::Count(followed.len() as u64)),
            ("server", Fact::Text(attempt.server.to_string())),
            ("waited_ns", Fact::Ns(*waited_ns)),
        ],
        frames: vec![attempt.frame, next.frame],
    })
}
