//! One test for each trace: `FOLDER/NAME`, as its file is called.
//!
//! `cargo test -p tcpwhy-core --test traces nagle_delayed_ack/` runs those of one folder, and any part
//! of a name those that have it. A trace lies in the folder of the cause that it expects first, or
//! whose look-alike it is; what concerns no cause is in `healthy`, `input` (how the capture was taken)
//! or `protocols` (where requests and responses begin and end).
//!
//! The report at each vantage has to meet the trace's expectations, its claims have to hold for the
//! packets, and what it says about the causes that the trace names has to be that of the snapshot
//! `NAME.snap` beside the trace.

#[allow(dead_code, reason = "shared with the tests of whole diagnoses")]
#[path = "../diagnosis/diagnosis.rs"]
mod diagnosis;
#[allow(dead_code, reason = "shared with the tests of whole diagnoses")]
#[path = "../diagnosis/expect.rs"]
mod expect;
#[allow(dead_code, reason = "shared with the tests of whole diagnoses")]
#[path = "../diagnosis/frames.rs"]
mod frames;
#[allow(dead_code, reason = "shared with the tests of whole diagnoses")]
#[path = "../diagnosis/language.rs"]
mod language;
#[allow(dead_code, reason = "shared with the tests of whole diagnoses")]
#[path = "../diagnosis/network.rs"]
mod network;
mod render;
#[allow(dead_code, reason = "shared with the tests of whole diagnoses")]
#[path = "../diagnosis/traces.rs"]
mod traces;

use diagnosis::{diagnose, false_claims};
use expect::named;
use libtest_mimic::{Arguments, Failed, Trial};
use network::capture;
use render::render;
use std::panic::{AssertUnwindSafe, catch_unwind};
use traces::{Case, cases};

fn main() {
    let (arguments, filters) = arguments(std::env::args().collect());
    let tests = cases().into_iter().filter_map(|case| {
        let name = format!("{}/{}", case.folder, case.name);
        let is_chosen = |filter: &String| match arguments.exact {
            true => name == *filter,
            false => name.contains(filter.as_str()),
        };
        let is_wanted = filters.is_empty() || filters.iter().any(is_chosen);
        is_wanted.then(|| Trial::test(name, move || check(&case)))
    });
    libtest_mimic::run(&arguments, tests.collect()).exit();
}

/// Takes filters off the end if there are several: the library knows one, other tests any number.
fn arguments(mut words: Vec<String>) -> (Arguments, Vec<String>) {
    let is_filter = |word: &String| !word.starts_with('-');
    let several = words.iter().skip(1).rev().take_while(|word| is_filter(word)).count() > 1;
    let options = words.iter().rposition(|word| !is_filter(word)).unwrap_or(0);
    let filters = if several { words.split_off(options + 1) } else { Vec::new() };
    (Arguments::from_iter(words), filters)
}

/// Checks everything, so that one run shows all that is wrong.
fn check(case: &Case) -> Result<(), Failed> {
    let (trace, mut wrong) = (case.trace(), Vec::new());
    if trace.expectations.is_empty() {
        wrong.push("expects nothing".to_owned());
    }
    // Places, one behind the other, with the same report.
    let mut shown: Vec<(String, String)> = Vec::new();
    let named = named(&trace.expectations);
    for &place in &trace.vantages {
        let file = capture(&trace, place);
        let report = diagnose(&file);
        wrong.extend(trace.expectations.iter().filter_map(|one| one.unmet(place, &report)));
        let claims = false_claims(&report, &file).into_iter();
        wrong.extend(claims.map(|claim| format!("at {}: {claim}", place.word())));
        let text = render(&report, &named);
        let taken = format!("{} (vantage {:?})", place.word(), report.totals.vantage);
        match shown.last_mut() {
            Some((places, same)) if *same == text => *places += &format!(" and {taken}"),
            _ => shown.push((taken, text)),
        }
    }
    let texts = shown.iter().map(|(places, text)| format!("== captured at the {places}\n{text}"));
    if !is_snapshot(case, &texts.collect::<Vec<_>>().join("\n")) {
        wrong.push("its snapshot differs: see above, and `cargo insta review`".to_owned());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Returns whether `text` is the trace's snapshot, and prints the difference.
fn is_snapshot(case: &Case, text: &str) -> bool {
    let assert = || {
        insta::with_settings!({
            snapshot_path => &case.folder,
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, { insta::assert_snapshot!(case.name.as_str(), text) });
    };
    catch_unwind(AssertUnwindSafe(assert)).is_ok()
}
