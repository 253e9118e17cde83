//! Measures queries to one server: one over UDP, two at the same time as glibc sends A and AAAA, or
//! one over TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::message::{self, Record, RecordType, Referral, Reply, is_nxdomain, rcode_name};
use crate::budget::Budget;
use crate::nanoseconds as ns;

/// Size of the largest datagram, bytes.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Greatest number of datagrams that are not an answer and are ignored, for one query.
const UNRELATED_MAX: u32 = 64;

/// The transport of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A datagram.
    Udp,
    /// A connection for this query only (RFC 7766).
    Tcp,
}

/// The outcome of a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum QueryOutcome {
    /// The answer contains records.
    Answered,
    /// The name exists, but has no records of this type (RFC 2308 §2.2).
    NoData,
    /// The name does not exist.
    NxDomain,
    /// The server reported SERVFAIL, REFUSED or another failure.
    Failure {
        /// The mnemonic of the response code.
        rcode: String,
    },
    /// The answer refers to other servers.
    Referred,
    /// The answer does not fit into a datagram, so the query has to be repeated over TCP.
    Truncated,
    /// No answer arrived within the wait.
    Timeout,
    /// An ICMP error reported that no socket is bound to the port.
    PortClosed,
    /// The kernel cannot send packets to the server.
    Unreachable {
        /// The kernel's error.
        error: String,
    },
    /// The reply does not answer the query, or the connection ended before it.
    Malformed,
}

/// A query to a server and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Query {
    /// The server that was asked.
    pub server: SocketAddr,
    /// Name of the query.
    pub name: String,
    /// Record type of the query.
    #[serde(serialize_with = "message::type_name")]
    pub record_type: RecordType,
    /// Transport of the query.
    pub transport: Transport,
    /// Time of sending, ns since the start of the measurement.
    pub sent_ns: u64,
    /// Time until the answer or the end of the wait, ns; over TCP, this includes the connection
    /// set-up.
    pub took_ns: u64,
    /// Result of the query.
    #[serde(flatten)]
    pub outcome: QueryOutcome,
    /// The records of the answer.
    pub records: Vec<Record>,
    /// The server is authoritative for the zone (the AA bit).
    pub is_authoritative: bool,
    /// The zone and servers to which the answer refers.
    #[serde(skip)]
    pub referral: Option<Referral>,
    /// The same query with its answer, if that came after the wait, to the port that was still open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<Box<Query>>,
}

impl Query {
    /// Returns whether the query was answered, which includes the answer that there are no such
    /// records.
    pub fn is_usable(&self) -> bool {
        matches!(
            self.outcome,
            QueryOutcome::Answered | QueryOutcome::NoData | QueryOutcome::NxDomain
        )
    }

    /// Returns whether no reply arrived.
    pub fn is_silent(&self) -> bool {
        self.outcome == QueryOutcome::Timeout
    }

    /// Returns whether any reply arrived from the name server.
    pub fn is_heard(&self) -> bool {
        !matches!(
            self.outcome,
            QueryOutcome::Timeout | QueryOutcome::PortClosed | QueryOutcome::Unreachable { .. }
        )
    }

    /// Returns the query with its usable answer, which may have come after the wait.
    pub fn answered(&self) -> Option<&Query> {
        std::iter::once(self).chain(self.late.as_deref()).find(|it| it.is_usable())
    }

