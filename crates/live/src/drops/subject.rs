//! The kinds of drops: harm, possible cause and recommended change of each. Reasons are the
//! kernel's names (include/net/dropreason-core.h), without `SKB_DROP_REASON_`.

use serde::Serialize;
use tcpwhy_core::model::Cause;

/// Harm of a drop to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Harm {
    /// A socket waits for the packet: it has to be sent again, or a connection fails.
    Hurts,
    /// The drop may be intended, or no socket may wait for the packet.
    CanHurt,
    /// Part of normal work: duplicates, packets of closed connections, other hosts' packets.
    Harmless,
}

/// A kind of drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// An accept queue is full.
    AcceptQueue,
    /// A SYN queue is full.
    SynQueue,
    /// A SYN queue is full, and SYNs are answered with cookies instead of being dropped.
    SynCookies,
    /// The table of connection tracking is full.
    ConntrackFull,
    /// Connection tracking could not insert a new flow.
    ConntrackInsert,
    /// A rule of the packet filter.
    Filter,
    /// A socket's receive buffer is full.
    ReceiveBuffer,
    /// Segments that arrived while the application held its socket, more than its buffers take.
    SocketBacklog,
    /// The kernel is short of memory for sockets.
    Memory,
    /// Data beyond the window that the socket had room for.
    ReceiveWindow,
    /// A wrong checksum.
    Checksum,
    /// A packet whose headers cannot be.
    Malformed,
    /// A queue in front of an interface is full.
    Qdisc,
    /// A CPU's backlog of received packets is full.
    CpuBacklog,
    /// The interface or its driver.
    Interface,
    /// There is no route, or the address is not routed.
    Route,
    /// The reverse path filter.
    ReversePath,
    /// The next hop does not answer ARP or neighbour discovery.
    Neighbour,
    /// The packet is larger than the MTU.
    TooBig,
    /// Fragments that could not be put together.
    Fragment,
    /// A program of tc, XDP, a control group, or a security module.
    Program,
    /// There is no socket for the packet.
    NoSocket,
    /// TCP found the segment unacceptable.
    Unacceptable,
    /// Duplicates, old ACKs, and packets of closed connections.
    Stale,
    /// The packet is for another host or protocol.
    NotForUs,
    /// The kernel gives no reason.
    Unspecified,
    /// A reason that is not classified.
    Other,
}

