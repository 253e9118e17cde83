//! A small language for timed traffic, in the spirit of packetdrill.
//!
//! ```text
//! one_way 10                  # ms from client to server and back; default 0.05
//! padded server               # whose short frames were padded to the least length of Ethernet; default none
//! vantage client server       # where it is captured (client, server, middle, or the client's gateway); default both
//! expect nagle_delayed_ack by server lost 39..46     # see `expect`
//!
//! 0     > S                   # ms at the *sender*, direction (> from the client), flags
//! +10   < S.                  # + is after the line before
//! +10   > .
//! +0    > P. "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
//! repeat 3 {                  # lines with + only
//! +1    < . len 2896 each 1448
//! }
//! ```
//!
//! Flags are tcpdump's. A segment's `seq` (SYN is 0, data begins at 1), `ack` (all that has
//! arrived) and `win` (bytes, as scaled; stays until changed) need no mention. Others: `sack
//! 1449-2897,…`, `len N`, `each N` (split, 10 us apart), `mss N|none`, `wscale N|none`, `tsval N`,
//! `lost` (never arrives), `dropped` (passes its
//! receiver's tap, and the host drops it), `forged` (by another host, and dropped), `sum N` (the TCP
//! checksum, which is otherwise left to an offload), `total N` (the total length that the damaged
//! IPv4 header states), `number N` (the IPv4 identification), `without_payload` (a tool has removed it from the capture), `without_sack` (a SYN that offers none), `unseen` (not captured), `twice` (captured twice), `ttl N`, `late MS` (arrives
//! so much later), `elsewhere N` (with `numbers host`: its sender has sent as many packets to others
//! before; `numbers file`: one count for both sides, `numbers none`: one number for all), `marked` (with congestion experienced, RFC 3168; `E` is the flag that echoes it, `W` that of the
//! sender that has reduced its window). `>2` is a second connection, of the same two hosts unless
//! `flow 2 CLIENT SERVER` gives its addresses and ports: what neither comes from the host at the
//! vantage nor goes to it is captured there within a host only. `clock MS` steps the capture's clock. In place of flags,
//! `icmp host|port|prohibited|ttl|mtu=N` is an ICMP error about the last packet that came the other
//! way, `by ADDRESS` where its sender is not the end itself.

use crate::expect::Expectation;
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};

/// Nanoseconds in a millisecond.
pub const MS: f64 = 1e6;

/// The sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Client,
    Server,
}

/// The place where a capture is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Client,
    Server,
    Middle,
    /// Near the client, with a link in between: after a sixteenth of the path.
    Gateway,
}

impl Place {
    /// Name in the language.
    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Middle => "middle",
            Self::Gateway => "gateway",
        }
    }

    /// The place with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Client, Self::Server, Self::Middle, Self::Gateway]
            .into_iter()
            .find(|place| place.word() == word)
    }
}

/// One segment (or, with `each`, several) as its sender sent it.
#[derive(Clone, Debug)]
pub struct Line {
    pub at_ns: u64,
    pub side: Side,
    pub connection: u16,
    pub flags: String,
    pub seq: Option<u32>,
    pub ack: Option<u32>,
    pub window: Option<u32>,
    /// The announced MSS; 0 announces none.
    pub mss: Option<u16>,
    pub window_scale: Option<Option<u8>>,
    pub sack: Vec<(u32, u32)>,
    pub tsval: Option<u32>,
    pub payload: Vec<u8>,
    /// An ICMP error instead of a segment: type, code, MTU, and its sender if that is not the end
    /// itself.
    pub icmp: Option<([u8; 2], u16, Option<Ipv4Addr>)>,
    pub each: Option<usize>,
    pub lost: bool,
    /// The host that receives it drops it behind the tap.
    pub dropped: bool,
    /// Another host sent it under this address.
    pub forged: bool,
    pub unseen: bool,
    pub twice: bool,
    pub marked: bool,
    pub checksum: u16,
    pub total_len: Option<u16>,
    pub number: Option<u16>,
    pub without_payload: bool,
    /// A SYN that does not offer SACK.
    pub without_sack: bool,
    pub ttl: Option<u8>,
    pub late_ns: u64,
    /// Packets that its sender has sent to others before.
    pub elsewhere: u16,
    /// Offset of the capture's clock from here on, ns.
    pub clock_ns: i64,
}

/// How the identification of IPv4 packets is numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// A counter for each socket, as in Linux.
    Socket,
    /// All of a host.
    Host,
    /// A counter for the capture, whoever sends the packets: a program wrote it.
    File,
    /// The same number in all packets.
    None,
}

