//! Enumerations with public ids: ledger owners, roles, classes. The ids never change meaning.

/// Declares an enumeration whose values have public ids, as which they are serialised.
macro_rules! vocabulary {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $id:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize)]
        #[cfg_attr(any(test, feature = "schemas"), derive(schemars::JsonSchema))]
        pub enum $name { $($(#[$doc])* #[serde(rename = $id)] $variant,)* }

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

pub(super) use vocabulary;

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
        /// See [`Cause::Http2FlowControl`].
        Http2FlowControl = "http2_flow_control",
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
        /// The side that accepted the connection.
        Server = "server",
        /// The path between client and server.
        Network = "network",
        /// The name server.
        Resolver = "resolver",
        /// A host as such: its kernel or its limits.
        Host = "host",
    }
}

/// The class of a finding: a fault, or simply a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
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
