//! Flow control above TCP (RFC 9113 §5.2, RFC 4254 §5.2): a sender that has sent what its peer's
//! application granted stands at a height of its own as one with a small buffer does.
//!
//! What frees a buffer is an ACK, which may carry anything or nothing; what grants more are words
//! of the peer. A sender that goes on each time as such words have come, and acknowledges them with
//! what it sends, has waited for them: what it waited for is one more round trip.

use crate::findings::tally::Tally;
use crate::findings::thresholds::PROMPTED_PART;
use crate::model::{Cause, Owner};

/// Takes what looks like a small send buffer and is what the peer grants for the path's time.
pub(super) fn settle(tally: &mut Tally) {
    let granted = tally.causes.iter().filter(|(key, cause)| {
        let endpoint = tally.endpoints.get(&key.server);
        let went_on = endpoint.map_or([0; 2], |it| it.went_on[key.sender as usize]);
        key.cause == Cause::SendBuffer && cause.count > 0 && is_granted(went_on)
    });
    let mut granted: Vec<_> = granted.map(|(key, _)| key.clone()).collect();
    granted.sort_unstable();
    for key in granted {
        let cause = tally.take_back(&key, (Owner::SendBuffer, Owner::Path));
        if let Some((cause, endpoint)) = cause.zip(tally.endpoints.get_mut(&key.server)) {
            endpoint.granted += cause.count;
        }
    }
}

/// Returns whether a sender that went on so often `[with words of its peer, with an ACK]` waited
/// for words.
fn is_granted([with_words, with_ack]: [u64; 2]) -> bool {
    with_words > PROMPTED_PART * with_ack
}
