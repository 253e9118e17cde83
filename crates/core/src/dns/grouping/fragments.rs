//! IP fragments of answers: the first fragment was captured and the rest may follow, be lost, or be
//! missing only in the capture; or only later fragments were captured.

use super::{Open, has_answers};
use crate::capture::FrameId;
use crate::dns::lookup::Query;
use crate::wire::Endpoint;
use crate::wire::dns_message::Message;

/// The first IP fragment of an answer.
#[derive(Clone)]
pub(super) struct FirstFragment {
    /// Index of the query that the answer belongs to.
    at: usize,
    time_ns: u64,
    frame: FrameId,
    payload_bytes: u32,
    rcode: u8,
    has_answers: bool,
}

/// A later IP fragment of a datagram from a server whose answer is awaited.
#[derive(Clone)]
pub(super) struct LaterFragment {
    server: [u8; 16],
    /// IP identification of the packet.
    id: u32,
    time_ns: u64,
    frame: FrameId,
}

/// Maximum number of later fragments kept per look-up.
const LATER_FRAGMENTS_MAX: usize = 64;

impl Open {
    /// Records a fragment from `server`: the first one, or a later one whose first has not been
    /// captured so far.
    pub fn note_fragment(
        &mut self,
        (time_ns, frame): (u64, FrameId),
        server: &Endpoint,
        id: u32,
        is_later: bool,
    ) {
        let server = server.address;
        if !is_later {
            self.later_fragments.retain(|rest| (rest.server, rest.id) != (server, id));
            return;
        }
        let waits = |it: &Query| it.server.address == server && it.answered_ns.is_none();
        let is_known =
            self.later_fragments.iter().any(|rest| (rest.server, rest.id) == (server, id));
        if self.later_fragments.len() < LATER_FRAGMENTS_MAX
            && !is_known
            && self.lookup.queries.iter().any(waits)
        {
            self.later_fragments.push(LaterFragment { server, id, time_ns, frame });
        }
    }

    /// Assigns each datagram of which only later fragments arrived to the first query that was
    /// unanswered at that time and was never answered.
    pub fn settle_later_fragments(&mut self) {
        for rest in std::mem::take(&mut self.later_fragments) {
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
                    && it.later_fragment.is_none()
                    && !asked_again(it)
            };
            if let Some(at) = queries.iter().position(waits) {
                self.lookup.queries[at].later_fragment = Some((rest.time_ns, rest.frame));
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
        fastest_ns: Option<u64>,
    ) -> bool {
        let at = (time_ns, fastest_ns);
        let query = self.answered_by(server, client_port, message, at);
        let Some(query_frame) = query.map(|query| query.query_frame) else {
            return false;
        };
        let asked = |query: &Query| query.query_frame == query_frame;
        if let Some(at) = self.lookup.queries.iter().position(asked) {
            let (rcode, has_answers) = (message.rcode, has_answers(message));
            self.first_fragments.push(FirstFragment {
                at,
                time_ns,
                frame,
                payload_bytes,
                rcode,
                has_answers,
            });
            self.note_answer(time_ns, message);
        }
        true
    }

    /// Treats an answer whose first fragment was captured as arrived if its query was not repeated: a
    /// capture filter for ports matches no other fragment. If it was, the rest of the answer, and of
    /// a later one to the same query, was lost.
    pub fn settle_first_fragments(&mut self) {
        let mut repeated = Vec::new();
        for first in std::mem::take(&mut self.first_fragments) {
            let Some(&id) = self.ids.get(first.at) else { continue };
            let Some(qtype) = self.lookup.queries.get(first.at).map(|query| query.qtype) else {
                continue;
            };
            let mut later = self.lookup.queries.iter().zip(&self.ids).skip(first.at + 1);
            let is_lost = later.any(|(query, &other)| other == id && query.qtype == qtype)
                || repeated.contains(&(id, qtype));
            let query = &mut self.lookup.queries[first.at];
            if is_lost {
                repeated.push((id, qtype));
                let seen = (first.time_ns, first.frame, first.payload_bytes);
                query.first_fragment.get_or_insert(seen);
                continue;
            }
            if query.answered_ns.is_none() {
                query.answered_ns = Some(first.time_ns);
                query.answer_frame = Some(first.frame);
                query.answer_bytes = first.payload_bytes;
                query.rcode = Some(first.rcode);
                query.flags.has_answers = first.has_answers;
            }
        }
    }
}
