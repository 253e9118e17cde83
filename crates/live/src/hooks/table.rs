//! The hooks: one row for each.

use serde::Serialize;

use super::object::Object;
use super::program::program;
use super::{Record, Scope, Session, Summary};
use super::{drop, options, retransmit, served, sndbuf_wait, state, unread};

/// What a hook gives.
pub(super) struct Row {
    /// The compiled program; `None` if there was no clang at build time.
    pub program: fn() -> Option<&'static [u8]>,
    /// Reads an event of its ring; `None` if the scope leaves it out.
    pub record: fn(&Scope, &[u8]) -> Option<Record>,
    /// Reads its counts.
    pub read: fn(&Session, &Object, &mut Summary),
    /// Removes counts whose last event was before this time, ns.
    pub forget: fn(&mut Object, u64),
    /// Removes what it knows, before it is attached again after a pause.
    pub clear: fn(&mut Object),
}

/// The values that a row does not state.
const PLAIN: Row = Row {
    program: || None,
    record: |_, _| None,
    read: |_, _, _| {},
    forget: |_, _| {},
    clear: |_| {},
};

macro_rules! hooks {
    ($($(#[$doc:meta])* $kind:ident in $folder:ident { $($row:tt)* })*) => {
        /// A kind of hook.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum HookKind { $($(#[$doc])* $kind,)* }

        impl HookKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// The folder of the hook, which names its program.
            pub fn folder(self) -> &'static str {
                match self { $(Self::$kind => stringify!($folder),)* }
            }

            pub(super) fn row(self) -> &'static Row {
                const ROWS: &[Row; HookKind::ALL.len()] =
                    &[$(Row { program: || program!($folder), $($row)* },)*];
                &ROWS[self as usize]
            }
        }
    };
}

hooks! {
    /// Packets that the kernel drops, by reason, place and flow: [`Summary::drops`].
    Drop in drop {
        read: |session, object, summary| {
            summary.drops = drop::read(object, &session.reasons, &session.functions);
        },
        forget: drop::forget,
        ..PLAIN
    }
    /// Segments that are sent again, by connection and kind: [`Summary::retransmits`].
    Retransmit in retransmit {
        read: |_, object, summary| summary.retransmits = retransmit::read(object),
        forget: retransmit::forget,
        ..PLAIN
    }
    /// Time for which received data lay unread, by socket: [`Summary::unread`].
    Unread in unread {
        read: |session, object, summary| {
            summary.unread = unread::read(object);
            summary.unread.retain(|it| session.scope.has_process(it.pid));
        },
        forget: unread::forget,
        ..PLAIN
    }
    /// Waits of a sender for send-buffer memory, by socket: [`Summary::sndbuf_waits`].
    SndbufWait in sndbuf_wait {
        read: |session, object, summary| {
            summary.sndbuf_waits = sndbuf_wait::read(object);
            summary.sndbuf_waits.retain(|it| session.scope.has_process(Some(it.pid)));
        },
        forget: sndbuf_wait::forget,
        ..PLAIN
    }
    /// Requests that servers took long to answer, with what their threads did: [`Record::Served`].
    Served in served {
        record: |scope, bytes| {
            let served = served::parse(bytes).filter(|it| scope.has_process(Some(it.pid)));
            served.map(|it| Record::Served(Box::new(it)))
        },
        clear: served::clear,
        ..PLAIN
    }
    /// Connections that open and close: [`Record::State`].
    State in state {
        record: |scope, bytes| {
            let change = state::parse(bytes).filter(|it| scope.has_process(it.pid));
            change.map(Record::State)
        },
        ..PLAIN
    }
    /// `setsockopt`, `bind` and `listen` calls of [`Scope::pids`]: [`Record::Call`].
    Options in options {
        record: |_, bytes| options::parse(bytes).map(Record::Call),
        ..PLAIN
    }
}

#[cfg(test)]
mod tests {
    use super::HookKind;

    #[test]
    fn the_architecture_lists_every_hook() {
        let text = include_str!("../../../../ARCHITECTURE.md");
        for hook in HookKind::ALL {
            let row = format!("| `{}` | ", hook.folder());
            assert!(text.contains(&row), "ARCHITECTURE's table of hooks lacks {}", hook.folder());
        }
    }
}
