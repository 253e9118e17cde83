//! Selects the part of a capture to analyse: `host 10.0.0.1 and port 80 and +2s..+5s`.
//!
//! Terms are joined by `and` (or nothing); values of one term by `,`, any of which may match.
//!
//! | term | keeps |
//! |---|---|
//! | `host ADDRESS[/BITS]`, `not host …` | connections with such an end |
//! | `port PORT[-PORT]`, `not port …` | connections with such an end |
//! | `after TIME`, `before TIME`, `TIME..TIME`
//! exchanges that overlap this time; either end may be left out |
//! | `cause CAUSE` | findings of that cause |
//!
//! A time is `+2s`, `+150ms` (since the first frame), `10:00:05[.25]` (UTC, on the day of the
//! first frame or the next), or `2026-01-31T10:00:05Z`.

mod near;
mod time;

use crate::model::{Cause, Window};
use crate::wire::{Endpoint, FlowKey};
use std::fmt;
use std::net::IpAddr;
use time::Time;

pub use near::nearest;
pub use time::{parse_duration_ns, utc};

/// A parsed filter; the default keeps everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Filter {
    ends: Vec<Ends>,
    after: Option<Time>,
    before: Option<Time>,
    causes: Vec<Cause>,
    text: String,
}

/// An error in a filter's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A word that begins no term, with the closest known word.
    #[error(
        "`{0}` is no filter{1}: write host ADDRESS, port PORT, after TIME, before TIME, TIME..TIME \
         or cause CAUSE, joined by `and`"
    )]
    Term(String, Meant),
    /// `or` between terms.
    #[error(
        "`{0}` is not known, all terms must match: write alternatives as a list, as in \
         host 10.0.0.1,10.0.0.2 or port 80,443, or run tcpwhy once for each"
    )]
    Or(String),
    /// Brackets.
    #[error(
        "brackets are not known (`{0}`), all terms must match: write alternatives as a list, and \
         `not` before each term, as in host 10.0.0.1,10.0.0.2 and not port 22"
    )]
    Brackets(String),
    /// A field or operator of Wireshark's display filters.
    #[error(
        "`{0}` is of Wireshark's filters: write host ADDRESS for ip.addr and port PORT for tcp.port, \
         as in host 10.0.0.1 and port 80"
    )]
    Wireshark(String),
    /// A term without its value.
    #[error("`{0}` has no value: write it after the word, as in {0} {1}")]
    Missing(&'static str, &'static str),
    /// Not an address.
    #[error(
        "`{0}` is no address: write it as 10.0.0.1, 10.0.0.0/8 or 2001:db8::1 (names are not looked \
         up)"
    )]
    Address(String),
    /// An address and a port in one word.
    #[error("`{0}` is an address with a port: write host {1} and port {2}")]
    End(String, IpAddr, u16),
    /// Not a port.
    #[error("`{0}` is no port: write a number up to 65535, or a range as in 8000-8099")]
    Port(String),
    /// Not a time.
    #[error("`{0}` is no time: write +2s, +150ms, 10:00:05 (UTC) or 2026-01-31T10:00:05Z")]
    Time(String),
    /// A time without its unit.
    #[error("`{0}` has no unit: write {0}s or {0}ms")]
    Unit(String),
    /// A duration where a time is expected.
    #[error("`{0}` is no time: write +{0} for the time that long after the first frame")]
    Length(String),
    /// Not a cause; with the closest known one.
    #[error("`{0}` is no cause{1}: `tcpwhy explain --cause list` shows them all")]
    Cause(String, Meant),
    /// Not a connection.
    #[error("`{0}` is no connection: write its number, from 1 on, or one end as 10.0.0.1:50112")]
    Connection(String),
    /// A bound of the time window given twice.
    #[error("`{0}` is given twice: one time window is kept, from one `after` to one `before`")]
    Twice(&'static str),
    /// A time window that ends before it begins.
    #[error(
        "the time window ends where it begins or before: write the earlier time first, +1s..+5s"
    )]
    Reversed,
}

