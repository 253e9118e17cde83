//! MySQL client/server protocol.
//!
//! Read first: MySQL source documentation, "Client/Server Protocol", "Command Phase" and
//! "Text Resultset". The server greets; greeting and authentication are the exchange `connect`.
//! After that each command is a request, and its response is one of these; OK, EOF and ERR end it
//! unless they announce more results:
//!
//! ```text
//! response  = ERR | OK | result *(result) | prepared | statistics | fields | fetched | INFILE … OK
//! result    = count definitions [EOF] *row EOF      (without EOF: CLIENT_DEPRECATE_EOF)
//!           | count definitions EOF                 with SERVER_STATUS_CURSOR_EXISTS: no rows
//!           | count [EOF] *row EOF                  MariaDB: the client has the definitions
//! fetched   = *row EOF                              COM_STMT_FETCH: rows of a cursor
//! progress  = ERR with the number 0xffff            MariaDB: comes before a response, ends nothing
//! ```
//!
//! (MariaDB: "Result Set Packets", "Progress Reporting", "Connection" with the extended
//! capabilities.) A replica asks for the binary log and then for nothing more. With compression,
//! exchanges are turns of direction.

use super::error_code::ErrorCode;
use super::exchanges::{Feed, Lost};
use super::framer::Next;
use super::packets::{Rules, Shape};
use super::query_attributes::{length_encoded, statement};
use super::sql::verb;
use crate::wire::{BySide, Side};
use std::collections::VecDeque;

const STATEMENT_PEEK: usize = 192;
/// Enough bytes for the status flags of OK and EOF, and for the client's capabilities.
const STATUS_PEEK: usize = 32;
/// A packet of this length is continued by the next.
const LENGTH_MAX: u64 = 0xff_ffff;
/// Maximum number of commands that a client sends ahead of their responses.
const COMMANDS_MAX: usize = 64;

/// A client that does not set this is one of MariaDB, with extended capabilities.
const CLIENT_MYSQL: u32 = 1;
const CLIENT_COMPRESS: u32 = 1 << 5;
const CLIENT_SSL: u32 = 1 << 11;
const CLIENT_DEPRECATE_EOF: u32 = 1 << 24;
const CLIENT_QUERY_ATTRIBUTES: u32 = 1 << 27;
/// Extended capability: a result set need not repeat its definitions.
const MARIADB_CACHE_METADATA: u32 = 1 << 4;
const SERVER_MORE_RESULTS_EXISTS: u16 = 1 << 3;
const SERVER_STATUS_CURSOR_EXISTS: u16 = 1 << 6;
/// Number of an ERR packet that reports progress (MariaDB).
const PROGRESS: u16 = 0xffff;

mod command {
    pub const QUIT: u8 = 0x01;
    pub const QUERY: u8 = 0x03;
    pub const FIELD_LIST: u8 = 0x04;
    pub const STATISTICS: u8 = 0x09;
    pub const CHANGE_USER: u8 = 0x11;
    pub const BINLOG_DUMP: u8 = 0x12;
    pub const STMT_PREPARE: u8 = 0x16;
    pub const STMT_EXECUTE: u8 = 0x17;
    pub const STMT_SEND_LONG_DATA: u8 = 0x18;
    pub const STMT_CLOSE: u8 = 0x19;
    pub const STMT_FETCH: u8 = 0x1c;
    pub const BINLOG_DUMP_GTID: u8 = 0x1e;
    /// MariaDB executes a statement with several rows of parameters.
    pub const STMT_BULK_EXECUTE: u8 = 0xfa;
}

/// First bytes of the server's packets.
mod reply {
    pub const OK: u8 = 0x00;
    pub const MORE_DATA: u8 = 0x01;
    pub const LOCAL_INFILE: u8 = 0xfb;
    pub const EOF: u8 = 0xfe;
    pub const ERR: u8 = 0xff;
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Greeting,
    /// The client's first packet is awaited.
    Login,
    /// Authentication is in progress, until OK or ERR.
    Authentication,
    Commands,
}

/// The part of a response that is expected next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reply {
    /// The first packet of the response or of its next result set.
    First,
    /// This number of packets with definitions, followed by rows (`true`) or by the end.
    Definitions(u64, bool),
    /// Rows until EOF.
    Rows,
}

