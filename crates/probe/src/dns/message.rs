//! Composes and parses DNS messages (RFC 1035 §4).

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::str::FromStr;

pub use hickory_proto::rr::RecordType;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData};
use serde::{Serialize, Serializer};

/// A record of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// The name of the record.
    pub name: String,
    /// The type of the record.
    #[serde(serialize_with = "type_name")]
    pub record_type: RecordType,
    /// The remaining time to live, s.
    pub ttl_s: u32,
    /// The value, as in zone files.
    pub data: String,
    /// The address, if the value is one.
    #[serde(skip)]
    pub address: Option<IpAddr>,
}

/// The servers to which an answer refers instead of answering (RFC 1034 §4.3.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Referral {
    /// The zone that the servers serve.
    pub zone: String,
    /// The names of the servers, with the addresses that the answer contains (glue).
    pub servers: Vec<(String, Vec<IpAddr>)>,
}

/// Contents of a DNS message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub id: u16,
    pub question: Option<(String, RecordType)>,
    pub rcode: u16,
    pub is_authoritative: bool,
    pub is_truncated: bool,
    pub answers: Vec<Record>,
    pub referral: Option<Referral>,
}

/// The error of a text that is not a DNS name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no name: labels of 1 to 63 characters with dots between them, 253 in all")]
pub struct NameError {
    /// The text.
    pub name: String,
}

/// Serializes a type as its mnemonic.
pub(super) fn type_name<S: Serializer>(of: &RecordType, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(of)
}

/// Rejects texts that are not a DNS name.
///
/// # Errors
/// A label or the whole name is empty or too long, or contains a character that is not permitted.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let error = || NameError { name: name.to_owned() };
    let plain = name.chars().all(|it| it.is_ascii_graphic() && !matches!(it, '\\' | '"' | '/'));
    let whole = name.strip_suffix('.').unwrap_or(name);
    let labels = whole.split('.').all(|label| (1..=63).contains(&label.len()));
    if !plain || !labels || whole.len() > 253 {
        return Err(error());
    }
    Name::from_ascii(whole).map(|_| ()).map_err(|_| error())
}

/// Returns the name of an address in the tree of reverse look-ups (RFC 1035 §3.5, RFC 3596 §2.5).
pub(super) fn reverse_name(address: IpAddr) -> String {
    Name::from(address).to_string().trim_end_matches('.').to_owned()
}

/// Returns the bytes of a query and its id; `recurses` asks the server to resolve the name itself.
pub(super) fn question(
    name: &str,
    record_type: RecordType,
    edns_bytes: Option<u16>,
    recurses: bool,
) -> Option<(u16, Vec<u8>)> {
    // The standard library seeds each state at random, so that others cannot guess the id.
    let id = RandomState::new().hash_one(name) as u16;
    let mut name = Name::from_ascii(name).ok()?;
    name.set_fqdn(true);
    let mut message = Message::new();
    message.set_id(id).set_message_type(MessageType::Query).set_op_code(OpCode::Query);
    message.set_recursion_desired(recurses).add_query(Query::query(name, record_type));
    if let Some(bytes) = edns_bytes {
        let mut edns = Edns::new();
        edns.set_max_payload(bytes).set_version(0);
        message.set_edns(edns);
    }
    Some((id, message.to_vec().ok()?))
}

/// Parses a reply; `None` if it is not a DNS response.
pub(super) fn reply(bytes: &[u8]) -> Option<Reply> {
    let mut message = match Message::from_vec(bytes) {
        Ok(message) => message,
        // A truncated message may end within a record: only its header is used (RFC 2181 §9).
        Err(_) => return truncated(bytes),
    };
    if message.message_type() != MessageType::Response {
        return None;
    }
    let question = message.query().map(|query| (spelled(query.name()), query.query_type()));
    let rcode = u16::from(message.response_code());
    let (glue, named) = (message.take_additionals(), message.take_name_servers());
    Some(Reply {
        id: message.id(),
        question,
        rcode,
        is_authoritative: message.authoritative(),
        is_truncated: message.truncated(),
        answers: message.take_answers().iter().map(record).collect(),
        referral: referral(&named, &glue),
    })
}