    /// Returns the addresses among the records.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.records.iter().filter_map(|record| record.address)
    }

    /// Returns the time at which the query ended, ns since the start of the measurement.
    pub fn end_ns(&self) -> u64 {
        self.sent_ns + self.took_ns
    }

    fn new(asking: &Asking<'_>, record_type: RecordType, transport: Transport) -> Query {
        Query {
            server: asking.server,
            name: asking.name.to_owned(),
            record_type,
            transport,
            sent_ns: 0,
            took_ns: 0,
            outcome: QueryOutcome::Timeout,
            records: Vec::new(),
            is_authoritative: false,
            referral: None,
            late: None,
        }
    }

    fn answer(&mut self, reply: Reply) {
        self.outcome = match reply.rcode {
            _ if reply.is_truncated => QueryOutcome::Truncated,
            rcode if is_nxdomain(rcode) => QueryOutcome::NxDomain,
            0 if !reply.answers.is_empty() => QueryOutcome::Answered,
            0 if reply.referral.is_some() && !reply.is_authoritative => QueryOutcome::Referred,
            0 => QueryOutcome::NoData,
            rcode => QueryOutcome::Failure { rcode: rcode_name(rcode) },
        };
        self.records = reply.answers;
        self.is_authoritative = reply.is_authoritative;
        self.referral = reply.referral;
    }

    fn fail(&mut self, error: &io::Error) {
        self.outcome = match error.kind() {
            ErrorKind::ConnectionRefused => QueryOutcome::PortClosed,
            ErrorKind::WouldBlock | ErrorKind::TimedOut => QueryOutcome::Timeout,
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::InvalidData => {
                QueryOutcome::Malformed
            }
            _ => QueryOutcome::Unreachable { error: error.to_string() },
        };
    }
}

/// A query to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'a> {
    pub server: SocketAddr,
    pub name: &'a str,
    /// Longest wait for all answers together.
    pub wait: Duration,
    pub edns_bytes: Option<u16>,
    /// Asks the server to resolve the name itself (RD).
    pub recurses: bool,
    /// A query that is sent again from the same port has the same id, as glibc repeats it.
    pub repeats: bool,
    /// The start of the measurement, from which `sent_ns` counts.
    pub start: Instant,
    /// The budget of all queries.
    pub budget: &'a Budget,
}

/// An open UDP port, from which the queries of one host to one server are sent.
#[derive(Debug)]
pub(super) struct Port {
    socket: UdpSocket,
    /// The queries that were sent and have no answer, with their ids.
    unanswered: Vec<(u16, Query)>,
    /// The queries among them that were answered after their wait.
    late: Vec<Query>,
    /// A query that is sent again has the same id, so an answer to either of them counts for both.
    repeats: bool,
}

impl Port {
    /// Takes the queries that were answered after their wait.
    pub fn take_late(&mut self) -> Vec<Query> {
        std::mem::take(&mut self.late)
    }

    /// Returns the id of an unanswered query that is the same as this one.
    fn id_of_same(&self, query: &Query) -> Option<u16> {
        let is_same = |it: &Query| it.name == query.name && it.record_type == query.record_type;
        let same = self.unanswered.iter().find(|(_, it)| is_same(it)).filter(|_| self.repeats);
        same.map(|(id, _)| *id)
    }

    /// Returns whether a reply belongs to a query whose wait has ended, and keeps it.
    fn takes(&mut self, reply: Reply, at_ns: u64) -> bool {
        let is_answered = |(id, query): &(u16, Query)| answers(&reply, query, *id);
        let Some(place) = self.unanswered.iter().position(is_answered) else { return false };
        let (_, mut query) = self.unanswered.swap_remove(place);
        query.took_ns = at_ns.saturating_sub(query.sent_ns);
        query.answer(reply);
        self.late.push(query);
        true
    }
}

/// Sends a query to `server` over UDP and waits for the answer.
pub fn ask(
    server: SocketAddr,
    name: &str,
    record_type: RecordType,
    wait: Duration,
    budget: &Budget,
) -> Query {
    let start = Instant::now();
    alone(server, name, wait, start, budget).at_once(&[record_type]).remove(0)
}

/// Sends a query to `server` over TCP and waits for the answer.
pub fn ask_tcp(
    server: SocketAddr,
    name: &str,
    record_type: RecordType,
    wait: Duration,
    budget: &Budget,
) -> Query {
    let start = Instant::now();
    alone(server, name, wait, start, budget).over_tcp(record_type)
}

fn alone<'a>(
    server: SocketAddr,
    name: &'a str,
    wait: Duration,
    start: Instant,
    budget: &'a Budget,
) -> Asking<'a> {
    let (edns_bytes, recurses, repeats) = (None, true, false);
    Asking { server, name, wait, edns_bytes, recurses, repeats, start, budget }
}

