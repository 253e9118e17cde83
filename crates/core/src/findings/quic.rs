//! Handshakes of QUIC in the sums of a capture.

use crate::findings::tally::Tally;
use crate::model::Window;
use crate::model::quic::Handshake;

/// Adds the handshakes in `window` to `tally`.
pub fn add_handshakes(handshakes: Vec<Handshake>, window: &Window, tally: &mut Tally) {
    for handshake in handshakes {
        if window.overlaps(handshake.start_ns, handshake.end_ns) {
            tally.quic.add(handshake);
        }
    }
}