fn truncated(bytes: &[u8]) -> Option<Reply> {
    let header: &[u8; 12] = bytes.first_chunk()?;
    let (is_response, is_truncated) = (header[2] & 0x80 != 0, header[2] & 0x02 != 0);
    (is_response && is_truncated).then(|| Reply {
        id: u16::from_be_bytes([header[0], header[1]]),
        question: None,
        rcode: u16::from(header[3] & 0x0f),
        is_authoritative: false,
        is_truncated,
        answers: Vec::new(),
        referral: None,
    })
}

fn record(of: &hickory_proto::rr::Record) -> Record {
    let address = match of.data() {
        RData::A(it) => Some(IpAddr::V4(it.0)),
        RData::AAAA(it) => Some(IpAddr::V6(it.0)),
        _ => None,
    };
    let data = match of.data() {
        RData::CNAME(it) => spelled(&it.0),
        RData::NS(it) => spelled(&it.0),
        RData::PTR(it) => spelled(&it.0),
        other => other.to_string(),
    };
    let (name, record_type) = (spelled(of.name()), of.record_type());
    Record { name, record_type, ttl_s: of.ttl(), data, address }
}

fn referral(
    named: &[hickory_proto::rr::Record],
    glue: &[hickory_proto::rr::Record],
) -> Option<Referral> {
    let of_zone = |record: &&hickory_proto::rr::Record| record.record_type() == RecordType::NS;
    let zone = named.iter().find(of_zone)?.name().clone();
    let glue: Vec<Record> = glue.iter().map(record).collect();
    let servers = named.iter().filter(|it| of_zone(it) && *it.name() == zone).map(|it| {
        let server = record(it).data;
        let own = glue.iter().filter(|it| it.name.eq_ignore_ascii_case(&server));
        let addresses = own.filter_map(|it| it.address).collect();
        (server, addresses)
    });
    Some(Referral { zone: spelled(&zone), servers: servers.collect() })
}

/// Returns the name without the final dot; that of the root is `.`.
fn spelled(name: &Name) -> String {
    let text = name.to_string();
    match text.strip_suffix('.') {
        Some("") | None => text,
        Some(rest) => rest.to_owned(),
    }
}

/// Returns the mnemonic of a response code (RFC 6895 §2.3).
pub(super) fn rcode_name(rcode: u16) -> String {
    match rcode {
        1 => "FORMERR".into(),
        2 => "SERVFAIL".into(),
        4 => "NOTIMP".into(),
        5 => "REFUSED".into(),
        other => format!("RCODE {other}"),
    }
}

/// Returns whether the response code means that a name does not exist.
pub(super) fn is_nxdomain(rcode: u16) -> bool {
    rcode == u16::from(ResponseCode::NXDomain)
}

/// Returns the type with this mnemonic, in any case, or `TYPE65` for one without a mnemonic (RFC
/// 3597 §5).
pub fn record_type(word: &str) -> Option<RecordType> {
    let word = word.to_ascii_uppercase();
    if let Some(number) = word.strip_prefix("TYPE") {
        return number.parse::<u16>().ok().map(RecordType::from);
    }
    RecordType::from_str(&word).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_labels_of_1_to_63_characters() {
        for name in ["a", "a.b.", "_srv._tcp.x", "xn--bcher-kva.example"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", ".", "a..b", &"x".repeat(64), &"abc.".repeat(64), "a b", "ä"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn of_a_truncated_message_the_header_is_used() {
        let (id, mut bytes) = question("x.example", RecordType::A, Some(1_200), true).unwrap();
        assert_eq!(reply(&bytes), None, "a question is no response");
        bytes[2] |= 0x82;
        bytes.truncate(20);
        let reply = reply(&bytes).unwrap();
        assert_eq!((reply.id, reply.is_truncated), (id, true));
    }

    #[test]
    fn types_are_known_by_name_and_number() {
        assert_eq!(record_type("aaaa"), Some(RecordType::AAAA));
        assert_eq!(record_type("TYPE28"), Some(RecordType::AAAA));
        assert_eq!(record_type("nonsense"), None);
        assert_eq!(reverse_name("192.0.2.1".parse().unwrap()), "1.2.0.192.in-addr.arpa");
    }
}
