//! Kernel hooks (eBPF) for data that neither a capture nor a list of sockets shows. Programs are
//! attached to the kernel's BTF tracepoints (`tp_btf`); fields are found by name in the running
//! kernel's BTF (CO-RE), so that one binary serves all kernels that have the tracepoint.
//!
//! ```text
//! kernel:  drop/drop.bpf.c   counts in a map, or writes a record into a ring
//! here:    Session::open ─► poll (records of rings)
//!                        └► summary (maps: counts since the session was opened)
//! ```
//!
//! A hook is a folder and its row in `table`. The folder has the C program, its record (`.h`, whose size is
//! asserted in C and where it is read), and the Rust side. The build compiles the programs with clang; without clang the binary
//! has no hooks, [`BUILT`] is false, and every hook is [`Unavailable`] with that reason.
//!
//! Programs, maps and links are descriptors of this process, and the kernel removes them when it
//! ends, also when it is killed.
//!
//! Times are by `CLOCK_MONOTONIC`; [`realtime_offset_ns`] converts them to the clock of captures.
//!
//! - `drop` (kfree_skb, Linux 5.17): packets dropped, by reason, function and flow. It does not see
//!   the SYN that a full listener ignores: to the kernel that is no drop.
//! - `retransmit` (tcp_retransmit_skb, tcp_retransmit_synack): segments sent again, by connection
//!   and kind.
//! - `unread` (sk_data_ready, sock_recv_length): how long data lay unread, by socket and reader. It
//!   does not see readers that use `splice`.
//! - `sndbuf_wait` (tcp_sendmsg_locked, Linux 6.15; sock_send_length): waits for send-buffer
//!   memory, by socket and sender. It does not see senders that poll before each call.
//! - `served` (sched_switch, sched_waking, sk_data_ready, sock_recv_length, net_dev_queue,
//!   net_dev_start_xmit; tcp_sendmsg_locked, Linux 6.15): what the threads that had a request in their
//!   hands did until it was answered: ran, waited for a processor, were throttled, were blocked in which
//!   kind of call; and when the answer came to the queue of an interface, and left it. It follows a
//!   request by wake-ups within a process. It does not see servers that use `splice`, nor io_uring.
//! - `state` (inet_sock_set_state): connections that open and close, with their owner; that of an
//!   accepted connection is known when it is closed.
//! - `options` (sys_enter, sys_exit): setsockopt, bind and listen calls of chosen processes. It
//!   does not see programs of 32 bits, nor io_uring.
//!
//! Beside these, `frames` (TCX, Linux 6.6) captures packets at one interface. Hooks that change what
//! the kernel does are in `crates/treat`.
//!
//! While they are attached, `drop`, `retransmit` and `state` cost nothing for each request;
//! `unread` and `sndbuf_wait` run at each receive and send call, and `served` also whenever a processor
//! changes to another thread or a packet is sent; [`Scope::sample`] lowers what they cost.
//!
//! Counts that may grow by 100,000 a second are kept in maps in the kernel. A map that is full, or
//! a ring that was read too late, is counted in [`Summary::lost`].

mod btf;
mod drop;
mod flow;
pub mod frames;
mod object;
mod options;
mod program;
mod retransmit;
mod served;
mod sndbuf_wait;
mod state;
mod symbols;
mod table;
mod unavailable;
mod unread;

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use std::{fs, io};

use aya::sys::{Stats, enable_stats};
use aya::{Btf, Endianness};
use serde::Serialize;

pub use drop::Drop;
pub use flow::{Fields, Flow};
pub use object::chain;
pub use options::{Call, What};
pub use program::BUILT;
pub use retransmit::Retransmits;
pub use served::{SLOW_NS as SERVED_SLOW_NS, Served, States};
pub use sndbuf_wait::SndbufWait;
pub use state::StateChange;
pub use table::HookKind;
pub use unavailable::{Lack, Unavailable, before_loading};
pub use unread::Unread;

use crate::sample::Sample;
pub use crate::sys::clock::{monotonic_ns, realtime_offset_ns};
use crate::sys::{process, wait};
use object::Object;
use symbols::Functions;

/// Scope of the hooks; empty fields select all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Inode of the only network namespace to look at. [`HookKind::Options`] ignores it.
    pub netns: Option<u32>,
    /// Processes. [`HookKind::Options`] looks at these and no others; of
    /// [`HookKind::Unread`] and [`HookKind::SndbufWait`] the summary has only sockets that one of
    /// them used last, of [`HookKind::State`] only changes by one of them are returned, and of
    /// [`HookKind::Served`] only requests that one of them answered. Drops
    /// and retransmissions happen outside of processes and are not selected.
    pub pids: Vec<u32>,
    /// Ports of listeners: [`HookKind::Served`] looks at connections that came to these and no
    /// others.
    pub ports: Vec<u16>,
    /// Connections at which [`HookKind::Unread`], [`HookKind::SndbufWait`] and [`HookKind::Served`]
    /// look, which run at each receive and send call.
    pub sample: Sample,
}

impl Scope {
    /// Returns whether a process is in `pids`; an empty list includes all.
    fn has_process(&self, pid: Option<u32>) -> bool {
        self.pids.is_empty() || pid.is_some_and(|pid| self.pids.contains(&pid))
    }
}

/// Hooks that are attached. They are detached when this is dropped.
#[derive(Default)]
pub struct Session {
    hooks: BTreeMap<HookKind, Object>,
    scope: Scope,
    /// Values of `enum skb_drop_reason` of the running kernel.
    reasons: BTreeMap<u32, String>,
    functions: Functions,
    /// While it is open, the kernel measures how long programs run.
    measured: Option<OwnedFd>,
}

