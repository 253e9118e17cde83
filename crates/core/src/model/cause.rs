//! The public vocabulary: causes, ledger owners, roles. The ids never change meaning.

macro_rules! vocabulary {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $id:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All values, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the public id used in JSON, reports and documents.
            pub fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }

            /// Returns the value with this public id.
            pub fn from_id(id: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.id() == id)
            }
        }
    };
}

vocabulary! {
    /// Why time was lost or an exchange failed.
    Cause {
        /// A small segment held by Nagle's algorithm for a delayed ACK.
        NagleDelayedAck = "nagle_delayed_ack",
        /// A sender blocked on an ACK that came late.
        DelayedAck = "delayed_ack",
        /// The send buffer is below the bandwidth-delay product.
        SendBuffer = "send_buffer",
        /// The advertised window is below the bandwidth-delay product.
        ReceiveWindow = "receive_window",
        /// The receiving application does not read.
        ZeroWindow = "zero_window",
        /// The congestion window is still growing.
        SlowStart = "slow_start",
        /// The congestion window is small after a loss.
        CongestionWindow = "congestion_window",
        /// A loss repaired by a timer.
        RetransmissionTimeout = "retransmission_timeout",
        /// A loss repaired by duplicate ACKs, SACK or RACK.
        FastRecovery = "fast_recovery",
        /// A retransmission of data that had arrived.
        SpuriousRetransmission = "spurious_retransmission",
        /// Segments that arrived out of order.
        Reordering = "reordering",
        /// A connection attempt that had to be repeated.
        SynRetransmit = "syn_retransmit",
        /// Round trips over a long distance.
        PathRtt = "path_rtt",
        /// The bottleneck's rate.
        Bandwidth = "bandwidth",
        /// The queue that the flow itself builds at the bottleneck.
        Bufferbloat = "bufferbloat",
        /// Packets above a certain size are lost.
        MtuBlackHole = "mtu_black_hole",
        /// The listener's queue of completed connections is full.
        AcceptQueueOverflow = "accept_queue_overflow",
        /// Many half-open connections.
        SynFlood = "syn_flood",
        /// A connection attempt answered by RST.
        Refused = "refused",
        /// A RST in mid-stream.
        Reset = "reset",
        /// A request sent on a connection that the peer had closed for idleness.
        IdleReset = "idle_reset",
        /// The connection tracking table is full.
        ConntrackFull = "conntrack_full",
        /// Two packets of one new flow raced in connection tracking.
        ConntrackRace = "conntrack_race",
        /// The client ran out of local ports.
        PortExhaustion = "port_exhaustion",
        /// The TLS handshake.
        TlsHandshake = "tls_handshake",
        /// The client waited for a 100 Continue.
        Http100Continue = "http_100_continue",
        /// A slow answer of the resolver.
        DnsSlow = "dns_slow",
        /// A lost or unanswered query.
        DnsTimeout = "dns_timeout",
        /// A failing answer (SERVFAIL, REFUSED).
        DnsFailure = "dns_failure",
        /// Search domains tried without success before the name itself.
        DnsSearch = "dns_search",
        /// An unanswered PTR query.
        ReverseDnsTimeout = "reverse_dns_timeout",
        /// The server's own work.
        ServerThink = "server_think",
        /// The client's own pause.
        ClientThink = "client_think",
    }
}

vocabulary! {
    /// The owner of a part of an exchange's wall time. Every nanosecond has exactly one owner.
    Owner {
        /// Name resolution.
        Dns = "dns",
        /// Connection set-up.
        Connect = "connect",
        /// The TLS handshake.
        Tls = "tls",
        /// Propagation, at the connection's base RTT.
        Path = "path",
        /// Serialisation at the measured bottleneck rate.
        Bandwidth = "bandwidth",
        /// RTT above the base RTT while the sender itself fills the path.
        Queueing = "queueing",
        /// The server's think time.
        Server = "server",
        /// The client's think time inside an exchange.
        Client = "client",
        /// See [`Cause::NagleDelayedAck`].
        NagleDelayedAck = "nagle_delayed_ack",
        /// See [`Cause::DelayedAck`].
        DelayedAck = "delayed_ack",
        /// See [`Cause::SendBuffer`].
        SendBuffer = "send_buffer",
        /// See [`Cause::ReceiveWindow`].
        ReceiveWindow = "receive_window",
        /// See [`Cause::ZeroWindow`].
        ZeroWindow = "zero_window",
        /// See [`Cause::SlowStart`] and [`Cause::CongestionWindow`].
        CongestionWindow = "congestion_window",
        /// See [`Cause::RetransmissionTimeout`].
        RetransmissionTimeout = "retransmission_timeout",
        /// See [`Cause::FastRecovery`].
        FastRecovery = "fast_recovery",
        /// See [`Cause::SynRetransmit`].
        SynRetransmit = "syn_retransmit",
        /// See [`Cause::Http100Continue`].
        Http100Continue = "http_100_continue",
        /// Time that could not be attributed.
        Unknown = "unknown",
    }
}

