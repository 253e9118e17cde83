//! Diagnoses every trace and every stored capture with every threshold changed, and prints which
//! diagnoses differ. `scripts/pin-thresholds.py` adds this file to its copy of the tests.

use crate::diagnosis::diagnose;
use crate::expect::{Expectation, named};
use crate::language::Place;
use crate::network::capture;
use crate::traces::{folder, traces};
use render::render;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tcpwhy_core::model::{Cause, Report};
use tcpwhy_core::pins::{Change, NAMES, change, take_read};

#[path = "../traces/render.rs"]
mod render;

/// What is diagnosed: a trace at its vantages, or a stored capture.
struct Case {
    name: String,
    files: Vec<(Place, Vec<u8>)>,
    expectations: Vec<Expectation>,
    /// The causes whose facts the rendered reports state.
    about: Vec<Cause>,
    /// The rendered reports without a change.
    stated: String,
    /// Which thresholds are read for it.
    reads: Vec<bool>,
}

impl Case {
    fn new(
        name: String,
        files: Vec<(Place, Vec<u8>)>,
        expectations: Vec<Expectation>,
        about: Vec<Cause>,
    ) -> Self {
        let mut case = Self { name, files, expectations, about, stated: String::new(), reads: Vec::new() };
        take_read();
        case.stated = rendered(&case.reports(), &case.about);
        case.reads = take_read();
        case
    }

    fn reports(&self) -> Vec<(Place, Report)> {
        self.files.iter().map(|(place, file)| (*place, diagnose(file))).collect()
    }

    /// The word for what a change does to it; `None` if it does nothing.
    fn differs(&self) -> Option<&'static str> {
        let Ok(reports) = catch_unwind(AssertUnwindSafe(|| self.reports())) else {
            return Some("panic");
        };
        let is_met = |(place, report): &(Place, Report)| {
            self.expectations.iter().all(|one| one.unmet(*place, report).is_none())
        };
        if !reports.iter().all(is_met) {
            return Some("expectation");
        }
        (rendered(&reports, &self.about) != self.stated).then_some("report")
    }
}

fn rendered(reports: &[(Place, Report)], about: &[Cause]) -> String {
    reports.iter().map(|(_, report)| render(report, about)).collect()
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<_> = traces()
        .into_iter()
        .map(|(name, trace)| {
            let places = trace.vantages.iter();
            let files = places.map(|&place| (place, capture(&trace, place))).collect();
            let about = named(&trace.expectations);
            Case::new(name, files, trace.expectations, about)
        })
        .collect();
    let stored = std::fs::read_dir(folder().join("../../../../testdata/captures")).expect("a folder");
    let mut stored: Vec<_> = stored.map(|one| one.expect("an entry").path()).collect();
    stored.sort();
    for path in stored {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = std::fs::read(&path).expect("a capture");
        cases.push(Case::new(name, vec![(Place::Middle, file)], Vec::new(), Cause::ALL.to_vec()));
    }
    cases
}

#[test]
fn pins() {
    let cases = cases();
    std::panic::set_hook(Box::new(|_| {}));
    let only = std::env::var("PINS_OF").unwrap_or_default();
    for (index, name) in NAMES.iter().enumerate() {
        if !only.is_empty() && !only.split(',').any(|one| one == *name) {
            continue;
        }
        println!("\nread {name} {}", cases.iter().filter(|case| case.reads[index]).count());
        for how in Change::ALL {
            change(Some((index, how)));
            for case in cases.iter().filter(|case| case.reads[index]) {
                if let Some(what) = case.differs() {
                    println!("pin {name} {how:?} {what} {}", case.name);
                }
            }
            change(None);
        }
    }
}
