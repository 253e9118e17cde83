//! The initial windows of a route (ip-route(8)): how many segments a new connection sends before
//! the first ACK, and lets the other side send.

use std::io;
use std::net::IpAddr;
use std::process::Command;

use super::error::TreatError;
use super::host::{HostPlan, Restored};
use super::record::{Change, RouteChange, What};
use crate::netns::Netns;

/// Words of a route with a value, that `ip route` prints and takes alike.
const WITH_VALUE: [&str; 20] = [
    "via",
    "dev",
    "proto",
    "scope",
    "src",
    "metric",
    "table",
    "mtu",
    "advmss",
    "hoplimit",
    "initcwnd",
    "initrwnd",
    "window",
    "rtt",
    "rto_min",
    "quickack",
    "congctl",
    "features",
    "pref",
    "reordering",
];
/// Words of a route that take no value.
const ALONE: [&str; 1] = ["onlink"];
/// Most segments of an initial window; more is a burst that no path has to take.
pub const WINDOW_MAX: u32 = 512;

/// Options of the treatment.
#[derive(Debug, Clone, Default)]
pub struct InitialWindows {
    /// An address that the route leads to.
    pub to: Option<IpAddr>,
    /// Segments that are sent before the first ACK.
    pub initcwnd: Option<u32>,
    /// Segments that the other side may send at first.
    pub initrwnd: Option<u32>,
    /// The network namespace.
    pub netns: Option<String>,
}

/// Plans the changes for `asked`.
///
/// # Errors
/// There is no such route; it has something that cannot be written back; nothing would change.
pub fn plan(asked: &InitialWindows) -> Result<HostPlan, TreatError> {
    let netns = match &asked.netns {
        Some(name) => Netns::find(name)?,
        None => Netns::own(),
    };
    let is_ipv6 = asked.to.is_some_and(|to| to.is_ipv6());
    let prefix = prefix(&netns, asked.to)?;
    let before = only(&netns, is_ipv6, &prefix)?;
    if let Some(word) = unknown(&before) {
        return Err(TreatError::RouteNotRestorable { route: before, word });
    }
    let set = with(&before, &[("initcwnd", asked.initcwnd), ("initrwnd", asked.initrwnd)]);
    if set == before {
        return Err(TreatError::HasIt { name: format!("route {prefix}"), value: "so".into() });
    }
    let change = RouteChange {
        netns: netns.inode,
        netns_name: netns.name,
        is_ipv6,
        prefix: prefix.clone(),
        before,
        set,
    };
    let risks = vec![
        "it counts for new connections; a burst that the path cannot take is lost, and sent again",
    ];
    Ok(HostPlan { what: What::Cwnd { route: prefix }, changes: vec![Change::Route(change)], risks })
}

pub(super) fn make(change: &RouteChange) -> Result<(), TreatError> {
    let refused = |error: io::Error| TreatError::Route { said: error.to_string() };
    let Some(netns) = Netns::with_inode(change.netns) else {
        return Err(TreatError::Route { said: "its network namespace is gone".into() });
    };
    write(&netns, change.is_ipv6, &change.set).map_err(refused)?;
    // A route that the kernel stored otherwise could not be found again by an undo.
    match only(&netns, change.is_ipv6, &change.prefix)? {
        now if now == change.set => Ok(()),
        now => Err(TreatError::Route { said: format!("the kernel made it `{now}`") }),
    }
}

pub(super) fn restore(change: &RouteChange) -> io::Result<Restored> {
    let Some(netns) = Netns::with_inode(change.netns) else { return Ok(Restored::Gone) };
    let now = shown(&netns, change.is_ipv6, &change.prefix)?;
    if now.contains(&change.before) {
        return Ok(Restored::Done);
    }
    if now.is_empty() {
        return Ok(Restored::Gone);
    }
    if !now.contains(&change.set) {
        return Ok(Restored::ChangedMeanwhile);
    }
    write(&netns, change.is_ipv6, &change.before).map(|()| Restored::Done)
}

