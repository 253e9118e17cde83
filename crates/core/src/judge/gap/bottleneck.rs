//! The bottleneck link of the path in a gap.

/// Time of a gap in which packets were transmitted or queued on the path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bottleneck {
    /// Time of the gap in which the bottleneck was still busy with data sent before, ns; with the
    /// request, if the other side answers.
    pub busy_ns: u64,
    /// Queueing delay of the departure that ended the gap, as its timestamp shows, plus, if the
    /// other side answers, that of the request, as its ACK shows, ns.
    pub queue_ns: u64,
}
