//! A sender whose kernel spaces what its application has long written.

use crate::findings::scene::Proof;
use crate::judge::Gap;
use crate::model::Fact;

/// Proves a step of the pace: the last segment, and the one that its kernel released a step later.
pub(super) fn prove(gap: &Gap, proof: &mut Proof) {
    proof.see_before(gap, "paced");
    proof.see_after(gap, "paced_next");
    proof.fact("step_ns", Fact::Ns(gap.len_ns()));
}