impl Subject {
    /// Returns the kind for one of the kernel's reasons.
    pub fn of_reason(reason: &str) -> Self {
        match reason {
            "TCP_LISTEN_OVERFLOW" | "TCP_FASTOPEN" => Self::AcceptQueue,
            "NETFILTER_DROP" => Self::Filter,
            "SOCKET_RCVBUFF" | "TCP_OFO_QUEUE_PRUNE" | "TCP_OFO_DROP" => Self::ReceiveBuffer,
            "SOCKET_BACKLOG" => Self::SocketBacklog,
            "PROTO_MEM" | "NOMEM" | "PFMEMALLOC" => Self::Memory,
            "TCP_ZEROWINDOW" | "TCP_OVERWINDOW" => Self::ReceiveWindow,
            "TCP_CSUM" | "UDP_CSUM" | "IP_CSUM" | "SKB_CSUM" | "ICMP_CSUM" => Self::Checksum,
            "PKT_TOO_SMALL" | "IP_INHDR" | "HDR_TRUNC" | "DEV_HDR" | "SKB_GSO_SEG"
            | "SKB_UCOPY_FAULT" | "IPV6_BAD_EXTHDR" | "TCP_FLAGS" | "INVALID_PROTO"
            | "VXLAN_INVALID_HDR" | "TCP_MINTTL" => Self::Malformed,
            "QDISC_DROP" | "QDISC_OVERLIMIT" | "QDISC_CONGESTED" | "CAKE_FLOOD"
            | "FQ_BAND_LIMIT" | "FQ_HORIZON_LIMIT" | "FQ_FLOW_LIMIT" | "DUALPI2_STEP_DROP" => {
                Self::Qdisc
            }
            "CPU_BACKLOG" => Self::CpuBacklog,
            "FULL_RING" | "DEV_READY" | "NO_TX_TARGET" => Self::Interface,
            "IP_OUTNOROUTES" | "IP_INNOROUTES" | "IP_INADDRERRORS" | "IP_INVALID_DEST"
            | "IP_INVALID_SOURCE" | "IP_LOCAL_SOURCE" | "IP_LOCALNET" | "IPV6DISABLED"
            | "RECURSION_LIMIT" => Self::Route,
            "IP_RPFILTER" => Self::ReversePath,
            "NEIGH_FAILED" | "NEIGH_QUEUEFULL" | "NEIGH_CREATEFAIL" | "NEIGH_DEAD"
            | "NEIGH_HH_FILLFAIL" => Self::Neighbour,
            "PKT_TOO_BIG" => Self::TooBig,
            "FRAG_REASM_TIMEOUT" | "FRAG_TOO_FAR" | "DUP_FRAG" => Self::Fragment,
            "XDP" | "TC_INGRESS" | "TC_EGRESS" | "BPF_CGROUP_EGRESS" | "SECURITY_HOOK"
            | "SOCKET_FILTER" | "XFRM_POLICY" | "TC_COOKIE_ERROR" | "TC_CHAIN_NOTFOUND"
            | "TC_RECLASSIFY_LOOP" => Self::Program,
            "NO_SOCKET" => Self::NoSocket,
            "TCP_RFC7323_PAWS"
            | "TCP_RFC7323_TSECR"
            | "TCP_INVALID_SEQUENCE"
            | "TCP_INVALID_END_SEQUENCE"
            | "TCP_INVALID_ACK_SEQUENCE"
            | "TCP_INVALID_SYN"
            | "TCP_ACK_UNSENT_DATA"
            | "TCP_AUTH_HDR"
            | "TCP_MD5NOTFOUND"
            | "TCP_MD5UNEXPECTED"
            | "TCP_MD5FAILURE"
            | "TCP_AONOTFOUND"
            | "TCP_AOUNEXPECTED"
            | "TCP_AOKEYNOTFOUND"
            | "TCP_AOFAILURE"
            | "TCP_ABORT_ON_DATA" => Self::Unacceptable,
            "TCP_OLD_DATA"
            | "TCP_OLD_SEQUENCE"
            | "TCP_OLD_ACK"
            | "TCP_TOO_OLD_ACK"
            | "TCP_RFC7323_PAWS_ACK"
            | "TCP_RFC7323_TW_PAWS"
            | "TCP_OFOMERGE"
            | "TCP_RESET"
            | "TCP_CLOSE"
            | "SOCKET_CLOSE"
            | "QUEUE_PURGE"
            | "UNIX_DISCONNECT"
            | "UNIX_SKIP_OOB" => Self::Stale,
            "OTHERHOST"
            | "UNHANDLED_PROTO"
            | "UNICAST_IN_L2_MULTICAST"
            | "IP_NOPROTO"
            | "TAP_FILTER"
            | "TAP_TXFILTER"
            | "LOCAL_MAC"
            | "MAC_INVALID_SOURCE"
            | "MAC_IEEE_MAC_CONTROL"
            | "BRIDGE_INGRESS_STP_STATE"
            | "PACKET_SOCK_ERROR"
            | "ARP_PVLAN_DISABLE"
            | "IPV6_NDISC_NS_OTHERHOST" => Self::NotForUs,
            "NOT_SPECIFIED" => Self::Unspecified,
            _ => Self::Other,
        }
    }

