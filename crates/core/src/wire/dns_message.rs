//! A bounded parser of DNS messages (RFC 1035 §4): header, question, answers.
//!
//! Of a message cut by the snap length the available part is returned; only an incomplete header is
//! an error.

/// Maximum length of a name, bytes on the wire (RFC 1035 §3.1).
const NAME_MAX_BYTES: usize = 255;
/// Maximum number of compression pointers in a name; more are a loop.
const POINTERS_MAX: usize = 32;
/// Maximum number of answers that are parsed.
const ANSWERS_MAX: u16 = 64;
const HEADER_BYTES: usize = 12;

/// Query types (IANA registry) with a name here.
pub mod qtype {
    /// IPv4 address.
    pub const A: u16 = 1;
    /// Canonical name.
    pub const CNAME: u16 = 5;
    /// Start of a zone of authority.
    pub const SOA: u16 = 6;
    /// Name of an address.
    pub const PTR: u16 = 12;
    /// IPv6 address.
    pub const AAAA: u16 = 28;
    /// HTTPS service binding (RFC 9460).
    pub const HTTPS: u16 = 65;
}

/// Response codes (RFC 1035 §4.1.1) with a name here.
pub mod rcode {
    /// No error.
    pub const NOERROR: u8 = 0;
    /// The server could not read the query, for example because of its EDNS option (RFC 6891 §7).
    pub const FORMERR: u8 = 1;
    /// The server failed.
    pub const SERVFAIL: u8 = 2;
    /// The name does not exist.
    pub const NXDOMAIN: u8 = 3;
    /// The server refuses to answer this client.
    pub const REFUSED: u8 = 5;
}

/// The reason why bytes are not a DNS message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Fewer than the 12 bytes of a header.
    #[error("the DNS header is cut")]
    HeaderTruncated,
}

/// A question (RFC 1035 §4.1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name in lower case, without the final dot; bytes that are not printable are `\ddd`.
    pub name: String,
    /// The query type, see [`qtype`].
    pub qtype: u16,
}

/// The relevant content of one answer (RFC 1035 §4.1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A or AAAA; IPv4 is IPv4-mapped.
    Address([u8; 16]),
    /// CNAME: an alias of another name.
    Cname(String),
    /// PTR: the name of an address.
    Ptr(String),
    /// Another type.
    Other(u16),
}

/// A DNS message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Identifier that pairs query and answer.
    pub id: u16,
    /// QR: `true` for an answer.
    pub is_response: bool,
    /// OPCODE; 0 is a standard query.
    pub opcode: u8,
    /// TC: the answer did not fit; the client has to use TCP.
    pub is_truncated: bool,
    /// RD (RFC 1035 §4.1.1): the client asks the server to query other servers where necessary.
    pub is_recursion_desired: bool,
    /// RA (RFC 1035 §4.1.1): the server asks others where it does not know the answer itself.
    pub is_recursion_available: bool,
    /// RCODE, see [`rcode`].
    pub rcode: u8,
    /// The first question, if it was captured completely.
    pub question: Option<Question>,
    /// ANCOUNT as the header states it.
    pub answer_count: u16,
    /// The answers that were captured, at most 64.
    pub answers: Vec<Answer>,
    /// How long a cache may keep all of that, s: the least TTL of the answers (RFC 1035 §3.2.1), or
    /// without answers what the zone's SOA record allows (RFC 2308 §5). `None` if none was captured.
    pub ttl_s: Option<u32>,
}

