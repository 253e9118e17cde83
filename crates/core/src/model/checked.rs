//! Claims of a report, compared with the packets.

/// A claim, and whether the packets agree with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Place of the finding in the report that makes the claim; `None` for the report as a whole.
    pub finding: Option<usize>,
    /// The claim: `evidence #123: the held segment follows at once`.
    pub claim: String,
    /// Whether the packets agree with the claim.
    pub verdict: Verdict,
}

/// Whether the packets agree with a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packets show it.
    Holds,
    /// The packets contradict it, in the way that the sentence says.
    False(String),
    /// The packets of the named connection cannot show it, for this reason.
    Undecided(&'static str),
}
