//! A sender's packets by the identification field of IPv4 (RFC 6864), where it counts them.
//!
//! Linux counts it up per socket, so that a jump is packets that were sent and did not come by.
//! Others count all that the host sends, to whomever: a jump says nothing of this connection there.

use crate::wire::{Segment, TcpFlags};

/// Linux sends with this time to live; Windows and others with one that still is above it after
/// any path.
const TTL_LINUX: u8 = 64;

/// More than this is no count.
const JUMP_MAX: u16 = 64;

/// Matches less mismatches that are as good as any number of them.
const TRUST_MAX: i8 = 20;

/// What a number weighs that is missing where nothing was lost: a lone ACK may be, seldom.
const REFUTED: i8 = 4;

/// The field counts what the host sends.
const OF_HOST: i8 = i8::MIN + 1;

/// The field counts nothing: different packets have the same number (RFC 6864 §4.1 allows it where they are
/// not to be fragmented).
const ALL_ALIKE: i8 = i8::MIN;

/// The identification field of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct PacketCount {
    /// What the next packet should have.
    next: u16,
    /// Matches less mismatches; [`OF_HOST`] or [`ALL_ALIKE`] once it is known to say nothing.
    trust: i8,
    /// What was [`NUMBERED`], and whether one [`CAME_LATE`].
    noted: u8,
}

/// The handshake's answer carried a number. That of Linux carries none.
const NUMBERED: u8 = 1;

/// A packet that was left out has just come after all.
const CAME_LATE: u8 = 2;

impl PacketCount {
    fn note(&mut self, what: u8, holds: bool) {
        self.noted = self.noted & !what | if holds { what } else { 0 };
    }

    /// Whether a packet that was left out has just come after all.
    #[inline]
    pub fn came_late(self) -> bool {
        self.noted & CAME_LATE != 0
    }

    /// The same, once.
    #[inline]
    pub fn take_late(&mut self) -> bool {
        let late = self.came_late();
        if late {
            self.note(CAME_LATE, false);
        }
        late
    }

    /// Whether it has proved to count this connection's packets.
    pub fn is_proven(self) -> bool {
        self.trust >= 2
    }

    /// How far the number of `segment` is from what its packet should have.
    pub fn jump(self, segment: &Segment) -> u16 {
        segment.ip_id.wrapping_sub(self.next)
    }

    /// Whether different packets have different numbers, as far as they have any.
    #[inline]
    pub fn tells_apart(self) -> bool {
        self.trust != ALL_ALIKE
    }

    /// Before `segment`, its direction's last packet had the number `last`, and the other direction's
    /// `others`. Where that is one which this direction leaves out, both are of one count, as where
    /// something wrote the capture that was no host: no two hosts count together, and what is missing on one
    /// side went the other way.
    pub fn meet(&mut self, segment: &Segment, last: u16, others: u16) {
        let jump = self.jump(segment);
        if last != 0 && segment.ip_id == last {
            self.trust = ALL_ALIKE;
        } else if others != 0 && jump <= JUMP_MAX && others.wrapping_sub(self.next) < jump {
            self.trust = self.trust.min(OF_HOST);
        }
    }

    /// Whether `segment` tells nothing new: it has the number that it should have, or the field has long
    /// since proved to say nothing of this connection.
    #[inline]
    pub fn goes_on(self, segment: &Segment) -> bool {
        self.trust <= OF_HOST || self.trust == -REFUTED || self.jump(segment) == 0
    }

    /// Takes in `segment`, one packet that has the number it should have, and neither begins a stream
    /// nor may have a number of the host's; of others it does nothing, and they have to be
    /// [`follow`](Self::follow)ed.
    #[inline]
    pub fn take_next(&mut self, segment: &Segment) -> bool {
        let is_next = segment.ip_id == self.next
            && segment.ttl <= TTL_LINUX
            && self.trust > OF_HOST
            && self.noted & NUMBERED == 0
            && !segment.flags.has(TcpFlags::SYN);
        if is_next {
            self.trust = (self.trust + 1).min(TRUST_MAX);
            self.next = segment.ip_id.wrapping_add(1);
        }
        is_next
    }

    /// Takes in `segment`, this direction's packet number `number` (from 1), which stands for so
    /// many `packets`: how many before it did not come by. `lossless`: its stream shows that
    /// nothing was lost there, whatever the number says.
    pub fn follow(&mut self, segment: &Segment, packets: u16, number: u64, lossless: bool) -> u16 {
        let jump = self.jump(segment);
        let mut missing = 0;
        if self.trust <= OF_HOST || self.is_of_host(segment, jump) {
            self.trust = self.trust.min(OF_HOST);
        } else if number > 1 && !segment.flags.has(TcpFlags::SYN) {
            if (1..=JUMP_MAX).contains(&jump.wrapping_neg()) {
                // It was overtaken, and what overtook it refutes nothing.
                self.trust = (self.trust + REFUTED).min(TRUST_MAX);
                self.note(CAME_LATE, true);
                return 0;
            }
            if jump == 0 {
                self.trust = self.trust.saturating_add(1).min(TRUST_MAX);
            } else if lossless && number > 2 {
                self.trust = (self.trust - REFUTED).max(-REFUTED);
            } else if self.trust > 0 && jump <= JUMP_MAX {
                missing = jump;
                self.trust -= 1;
            } else if self.trust >= 2 && jump >= 0x8000 {
                return 0;
            } else if number > 2 {
                self.trust = (self.trust - 2).max(-REFUTED);
            }
        }
        self.next = segment.ip_id.wrapping_add(packets);
        missing
    }

    /// Whether `segment`, `jump` beyond what the count expects, shows it to be the host's.
    fn is_of_host(&mut self, segment: &Segment, jump: u16) -> bool {
        if segment.flags.has(TcpFlags::SYN | TcpFlags::ACK) {
            self.note(NUMBERED, segment.ip_id != 0);
            return segment.ttl > TTL_LINUX;
        }
        // The number goes on where the handshake left it.
        let goes_on = self.noted & NUMBERED != 0 && jump <= JUMP_MAX;
        self.note(NUMBERED, false);
        goes_on || segment.ttl > TTL_LINUX
    }
}