    /// Returns the class of a drop by its reason. If the kernel gives none, the function identifies
    /// queues of interfaces, of which the older ones drop without a reason.
    pub fn of(reason: &str, function: Option<&str>) -> Self {
        match Self::of_reason(reason) {
            Self::Unspecified if function.is_some_and(|name| name.ends_with("_enqueue")) => {
                Self::Qdisc
            }
            subject => subject,
        }
    }

    /// Returns the harm; `wanted` is `true` if a socket waits for one of the packets: TCP data, or
    /// a SYN or datagram from or to a socket of this host.
    pub fn harm(self, wanted: bool) -> Harm {
        match self {
            Self::AcceptQueue | Self::SynQueue | Self::ConntrackFull | Self::ConntrackInsert => {
                Harm::Hurts
            }
            Self::Filter
            | Self::ReceiveBuffer
            | Self::SocketBacklog
            | Self::Memory
            | Self::Checksum
            | Self::Qdisc
            | Self::CpuBacklog
            | Self::Route
            | Self::ReversePath
            | Self::Neighbour
            | Self::TooBig
            | Self::Fragment
            | Self::Program
                if wanted =>
            {
                Harm::Hurts
            }
            Self::Stale | Self::NotForUs => Harm::Harmless,
            Self::Unspecified if !wanted => Harm::Harmless,
            _ => Harm::CanHurt,
        }
    }

    /// Returns the cause of a slow or failed request that it can be.
    pub fn cause(self) -> Option<Cause> {
        Some(match self {
            Self::AcceptQueue => Cause::AcceptQueueOverflow,
            Self::SynQueue | Self::SynCookies => Cause::SynFlood,
            Self::ConntrackFull => Cause::ConntrackFull,
            Self::ConntrackInsert => Cause::ConntrackRace,
            Self::NoSocket => Cause::Refused,
            Self::ReceiveWindow => Cause::ZeroWindow,
            Self::TooBig => Cause::MtuBlackHole,
            _ => return None,
        })
    }

