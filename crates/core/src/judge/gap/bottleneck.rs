//! The bottleneck link of the path in a gap.

/// Time of a gap in which packets were transmitted or queued on the path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bottleneck {
    /// Time of the gap in which the bottleneck was still busy with data sent before, ns; with the
    /// request, if the other side answers.
    pub busy_ns: u64,
    /// Part of `busy_ns` that only the timestamp of the departure shows, and that its bytes do not take
    /// at the rate of the message so far, ns: the departure waited for something else on the path.
    pub stood_ns: u64,
    /// Delay of the departure that ended the gap, as its timestamp shows on a clock of unknown rate, ns.
    /// One late packet shows no queue.
    pub late_ns: u64,
    /// Queueing delay of the departure that ended the gap, as its timestamp shows, plus, if the
    /// other side answers, that of the request, as its ACK shows, ns.
    pub queue_ns: u64,
    /// If the other side answers: time by which the ACK of all that it answers came later than after a
    /// round trip, ns; 0 if it is unknown, or if its sender may have delayed it. The kernel sends it, not
    /// the application (RFC 9293 §3.10.7.4): the path took that time, or the host.
    pub ack_late_ns: u64,
    /// If the other side answers: time after which the ACK of all that it answers came, ns; `None` if that
    /// came with the answer. Its sender may have delayed it.
    pub acked_after_ns: Option<u64>,
}

impl Bottleneck {
    /// Time of the gap in which the bottleneck transmitted, ns.
    pub fn transmits_ns(&self) -> u64 {
        self.busy_ns - self.waits_ns()
    }

    /// Time of the gap in which what ended it waited on the path without being transmitted, ns.
    pub fn waits_ns(&self) -> u64 {
        self.stood_ns.min(self.busy_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_is_known_to_be_idle_lets_nothing_wait() {
        let part = |busy_ns| {
            let link = Bottleneck { busy_ns, stood_ns: 30, ..Bottleneck::default() };
            (link.transmits_ns(), link.waits_ns())
        };
        assert_eq!([part(100), part(20), part(0)], [(70, 30), (0, 20), (0, 0)]);
    }
}
