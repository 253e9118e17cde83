//! The only way to change the ledger of an exchange after its silences were judged, and the log of
//! such changes for `--why`.

use crate::capture::FrameId;
use crate::model::{Cause, Ledger, Owner, Slice};
use crate::tcp::Exchange;
use crate::wire::Side;
use std::collections::BTreeMap;
use std::panic::Location;

/// A fact that turned out later, with the time that it moves from one owner or cause to another.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Slice `from` of the gap of `sender` that `frame` ended becomes `to`.
    Slice { sender: Side, frame: FrameId, from: Slice, to: Slice },
    /// The slice of `sender` has no owner yet: the gap had not ended.
    NotEnded { sender: Side, slice: Slice },
    /// The time of `sender` with cause `from` has cause `to`, of the same owner.
    Renamed { sender: Side, from: Cause, to: Cause },
    /// All time of an owner and cause has another owner and cause.
    Moved { from: (Owner, Cause), to: (Owner, Cause) },
    /// Nothing shows which owner had the time of this owner and cause.
    Unknown { from: (Owner, Cause) },
    /// Nothing shows that the timer of `sender` took as long to repair losses before the vantage.
    UnseenLoss { sender: Side },
    /// The offered window limited the flight of `sender`, not a window or buffer of its own.
    OfferedWindow { sender: Side },
    /// The reader that closes the window of `sender` also keeps it small.
    Reader { sender: Side },
    /// The send buffer limited the flight, not an opening congestion window.
    SendBuffer,
    /// Nothing shows any more what limited the flight of `sender`: no ceiling explains its rate.
    NoCeiling { sender: Side },
    /// The answer came over a proxy: the way behind it took so much of the server's time, ns.
    Relayed { ns: u64 },
    /// `sender` does not use Nagle's algorithm: its application was busy, or waited for an ACK.
    NoNagle {
        sender: Side,
        /// Nothing shows pauses of its application.
        is_driven: bool,
    },
    /// `sender` paused of its own accord later in its message, for `ns`: no hold before that held up anything for
    /// so long.
    Absorbed { sender: Side, ns: u64 },
    /// The client pauses of its own accord: that time belongs to no exchange.
    OwnPauses,
    /// The client's pauses behind its first segment were a wait for the answer to that: the way of both took
    /// `way_ns`, and the server the rest.
    Waited { way_ns: u64 },
}

impl Change {
    /// Statement of the fact, for the log.
    fn why(&self) -> &'static str {
        match self {
            Self::Slice { .. } => "what came later shows another owner of that silence",
            Self::NotEnded { .. } => "that silence had not ended yet",
            Self::Renamed { .. } => "the same time has another cause",
            Self::Moved { .. } => "all time of the cause has another one",
            Self::Unknown { .. } => "nothing shows any more who owned that time",
            Self::UnseenLoss { .. } => "no timer of the path takes as long for what was lost",
            Self::OfferedWindow { .. } => "the offered window turned out to limit the flight",
            Self::Reader { .. } => "the reader closed the window time and again",
            Self::SendBuffer => "the height of the flight turned out to be that of a buffer",
            Self::NoCeiling { .. } => {
                "the sender was slower than the height of its flight permits, or exceeded it"
            }
            Self::Relayed { .. } => "a proxy acknowledges; the way behind it is as long",
            Self::NoNagle { .. } => "the sender turned out not to use Nagle's algorithm",
            Self::Absorbed { .. } => {
                "a later pause of its own is as long, and its message ends behind that"
            }
            Self::OwnPauses => "the client pauses of its own accord",
            Self::Waited { .. } => "the answer acknowledges only the first segment",
        }
    }
}

/// What an exchange records of its time beside the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recording {
    #[default]
    Nothing,
    /// Where its parts lie.
    Parts,
    /// Where its parts lie, and what changes them later.
    Revisions,
}

/// A logged change of an exchange's ledger.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Location in the code that decided the change.
    pub by: &'static Location<'static>,
    /// The reason for the change.
    pub why: &'static str,
    /// Owners whose time changed, with the difference, ns.
    pub owners: Vec<(Owner, i64)>,
    /// Causes whose time changed, with the difference, ns.
    pub causes: Vec<(Cause, i64)>,
}

/// State of an exchange before a change.
struct Before {
    ledger: Ledger,
    causes: BTreeMap<Cause, i64>,
}

impl Exchange {
    /// Begins to record `recording`.
    pub(in crate::tcp) fn record(&mut self, recording: Recording) {
        if recording != Recording::Nothing {
            self.ledger.record();
        }
        if recording == Recording::Revisions {
            self.revisions = Some(Box::default());
        }
    }

    /// Applies `change` to the ledger, and logs it with the caller's location in the code. Returns
    /// whether it applied to this exchange.
    #[track_caller]
    pub fn revise(&mut self, change: &Change) -> bool {
        let before = self.before();
        let applied = self.apply(change);
        self.log(before, change.why());
        applied
    }

    /// Begins an entry of the log; returns `None` if no log is kept.
    fn before(&self) -> Option<Before> {
        self.revisions.as_ref()?;
        Some(Before { ledger: self.ledger.ledger(), causes: self.by_cause() })
    }