    /// Returns a title for display.
    pub fn title(self) -> &'static str {
        match self {
            Self::AcceptQueue => "accept queue full",
            Self::SynQueue | Self::SynCookies => "SYN queue full",
            Self::ConntrackFull => "connection tracking table full",
            Self::ConntrackInsert => "connection tracking cannot insert",
            Self::Filter => "packet filter",
            Self::ReceiveBuffer => "receive buffer full",
            Self::SocketBacklog => "socket backlog full",
            Self::Memory => "socket memory",
            Self::ReceiveWindow => "beyond the receive window",
            Self::Checksum => "wrong checksum",
            Self::Malformed => "malformed packet",
            Self::Qdisc => "interface queue full",
            Self::CpuBacklog => "CPU backlog full",
            Self::Interface => "interface",
            Self::Route => "no route",
            Self::ReversePath => "reverse path filter",
            Self::Neighbour => "next hop unreachable",
            Self::TooBig => "larger than the MTU",
            Self::Fragment => "fragments",
            Self::Program => "program or security module",
            Self::NoSocket => "nothing listens",
            Self::Unacceptable => "segment unacceptable",
            Self::Stale => "duplicates and closed connections",
            Self::NotForUs => "not for this host",
            Self::Unspecified => "no reason given",
            Self::Other => "other",
        }
    }

    /// Returns whether the growth of a counter of this kind implies that a socket waits for a
    /// packet. A packet without a route is an error to its sender at once.
    pub(super) fn is_waited_for(self) -> bool {
        !matches!(self, Self::Route | Self::TooBig)
    }

    /// Returns what was dropped and why, as the text after "N packets were dropped: ".
    pub fn why(self) -> &'static str {
        match self {
            Self::AcceptQueue => "the accept queue is full, the application does not accept",
            Self::SynQueue => "the SYN queue is full",
            Self::SynCookies => "the SYN queue is full, SYNs are answered with cookies",
            Self::ConntrackFull => "the connection tracking table is full",
            Self::ConntrackInsert => {
                "connection tracking could not insert a new flow: address translation found no \
                 free port, or two packets of the flow raced"
            }
            Self::Filter => "a rule of the packet filter (iptables, nftables) says so",
            Self::ReceiveBuffer => "the socket's receive buffer is full",
            Self::SocketBacklog => "the socket was busy and its backlog is full",
            Self::Memory => "the kernel is short of memory for sockets",
            Self::ReceiveWindow => "data beyond the receive window",
            Self::Checksum => "the checksum is wrong",
            Self::Malformed => "the headers are malformed",
            Self::Qdisc => "the queue in front of the interface is full",
            Self::CpuBacklog => "a CPU's backlog of received packets is full",
            Self::Interface => "the interface could not take it",
            Self::Route => "there is no route, or an address that is not routed",
            Self::ReversePath => "the reverse path filter found no route back to the source",
            Self::Neighbour => "the next hop does not answer ARP or neighbour discovery",
            Self::TooBig => "larger than the MTU of the next link",
            Self::Fragment => "fragments that could not be put together",
            Self::Program => "a program of tc, XDP, a control group or a security module says so",
            Self::NoSocket => "nothing listens there",
            Self::Unacceptable => "TCP found the segment unacceptable",
            Self::Stale => "duplicates, or packets of a closed connection",
            Self::NotForUs => "for another host or protocol",
            Self::Unspecified => "the kernel gives no reason",
            Self::Other => "the kernel's reason is below",
        }
    }

    /// Returns the recommended change; empty if none is needed.
    pub fn change(self) -> &'static str {
        match self {
            Self::AcceptQueue => {
                "let the application accept faster (more workers, no blocking in the accept loop); \
                 raise the backlog of listen() and net.core.somaxconn for bursts"
            }
            Self::SynQueue | Self::SynCookies => {
                "see who sends the SYNs (`tcpwhy explain syn_flood`); keep \
                 net.ipv4.tcp_syncookies=1, raise net.ipv4.tcp_max_syn_backlog"
            }
            Self::ConntrackFull => {
                "raise net.netfilter.nf_conntrack_max, shorten \
                 nf_conntrack_tcp_timeout_established, or exempt the traffic (notrack)"
            }
            Self::ConntrackInsert => {
                "with SNAT or masquerading: more addresses or ports to translate to, \
                 `fully-random`; for DNS: `options single-request-reopen` or a local cache; or \
                 exempt the traffic (notrack)"
            }
            Self::Filter => {
                "find the rule: `iptables-save -c`, `nft list ruleset`; is the drop meant?"
            }
            Self::ReceiveBuffer => {
                "let the application read faster, or raise SO_RCVBUF and net.core.rmem_max"
            }
            Self::SocketBacklog => {
                "let the application read in larger pieces; raise SO_RCVBUF or net.ipv4.tcp_rmem"
            }
            Self::Memory => "raise net.ipv4.tcp_mem or udp_mem; see who holds it: `ss -tm`",
            Self::ReceiveWindow => "let the application read faster",
            Self::Checksum => {
                "suspect the sender's offloads or a faulty link: `ethtool -K IF tx off rx off` \
                 shows which"
            }
            Self::Malformed => "capture them and look who sends them",
            Self::Qdisc => {
                "the link is the bottleneck, or a shaper is: `tc -s qdisc`; raise its limit or rate"
            }
            Self::CpuBacklog => {
                "raise net.core.netdev_max_backlog; spread packets over CPUs (RSS, RPS)"
            }
            Self::Interface => "`ethtool -S IF`; raise the rings: `ethtool -G IF rx N`",
            Self::Route => "`ip route get ADDRESS` in that namespace",
            Self::ReversePath => {
                "routes are asymmetric: net.ipv4.conf.IF.rp_filter=2 accepts any way back"
            }
            Self::Neighbour => "is the next hop up? `ip neigh` in that namespace",
            Self::TooBig => "lower the MTU, or let ICMP `fragmentation needed` through",
            Self::Fragment => {
                "fragments are lost, or net.ipv4.ipfrag_high_thresh is too low; avoid \
                 fragmentation"
            }
            Self::Program => "`bpftool net`, `tc filter show`: is the drop meant?",
            Self::NoSocket => "is the service down, or the port wrong? `ss -ltnu`",
            Self::Unacceptable => "capture the flow, and let `tcpwhy FILE` explain it",
            Self::Stale | Self::NotForUs => "",
            Self::Unspecified | Self::Other => "look at the function in the kernel's source",
        }
    }
}

