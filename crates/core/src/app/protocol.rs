//! The protocols: one row for each.

macro_rules! protocols {
    ($($(#[$meta:meta])* $protocol:ident = $id:literal { has_sessions: $has_sessions:literal })*) => {
        /// The application protocol of a connection, as far as it was recognised.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Deserialize, serde::Serialize)]
        pub enum Protocol { $($(#[$meta])* $protocol,)* }

        impl Protocol {
            /// All protocols.
            pub const ALL: &[Self] = &[$(Self::$protocol,)*];

            /// Returns the public id, as used in JSON, reports and the preconditions of fixes. It never
            /// changes meaning.
            pub fn id(self) -> &'static str {
                match self { $(Self::$protocol => $id,)* }
            }

            /// Returns whether a connection carries a session: it begins with a login or an agreement,
            /// and what is set up lasts as long as it does. A program that keeps such a connection
            /// expects it to be there. In the other protocols each request stands by itself, and a
            /// server closes an idle connection at any time (RFC 9112 §9.5, RFC 9113 §5.4, RFC 7766
            /// §6.2.3); what TLS and unknown protocols carry cannot be read.
            pub fn has_sessions(self) -> bool {
                match self { $(Self::$protocol => $has_sessions,)* }
            }
        }
    };
}

protocols! {
    /// Not recognised: exchanges are turns of direction.
    #[default]
    Turns = "turns" { has_sessions: false }
    /// HTTP/1.0 or HTTP/1.1 (RFC 9112).
    Http1 = "http1" { has_sessions: false }
    /// TLS records (RFC 8446, RFC 5246); the exchanges inside are turns of direction.
    Tls = "tls" { has_sessions: false }
    /// Redis serialization protocol.
    Redis = "redis" { has_sessions: true }
    /// PostgreSQL frontend/backend protocol 3.
    Postgres = "postgres" { has_sessions: true }
    /// MySQL client/server protocol.
    Mysql = "mysql" { has_sessions: true }
    /// DNS over TCP (RFC 7766).
    Dns = "dns" { has_sessions: false }
    /// HTTP/2 without TLS (RFC 9113); kinds of requests are not read.
    Http2 = "http2" { has_sessions: false }
    /// MQTT 3.1 to 5.0.
    Mqtt = "mqtt" { has_sessions: true }
    /// AMQP 0-9-1.
    Amqp = "amqp" { has_sessions: true }
}

impl Protocol {
    /// Returns the protocol with this public id.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|protocol| protocol.id() == id)
    }
}
