//! Follows one connection byte by byte with the framer, and plans the bytes that replace its
//! streams.
//!
//! Bytes that no parser reads become filler. Bytes that a parser reads are gathered into units (a
//! line, the beginning of a message) and masked by protocol.

use super::mask::{self, LinePlace};
use super::mysql::Commands;
use super::plan::Plan;
use super::{Names, redis};
use crate::app::{Framer, KnownHeaders, Part, Protocol, chunk_size, sender_side};
use crate::wire::{BySide, Side};

/// Maximum size of a line or beginning of a message that is gathered: DNS messages have up to 64
/// KiB.
const GATHERED_MAX: usize = 1 << 16;
/// Number of header bytes that are kept for later use.
const FRAMING_KEPT: usize = 16;
/// Maximum length of a Redis word that is compared.
const WORD_MAX: usize = 16;

/// Masks the bytes of one connection.
pub(super) struct Masker {
    framer: Framer,
    known: KnownHeaders,
    knows_roles: bool,
    server_ports: [u16; 2],
    directions: BySide<MaskedDirection>,
    /// State that decides how packets of MySQL are read.
    commands: Commands,
    /// Number of HTTP/2 header blocks replaced by filler.
    pub filled_headers: u64,
}

/// The state of one direction.
#[derive(Default)]
struct MaskedDirection {
    /// The bytes being gathered, and their position.
    gathered: Vec<u8>,
    gathered_at: u64,
    /// The last bytes of headers.
    framing: Vec<u8>,
    /// Number of following bytes that are kept although no parser reads them.
    kept: usize,
    /// Position of the header in progress, which began after other bytes.
    header_at: Option<u64>,
    /// The last line announced a bulk string (Redis).
    after_size: bool,
    /// Number of words of the command so far (Redis).
    words: u8,
}

/// Consecutive bytes of one side.
pub(super) struct Range<'a> {
    pub side: Side,
    pub position: u64,
    pub bytes: &'a [u8],
    /// Number of following bytes that were not captured.
    pub missing: u32,
}

impl Masker {
    /// Creates a masker. `server_ports` are the server's port, and the port that belongs to the
    /// server if the roles are swapped.
    pub fn new(server_ports: [u16; 2], mid_stream: bool) -> Self {
        Self {
            framer: Framer::new(server_ports[0], mid_stream),
            known: KnownHeaders::default(),
            knows_roles: !mid_stream,
            server_ports,
            directions: Default::default(),
            commands: Commands::default(),
            filled_headers: 0,
        }
    }

    /// Returns whether the payload sent by `side` shows that the roles are swapped; if so, resets
    /// the masker.
    pub fn swaps_roles(&mut self, side: Side, payload: &[u8]) -> bool {
        if self.knows_roles || !self.framer.protocol().is_in_turns() {
            return false;
        }
        let Some(sender_side) = sender_side(payload) else { return false };
        self.knows_roles = true;
        if sender_side == side {
            return false;
        }
        self.server_ports.swap(0, 1);
        self.framer.begin_again(self.server_ports[0]);
        self.directions = Default::default();
        true
    }

    /// Processes the next bytes of one side.
    pub fn take(&mut self, range: &Range<'_>, names: &Names, plan: &mut Plan) {
        let Range { side, position, bytes, missing } = *range;
        let mut at = 0;
        while at < bytes.len() {
            let place = position + at as u64;
            let part = self.framer.part(side);
            let taken = match part {
                Part::Body(left) => {
                    bytes.len().min(at.saturating_add(usize::try_from(left).unwrap_or(usize::MAX)))
                        - at
                }
                // Only the first byte of a turn may begin a message of a known protocol.
                Part::Unknown if at > 0 && self.directions[side].gathered.is_empty() => {
                    bytes.len() - at
                }
                _ => 1,
            };
            let piece = &bytes[at..at + taken];
            self.parse(side, piece, 0);
            at += taken;
            self.note(side, part, place, piece, names, plan);
        }
        if missing > 0 {
            self.parse(side, &[], missing);
            let direction = &mut self.directions[side];
            direction.gathered.clear();
            direction.kept = 0;
            direction.header_at = None;
        }
    }

    fn parse(&mut self, side: Side, bytes: &[u8], missing: u32) {
        self.framer.parse(side, bytes, missing, &mut self.known, &mut |_, _| {});
    }

    /// Plans the replacement of `piece`, whose meaning for the framer was `part`.
    fn note(
        &mut self,
        side: Side,
        part: Part,
        place: u64,
        piece: &[u8],
        names: &Names,
        plan: &mut Plan,
    ) {
        let next = self.framer.part(side);
        let protocol = self.framer.protocol();
        let direction = &mut self.directions[side];
        match (part, next) {
            // The bytes turned out to be no message of a known protocol.
            (_, Part::Unknown) => {
                direction.gathered.clear();
                direction.kept = 0;
                if let Some(begin) = direction.header_at.take() {
                    plan.cut(begin.max(place.saturating_sub(FRAMING_KEPT as u64)));
                }
            }
            (Part::Unknown | Part::Undecided, Part::Undecided) => direction.gather(place, piece),
            (Part::Unknown | Part::Undecided, _) => {
                direction.gather(place, piece);
                self.begin(side, protocol, plan);
            }
            (Part::Framing, _) => {
                let begin = *direction.header_at.get_or_insert(place);
                direction.frame(protocol, piece);
                // As long as the header is short it is masked as a whole.
                let length = ((place - begin) as usize + piece.len()).min(direction.framing.len());
                let mut header = direction.framing[direction.framing.len() - length..].to_vec();
                mask::blank_text(&mut header);
                let end = place + piece.len() as u64;
                plan.cut(end - length as u64);
                plan.add(end - length as u64, &header);
                if next != Part::Framing {
                    direction.header_at = None;
                }
            }
            (Part::Line, _) => {
                direction.gather(place, piece);
                if piece.ends_with(b"\n") {
                    direction.line(protocol, side, next, names);
                    plan.add(direction.gathered_at, &direction.gathered);
                    direction.gathered.clear();
                }
            }
            (Part::Head, _) => {
                direction.gather(place, piece);
                if next != Part::Head
                    && !(protocol == Protocol::Dns && matches!(next, Part::Body(_)))
                {
                    self.head(side, protocol, names, plan);
                }
            }
            (Part::Body(_), _) => self.body(side, protocol, place, piece, names, plan),
        }
    }

