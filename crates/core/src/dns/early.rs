//! Answers that stand before their queries: a name server beside the capture answers within microseconds, and
//! two interfaces or processors do not stamp what passes in the order in which it does.

use crate::capture::FrameId;
use crate::dns::thresholds::EARLY_QUERY_MAX_NS;
use crate::wire::Endpoint;
use std::collections::VecDeque;

/// Answers to nothing that are remembered.
const ANSWERS_MAX: usize = 16;

/// An answer, or an ICMP error, to which there was no query yet.
#[derive(Clone)]
pub(super) struct Answer {
    pub time_ns: u64,
    pub frame: FrameId,
    /// Payload of that frame, bytes.
    pub payload_bytes: u32,
    pub server: Endpoint,
    pub client: Endpoint,
    /// The message; none where the port was unreachable.
    pub message: Option<Vec<u8>>,
}

/// The last answers to nothing.
#[derive(Clone, Default)]
pub(super) struct Early(VecDeque<Answer>);

impl Early {
    /// Nobody has asked for `answer`, as far as was captured.
    pub fn add(&mut self, answer: Answer) {
        if self.0.len() == ANSWERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(answer);
    }

    /// What has just passed from the one to the other.
    pub fn take(&mut self, now_ns: u64, server: &Endpoint, client: &Endpoint) -> Option<Answer> {
        let is_of = |answer: &Answer| {
            (&answer.server, &answer.client) == (server, client)
                && answer.time_ns + EARLY_QUERY_MAX_NS >= now_ns
        };
        let at = self.0.iter().position(is_of)?;
        self.0.remove(at)
    }
}
