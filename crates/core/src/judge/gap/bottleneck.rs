//! The bottleneck link of the path in a gap.

/// Time of a gap in which packets were transmitted or queued on the path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bottleneck {
    /// Time of the gap in which the pipe was still busy with data already sent, ns; if the other
    /// side answers, with the question.
    pub busy_ns: u64,
    /// Queueing delay of the departure that ended the gap, by its timestamp, plus, if the other
    /// side answers, that of the question, as its ACK shows, ns.
    pub queue_ns: u64,
}