/// Fills in the processes and ports that a hook looks at.
fn choose(object: &mut Object, scope: &Scope) -> Result<(), String> {
    object.choose("pids", &scope.pids, 1)?;
    object.choose("ports", &scope.ports, 0)
}

/// A single event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A connection or listener opened or closed.
    State(StateChange),
    /// A process set up a socket.
    Call(Call),
    /// A server answered a request.
    Served(Box<Served>),
}

/// Counts of the hooks since the session was opened, by flow. The source of each flow is this
/// host's end (of [`Drop`]: the sender of the packet), so a flow belongs to the connection of a
/// capture with the same two ends, in either order.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Summary {
    /// The dropped packets.
    pub drops: Vec<Drop>,
    /// Retransmissions.
    pub retransmits: Vec<Retransmits>,
    /// Received data that lay unread.
    pub unread: Vec<Unread>,
    /// Senders that waited for send-buffer memory.
    pub sndbuf_waits: Vec<SndbufWait>,
    /// Events of a hook that were not counted or recorded for lack of room.
    pub lost: BTreeMap<HookKind, u64>,
}

impl Session {
    /// Attaches the hooks of `kinds`. Those that cannot be attached are returned with the reason;
    /// the others work.
    pub fn open(kinds: &[HookKind], scope: &Scope) -> (Self, Vec<Unavailable>) {
        let none_of_them = |lack: Lack| {
            let all = kinds.iter().map(|&hook| Unavailable { hook, lack: lack.clone() });
            (Self::default(), all.collect())
        };
        if let Some(lack) = unavailable::before_loading() {
            return none_of_them(lack);
        }
        let bytes = fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
        let Ok(btf) = Btf::parse(&bytes, Endianness::default()) else {
            return none_of_them(Lack::NoBtf);
        };
        let reasons = btf::enum_names(&bytes, "skb_drop_reason");
        let mut session = Self { scope: scope.clone(), reasons, ..Self::default() };
        let mut missing = Vec::new();
        for &hook in kinds {
            match session.attach(hook, &btf) {
                Ok(()) => {}
                Err(words) => missing.push(Unavailable { hook, lack: Lack::Refused(words) }),
            }
        }
        // The types of the kernel take some 30 MB while they are read.
        drop((btf, bytes));
        process::give_back_memory();
        (session, missing)
    }

    fn attach(&mut self, hook: HookKind, btf: &Btf) -> Result<(), String> {
        let Some(elf) = (hook.row().program)() else { return Ok(()) };
        let mut object = Object::load(elf, btf, &self.scope)?;
        choose(&mut object, &self.scope)?;
        self.hooks.insert(hook, object);
        Ok(())
    }

    /// Detaches the hooks, which stay loaded: [`Self::resume`] takes a small part of the time that
    /// [`Self::open`] takes.
    pub fn pause(&mut self) {
        self.measured = None;
        self.hooks.values_mut().for_each(Object::detach);
    }

    /// Attaches the hooks again after [`Self::pause`], now to the processes, ports and share of
    /// connections of `scope`, which is as that of [`Self::open`] otherwise.
    ///
    /// # Errors
    /// The kernel refuses, for this reason.
    pub fn resume(&mut self, scope: &Scope) -> Result<(), String> {
        self.scope = scope.clone();
        for (kind, object) in &mut self.hooks {
            (kind.row().clear)(object);
            object.clear::<2, 4>("ports");
            object.clear::<4, 4>("pids");
            object.set_share(scope.sample.share)?;
            choose(object, scope)?;
            object.attach()?;
        }
        Ok(())
    }

    /// Returns whether a hook is attached.
    pub fn has(&self, hook: HookKind) -> bool {
        self.hooks.contains_key(&hook)
    }

    /// Lets the kernel measure from now on how long the hooks run, in which each run takes some 40 ns
    /// more (`BPF_ENABLE_STATS`, Linux 5.8). Returns whether it does.
    pub fn measure(&mut self) -> bool {
        self.measured = enable_stats(Stats::RunTime).ok();
        self.measured.is_some()
    }

    /// Returns how long the hooks ran since [`Self::measure`], on all CPUs.
    pub fn run_time(&self) -> Duration {
        self.hooks.values().map(Object::run_time).sum()
    }

    /// Records of the hooks that write some, which came since the last call;
    /// waits for one until `timeout`. The hooks keep some thousands of records of each kind until
    /// they are read.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn poll(&mut self, timeout: Duration) -> io::Result<Vec<Record>> {
        let mut records = self.records();
        if records.is_empty() {
            let rings: Vec<BorrowedFd<'_>> =
                self.hooks.values().filter_map(Object::readable).collect();
            wait::readable(&rings, timeout)?;
            records = self.records();
        }
        Ok(records)
    }

    fn records(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        for (kind, object) in &mut self.hooks {
            let parse = kind.row().record;
            object.records(|bytes| records.extend(parse(&self.scope, bytes)));
        }
        records
    }

    /// Removes counts of closed connections and of drops and retransmissions that had no event for
    /// `idle`, which makes room in the kernel's tables. A session that runs for long calls it after
    /// [`Self::summary`], whose counts then are of what was not removed.
    pub fn forget(&mut self, idle: Duration) {
        let idle = u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX);
        let before_ns = monotonic_ns().saturating_sub(idle);
        for (kind, object) in &mut self.hooks {
            (kind.row().forget)(object, before_ns);
        }
    }

    /// Returns the counts since the session was opened.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for (&kind, object) in &self.hooks {
            (kind.row().read)(self, object, &mut summary);
            let lost = object.counter("lost");
            if lost > 0 {
                summary.lost.insert(kind, lost);
            }
        }
        summary
    }
}
