//! The parser of a connection, by protocol.

use super::amqp::Amqp;
use super::calls::Calls;
use super::dns::Dns;
use super::exchanges::{Feed, Lost};
use super::framer::Next;
use super::frames::Frames;
use super::http::Http;
use super::mysql::Mysql;
use super::packets::Packets;
use super::postgres::Postgres;
use super::redis::Redis;
use super::sniff::Sniffer;
use super::tls::Tls;
use crate::wire::Side;

/// The parser in use.
#[derive(Clone)]
pub(super) enum Machine {
    Sniff(Box<Sniffer>),
    Turns,
    /// Neither side asks for anything: replication, events, routes.
    Aside,
    Http(Http),
    Tls(Box<Tls>),
    Frames(Box<Frames>),
    Redis(Box<Redis>),
    Postgres(Box<Packets<Postgres>>),
    Mysql(Box<Packets<Mysql>>),
    Dns(Box<Packets<Dns>>),
    Amqp(Box<Packets<Amqp>>),
    Calls(Box<Packets<Calls>>),
}

impl Machine {
    pub(super) fn feed(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        match self {
            Self::Http(http) => http.feed(from, feed),
            Self::Tls(tls) => tls.feed(from, feed),
            Self::Frames(frames) => frames.feed(from, feed),
            Self::Redis(redis) => redis.feed(from, feed),
            Self::Postgres(postgres) => postgres.feed(from, feed),
            Self::Mysql(mysql) => mysql.feed(from, feed),
            Self::Dns(dns) => dns.feed(from, feed),
            Self::Amqp(amqp) => amqp.feed(from, feed),
            Self::Calls(calls) => calls.feed(from, feed),
            Self::Sniff(_) | Self::Turns | Self::Aside => Ok(Next::Turns),
        }
    }

    /// Returns the bytes of heap memory in use, without parts of messages that are being assembled,
    /// whose size is bounded.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Turns | Self::Aside => 0,
            Self::Sniff(it) => size_of_val(&**it),
            Self::Http(it) => it.heap_bytes(),
            Self::Tls(it) => size_of_val(&**it) + it.heap_bytes(),
            Self::Frames(it) => size_of_val(&**it) + it.heap_bytes(),
            Self::Redis(it) => size_of_val(&**it),
            Self::Postgres(it) => size_of_val(&**it),
            Self::Mysql(it) => size_of_val(&**it),
            Self::Dns(it) => size_of_val(&**it),
            Self::Amqp(it) => size_of_val(&**it),
            Self::Calls(it) => size_of_val(&**it) + it.rules().heap_bytes(),
        }
    }

    /// Processes missing bytes if the parser needs them.
    pub(super) fn gap(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        match self {
            Self::Postgres(postgres) => postgres.gap(from, feed),
            Self::Mysql(mysql) => mysql.gap(from, feed),
            Self::Dns(dns) => dns.gap(from, feed),
            Self::Amqp(amqp) => amqp.gap(from, feed),
            Self::Calls(calls) => calls.gap(from, feed),
            Self::Frames(frames) => frames.gap(from, feed),
            Self::Tls(tls) => tls.gap(from, feed),
            Self::Http(http) => http.gap(from, feed),
            _ => Err(Lost),
        }
    }
}
