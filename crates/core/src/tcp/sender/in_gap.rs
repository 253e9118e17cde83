//! Fills the groups of a [`Gap`](crate::judge::Gap) that state the knowledge of the sender.

use super::{Kind, Sender, SinceDeparture};
use crate::judge::{Flight, Losses, OfferedWindow, Repair, Shape};
use crate::wire::Segment;

impl Sender {
    /// Returns the sender's flight in the gap. If `continues`, the sender ends the gap itself. The
    /// congestion window has opened since position `opens_from`.
    pub fn flight_in_gap(
        &self,
        since: &SinceDeparture,
        continues: bool,
        opens_from: u64,
    ) -> Flight {
        let before = since.flight_before(self.space.flight());
        let shape = self.bulk.as_ref().map_or(Shape::Opening, |bulk| {
            bulk.rounds.shape_with(
                before,
                self.habits.drained(&self.last),
                self.space.una(),
                self.smss(),
            )
        });
        Flight {
            first: if since.acks.last.is_none() { before } else { since.flight_first },
            before,
            cut: false,
            reached: self.flight_reached(),
            apart_ns: if continues { self.last.apart_ns() } else { 0 },
            small_acked: self.small_acked_of(before),
            cwnd_opened: self
                .window_opened_by((self.space.nxt - before).saturating_sub(opens_from)),
            waits_per_segment: self.habits.waits_per_segment(),
            shape,
        }
    }

    /// Returns the window offered to the sender, up to `end_ns`.
    pub fn window_in_gap(&self, since: &SinceDeparture, end_ns: u64) -> OfferedWindow {
        let (bytes, room) = match since.acks.last {
            None => (self.space.window(), self.space.room()),
            Some(_) => (since.window_before, since.room_before),
        };
        let closed_ns = since.closed_ns + self.closed_for_ns(end_ns);
        OfferedWindow {
            bytes,
            room,
            limited_before: bytes
                .is_some_and(|bytes| self.history().window.is_at_last_level(bytes)),
            closed_ns,
            closed_by: self.history().window.closed_by().filter(|_| closed_ns > 0),
            probes: since.probes,
        }
    }

    /// Returns the losses of the sender. `may_have_occurred`: the capture began in the middle of
    /// the connection.
    pub fn losses_in_gap(&self, since: &SinceDeparture, may_have_occurred: bool) -> Losses {
        let history = self.history();
        Losses {
            occurred: history.losses.occurred,
            may_have_occurred: may_have_occurred || history.losses.occurred,
            in_recovery: self.in_recovery(),
            missing: since.missing,
            repeated_ns: since.repeated_ns,
            pmtu_reported: history.mtu.reported,
        }
    }

    /// Returns how `segment` of `kind`, which begins at position `start` and ends a gap at
    /// `end_ns`, relates to earlier data.
    pub fn repair_in_gap(
        &self,
        segment: &Segment,
        (start, kind): (u64, Kind),
        end_ns: u64,
    ) -> Repair {
        match kind {
            Kind::Retransmission(recovery) | Kind::Fill(recovery) => Repair {
                trigger: Some(recovery),
                original: self.original(start),
                unseen: matches!(kind, Kind::Fill(_)),
                tail: start + u64::from(segment.payload_len) >= self.space.nxt,
                ..Repair::default()
            },
            Kind::Reordered => {
                let late_ns = self.overtaken_ns(start, end_ns);
                Repair { overtaken: true, late_ns, ..Repair::default() }
            }
            Kind::New | Kind::Late | Kind::Probe => Repair::default(),
        }
    }
}
