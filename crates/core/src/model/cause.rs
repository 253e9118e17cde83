//! The causes: one row for each, with the properties that every layer needs.
//!
//! The row of the same cause in `findings/causes` states how it is proven and when it is a finding.

use super::vocabulary::vocabulary;
use crate::model::{Class, Culprit, Owner, Role};
use crate::wire::{Endpoint, Side};
use Family::{Application, Host, Lookup, Loss, Path, Protocol, Repetition, SetUp, Window};
use Party::{Client, Receiver, Resolver, Sender, Server};

/// Properties of a cause that do not depend on a case.
struct Traits {
    family: Family,
    class: Class,
    /// The owners of the time that it takes. A cause that makes exchanges fail can have time of
    /// any owner.
    owners: &'static [Owner],
    culprit: Party,
    /// Party near which the cause is seen best.
    witness: Party,
    /// Affected exchanges fail, so that they have no latency to compare with.
    fails: bool,
    /// The cause shows in segments that are retransmitted, out of order, or held back by a closed
    /// window.
    repeats_or_waits: bool,
    /// The end of an exchange may give its time another cause, or reduce it.
    revised: bool,
    /// The causes that the rest of an exchange may show a silence with this one to have had, and the
    /// owner that the time has then.
    becomes: &'static [(Cause, Owner)],
    /// Which of several cases shows it best.
    clearest: Clearest,
    /// The sender waits for an ACK that its receiver keeps back.
    waits_for_ack: bool,
}

/// The values of a fault that its row does not state.
const FAULT: Traits = Traits {
    family: Path,
    class: Class::Fault,
    owners: &[],
    culprit: Party::Network,
    witness: Sender,
    fails: false,
    repeats_or_waits: false,
    revised: false,
    becomes: &[],
    clearest: Clearest::Longest,
    waits_for_ack: false,
};

/// The values of a cost that its row does not state.
const COST: Traits = Traits { class: Class::Cost, ..FAULT };

macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident = $id:literal { $($traits:tt)* })*) => {
        vocabulary! {
            /// Why time was lost or an exchange failed.
            Cause { $($(#[$doc])* $cause = $id,)* }
        }

        /// The rows, in the order of the causes.
        const ROWS: &[Traits; Cause::ALL.len()] = &[$(Traits { $($traits)* },)*];
    };
}

causes! {
    /// A small segment held by Nagle's algorithm for a delayed ACK.
    NagleDelayedAck = "nagle_delayed_ack" {
        family: Window, owners: &[Owner::NagleDelayedAck], culprit: Sender, revised: true,
        becomes: &[
            (Cause::ServerThink, Owner::Server),
            (Cause::ClientThink, Owner::Client),
            (Cause::DelayedAck, Owner::DelayedAck),
        ],
        clearest: Clearest::EndedByAck, waits_for_ack: true, ..FAULT
    }
    /// A sender blocked on an ACK that came late.
    DelayedAck = "delayed_ack" {
        family: Window, owners: &[Owner::DelayedAck], culprit: Sender, waits_for_ack: true, ..FAULT
    }
    /// The send buffer is below the bandwidth-delay product.
    SendBuffer = "send_buffer" {
        family: Window, owners: &[Owner::SendBuffer], culprit: Sender, revised: true,
        becomes: &[(Cause::ReceiveWindow, Owner::ReceiveWindow)], ..FAULT
    }
    /// The advertised window is below the bandwidth-delay product.
    ReceiveWindow = "receive_window" {
        family: Window, owners: &[Owner::ReceiveWindow], culprit: Receiver,
        repeats_or_waits: true, revised: true,
        becomes: &[(Cause::ZeroWindow, Owner::ZeroWindow)], ..FAULT
    }
    /// The receiving application does not read.
    ZeroWindow = "zero_window" {
        family: Window, owners: &[Owner::ZeroWindow], culprit: Receiver,
        repeats_or_waits: true, ..FAULT
    }
    /// The window of an HTTP/2 stream or connection is below the bandwidth-delay product, or its
    /// receiver does not read.
    Http2FlowControl = "http2_flow_control" {
        family: Window, owners: &[Owner::Http2FlowControl], culprit: Receiver, revised: true, ..FAULT
    }
    /// The congestion window is still growing.
    SlowStart = "slow_start" {
        family: Window, owners: &[Owner::CongestionWindow], culprit: Sender,
        becomes: &[
            (Cause::SendBuffer, Owner::SendBuffer),
            (Cause::ReceiveWindow, Owner::ReceiveWindow),
        ],
        ..COST
    }
    /// The congestion window is small after a loss.
    CongestionWindow = "congestion_window" {
        family: Window, owners: &[Owner::CongestionWindow], revised: true,
        // The small window after a loss is due to the loss.
        becomes: &[
            (Cause::RetransmissionTimeout, Owner::CongestionWindow),
            (Cause::FastRecovery, Owner::CongestionWindow),
        ],
        ..COST
    }
    /// A loss repaired by a timer.
    RetransmissionTimeout = "retransmission_timeout" {
        family: Loss, owners: &[Owner::RetransmissionTimeout],
        repeats_or_waits: true, revised: true, clearest: Clearest::Repaired,
        becomes: &[
            (Cause::MtuBlackHole, Owner::RetransmissionTimeout),
            (Cause::AcceptQueueOverflow, Owner::Connect),
            (Cause::Reordering, Owner::RetransmissionTimeout),
            (Cause::SpuriousRetransmission, Owner::RetransmissionTimeout),
        ],
        ..FAULT
    }
    /// A loss repaired by duplicate ACKs, SACK or RACK.
    FastRecovery = "fast_recovery" {
        family: Loss, owners: &[Owner::FastRecovery],
        repeats_or_waits: true, revised: true, clearest: Clearest::Repaired,
        becomes: &[
            (Cause::Reordering, Owner::FastRecovery),
            (Cause::SpuriousRetransmission, Owner::FastRecovery),
        ],
        ..FAULT
    }
    /// A retransmission of data that had arrived.
    SpuriousRetransmission = "spurious_retransmission" {
        family: Repetition, owners: &[Owner::FastRecovery, Owner::RetransmissionTimeout],
        repeats_or_waits: true, ..FAULT
    }
    /// Segments that arrived out of order.
    Reordering = "reordering" {
        // Segments are reordered after they leave the sender's place.
        family: Repetition, owners: &[Owner::FastRecovery], witness: Receiver,
        repeats_or_waits: true, ..FAULT
    }
    /// A connection attempt that had to be repeated.
    SynRetransmit = "syn_retransmit" {
        family: SetUp, owners: &[Owner::SynRetransmit], witness: Client, ..FAULT
    }
    /// Round trips over a long distance.
    PathRtt = "path_rtt" {
        family: Path, owners: &[Owner::Path, Owner::Connect], ..COST
    }
    /// The bottleneck's rate.
    Bandwidth = "bandwidth" {
        family: Path, owners: &[Owner::Bandwidth, Owner::Queueing], ..COST
    }
    /// The queue that the flow itself builds at the bottleneck.
    Bufferbloat = "bufferbloat" {
        family: Path, owners: &[Owner::Queueing], ..FAULT
    }
    /// Packets above a certain size are lost.
    MtuBlackHole = "mtu_black_hole" {
        family: Path, owners: &[Owner::RetransmissionTimeout], repeats_or_waits: true,
        clearest: Clearest::Repaired, ..FAULT
    }
    /// The listener's queue of completed connections is full.
    AcceptQueueOverflow = "accept_queue_overflow" {
        family: SetUp, owners: &[Owner::Connect], culprit: Server, witness: Server,
        repeats_or_waits: true, ..FAULT
    }
    /// Many half-open connections.
    SynFlood = "syn_flood" {
        family: Host, owners: &[Owner::SynRetransmit, Owner::Connect], culprit: Server, ..FAULT
    }
    /// A connection attempt answered by RST.
    Refused = "refused" {
        family: Family::Ending, culprit: Server, fails: true, ..FAULT
    }
    /// A RST in mid-stream.
    Reset = "reset" {
        family: Family::Ending, culprit: Sender, fails: true, ..FAULT
    }
    /// A request sent on a connection that the peer had closed for idleness.
    IdleReset = "idle_reset" {
        family: Family::Ending, culprit: Sender, fails: true, ..FAULT
    }
    /// A request without an answer.
    NoAnswer = "no_answer" {
        family: Family::Ending, culprit: Server, witness: Server, fails: true, ..FAULT
    }
    /// A response that reports an error.
    ErrorResponses = "error_responses" {
        family: Family::Ending, culprit: Server, witness: Server, fails: true, ..FAULT
    }
    /// A device on the path has forgotten an idle connection.
    IdleFlowDropped = "idle_flow_dropped" {
        family: Family::Ending, owners: &[Owner::RetransmissionTimeout], fails: true,
        repeats_or_waits: true, ..FAULT
    }
    /// The connection tracking table is full.
    ConntrackFull = "conntrack_full" { family: Host, ..FAULT }
    /// Two packets of one new flow raced in connection tracking.
    ConntrackRace = "conntrack_race" { family: Host, ..FAULT }
    /// The client ran out of local ports.
    PortExhaustion = "port_exhaustion" { family: Host, culprit: Client, ..FAULT }
    /// The TLS handshake.
    TlsHandshake = "tls_handshake" {
        family: Protocol, owners: &[Owner::Tls], culprit: Server, ..COST
    }
    /// The client waited for a 100 Continue.
    Http100Continue = "http_100_continue" {
        family: Protocol, owners: &[Owner::Http100Continue], culprit: Server, ..FAULT
    }
    /// A slow answer of the resolver.
    DnsSlow = "dns_slow" {
        family: Lookup, owners: &[Owner::Dns], culprit: Resolver, ..FAULT
    }
    /// A lost or unanswered query.
    DnsTimeout = "dns_timeout" {
        family: Lookup, owners: &[Owner::Dns], culprit: Resolver, ..FAULT
    }
    /// A failing answer (SERVFAIL, REFUSED).
    DnsFailure = "dns_failure" {
        family: Lookup, owners: &[Owner::Dns], culprit: Resolver, fails: true, ..FAULT
    }
    /// Search domains tried without success before the name itself.
    DnsSearch = "dns_search" {
        family: Lookup, owners: &[Owner::Dns], culprit: Resolver, ..FAULT
    }
    /// An unanswered PTR query.
    ReverseDnsTimeout = "reverse_dns_timeout" {
        family: Lookup, owners: &[Owner::Dns], culprit: Resolver, ..FAULT
    }
    /// The server's own work.
    ServerThink = "server_think" {
        family: Application, owners: &[Owner::Server], culprit: Server, ..COST
    }
    /// The client's own pause.
    ClientThink = "client_think" {
        family: Application, owners: &[Owner::Client], culprit: Client, ..COST
    }
    /// A server's wait for another server.
    UpstreamWait = "upstream_wait" {
        family: Application, owners: &[Owner::Server], culprit: Server, ..COST
    }
    /// A server that the CPU quota of its control group stops.
    CpuThrottled = "cpu_throttled" {
        family: Host, owners: &[Owner::Server], culprit: Server, witness: Server, ..FAULT
    }
    /// A server that waits for a CPU while other threads have them.
    CpuSaturation = "cpu_saturation" {
        family: Host, owners: &[Owner::Server], culprit: Server, witness: Server, ..FAULT
    }
    /// Requests that lie unread while the thread of their connection runs others.
    EventLoopBlocked = "event_loop_blocked" {
        family: Application, owners: &[Owner::Server], culprit: Server, witness: Server, ..FAULT
    }
    /// Requests that lie unread because all workers have others.
    WorkersExhausted = "workers_exhausted" {
        family: Application, owners: &[Owner::Server], culprit: Server, witness: Server, ..FAULT
    }
    /// Requests that wait for a lock.
    LockWait = "lock_wait" {
        family: Application, owners: &[Owner::Server], culprit: Server, witness: Server, ..FAULT
    }
    /// Requests that wait while a virtual machine stops its threads to collect garbage.
    GcPause = "gc_pause" {
        family: Application, owners: &[Owner::Server], culprit: Server, witness: Server, ..FAULT
    }
    /// Requests that wait for block I/O.
    DiskWait = "disk_wait" {
        family: Host, owners: &[Owner::Server], culprit: Server, witness: Server, ..FAULT
    }
    /// Requests that wait for memory: page faults, reclaim or swap.
    MemoryPressure = "memory_pressure" {
        family: Host, owners: &[Owner::Server], culprit: Server, witness: Server, ..FAULT
    }
}

/// A group of causes with the same kind of mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A sender waits for an ACK, or for room in a window or buffer.
    Window,
    /// Segments are lost and sent again.
    Loss,
    /// Segments are sent again or arrive out of order, and none was lost.
    Repetition,
    /// A connection attempt is repeated.
    SetUp,
    /// Properties of the path.
    Path,
    /// A connection or an attempt ends with a RST or too early.
    Ending,
    /// Tables and queues of a host.
    Host,
    /// A part of the protocol above TCP.
    Protocol,
    /// A name look-up.
    Lookup,
    /// An application's own time.
    Application,
}

/// Which of several cases of a cause is its best proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearest {
    /// The longest.
    Longest,
    /// One whose repair was captured, then one whose original segment was, too; then the longest.
    Repaired,
    /// The longest of those that an ACK ended.
    EndedByAck,
}

