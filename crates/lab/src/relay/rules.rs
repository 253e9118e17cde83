//! Selected drops, such as "the SYN-ACK of every second connection" or "the last segment of each
//! third response and its first repetition". Which packets a rule drops does not depend on timing.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::Serialize;

use super::packet::{ACK, FIN, Header, RST, SYN, Segment, Transport, dns_question};

/// The way a packet travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the client's namespace to the server's.
    ClientToServer,
    /// From the server's namespace to the client's.
    ServerToClient,
}

/// The packets to which a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A SYN; an occurrence is a new connection, its repetitions are copies.
    Syn,
    /// A SYN-ACK; an occurrence is a new connection.
    SynAck,
    /// A segment with new payload; its repetitions are copies.
    Data,
    /// The segment that ends a message, if every message in this direction has this length.
    MessageTail {
        /// Length of each message.
        message_bytes: u64,
    },
    /// An ACK without payload, SYN, FIN or RST.
    PureAck,
    /// A segment with FIN.
    Fin,
    /// A segment with RST.
    Rst,
    /// A DNS question over UDP of this type (1 = A, 28 = AAAA, 12 = PTR; 0 = any).
    DnsQuestion {
        /// The question's type.
        qtype: u16,
    },
    /// A DNS answer over UDP to a question of this type (0 = any).
    DnsAnswer {
        /// The question's type.
        qtype: u16,
    },
    /// All packets.
    Any,
}

/// A rule that drops chosen packets of one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DropRule {
    /// The direction to which the rule applies.
    pub direction: Direction,
    /// The packets to which the rule applies.
    pub kind: Kind,
    /// The first occurrence to drop, from 1.
    pub first: u64,
    /// Interval of occurrences that are dropped after the first; 0 drops only the first.
    pub every: u64,
    /// Number of copies of a chosen packet that are dropped: 1 = only the original, 2 = also one
    /// repetition.
    pub copies: u32,
    /// `true` to count occurrences on each connection separately.
    pub per_connection: bool,
}

impl DropRule {
    /// Drops the original of occurrence `first` and of every `every`th after it, counted over all
    /// connections.
    pub fn new(direction: Direction, kind: Kind, first: u64, every: u64) -> DropRule {
        DropRule { direction, kind, first, every, copies: 1, per_connection: false }
    }

    /// Drops the repetitions too, up to `copies` copies in all.
    pub fn copies(mut self, copies: u32) -> DropRule {
        self.copies = copies;
        self
    }

    /// Counts occurrences on each connection separately.
    pub fn per_connection(mut self) -> DropRule {
        self.per_connection = true;
        self
    }

    fn chooses(&self, occurrence: u64) -> bool {
        match occurrence.checked_sub(self.first) {
            Some(0) => true,
            Some(after) => self.every > 0 && after % self.every == 0,
            None => false,
        }
    }
}

/// One direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Flow {
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
}

#[derive(Debug, Default)]
struct FlowState {
    /// Sequence number of the SYN.
    isn: u32,
    /// Payload bytes from the first to the highest seen.
    sent_bytes: u64,
}

/// The rules with their counts.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<DropRule>,
    flows: HashMap<Flow, FlowState>,
    /// Number of occurrences by rule and, if counted separately, by connection.
    occurrences: HashMap<(usize, Option<Flow>), u64>,
    /// Chosen packets by rule, flow and sequence number, with the number of drops that are left.
    chosen: HashMap<(usize, Flow, u32), u32>,
}

impl Rules {
    /// Creates rules whose counts are 0.
    pub fn new(rules: Vec<DropRule>) -> Rules {
        Rules { rules, flows: HashMap::new(), occurrences: HashMap::new(), chosen: HashMap::new() }
    }

    /// Returns the rule that drops this packet, if there is one.
    pub fn drops(&mut self, direction: Direction, packet: &[u8]) -> Option<usize> {
        if self.rules.is_empty() {
            return None;
        }
        let header = Header::parse(packet)?;
        match header.transport {
            Transport::Tcp(segment) => self.drops_segment(direction, &header, segment),
            Transport::Udp { source_port, destination_port, payload_at } => {
                let flow = flow_of(&header, source_port, destination_port);
                let dns = dns_question(packet.get(payload_at..)?);
                let hit = |kind| match kind {
                    Kind::Any => true,
                    Kind::DnsQuestion { qtype } => {
                        dns.is_some_and(|(q, answer)| !answer && (qtype == 0 || q == qtype))
                    }
                    Kind::DnsAnswer { qtype } => {
                        dns.is_some_and(|(q, answer)| answer && (qtype == 0 || q == qtype))
                    }
                    _ => false,
                };
                self.occurs(direction, flow, hit)
            }
            Transport::Other(_) => {
                let flow = flow_of(&header, 0, 0);
                self.occurs(direction, flow, |kind| kind == Kind::Any)
            }
        }
    }

