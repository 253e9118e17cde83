//! ICMP errors about what was sent on a connection (RFC 792, RFC 4443): who says so, and what its
//! sender makes of them (RFC 5461).

use super::*;
use crate::wire::{IcmpError, IcmpErrorKind};

/// What ICMP errors said of the packets of one connection.
#[derive(Clone, Copy, Debug)]
pub struct IcmpReport {
    /// The first of them: what it says.
    pub kind: IcmpErrorKind,
    /// Who said so; port 0.
    pub reporter: Endpoint,
    /// When and where that was seen.
    pub seen: Sighting,
    /// Whose packet it was about.
    pub about: Side,
    /// It was about a SYN.
    pub about_syn: bool,
    /// Smallest MTU reported, bytes; 0 if none was.
    pub mtu: u32,
    /// How many errors.
    pub count: u64,
}

impl Connection {
    /// Takes an ICMP error about a packet of this connection. What it quotes has to be under way:
    /// anybody can send the rest (RFC 5927 §4.1).
    pub fn icmp_error(&mut self, error: &IcmpError, shared: &mut Shared) {
        self.leave_fast_path(shared);
        let about =
            if error.from_high == self.client_is_high { Side::Client } else { Side::Server };
        let sender = &self.senders[about as usize];
        let Some(seq) = error.seq.filter(|&seq| sender.is_under_way(seq)) else { return };
        let about_syn = sender.first_number() == Some(seq) && !self.mid_stream;
        let (frame, time_ns) = (error.frame, error.time_ns);
        let seen = Sighting { frame, time_ns, payload_bytes: 0, from: about.peer() };
        let (kind, reporter) = (error.kind, error.reporter);
        let first = IcmpReport { kind, reporter, seen, about, about_syn, mtu: 0, count: 0 };
        let report = self.cold_mut().icmp_report.get_or_insert_with(|| Box::new(first));
        report.count += 1;
        if let IcmpErrorKind::PacketTooBig { mtu } = kind {
            report.mtu = if report.mtu == 0 { mtu } else { report.mtu.min(mtu) };
            // It is repeated at once, in smaller segments (RFC 1191 §6.5).
            let nxt = self.senders[about as usize].nxt;
            let trouble = self.senders[about as usize].trouble_mut();
            (trouble.pmtu_reported, trouble.pmtu_reported_end) = (true, nxt);
        }
        // RFC 1122 §4.2.3.9 has these end a connection; Linux does so while it is being set up.
        let final_word = matches!(kind, IcmpErrorKind::PortUnreachable | IcmpErrorKind::Prohibited);
        let unanswered = !self.senders[about.peer() as usize].started();
        if final_word && about_syn && about == Side::Client && unanswered {
            self.refused_by(&seen);
        }
    }

    /// Nothing more comes: a SYN that was not sent again after an ICMP error was refused by it. (What
    /// may pass, as a way that is missing, ends a connection attempt as well on Linux.)
    pub(super) fn settle_told(&mut self) {
        let Some(report) = self.icmp_report().copied() else { return };
        let alone = self.setup.syns == 1 && !self.senders[Side::Server as usize].started();
        if alone && report.about_syn && report.about == Side::Client {
            self.refused_by(&report.seen);
        }
    }

    fn refused_by(&mut self, error: &Sighting) {
        self.setup.refused = true;
        let ending = self.ending_mut();
        ending.reset.get_or_insert(*error);
    }

    /// What ICMP errors said, if there were any.
    pub fn icmp_report(&self) -> Option<&IcmpReport> {
        self.cold(|cold| &cold.icmp_report)
    }

    /// Who says that data of `sender`, while the connection stands, does not get there.
    pub fn rejects(&self, sender: Side) -> Option<&IcmpReport> {
        let rejected = |report: &&IcmpReport| {
            let fits = matches!(report.kind, IcmpErrorKind::PacketTooBig { .. });
            !report.about_syn && report.about == sender && !fits
        };
        self.icmp_report().filter(rejected)
    }

    /// Who, other than its server, says that its SYN does not get there.
    pub fn obstacle(&self) -> Option<Endpoint> {
        let of_syn = |report: &&IcmpReport| report.about_syn && report.about == Side::Client;
        let report = self.icmp_report().filter(of_syn)?;
        (report.reporter.address != self.server().address).then_some(report.reporter)
    }
}