/// A party to a silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// The side that was silent, or sent the RST.
    Sender,
    /// The side that it sends to.
    Receiver,
    /// The side that opened the connection.
    Client,
    /// The side that accepted the connection.
    Server,
    /// The path between the sides.
    Network,
    /// The name server.
    Resolver,
}

impl Party {
    /// Returns the side of the connection on which `sender` was silent, if it is one.
    fn side(self, sender: Side) -> Option<Side> {
        match self {
            Sender => Some(sender),
            Receiver => Some(sender.peer()),
            Client => Some(Side::Client),
            Server => Some(Side::Server),
            Self::Network | Resolver => None,
        }
    }
}

impl Cause {
    /// Returns whether the end of an exchange may replace or reduce the cause.
    pub(super) const fn is_revised(self) -> bool {
        self.traits().revised
    }

    const fn traits(self) -> &'static Traits {
        &ROWS[self as usize]
    }

    /// Returns the family of the cause.
    pub fn family(self) -> Family {
        self.traits().family
    }

    /// Returns whether the cause is a fault or a cost.
    pub fn class(self) -> Class {
        self.traits().class
    }

    /// Returns the owners of the time that the cause takes. A cause that makes exchanges fail can
    /// have time of any owner.
    pub const fn owners(self) -> &'static [Owner] {
        self.traits().owners
    }

    /// Returns whether affected exchanges fail, so that they have no latency to compare with.
    pub fn makes_exchanges_fail(self) -> bool {
        self.traits().fails
    }

    /// Returns whether the cause shows in segments that are retransmitted, out of order, or held
    /// back by a closed window.
    pub fn repeats_or_waits(self) -> bool {
        self.traits().repeats_or_waits
    }

    /// Returns the causes that the rest of an exchange may show a silence with this one to have had,
    /// and the owner that the time has then.
    pub fn becomes(self) -> &'static [(Cause, Owner)] {
        self.traits().becomes
    }

    /// Returns which of several cases shows the cause best.
    pub fn clearest(self) -> Clearest {
        self.traits().clearest
    }

    /// Returns whether it takes the time that a server needs itself, and no other.
    pub fn is_of_server_time(self) -> bool {
        matches!(self.owners(), [Owner::Server])
    }

    /// Returns whether the sender waits for an ACK that its receiver keeps back.
    pub fn waits_for_ack(self) -> bool {
        self.traits().waits_for_ack
    }

    /// Returns whether the receiver of the data has to change something.
    pub fn is_of_receiver(self) -> bool {
        self.traits().culprit == Receiver
    }

    /// Returns the name of the party that has to change something, without a case.
    pub fn culprit_word(self) -> &'static str {
        match self.traits().culprit {
            Sender => "sender",
            Receiver => "receiver",
            Client => "client",
            Server => "server",
            Party::Network => "path",
            Resolver => "resolver",
        }
    }

    /// Returns the side near which the cause is seen best if `sender` was silent.
    pub fn witness(self, sender: Side) -> Side {
        self.traits().witness.side(sender).unwrap_or(sender)
    }

    /// Returns the role and endpoint that has to change something if `sender` was the silent side
    /// of a connection.
    pub fn culprit(self, sender: Side, client: Endpoint, server: Endpoint) -> Culprit {
        let party = self.traits().culprit;
        match party.side(sender) {
            Some(Side::Client) => {
                Culprit { role: Role::Client, endpoint: Endpoint { port: 0, ..client } }
            }
            Some(Side::Server) => Culprit { role: Role::Server, endpoint: server },
            None if party == Resolver => Culprit { role: Role::Resolver, endpoint: server },
            None => Culprit { role: Role::Network, endpoint: server },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_takes_time_of_some_owner() {
        for &cause in Cause::ALL.iter().filter(|cause| cause.class() == Class::Cost) {
            assert!(!cause.owners().is_empty(), "{cause:?}");
        }
    }

    #[test]
    fn what_a_receiver_has_to_change_is_at_the_peer_of_the_silent_side() {
        let [client, server] = [1, 2].map(|port| Endpoint { port, ..Endpoint::default() });
        let culprit = Cause::ZeroWindow.culprit(Side::Server, client, server);
        assert_eq!((culprit.role, culprit.endpoint.port), (Role::Client, 0));
        let culprit = Cause::NagleDelayedAck.culprit(Side::Server, client, server);
        assert_eq!((culprit.role, culprit.endpoint.port), (Role::Server, 2));
    }

    #[test]
    fn the_end_of_an_exchange_revises_losses_and_no_work() {
        assert!(Cause::RetransmissionTimeout.is_revised() && !Cause::ServerThink.is_revised());
    }
}
