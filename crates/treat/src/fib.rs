//! Routes as the kernel stores them: `struct rtmsg` and its attributes. Read first:
//! linux/rtnetlink.h, rtnetlink(7), ip-route(8).
//!
//! A route is compared and written back by these, not by the words of `ip route`, whose order and
//! selection are those of a version of `ip`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tcpwhy_live::netlink::{Netlink, attributes, put, word};
use tcpwhy_live::sys::interface_name;

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const NLM_F_REPLACE: u16 = 0x100;
/// Answers a look-up with the route itself, not with its result for one address.
const RTM_F_FIB_MATCH: u32 = 0x2000;
/// `struct rtmsg`.
const HEAD_BYTES: usize = 12;
const RT_TABLE_MAIN: u32 = 254;
const RTN_UNICAST: u8 = 1;
/// Flags of a next hop that its author sets; the kernel reports the others.
const FLAGS: u32 = RTNH_F_ONLINK | RTNH_F_PERVASIVE;
const RTNH_F_PERVASIVE: u32 = 2;
const RTNH_F_ONLINK: u32 = 4;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_FLOW: u16 = 11;
const RTA_CACHEINFO: u16 = 12;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_PREF: u16 = 20;
/// Attributes that can be written back, without the metrics.
const RESTORABLE: [u16; 9] = [
    RTA_DST,
    RTA_OIF,
    RTA_GATEWAY,
    RTA_PRIORITY,
    RTA_PREFSRC,
    RTA_FLOW,
    RTA_TABLE,
    RTA_VIA,
    RTA_PREF,
];
/// Other attributes, by the word of `ip route`.
const OTHERS: [(u16, &str); 4] = [(9, "nexthop"), (22, "encap"), (23, "expires"), (30, "nhid")];

/// `RTAX_LOCK`: the metrics that the kernel must not change, one bit each.
const RTAX_LOCK: u16 = 1;
pub(super) const RTAX_INITCWND: u16 = 11;
pub(super) const RTAX_INITRWND: u16 = 14;
const RTAX_FEATURES: u16 = 12;
const RTAX_CC_ALGO: u16 = 16;
/// The metrics by the word of `ip route`; its times have other units than the kernel's.
const METRICS: [(u16, &str, Unit); 14] = [
    (2, "mtu", Unit::Number),
    (3, "window", Unit::Number),
    (4, "rtt", Unit::Ms(8)),
    (5, "rttvar", Unit::Ms(4)),
    (6, "ssthresh", Unit::Number),
    (7, "cwnd", Unit::Number),
    (8, "advmss", Unit::Number),
    (9, "reordering", Unit::Number),
    (10, "hoplimit", Unit::Number),
    (RTAX_INITCWND, "initcwnd", Unit::Number),
    (13, "rto_min", Unit::Ms(1)),
    (RTAX_INITRWND, "initrwnd", Unit::Number),
    (15, "quickack", Unit::Number),
    (17, "fastopen_no_cookie", Unit::Number),
];

#[derive(Debug, Clone, Copy)]
enum Unit {
    Number,
    /// Parts of a millisecond.
    Ms(u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    head: [u8; HEAD_BYTES],
    attributes: BTreeMap<u16, Vec<u8>>,
    metrics: BTreeMap<u16, Vec<u8>>,
}

impl Route {
    /// Parses the body of an `RTM_NEWROUTE`.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut head = *body.first_chunk::<HEAD_BYTES>()?;
        let flags = word(&head, 8) & FLAGS;
        head[8..].copy_from_slice(&flags.to_ne_bytes());
        let (mut all, mut metrics) = (BTreeMap::new(), BTreeMap::new());
        for (kind, value) in attributes(&body[HEAD_BYTES..]) {
            match kind {
                RTA_METRICS => {
                    metrics = attributes(value).map(|(kind, value)| (kind, value.into())).collect();
                }
                // Ages and counters; the one thing in it that was set is the lifetime.
                RTA_CACHEINFO if word(value, 8) == 0 => {}
                RTA_CACHEINFO => drop(all.insert(OTHERS[2].0, word(value, 8).to_ne_bytes().into())),
                _ => drop(all.insert(kind, value.to_vec())),
            }
        }
        Some(Self { head, attributes: all, metrics })
    }

    /// Returns the body of an `RTM_NEWROUTE` that makes the route.
    pub(super) fn body(&self) -> Vec<u8> {
        let mut body = self.head.to_vec();
        for (&kind, value) in &self.attributes {
            put(&mut body, kind, value);
        }
        let mut metrics = Vec::new();
        for (&kind, value) in &self.metrics {
            put(&mut metrics, kind, value);
        }
        if !metrics.is_empty() {
            put(&mut body, RTA_METRICS, &metrics);
        }
        body
    }

