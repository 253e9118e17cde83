//! Packets that the kernel drops: which, how many, where in the kernel, of which flow, and what to
//! do. Two sources: the [`Drop`](crate::hooks::HookKind::Drop) hook, which sees each packet with
//! its reason, and the kernel's counters, which need no privilege and count also what never was a
//! packet of its own (a SYN that a full listener ignores is no drop to the hook).
//!
//! ```text
//! hooks    ─┐
//! counters ─┼─► Watch::report ─► Line ─► sentences
//! owners   ─┘
//! ```

mod counters;
mod gather;
mod line;
mod netlink;
mod owners;
pub mod subject;

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;

use crate::error::LiveError;
use crate::hooks::{HookKind, Scope, Session, Unavailable};
use crate::netns::Netns;

pub use counters::ConntrackUse;
pub use line::{AcceptQueue, FlowDrops, Increase, Line};
pub use subject::{Harm, Subject};

use counters::Snapshot;

/// The drops to watch; empty fields select all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watched {
    /// Network namespace, by name or by the number of a process in it.
    pub netns: Option<String>,
    /// Only drops at sockets of this process, in its network namespace.
    pub pid: Option<u32>,
}

/// Drops are counted from its start.
pub struct Watch {
    started: Instant,
    /// `true` if drops are watched in all namespaces.
    is_all: bool,
    /// Only drops at sockets of this process are reported.
    pid: Option<u32>,
    session: Session,
    missing: Vec<Unavailable>,
    /// The namespaces that were read, by inode.
    namespaces: BTreeMap<u64, (Netns, Snapshot)>,
    softnet_dropped: u64,
}

/// Packets dropped since the start of the watch.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Report {
    /// Time since the start.
    pub duration_ns: u64,
    /// Hooks that do not work, and why. Without the hook there are no reasons, functions and flows.
    pub hooks_missing: Vec<Unavailable>,
    /// Drops that the hook saw and had no room to count.
    pub uncounted: u64,
    /// Network namespaces whose counters were read.
    pub netns: Vec<Namespace>,
    /// The drops, those that hurt a connection first.
    pub drops: Vec<Line>,
}

/// A network namespace whose counters were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Namespace {
    /// Name under `ip netns`, or `pid N`; `None` for the caller's own.
    pub name: Option<String>,
    /// Connection tracking; `None` where the kernel has none.
    pub conntrack: Option<ConntrackUse>,
    /// Columns of `conntrack -S` that grew since the start.
    pub conntrack_counters: Vec<Increase>,
}

impl Watch {
    /// Attaches the hook, where that is possible, and reads the counters.
    ///
    /// # Errors
    /// The namespace or the process asked for does not exist, or the namespace may not be entered.
    pub fn start(watched: &Watched) -> Result<Self, LiveError> {
        let only = match (&watched.netns, watched.pid) {
            (Some(name), _) => Some(Netns::find(name)?),
            (None, Some(pid)) => Some(Netns::of_process(pid)?),
            (None, None) => None,
        };
        Self::start_in(only, watched.pid)
    }

    /// Watches drops in the namespace `only`, or in all; those at sockets of `pid`, or all.
    ///
    /// # Errors
    /// The namespace may not be entered.
    pub fn start_in(only: Option<Netns>, pid: Option<u32>) -> Result<Self, LiveError> {
        let own = Netns::own();
        let only = only.map(|netns| if netns.inode == own.inode { own } else { netns });
        let netns = only.as_ref().and_then(|netns| netns.inode.try_into().ok());
        let scope = Scope { netns, ..Scope::default() };
        let (session, missing) = Session::open(&[HookKind::Drop], &scope);
        let mut namespaces = BTreeMap::new();
        let is_all = only.is_none();
        for netns in only.map_or_else(Netns::all, |netns| vec![netns]) {
            match netns.inside(counters::read) {
                Ok(snapshot) => {
                    namespaces.insert(netns.inode, (netns, snapshot));
                }
                Err(error) if !is_all => return Err(error),
                // One of many processes, which has ended or belongs to another user.
                Err(_) => {}
            }
        }
        let softnet_dropped = counters::softnet();
        let started = Instant::now();
        Ok(Self { started, is_all, pid, session, missing, namespaces, softnet_dropped })
    }

    /// Returns the drops since the start. The counters of a namespace that was deleted are lost; a
    /// namespace that was created since is counted from its creation.
    pub fn report(&mut self) -> Report {
        if self.is_all {
            for netns in Netns::all() {
                self.namespaces.entry(netns.inode).or_insert((netns, Snapshot::default()));
            }
        }
        let now: BTreeMap<u64, Snapshot> = self
            .namespaces
            .iter()
            .filter_map(|(&inode, (netns, _))| Some((inode, netns.inside(counters::read).ok()?)))
            .collect();
        let summary = self.session.summary();
        let namespaces = now.iter().map(|(inode, now)| {
            let (netns, then) = &self.namespaces[inode];
            let grown = gather::increases(then, now);
            Namespace {
                name: netns.name.clone(),
                conntrack: now.conntrack,
                conntrack_counters: grown
                    .into_iter()
                    .filter(|(name, _)| name.starts_with("nf_conntrack."))
                    .map(|(name, by)| Increase { name, by })
                    .collect(),
            }
        });
        Report {
            duration_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            hooks_missing: self.missing.clone(),
            uncounted: summary.lost.values().sum(),
            netns: namespaces.collect(),
            drops: gather::lines(self, &now, &summary.drops),
        }
    }
}
