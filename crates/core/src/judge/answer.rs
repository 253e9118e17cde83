//! The answer of a recogniser: it claims a slice or declines.

use crate::model::Slice;

/// The part of a silence that a mechanism claims; or, if it declines, the condition that fails, as
/// a statement about the silence.
pub type Answer = Result<Slice, &'static str>;

/// Declines with `why` unless `holds`.
#[inline(always)]
pub(super) fn need(holds: bool, why: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(why) }
}