impl Message {
    /// Parses a message.
    ///
    /// # Errors
    /// [`MessageError::HeaderTruncated`] if the header is incomplete. Later parts that are cut or
    /// malformed are left out.
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        let header = bytes.get(..HEADER_BYTES).ok_or(MessageError::HeaderTruncated)?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let flags = word(2);
        let mut message = Self {
            id: word(0),
            is_response: flags & 0x8000 != 0,
            opcode: (flags >> 11 & 0xf) as u8,
            is_truncated: flags & 0x0200 != 0,
            is_recursion_desired: flags & 0x0100 != 0,
            is_recursion_available: flags & 0x0080 != 0,
            rcode: (flags & 0xf) as u8,
            question: None,
            answer_count: word(6),
            answers: Vec::new(),
            ttl_s: None,
        };
        let mut reader = Reader { bytes, at: HEADER_BYTES };
        for _ in 0..word(4).min(4) {
            let Some(question) = reader.question() else {
                return Ok(message);
            };
            message.question.get_or_insert(question);
        }
        for _ in 0..message.answer_count.min(ANSWERS_MAX) {
            let Some((answer, ttl_s)) = reader.answer() else { return Ok(message) };
            message.answers.push(answer);
            message.ttl_s = message.ttl_s.or(Some(ttl_s)).min(Some(ttl_s));
        }
        if message.answer_count == 0 && word(8) > 0 {
            message.ttl_s = reader.negative_ttl_s();
        }
        Ok(message)
    }

    /// Returns the addresses among the answers.
    pub fn addresses(&self) -> impl Iterator<Item = [u8; 16]> {
        self.answers.iter().filter_map(|answer| match answer {
            Answer::Address(address) => Some(*address),
            _ => None,
        })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn question(&mut self) -> Option<Question> {
        let name = self.name()?;
        let qtype = self.word()?;
        self.word()?;
        Some(Question { name, qtype })
    }

    /// Reads what stands before the data of a record: its type, its time to live, s, and where the
    /// data ends.
    fn record(&mut self) -> Option<(u16, u32, usize)> {
        self.name()?;
        let kind = self.word()?;
        // The class.
        self.word()?;
        let ttl_s = u32::from(self.word()?) << 16 | u32::from(self.word()?);
        let length = usize::from(self.word()?);
        Some((kind, ttl_s, self.at.checked_add(length)?))
    }

    /// Reads how long a negative answer may be kept, s, if a SOA record is next: the smaller of its
    /// TTL and its last field (RFC 2308 §5).
    fn negative_ttl_s(&mut self) -> Option<u32> {
        let (kind, ttl_s, end) = self.record()?;
        let data = self.bytes.get(self.at..end).filter(|_| kind == qtype::SOA)?;
        let minimum_s = u32::from_be_bytes(*data.last_chunk()?);
        Some(ttl_s.min(minimum_s))
    }

    /// Reads an answer and its time to live, s.
    fn answer(&mut self) -> Option<(Answer, u32)> {
        let (kind, ttl_s, end) = self.record()?;
        let data = self.bytes.get(self.at..end)?;
        let length = data.len();
        let answer = match (kind, length) {
            (qtype::A, 4) => {
                let mut mapped = [0; 16];
                mapped[10..12].fill(0xff);
                mapped[12..].copy_from_slice(data);
                Answer::Address(mapped)
            }
            (qtype::AAAA, 16) => Answer::Address(data.try_into().ok()?),
            (qtype::CNAME, _) => Answer::Cname(self.name()?),
            (qtype::PTR, _) => Answer::Ptr(self.name()?),
            _ => Answer::Other(kind),
        };
        self.at = end;
        Some((answer, ttl_s))
    }

    fn word(&mut self) -> Option<u16> {
        let word = self.bytes.get(self.at..self.at.checked_add(2)?)?;
        self.at += 2;
        Some(u16::from_be_bytes([word[0], word[1]]))
    }

    /// Parses a name with compression (RFC 1035 §4.1.4), with limits on bytes and pointers.
    fn name(&mut self) -> Option<String> {
        let mut name = String::new();
        let (mut at, mut pointers, mut wire_bytes) = (self.at, 0, 0);
        loop {
            let length = usize::from(*self.bytes.get(at)?);
            at += 1;
            match length {
                0 => break,
                1..=63 => {
                    wire_bytes += length + 1;
                    if wire_bytes > NAME_MAX_BYTES {
                        return None;
                    }
                    push_label(&mut name, self.bytes.get(at..at + length)?);
                    at += length;
                }
                0xc0.. => {
                    let low = usize::from(*self.bytes.get(at)?);
                    if pointers == 0 {
                        self.at = at + 1;
                    }
                    pointers += 1;
                    if pointers > POINTERS_MAX {
                        return None;
                    }
                    at = (length & 0x3f) << 8 | low;
                }
                // Reserved label types (RFC 6891 §5).
                _ => return None,
            }
        }
        if pointers == 0 {
            self.at = at;
        }
        Some(name)
    }
}

fn push_label(name: &mut String, label: &[u8]) {
    use std::fmt::Write;
    if !name.is_empty() {
        name.push('.');
    }
    for &byte in label {
        if byte.is_ascii_graphic() && byte != b'.' && byte != b'\\' {
            name.push(byte.to_ascii_lowercase() as char);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(name, "\\{byte:03}");
        }
    }
}
