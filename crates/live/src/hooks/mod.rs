//! Kernel hooks (eBPF): what neither a capture nor a list of sockets shows. Programs are attached
//! to the kernel's BTF tracepoints (`tp_btf`); fields are found by name in the running kernel's
//! BTF (CO-RE), so that one binary serves all kernels that have the tracepoint.
//!
//! ```text
//! kernel:  drop/drop.bpf.c   counts in a map, or writes a record into a ring
//! here:    Session::open ─► poll (records of rings)
//!                        └► summary (maps: counts since the session was opened)
//! ```
//!
//! A hook is a folder: the C program, its record (`.h`, whose size is asserted in C and where it is
//! read), and the Rust side. The build compiles the programs with clang; without clang the binary
//! has no hooks, [`BUILT`] is false, and every hook is [`Unavailable`] with that reason.
//!
//! Nothing is pinned: programs, maps and links are descriptors of this process, and the kernel
//! removes them when it ends, also when it is killed.
//!
//! Counts that may grow by 100,000 a second are kept in maps in the kernel. A map that is full, or
//! a ring that was read too late, is counted in [`Summary::lost`].

mod btf;
mod drop;
pub mod established;
mod flow;
mod object;
mod program;
mod symbols;
mod unavailable;

use std::collections::BTreeMap;
use std::fs;

use aya::{Btf, Endianness};
use serde::Serialize;

pub use drop::Drop;
pub use flow::Flow;
pub use program::BUILT;
pub use unavailable::{Lack, Unavailable};

use object::Object;

/// A kind of hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HookKind {
    /// Packets that the kernel drops, by reason, place and flow.
    Drop,
}

/// What the hooks look at; empty fields ask for all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Inode of the only network namespace to look at.
    pub netns: Option<u32>,
}

/// Hooks that are attached. They are detached when this is dropped.
#[derive(Default)]
pub struct Session {
    hooks: BTreeMap<HookKind, Object>,
    /// Values of `enum skb_drop_reason` of the running kernel.
    reasons: BTreeMap<u32, String>,
}

/// What the hooks counted since the session was opened.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Summary {
    /// Dropped packets.
    pub drops: Vec<Drop>,
    /// Events that were seen by a hook and not counted for want of room.
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
        let Ok(bytes) = fs::read("/sys/kernel/btf/vmlinux") else {
            return none_of_them(Lack::NoBtf);
        };
        let Ok(btf) = Btf::parse(&bytes, Endianness::default()) else {
            return none_of_them(Lack::NoBtf);
        };
        let reasons = btf::enum_names(&bytes, "skb_drop_reason");
        let mut session = Self { hooks: BTreeMap::new(), reasons };
        let mut missing = Vec::new();
        for &hook in kinds {
            let Some(elf) = program::of(hook) else { continue };
            match Object::load(elf, &btf, scope.netns.unwrap_or(0)) {
                Ok(object) => {
                    session.hooks.insert(hook, object);
                }
                Err(words) => missing.push(Unavailable { hook, lack: Lack::Refused(words) }),
            }
        }
        (session, missing)
    }

    /// Whether a hook is attached.
    pub fn has(&self, hook: HookKind) -> bool {
        self.hooks.contains_key(&hook)
    }

    /// What was counted since the session was opened.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for (&kind, object) in &self.hooks {
            match kind {
                HookKind::Drop => summary.drops = drop::read(object, &self.reasons),
            }
            let lost = object.counter("lost");
            if lost > 0 {
                summary.lost.insert(kind, lost);
            }
        }
        summary
    }
}