/// Returns the prefix of the route to an address; without an address, that of the default route.
fn prefix(netns: &Netns, to: Option<IpAddr>) -> Result<String, TreatError> {
    let Some(to) = to else { return Ok("default".into()) };
    let refused = |error: io::Error| TreatError::Route { said: error.to_string() };
    let family = if to.is_ipv6() { "-6" } else { "-4" };
    let address = to.to_string();
    let said = ip(netns, &[family, "-o", "route", "get", "fibmatch", &address]).map_err(refused)?;
    let first = said.split_whitespace().next().map(str::to_owned);
    first.ok_or(TreatError::NoRoute { to: address })
}

/// Returns the one route of a prefix; a change could not choose between several.
fn only(netns: &Netns, is_ipv6: bool, prefix: &str) -> Result<String, TreatError> {
    let refused = |error: io::Error| TreatError::Route { said: error.to_string() };
    let mut routes = shown(netns, is_ipv6, prefix).map_err(refused)?;
    match (routes.pop(), routes.len()) {
        (Some(route), 0) => Ok(route),
        (Some(_), _) => Err(TreatError::SeveralRoutes { prefix: prefix.to_owned() }),
        (None, _) => Err(TreatError::NoRoute { to: prefix.to_owned() }),
    }
}

/// Routes of a prefix in the main table, as `ip route` prints them.
fn shown(netns: &Netns, is_ipv6: bool, prefix: &str) -> io::Result<Vec<String>> {
    let family = if is_ipv6 { "-6" } else { "-4" };
    let said = ip(netns, &[family, "-o", "route", "show", "exact", prefix, "table", "main"])?;
    Ok(said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect())
}

fn write(netns: &Netns, is_ipv6: bool, route: &str) -> io::Result<()> {
    let mut arguments = vec![if is_ipv6 { "-6" } else { "-4" }, "route", "change"];
    arguments.extend(route.split(' '));
    ip(netns, &arguments).map(|_| ())
}

/// Runs `ip` in a network namespace.
pub(super) fn ip(netns: &Netns, arguments: &[&str]) -> io::Result<String> {
    let run = || Command::new("ip").args(arguments).output();
    let output = netns.inside(run).map_err(io::Error::other)??;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// Returns the first word that could not be written back, as of a route with several next hops, or
/// of one that a router advertised with a lifetime.
fn unknown(route: &str) -> Option<String> {
    let mut words = route.split(' ').skip(1);
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word) {
            words.next();
        } else if !ALONE.contains(&word) {
            return Some(word.to_owned());
        }
    }
    None
}

/// Returns the route with these values instead of those that it has.
fn with(route: &str, wanted: &[(&str, Option<u32>)]) -> String {
    let mut words: Vec<String> = route.split(' ').map(str::to_owned).collect();
    for (name, value) in wanted {
        let Some(value) = value else { continue };
        match words.iter().position(|word| word == name) {
            Some(at) if at + 1 < words.len() => words[at + 1] = value.to_string(),
            _ => {
                // The place at which `ip route` prints it: before the preference, which is last.
                let at = words.iter().position(|word| word == "pref").unwrap_or(words.len());
                words.splice(at..at, [(*name).to_owned(), value.to_string()]);
            }
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_keeps_all_that_it_had() {
        let route = "default via 10.0.0.1 dev eth0 proto dhcp metric 100";
        let wanted = [("initcwnd", Some(30)), ("initrwnd", None)];
        assert_eq!(with(route, &wanted), format!("{route} initcwnd 30"));
        let changed = with(&format!("{route} initcwnd 10 mtu 1400"), &wanted);
        assert_eq!(changed, format!("{route} initcwnd 30 mtu 1400"));
        let of_ipv6 = with("fd00::/64 dev eth0 metric 256 pref medium", &wanted);
        assert_eq!(of_ipv6, "fd00::/64 dev eth0 metric 256 initcwnd 30 pref medium");
    }

    #[test]
    fn what_cannot_be_written_back_is_refused() {
        assert_eq!(unknown("default via 10.0.0.1 dev eth0 onlink"), None);
        let expires = "default via fe80::1 dev eth0 proto ra metric 100 expires 1700sec pref high";
        assert_eq!(unknown(expires).as_deref(), Some("expires"));
        let several = "default nexthop via 10.0.0.1 dev eth0 weight 1";
        assert_eq!(unknown(several).as_deref(), Some("nexthop"));
    }
}