vocabulary! {
    /// The party at fault: where the change has to be made.
    Role {
        /// The side that opened the connection.
        Client = "client",
        /// The side that accepted it.
        Server = "server",
        /// The path between them.
        Network = "network",
        /// The name server.
        Resolver = "resolver",
        /// A host as such: its kernel or its limits.
        Host = "host",
    }
}

/// The class of a finding: a fault, or simply a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Something is wrong and someone can change it.
    Fault,
    /// A cost without a fault: distance, a handshake, the server's own work.
    Cost,
}

impl Class {
    /// Returns `fault` or `cost`.
    pub fn id(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Cost => "cost",
        }
    }
}

impl Cause {
    /// Returns whether its signs are segments that are retransmitted, out of order, or held back by
    /// a closed window.
    pub fn repeats_or_waits(self) -> bool {
        matches!(
            self,
            Self::RetransmissionTimeout
                | Self::FastRecovery
                | Self::SpuriousRetransmission
                | Self::Reordering
                | Self::MtuBlackHole
                | Self::AcceptQueueOverflow
                | Self::ReceiveWindow
                | Self::ZeroWindow
        )
    }

    /// Returns whether affected exchanges fail, so that they have no latency to compare with.
    pub fn is_in_vain(self) -> bool {
        matches!(self, Self::Refused | Self::Reset | Self::IdleReset | Self::DnsFailure)
    }

    /// Returns the owners of the time that the cause takes. A cause that makes exchanges fail can
    /// have time of any owner.
    pub fn owners(self) -> &'static [Owner] {
        match self {
            Self::NagleDelayedAck => &[Owner::NagleDelayedAck],
            Self::DelayedAck => &[Owner::DelayedAck],
            Self::SendBuffer => &[Owner::SendBuffer],
            Self::ReceiveWindow => &[Owner::ReceiveWindow],
            Self::ZeroWindow => &[Owner::ZeroWindow],
            Self::SlowStart | Self::CongestionWindow => &[Owner::CongestionWindow],
            Self::RetransmissionTimeout | Self::MtuBlackHole => &[Owner::RetransmissionTimeout],
            Self::FastRecovery | Self::Reordering => &[Owner::FastRecovery],
            Self::SpuriousRetransmission => &[Owner::FastRecovery, Owner::RetransmissionTimeout],
            Self::SynRetransmit => &[Owner::SynRetransmit],
            Self::PathRtt => &[Owner::Path, Owner::Connect],
            Self::Bandwidth => &[Owner::Bandwidth, Owner::Queueing],
            Self::Bufferbloat => &[Owner::Queueing],
            Self::AcceptQueueOverflow => &[Owner::Connect],
            Self::SynFlood => &[Owner::SynRetransmit, Owner::Connect],
            Self::TlsHandshake => &[Owner::Tls],
            Self::Http100Continue => &[Owner::Http100Continue],
            Self::DnsSlow
            | Self::DnsTimeout
            | Self::DnsFailure
            | Self::DnsSearch
            | Self::ReverseDnsTimeout => &[Owner::Dns],
            Self::ServerThink => &[Owner::Server],
            Self::ClientThink => &[Owner::Client],
            Self::Refused
            | Self::Reset
            | Self::IdleReset
            | Self::ConntrackFull
            | Self::ConntrackRace
            | Self::PortExhaustion => &[],
        }
    }

    /// Returns whether it is a fault or a cost.
    pub fn class(self) -> Class {
        match self {
            Self::PathRtt
            | Self::Bandwidth
            | Self::SlowStart
            | Self::CongestionWindow
            | Self::TlsHandshake
            | Self::ServerThink
            | Self::ClientThink => Class::Cost,
            _ => Class::Fault,
        }
    }
}