    /// Ends the entry that `before` began.
    #[track_caller]
    fn log(&mut self, before: Option<Before>, why: &'static str) {
        let Some(Before { ledger, causes }) = before else { return };
        let now = self.ledger.ledger();
        let changed = |owner: &Owner| signed(now.of(*owner)) - signed(ledger.of(*owner));
        let owners = Owner::ALL.iter().map(|owner| (*owner, changed(owner)));
        let owners: Vec<_> = owners.filter(|(_, ns)| *ns != 0).collect();
        let mut by_cause = self.by_cause();
        causes.into_iter().for_each(|(cause, ns)| *by_cause.entry(cause).or_default() -= ns);
        by_cause.retain(|_, ns| *ns != 0);
        if owners.is_empty() && by_cause.is_empty() {
            return;
        }
        let causes = by_cause.into_iter().collect();
        let revision = Revision { by: Location::caller(), why, owners, causes };
        self.revisions.iter_mut().for_each(|log| log.push(revision.clone()));
    }

    fn by_cause(&self) -> BTreeMap<Cause, i64> {
        let mut causes = BTreeMap::new();
        for chain in &self.chains {
            *causes.entry(chain.cause).or_default() += signed(chain.ns);
        }
        causes
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Gap, Recovery};

    /// Creates an exchange with a gap of the server of 40 ns that was judged as slow start.
    fn with_slow_start() -> (Exchange, Slice) {
        let mut exchange = Exchange::default();
        exchange.record(Recording::Revisions);
        let slice = Slice::of(Owner::CongestionWindow, Cause::SlowStart, 40);
        let gap = Gap { sender: Side::Server, end_ns: 40, ..Gap::default() };
        exchange.attribute(&slice, &gap);
        (exchange, slice)
    }

    fn of(exchange: &Exchange, cause: Cause) -> u64 {
        exchange.chains.iter().filter(|it| it.cause == cause).map(|it| it.ns).sum()
    }

    #[test]
    fn a_revision_moves_time_and_is_logged_with_its_place() {
        let (mut exchange, from) = with_slow_start();
        let to = Slice::of(Owner::SendBuffer, Cause::SendBuffer, 40);
        let (sender, frame) = (Side::Server, FrameId::default());
        assert!(exchange.revise(&Change::Slice { sender, frame, from, to }));
        assert_eq!(exchange.ledger.of(Owner::SendBuffer), 40);
        assert_eq!([Cause::SlowStart, Cause::SendBuffer].map(|it| of(&exchange, it)), [0, 40]);
        let log = exchange.revisions.as_ref().expect("a log");
        assert_eq!(log.len(), 1);
        assert!(log[0].by.file().ends_with("revisions.rs"));
        for change in [(Owner::CongestionWindow, -40), (Owner::SendBuffer, 40)] {
            assert!(log[0].owners.contains(&change), "{:?}", log[0].owners);
        }
    }

    #[test]
    fn a_change_that_does_not_apply_is_not_logged() {
        let (mut exchange, from) = with_slow_start();
        let longer = Slice { ns: 50, ..from };
        assert!(!exchange.revise(&Change::NotEnded { sender: Side::Server, slice: longer }));
        assert!(!exchange.revise(&Change::NotEnded { sender: Side::Client, slice: from }));
        assert!(exchange.revisions.as_ref().is_some_and(|log| log.is_empty()));
        assert!(exchange.revise(&Change::NotEnded { sender: Side::Server, slice: from }));
        assert_eq!(exchange.wall_ns(), 0);
    }

    #[test]
    fn silences_after_a_needless_repair_repeat_nothing() {
        let mut exchange = Exchange::default();
        let mut gap = Gap { sender: Side::Server, end_ns: 40, ..Gap::default() };
        let slice = Slice::of(Owner::FastRecovery, Cause::FastRecovery, 40);
        exchange.attribute(&slice, &gap);
        gap.repair.trigger = Some(Recovery::Fast);
        exchange.attribute(&slice, &gap);
        let (from, to) = (Cause::FastRecovery, Cause::SpuriousRetransmission);
        assert!(exchange.revise(&Change::Renamed { sender: Side::Server, from, to }));
        assert_eq!(
            exchange.chains.iter().map(|it| (it.ns, it.count)).collect::<Vec<_>>(),
            [(80, 1)]
        );
    }

    #[test]
    fn only_provisional_time_moves_to_the_send_buffer() {
        let (mut exchange, _) = with_slow_start();
        assert!(exchange.revise(&Change::SendBuffer));
        assert_eq!(exchange.ledger.of(Owner::SendBuffer), 40);
        assert!(!exchange.revise(&Change::SendBuffer));
    }

    #[test]
    fn the_offered_window_takes_the_senders_own_limits() {
        let (mut exchange, _) = with_slow_start();
        exchange.revise(&Change::OfferedWindow { sender: Side::Client });
        assert_eq!(exchange.ledger.of(Owner::ReceiveWindow), 0);
        exchange.revise(&Change::OfferedWindow { sender: Side::Server });
        assert_eq!(exchange.ledger.of(Owner::ReceiveWindow), 40);
        assert_eq!(of(&exchange, Cause::ReceiveWindow), 40);
    }
}