    fn drops_segment(
        &mut self,
        direction: Direction,
        header: &Header,
        segment: Segment,
    ) -> Option<usize> {
        let flow = flow_of(header, segment.source_port, segment.destination_port);
        let left = self.chosen.iter_mut().find(|((rule, f, seq), left)| {
            let same = *f == flow && *seq == segment.seq && **left > 0;
            same && self.rules[*rule].direction == direction && is_kind(*rule, &self.rules, segment)
        });
        if let Some((&(rule, _, _), left)) = left {
            *left -= 1;
            return Some(rule);
        }
        let state = self.flows.entry(flow).or_default();
        let is_new = note(state, segment);
        let end_bytes = state.sent_bytes;
        let hit = |kind| match kind {
            Kind::MessageTail { message_bytes } => {
                let began = end_bytes - u64::from(segment.payload_bytes).min(end_bytes);
                message_bytes > 0
                    && segment.payload_bytes > 0
                    && is_new
                    && end_bytes / message_bytes > began / message_bytes
            }
            Kind::Syn | Kind::SynAck | Kind::Data => is_new && kind_fits(kind, segment),
            _ => kind_fits(kind, segment),
        };
        let rule = self.occurs(direction, flow, hit)?;
        let more = self.rules[rule].copies.saturating_sub(1);
        if more > 0 {
            self.chosen.insert((rule, flow, segment.seq), more);
        }
        Some(rule)
    }

    fn occurs(
        &mut self,
        direction: Direction,
        flow: Flow,
        hit: impl Fn(Kind) -> bool,
    ) -> Option<usize> {
        let mut dropped_by = None;
        for (index, rule) in self.rules.iter().enumerate() {
            if rule.direction != direction || !hit(rule.kind) {
                continue;
            }
            let scope = rule.per_connection.then_some(flow);
            let count = self.occurrences.entry((index, scope)).or_insert(0);
            *count += 1;
            if dropped_by.is_none() && rule.chooses(*count) {
                dropped_by = Some(index);
            }
        }
        dropped_by
    }
}

fn is_kind(rule: usize, rules: &[DropRule], segment: Segment) -> bool {
    match rules[rule].kind {
        Kind::MessageTail { .. } => segment.payload_bytes > 0,
        kind => kind_fits(kind, segment),
    }
}

fn flow_of(header: &Header, source_port: u16, destination_port: u16) -> Flow {
    Flow {
        source: (header.source, source_port),
        destination: (header.destination, destination_port),
    }
}

/// Follows the flow and returns whether the segment is no repetition.
fn note(state: &mut FlowState, segment: Segment) -> bool {
    if segment.flags & SYN != 0 {
        let is_new = state.isn != segment.seq || state.sent_bytes > 0;
        if is_new {
            *state = FlowState { isn: segment.seq, sent_bytes: 0 };
        }
        return is_new;
    }
    if segment.payload_bytes == 0 {
        return false;
    }
    let begin = segment.seq.wrapping_sub(state.isn.wrapping_add(1));
    let end = u64::from(begin.wrapping_add(segment.payload_bytes));
    // 32-bit arithmetic suffices, since a flow of the lab has less than 4 GiB.
    let is_new = end > state.sent_bytes;
    state.sent_bytes = state.sent_bytes.max(end);
    is_new
}

fn kind_fits(kind: Kind, segment: Segment) -> bool {
    let flag = |bit| segment.flags & bit != 0;
    match kind {
        Kind::Syn => flag(SYN) && !flag(ACK),
        Kind::SynAck => flag(SYN) && flag(ACK),
        Kind::Data => segment.payload_bytes > 0,
        Kind::PureAck => {
            flag(ACK) && segment.payload_bytes == 0 && segment.flags & (SYN | FIN | RST) == 0
        }
        Kind::Fin => flag(FIN),
        Kind::Rst => flag(RST),
        Kind::Any => true,
        Kind::MessageTail { .. } | Kind::DnsQuestion { .. } | Kind::DnsAnswer { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::tests::tcp;
    use super::*;

    const TO_CLIENT: Direction = Direction::ServerToClient;

    #[test]
    fn the_syn_of_every_second_connection_is_dropped_and_its_repetition_passes() {
        let rule = DropRule::new(TO_CLIENT, Kind::Syn, 1, 2);
        let mut rules = Rules::new(vec![rule]);
        let mut send = |port, seq| rules.drops(TO_CLIENT, &tcp(port, seq, SYN, 0)).is_some();
        assert!(send(1, 10));
        assert!(!send(1, 10));
        assert!(!send(2, 20));
        assert!(send(3, 30));
        assert!(!send(3, 30));
    }

    #[test]
    fn tail_loss_with_its_probe_leaves_the_third_copy() {
        let kind = Kind::MessageTail { message_bytes: 250 };
        let rule = DropRule::new(TO_CLIENT, kind, 2, 0).copies(2);
        let mut rules = Rules::new(vec![rule]);
        assert_eq!(rules.drops(TO_CLIENT, &tcp(1, 0, SYN | ACK, 0)), None);
        let mut send = |seq, len| rules.drops(TO_CLIENT, &tcp(1, seq, ACK, len)).is_some();
        let first_message = [(1, 100), (101, 100), (201, 50)];
        assert!(first_message.into_iter().all(|(seq, len)| !send(seq, len)));
        assert!(!send(251, 100) && !send(351, 100));
        assert!(send(451, 50));
        assert!(send(451, 50));
        assert!(!send(451, 50));
    }

    #[test]
    fn a_rule_for_one_direction_leaves_the_other_alone() {
        let mut rules = Rules::new(vec![DropRule::new(TO_CLIENT, Kind::Any, 1, 1)]);
        let packet = tcp(1, 1, ACK, 5);
        assert_eq!(rules.drops(Direction::ClientToServer, &packet), None);
        assert_eq!(rules.drops(TO_CLIENT, &packet), Some(0));
    }
}
