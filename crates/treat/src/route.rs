//! The initial windows of a route (ip-route(8)): how many segments a new connection sends before
//! the first ACK, and lets the other side send.

use std::io;
use std::net::IpAddr;

use super::error::TreatError;
use super::fib::{self, RTAX_INITCWND, RTAX_INITRWND, Route};
use super::host::{HostPlan, Restored};
use super::namespace::Namespace;
use super::record::{Change, RouteChange, What};
use tcpwhy_live::netns::Netns;

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
    let namespace = Namespace::of(&netns)?;
    netns.inside(|| plan_inside(asked, namespace))?
}

fn plan_inside(asked: &InitialWindows, namespace: Namespace) -> Result<HostPlan, TreatError> {
    let is_ipv6 = asked.to.is_some_and(|to| to.is_ipv6());
    let prefix = match asked.to {
        None => "default".into(),
        Some(to) => fib::to(to).map_err(|error| none_to(to, &error))?.prefix(),
    };
    let before = only(is_ipv6, &prefix)?;
    if let Some(word) = before.not_restorable() {
        return Err(TreatError::RouteNotRestorable { route: before.words(), word });
    }
    let wanted = [(RTAX_INITCWND, asked.initcwnd), (RTAX_INITRWND, asked.initrwnd)];
    let set = wanted.iter().fold(before.clone(), |route, (metric, value)| match value {
        Some(value) => route.with(*metric, *value),
        None => route,
    });
    if set == before {
        return Err(TreatError::HasIt { name: format!("route {prefix}"), value: "so".into() });
    }
    let change = RouteChange {
        namespace,
        is_ipv6,
        prefix: prefix.clone(),
        before: before.words(),
        before_message: before.hex(),
        set: set.words(),
        set_message: set.hex(),
    };
    let risks = vec![
        "it counts for new connections; a burst that the path cannot take is lost, and sent again",
    ];
    Ok(HostPlan { what: What::Cwnd { route: prefix }, changes: vec![Change::Route(change)], risks })
}

fn none_to(to: IpAddr, error: &io::Error) -> TreatError {
    match error.raw_os_error() {
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => TreatError::NoRoute { to: to.to_string() },
        _ => refused(error),
    }
}

fn refused(error: &io::Error) -> TreatError {
    TreatError::Route { said: error.to_string() }
}

/// Makes the change, and returns it as the kernel stored it.
pub(super) fn make(change: &RouteChange) -> Result<RouteChange, TreatError> {
    let netns = change.namespace.open().map_err(|error| refused(&error))?;
    let set = wanted(&change.set_message).map_err(|error| refused(&error))?;
    netns.inside(|| {
        fib::replace(&set).map_err(|error| refused(&error))?;
        let now = only(change.is_ipv6, &change.prefix)?;
        Ok(RouteChange { set: now.words(), set_message: now.hex(), ..change.clone() })
    })?
}

fn wanted(message: &str) -> io::Result<Route> {
    Route::from_hex(message).ok_or_else(|| io::Error::other("its record has no route"))
}

pub(super) fn restore(change: &RouteChange) -> io::Result<Restored> {
    let Some(netns) = change.namespace.find()? else { return Ok(Restored::Gone) };
    let (before, set) = (wanted(&change.before_message)?, wanted(&change.set_message)?);
    let inside = || {
        let of_prefix = || fib::of_prefix(change.is_ipv6, &change.prefix);
        let now = of_prefix()?;
        if now.contains(&before) {
            return Ok(Restored::Done);
        }
        if now.is_empty() {
            return Ok(Restored::Gone);
        }
        if !now.contains(&set) {
            let now = now.iter().map(Route::words).collect::<Vec<_>>().join("`, `");
            return Ok(Restored::ChangedMeanwhile { now: format!("`{now}`") });
        }
        fib::replace(&before)?;
        match of_prefix()? {
            now if now.contains(&before) => Ok(Restored::Done),
            now => {
                let now = now.iter().map(Route::words).collect::<Vec<_>>().join("`, `");
                Err(io::Error::other(format!("the kernel made it `{now}`")))
            }
        }
    };
    netns.inside(inside).map_err(io::Error::other)?
}

/// Returns the one route of a prefix; a change could not choose between several.
fn only(is_ipv6: bool, prefix: &str) -> Result<Route, TreatError> {
    let mut routes = fib::of_prefix(is_ipv6, prefix).map_err(|error| refused(&error))?;
    match (routes.pop(), routes.len()) {
        (Some(route), 0) => Ok(route),
        (Some(_), _) => Err(TreatError::SeveralRoutes { prefix: prefix.to_owned() }),
        (None, _) => Err(TreatError::NoRoute { to: prefix.to_owned() }),
    }
}