/// The closest known word; `None` if no known word is similar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meant(pub Option<String>);

impl Meant {
    /// Returns the known word that is closest to `word`.
    fn one_of<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self(nearest(word, known).map(str::to_owned))
    }
}

impl fmt::Display for Meant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(meant) => write!(f, ", did you mean `{meant}`?"),
            None => Ok(()),
        }
    }
}

/// One host or port term.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Ends {
    /// `true` if an end must match, `false` if none may (`not`).
    pub wanted: bool,
    /// The values that an end is compared with.
    pub any: Values,
}

/// The values of a term; an end matches one of them.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub enum Values {
    /// Network and prefix length in the IPv6 (IPv4-mapped) space.
    Hosts(Vec<(u128, u32)>),
    /// First and last port of each range.
    Ports(Vec<(u16, u16)>),
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// [`FilterError`] names the word that cannot be parsed and the accepted forms.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let mut filter = Self { text: text.to_owned(), ..Self::default() };
        // Other filter languages write it like this, with or without blanks.
        let text = text.replace("&&", " and ").replace(", ", ",");
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            match word {
                "and" => {}
                "or" | "||" => return Err(FilterError::Or(word.into())),
                "host" | "port" => {
                    filter
                        .ends
                        .push(Ends { wanted: true, any: Values::parse(word, words.next())? });
                }
                "not" | "!" => {
                    let term = words.next().ok_or(FilterError::Missing("not", "host 10.0.0.1"))?;
                    let any = Values::parse(term, words.next())?;
                    filter.ends.push(Ends { wanted: false, any });
                }
                "cause" => {
                    let value = words.next();
                    let value = value.ok_or(FilterError::Missing("cause", "nagle_delayed_ack"))?;
                    for id in value.split(',') {
                        let cause = Cause::from_id(id);
                        filter.causes.push(cause.ok_or_else(|| no_cause(id))?);
                    }
                }
                "after" => {
                    let value = words.next().ok_or(FilterError::Missing("after", "+2s"))?;
                    once(&mut filter.after, value, "after")?;
                }
                "before" => {
                    let value = words.next().ok_or(FilterError::Missing("before", "+5s"))?;
                    once(&mut filter.before, value, "before")?;
                }
                _ => match word.split_once("..") {
                    Some((from, to)) if from.len() + to.len() > 0 => {
                        if !from.is_empty() {
                            once(&mut filter.after, from, "after")?;
                        }
                        if !to.is_empty() {
                            once(&mut filter.before, to, "before")?;
                        }
                    }
                    _ => return Err(no_term(word)),
                },
            }
        }
        match (filter.after, filter.before) {
            (Some(after), Some(before)) if !after.precedes(before) => Err(FilterError::Reversed),
            _ => Ok(filter),
        }
    }

    /// Returns the filter as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether connections of this flow are kept.
    #[inline]
    pub fn matches_flow(&self, flow: &FlowKey) -> bool {
        self.ends.is_empty() || self.matches_ends(flow)
    }

    fn matches_ends(&self, flow: &FlowKey) -> bool {
        self.ends.iter().all(|ends| ends.any.matches(flow) == ends.wanted)
    }

    /// Returns the selected time window of a capture that begins at `first_ns`, ns since the epoch.
    pub fn window(&self, first_ns: u64) -> Window {
        let from_ns = self.after.map_or(0, |time| time.at(first_ns));
        Window { from_ns, until_ns: self.before.map_or(u64::MAX, |time| time.at(first_ns)) }
    }

    /// Returns whether findings of `cause` are kept.
    pub fn matches_cause(&self, cause: Cause) -> bool {
        self.causes.is_empty() || self.causes.contains(&cause)
    }

    /// Returns the host and port terms; a connection is kept if all match.
    pub fn ends(&self) -> &[Ends] {
        &self.ends
    }

    /// Adds `cause` to the selected causes.
    pub fn also_causes(&mut self, cause: impl IntoIterator<Item = Cause>) {
        self.causes.extend(cause);
    }

    /// Returns the selected causes; none means all.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }
}