    /// Returns the body in hexadecimal digits.
    pub(super) fn hex(&self) -> String {
        self.body().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// Parses [`hex`](Self::hex).
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        let digits: Option<Vec<u8>> =
            text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
        let digits = digits?;
        let body: Vec<u8> = digits
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect();
        Self::parse(&body).filter(|_| digits.len() % 2 == 0)
    }

    /// Returns the route with another value of a metric.
    pub(super) fn with(&self, metric: u16, value: u32) -> Self {
        let mut changed = self.clone();
        changed.metrics.insert(metric, value.to_ne_bytes().into());
        changed
    }

    /// Returns the first attribute that could not be written back, as that of a route with several
    /// next hops, or of one that a router advertised with a lifetime.
    pub(super) fn not_restorable(&self) -> Option<String> {
        if self.head[7] != RTN_UNICAST {
            return Some(format!("type {}", self.head[7]));
        }
        let kind = self.attributes.keys().find(|kind| !RESTORABLE.contains(kind))?;
        let known = OTHERS.iter().find(|(other, _)| other == kind);
        Some(known.map_or_else(|| format!("attribute {kind}"), |(_, word)| (*word).to_owned()))
    }

    fn is_ipv6(&self) -> bool {
        i32::from(self.head[0]) == libc::AF_INET6
    }

    fn table(&self) -> u32 {
        self.number(RTA_TABLE).unwrap_or(self.head[4].into())
    }

    fn number(&self, kind: u16) -> Option<u32> {
        self.attributes.get(&kind).map(|value| word(value, 0))
    }

    fn address(&self, kind: u16) -> Option<IpAddr> {
        let value = self.attributes.get(&kind)?;
        // `struct rtvia` has the family in front.
        address(if kind == RTA_VIA { value.get(2..)? } else { value })
    }

    /// Returns the prefix: "default", an address, or an address with the length of the prefix.
    pub(super) fn prefix(&self) -> String {
        let length = self.head[1];
        let whole = if self.is_ipv6() { 128 } else { 32 };
        match self.address(RTA_DST) {
            None => "default".into(),
            Some(address) if length == whole => address.to_string(),
            Some(address) => format!("{address}/{length}"),
        }
    }

    /// Returns the route in words of `ip route`, in the namespace of the calling thread.
    pub(super) fn words(&self) -> String {
        let mut text = self.prefix();
        let mut add = |word: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = write!(text, " {word} {value}");
            }
        };
        let of = |kind| self.address(kind).map(|address| address.to_string());
        add("tos", Some(self.head[3]).filter(|&tos| tos != 0).map(|tos| format!("{tos:#x}")));
        add("via", of(RTA_GATEWAY).or_else(|| of(RTA_VIA).map(|via| format!("inet6 {via}"))));
        let name = |index: u32| interface_name(index).unwrap_or_else(|_| format!("if{index}"));
        add("dev", self.number(RTA_OIF).map(name));
        let proto = match self.head[5] {
            0 | 3 => None,
            2 => Some("kernel".into()),
            4 => Some("static".into()),
            9 => Some("ra".into()),
            16 => Some("dhcp".into()),
            other => Some(other.to_string()),
        };
        add("proto", proto);
        let scope = match self.head[6] {
            253 if !self.is_ipv6() => Some("link"),
            254 if !self.is_ipv6() => Some("host"),
            _ => None,
        };
        add("scope", scope.map(str::to_owned));
        add("src", of(RTA_PREFSRC));
        add("metric", self.number(RTA_PRIORITY).map(|number| number.to_string()));
        add("realm", self.number(RTA_FLOW).map(|number| number.to_string()));
        if word(&self.head, 8) & RTNH_F_ONLINK != 0 {
            text.push_str(" onlink");
        }
        self.metric_words(&mut text);
        if let Some(pref) = self.attributes.get(&RTA_PREF).and_then(|value| value.first()) {
            // RFC 4191 §2.1.
            let pref = ["medium", "high", "reserved", "low"][usize::from(pref & 3)];
            let _ = write!(text, " pref {pref}");
        }
        text
    }

    fn metric_words(&self, text: &mut String) {
        let locked = self.metrics.get(&RTAX_LOCK).map_or(0, |value| word(value, 0));
        for (kind, name, unit) in METRICS {
            let Some(value) = self.metrics.get(&kind).map(|value| word(value, 0)) else { continue };
            let lock = if locked & 1 << kind != 0 { "lock " } else { "" };
            let _ = match unit {
                Unit::Number => write!(text, " {name} {lock}{value}"),
                Unit::Ms(parts) => write!(text, " {name} {lock}{}ms", value / parts),
            };
        }
        match self.metrics.get(&RTAX_FEATURES).map_or(0, |value| word(value, 0)) {
            0 => {}
            1 => text.push_str(" features ecn"),
            other => drop(write!(text, " features {other:#x}")),
        }
        if let Some(name) = self.metrics.get(&RTAX_CC_ALGO) {
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            let _ = write!(text, " congctl {}", String::from_utf8_lossy(name));
        }
    }
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(Ipv4Addr::from(*value.first_chunk::<4>()?).into()),
        16 => Some(Ipv6Addr::from(*value.first_chunk::<16>()?).into()),
        _ => None,
    }
}