impl Asking<'_> {
    /// Sends the queries one directly after the other from a port of their own, and waits for all
    /// answers.
    pub fn at_once(&self, types: &[RecordType]) -> Vec<Query> {
        self.at_once_from(&mut None, types)
    }

    /// Sends the queries one directly after the other from `port`, which is opened if it is not open,
    /// and waits for all answers.
    pub fn at_once_from(&self, port: &mut Option<Port>, types: &[RecordType]) -> Vec<Query> {
        let new = |&record_type: &RecordType| Query::new(self, record_type, Transport::Udp);
        let mut queries: Vec<Query> = types.iter().map(new).collect();
        self.exchange(port, &mut queries);
        queries
    }

    /// Sends the second query from `port` only after the answer to the first (`options
    /// single-request`).
    pub fn in_turn(&self, port: &mut Option<Port>, types: &[RecordType]) -> Vec<Query> {
        self.one_by_one(port, types, false)
    }

    /// Sends the second query only after the answer to the first, each from a port of its own
    /// (`options single-request-reopen`).
    pub fn in_turn_reopened(&self, types: &[RecordType]) -> Vec<Query> {
        self.one_by_one(&mut None, types, true)
    }

    fn one_by_one(
        &self,
        port: &mut Option<Port>,
        types: &[RecordType],
        reopens: bool,
    ) -> Vec<Query> {
        let mut queries = Vec::new();
        let until = Instant::now() + self.wait;
        for &record_type in types {
            if reopens {
                *port = None;
            }
            let wait = until.saturating_duration_since(Instant::now());
            let asking = Asking { wait: wait.max(Duration::from_millis(1)), ..*self };
            let mut query = Query::new(&asking, record_type, Transport::Udp);
            asking.exchange(port, std::slice::from_mut(&mut query));
            let goes_on = query.is_heard();
            queries.push(query);
            if !goes_on {
                break;
            }
        }
        queries
    }

    /// Waits for late answers to queries that were sent from `port`.
    pub fn listen(&self, port: &mut Port) {
        // An error of the port ends the wait, too.
        let _ = self.receive(port, &mut [], Vec::new());
    }

    fn port(&self) -> io::Result<Port> {
        let any: IpAddr = match self.server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        // The socket is connected, so that the kernel reports a closed port at once.
        socket.connect(self.server)?;
        let (unanswered, late, repeats) = (Vec::new(), Vec::new(), self.repeats);
        Ok(Port { socket, unanswered, late, repeats })
    }

    /// Sends all queries and waits for all answers.
    fn exchange(&self, port: &mut Option<Port>, queries: &mut [Query]) {
        let began = ns(self.start.elapsed());
        let exchanged = match port {
            Some(port) => self.exchange_on(port, queries),
            None => self.port().and_then(|it| self.exchange_on(port.insert(it), queries)),
        };
        if let Err(error) = exchanged {
            for query in queries.iter_mut().filter(|it| it.outcome == QueryOutcome::Timeout) {
                query.sent_ns = query.sent_ns.max(began);
                query.took_ns = ns(self.start.elapsed()).saturating_sub(query.sent_ns);
                query.fail(&error);
            }
        }
    }

    fn exchange_on(&self, port: &mut Port, queries: &mut [Query]) -> io::Result<()> {
        let mut waiting = Vec::new();
        for (index, query) in queries.iter_mut().enumerate() {
            let bytes =
                message::question(self.name, query.record_type, self.edns_bytes, self.recurses);
            let (mut id, mut bytes) = bytes.ok_or(ErrorKind::InvalidInput)?;
            if let Some(same) = port.id_of_same(query) {
                id = same;
                bytes[..2].copy_from_slice(&id.to_be_bytes());
            }
            query.sent_ns = ns(self.start.elapsed());
            self.budget.request()?;
            port.socket.send(&bytes)?;
            waiting.push((index, id));
        }
        self.receive(port, queries, waiting)
    }

    /// Receives answers until the wait ends, or until all that are `waiting` (places and ids) and,
    /// without such, all that are late have come.
    fn receive(
        &self,
        port: &mut Port,
        queries: &mut [Query],
        mut waiting: Vec<(usize, u16)>,
    ) -> io::Result<()> {
        let until = Instant::now() + self.wait;
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        let mut strays = 0;
        let is_for_late = waiting.is_empty();
        while !waiting.is_empty() || (is_for_late && !port.unanswered.is_empty()) {
            let left = until.saturating_duration_since(Instant::now());
            let received = if left.is_zero() || strays > UNRELATED_MAX {
                Err(ErrorKind::TimedOut.into())
            } else {
                port.socket.set_read_timeout(Some(left))?;
                port.socket.recv(&mut buffer)
            };
            let at_ns = ns(self.start.elapsed());
            let length = match received {
                Ok(length) => length,
                Err(error) if is_timeout(&error) => {
                    for (index, id) in waiting {
                        let query = &mut queries[index];
                        query.took_ns = at_ns.saturating_sub(query.sent_ns);
                        port.unanswered.push((id, query.clone()));
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let reply = message::reply(&buffer[..length]);
            let of = reply.as_ref().and_then(|reply| {
                waiting.iter().position(|&(index, id)| answers(reply, &queries[index], id))
            });
            let is_of_us = match (reply, of) {
                (Some(reply), Some(place)) => {
                    let (index, _) = waiting.swap_remove(place);
                    let query = &mut queries[index];
                    query.took_ns = at_ns.saturating_sub(query.sent_ns);
                    query.answer(reply);
                    true
                }
                (Some(reply), None) => port.takes(reply, at_ns),
                (None, _) => false,
            };
            strays += u32::from(!is_of_us);
        }
        Ok(())
    }

    /// Sends the query over a connection of its own.
    pub fn over_tcp(&self, record_type: RecordType) -> Query {
        let mut query = Query::new(self, record_type, Transport::Tcp);
        query.sent_ns = ns(self.start.elapsed());
        let reply = self.connection(&query);
        query.took_ns = ns(self.start.elapsed()).saturating_sub(query.sent_ns);
        match reply {
            Ok(reply) => query.answer(reply),
            Err(error) => query.fail(&error),
        }
        query
    }

    /// Sends the query over TCP, where a message follows its length (RFC 1035 §4.2.2).
    fn connection(&self, query: &Query) -> io::Result<Reply> {
        let until = Instant::now() + self.wait;
        let left = || {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() { Err(io::Error::from(ErrorKind::TimedOut)) } else { Ok(Some(left)) }
        };
        let message =
            message::question(self.name, query.record_type, self.edns_bytes, self.recurses);
        let (id, message) = message.ok_or(ErrorKind::InvalidInput)?;
        let connect = || TcpStream::connect_timeout(&self.server, self.wait);
        let mut stream = self.budget.connect(self.wait, connect)?;
        let length = u16::try_from(message.len()).map_err(|_| ErrorKind::InvalidInput)?;
        stream.request(message.len() + 2)?;
        // Length and message are sent in one write, so that no small segment waits for an ACK.
        stream.write_all(&[&length.to_be_bytes()[..], &message].concat())?;
        let mut read = |bytes: &mut [u8]| -> io::Result<()> {
            let mut filled = 0;
            while filled < bytes.len() {
                stream.socket().set_read_timeout(left()?)?;
                match stream.read(&mut bytes[filled..])? {
                    0 => return Err(ErrorKind::UnexpectedEof.into()),
                    length => filled += length,
                }
            }
            Ok(())
        };
        let mut length = [0; 2];
        read(&mut length)?;
        let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
        read(&mut bytes)?;
        let reply = message::reply(&bytes).filter(|reply| answers(reply, query, id));
        reply.ok_or_else(|| ErrorKind::InvalidData.into())
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Returns whether a reply belongs to this query: by its id, and by its question if it repeats one.
fn answers(reply: &Reply, query: &Query, id: u16) -> bool {
    let same = |(name, record_type): &(String, RecordType)| {
        *record_type == query.record_type && name.eq_ignore_ascii_case(&query.name)
    };
    reply.id == id && reply.question.as_ref().is_none_or(same)
}
