//! Whether a server has to answer a message of its client, since when, and by which rule.
//!
//! Most protocols show which messages need a response. In others only the order, the lengths and the
//! times of the messages do; the rules that read these are the variants of [`Rule`].

use std::num::NonZeroU16;

/// The answer that a server has to give to a message of its client, or that it has to give none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owed {
    /// Time at which the message began, ns.
    pub since_ns: u64,
    /// Whether an answer is due.
    pub debt: Debt,
}

/// A response, nothing, or one of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debt {
    Response,
    /// Nothing, by a rule.
    Nothing(Rule),
    /// A response, or nothing by this rule: later packets decide.
    Unknown(Rule),
}

/// Why a message of a client needs no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It follows an event, which is a message of the server that nothing requested: it may
    /// acknowledge that event.
    Event,
    /// It has the length of the client's [`Receipts`].
    Receipt,
    /// The client closed right behind it, or the server as soon as it had it, and both closed without data: it
    /// may be a goodbye.
    Goodbye,
    /// Nothing was ever answered on the connection, and its client did not wait for anything.
    OneWay,
}

/// The length of the messages by which a client acknowledges what the server sends of its own
/// accord: the client sent one at once behind a message of the server, and its next request before any
/// answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receipts {
    bytes: Option<NonZeroU16>,
}

impl Receipts {
    /// Records a message of `bytes` that got no answer before the client's next request.
    pub fn note(&mut self, bytes: u32) {
        self.bytes = u16::try_from(bytes).ok().and_then(NonZeroU16::new);
    }

    /// Forgets the messages of `bytes`: one of them was answered.
    pub fn forget(&mut self, bytes: u32) {
        if self.include(bytes) {
            self.bytes = None;
        }
    }

    /// Returns what the server owes for a message of `bytes`, as far as its length shows.
    pub fn debt(&self, bytes: u32) -> Debt {
        if self.include(bytes) { Debt::Unknown(Rule::Receipt) } else { Debt::Response }
    }

    fn include(&self, bytes: u32) -> bool {
        self.bytes.is_some_and(|known| u32::from(known.get()) == bytes)
    }
}
