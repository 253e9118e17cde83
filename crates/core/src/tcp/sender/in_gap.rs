//! Fills the groups of a [`Gap`](crate::judge::Gap) that state the knowledge of the sender.

use super::restart::window_opened_by;
use super::{Kind, Sender, SinceDeparture};
use crate::judge::{Flight, OfferedWindow, Repair, Shape};
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
                self.sizes.smss(),
            )
        });
        Flight {
            first: if since.acks.last.is_none() { before } else { since.flight_first },
            before,
            cut: false,
            opens_from_one: false,
            reached: self.history().losses.flight_reached(self.volume.flight_max),
            apart_ns: if continues { self.last.apart_ns() } else { 0 },
            small_acked: self.volume.small.was_acked_of(before, self.space.nxt, self.space.una()),
            cwnd_opened: window_opened_by(
                self.sizes.smss(),
                (self.space.nxt - before).saturating_sub(opens_from),
            ),
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
        let closed_ns =
            since.closed_ns + self.history().window.closed_for_ns(self.last.time_ns, end_ns);
        OfferedWindow {
            bytes,
            room,
            limited_before: bytes
                .is_some_and(|bytes| self.history().window.is_at_last_level(bytes)),
            misread: self.history().window.is_misread(),
            closed_ns,
            closed_by: self.history().window.closed_by().filter(|_| closed_ns > 0),
            is_narrow: closed_ns > 0 && self.history().window.is_narrow(),
            probes: since.probes,
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
                let late_ns = self.history().holes.overtaken_ns(start, end_ns);
                Repair { overtaken: true, late_ns, ..Repair::default() }
            }
            Kind::New | Kind::Late | Kind::Probe => Repair::default(),
        }
    }
}