/// A trace as written.
#[derive(Clone, Debug)]
pub struct Trace {
    pub one_way_ns: u64,
    pub vantages: Vec<Place>,
    pub client: SocketAddr,
    pub server: SocketAddr,
    /// Client and server of connections between other hosts.
    pub flows: HashMap<u16, [SocketAddr; 2]>,
    pub isn: [u32; 2],
    pub vlan: bool,
    /// Whose short frames are padded, client's and server's.
    pub padded: [bool; 2],
    pub timestamps: bool,
    pub snap_len: usize,
    /// How the IPv4 identification is numbered.
    pub numbers: Numbers,
    /// Time to live as captured, client's and server's.
    pub ttl: [u8; 2],
    /// If set, only this side's packets are captured.
    pub only: Option<Side>,
    pub lines: Vec<Line>,
    pub expectations: Vec<Expectation>,
}

impl Trace {
    /// Returns client and server of a connection.
    pub fn ends(&self, connection: u16) -> [SocketAddr; 2] {
        self.flows.get(&connection).copied().unwrap_or_else(|| {
            let mut client = self.client;
            client.set_port(client.port() + connection - 1);
            [client, self.server]
        })
    }
}

/// Reads a trace; panics with the line that is wrong.
pub fn parse(text: &str) -> Trace {
    let mut parser = Parser::default();
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, strip(line)));
    while let Some((number, line)) = lines.next() {
        let Some(count) = line.strip_prefix("repeat ") else {
            parser.line(number, line);
            continue;
        };
        let count: u32 = count.trim_end_matches('{').trim().parse().expect("repeat N {");
        let body: Vec<_> = lines.by_ref().take_while(|(_, line)| *line != "}").collect();
        for _ in 0..count {
            body.iter().for_each(|&(number, line)| parser.line(number, line));
        }
    }
    parser.trace
}

/// A line without its comment; `#` inside quotes is not one.
fn strip(line: &str) -> &str {
    let mut quoted = false;
    for (index, letter) in line.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            '#' if !quoted => return line[..index].trim(),
            _ => {}
        }
    }
    line.trim()
}

struct Parser {
    trace: Trace,
    last_ns: u64,
    clock_ns: i64,
}

impl Default for Parser {
    fn default() -> Self {
        let trace = Trace {
            one_way_ns: 50_000,
            vantages: vec![Place::Client, Place::Server],
            client: "10.0.0.1:40000".parse().expect("address"),
            server: "10.0.0.2:80".parse().expect("address"),
            flows: HashMap::new(),
            isn: [1_000_000, 2_000_000],
            vlan: false,
            padded: [false; 2],
            timestamps: true,
            snap_len: 262_144,
            numbers: Numbers::Socket,
            ttl: [64, 64],
            only: None,
            lines: Vec::new(),
            expectations: Vec::new(),
        };
        Self { trace, last_ns: 0, clock_ns: 0 }
    }
}

