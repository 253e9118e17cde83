//! Crates depend on each other in one direction: what reads a system and what audits it never depend
//! on what changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates, each with those that it depends on. Tests and build scripts are left out.
const DEPENDENCIES: [(&str, &[&str]); 12] = [
    ("compile-hooks", &[]),
    ("core", &[]),
    ("testing", &[]),
    ("live", &["core"]),
    ("host", &["core", "live"]),
    ("treat", &["core", "live"]),
    ("privileged", &["core", "host", "live"]),
    ("probe", &["core", "live"]),
    ("lab", &["live", "treat"]),
    ("cli", &["core", "host", "lab", "live", "privileged", "probe", "treat"]),
    ("browser", &["core"]),
    ("python", &["cli", "core"]),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Returns the crates of this repository that a manifest names in sections whose name `is_meant`.
fn named(folder: &str, is_meant: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let manifest = fs::read_to_string(crates().join(folder).join("Cargo.toml")).unwrap();
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if is_meant(section)
            && let Some((_, rest)) = line.split_once("path = \"../")
        {
            found.insert(rest.split('"').next().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn crates_depend_on_those_of_the_table() {
    let folders: BTreeSet<String> = fs::read_dir(crates())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let table: BTreeMap<&str, &[&str]> = DEPENDENCIES.into_iter().collect();
    assert_eq!(folders, table.keys().map(|&name| name.to_owned()).collect());
    for (name, allowed) in table {
        let depends = named(name, |section| {
            section.ends_with("dependencies]")
                && !section.contains("dev-")
                && !section.contains("build-")
        });
        assert_eq!(depends, allowed.iter().map(|&it| it.to_owned()).collect(), "crates/{name}");
    }
}

#[test]
fn what_reads_and_what_audits_never_depend_on_what_changes() {
    // Including what their tests and build scripts use.
    for name in ["core", "live", "host", "privileged", "probe"] {
        let mut reached = BTreeSet::new();
        let mut next = vec![name.to_owned()];
        while let Some(one) = next.pop() {
            if reached.insert(one.clone()) {
                next.extend(named(&one, |section| section.ends_with("dependencies]")));
            }
        }
        assert!(!reached.contains("treat"), "crates/{name} reaches crates/treat: {reached:?}");
    }
}

#[test]
fn architecture_describes_every_crate() {
    let text = fs::read_to_string(crates().parent().unwrap().join("ARCHITECTURE.md")).unwrap();
    for (name, _) in DEPENDENCIES {
        assert!(text.contains(&format!("- `crates/{name}`")), "crates/{name}");
    }
}
