//! Answers of which the first IP fragment is known: the rest may follow, be lost on the way, or only
//! be missing in the capture.

use super::{Open, has_answers};
use crate::capture::FrameId;
use crate::dns::lookup::Query;
use crate::dns::message::Message;
use crate::wire::Endpoint;

/// The first IP fragment of an answer.
#[derive(Clone)]
pub(super) struct Begun {
    /// Which query it answers.
    at: usize,
    time_ns: u64,
    frame: FrameId,
    payload_bytes: u32,
    rcode: u8,
    has_answers: bool,
}

impl Open {
    /// Takes the first fragment of an answer. Whether it answers a query of this look-up.
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

    /// What was begun and not asked again had arrived.
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
