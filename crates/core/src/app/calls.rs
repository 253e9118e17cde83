//! Protocols of calls and replies that carry the same id: one grammar for each, and the rules that all
//! have in common.
//!
//! ```text
//! Packets ─► Calls ─► Grammar (Smb | Ldap | …): Call { id } · Reply { id } · More · Aside
//!              └ which reply ends which call
//! ```
//!
//! A reply ends the call with its id, and no other. Marks answer requests in their order, so a
//! connection whose replies come in another order is followed call by call from then on: a call that is
//! sent while another waits is part of no exchange. Calls that wait for an event, and messages that
//! nothing asks for, are part of no exchange either.

mod bytes;
mod cassandra;
mod dce_rpc;
mod diameter;
mod dnp3;
mod dubbo;
mod ethernet_ip;
mod iso_on_tcp;
mod kafka;
mod kerberos;
mod ldap;
mod memcached;
mod modbus;
mod mongodb;
mod onc_rpc;
mod opc_ua;
mod smb;
mod status;
mod stun;
mod tds;
mod thrift;
mod zookeeper;

use super::error_code::ErrorCode;
use super::exchanges::{Feed, Lost};
use super::framer::Next;
use super::packets::{HEADER_MAX, Rules, Shape};
use super::protocol::Protocol;
use super::sniff::{Hint, Verdict};
use crate::wire::{BySide, Side};
use std::collections::VecDeque;

pub(super) use ldap::unbind;
pub(super) use status::{is_credential, is_of_server, write};

/// Maximum number of calls without a reply that are followed.
const WAITING_MAX: usize = 64;

