//! ICMP errors about packets of a connection (RFC 792, RFC 4443): their source, and their effect
//! on the sender (RFC 5461).

use crate::app::Side;
use crate::model::Sighting;
use crate::tcp::connection::Connection;
use crate::tcp::shared::Shared;
use crate::tcp::thresholds::PROBE_TTL_MAX;
use crate::wire::{Endpoint, IcmpError, IcmpErrorKind};

/// Summary of the ICMP errors about packets of one connection.
#[derive(Clone, Copy, Debug)]
pub struct IcmpReport {
    /// Kind of the first error.
    pub kind: IcmpErrorKind,
    /// Address that reported the error; its port is 0.
    pub reporter: Endpoint,
    /// The frame of the first error.
    pub seen: Sighting,
    /// The frame of the last error.
    pub last: Sighting,
    /// Side whose packet the error is about.
    pub about: Side,
    /// The error is about a SYN.
    pub about_syn: bool,
    /// Smallest MTU reported, bytes; 0 if none was.
    pub mtu: u32,
    /// Number of errors.
    pub count: u64,
}

impl Connection {
    /// Processes an ICMP error about a packet of this connection. The sequence number that it
    /// quotes must be in flight, since everything else is easily forged (RFC 5927 §4.1).
    pub fn icmp_error(&mut self, error: &IcmpError, shared: &mut Shared) {
        self.leave_fast_path(shared);
        let about =
            if error.from_high == self.client_is_high { Side::Client } else { Side::Server };
        let sender = &self.senders[about as usize];
        let Some(seq) = error.seq.filter(|&seq| sender.space.is_under_way(seq)) else { return };
        let about_syn = sender.space.first_number() == Some(seq) && !self.mid_stream;
        let (frame, time_ns) = (error.frame, error.time_ns);
        let seen = Sighting { frame, time_ns, payload_bytes: 0, from: about.peer() };
        let (kind, reporter) = (error.kind, error.reporter);
        let (last, mtu, count) = (seen, 0, 0);
        let first = IcmpReport { kind, reporter, seen, last, about, about_syn, mtu, count };
        let report = self.cold_mut().icmp_report.get_or_insert_with(|| Box::new(first));
        report.count += 1;
        report.last = seen;
        if let IcmpErrorKind::PacketTooBig { mtu } = kind {
            report.mtu = if report.mtu == 0 { mtu } else { report.mtu.min(mtu) };
            // The sender retransmits the data at once in smaller segments (RFC 1191 §6.5).
            let nxt = self.senders[about as usize].space.nxt;
            self.senders[about as usize].history_mut().mtu.report(nxt);
        }
        // RFC 1122 §4.2.3.9 requires that these errors abort a connection; Linux does so only
        // during the handshake.
        let is_hard_error =
            matches!(kind, IcmpErrorKind::PortUnreachable | IcmpErrorKind::Prohibited);
        let unanswered = !self.senders[about.peer() as usize].space.started();
        if is_hard_error && about_syn && about == Side::Client && unanswered {
            self.refused_by(&seen);
        }
    }

    /// Decides at the end: an attempt each of whose SYNs an ICMP error answered is refused by it. An
    /// error that may be transient, such as no route, ends the attempt on Linux, and elsewhere the
    /// client tries again until it gives up (RFC 1122 §4.2.3.9).
    pub(super) fn settle_icmp_refusal(&mut self) {
        let Some(report) = self.icmp_report().copied() else { return };
        let unheard = !self.senders[Side::Server as usize].space.started();
        let each = report.count >= self.setup.syns.into() && self.setup.syns > 0;
        let of_syn = report.about_syn && report.about == Side::Client;
        if each && unheard && of_syn && !self.sends_probes() {
            self.refused_by(&report.last);
        }
    }

    /// Returns whether the SYNs are probes: they show it themselves, or one came with a TTL with
    /// which no system begins and died on the way.
    pub fn sends_probes(&self) -> bool {
        let died =
            |report: &IcmpReport| report.about_syn && report.kind == IcmpErrorKind::TimeExceeded;
        self.setup.is_probe()
            || self.setup.marks().ttl <= PROBE_TTL_MAX && self.icmp_report().is_some_and(died)
    }

    fn refused_by(&mut self, error: &Sighting) {
        self.setup.refused = true;
        let ending = self.ending_mut();
        ending.reset.get_or_insert(*error);
    }

    /// ICMP errors about this connection, if there were any.
    pub fn icmp_report(&self) -> Option<&IcmpReport> {
        self.cold(|cold| &cold.icmp_report)
    }

    /// ICMP errors that reject data of `sender` on the established connection for another reason
    /// than its size.
    pub fn rejects(&self, sender: Side) -> Option<&IcmpReport> {
        let rejected = |report: &&IcmpReport| {
            let is_too_big = matches!(report.kind, IcmpErrorKind::PacketTooBig { .. });
            !report.about_syn && report.about == sender && !is_too_big
        };
        self.icmp_report().filter(rejected)
    }

    /// Host, other than the server, that rejected the SYN by an ICMP error.
    pub fn rejecting_host(&self) -> Option<Endpoint> {
        let of_syn = |report: &&IcmpReport| report.about_syn && report.about == Side::Client;
        let report = self.icmp_report().filter(of_syn)?;
        (report.reporter.address != self.server().address).then_some(report.reporter)
    }
}
