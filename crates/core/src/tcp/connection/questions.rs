//! Verdicts that later packets may change, and what is kept of each until then.

use crate::tcp::connection::blocked::Blocked;
use crate::tcp::connection::doubt::Doubted;
use crate::tcp::connection::limits::Queued;
use crate::tcp::connection::suspended::{AckedLate, Suspended};

/// The open questions of a connection, at most one of each kind.
#[derive(Clone, Default)]
pub(super) struct Questions {
    /// A retransmission by timer of which it is not yet known whether it was spurious.
    pub suspended: Option<Box<Suspended>>,
    /// Such a retransmission after its sender sent more data.
    pub contested: Option<Box<Suspended>>,
    /// The first fast retransmission of a recovery, until an ACK shows whether it answers that or
    /// the first transmission.
    pub fast: Option<Box<Suspended>>,
    /// A retransmission that seems to have been needed, until its sender sends more: a second ACK
    /// would show that the receiver got both transmissions.
    pub counted: Option<Box<Suspended>>,
    /// Retransmissions by timer after lost ACKs, until it is known whether the sender had waited
    /// for them.
    pub acked_late: Option<Box<AckedLate>>,
    /// The last gap that may yet be attributed to another owner.
    pub doubted: Option<Box<Doubted>>,
    /// The last response whose timestamp shows that it was queued, until later packets show whether
    /// this is right.
    pub queued: Option<Box<Queued>>,
    /// A delay of this sender has stayed from one segment to another, as in a queue.
    pub queue_stays: [bool; 2],
    /// The last wait of a sender whose buffer may have been full.
    pub blocked: Option<Box<Blocked>>,
}

impl Questions {
    /// Returns whether no question is open, except a doubt that satisfies `is_known`.
    pub fn are_settled_except(&self, is_known: impl FnOnce(&Doubted) -> bool) -> bool {
        let is_doubted = self.doubted.as_deref().is_some_and(|doubted| !is_known(doubted));
        !(self.is_repeated() || is_doubted || self.queued.is_some() || self.blocked.is_some())
    }

    /// Returns whether a gap is not yet settled, which later segments may explain.
    #[inline]
    pub fn is_gap_open(&self) -> bool {
        self.is_repeated() || self.doubted.is_some() || self.blocked.is_some()
    }

    /// Returns whether it is open whether a retransmission was needed.
    #[inline]
    fn is_repeated(&self) -> bool {
        let by_timer = self.suspended.is_some() || self.contested.is_some();
        let is_counted = self.counted.is_some() || self.acked_late.is_some();
        by_timer || is_counted || self.fast.is_some()
    }
}
