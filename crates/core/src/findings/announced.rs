//! Data connections of FTP to an address that one side announced and at which it is not reached
//! (RFC 959 §4.1.2: PASV, PORT; RFC 2428: EPRT): behind an address translation a host knows only its
//! inner address, and names that.

use crate::app::Label;
use crate::findings::attempts;
use crate::findings::causes::set_up::are_all_silent;
use crate::findings::refusals::client;
use crate::findings::tally::{Key, Part, Tally};
use crate::judge::thresholds::APPLICATION_TIMEOUT_MIN_NS;
use crate::model::{Cause, Culprit, Fact, Role};
use crate::tcp::{Connection, Exchange};
use crate::wire::Endpoint;
use std::net::IpAddr;

/// Number of announcements kept of a shard, and of all. These are the earliest.
const SHARD_KEPT_MAX: usize = 1 << 8;
pub(super) const KEPT_MAX: usize = 1 << 12;

/// An address for a data connection was announced.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize, serde::Serialize,
)]
pub struct Announcement {
    /// Time at which the announcement had passed, ns.
    at_ns: u64,
    /// Address of the host that is to connect.
    connects: [u8; 16],
    /// The side that announced, and its end of the control connection.
    by: (Role, Endpoint),
}

/// Returns whether a request of this kind is about the address of a data connection.
#[inline]
pub(super) fn announces(connection: &Connection, kind: &Label) -> bool {
    connection.framer.protocol().is_in_turns() && matches!(&**kind, "PASV" | "PORT" | "EPRT")
}

impl Announcement {
    fn of(connection: &Connection, kind: &str, at_ns: u64) -> Self {
        let [client, server] = [connection.client(), connection.server()];
        let (connects, by) = match kind {
            "PASV" => (client, (Role::Server, server)),
            _ => (server, (Role::Client, Endpoint { port: 0, ..client })),
        };
        Self { at_ns, connects: connects.address, by }
    }
}

/// Keeps the announcement that `exchange` makes.
pub(super) fn keep(kept: &mut Vec<Announcement>, connection: &Connection, exchange: &Exchange) {
    kept.push(Announcement::of(connection, &exchange.kind, exchange.last.time_ns));
    bound(kept, SHARD_KEPT_MAX);
}

/// Keeps the earliest of `announcements`, once there are many more.
pub(super) fn bound(announcements: &mut Vec<Announcement>, room: usize) {
    if announcements.len() >= room + room / 4 {
        announcements.select_nth_unstable(room);
        announcements.truncate(room);
    }
}

/// Attributes attempts that nothing answered to the side that announced their address, if each of them
/// followed such an announcement, and the address is not that at which the side was reached.
pub(super) fn settle(tally: &mut Tally) {
    let is_silent = |key: &Key| {
        let cause = tally.causes.get(key);
        key.cause == Cause::SynRetransmit
            && key.culprit.endpoint == key.server
            && cause.is_some_and(are_all_silent)
    };
    let keys: Vec<_> = tally.causes.keys().filter(|key| is_silent(key)).cloned().collect();
    for key in keys.iter().filter(|_| !tally.announcements.is_empty()).collect::<Vec<_>>() {
        let attempts = tally.syns.unanswered_to(key.server);
        let mut by = attempts.iter().map(|it| {
            let soon = |at_ns: u64| {
                at_ns <= it.first_ns && it.first_ns < at_ns + APPLICATION_TIMEOUT_MIN_NS
            };
            let announced = tally.announcements.iter();
            let mut announced = announced.filter(|of| of.connects == it.client && soon(of.at_ns));
            announced.next_back().map(|of| of.by)
        });
        let Some(Some((role, endpoint))) = by.next() else { continue };
        let is_one = by.all(|other| other == Some((role, endpoint)));
        if is_one && endpoint.address != key.server.address {
            attempts::blame(tally, key, Culprit { role, endpoint });
        }
    }
}

/// Returns the facts of attempts that are attributed to the side that announced their address.
pub(super) fn facts(culprit: Culprit, parts: &[Part<'_>]) -> Vec<(&'static str, Fact)> {
    let Some((key, cause)) = parts.first() else { return Vec::new() };
    let address = culprit.endpoint.address;
    let is_third = address != key.server.address && client(cause).is_some_and(|it| it != address);
    let is_side = matches!(culprit.role, Role::Server | Role::Client);
    if key.cause != Cause::SynRetransmit || !is_third || !is_side {
        return Vec::new();
    }
    let by = match culprit.endpoint {
        it if it.port == 0 => it.ip().to_string(),
        it => it.to_string(),
    };
    let announced = key.server.ip();
    let mut facts =
        vec![("announced_by", Fact::Text(by)), ("announced", Fact::Text(announced.to_string()))];
    if is_private(announced) && !is_private(culprit.endpoint.ip()) {
        facts.push(("inner", Fact::Text("a private address (RFC 1918)".into())));
    }
    facts
}

fn is_private(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.is_private())
}
