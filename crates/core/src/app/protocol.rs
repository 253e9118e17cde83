//! The protocols: one row for each.

macro_rules! protocols {
    ($($(#[$meta:meta])* $protocol:ident = $id:literal { has_sessions: $has_sessions:literal })*) => {
        /// The application protocol of a connection, as far as it was recognised.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Deserialize, serde::Serialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub enum Protocol { $($(#[$meta])* #[serde(rename = $id)] $protocol,)* }

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
    /// Simple Mail Transfer Protocol (RFC 5321).
    Smtp = "smtp" { has_sessions: false }
    /// The control connection of the File Transfer Protocol (RFC 959).
    Ftp = "ftp" { has_sessions: false }
    /// Post Office Protocol, version 3 (RFC 1939).
    Pop3 = "pop3" { has_sessions: false }
    /// Internet Message Access Protocol (RFC 9051).
    Imap = "imap" { has_sessions: false }
    /// Secure Shell (RFC 4253), whose content cannot be read.
    Ssh = "ssh" { has_sessions: false }
    /// Server Message Block, versions 1 to 3 (MS-SMB2, MS-CIFS).
    Smb = "smb" { has_sessions: true }
    /// Lightweight Directory Access Protocol, version 3 (RFC 4511).
    Ldap = "ldap" { has_sessions: true }
    /// ONC RPC (RFC 5531), such as NFS.
    OncRpc = "onc_rpc" { has_sessions: false }
    /// DCE/RPC (C706).
    DceRpc = "dce_rpc" { has_sessions: true }
    /// DNP3 (IEEE 1815).
    Dnp3 = "dnp3" { has_sessions: false }
    /// Kerberos 5 over TCP (RFC 4120).
    Kerberos = "kerberos" { has_sessions: false }
    /// Modbus/TCP.
    Modbus = "modbus" { has_sessions: false }
    /// MongoDB's wire protocol.
    Mongodb = "mongodb" { has_sessions: true }
    /// Cassandra's native protocol, versions 3 and 4.
    Cassandra = "cassandra" { has_sessions: true }
    /// Kafka's protocol.
    Kafka = "kafka" { has_sessions: false }
    /// TDS, of Microsoft SQL Server (MS-TDS).
    Tds = "tds" { has_sessions: true }
    /// memcached's binary protocol.
    Memcached = "memcached" { has_sessions: false }
    /// ZooKeeper's client protocol.
    Zookeeper = "zookeeper" { has_sessions: true }
    /// Thrift's binary protocol in frames.
    Thrift = "thrift" { has_sessions: false }
    /// Dubbo's protocol, version 2.
    Dubbo = "dubbo" { has_sessions: false }
    /// STUN and TURN over TCP (RFC 8489, RFC 8656).
    Stun = "stun" { has_sessions: false }
    /// Diameter (RFC 6733).
    Diameter = "diameter" { has_sessions: true }
    /// OPC UA over TCP.
    OpcUa = "opc_ua" { has_sessions: true }
    /// EtherNet/IP: CIP over TCP.
    EthernetIp = "ethernet_ip" { has_sessions: true }
    /// ISO transport over TCP (RFC 1006), with S7.
    IsoOnTcp = "iso_on_tcp" { has_sessions: true }
}

impl Protocol {
    /// Returns whether exchanges are turns of direction: in unknown protocols, in those whose replies
    /// come in lines, and in SSH.
    pub fn is_in_turns(self) -> bool {
        matches!(self, Self::Turns | Self::Smtp | Self::Ftp | Self::Pop3 | Self::Imap | Self::Ssh)
    }

    /// Returns the protocol with this public id.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|protocol| protocol.id() == id)
    }
}