/// Returns the counters that show this kind of drop without the hooks.
pub(super) const COUNTERS: [(&str, Subject); 34] = [
    ("TcpExt.ListenOverflows", Subject::AcceptQueue),
    ("TcpExt.TCPFastOpenListenOverflow", Subject::AcceptQueue),
    ("TcpExt.TCPReqQFullDrop", Subject::SynQueue),
    ("TcpExt.TCPReqQFullDoCookies", Subject::SynCookies),
    ("nf_conntrack.drop", Subject::ConntrackFull),
    ("nf_conntrack.early_drop", Subject::ConntrackFull),
    ("nf_conntrack.insert_failed", Subject::ConntrackInsert),
    ("Udp.RcvbufErrors", Subject::ReceiveBuffer),
    ("Udp6.RcvbufErrors", Subject::ReceiveBuffer),
    ("TcpExt.RcvPruned", Subject::ReceiveBuffer),
    ("TcpExt.OfoPruned", Subject::ReceiveBuffer),
    ("TcpExt.TCPOFODrop", Subject::ReceiveBuffer),
    ("TcpExt.TCPRcvQDrop", Subject::ReceiveBuffer),
    ("TcpExt.TCPBacklogDrop", Subject::SocketBacklog),
    ("TcpExt.PFMemallocDrop", Subject::Memory),
    ("Udp.MemErrors", Subject::Memory),
    ("Udp6.MemErrors", Subject::Memory),
    ("TcpExt.TCPZeroWindowDrop", Subject::ReceiveWindow),
    ("Tcp.InCsumErrors", Subject::Checksum),
    ("Udp.InCsumErrors", Subject::Checksum),
    ("Udp6.InCsumErrors", Subject::Checksum),
    ("IpExt.InCsumErrors", Subject::Checksum),
    ("Ip.InHdrErrors", Subject::Malformed),
    ("Ip.InAddrErrors", Subject::Route),
    ("Ip.OutNoRoutes", Subject::Route),
    ("IpExt.InNoRoutes", Subject::Route),
    ("Ip6.InHdrErrors", Subject::Malformed),
    ("Ip6.OutNoRoutes", Subject::Route),
    ("Ip6.InNoRoutes", Subject::Route),
    ("TcpExt.IPReversePathFilter", Subject::ReversePath),
    ("Ip.ReasmFails", Subject::Fragment),
    ("Ip.FragFails", Subject::TooBig),
    ("Ip.InDiscards", Subject::Other),
    ("Ip.OutDiscards", Subject::Other),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harm_depends_on_whether_something_waits() {
        let filter = Subject::of_reason("NETFILTER_DROP");
        assert_eq!(filter.harm(true), Harm::Hurts);
        assert_eq!(filter.harm(false), Harm::CanHurt);
        assert_eq!(Subject::of_reason("TCP_OLD_ACK").harm(true), Harm::Harmless);
        assert_eq!(Subject::of("NOT_SPECIFIED", Some("tbf_enqueue")), Subject::Qdisc);
        assert_eq!(Subject::of("NOT_SPECIFIED", Some("tcp_v4_rcv")), Subject::Unspecified);
        assert_eq!(Subject::of_reason("A_REASON_OF_TOMORROW"), Subject::Other);
    }

    #[test]
    fn each_counter_is_listed_once() {
        let mut names: Vec<_> = COUNTERS.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNTERS.len());
    }
}