    /// Masks the gathered bytes, from which the protocol was recognised.
    fn begin(&mut self, side: Side, protocol: Protocol, plan: &mut Plan) {
        let direction = &mut self.directions[side];
        let framing = match protocol {
            Protocol::Http1 | Protocol::Redis => 0,
            Protocol::Mysql => 4,
            Protocol::Dns => 2,
            Protocol::Thrift | Protocol::Zookeeper | Protocol::EthernetIp | Protocol::IsoOnTcp => 4,
            Protocol::Tds => 8,
            _ => direction.gathered.len(),
        };
        let framing: Vec<u8> =
            direction.gathered.drain(..framing.min(direction.gathered.len())).collect();
        let mut shown = framing.clone();
        match protocol {
            // The preface of HTTP/2, the CONNECT of MQTT and the types of OPC UA are constants, which the
            // framer has compared.
            Protocol::Http2 | Protocol::Mqtt | Protocol::OpcUa => {}
            Protocol::Amqp => mask::amqp_beginning(&mut shown),
            Protocol::Kafka => mask::kafka_beginning(&mut shown),
            _ => mask::blank_text(&mut shown),
        }
        plan.add(direction.gathered_at, &shown);
        direction.gathered_at += framing.len() as u64;
        direction.frame(protocol, &framing);
    }

    fn head(&mut self, side: Side, protocol: Protocol, names: &Names, plan: &mut Plan) {
        let direction = &mut self.directions[side];
        let mut head = std::mem::take(&mut direction.gathered);
        self.filled_headers += u64::from(
            protocol == Protocol::Http2 && !mask::is_frame_of_numbers(&direction.framing),
        );
        mask::head(protocol, side, &direction.framing, &mut self.commands, &mut head, names);
        plan.add(direction.gathered_at, &head);
    }

    fn body(
        &mut self,
        side: Side,
        protocol: Protocol,
        place: u64,
        piece: &[u8],
        names: &Names,
        plan: &mut Plan,
    ) {
        let is_over = !matches!(self.framer.part(side), Part::Body(_));
        let direction = &mut self.directions[side];
        let kept = direction.kept.min(piece.len());
        match protocol {
            Protocol::Http2 => {
                let begin = mask::PREFACE_END.len().saturating_sub(direction.kept);
                plan.add(place, &mask::PREFACE_END[begin..begin + kept]);
            }
            _ => plan.add(place, &piece[..kept]),
        }
        direction.kept -= kept;
        direction.after_size = false;
        match protocol {
            Protocol::Dns => {
                direction.gather(place, piece);
                if is_over {
                    self.head(side, protocol, names, plan);
                }
            }
            Protocol::Redis => {
                direction.gather(place, piece);
                if is_over {
                    if direction.gathered.len() <= WORD_MAX && redis::is_option(&direction.gathered)
                    {
                        plan.add(direction.gathered_at, &direction.gathered);
                    }
                    direction.gathered.clear();
                }
            }
            _ => {}
        }
    }
}

impl MaskedDirection {
    fn gather(&mut self, place: u64, piece: &[u8]) {
        if self.gathered.is_empty() {
            self.gathered_at = place;
        }
        let room = GATHERED_MAX.saturating_sub(self.gathered.len());
        self.gathered.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// Masks the gathered line. `next` is the meaning of the byte after it.
    fn line(&mut self, protocol: Protocol, side: Side, next: Part, names: &Names) {
        let line = &mut self.gathered;
        let word = self.after_size.then_some(self.words);
        let begins = word.is_none() && line.starts_with(b"*");
        self.words = if begins { 0 } else { self.words.saturating_add(word.is_some().into()) };
        self.after_size = side == Side::Client && word.is_none() && line.starts_with(b"$");
        // The size is that of the body that follows with its line end, or 0.
        let is_chunk_size = protocol == Protocol::Http1
            && chunk_size(line).is_some_and(|size| match next {
                Part::Body(bytes) => bytes == size.saturating_add(2),
                _ => size == 0,
            });
        mask::line(protocol, side, LinePlace { word, is_chunk_size }, line, names);
    }

    fn frame(&mut self, protocol: Protocol, bytes: &[u8]) {
        self.framing.extend_from_slice(bytes);
        let excess = self.framing.len().saturating_sub(FRAMING_KEPT);
        self.framing.drain(..excess);
        self.kept = mask::kept_after(protocol, &self.framing);
    }
}
