//! The reason why a report has nothing to say.

use super::Report;

/// A report without a connection and without a look-up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NothingToJudge {
    /// There was no TCP or DNS in the input.
    #[error("nothing to judge: no packet of a TCP connection or a name look-up was captured")]
    Absent,
    /// Some frames could not be read, and the others have neither.
    #[error(
        "nothing to judge: {left_out} of {frames} frames could not be read, and none of the others \
         belongs to a TCP connection or a name look-up"
    )]
    Unread {
        /// Number of frames that could not be read.
        left_out: u64,
        /// Number of all frames.
        frames: u64,
    },
    /// The filter excludes all of it.
    #[error(
        "nothing to judge: --filter leaves no packet of a TCP connection or a name look-up; {hint}"
    )]
    Filtered {
        /// The filter to write instead.
        hint: String,
    },
}

impl NothingToJudge {
    /// Returns the reason why `report`, which was made without a filter, has neither a connection
    /// nor a look-up, or `None` if it has one.
    pub fn of(report: &Report) -> Option<Self> {
        let totals = &report.totals;
        if totals.connections + totals.lookups + report.quic.connections() > 0 {
            return None;
        }
        let left_out = totals.decode_errors.errors().map(|(_, count)| count).sum();
        let frames = report.inputs.iter().map(|input| input.packets).sum();
        Some(if left_out > 0 { Self::Unread { left_out, frames } } else { Self::Absent })
    }
}
