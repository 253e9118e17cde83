//! Every trace in `tests/traces`: what it expects, and a snapshot of the report beside it.

use crate::diagnosis::{diagnose, render};
use crate::language::{Trace, parse};
use crate::network::capture;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the traces.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces")
}

/// All traces, by name.
pub fn traces() -> Vec<(String, Trace)> {
    let files = fs::read_dir(folder()).expect("the folder of the traces");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "trace"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, parse(&fs::read_to_string(&path).expect("a readable trace")))
        })
        .collect()
}

#[test]
fn every_trace_is_diagnosed_as_it_says() {
    let mut unmet = Vec::new();
    for (name, trace) in traces() {
        assert!(!trace.expectations.is_empty(), "{name} expects nothing");
        for &place in &trace.vantages {
            let report = diagnose(&capture(&trace, place));
            let wrong = trace.expectations.iter().filter_map(|one| one.unmet(place, &report));
            unmet.extend(wrong.map(|wrong| format!("{name} {wrong}")));
        }
    }
    assert!(unmet.is_empty(), "{}", unmet.join("\n"));
}

#[test]
fn reports_are_as_they_were() {
    for (name, trace) in traces() {
        let texts: Vec<_> = trace
            .vantages
            .iter()
            .map(|&place| {
                let report = diagnose(&capture(&trace, place));
                format!("== captured at the {}\n{}", place.word(), render(&report))
            })
            .collect();
        insta::with_settings!({
            snapshot_path => "../traces",
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, { insta::assert_snapshot!(name, texts.join("\n")) });
    }
}
