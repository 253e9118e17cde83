//! Flow control above TCP (RFC 9113 §5.2, RFC 4254 §5.2): a sender that has sent everything that
//! its peer's application granted has flights of constant height, like a sender with a small
//! buffer.
//!
//! An ACK frees space in a buffer, with or without data; only a message of the peer grants more. A
//! sender that continues each time such a message has come, and acknowledges it with its next
//! segment, has waited for the message, which takes one more round trip.

use crate::findings::tally::Tally;
use crate::model::{Cause, Owner};

/// Attributes to the path the time that seems lost to a small send buffer, if the peer's
/// application granted only as much.
pub(super) fn settle(tally: &mut Tally) {
    let granted = tally.causes.iter().filter(|(key, cause)| {
        let endpoint = tally.endpoints.get(&key.server);
        let follows_messages =
            endpoint.is_some_and(|it| it.sender(key.sender).continuations.are_messages());
        key.cause == Cause::SendBuffer && cause.count > 0 && follows_messages
    });
    let mut granted: Vec<_> = granted.map(|(key, _)| key.clone()).collect();
    granted.sort_unstable();
    for key in granted {
        let cause = tally.remove_cause(&key, (Owner::SendBuffer, Owner::Path));
        if let Some((cause, endpoint)) = cause.zip(tally.endpoints.get_mut(&key.server)) {
            endpoint.round_trips.granted += cause.count;
            endpoint.round_trips.granted_ns[key.sender] += cause.lost_ns;
        }
    }
}