/// The words that begin a term.
const TERMS: [&str; 6] = ["host", "port", "not", "after", "before", "cause"];

/// Returns the error for a word that begins no term.
fn no_term(word: &str) -> FilterError {
    let meant = match word {
        _ if word.contains(['(', ')']) => return FilterError::Brackets(word.into()),
        _ if word.contains("||") => return FilterError::Or(word.into()),
        _ if word.contains(['=', '<', '>'])
            || word.starts_with("ip.")
            || word.starts_with("tcp.") =>
        {
            return FilterError::Wireshark(word.into());
        }
        "net" | "src" | "dst" => Meant(Some("host".into())),
        _ if network(word).is_some() => Meant(Some(format!("host {word}"))),
        _ if ports(word).is_some() => Meant(Some(format!("port {word}"))),
        _ if Cause::from_id(word).is_some() => Meant(Some(format!("cause {word}"))),
        _ => Meant::one_of(word, TERMS.into_iter().chain(["and"])),
    };
    FilterError::Term(word.into(), meant)
}

fn no_cause(id: &str) -> FilterError {
    FilterError::Cause(id.into(), Meant::one_of(id, Cause::ALL.iter().map(|cause| cause.id())))
}

fn no_address(text: &str) -> FilterError {
    match text.parse::<std::net::SocketAddr>() {
        Ok(end) => FilterError::End(text.into(), end.ip(), end.port()),
        Err(_) if text.contains(['(', ')']) => FilterError::Brackets(text.into()),
        Err(_) => FilterError::Address(text.into()),
    }
}

fn no_port(text: &str) -> FilterError {
    match text.contains(['(', ')']) {
        true => FilterError::Brackets(text.into()),
        false => FilterError::Port(text.into()),
    }
}

fn no_time(text: &str) -> FilterError {
    let is_number = |text: &str| text.parse::<f64>().is_ok() && !text.contains(['+', '-']);
    match text.strip_prefix('+') {
        Some(number) if is_number(number) => FilterError::Unit(text.into()),
        None if parse_duration_ns(text).is_some() => FilterError::Length(text.into()),
        _ => FilterError::Time(text.into()),
    }
}

/// Parses a number of per cent, with or without its sign, into a share between 0 and 1.
pub fn parse_share(text: &str) -> Option<f64> {
    let percent: f64 = text.trim_end_matches(['%', ' ']).parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

fn once(place: &mut Option<Time>, value: &str, name: &'static str) -> Result<(), FilterError> {
    let time = Time::parse(value).ok_or_else(|| no_time(value))?;
    match place.replace(time) {
        Some(_) => Err(FilterError::Twice(name)),
        None => Ok(()),
    }
}

impl Values {
    fn parse(term: &str, value: Option<&str>) -> Result<Self, FilterError> {
        match term {
            "host" => {
                let value = value.ok_or(FilterError::Missing("host", "10.0.0.1"))?;
                let network = |text| network(text).ok_or_else(|| no_address(text));
                Ok(Self::Hosts(value.split(',').map(network).collect::<Result<_, _>>()?))
            }
            "port" => {
                let value = value.ok_or(FilterError::Missing("port", "80"))?;
                let ports = |text| ports(text).ok_or_else(|| no_port(text));
                Ok(Self::Ports(value.split(',').map(ports).collect::<Result<_, _>>()?))
            }
            other => Err(no_term(other)),
        }
    }

    fn matches(&self, flow: &FlowKey) -> bool {
        [&flow.low, &flow.high].into_iter().any(|end| match self {
            Self::Hosts(hosts) => {
                let address = u128::from_be_bytes(end.address);
                hosts.iter().any(|&(network, bits)| (address ^ network) & mask(bits) == 0)
            }
            Self::Ports(ports) => ports.iter().any(|&(from, to)| (from..=to).contains(&end.port)),
        })
    }
}

fn mask(bits: u32) -> u128 {
    if bits == 0 { 0 } else { u128::MAX << (128 - bits.min(128)) }
}

fn network(text: &str) -> Option<(u128, u32)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let address = address.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    let (address, whole) = match address {
        IpAddr::V4(address) => (address.to_ipv6_mapped(), 32),
        IpAddr::V6(address) => (address, 128),
    };
    let bits = bits.unwrap_or(whole);
    (bits <= whole).then(|| (u128::from(address), 128 - whole + bits))
}

