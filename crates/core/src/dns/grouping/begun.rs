//! Answers of which the first IP fragment was captured and the rest may follow, be lost, or only be
//! missing in the capture; and answers whose first fragment is missing.

use super::{Open, has_answers};
use crate::capture::FrameId;
use crate::dns::lookup::Query;
use crate::wire::Endpoint;
use crate::wire::dns_message::Message;

/// The first IP fragment of an answer.
#[derive(Clone)]
pub(super) struct Begun {
    /// Index of the query that it answers.
    at: usize,
    time_ns: u64,
    frame: FrameId,
    payload_bytes: u32,
    rcode: u8,
    has_answers: bool,
}

/// A later IP fragment of a datagram from a server whose answer is awaited.
#[derive(Clone)]
pub(super) struct Rest {
    server: [u8; 16],
    /// The packet's identification.
    id: u32,
    time_ns: u64,
    frame: FrameId,
}

/// Maximum number of later fragments kept per look-up.
const RESTS_MAX: usize = 64;

impl Open {
    /// Records a fragment from `server`: a later one whose first is missing so far, or the first.
    pub fn note_fragment(
        &mut self,
        (time_ns, frame): (u64, FrameId),
        server: &Endpoint,
        id: u32,
        is_rest: bool,
    ) {
        let server = server.address;
        if !is_rest {
            self.rests.retain(|rest| (rest.server, rest.id) != (server, id));
            return;
        }
        let waits = |it: &Query| it.server.address == server && it.answered_ns.is_none();
        let is_known = self.rests.iter().any(|rest| (rest.server, rest.id) == (server, id));
        if self.rests.len() < RESTS_MAX && !is_known && self.lookup.queries.iter().any(waits) {
            self.rests.push(Rest { server, id, time_ns, frame });
        }
    }

    /// Assigns each datagram of which only later fragments arrived to one query: the first that was
    /// unanswered then, and was never answered.
    pub fn settle_rests(&mut self) {
        for rest in std::mem::take(&mut self.rests) {
            let queries = &self.lookup.queries;
            let asked_again = |it: &Query| {
                queries.iter().any(|other| {
                    (other.server, other.qtype, other.step) == (it.server, it.qtype, it.step)
                        && it.sent_ns < other.sent_ns
                        && other.sent_ns <= rest.time_ns
                })
            };
            let waits = |it: &Query| {
                it.server.address == rest.server
                    && !it.flags.over_tcp
                    && it.sent_ns <= rest.time_ns
                    && it.answered_ns.is_none()
                    && it.rest.is_none()
                    && !asked_again(it)
            };
            if let Some(at) = queries.iter().position(waits) {
                self.lookup.queries[at].rest = Some((rest.time_ns, rest.frame));
            }
        }
    }

    /// Records the first fragment of an answer. Returns whether it answers a query of this look-up.
    pub fn begin_answer(
        &mut self,
        (time_ns, frame, payload_bytes): (u64, FrameId, u32),
        server: &Endpoint,
        client_port: u16,
        message: &Message,
    ) -> bool {
        let Some(query_frame) =
            self.answered_by(server, client_port, message, time_ns).map(|query| query.query_frame)
        else {
            return false;
        };
        let asked = |query: &Query| query.query_frame == query_frame;
        if let Some(at) = self.lookup.queries.iter().position(asked) {
            let (rcode, has_answers) = (message.rcode, has_answers(message));
            self.begun.push(Begun { at, time_ns, frame, payload_bytes, rcode, has_answers });
            self.note_answer(time_ns, message);
        }
        true
    }

    /// Treats answers as arrived whose first fragment was captured and whose query was not
    /// repeated.
    pub fn settle_begun(&mut self) {
        for begun in std::mem::take(&mut self.begun) {
            let Some(&id) = self.ids.get(begun.at) else { continue };
            let Some(qtype) = self.lookup.queries.get(begun.at).map(|query| query.qtype) else {
                continue;
            };
            let mut later = self.lookup.queries.iter().zip(&self.ids).skip(begun.at + 1);
            if later.any(|(query, &other)| other == id && query.qtype == qtype) {
                continue;
            }
            let query = &mut self.lookup.queries[begun.at];
            if query.answered_ns.is_none() {
                query.answered_ns = Some(begun.time_ns);
                query.answer_frame = Some(begun.frame);
                query.answer_bytes = begun.payload_bytes;
                query.rcode = Some(begun.rcode);
                query.flags.has_answers = begun.has_answers;
            }
        }
    }
}