/// The meaning of one message for the exchanges.
pub(super) enum Said {
    /// It calls, and is to be answered; `more` parts of it may follow.
    Call { id: u64, kind: &'static str, more: bool },
    /// It answers the call with this id; with `more`, further messages of the same answer follow.
    Reply { id: u64, error: Option<ErrorCode>, more: bool },
    /// It is a part of the message in progress of its side; with `more`, not the last.
    More { more: bool },
    /// It calls for what older versions of the protocol lack, and refuse.
    Probe { id: u64, kind: &'static str },
    /// It answers the call with this id by the version that both speak from now on.
    Version { id: u64, error: Option<ErrorCode>, is_old: bool },
    /// It calls for another protocol, which begins behind a reply without an error.
    Upgrade { id: u64, kind: &'static str },
    /// It belongs to no exchange.
    Aside,
    /// Neither it nor what follows can be read.
    Unreadable,
}

/// A message as far as it is read.
pub(super) struct Message<'a> {
    pub header: &'a [u8],
    pub head: &'a [u8],
    /// The message of this side before was not the last of its parts.
    pub amid: bool,
}

/// The rules of one protocol. They have no state.
pub(super) trait Grammar: Sync {
    /// Returns whether `prefix` begins a message of `from`.
    fn begins(&self, from: Side, prefix: &[u8], hint: Hint) -> Verdict;
    /// Returns the number of bytes up to the length of a message that begins with `header`, as far as
    /// these bytes show it.
    fn header_bytes(&self, header: &[u8]) -> usize;
    /// Returns how many bytes follow a complete header, and how many of them are read.
    fn shape(&self, from: Side, header: &[u8]) -> Result<Shape, Lost>;
    /// Interprets a message.
    fn read(&self, from: Side, message: &Message<'_>) -> Said;
}

/// The grammars, in the order in which they are tried.
pub(super) const GRAMMARS: [(Protocol, &dyn Grammar); 20] = [
    (Protocol::Smb, &smb::Smb),
    (Protocol::Ldap, &ldap::Ldap),
    (Protocol::OncRpc, &onc_rpc::OncRpc),
    (Protocol::DceRpc, &dce_rpc::DceRpc),
    (Protocol::Dnp3, &dnp3::Dnp3),
    (Protocol::Kerberos, &kerberos::Kerberos),
    (Protocol::Modbus, &modbus::Modbus),
    (Protocol::Cassandra, &cassandra::Cassandra),
    (Protocol::Mongodb, &mongodb::Mongodb),
    (Protocol::Kafka, &kafka::Kafka),
    (Protocol::Tds, &tds::Tds),
    (Protocol::Memcached, &memcached::Memcached),
    (Protocol::Zookeeper, &zookeeper::Zookeeper),
    (Protocol::Thrift, &thrift::Thrift),
    (Protocol::Dubbo, &dubbo::Dubbo),
    (Protocol::Stun, &stun::Stun),
    (Protocol::Diameter, &diameter::Diameter),
    (Protocol::OpcUa, &opc_ua::OpcUa),
    (Protocol::EthernetIp, &ethernet_ip::EthernetIp),
    (Protocol::IsoOnTcp, &iso_on_tcp::IsoOnTcp),
];

/// State of one connection.
#[derive(Clone)]
pub(super) struct Calls {
    grammar: &'static dyn Grammar,
    /// Ids of the calls without a reply, oldest first.
    waiting: VecDeque<u64>,
    /// The call of which more parts follow, and the one whose reply is in progress.
    calling: Option<u64>,
    answering: Option<u64>,
    /// Replies have come in another order than their calls.
    is_unordered: bool,
    /// A request was marked that is no call.
    has_false_start: bool,
    /// The call for another protocol, which waits for its reply.
    upgrading: Option<u64>,
    /// The call that older versions refuse, and whether both speak one of these.
    probing: Option<u64>,
    is_old: bool,
    /// Another protocol begins behind the message in progress.
    switches: bool,
    sides: BySide<CallSide>,
}

#[derive(Clone, Default)]
struct CallSide {
    header: [u8; HEADER_MAX],
    have: usize,
    /// The exchange's message of this side ends with the message in progress.
    ends: bool,
    amid: bool,
}

impl Calls {
    /// Returns the rules of `protocol`, if it is one of calls and replies.
    pub fn of(protocol: Protocol) -> Option<Self> {
        let (_, grammar) = GRAMMARS.into_iter().find(|(it, _)| *it == protocol)?;
        Some(Self {
            grammar,
            waiting: VecDeque::new(),
            calling: None,
            answering: None,
            is_unordered: false,
            has_false_start: false,
            upgrading: None,
            probing: None,
            is_old: false,
            switches: false,
            sides: Default::default(),
        })
    }

    /// Returns the bytes of heap memory in use beside its own.
    pub fn heap_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<u64>()
    }

    fn note(&mut self, from: Side, said: Said, feed: &mut Feed<'_>) {
        self.sides[from].amid = match said {
            Said::Call { more, .. } | Said::Reply { more, .. } | Said::More { more } => more,
            Said::Probe { .. } | Said::Version { .. } | Said::Upgrade { .. } => false,
            Said::Aside | Said::Unreadable => false,
        };
        match (from, said) {
            (Side::Client, Said::Call { id, kind, more }) => self.call(id, kind, more, feed),
            (Side::Client, Said::More { more }) if self.calling.is_some() => {
                self.goes_on(from, more, feed);
            }
            (Side::Server, Said::Reply { id, error, more }) => self.reply(id, error, more, feed),
            (Side::Client, Said::Upgrade { id, kind }) => {
                self.call(id, kind, false, feed);
                self.upgrading = Some(id);
            }
            (Side::Client, Said::Probe { id, kind }) => {
                self.call(id, kind, false, feed);
                self.probing = Some(id);
            }
            (Side::Server, Said::Version { id, error, is_old }) => {
                self.is_old = is_old;
                self.reply(id, error, false, feed);
            }
            (Side::Server, Said::More { more }) if self.answering.is_some() => {
                self.goes_on(from, more, feed);
            }
            _ => self.aside(from, feed),
        }
    }

    /// Processes a further part of a message that belongs to an exchange.
    fn goes_on(&mut self, from: Side, more: bool, feed: &mut Feed<'_>) {
        feed.exchanges.is_in_exchange = true;
        if !more {
            self.sides[from].ends = true;
            match from {
                Side::Client => self.calling = None,
                Side::Server => self.answering = None,
            }
        }
    }

    fn aside(&mut self, from: Side, feed: &mut Feed<'_>) {
        match from {
            // The start of this message is marked already.
            Side::Client if feed.is_anticipated() => self.has_false_start = true,
            Side::Server if feed.is_anticipated() => {
                feed.response_start();
                self.sides[from].ends = true;
                return;
            }
            _ => {}
        }
        feed.aside();
    }

    fn call(&mut self, id: u64, kind: &'static str, more: bool, feed: &mut Feed<'_>) {
        if self.calling == Some(id) {
            return self.goes_on(Side::Client, more, feed);
        }
        let others = !self.waiting.is_empty() || self.answering.is_some();
        if self.calling.is_some()
            || self.is_unordered && others
            || self.waiting.len() >= WAITING_MAX
        {
            return self.aside(Side::Client, feed);
        }
        feed.request_start();
        if std::mem::take(&mut self.has_false_start) {
            feed.overtake();
        }
        feed.kind(&kind.into());
        self.waiting.push_back(id);
        self.sides[Side::Client].ends = !more;
        self.calling = more.then_some(id);
    }

    fn reply(&mut self, id: u64, error: Option<ErrorCode>, more: bool, feed: &mut Feed<'_>) {
        if self.answering != Some(id) {
            match self.waiting.iter().position(|it| *it == id) {
                None => return self.aside(Side::Server, feed),
                Some(0) => {}
                Some(place) => {
                    // The newest call alone is followed on.
                    self.is_unordered = true;
                    feed.overtake();
                    let is_newest = place + 1 == self.waiting.len();
                    self.waiting.drain(..self.waiting.len() - 1);
                    if !is_newest {
                        return feed.aside();
                    }
                }
            }
            self.waiting.pop_front();
            self.answering = Some(id);
            feed.request_end();
            feed.response_start();
        }
        let upgrades = self.upgrading.take_if(|it| *it == id).is_some();
        self.switches = upgrades && error.is_none();
        let is_expected = self.probing.take_if(|it| *it == id).is_some() && self.is_old;
        if let Some(code) = error.filter(|_| !is_expected) {
            feed.error(code);
        }
        self.goes_on(Side::Server, more, feed);
    }
}

impl Rules for Calls {
    fn header_bytes(&self, _: Side, header: &[u8]) -> usize {
        self.grammar.header_bytes(header).min(HEADER_MAX)
    }

    fn begin(&mut self, _: Side, _: u8, _: &mut Feed<'_>) {}

    fn header(&mut self, from: Side, header: &[u8], feed: &mut Feed<'_>) -> Result<Shape, Lost> {
        let side = &mut self.sides[from];
        side.have = header.len();
        side.header[..header.len()].copy_from_slice(header);
        let shape = self.grammar.shape(from, header)?;
        // Without content the header says all.
        if shape.length == 0 || shape.peek == 0 {
            self.head(from, &[], feed)?;
        }
        Ok(shape)
    }

    fn head(&mut self, from: Side, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost> {
        let side = &self.sides[from];
        let message = Message { header: &side.header[..side.have], head, amid: side.amid };
        let said = self.grammar.read(from, &message);
        if matches!(said, Said::Unreadable) {
            return Err(Lost);
        }
        self.note(from, said, feed);
        Ok(())
    }

    fn end(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        if std::mem::take(&mut self.sides[from].ends) {
            match from {
                Side::Client => feed.request_end(),
                Side::Server => feed.response_end(),
            }
        }
        let switches = from == Side::Server && std::mem::take(&mut self.switches);
        Ok(if switches { Next::Tunnel } else { Next::More })
    }
}