impl Parser {
    fn line(&mut self, number: usize, line: &str) {
        if line.is_empty() {
            return;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let done = if word.starts_with(|letter: char| letter == '+' || letter.is_ascii_digit()) {
            self.segment(word, rest)
        } else {
            self.directive(word, rest.trim())
        };
        assert!(done.is_some(), "line {number}: {line}");
    }

    fn directive(&mut self, word: &str, rest: &str) -> Option<()> {
        let trace = &mut self.trace;
        match word {
            "one_way" => trace.one_way_ns = ns(rest)?,
            "vantage" => {
                trace.vantages =
                    rest.split_whitespace().map(Place::from_word).collect::<Option<_>>()?;
            }
            "client" => trace.client = rest.parse().ok()?,
            "server" => trace.server = rest.parse().ok()?,
            "flow" => {
                let mut words = rest.split_whitespace();
                let number = words.next()?.parse().ok()?;
                let ends = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
                trace.flows.insert(number, ends);
            }
            "isn" => {
                let (client, server) = rest.split_once(' ')?;
                trace.isn = [client.parse().ok()?, server.parse().ok()?];
            }
            "link" => trace.vlan = rest == "vlan",
            "padded" => {
                trace.padded =
                    ["client", "server"].map(|it| rest.split_whitespace().any(|word| word == it));
            }
            "timestamps" => trace.timestamps = rest != "off",
            "numbers" => {
                trace.numbers = match rest {
                    "host" => Numbers::Host,
                    "file" => Numbers::File,
                    "none" => Numbers::None,
                    _ => return None,
                }
            }
            "ttl" => {
                let (client, server) = rest.split_once(' ')?;
                trace.ttl = [client.parse().ok()?, server.parse().ok()?];
            }
            "snap_len" => trace.snap_len = rest.parse().ok()?,
            "only" => trace.only = Some(side(rest)?),
            "clock" => self.clock_ns += (rest.parse::<f64>().ok()? * MS) as i64,
            "expect" => trace.expectations.push(Expectation::parse(rest)?),
            _ => return None,
        }
        Some(())
    }

    fn segment(&mut self, time: &str, rest: &str) -> Option<()> {
        let at_ns = match time.strip_prefix('+') {
            Some(after) => self.last_ns + ns(after)?,
            None => ns(time)?,
        };
        assert!(at_ns >= self.last_ns, "time goes back: {time} {rest}");
        self.last_ns = at_ns;
        let (fields, text) = match rest.split_once('"') {
            Some((fields, text)) => {
                let (text, after) = text.rsplit_once('"')?;
                (format!("{fields} {after}"), Some(text))
            }
            None => (rest.to_owned(), None),
        };
        let mut words = fields.split_whitespace();
        let direction = words.next()?;
        let mut line = Line {
            at_ns,
            side: side(&direction[..1])?,
            connection: if direction.len() > 1 { direction[1..].parse().ok()? } else { 1 },
            flags: words.next()?.to_owned(),
            seq: None,
            ack: None,
            window: None,
            mss: None,
            window_scale: None,
            sack: Vec::new(),
            tsval: None,
            payload: text.map(unescape).unwrap_or_default(),
            icmp: None,
            each: None,
            lost: false,
            dropped: false,
            forged: false,
            unseen: false,
            twice: false,
            marked: false,
            checksum: 0,
            total_len: None,
            number: None,
            without_payload: false,
            without_sack: false,
            ttl: None,
            late_ns: 0,
            elsewhere: 0,
            clock_ns: self.clock_ns,
        };
        if line.flags == "icmp" {
            let (kind, mtu) = icmp(words.next()?)?;
            line.icmp = Some((kind, mtu, None));
        }
        while let Some(word) = words.next() {
            line.field(word, &mut words)?;
        }
        self.trace.lines.push(line);
        Some(())
    }
}

impl Line {
    fn field<'a>(&mut self, word: &str, words: &mut impl Iterator<Item = &'a str>) -> Option<()> {
        match word {
            "lost" => self.lost = true,
            "dropped" => self.dropped = true,
            "forged" => (self.dropped, self.forged) = (true, true),
            "unseen" => self.unseen = true,
            "twice" => self.twice = true,
            "marked" => self.marked = true,
            "sum" => self.checksum = words.next()?.parse().ok()?,
            "total" => self.total_len = Some(words.next()?.parse().ok()?),
            "number" => self.number = Some(words.next()?.parse().ok()?),
            "without_payload" => self.without_payload = true,
            "without_sack" => self.without_sack = true,
            "ttl" => self.ttl = Some(words.next()?.parse().ok()?),
            "seq" => self.seq = Some(words.next()?.parse().ok()?),
            "ack" => self.ack = Some(words.next()?.parse().ok()?),
            "win" => self.window = Some(words.next()?.parse().ok()?),
            "mss" => {
                let mss = words.next()?;
                self.mss = Some(if mss == "none" { 0 } else { mss.parse().ok()? });
            }
            "wscale" => {
                let scale = words.next()?;
                self.window_scale =
                    Some(if scale == "none" { None } else { Some(scale.parse().ok()?) });
            }
            "tsval" => self.tsval = Some(words.next()?.parse().ok()?),
            "elsewhere" => self.elsewhere = words.next()?.parse().ok()?,
            "by" => self.icmp.as_mut()?.2 = Some(words.next()?.parse().ok()?),
            "late" => self.late_ns = ns(words.next()?)?,
            "each" => self.each = Some(words.next()?.parse().ok()?),
            "len" => {
                let len: usize = words.next()?.parse().ok()?;
                self.payload.resize(self.payload.len() + len, b'x');
            }
            "sack" => {
                for block in words.next()?.split(',') {
                    let (left, right) = block.split_once('-')?;
                    self.sack.push((left.parse().ok()?, right.parse().ok()?));
                }
            }
            _ => return None,
        }
        Some(())
    }
}

fn ns(ms: &str) -> Option<u64> {
    Some((ms.trim().parse::<f64>().ok()? * MS).round() as u64)
}

/// Type, code and MTU of an ICMP error (RFC 792, RFC 1191).
fn icmp(word: &str) -> Option<([u8; 2], u16)> {
    let kind = match word {
        "host" => [3, 1],
        "port" => [3, 3],
        "prohibited" => [3, 13],
        "ttl" => [11, 0],
        _ => return Some(([3, 4], word.strip_prefix("mtu=")?.parse().ok()?)),
    };
    Some((kind, 0))
}

fn side(word: &str) -> Option<Side> {
    match word {
        ">" => Some(Side::Client),
        "<" => Some(Side::Server),
        _ => None,
    }
}

/// Text with `\r`, `\n`, `\0` and `\xHH`.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut letters = text.bytes();
    while let Some(letter) = letters.next() {
        if letter != b'\\' {
            bytes.push(letter);
            continue;
        }
        bytes.push(match letters.next() {
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b'0') => 0,
            Some(b'x') => {
                let digits = [letters.next(), letters.next()].map(|digit| digit.expect("\\xHH"));
                let digits = std::str::from_utf8(&digits).expect("\\xHH").to_owned();
                u8::from_str_radix(&digits, 16).expect("\\xHH")
            }
            Some(other) => other,
            None => b'\\',
        });
    }
    bytes
}
