//! Every cause has its traces, its lab case and its manual, which the compiler does not check. The
//! build checks that it has a row, and `findings/words.rs` that its manual is complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tcpwhy_core::findings::manual;
use tcpwhy_core::model::{Cause, Class, Language, Owner};

/// Causes that no trace shows, since a trace has few connections and those are TCP, with the file
/// whose tests show each of them and its look-alikes.
const WITHOUT_TRACE: &[(Cause, &str)] = &[
    (Cause::SynFlood, "tests/diagnosis/flood.rs"),
    (Cause::ConntrackFull, "src/state/weigh/tests.rs"),
    (Cause::ConntrackRace, "src/dns/tests/lookups.rs"),
    (Cause::PortExhaustion, "src/state/weigh/tests.rs"),
    (Cause::DnsFailure, "src/dns/tests/lookups.rs"),
    (Cause::DnsSearch, "src/dns/tests/lookups.rs"),
    (Cause::ReverseDnsTimeout, "src/dns/tests/lookups.rs"),
    (Cause::CpuThrottled, "src/state/served.rs"),
    (Cause::CpuSaturation, "src/state/served.rs"),
    (Cause::EventLoopBlocked, "src/state/served.rs"),
    (Cause::WorkersExhausted, "src/state/served.rs"),
    (Cause::LockWait, "src/state/served.rs"),
    (Cause::DiskWait, "src/state/served.rs"),
    (Cause::MemoryPressure, "src/state/served.rs"),
    (Cause::GcPause, "src/state/served.rs"),
];

/// Causes whose file in `findings/causes` is the manual only: packets do not show them.
const WITHOUT_PROOF: &[Cause] = &[
    Cause::ConntrackFull,
    Cause::ConntrackRace,
    Cause::PortExhaustion,
    Cause::CpuThrottled,
    Cause::CpuSaturation,
    Cause::EventLoopBlocked,
    Cause::WorkersExhausted,
    Cause::LockWait,
    Cause::GcPause,
    Cause::DiskWait,
    Cause::MemoryPressure,
];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
}

fn texts(folder: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    files(&here(folder), extension, &mut found);
    found.iter().map(|path| fs::read_to_string(path).expect("a text")).collect()
}

/// The causes that traces expect, and those whose absence they expect.
fn expected() -> [BTreeSet<Cause>; 2] {
    let [mut shown, mut absent] = [BTreeSet::new(), BTreeSet::new()];
    for text in texts("tests/traces", "trace") {
        for line in text.lines().filter_map(|line| line.strip_prefix("expect ")) {
            let mut words = line.split_whitespace().peekable();
            if words.next_if_eq(&"at").is_some() {
                words.next();
            }
            let is_absent = words.next_if_eq(&"no").is_some();
            words.next_if_eq(&"also");
            let Some(cause) = words.next().and_then(Cause::from_id) else { continue };
            if is_absent { &mut absent } else { &mut shown }.insert(cause);
        }
    }
    [shown, absent]
}

#[test]
fn every_cause_has_a_trace_and_a_negative_twin() {
    let [shown, absent] = expected();
    for &cause in Cause::ALL {
        if let Some((_, tests)) = WITHOUT_TRACE.iter().find(|(of, _)| *of == cause) {
            let text = fs::read_to_string(here(tests)).expect("the tests");
            let name = format!("{cause:?}");
            assert!(text.contains(&name) || text.contains(cause.id()), "{tests}: {name}");
            continue;
        }
        assert!(shown.contains(&cause), "no trace expects {}", cause.id());
        assert!(absent.contains(&cause), "no trace expects no {}", cause.id());
    }
}

#[test]
fn every_cause_has_a_case_in_the_lab() {
    let cases = texts("../lab/src/cases", "rs");
    for &cause in Cause::ALL {
        let [name, id] = [format!("Cause::{cause:?}"), format!("\"{}\"", cause.id())];
        let is_case = |text: &String| text.contains(&name) || text.contains(&id);
        assert!(cases.iter().any(is_case), "no case of {}", cause.id());
    }
}

#[test]
fn every_manual_names_a_case_of_the_lab() {
    let cases = texts("../lab/src/cases", "rs").concat();
    for &cause in Cause::ALL {
        let (_, reproduce) = manual(cause, Language::English)
            .split_once("\n## Reproduce\n")
            .expect("how to reproduce it");
        let named = reproduce.split("tcpwhy lab run ").skip(1);
        let named: Vec<_> = named.filter_map(|rest| rest.split(['`', ' ', '\n']).next()).collect();
        assert!(!named.is_empty(), "no case in the manual of {}", cause.id());
        for name in named {
            assert!(cases.contains(&format!("\"{name}\"")), "{}: no case {name}", cause.id());
        }
    }
}

#[test]
fn the_files_of_a_cause_have_its_name() {
    for &cause in Cause::ALL {
        let stem = format!("src/findings/causes/{}", cause.id());
        assert!(here(&format!("{stem}.md")).exists(), "{stem}.md");
        let has_proof = here(&format!("{stem}.rs")).exists();
        assert_eq!(has_proof, !WITHOUT_PROOF.contains(&cause), "{stem}.rs");
    }
}

fn ids<T: Copy>(all: &[T], id: fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().copied().map(id).collect()
}

#[test]
fn documents_list_every_cause_and_owner() {
    let read = |path: &str| fs::read_to_string(here(path)).expect("a document");
    let (causes, parquet) = (read("../../docs/causes.md"), read("../../docs/parquet.md"));
    for cause in ids(Cause::ALL, Cause::id) {
        assert!(causes.contains(&format!("`{cause}`")), "docs/causes.md lacks {cause}");
    }
    for owner in ids(Owner::ALL, Owner::id) {
        assert!(parquet.contains(&format!("`{owner}_ns`")), "docs/parquet.md lacks {owner}_ns");
    }
}

/// The page draws each owner in a colour, and hatches what a fault owns.
#[test]
fn the_page_has_a_colour_for_every_owner() {
    let palette = fs::read_to_string(here("../../web/src/palette.ts")).expect("the colours");
    let (colours, faults) = palette.split_once("const FAULTS").expect("a list of faults");
    for &owner in Owner::ALL.iter().filter(|&&owner| owner != Owner::Unknown) {
        let id = owner.id();
        assert!(
            colours.contains(&format!("  {id}: \"#")),
            "web/src/palette.ts: no colour for {id}"
        );
        let is_fault = Cause::from_id(id).is_some_and(|cause| cause.class() == Class::Fault);
        let is_hatched = faults.contains(&format!("\"{id}\""));
        assert_eq!(is_hatched, is_fault, "web/src/palette.ts: {id} in FAULTS");
    }
}