fn head(is_ipv6: bool) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[0] = if is_ipv6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
    head
}

/// Returns the routes of a prefix in the main table of the calling thread's namespace.
pub(super) fn of_prefix(is_ipv6: bool, prefix: &str) -> io::Result<Vec<Route>> {
    let mut found = Vec::new();
    Netlink::open()?.dump(RTM_GETROUTE, &head(is_ipv6), |body| found.extend(Route::parse(body)))?;
    found.retain(|route| {
        route.is_ipv6() == is_ipv6 && route.table() == RT_TABLE_MAIN && route.prefix() == prefix
    });
    Ok(found)
}

/// Returns the route by which an address is reached.
pub(super) fn to(to: IpAddr) -> io::Result<Route> {
    let mut body = head(to.is_ipv6());
    body[1] = if to.is_ipv6() { 128 } else { 32 };
    body[8..].copy_from_slice(&RTM_F_FIB_MATCH.to_ne_bytes());
    let mut body = body.to_vec();
    match to {
        IpAddr::V4(to) => put(&mut body, RTA_DST, &to.octets()),
        IpAddr::V6(to) => put(&mut body, RTA_DST, &to.octets()),
    }
    let mut found = None;
    Netlink::open()?.ask(RTM_GETROUTE, 0, &body, |body| found = Route::parse(body))?;
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Replaces the route that has the same prefix and priority.
pub(super) fn replace(route: &Route) -> io::Result<()> {
    Netlink::open()?.ask(RTM_NEWROUTE, NLM_F_REPLACE, &route.body(), |_| {})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `10.1.0.0/16 via 10.0.0.1 metric 50 mtu lock 1400 quickack 1 congctl bbr`.
    fn route() -> Route {
        let mut body = head(false).to_vec();
        (body[1], body[4], body[7]) = (16, RT_TABLE_MAIN as u8, RTN_UNICAST);
        let mut metrics = Vec::new();
        put(&mut metrics, RTAX_CC_ALGO, b"bbr\0");
        put(&mut metrics, 15, &1u32.to_ne_bytes());
        put(&mut metrics, RTAX_LOCK, &(1u32 << 2).to_ne_bytes());
        put(&mut metrics, 2, &1400u32.to_ne_bytes());
        put(&mut body, RTA_METRICS, &metrics);
        put(&mut body, RTA_GATEWAY, &[10, 0, 0, 1]);
        put(&mut body, RTA_DST, &[10, 1, 0, 0]);
        put(&mut body, RTA_PRIORITY, &50u32.to_ne_bytes());
        Route::parse(&body).unwrap()
    }

    #[test]
    fn the_order_of_attributes_does_not_matter_and_all_are_written_back() {
        let route = route();
        assert_eq!(
            route.words(),
            "10.1.0.0/16 via 10.0.0.1 metric 50 mtu lock 1400 quickack 1 congctl bbr"
        );
        assert_eq!(Route::parse(&route.body()).unwrap(), route);
        assert_eq!(Route::from_hex(&route.hex()).unwrap(), route);
        assert_eq!(Route::from_hex("0"), None);
        let changed = route.with(RTAX_INITCWND, 30);
        assert!(changed != route && changed.words().contains("initcwnd 30 quickack 1"));
        assert_eq!(route.not_restorable(), None);
    }

    #[test]
    fn what_cannot_be_written_back_is_named() {
        let with = |kind, value: &[u8]| {
            let mut body = route().body();
            put(&mut body, kind, value);
            Route::parse(&body).unwrap().not_restorable()
        };
        assert_eq!(with(9, &[0; 8]).as_deref(), Some("nexthop"));
        assert_eq!(with(99, &[0; 8]).as_deref(), Some("attribute 99"));
        let mut cache = [0; 32];
        assert_eq!(with(RTA_CACHEINFO, &cache), None);
        cache[8..12].copy_from_slice(&1700u32.to_ne_bytes());
        assert_eq!(with(RTA_CACHEINFO, &cache).as_deref(), Some("expires"));
    }
}
