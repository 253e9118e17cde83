//! From silences to owners, and from owners to findings.
//!
//! One file per mechanism, with its manual beside it (`<cause>.md`). A file here says how its
//! cause is recognised in a [`Gap`]: a chain of who waited for what, never a magic duration.
//! [`judge`] asks them in order, most specific first; what none of them claims was the
//! application's.

mod app_flow_control;
mod application;
mod assemble;
mod buffer_limits;
mod bufferbloat;
mod client_isolated;
mod confidence;
mod costs;
mod cross_traffic;
mod culprit;
mod delayed_ack;
mod distance;
mod facts;
mod fallback;
mod flight;
mod forwarded;
mod http_100_continue;
mod legs;
pub(crate) mod lookup_proof;
mod lookups;
mod loss;
mod mtu_black_hole;
mod nagle_delayed_ack;
mod notes;
mod overflow;
mod pacing;
mod receive_window;
mod refusals;
mod resets;
mod retries;
mod route_change;
mod scans;
mod scene;
mod set_up;
mod shared_link;
mod slow;
mod small_writes;
mod syn_flood;
mod tally;
mod tls_handshake;
mod unblamed;
mod upstream_wait;
mod words;
mod worst;
mod zero_window;

pub use application::busy;
pub use assemble::{Floors, arrange, assemble};
pub use bufferbloat::{Leg, own_ns};
pub use confidence::of_many as confidence_of;
pub(crate) use culprit::culprit;
pub use delayed_ack::{SEND_BUFFER as BLOCKED_BY_SEND_BUFFER, after_late_ack};
pub use lookups::link;
pub use loss::{is_time_for_timer, may_be_probe, may_be_timer, overtaken, timed_out};
pub(crate) use nagle_delayed_ack::{HOLD_FLOOR_NS, KNOWN_HOLDS};
pub use tally::Tally;
pub use words::{FixRow, ObservationWords, Words, manual, observation, observations, table, words};
pub use worst::Worst;
pub(crate) use worst::report as connection_report;

use crate::model::{Cause, Owner, Slice, Slices};
use crate::tcp::{Gap, Turn};

/// Says which part of `rest_ns` of a silence is this mechanism's.
type Recogniser = fn(&Gap, u64) -> Option<Slice>;

/// Which silences a mechanism is asked about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// All of them.
    Always,
    /// Those within a message: an answer waits for none of these.
    Within,
}

/// Most specific first: each may rely on what stands above it having declined.
const RECOGNISERS: &[(Asked, Recogniser)] = &[
    (Asked::Always, loss::repair),
    (Asked::Always, loss::unseen),
    (Asked::Always, http_100_continue::recognise),
    (Asked::Always, zero_window::recognise),
    (Asked::Always, receive_window::recognise),
    (Asked::Within, nagle_delayed_ack::recognise),
    (Asked::Within, delayed_ack::recognise),
    (Asked::Within, small_writes::recognise),
    (Asked::Within, loss::recovery),
    (Asked::Within, flight::recognise),
    (Asked::Within, pacing::recognise),
];

/// Cuts a silence into slices with their owners.
pub fn judge(gap: &Gap) -> Slices {
    let mut slices = Slices::new(gap.len_ns());
    if gap.in_handshake && gap.retransmission.is_none() && gap.missing_packets == 0 {
        let held = gap.turn == Turn::Continues && gap.last_small;
        if let Some(hold) =
            held.then(|| nagle_delayed_ack::recognise(gap, slices.rest_ns)).flatten()
        {
            slices.take(hold);
        }
        tls_handshake::split(gap).into_iter().for_each(|slice| slices.take(slice));
        return slices;
    }
    match gap.turn {
        Turn::Answers => {
            // The client's request after a handshake: its leg is the handshake's last.
            let leg = if gap.after_handshake { Owner::Tls } else { Owner::Path };
            slices.take(Slice::plain(leg, gap.way_ns));
            slices.take(Slice::plain(Owner::Bandwidth, gap.busy_ns));
            slices.take(bufferbloat::queueing(gap));
        }
        Turn::Continues => slices.take(Slice::plain(Owner::Bandwidth, gap.busy_ns)),
    }
    for (asked, recogniser) in RECOGNISERS {
        if slices.rest_ns == 0 {
            return slices;
        }
        if *asked == Asked::Within && gap.turn == Turn::Answers {
            continue;
        }
        if let Some(slice) = recogniser(gap, slices.rest_ns) {
            if slice.cause == Some(Cause::CongestionWindow) {
                slices.take(pacing::own(gap));
            }
            slices.take(slice);
            if slice.cause == Some(Cause::DelayedAck) {
                slices.take(delayed_ack::way(gap, slices.rest_ns));
            }
            break;
        }
    }
    slices.take(application::busy(gap.sender, slices.rest_ns));
    slices
}
