//! The claims that were compared with the packets: how many hold, and which do not.

use crate::model::{Checked, Language, Report, Verdict, units};
use crate::report::layout::Page;
use crate::say;

/// Writes the sums, and each false claim; with `--all`, each undecided one as well.
pub(super) fn render(page: &mut Page<'_>, report: &Report) {
    let Some(checked) = &report.checked else { return };
    let count = |is: fn(&Verdict) -> bool| checked.iter().filter(|it| is(&it.verdict)).count();
    let hold = count(|it| *it == Verdict::Holds) as u64;
    let wrong = count(|it| matches!(it, Verdict::False(_))) as u64;
    let open = count(|it| matches!(it, Verdict::Undecided(_))) as u64;
    page.gap();
    let language = page.look.language;
    page.title("checked against the packets", &say!(language, "claims", hold, wrong, open));
    for one in checked {
        let of = claimed_by(report, one, language);
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
fn claimed_by(report: &Report, one: &Checked, language: Language) -> String {
    let finding = one.finding.and_then(|at| report.findings.get(at));
    let named = |it: &crate::model::Finding| {
        say!(language, "finding_claim", cause = it.cause.id(), claim = &one.claim)
    };
    finding.map_or_else(|| one.claim.clone(), named)
}
