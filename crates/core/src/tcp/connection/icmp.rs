//! ICMP errors about packets of a connection (RFC 792, RFC 4443): their source, and their effect
//! on the sender (RFC 5461).

use crate::model::Sighting;
use crate::tcp::connection::Connection;
use crate::tcp::connection::cold::Cold;
use crate::tcp::sender::Sender;
use crate::tcp::setup::Setup;
use crate::tcp::shared::Shared;
use crate::tcp::thresholds::OPTIONS_MAX_BYTES;
use crate::wire::{Endpoint, IcmpError, IcmpErrorKind, Side};

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

impl IcmpReport {
    /// Returns whether a router reported that `bytes` of payload of `sender` are too big for its next link
    /// (RFC 1191 §4, RFC 8201 §3). A segment without options is the least that carries them.
    pub fn is_too_big(&self, sender: Side, bytes: u32) -> bool {
        let headers = ip_header(&self.reporter) + TCP_HEADER_BYTES;
        self.mtu > 0 && self.about == sender && bytes + headers > self.mtu
    }

    /// Returns whether segments of `bytes` are what the reported link carries, with or without options:
    /// the sender has heard of it (RFC 1191 §6.4).
    pub fn is_obeyed_by(&self, sender: Side, bytes: u64) -> bool {
        let headers = ip_header(&self.reporter) + TCP_HEADER_BYTES;
        let most = u64::from(self.mtu.saturating_sub(headers));
        self.mtu > 0 && self.about == sender && bytes <= most && most <= bytes + OPTIONS_MAX_BYTES
    }

    /// Returns whether the error rejects data of `sender` on the established connection for another
    /// reason than its size.
    pub fn rejects(&self, sender: Side) -> bool {
        let is_too_big = matches!(self.kind, IcmpErrorKind::PacketTooBig { .. });
        !self.about_syn && self.about == sender && !is_too_big
    }
}

/// Header of TCP without options (RFC 9293 §3.1), bytes.
const TCP_HEADER_BYTES: u32 = 20;

/// Header of IP without options at an address of this family (RFC 791 §3.1, RFC 8200 §3), bytes.
fn ip_header(at: &Endpoint) -> u32 {
    if at.ip().is_ipv4() { 20 } else { 40 }
}

impl Connection {
    /// Processes an ICMP error about a packet of this connection. The sequence number that it
    /// quotes must be in flight, since everything else is easily forged (RFC 5927 §4.1).
    pub fn icmp_error(&mut self, error: &IcmpError, shared: &mut Shared) {
        self.leave_fast_path(shared);
        let about =
            if error.from_high == self.client_is_high { Side::Client } else { Side::Server };
        let sender = &self.senders[about];
        let Some(seq) = error.seq.filter(|&seq| sender.space.is_under_way(seq)) else { return };
        let about_syn = sender.space.first_number() == Some(seq) && !self.mid_stream;
        let (frame, time_ns) = (error.frame, error.time_ns);
        let seen = Sighting { frame, time_ns, payload_bytes: 0, from: about.peer() };
        let (kind, reporter) = (error.kind, error.reporter);
        let (last, mtu, count) = (seen, 0, 0);
        let first = IcmpReport { kind, reporter, seen, last, about, about_syn, mtu, count };
        let report = self.cold.get_or_create().icmp_report.get_or_insert_with(|| Box::new(first));
        report.count += 1;
        report.last = seen;
        if let IcmpErrorKind::PacketTooBig { mtu } = kind {
            report.mtu = if report.mtu == 0 { mtu } else { report.mtu.min(mtu) };
            // The sender retransmits the data at once in smaller segments (RFC 1191 §6.4).
            let nxt = self.senders[about].space.nxt;
            self.senders[about].history_mut().mtu.report(nxt);
        }
        // RFC 1122 §4.2.3.9 requires that these errors abort a connection; Linux does so only
        // during the handshake.
        let is_hard_error =
            matches!(kind, IcmpErrorKind::PortUnreachable | IcmpErrorKind::Prohibited);
        let unanswered = !self.senders[about.peer()].space.started();
        if is_hard_error && about_syn && about == Side::Client && unanswered {
            refused_by(&mut self.setup, &mut self.cold, &seen);
        }
    }
}

/// Decides at the end: an attempt each of whose SYNs an ICMP error answered is refused by it. An
/// error that may be transient, such as no route, ends the attempt on Linux, and elsewhere the
/// client tries again until it gives up (RFC 1122 §4.2.3.9).
pub(super) fn settle_refusal(setup: &mut Setup, cold: &mut Cold, server: &Sender, is_probe: bool) {
    let Some(report) = cold.icmp_report().copied() else { return };
    let each = report.count >= setup.syns.into() && setup.syns > 0;
    let of_syn = report.about_syn && report.about == Side::Client;
    if each && !server.space.started() && of_syn && !is_probe {
        refused_by(setup, cold, &report.last);
    }
}

fn refused_by(setup: &mut Setup, cold: &mut Cold, error: &Sighting) {
    setup.refused = true;
    cold.ending_mut().reset.get_or_insert(*error);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kind: IcmpErrorKind, about: Side, about_syn: bool, count: u64) -> IcmpReport {
        let (seen, reporter) = (Sighting::default(), Endpoint::default());
        IcmpReport { kind, reporter, seen, last: seen, about, about_syn, mtu: 0, count }
    }

    #[test]
    fn a_packet_that_is_too_big_is_not_rejected() {
        let rejects = |kind| report(kind, Side::Server, false, 1).rejects(Side::Server);
        assert!(rejects(IcmpErrorKind::Prohibited));
        assert!(!rejects(IcmpErrorKind::PacketTooBig { mtu: 1_400 }));
    }

    #[test]
    fn an_attempt_is_refused_if_each_syn_was_answered_by_an_error() {
        let is_refused = |syns, count, is_probe| {
            let mut setup = Setup::default();
            setup.syns = syns;
            let mut cold = Cold::default();
            let report = report(IcmpErrorKind::Prohibited, Side::Client, true, count);
            cold.get_or_create().icmp_report = Some(Box::new(report));
            settle_refusal(&mut setup, &mut cold, &Sender::of(Side::Server), is_probe);
            setup.refused && cold.is_over()
        };
        assert!(is_refused(2, 2, false));
        assert!(!is_refused(3, 2, false));
        assert!(!is_refused(2, 2, true));
    }
}