/// State of one connection.
#[derive(Clone)]
pub(super) struct Mysql {
    phase: Phase,
    deprecate_eof: bool,
    query_attributes: bool,
    caches_metadata: bool,
    /// The response in progress has asked the client for more: a file, or another authentication.
    client_continues: bool,
    /// The client has asked for the binary log.
    replicates: bool,
    commands: VecDeque<u8>,
    reply: Reply,
    /// The current packet of each side.
    packets: BySide<Packet>,
    /// The response is complete once the current packet has passed.
    ends: bool,
    /// `true` if the connection changes to TLS after the current packet.
    encrypts: bool,
}

#[derive(Clone, Copy, Default)]
struct Packet {
    length: u64,
    /// The packet is part of a command that has been marked.
    is_command: bool,
}

impl Default for Mysql {
    fn default() -> Self {
        Self {
            phase: Phase::default(),
            deprecate_eof: false,
            query_attributes: false,
            caches_metadata: false,
            client_continues: false,
            replicates: false,
            commands: VecDeque::new(),
            reply: Reply::First,
            packets: Default::default(),
            ends: false,
            encrypts: false,
        }
    }
}

impl Mysql {
    fn login(&mut self, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost> {
        let flags = head.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or(Lost)?;
        self.deprecate_eof = flags & CLIENT_DEPRECATE_EOF != 0;
        self.query_attributes = flags & CLIENT_QUERY_ATTRIBUTES != 0;
        let extended = head.get(28..).and_then(<[u8]>::first_chunk).copied();
        let extended = extended.filter(|_| flags & CLIENT_MYSQL == 0).map(u32::from_le_bytes);
        self.caches_metadata = extended.is_some_and(|it| it & MARIADB_CACHE_METADATA != 0);
        self.encrypts = flags & CLIENT_SSL != 0 && head.len() == 32 && self.packets[0].length == 32;
        if self.encrypts {
            // An SSLRequest has no response: a ClientHello follows, and the login inside TLS.
            feed.aside();
            return Ok(());
        }
        self.phase = Phase::Authentication;
        self.packets[0].is_command = true;
        feed.request_start();
        feed.kind(&"connect".into());
        if flags & CLIENT_COMPRESS != 0 { Err(Lost) } else { Ok(()) }
    }

    fn command(&mut self, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost> {
        let (&command, body) = head.split_first().ok_or(Lost)?;
        match command {
            // These have no response.
            command::QUIT | command::STMT_SEND_LONG_DATA | command::STMT_CLOSE => return Ok(()),
            command::BINLOG_DUMP | command::BINLOG_DUMP_GTID => {
                self.replicates = true;
                feed.aside();
                return Ok(());
            }
            _ if command > 0x20 && command != command::STMT_BULK_EXECUTE
                || self.commands.len() >= COMMANDS_MAX =>
            {
                return Err(Lost);
            }
            _ => {}
        }
        feed.request_start();
        match command {
            command::QUERY if self.query_attributes => {
                feed.kind(&verb(statement(body).unwrap_or_default()));
            }
            command::QUERY => feed.kind(&verb(body)),
            command::STMT_PREPARE => feed.kind(&"PREPARE".into()),
            command::STMT_EXECUTE | command::STMT_BULK_EXECUTE => feed.kind(&"EXECUTE".into()),
            command::STMT_FETCH => feed.kind(&"FETCH".into()),
            0x02 => feed.kind(&"INIT_DB".into()),
            0x0e => feed.kind(&"PING".into()),
            0x1f => feed.kind(&"RESET_CONNECTION".into()),
            _ => {}
        }
        self.commands.push_back(command);
        self.packets[0].is_command = true;
        Ok(())
    }

    fn authentication_reply(&mut self, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost> {
        let &first = head.first().ok_or(Lost)?;
        self.begin_response(feed);
        note_error(head, feed);
        // Other packets ask the client for more data.
        self.ends = matches!(first, reply::OK | reply::ERR);
        if self.ends {
            self.phase = Phase::Commands;
        }
        Ok(())
    }

    fn begin_response(&mut self, feed: &mut Feed<'_>) {
        if !feed.is_responding() {
            feed.response_start();
        }
    }

    fn reply(&mut self, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost> {
        let &first = head.first().ok_or(Lost)?;
        let length = self.packets[1].length;
        if error_number(head) == Some(PROGRESS) {
            feed.aside();
            return Ok(());
        }
        let command = *self.commands.front().ok_or(Lost)?;
        self.begin_response(feed);
        self.client_continues = false;
        note_error(head, feed);
        let is_eof =
            first == reply::EOF && length < if self.deprecate_eof { LENGTH_MAX } else { 9 };
        self.reply = match self.reply {
            _ if first == reply::ERR => return self.last(false),
            Reply::First if command == command::CHANGE_USER && first != reply::OK => {
                self.client_continues = true;
                Reply::First
            }
            Reply::First if command == command::STMT_PREPARE => return self.prepared(head),
            Reply::First if command == command::STATISTICS => return self.last(false),
            Reply::First if matches!(command, command::FIELD_LIST | command::STMT_FETCH) => {
                if is_eof {
                    return self.last(false);
                }
                Reply::Rows
            }
            // OK: affected rows and last insert id come before the status flags.
            Reply::First if first == reply::OK => return self.last(more_results(&head[1..])),
            Reply::First if is_eof => {
                return self.last(has(head.get(3..), SERVER_MORE_RESULTS_EXISTS));
            }
            // The client sends a file; OK or ERR follows.
            Reply::First if first == reply::LOCAL_INFILE => {
                self.client_continues = true;
                Reply::First
            }
            Reply::First => {
                let (columns, rest) = length_encoded(head).ok_or(Lost)?;
                let has_definitions = !(self.caches_metadata && rest.first() == Some(&0));
                let definitions = if has_definitions { columns } else { 0 };
                match definitions + u64::from(!self.deprecate_eof) {
                    0 => Reply::Rows,
                    packets => Reply::Definitions(packets, true),
                }
            }
            Reply::Definitions(left, rows) if left > 1 => Reply::Definitions(left - 1, rows),
            // The rows of a cursor come with COM_STMT_FETCH.
            Reply::Definitions(_, true)
                if is_eof && has(head.get(3..), SERVER_STATUS_CURSOR_EXISTS) =>
            {
                return self.last(false);
            }
            Reply::Definitions(_, true) => Reply::Rows,
            Reply::Definitions(_, false) => return self.last(false),
            Reply::Rows if is_eof && self.deprecate_eof => {
                return self.last(more_results(&head[1..]));
            }
            Reply::Rows if is_eof => {
                return self.last(has(head.get(3..), SERVER_MORE_RESULTS_EXISTS));
            }
            Reply::Rows => Reply::Rows,
        };
        Ok(())
    }

    /// Reads from COM_STMT_PREPARE_OK how many definitions follow.
    fn prepared(&mut self, head: &[u8]) -> Result<(), Lost> {
        let &[_, _, _, _, _, c1, c2, p1, p2, ..] = head else {
            return Err(Lost);
        };
        let counts = [u16::from_le_bytes([c1, c2]), u16::from_le_bytes([p1, p2])];
        let eof = u64::from(!self.deprecate_eof);
        let packets = counts.iter().filter(|&&count| count > 0).map(|&c| u64::from(c) + eof).sum();
        if packets == 0 {
            return self.last(false);
        }
        self.reply = Reply::Definitions(packets, false);
        Ok(())
    }

    /// Ends the result with the current packet; ends the response too unless `more` results follow.
    fn last(&mut self, more: bool) -> Result<(), Lost> {
        self.reply = Reply::First;
        if !more {
            self.commands.pop_front();
            self.ends = true;
        }
        Ok(())
    }
}

impl Rules for Mysql {
    fn header_bytes(&self, _: Side, _: &[u8]) -> usize {
        4
    }

    fn begin(&mut self, from: Side, _: u8, feed: &mut Feed<'_>) {
        if from == Side::Server && self.phase == Phase::Greeting {
            feed.response_start();
        }
    }

    fn header(&mut self, from: Side, header: &[u8], _: &mut Feed<'_>) -> Result<Shape, Lost> {
        let &[l0, l1, l2, _sequence] = header else {
            return Err(Lost);
        };
        let length = u64::from(u32::from_le_bytes([l0, l1, l2, 0]));
        let packet = &mut self.packets[from];
        let continues = packet.length == LENGTH_MAX;
        *packet = Packet { length, is_command: packet.is_command && continues };
        let peek = match from {
            _ if continues => 0,
            Side::Client if self.phase == Phase::Commands => STATEMENT_PEEK,
            _ => STATUS_PEEK,
        };
        Ok(Shape { length, peek })
    }

    fn head(&mut self, from: Side, head: &[u8], feed: &mut Feed<'_>) -> Result<(), Lost> {
        let &first = head.first().ok_or(Lost)?;
        match (from, self.phase) {
            (Side::Server, Phase::Greeting) => {
                self.phase = if first == reply::ERR { Phase::Commands } else { Phase::Login };
                note_error(head, feed);
                self.ends = true;
            }
            (Side::Client, Phase::Greeting) | (Side::Server, Phase::Login) => return Err(Lost),
            (Side::Client, Phase::Login) => self.login(head, feed)?,
            // The client replies to the server's requests, or sends a file for LOAD DATA LOCAL.
            (Side::Client, Phase::Authentication) => {}
            (Side::Client, _) if self.client_continues => {}
            (Side::Client, _) => self.command(head, feed)?,
            (Side::Server, Phase::Authentication) => self.authentication_reply(head, feed)?,
            (Side::Server, Phase::Commands)
                if first == reply::MORE_DATA && self.commands.is_empty() =>
            {
                return Err(Lost);
            }
            (Side::Server, Phase::Commands) => self.reply(head, feed)?,
        }
        Ok(())
    }

    fn end(&mut self, from: Side, feed: &mut Feed<'_>) -> Result<Next, Lost> {
        let packet = self.packets[from];
        if packet.length == LENGTH_MAX {
            return Ok(Next::More);
        }
        match from {
            Side::Client if std::mem::take(&mut self.encrypts) => return Ok(Next::Tunnel),
            Side::Client if self.replicates => return Ok(Next::Aside),
            Side::Client if packet.is_command => {
                self.packets[0].is_command = false;
                feed.request_end();
            }
            Side::Server if std::mem::take(&mut self.ends) => feed.response_end(),
            _ => {}
        }
        Ok(Next::More)
    }
}

/// Returns the number of an ERR packet.
fn error_number(head: &[u8]) -> Option<u16> {
    match *head {
        [reply::ERR, low, high, ..] => Some(u16::from_le_bytes([low, high])),
        _ => None,
    }
}

/// Returns whether `bytes`, with which a packet of the server begins, are complete reports of
/// progress (MariaDB).
pub(super) fn only_report_progress(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let [l0, l1, l2, _sequence, payload @ ..] = rest {
        let length = u32::from_le_bytes([*l0, *l1, *l2, 0]) as usize;
        let Some((packet, next)) = payload.split_at_checked(length) else { return false };
        if error_number(packet) != Some(PROGRESS) {
            return false;
        }
        rest = next;
    }
    !bytes.is_empty() && rest.is_empty()
}

/// Marks the error of a packet of the server, if it is an ERR packet.
fn note_error(head: &[u8], feed: &mut Feed<'_>) {
    if let Some(number) = error_number(head).filter(|number| *number != PROGRESS) {
        feed.error(ErrorCode::Mysql(number));
    }
}

/// Returns whether an OK packet, after its first byte, announces another result set.
fn more_results(body: &[u8]) -> bool {
    let behind = |bytes| length_encoded(bytes).map(|(_, rest)| rest);
    let status = behind(body).and_then(behind);
    has(status, SERVER_MORE_RESULTS_EXISTS)
}

/// Returns whether the status flags at the beginning of `status` contain `flag`.
fn has(status: Option<&[u8]>, flag: u16) -> bool {
    let flags = status.and_then(<[u8]>::first_chunk).map(|flags| u16::from_le_bytes(*flags));
    flags.is_some_and(|flags| flags & flag != 0)
}
