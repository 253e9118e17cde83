//! Round trips from segments that a kernel answers by itself: a FIN, a keep-alive or a window probe
//! (RFC 9293 §3.10.7.4, §3.8.4, §3.8.6.1). No application has a part in these.

use crate::judge::thresholds::DELAYED_ACK_MIN_NS;
use crate::model::Sighting;
use crate::tcp::connection::{Connection, is_pure_ack};
use crate::wire::{Segment, Side, TcpFlags};

/// A segment that its receiver's kernel answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedKernel {
    seen: Sighting,
    /// Its ACK may be delayed (RFC 9293 §3.8.6.3), as that of data: it is a FIN.
    may_be_delayed: bool,
}

impl Connection {
    /// Notes that the receiver's kernel answers `segment` of `side`, unless one before it has had no answer:
    /// what comes then may answer either.
    pub(super) fn ask_kernel(&mut self, side: Side, segment: &Segment) {
        let may_be_delayed = segment.flags.has(TcpFlags::FIN);
        let asked = AskedKernel { seen: Sighting::of(side, segment), may_be_delayed };
        self.cold.get_or_create().asked_kernel.get_or_insert(asked);
    }

    /// Adds a sample of the path if `segment`, which `side` sends, is the answer of its kernel to the
    /// packet directly before it. An ACK behind others may answer one of those (RFC 6298 §3), and a
    /// silent peer lets its sender repeat itself.
    pub(super) fn take_kernel_answer(&mut self, side: Side, segment: &Segment) {
        let Some(cold) = self.cold.get_mut() else { return };
        let asked = cold.asked_kernel.take_if(|asked| asked.seen.from != side);
        let Some(AskedKernel { seen, may_be_delayed }) = asked else { return };
        let fin = self.senders[side.peer()].space.fin();
        let acks = self.senders[side.peer()].space.position_of(segment.ack);
        let is_answer = seen.frame == self.last.frame
            && is_pure_ack(segment)
            && (!may_be_delayed || fin.is_some_and(|fin| acks > fin));
        let rtt_ns = segment.time_ns.saturating_sub(seen.time_ns);
        if !is_answer || !self.cold.is_timed(segment, rtt_ns) {
            return;
        }
        match self.mid_stream {
            true => {
                let is_exact = !may_be_delayed || rtt_ns < DELAYED_ACK_MIN_NS;
                self.path.sample_without_handshake(side, rtt_ns, is_exact);
            }
            false => self.path.sample(side, rtt_ns),
        }
    }
}