fn ports(text: &str) -> Option<(u16, u16)> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.parse().ok()?, to.parse().ok()?);
    (from <= to).then_some((from, to))
}

/// One connection, as the user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The number in the report's list, from 1, the worst first.
    Number(u64),
    /// One of its endpoints.
    End(Endpoint),
}

impl Pick {
    /// Parses `7`, `10.0.0.1:50112` or `[2001:db8::1]:443`.
    ///
    /// # Errors
    /// [`FilterError::Connection`] for anything else.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        if let Some(number) = text.parse().ok().filter(|&number| number > 0) {
            return Ok(Self::Number(number));
        }
        let address: Option<std::net::SocketAddr> = text.parse().ok();
        let address = address.ok_or_else(|| FilterError::Connection(text.into()))?;
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Ok(Self::End(Endpoint { address: ip.octets(), port: address.port() }))
    }

    /// Returns whether this is connection `number` (1-based) on `flow`.
    pub fn matches(&self, number: u64, flow: &FlowKey) -> bool {
        match self {
            Self::Number(wanted) => *wanted == number,
            Self::End(end) => flow.low == *end || flow.high == *end,
        }
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "connection {number}"),
            Self::End(end) => write!(f, "a connection of {end}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::time::{DAY_NS, SECOND_NS, days_since_epoch};
    use super::*;
    use std::net::Ipv6Addr;

    fn end(address: &str, port: u16) -> Endpoint {
        let address = match address.parse().expect("an address") {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        Endpoint { address: Ipv6Addr::octets(&address), port }
    }

    fn keeps(filter: &str, low: (&str, u16), high: (&str, u16)) -> bool {
        let flow = FlowKey { low: end(low.0, low.1), high: end(high.0, high.1) };
        Filter::parse(filter).expect(filter).matches_flow(&flow)
    }

    #[test]
    fn hosts_and_ports_select_connections() {
        let (client, server) = (("10.0.0.1", 50_000), ("10.0.0.2", 80));
        assert!(keeps("host 10.0.0.1 and port 80", client, server));
        assert!(keeps("host 10.0.0.0/30 port 80,443", client, server));
        assert!(!keeps("host 10.0.0.4/30", client, server));
        assert!(!keeps("host 10.0.0.1 and not port 79-81", client, server));
        assert!(keeps("", client, server));
        assert!(keeps("host 2001:db8::/32", ("2001:db8::7", 1), ("2001:db9::1", 2)));
        assert!(!keeps("host 0.0.0.0/0", ("2001:db8::7", 1), ("2001:db9::1", 2)));
    }

    #[test]
    fn times_are_since_the_first_frame_or_of_the_day() {
        let first = days_since_epoch("2026-01-31").expect("a date") * DAY_NS + 36_000 * SECOND_NS;
        let keeps = |filter: &str, seconds: f64| {
            let filter = Filter::parse(filter).expect(filter);
            filter.window(first).contains(first + (seconds * 1e9) as u64)
        };
        assert!(keeps("+2s..+5s", 2.0) && !keeps("+2s..+5s", 5.0) && !keeps("+2s..+5s", 1.9));
        assert!(keeps("after +150ms", 0.15) && !keeps("after +150ms", 0.149));
        assert!(keeps("after 10:00:05", 5.0) && !keeps("after 10:00:05", 4.9));
        assert!(keeps("before 2026-01-31T10:00:05.5Z", 5.4));
        assert!(!keeps("before 2026-01-31T10:00:05.5Z", 5.5));
        assert!(keeps("..+1s", 0.5) && !keeps("..+1s", 1.0));
    }

    #[test]
    fn a_time_after_midnight_is_the_next_days() {
        let first = 10 * DAY_NS + DAY_NS - 600 * SECOND_NS;
        let filter = Filter::parse("after 00:10").expect("a filter");
        assert_eq!(filter.window(first).from_ns, 11 * DAY_NS + 600 * SECOND_NS);
    }

    #[test]
    fn causes_select_findings() {
        let filter = Filter::parse("cause nagle_delayed_ack,refused").expect("a filter");
        assert!(filter.matches_cause(Cause::Refused) && !filter.matches_cause(Cause::Reset));
    }

    #[test]
    fn a_connection_is_picked_by_number_or_end() {
        let flow = FlowKey { low: end("10.0.0.1", 50_000), high: end("10.0.0.2", 80) };
        let picks = |text: &str| Pick::parse(text).expect(text).matches(3, &flow);
        assert!(picks("3") && picks("10.0.0.1:50000") && picks("10.0.0.2:80"));
        assert!(!picks("4") && !picks("10.0.0.1:80") && !picks("[::1]:80"));
        assert!(Pick::parse("0").is_err() && Pick::parse("10.0.0.1").is_err());
    }

    #[test]
    fn syntax_of_other_filters_is_answered_with_the_right_one() {
        let error = |text: &str| Filter::parse(text).expect_err(text).to_string();
        assert!(error("hsot 10.0.0.1").contains("did you mean `host`?"));
        assert!(error("host 10.0.0.1 or port 80").contains("as in host 10.0.0.1,10.0.0.2"));
        assert!(error("host 10.0.0.1 || port 80").contains("a list"));
        assert!(error("(host 10.0.0.1)").contains("brackets are not known"));
        assert!(error("host (10.0.0.1").contains("brackets are not known"));
        assert!(error("host 10.0.0.1 and (port 80)").contains("brackets are not known"));
        assert!(error("ip.addr == 10.0.0.1").contains("host ADDRESS for ip.addr"));
        assert!(error("10.0.0.1").contains("did you mean `host 10.0.0.1`?"));
        assert!(error("nagle_delayed_ack").contains("`cause nagle_delayed_ack`"));
        assert!(error("cause nagle_delayed_akc").contains("did you mean `nagle_delayed_ack`?"));
        assert!(error("host 10.0.0.1:80").contains("host 10.0.0.1 and port 80"));
        assert!(error("nonsense").starts_with("`nonsense` is no filter: write"));
    }

    #[test]
    fn and_may_be_written_as_in_other_filters() {
        for text in ["host 10.0.0.1 && port 80,443", "host 10.0.0.1&&port 80, 443"] {
            let (client, other) = (("10.0.0.1", 50_000), ("10.0.0.1", 22));
            assert!(keeps(text, client, ("10.0.0.2", 80)), "{text}");
            assert!(!keeps(text, other, ("10.0.0.2", 25)), "{text}");
        }
    }

    #[test]
    fn times_need_their_unit() {
        let error = |text: &str| Filter::parse(text).expect_err(text).to_string();
        assert_eq!(error("after +2"), "`+2` has no unit: write +2s or +2ms");
        assert!(error("+1.5..+3s").contains("`+1.5` has no unit"));
        assert!(error("before 5s").contains("write +5s"));
    }

    #[test]
    fn errors_name_the_word_that_is_not_understood() {
        let error = |text: &str| Filter::parse(text).expect_err(text).to_string();
        assert!(error("hots 10.0.0.1").starts_with("`hots` is no filter"));
        assert!(error("host").starts_with("`host` has no value"));
        assert!(error("host example.org").contains("is no address"));
        assert!(error("port 70000").contains("is no port"));
        assert!(error("after 25:00").contains("is no time"));
        assert!(error("cause nagle").contains("is no cause"));
        assert!(error("after +1s after +2s").contains("given twice"));
        for text in ["not", "..", "host 1.2.3.4/99", "+1s...", "after +é", "port 9-1"] {
            error(text);
        }
    }
}
