//! Answers captured before their queries: a name server near the vantage answers within
//! microseconds, and two interfaces or processors may not timestamp packets in their true order.

use crate::capture::FrameId;
use crate::dns::thresholds::EARLY_QUERY_MAX_NS;
use crate::wire::Endpoint;
use std::collections::VecDeque;

/// Maximum number of remembered answers without a query.
const ANSWERS_MAX: usize = 16;

/// An answer, or an ICMP error, for which no query has been captured so far.
#[derive(Clone)]
pub(super) struct Answer {
    pub time_ns: u64,
    pub frame: FrameId,
    /// Length of the payload of the frame, bytes.
    pub payload_bytes: u32,
    pub server: Endpoint,
    pub client: Endpoint,
    /// The DNS message; `None` for an ICMP error.
    pub message: Option<Vec<u8>>,
    /// The host on the way that sent the ICMP error; `None` if the server's did.
    pub router: Option<Endpoint>,
}

/// The last answers for which no query has been captured.
#[derive(Clone, Default)]
pub(super) struct Early(VecDeque<Answer>);

impl Early {
    /// Remembers `answer`, for which no query has been captured.
    pub fn add(&mut self, answer: Answer) {
        if self.0.len() == ANSWERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(answer);
    }

    /// Removes and returns an answer from `server` to `client` that was captured just before
    /// `now_ns`.
    pub fn take(&mut self, now_ns: u64, server: &Endpoint, client: &Endpoint) -> Option<Answer> {
        let is_of = |answer: &Answer| {
            (&answer.server, &answer.client) == (server, client)
                && answer.time_ns + EARLY_QUERY_MAX_NS >= now_ns
        };
        let at = self.0.iter().position(is_of)?;
        self.0.remove(at)
    }
}
