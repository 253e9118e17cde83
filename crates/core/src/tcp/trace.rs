//! Recording of the kinds of segments, and of the judged gaps, of a connection that is to be drawn or
//! explained. It is made for no other connection.

use crate::judge::Gap;
use crate::model::Slice;
use crate::tcp::sender::Kind;

/// The judged gaps in their order, and the kind of the last segment.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub(super) kind: Option<Kind>,
    /// The gaps with everything that was known of them and their slices as they were added to the
    /// ledger, if they are to be explained.
    pub decided: Option<Vec<(Gap, Vec<Slice>)>>,
}

/// Greatest number of gaps kept with everything that was known of them; each takes some 600 bytes.
const DECIDED_MAX: usize = 1 << 16;

impl Trace {
    pub(super) fn gap<'a>(&mut self, gap: &Gap, slices: impl Iterator<Item = &'a Slice>) {
        if let Some(decided) = self.decided.as_mut().filter(|it| it.len() < DECIDED_MAX) {
            decided.push((*gap, slices.copied().collect()));
        }
    }

    /// Removes and returns the kind of the last segment with payload.
    pub fn take_kind(&mut self) -> Option<Kind> {
        self.kind.take()
    }
}
