//! The claims that were compared with the packets: how many hold, and which do not.

use crate::model::units::{self, counted};
use crate::model::{Checked, Report, Verdict};
use crate::report::layout::Page;
use crate::report::style::Paint;

/// Writes the sums, and each false claim; with `--all`, each undecided one as well.
pub(super) fn render(page: &mut Page<'_>, report: &Report) {
    let Some(checked) = &report.checked else { return };
    let count = |is: fn(&Verdict) -> bool| checked.iter().filter(|it| is(&it.verdict)).count();
    let hold = count(|it| *it == Verdict::Holds) as u64;
    let wrong = count(|it| matches!(it, Verdict::False(_))) as u64;
    let open = count(|it| matches!(it, Verdict::Undecided(_))) as u64;
    page.gap();
    let hold = counted(hold, "claim holds", "claims hold");
    let wrong = counted(wrong, "is false", "are false");
    let open = counted(open, "cannot be decided by them", "cannot be decided by them");
    let title = page.look.paint(Paint::Bold, "checked against the packets");
    page.line(&format!("{title}   {hold} · {wrong} · {open}"));
    for one in checked {
        let of = claimed_by(report, one);
        match &one.verdict {
            Verdict::False(why) => page.warning(&units::printable(&format!("{of}: {why}"))),
            Verdict::Undecided(why) if page.look.all => {
                page.paragraph(None, &units::printable(&format!("? {of}: {why}")), 2);
            }
            _ => {}
        }
    }
}

/// Names the finding and the claim.
fn claimed_by(report: &Report, one: &Checked) -> String {
    let finding = one.finding.and_then(|at| report.findings.get(at));
    finding.map_or_else(|| one.claim.clone(), |it| format!("{}, {}", it.cause.id(), one.claim))
}
